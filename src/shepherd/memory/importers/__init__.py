"""Memories from other programs: one module a format, each a generator of our records.

No file is ever held in memory as a whole, and nothing is known of the store that the records go into.
"""

from shepherd.memory.importers.records import Bad, Entry
from shepherd.memory.importers.source import FORMATS, IMPORTABLE, NO_EXPORT, Source

__all__ = ["FORMATS", "IMPORTABLE", "NO_EXPORT", "Bad", "Entry", "Source"]
