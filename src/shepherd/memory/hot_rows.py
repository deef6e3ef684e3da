"""Rows for hot indexes: an index is built page by page, and updated by the changes since. For both engines.

Memories stand for any corpus here; each has its own tables.

An index has the version of its user in `tenants`. Each memory that is added raises `version` and
`next_sequence` by one; a change of stored rows raises `version` by one and is listed in `context_changes`
with the rows. So either all versions between two states are accounted for, or something else happened (the
index of words was rebuilt, the list of changes was cut) and all rows are read again.

Versions come in the order of commits, also from writers that run at the same time: the statement that raises
`version` locks the user's row of `tenants` until its transaction ends, and the next one works on what that
committed (a file has one writer at a time anyway). So a reader of version 8 sees all that versions up to 8
have done, and a version that was rolled back is given again. Numbers of a sequence would not do: they are
handed out before the commit, and the smaller one may be committed last.

A server's tables can go back in time under a running process, and versions are given again for other rows.
There, each version has a random number, its mark, in the list of changes. An index is searched only for the
mark that it has, and updated only if the list still has that mark for its version. A file cannot go back: its
restore needs it alone. There, the version is the mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pyroaring import BitMap

from shepherd import transactions
from shepherd._native.hot import HotIndex
from shepherd.encryption import Sealer
from shepherd.memory.corpora import Corpus
from shepherd.memory.schema import memory_range

__all__ = [
    "KEPT_VERSIONS",
    "Ahead",
    "Connection",
    "Followed",
    "Tables",
    "build",
    "catch_up",
    "differences",
    "look_ahead",
    "mark_of",
    "mark_query",
    "note_changes",
]

# Rows per read transaction while everything is read: writers are not held up, and the log does not grow.
_PAGE = 500
# Versions in the list of changes: an index that is further behind reads everything again.
KEPT_VERSIONS = 4096


class Connection(Protocol):
    """A connection of either engine inside a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of the result."""

    def execute_together(
        self, statements: Sequence[tuple[str, Sequence[Any]]]
    ) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement."""


class Tables(Protocol):
    """A database as hot indexes need it: what differs between the engines. Thread-safe."""

    name: str
    """Path or address without a password, for messages."""
    read_only: bool
    folder: Path
    """Folder in which indexes are saved."""
    sealer: Sealer | None
    """Seals saved indexes; None where the tables are not encrypted either."""
    copy: str
    """Tells the saved indexes of several machines apart; "" where only one folder can have any."""
    has_marks: bool
    """True if each version has a random mark, as on a server."""
    most_at_once: int
    """Work (Ahead.work) up to which a thread brings the index up to date itself; the background does more."""
    patience_s: float
    """Time that a question waits for an index that is being changed, before it asks the tables."""

    def read(self) -> AbstractContextManager[Any]:
        """Return a read transaction, whose connection sees one moment; not repeated after an error."""

    def write(self) -> AbstractContextManager[Any]:
        """Return a write transaction, committed at the end of the block."""

    def search(self, connection: Any, tenant: int, *query: Any, **options: Any) -> list[Any]:
        """Return what Recall.search does, by the tables alone."""

    def ids(self, connection: Any, corpus: Corpus, first: int, last: int) -> list[tuple[int]]:
        """Return the ids of the rows in a range."""


def _rows_after(corpus: Corpus) -> str:
    """Return the SQL of the next rows of a range of ids."""
    return f"SELECT {_columns(corpus)} FROM {corpus.rows} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"


def mark_of(corpus: Corpus, *, has_marks: bool) -> str:
    """Return the SQL of the mark of a row of the sums: -2 without one, which no index has."""
    if not has_marks:
        return "version"
    # No rows, nothing that could have been otherwise.
    return (
        f"CASE version WHEN 0 THEN 0 ELSE coalesce((SELECT -min(m.id) FROM {corpus.changes} m"
        f" WHERE m.tenant = {corpus.sums}.number AND m.version = {corpus.sums}.version AND m.id < 0), -2) END"
    )


def mark_query(corpus: Corpus, *, has_marks: bool) -> str:
    """Return the SQL of the mark of a tenant."""
    return f"SELECT {mark_of(corpus, has_marks=has_marks)} FROM {corpus.sums} WHERE number = ?"


def _state(corpus: Corpus, *, has_marks: bool) -> str:
    """Return the SQL of a tenant's version, next sequence, number of rows, their length, and the mark."""
    mark = mark_of(corpus, has_marks=has_marks)
    return (
        f"SELECT version, {corpus.next_sequence}, n, total_length, {mark} FROM {corpus.sums} WHERE number = ?"
    )


def _columns(corpus: Corpus) -> str:
    """Return the columns of a row as HotIndex.add takes them."""
    return (
        f"id, {corpus.timestamp}, doc_len, {corpus.thread}, {corpus.label}, {corpus.asks},"
        f" {corpus.question}, {corpus.text}"
    )


@dataclass(slots=True)
class Followed:
    """A hot index and the state of its user at the last update."""

    corpus: Corpus
    tenant: int
    index: HotIndex
    version: int
    next_sequence: int
    mark: int | None
    """None: it is certain that the tables have had this version."""


def build(tables: Tables, corpus: Corpus, tenant: int) -> Iterator[Followed | None]:
    """Read all of a tenant's memories; yield None after each page, and at last an index to be updated.

    Each page is a transaction of its own; changes in between are in `context_changes`.
    """
    with tables.read() as connection:
        rows = connection.execute(_state(corpus, has_marks=tables.has_marks), (tenant,))
    version, next_sequence, _, _, mark = rows[0] if rows else (0, 1, 0, 0, 0)
    first, _ = memory_range(tenant)
    index = HotIndex(first)
    after, last = first - 1, first + next_sequence - 1
    while True:
        with tables.read() as connection:
            page = connection.execute(_rows_after(corpus), (after, last, _PAGE))
        if not page:
            break
        index.add(page)
        after = page[-1][0]
        yield None
    yield Followed(corpus, tenant, index, version, next_sequence, mark)


class Ahead(NamedTuple):
    """Changes that a transaction sees and an index does not have yet."""

    state: list[tuple[int, int, int, int, int]]
    changes: list[tuple[int, int]]
    is_known: bool
    """True if the index was built from an earlier state of these tables."""
    page: list[tuple[Any, ...]]  # the first of the new rows

    def work(self, followed: Followed) -> int:
        """Return about how much work the update is, in new rows."""
        if not self.state:
            return 0
        # A changed row is searched for in all lists: as much work as thousands of new ones.
        return self.state[0][1] - followed.next_sequence + 1000 * len(self.changes)


def look_ahead(connection: Connection, tables: Tables, followed: Followed, most: int = _PAGE) -> Ahead:
    """Read the changes since the index was updated, and at most `most` of the new rows, a page at most."""
    first, last = memory_range(followed.tenant)
    state, listed, page = connection.execute_together(
        [
            (_state(followed.corpus, has_marks=tables.has_marks), (followed.tenant,)),
            (
                f"SELECT version, id FROM {followed.corpus.changes} WHERE tenant = ?1 AND version >= ?2"
                " AND (id > 0 OR version = ?2)",
                (followed.tenant, followed.version),
            ),
            (_rows_after(followed.corpus), (first + followed.next_sequence - 1, last, min(most, _PAGE))),
        ]
    )
    # An index of version 0 has no rows.
    is_known = not tables.has_marks or followed.mark is None or followed.version == 0
    is_known = is_known or (followed.version, -(followed.mark or 0)) in listed
    changes = [change for change in listed if change[0] > followed.version]
    return Ahead(state, changes, is_known, page)


def catch_up(connection: Connection, followed: Followed, ahead: Ahead) -> bool:
    """Bring the index to the state that this transaction sees; return False if it has to be built again.

    Raises ValueError if rows and sums contradict each other.
    """
    if not ahead.state or not ahead.is_known:
        return False
    version, next_sequence, n_memories, total_length, mark = ahead.state[0]
    changes = ahead.changes
    n_added = next_sequence - followed.next_sequence
    n_changed = len({changed for changed, _ in changes})
    if n_added < 0 or version - followed.version != n_added + n_changed:
        return False
    if changes:
        _change(connection, followed, {memory_id for _, memory_id in changes})
    _add(connection, followed, next_sequence, ahead.page)
    followed.index.publish(mark, n_memories, total_length)
    followed.version, followed.next_sequence, followed.mark = version, next_sequence, mark
    return True


def _change(connection: Connection, followed: Followed, memory_ids: set[int]) -> None:
    # Rows that are new to the index are read as they are now.
    known = {i for i in memory_ids if i < followed.index.first_id + followed.next_sequence}
    if not known:
        return
    one = f"SELECT {_columns(followed.corpus)} FROM {followed.corpus.rows} WHERE id = ?"
    found = {i: rows[0] for i in known if (rows := connection.execute(one, (i,)))}
    followed.index.remove(known - found.keys())
    for row in found.values():
        followed.index.replace(row)


def _add(connection: Connection, followed: Followed, next_sequence: int, page: list[tuple[Any, ...]]) -> None:
    last = followed.index.first_id + next_sequence - 1
    while page:
        followed.index.add(page)
        after = page[-1][0]
        page = connection.execute(_rows_after(followed.corpus), (after, last, _PAGE)) if after < last else []


def differences(connection: Any, tables: Tables, followed: Followed) -> tuple[BitMap, BitMap]:
    """Return the sequences that only the index has, and those that only the table has, of one version."""
    first, last = memory_range(followed.tenant)
    indexed = BitMap(memoryview(followed.index.sequences()).cast("q"))
    stored = BitMap(row[0] - first for row in tables.ids(connection, followed.corpus, first, last))
    return indexed - stored, stored - indexed


def note_changes(
    connection: transactions.Connection, corpus: Corpus, tenant: int, version: int, row_ids: Iterable[int]
) -> None:
    """List the rows that `version` changed or removed, in the transaction that did."""
    connection.execute_many(
        f"INSERT INTO {corpus.changes}(tenant, version, id) VALUES(?, ?, ?) ON CONFLICT DO NOTHING",
        [(tenant, version, row_id) for row_id in row_ids],
    )
    connection.execute(
        f"DELETE FROM {corpus.changes} WHERE tenant = ? AND version <= ?", (tenant, version - KEPT_VERSIONS)
    )
