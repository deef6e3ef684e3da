"""Memories from elsewhere: one module a format, each a generator of our records that never holds the whole.

Knows foreign files; nothing of the store that the records go into.
"""

from shepherd.memory.importers.records import Bad, Entry
from shepherd.memory.importers.source import FORMATS, Source

__all__ = ["FORMATS", "Bad", "Entry", "Source"]
