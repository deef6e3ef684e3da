"""Keeps the database under max_db_size by deleting the oldest rows of the users who hold most.

Pages in use are limited, not the file: a reader keeps the file from shrinking, and pruning that waits for
that would delete everything. Nothing is compacted here: a VACUUM needs the whole size again and stops
writers.

The user who holds most is pruned first, so that nobody's rows displace those of a user who holds less. The
ledger goes first, then old conversations before memories, since what mattered in them has been stored as
memories; the latest conversation, pinned memories, facts and knowledge are never pruned. So knowledge is
stored only if its own user, and users who hold more than that user's knowledge, have enough to prune for it.

Shares are estimated from lengths of texts, on both engines; the engine measures the total. Inside the
caller's transaction, except `prune`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from shepherd._native import store as native
from shepherd.errors import StoreFullError
from shepherd.memory import forgetting, ledger, memories, sessions, tenants
from shepherd.memory.database import PAGE_COUNTS, Database, pages_in_use
from shepherd.memory.full_text import FULL_TEXT
from shepherd.memory.memories import TermIndex
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection

__all__ = [
    "OWN_BYTES_SQL",
    "Engine",
    "FileEngine",
    "Holder",
    "KnowledgeBytes",
    "holders",
    "knowledge_bytes",
    "prune",
    "take_some",
    "used_bytes",
    "write_within",
]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

# Rows per transaction: another writer waits a few milliseconds at most.
_MOST_ROWS = 128
# Pages of the full-text index to merge per transaction: its entries only free their pages when merged.
_MERGED_PAGES = 64
# Bytes by a row of `tenants`: the text of memories, as much again for their words, and conversations.
OWN_BYTES_SQL = "2 * bytes + message_bytes"
# A text that is cut into chunks is stored as itself, as its chunks and as their words. An edge counts half at
# either end. Only lengths are read: no engine reads a long text to return its length.
_KNOWLEDGE = (
    "SELECT user_id, CAST(sum(3 * (octet_length(source_text) + octet_length(title)"
    " + octet_length(description) + octet_length(notes)) + octet_length(metadata) + octet_length(link)"
    f" + {2 * tenants.ROW_BYTES} + {tenants.ROW_BYTES // 2} * n_edges) AS BIGINT) FROM nodes GROUP BY user_id"
)
# Adding, deleting or changing a node changes one of these; after a rollback they are as before.
_STATE = (
    "SELECT count(*), coalesce(sum(version), 0), coalesce(sum(next_node + next_edge), 0) FROM knowledge_sums"
)


# ---- shares of users


class Holder(NamedTuple):
    """A user with about the bytes of all rows and indexes; `memory_bytes` is text alone."""

    tenant: int
    user_id: str
    n: int
    memory_bytes: int
    all_bytes: int


class KnowledgeBytes:
    """Cache of `knowledge_bytes` while no knowledge changes. Only for committed rows."""

    # 100,000 nodes take a tenth of a second, and a full database needs it with every write.
    def __init__(self) -> None:
        self._known: tuple[object, Mapping[str, int]] = (None, {})

    def of(self, connection: Connection) -> Mapping[str, int]:
        """Return the bytes by user, as this transaction sees them."""
        [state] = connection.execute(_STATE)
        if self._known[0] != state:
            self._known = (state, knowledge_bytes(connection))
        return self._known[1]


def knowledge_bytes(connection: Connection) -> dict[str, int]:
    """Return about the bytes of each user's knowledge; users without any are missing."""
    return dict(connection.execute(_KNOWLEDGE))


def holders(connection: Connection, knowledge: Mapping[str, int], n_first: int) -> list[Holder]:
    """Return users, the one who holds most first: all, or without any knowledge the first `n_first`."""
    first = "" if knowledge else f" ORDER BY {OWN_BYTES_SQL} DESC, number LIMIT {n_first}"
    rows = connection.execute(f"SELECT number, user_id, n, bytes, {OWN_BYTES_SQL} FROM tenants{first}")
    found = [
        Holder(number, user_id, n, memory_bytes, own_bytes + knowledge.get(user_id, 0))
        for number, user_id, n, memory_bytes, own_bytes in rows
    ]
    return sorted(found, key=lambda holder: (-holder.all_bytes, holder.tenant))


# ---- engines


class Engine(Protocol):
    """The parts of pruning that differ between the engines, inside a transaction."""

    where: str
    terms: TermIndex

    def used(self, connection: Any, knowledge: Mapping[str, int] | None = None) -> int:
        """Return the bytes that max_db_size limits, including writes of this transaction.

        `knowledge`: `knowledge_bytes`, if the caller has it.
        """

    def lock(self, connection: Any, user_id: str) -> None:
        """Wait until nobody else writes for this user."""

    def settle(self, connection: Any) -> None:
        """Make deleted rows free their pages."""

    def note_pruned(self, connection: Any, memory_ids: Sequence[int]) -> None:
        """Tell a sync that nobody has forgotten these memories: other machines keep them."""


class FileEngine:
    """Engine for SQLite: pages, and one writer at a time."""

    terms = FULL_TEXT

    def __init__(self, where: str) -> None:
        self.where = where

    def used(self, connection: native.Connection, knowledge: Mapping[str, int] | None = None) -> int:
        """Return the bytes of the pages in use."""
        # A savepoint makes the full-text indexes write the pages that they would keep until the commit.
        connection.execute("SAVEPOINT measured")
        connection.execute("RELEASE measured")
        return used_bytes(connection)

    def lock(self, connection: native.Connection, user_id: str) -> None:
        """Do nothing: the transaction locks all users."""

    def settle(self, connection: native.Connection) -> None:
        """Merge a part of the full-text index."""
        connection.execute("INSERT INTO context_fts(context_fts, rank) VALUES('merge', ?)", (_MERGED_PAGES,))

    def note_pruned(self, connection: native.Connection, memory_ids: Sequence[int]) -> None:
        """Change what the triggers of sync/tables.py have logged, if this memory is synced."""
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sync_log'"):
            connection.execute_many(
                "UPDATE sync_log SET kind = 'pruned', note = '' WHERE kind = 'm-' AND id = ?",
                [(memory_id,) for memory_id in memory_ids],
            )


def used_bytes(connection: native.Connection) -> int:
    """Return the bytes of the pages in use, as this connection's transaction sees them."""
    return pages_in_use(connection.execute_together(PAGE_COUNTS))


# ---- pruning


def prune(database: Database, limit: int, knowledge: KnowledgeBytes | None = None, writer: str = "") -> int:
    """Delete the oldest rows, in small transactions, until the rest fits; return how many memories.

    `writer`: the user of the write that it is for, see take_some.
    """
    knowledge = knowledge or KnowledgeBytes()
    engine = FileEngine(database.path)
    n_removed = 0
    exhausted: set[int] = set()
    while True:
        with database.write() as connection:
            excess = used_bytes(connection) - limit
            if excess <= 0:
                return n_removed
            n_here = take_some(connection, engine, excess, knowledge.of(connection), exhausted, writer)
            if n_here is None:
                _log.warning("%s: still over max_db_size: what is left is never removed", database.path)
                return n_removed
            forgetting.note(connection)
            n_removed += n_here
            if used_bytes(connection) > limit:
                engine.settle(connection)


def write_within(
    connection: Any, engine: Engine, limit: int, writer: str, work: Callable[[Any], _Result]
) -> _Result:
    """Return the result of `work`, which writes knowledge; raise StoreFullError if it does not fit.

    Rows are pruned for it in the same transaction, so a refused write has cost nobody anything. A write that
    takes no more bytes is never refused.
    """
    before = engine.used(connection)
    result = work(connection)
    exhausted: set[int] = set()
    knowledge: Mapping[str, int] | None = None
    while (excess := engine.used(connection, knowledge) - max(limit, before)) > 0:
        knowledge = knowledge_bytes(connection) if knowledge is None else knowledge
        if take_some(connection, engine, excess, knowledge, exhausted, writer) is None:
            raise StoreFullError(
                f"{engine.where}: max_db_size leaves no room for this knowledge; nothing of it was stored",
                hint="raise max_db_size, or remove something: shepherd knowledge forget ID",
            )
        engine.settle(connection)
        forgetting.note(connection)
    return result


def take_some(
    connection: Any,
    engine: Engine,
    excess: int,
    knowledge: Mapping[str, int],
    exhausted: set[int],
    writer: str = "",
) -> int | None:
    """Delete a few rows of the user who holds most; return how many memories, None if it cannot be enough.

    Users who hold less than the knowledge of `writer` give nothing for its writes. Users with nothing left to
    prune are added to `exhausted`.
    """
    least = knowledge.get(writer, 0)
    first_ones = holders(connection, knowledge, len(exhausted) + 2)
    asked = [holder for holder in first_ones if holder.all_bytes >= least]
    givers = [holder for holder in asked if holder.tenant not in exhausted]
    if not givers or _is_in_vain(connection, excess, asked if knowledge else None):
        return None
    first = givers[0]
    lead = first.all_bytes - max(givers[1].all_bytes if len(givers) > 1 else 0, least)
    engine.lock(connection, first.user_id)
    n_removed = _take_from(connection, first, min(excess, lead // 2), engine)
    if n_removed is None:
        exhausted.add(first.tenant)
    return n_removed or 0


def _is_in_vain(connection: Connection, excess: int, asked: Sequence[Holder] | None) -> bool:
    """Return whether pruning all rows of the users `asked` (None: all users) would not be enough."""
    # One huge message can exceed the limit by itself. Text takes at most about its size again in the index;
    # if deleting all of it is not enough, no memory may be deleted.
    [(old_sessions, memory_bytes)] = connection.execute(
        "SELECT (SELECT count(*) FROM sessions) - (SELECT count(DISTINCT user_id) FROM sessions), sum(bytes)"
        " FROM tenants"
    )
    if asked is not None:
        memory_bytes = sum(holder.memory_bytes for holder in asked)
    return old_sessions == 0 and excess > 2 * memory_bytes and not sessions.have_traces(connection)


def _take_from(connection: Connection, first: Holder, wanted_bytes: int, engine: Engine) -> int | None:
    """Delete a few rows of a user; return how many memories, None if there is nothing to delete."""
    if ledger.clear(connection, first.user_id) or sessions.clear_traces(connection, first.user_id):
        return 0
    if sessions.drop_oldest(connection, first.user_id):
        return 0
    # Half of the estimate: the bytes that a row frees are only known afterwards, and too much would be lost.
    wanted = wanted_bytes * first.n // (2 * max(first.memory_bytes, 1))
    oldest = connection.execute(
        f"SELECT id FROM context WHERE id >> {SEQUENCE_BITS} = ? AND pinned = 0"
        " ORDER BY timestamp, id LIMIT ?",
        (first.tenant, min(max(wanted, 1), _MOST_ROWS)),
    )
    ids = [memory_id for (memory_id,) in oldest]
    n_deleted = memories.delete(connection, first.tenant, ids, engine.terms)
    engine.note_pruned(connection, ids)
    return n_deleted or None
