"""Import of files, folders, web pages and other programs' databases; a second import changes nothing."""

from shepherd.knowledge.importing.importer import import_from
from shepherd.knowledge.importing.web import WebLimits

__all__ = ["WebLimits", "import_from"]
