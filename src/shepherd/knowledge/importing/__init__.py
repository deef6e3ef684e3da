"""Import of files, folders, web pages and other programs' databases; a second import changes nothing.

`read_document` reads one without importing it.
"""

from shepherd.knowledge.importing.importer import (
    import_from,
    import_upload,
    read_document,
    read_upload,
)
from shepherd.knowledge.importing.web import WebLimits

__all__ = ["WebLimits", "import_from", "import_upload", "read_document", "read_upload"]
