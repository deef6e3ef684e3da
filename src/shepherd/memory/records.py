"""Records of the memory and its callers; those that other packages share are in shepherd.types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from shepherd.types import MemoryRecord, SearchResult

__all__ = [
    "IMPORT",
    "Activity",
    "ApiKey",
    "AuditFinding",
    "CheckReport",
    "Claim",
    "ClaimCounts",
    "EndedValue",
    "Evidence",
    "ExtractionJob",
    "ExtractionStats",
    "FactChange",
    "FactPeriod",
    "ImportCounts",
    "LearnedItem",
    "MemoryFilter",
    "MemoryStats",
    "NewMemory",
    "OpenJob",
    "SessionSummary",
    "Turn",
]

ItemKind = Literal["learned", "changed", "ended", "proposed", "remembered"]
ItemState = Literal["new", "kept", "undone", "accepted", "rejected", "expired"]
JobState = Literal["open", "waiting", "running", "dead", "done"]

# Beginning of the sources of all imports.
IMPORT = "import"


# Times that a question names: (first second, the one after the last) each.
Periods: TypeAlias = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Turn:
    """One exchange as it was typed. `timestamp` None is now; `session` is the id of its conversation."""

    question: str
    answer: str
    timestamp: float | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to be stored. `source`: user, turn, model, import, …"""

    question: str
    answer: str
    timestamp: int
    source: str = "user"
    session: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A fact that a line of an extraction job states, with the sentence that states it.

    `line`: index of the line, -1 for any. `changes`: the sentence says that it is new.
    """

    key: str
    value: str
    statement: str = ""
    line: int = -1
    changes: bool = False


@dataclass(frozen=True, slots=True)
class EndedValue:
    """The value of something that holds no longer. `kind`: that of an assertion, or "any".

    `key`: the key of the only fact that ends, "" for all that have the value.
    """

    value: str
    kind: str
    statement: str = ""
    line: int = -1
    key: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sentence that something was learned from, its conversation and the id of its message."""

    statement: str = ""
    session: str = ""
    message_id: int = 0


@dataclass(frozen=True, slots=True)
class FactChange:
    """One change of a fact; `value` None means that it was cleared.

    `valid_from`: from when on it holds, 0 for `changed_at`. `statement` is the sentence that it came from.
    """

    key: str
    value: str | None
    source: str
    changed_at: int
    valid_from: int = field(default=0, compare=False)
    statement: str = field(default="", compare=False)
    session: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class FactPeriod:
    """A value of a fact and the time in which it held, in unix seconds; `until` None: it still does.

    `recorded_at` is when the value was stored, and `statement` the sentence that it came from.
    """

    key: str
    value: str
    since: int
    until: int | None
    source: str
    statement: str
    recorded_at: int


@dataclass(frozen=True, slots=True)
class LearnedItem:
    """One fact or memory that was learned from the user's words, or that a tool call of a model stored.

    `id` counts the items that this user ever had. `kind` "remembered" is a memory; `key` is its question,
    `value` its answer. "proposed" in state "new" is a value that contradicts a fact that the user set, and
    waits to be accepted or rejected; "" proposes that the fact ends. `before` is the value until then, None
    if there was none.
    """

    id: int
    kind: ItemKind
    key: str
    value: str
    before: str | None
    statement: str
    session: str
    at: int
    state: ItemState


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Conditions for listing memories: all of them must hold.

    `sources`: one of these ("import" is any import), () for all; `pinned`: only those that are, or are not;
    from `since` on and before `until`, in unix seconds; `never_recalled`: only those that no message had
    beside it.
    """

    sources: tuple[str, ...] = ()
    pinned: bool | None = None
    since: int | None = None
    until: int | None = None
    never_recalled: bool = False

    def accepts(self, record: MemoryRecord | SearchResult, n_recalls: int) -> bool:
        """Return whether all conditions hold for a memory that was recalled so many times."""
        return (
            (not self.sources or any(_is_from(record.source, source) for source in self.sources))
            and self.pinned in (None, record.pinned)
            and (self.since is None or record.timestamp >= self.since)
            and (self.until is None or record.timestamp < self.until)
            and not (self.never_recalled and n_recalls)
        )


def _is_from(source: str, wanted: str) -> bool:
    return source.startswith(wanted) if wanted == IMPORT else source == wanted


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A stored conversation; times in unix seconds.

    `title` is the name that the user gave it, or the beginning of the first message, with secrets covered.
    """

    id: str
    model: str
    created_at: int
    updated_at: int
    n_messages: int
    title: str = ""


@dataclass(frozen=True, slots=True)
class SessionMark:
    """What was stored when a turn began; 0 where there was none.

    If the user, or the last message of the conversation, has been deleted since, the turn isn't stored: a
    deleted conversation would come back with it.
    """

    tenant: int = 0
    last_message: int = 0


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Counts of one user, and sizes of the whole database. Timestamps are 0 without memories.

    max_db_size limits `used_bytes`: pages in use, without free ones and the log. `hot_users` and `hot_bytes`
    are of this process, `hot_saved_bytes` of the indexes beside the file.
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
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Activity:
    """`per_source`: (days since 1970, source, number of memories); `recalled`: (id, number of recalls, last
    one); `never_recalled`: number of memories that were not recalled yet.
    """

    per_source: tuple[tuple[int, str, int], ...] = ()
    recalled: tuple[tuple[int, int, int], ...] = ()
    never_recalled: int = 0

    @property
    def per_day(self) -> tuple[tuple[int, int], ...]:
        """(days since 1970, number of memories of all sources)."""
        days: dict[int, int] = {}
        for day, _, n in self.per_source:
            days[day] = days.get(day, 0) + n
        return tuple(sorted(days.items()))


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Problems that a check found and repaired, in sentences without user text."""

    problems: tuple[str, ...] = ()
    repaired: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True if there is no problem, or all were repaired."""
        return len(self.problems) == len(self.repaired)

    def with_dropped(self, indexes: Sequence[str]) -> CheckReport:
        """Return the report with faults of hot indexes, which are repaired by dropping the index."""
        return CheckReport((*self.problems, *indexes), (*self.repaired, *indexes))


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """Memories that a person may want to look at, or a fact or a part of the knowledge with secrets.

    `kind`: duplicate, near-duplicate, echo, empty, tail, secret, never-recalled. `detail`: the kinds of
    secret, and where they are if that is no memory (then there are no ids).
    """

    kind: str
    ids: tuple[int, ...]
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ImportCounts:
    """Counts of the lines of an import; `secrets` were left out as such.

    `problems` has the first few skipped ones, by line number.
    """

    memories: int = 0
    facts: int = 0
    duplicates: int = 0
    skipped: int = 0
    secrets: int = 0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenJob:
    """The job of an appended message: the open one of its session and of the worker `owner`."""

    owner: str
    most_lines: int


@dataclass(frozen=True, slots=True)
class ExtractionJob:
    """Messages of one user from which facts and memories are extracted. Times are unix seconds.

    open: still growing; waiting: due; running; dead: given up after `refusals`; done. `next_try` is when a
    waiting job is due, and when an open or running one counts as abandoned. `error` is the last failure,
    without user text.
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
    """Number of a user's jobs in each state, and the results of the done ones."""

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
    """Record of a key without the key. `revoked_at` is 0 while it is valid."""

    id: str
    owner: str
    scopes: tuple[str, ...]
    label: str
    created_at: int
    revoked_at: int


@dataclass(frozen=True, slots=True)
class ClaimCounts:
    """Counts of rows moved to another user; `duplicates` are memories that the other had already."""

    memories: int = 0
    facts: int = 0
    sessions: int = 0
    duplicates: int = 0
