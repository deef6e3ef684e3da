"""Facts and question-and-answer memories of users: stored, ranked, and rendered for a message.

Depends on no model and no conversation in progress.
"""

from shepherd.memory.api_keys import ApiKeys
from shepherd.memory.extraction_queue import ExtractionQueue
from shepherd.memory.forgetting import Receipt
from shepherd.memory.memory import Memory
from shepherd.memory.records import (
    Activity,
    ApiKey,
    AuditFinding,
    CheckReport,
    Claim,
    ClaimCounts,
    EndedValue,
    Evidence,
    ExtractionJob,
    ExtractionStats,
    FactChange,
    FactPeriod,
    ImportCounts,
    LearnedItem,
    MemoryFilter,
    MemoryStats,
    NewMemory,
    OpenJob,
    SessionMark,
    SessionSummary,
    Turn,
)
from shepherd.memory.store import MemoryStore

__all__ = [
    "Activity",
    "ApiKey",
    "ApiKeys",
    "AuditFinding",
    "CheckReport",
    "Claim",
    "ClaimCounts",
    "EndedValue",
    "Evidence",
    "ExtractionJob",
    "ExtractionQueue",
    "ExtractionStats",
    "FactChange",
    "FactPeriod",
    "ImportCounts",
    "LearnedItem",
    "Memory",
    "MemoryFilter",
    "MemoryStats",
    "MemoryStore",
    "NewMemory",
    "OpenJob",
    "Receipt",
    "SessionMark",
    "SessionSummary",
    "Turn",
]
