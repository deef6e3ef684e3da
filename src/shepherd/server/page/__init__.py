"""The memory page at `/`: files that are the same for everybody; what it shows, it asks of the resources.

Knows nothing of memories or keys.
"""

from shepherd.server.page.files import PATHS, router

__all__ = ["PATHS", "router"]
