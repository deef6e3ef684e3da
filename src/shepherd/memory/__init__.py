"""Facts and question-and-answer memories of users: stored, ranked, and rendered for a message.

Knows nothing of models or conversations in progress; works alone.
"""

from shepherd.memory.memory import Memory
from shepherd.memory.records import (
    AuditFinding,
    CheckReport,
    FactChange,
    ImportCounts,
    MemoryStats,
    SessionSummary,
    Turn,
)
from shepherd.memory.store import MemoryStore

__all__ = [
    "AuditFinding",
    "CheckReport",
    "FactChange",
    "ImportCounts",
    "Memory",
    "MemoryStats",
    "MemoryStore",
    "SessionSummary",
    "Turn",
]
