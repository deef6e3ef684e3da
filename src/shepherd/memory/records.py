"""Records of the memory that only its callers need; those that travel further are in shepherd.types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "Activity",
    "ApiKey",
    "AuditFinding",
    "CheckReport",
    "ClaimCounts",
    "ExtractionJob",
    "ExtractionStats",
    "FactChange",
    "ImportCounts",
    "MemoryStats",
    "NewMemory",
    "OpenJob",
    "SessionSummary",
    "Turn",
]

JobState = Literal["open", "waiting", "running", "dead", "done"]


# Times that a question names: (first second, the one after the last) of each.
Periods: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange as it was said. `timestamp` None is now; `session` is the conversation it belongs to."""

    question: str
    answer: str
    timestamp: float | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory on its way into the store. `source` says who wrote it: user, turn, model, import …"""

    question: str
    answer: str
    timestamp: int
    source: str = "user"
    session: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class FactChange:
    """One change of a fact; `value` None means that it was cleared."""

    key: str
    value: str | None
    source: str
    changed_at: int


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A stored conversation; times in unix seconds."""

    id: str
    model: str
    created_at: int
    updated_at: int
    n_messages: int


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Counts of one user, and sizes of the whole file. Timestamps are 0 without memories.

    `used_bytes` is what max_db_size limits: pages in use, without free ones and without the log. Hot
    indexes are those of this process, the saved ones those beside the file.
    """

    memories: int = 0
    pinned: int = 0
    facts: int = 0
    sessions: int = 0
    oldest_timestamp: int = 0
    newest_timestamp: int = 0
    used_bytes: int = 0
    file_bytes: int = 0
    limit_bytes: int = 0
    path: str = ""
    hot_users: int = 0
    hot_bytes: int = 0
    hot_saved_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """`per_day`: (days since 1970, memories from then); `recalled`: (id, how often, when last)."""

    per_day: tuple[tuple[int, int], ...] = ()
    recalled: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found and what it repaired, in sentences without user text."""

    problems: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong, or all that was wrong has been repaired."""
        return len(self.problems) == len(self.repaired)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Memories that a person may want to look at.

    `kind`: duplicate, near-duplicate, echo, empty, tail, secret, never-recalled. `detail` says more: the
    kinds of secret, and the key of the fact that they are in (then there are no ids).
    """

    kind: str
    ids: tuple[int, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """What became of the lines of an import; `problems` has the first few of the skipped, by line number."""

    memories: int = 0
    facts: int = 0
    duplicates: int = 0
    skipped: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenJob:
    """Where an appended message is queued: in the open job of its session and of the worker `owner`."""

    owner: str
    most_lines: int


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """What one user said, to be made facts and memories. Times are unix seconds.

    open: still growing; waiting: due; running; dead: given up after `refusals`; done. `next_try` is when a
    waiting one is due, and when an open or running one counts as abandoned.
    `error` is the last failure, without user text.
    """

    id: int
    user_id: str
    session_id: str
    message_ids: tuple[int, ...]
    lines: tuple[str, ...]
    state: JobState
    owner: str
    attempts: int
    refusals: int
    next_try: float
    told_at: int
    error: str


@dataclass(frozen=True, slots=True)
class ExtractionStats:
    """How many jobs of a user are in which state, and what the done ones gave."""

    open: int = 0
    waiting: int = 0
    running: int = 0
    dead: int = 0
    done: int = 0
    facts: int = 0
    memories: int = 0
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is stored of a key: whose it is and what it may do. `revoked_at` is 0 while it is good."""

    id: str
    owner: str
    scopes: tuple[str, ...]
    label: str
    created_at: int
    revoked_at: int


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """What was moved to another user; `duplicates` are memories that he had already."""

    memories: int = 0
    facts: int = 0
    sessions: int = 0
    duplicates: int = 0
