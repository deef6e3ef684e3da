"""From rows to a hot index: built page by page, and brought up to date from what has changed since.

Knows which rows a version of a user's memories stands for; nothing of threads, limits or files. What is said
of memories holds for the chunks of knowledge too, which have tables of their own (Tables).

An index belongs to a version of its user in `tenants`. Each memory that is added raises `version` and
`next_sequence` by one; a change of stored rows raises `version` by one and names the rows in
`context_changes`. So the versions between two states are all accounted for, or something else happened
(FTS5's index was made again, the list of changes was cut) and all rows are read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyroaring import BitMap

from shepherd._native.hot import HotIndex
from shepherd._native.store import Connection
from shepherd.memory.schema import memory_range

__all__ = [
    "CHUNKS",
    "MEMORIES",
    "Ahead",
    "Followed",
    "Tables",
    "build",
    "catch_up",
    "differences",
    "look_ahead",
]

# Rows per read transaction while everything is read: writers are not held up, and the log does not grow.
_PAGE = 500


class Tables(NamedTuple):
    """Where the rows of a corpus lie; recall.c has the same tables. `name` is of the saved indexes."""

    name: str
    noun: str
    sums: str
    next_sequence: str
    rows: str
    columns: str
    changes: str
    ids: str
    # A guess of an index's size before it is there: bytes per row, of users with many and with few.
    bytes_per_row: int

    @property
    def after(self) -> str:
        """The next rows of a range of ids."""
        return f"SELECT {self.columns} FROM {self.rows} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"

    @property
    def one(self) -> str:
        """One row."""
        return f"SELECT {self.columns} FROM {self.rows} WHERE id = ?"

    @property
    def version(self) -> str:
        """Version of a tenant."""
        return f"SELECT version FROM {self.sums} WHERE number = ?"

    @property
    def changed_since(self) -> str:
        """Which rows of a tenant changed or went after a version."""
        return f"SELECT version, id FROM {self.changes} WHERE tenant = ? AND version > ?"

    @property
    def state(self) -> str:
        """Version, next sequence, number of rows and their length, of a tenant."""
        return f"SELECT version, {self.next_sequence}, n, total_length FROM {self.sums} WHERE number = ?"


MEMORIES = Tables(
    name="",
    noun="memories",
    sums="tenants",
    next_sequence="next_sequence",
    rows="context",
    columns="id, timestamp, doc_len, thread, label, asks, user_message, assistant_response",
    changes="context_changes",
    ids="context INDEXED BY context_docs",
    bytes_per_row=240,
)
CHUNKS = Tables(
    name="chunks-",
    noun="chunks",
    sums="knowledge_sums",
    next_sequence="next_chunk",
    rows="chunks",
    columns="id, 0, doc_len, node_id, 0, 0, '', text",
    changes="chunk_changes",
    ids="chunks INDEXED BY chunks_docs",
    bytes_per_row=1000,
)


@dataclass(slots=True)
class Followed:
    """A hot index and the state of its user that it was last brought to."""

    tables: Tables
    tenant: int
    index: HotIndex
    version: int
    next_sequence: int


def build(
    read: Callable[[], AbstractContextManager[Connection]], tables: Tables, tenant: int
) -> Iterator[Followed | None]:
    """Reads all of a tenant's memories; yields None after each page, and at last an index to be caught up.

    Each page is a transaction of its own: what changes meanwhile is in `context_changes`.
    """
    with read() as connection:
        rows = connection.execute(tables.state, (tenant,))
    version, next_sequence = rows[0][:2] if rows else (0, 1)
    first, _ = memory_range(tenant)
    index = HotIndex(first)
    after, last = first - 1, first + next_sequence - 1
    while True:
        with read() as connection:
            page = connection.execute(tables.after, (after, last, _PAGE))
        if not page:
            break
        index.add(page)
        after = page[-1][0]
        yield None
    yield Followed(tables, tenant, index, version, next_sequence)


class Ahead(NamedTuple):
    """What a transaction sees that an index does not have yet."""

    state: list[tuple[int, int, int, int]]
    changes: list[tuple[int, int]]
    page: list[tuple[Any, ...]]  # the first of the new rows

    def work(self, followed: Followed) -> int:
        """About how much is to be done, in new rows."""
        if not self.state:
            return 0
        # A changed row has to be looked for in all lists: as much as thousands of new ones.
        return self.state[0][1] - followed.next_sequence + 1000 * len(self.changes)


def look_ahead(connection: Connection, followed: Followed, most: int = _PAGE) -> Ahead:
    """Reads what has changed since, at once; of the new rows at most so many."""
    first, last = memory_range(followed.tenant)
    return Ahead(
        *connection.execute_together(
            [
                (followed.tables.state, (followed.tenant,)),
                (followed.tables.changed_since, (followed.tenant, followed.version)),
                (followed.tables.after, (first + followed.next_sequence - 1, last, most)),
            ]
        )
    )


def catch_up(connection: Connection, followed: Followed, ahead: Ahead) -> bool:
    """Brings the index to the state that this transaction sees; False: it has to be built again.

    ValueError when rows and sums do not fit together.
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
    found = {i: rows[0] for i in known if (rows := connection.execute(followed.tables.one, (i,)))}
    followed.index.remove(known - found.keys())
    for row in found.values():
        followed.index.replace(row)


def _add(connection: Connection, followed: Followed, next_sequence: int, page: list[tuple[Any, ...]]) -> None:
    last = followed.index.first_id + next_sequence - 1
    while page:
        followed.index.add(page)
        after = page[-1][0]
        page = connection.execute(followed.tables.after, (after, last, _PAGE)) if after < last else []


def differences(connection: Connection, followed: Followed) -> tuple[BitMap, BitMap]:
    """Sequences that only the index has, and those that only the table has; both of the same version."""
    first, last = memory_range(followed.tenant)
    indexed = BitMap(memoryview(followed.index.sequences()).cast("q"))
    stored = BitMap(
        memory_id - first
        for (memory_id,) in connection.execute(
            f"SELECT id FROM {followed.tables.ids} WHERE id BETWEEN ? AND ?", (first, last)
        )
    )
    return indexed - stored, stored - indexed
