"""Keeps the database under max_db_size by removing what is oldest, from those who hold most.

What counts is pages in use, not the file: a reader keeps the file from shrinking, and pruning that waits for
that removes everything. Nothing is compacted here: a VACUUM needs the whole size again and stops writers.

The user who holds most gives first, so that nobody's rows push out those of somebody who holds less: the
ledger first, then old conversations before memories, since what mattered in them has been stored as memories;
never the latest conversation, never pinned memories, never facts, never knowledge. So knowledge comes in only
as far as its own user, and those who hold more than his knowledge takes, can make room for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from shepherd._native import store as native
from shepherd.errors import StoreFullError
from shepherd.memory import ledger, memories, sessions, traces
from shepherd.memory.connection import Connection
from shepherd.memory.database import PAGE_COUNTS, Database, pages_in_use
from shepherd.memory.memories import TermIndex
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.memory.shares import Holder, KnowledgeBytes, holders, knowledge_bytes

__all__ = ["Engine", "FileEngine", "prune", "take_some", "used_bytes", "write_within"]

_Result = TypeVar("_Result")

_log = logging.getLogger(__name__)

# Rows per transaction: a writer beside us waits a few milliseconds at most.
_MOST_ROWS = 128
# Pages of the full-text index to merge per transaction: its entries only free their pages when merged.
_MERGED_PAGES = 64


class Engine(Protocol):
    """What is different between the engines, inside a transaction."""

    where: str
    terms: TermIndex

    def used(self, connection: Any, knowledge: Mapping[str, int] | None = None) -> int:
        """Bytes that max_db_size limits, with what this transaction has written.

        `knowledge`: knowledge_bytes, where the caller has it.
        """

    def lock(self, connection: Any, user_id: str) -> None:
        """Waits until nobody else writes for this user."""

    def settle(self, connection: Any) -> None:
        """Lets what was removed free its pages."""


class FileEngine:
    """Engine for SQLite: pages, and one writer at a time."""

    terms = memories.FULL_TEXT

    def __init__(self, where: str) -> None:
        self.where = where

    def used(self, connection: native.Connection, knowledge: Mapping[str, int] | None = None) -> int:
        """Bytes of the pages in use."""
        # A savepoint makes the full-text indexes write what they would have kept until the commit.
        connection.execute("SAVEPOINT measured")
        connection.execute("RELEASE measured")
        return used_bytes(connection)

    def lock(self, connection: native.Connection, user_id: str) -> None:
        """The transaction has all users."""

    def settle(self, connection: native.Connection) -> None:
        """Merges a part of the full-text index."""
        connection.execute("INSERT INTO context_fts(context_fts, rank) VALUES('merge', ?)", (_MERGED_PAGES,))


def used_bytes(connection: native.Connection) -> int:
    """Bytes of the pages in use, as this connection's transaction sees them."""
    return pages_in_use(connection.execute_together(PAGE_COUNTS))


def prune(database: Database, limit: int, knowledge: KnowledgeBytes | None = None, writer: str = "") -> int:
    """Removes what is oldest, in small transactions, until the rest fits; how many memories that were.

    `writer`: whose write it is for, see take_some.
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
                _log.warning("%s: over max_db_size by what may not be removed", database.path)
                return n_removed
            n_removed += n_here
            if used_bytes(connection) > limit:
                engine.settle(connection)


def write_within(
    connection: Any, engine: Engine, limit: int, writer: str, work: Callable[[Any], _Result]
) -> _Result:
    """What `work` returns, which writes knowledge of `writer`; StoreFullError where there is no room for it.

    What makes room goes in the same transaction: a write that is refused has cost nobody anything. One that
    takes nothing more is never refused.
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
    return result


def take_some(
    connection: Any,
    engine: Engine,
    excess: int,
    knowledge: Mapping[str, int],
    exhausted: set[int],
    writer: str = "",
) -> int | None:
    """Takes a little from whoever holds most; how many memories. None: it cannot be enough.

    Who holds less than the knowledge of `writer` takes gives nothing for his writes. Who has nothing to give
    is put into `exhausted`.
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
    n_removed = _take_from(connection, first, min(excess, lead // 2), engine.terms)
    if n_removed is None:
        exhausted.add(first.tenant)
    return n_removed or 0


def _is_in_vain(connection: Connection, excess: int, asked: Sequence[Holder] | None) -> bool:
    """Whether all that may be removed would not be enough, of those `asked` to give; None: of everybody."""
    # One huge message can exceed the limit by itself. Text takes at most about its size again in the index;
    # what all of that cannot cure must not cost every memory.
    [(old_sessions, memory_bytes)] = connection.execute(
        "SELECT (SELECT count(*) FROM sessions) - (SELECT count(DISTINCT user_id) FROM sessions), sum(bytes)"
        " FROM tenants"
    )
    if asked is not None:
        memory_bytes = sum(holder.memory_bytes for holder in asked)
    return old_sessions == 0 and excess > 2 * memory_bytes and not traces.are_any(connection)


def _take_from(connection: Connection, first: Holder, wanted_bytes: int, terms: TermIndex) -> int | None:
    """Takes a little from a user; how many memories, None when there is nothing to take."""
    if ledger.clear(connection, first.user_id) or traces.clear_some(connection, first.user_id):
        return 0
    if sessions.drop_oldest(connection, first.user_id):
        return 0
    # Half of what seems to be needed: what a row frees shows only afterwards, and too much would be lost.
    wanted = wanted_bytes * first.n // (2 * max(first.memory_bytes, 1))
    oldest = connection.execute(
        f"SELECT id FROM context WHERE id >> {SEQUENCE_BITS} = ? AND pinned = 0"
        " ORDER BY timestamp, id LIMIT ?",
        (first.tenant, min(max(wanted, 1), _MOST_ROWS)),
    )
    return memories.delete(connection, first.tenant, [memory_id for (memory_id,) in oldest], terms) or None
