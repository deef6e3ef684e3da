"""Rows for hot indexes: an index is built page by page, and updated by the changes since.

Memories stand for any corpus here; each has its own tables.

An index has the version of its user in `tenants`. Each memory that is added raises `version` and
`next_sequence` by one; a change of stored rows raises `version` by one and is listed in `context_changes`
with the rows. So either all versions between two states are accounted for, or something else happened (FTS5's
index was rebuilt, the list of changes was cut) and all rows are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyroaring import BitMap

from shepherd._native.hot import HotIndex
from shepherd._native.store import Connection
from shepherd.memory.corpora import Corpus
from shepherd.memory.schema import memory_range

__all__ = [
    "Ahead",
    "Followed",
    "build",
    "catch_up",
    "differences",
    "look_ahead",
]

# Rows per read transaction while everything is read: writers are not held up, and the log does not grow.
_PAGE = 500


def _rows_after(corpus: Corpus) -> str:
    """Return the SQL of the next rows of a range of ids."""
    return f"SELECT {_columns(corpus)} FROM {corpus.rows} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"


def _state(corpus: Corpus) -> str:
    """Return the SQL of a tenant's version, next sequence, number of rows and their length."""
    return f"SELECT version, {corpus.next_sequence}, n, total_length FROM {corpus.sums} WHERE number = ?"


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


def build(
    read: Callable[[], AbstractContextManager[Connection]], corpus: Corpus, tenant: int
) -> Iterator[Followed | None]:
    """Read all of a tenant's memories; yield None after each page, and at last an index to be updated.

    Each page is a transaction of its own; changes in between are in `context_changes`.
    """
    with read() as connection:
        rows = connection.execute(_state(corpus), (tenant,))
    version, next_sequence = rows[0][:2] if rows else (0, 1)
    first, _ = memory_range(tenant)
    index = HotIndex(first)
    after, last = first - 1, first + next_sequence - 1
    while True:
        with read() as connection:
            page = connection.execute(_rows_after(corpus), (after, last, _PAGE))
        if not page:
            break
        index.add(page)
        after = page[-1][0]
        yield None
    yield Followed(corpus, tenant, index, version, next_sequence)


class Ahead(NamedTuple):
    """Changes that a transaction sees and an index does not have yet."""

    state: list[tuple[int, int, int, int]]
    changes: list[tuple[int, int]]
    page: list[tuple[Any, ...]]  # the first of the new rows

    def work(self, followed: Followed) -> int:
        """Return about how much work the update is, in new rows."""
        if not self.state:
            return 0
        # A changed row is searched for in all lists: as much work as thousands of new ones.
        return self.state[0][1] - followed.next_sequence + 1000 * len(self.changes)


def look_ahead(connection: Connection, followed: Followed, most: int = _PAGE) -> Ahead:
    """Read the changes since the index was updated, and at most `most` of the new rows."""
    first, last = memory_range(followed.tenant)
    return Ahead(
        *connection.execute_together(
            [
                (_state(followed.corpus), (followed.tenant,)),
                (
                    f"SELECT version, id FROM {followed.corpus.changes} WHERE tenant = ? AND version > ?",
                    (followed.tenant, followed.version),
                ),
                (_rows_after(followed.corpus), (first + followed.next_sequence - 1, last, most)),
            ]
        )
    )


def catch_up(connection: Connection, followed: Followed, ahead: Ahead) -> bool:
    """Bring the index to the state that this transaction sees; return False if it has to be built again.

    Raises ValueError if rows and sums contradict each other.
    """
    if not ahead.state:
        return False
    version, next_sequence, n_memories, total_length = ahead.state[0]
    changes = ahead.changes
    n_added = next_sequence - followed.next_sequence
    n_changed = len({changed for changed, _ in changes})
    if n_added < 0 or version - followed.version != n_added + n_changed:
        return False
    if changes:
        _change(connection, followed, {memory_id for _, memory_id in changes})
    _add(connection, followed, next_sequence, ahead.page)
    followed.index.publish(version, n_memories, total_length)
    followed.version, followed.next_sequence = version, next_sequence
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


def differences(connection: Connection, followed: Followed) -> tuple[BitMap, BitMap]:
    """Return the sequences that only the index has, and those that only the table has, of one version."""
    first, last = memory_range(followed.tenant)
    table = followed.corpus.rows
    indexed = BitMap(memoryview(followed.index.sequences()).cast("q"))
    stored = BitMap(
        memory_id - first
        for (memory_id,) in connection.execute(
            f"SELECT id FROM {table} INDEXED BY {table}_docs WHERE id BETWEEN ? AND ?", (first, last)
        )
    )
    return indexed - stored, stored - indexed
