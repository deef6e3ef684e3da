"""Memories: rows of `context`, their terms in the engine's index and their sums in `tenants`.

The three always change together, inside the caller's transaction.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from shepherd.errors import UsageError
from shepherd.memory import discourse, tenants
from shepherd.memory.records import IMPORT, MemoryFilter, NewMemory
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.transactions import Connection
from shepherd.types import MemoryRecord

__all__ = [
    "INSERT_MEMORY",
    "MEMORY_COLUMNS",
    "ORDERS",
    "TEXTS_SQL",
    "USER",
    "Deleted",
    "NewRows",
    "TermIndex",
    "content_hash",
    "count",
    "delete",
    "delete_and_keep",
    "delete_question",
    "describe",
    "edit",
    "fold_question",
    "get",
    "page",
    "page_of",
    "pin",
    "reindex",
    "restore",
    "unambiguous_hash",
]

# Number, next sequence, and what discourse.Neighbour needs of the memory before that.
USER = (
    "SELECT t.number, t.next_sequence, c.thread, c.timestamp, c.session FROM tenants t"
    " LEFT JOIN context c ON c.user_id = t.user_id"
    f" AND c.id = (t.number << {SEQUENCE_BITS} | (t.next_sequence - 1))"
    " WHERE t.user_id = ?"
)
MEMORY_COLUMNS = (
    "id, user_message, assistant_response, timestamp, content_hash, user_id, doc_len, pinned, source,"
    " session, thread, label, asks, pairs"
)
INSERT_MEMORY = f"INSERT INTO context({MEMORY_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
# The list of what was learned must not keep a text that its memory has not.
_FORGET_ITEM = "DELETE FROM learned WHERE memory_id = ?"
_FORGET_RECALLS = "DELETE FROM recalls WHERE id = ?"
# Another program may have stored bytes.
TEXTS_SQL = "CAST(user_message AS TEXT), CAST(assistant_response AS TEXT)"
_RECORD = "id, user_message, assistant_response, timestamp, pinned, source"
_PAGE = 500
_ALL = MemoryFilter()
_N_RECALLS = "coalesce((SELECT n FROM recalls r WHERE r.id = context.id), 0)"
# Orders of a list by their names.
ORDERS = {
    "newest": "timestamp DESC, id DESC",
    "oldest": "timestamp, id",
    "recalled": f"{_N_RECALLS} DESC, timestamp DESC, id DESC",
}
# Memories of one statement.
_AT_ONCE = 32
_PLACES = f"({', '.join('?' * _AT_ONCE)})"


class Deleted(NamedTuple):
    """A deleted memory: its row, and the number and the time of its recalls."""

    row: tuple[Any, ...]
    recalls: tuple[int, int] | None

    @property
    def id(self) -> int:
        """Id of the memory."""
        return int(self.row[0])

    @property
    def known_since(self) -> int:
        """Time in unix seconds before which nothing can have its words; 0 where any time was given."""
        return int(self.row[3]) if self.row[8] == "turn" else 0


class TermIndex(Protocol):
    """The index that an engine searches memories by."""

    def add(self, connection: Any, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Store memories; return the id of each, and whether it is new (else that of the identical one)."""

    def put(
        self, connection: Connection, tenant: int, memory_id: int, question: str, answer: str, source: str
    ) -> int:
        """Add the terms of a stored memory, and set the columns computed from its text; return its length."""

    def remove(self, connection: Connection, memory_id: int, question: str, answer: str) -> None:
        """Remove the terms of a memory with these texts."""

    def note_changes(
        self, connection: Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        """Record for indexes in main memory which memories `version` changed or removed."""


def content_hash(question: str, answer: str) -> str:
    """Return the SHA-256 in hex of the question directly followed by the answer."""
    return hashlib.sha256((question + answer).encode()).hexdigest()


def unambiguous_hash(question: str, answer: str) -> str:
    """Return the hash for a memory whose content_hash is taken: "ab" + "c" and "a" + "bc" share theirs."""
    return hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()


# ---- adding


class NewRows(ABC):
    """Rows of one user's new memories, collected before an engine inserts them together.

    `user`: columns of USER, None for a user without a number yet. `known`: id and question of the stored
    memories with the hashes of the new ones.
    """

    def __init__(
        self,
        connection: Connection,
        user_id: str,
        user: Sequence[Any] | None,
        known: Mapping[str, tuple[int, str]],
    ) -> None:
        self.connection, self.user_id = connection, user_id
        self._known = dict(known)
        self._before: discourse.Neighbour | None = None
        if user is None:
            self.tenant, self._sequence = tenants.ensure(connection, user_id), 1
        else:
            self.tenant, self._sequence, *before = user
            self._before = None if before[0] is None else discourse.Neighbour(*before)
        self.rows: list[tuple[Any, ...]] = []
        self._size = 0

    @property
    def sums(self) -> tuple[int, int, int, int]:
        """Number of rows, sum of their lengths, bytes of text with ROW_BYTES each, and the tenant."""
        return len(self.rows), sum(row[6] for row in self.rows), self._size, self.tenant

    def place(self, memory: NewMemory, digest: str) -> tuple[int, bool]:
        """Return the id of a memory with this content_hash, and whether it is new and gets a row."""
        known = self._known.get(digest)
        if known is not None and known[1] != memory.question:
            digest = unambiguous_hash(memory.question, memory.answer)
            known = self._known.get(digest) or self.find_stored(digest)
        if known is not None:
            return known[0], False
        memory_id = self.tenant << SEQUENCE_BITS | self._sequence
        self._known[digest] = (memory_id, memory.question)
        question, answer = memory.question, memory.answer
        signs = discourse.signs(question, answer, memory.source)
        length, n_bytes = self.add_terms(memory_id, memory, signs)
        thread = discourse.thread(self._sequence, memory.timestamp, memory.session, self._before)
        self.rows.append(
            (memory_id, question, answer, memory.timestamp, digest, self.user_id, length,
             int(memory.pinned), memory.source, memory.session, thread,
             discourse.label(question, answer), signs, discourse.pairs_of(question, answer, signs))
        )  # fmt: skip
        self._before = discourse.Neighbour(thread, memory.timestamp, memory.session)
        self._size += n_bytes + tenants.ROW_BYTES
        self._sequence += 1
        return memory_id, True

    @abstractmethod
    def find_stored(self, digest: str) -> tuple[int, str] | None:
        """Return id and question of the stored memory of an unambiguous hash that is not in `known`."""

    @abstractmethod
    def add_terms(self, memory_id: int, memory: NewMemory, signs: int) -> tuple[int, int]:
        """Collect the terms of a new memory; return its length and the bytes of its text."""


# ---- changing


def edit(
    connection: Connection,
    tenant: int,
    memory_id: int,
    question: str | None,
    answer: str | None,
    terms: TermIndex,
) -> bool:
    """Replace the texts that are not None; return whether there is such a memory.

    Raises UsageError if another memory already has the same texts.
    """
    known = get(connection, tenant, memory_id)
    if known is None:
        return False
    question = known.question if question is None else question
    answer = known.answer if answer is None else answer
    digest = content_hash(question, answer)
    other = _same_hash(connection, tenant, digest)
    if other is not None and other[1] != question:
        digest = unambiguous_hash(question, answer)
        other = _same_hash(connection, tenant, digest)
    if other is not None and other[0] != memory_id:
        raise UsageError(
            f"memory {memory_id}: memory {other[0]} already says exactly this", hint="delete one of the two"
        )
    connection.execute(_FORGET_ITEM, (memory_id,))
    [old_texts] = connection.execute(f"SELECT {TEXTS_SQL} FROM context WHERE id = ?", (memory_id,))
    terms.remove(connection, memory_id, *old_texts)
    [(old_length, old_size)] = connection.execute(
        f"SELECT doc_len, {tenants.MEMORY_BYTES_SQL} FROM context WHERE id = ?", (memory_id,)
    )
    length = terms.put(connection, tenant, memory_id, question, answer, known.source)
    [(size,)] = connection.execute(
        "UPDATE context SET user_message = ?, assistant_response = ?, content_hash = ? WHERE id = ?"
        f" RETURNING {tenants.MEMORY_BYTES_SQL}",
        (question, answer, digest, memory_id),
    )
    [(version,)] = connection.execute(
        "UPDATE tenants SET total_length = total_length + ?, bytes = bytes + ?, version = version + 1,"
        " edits = edits + 1 WHERE number = ? RETURNING version",
        (length - old_length, size - old_size, tenant),
    )
    terms.note_changes(connection, tenant, version, [memory_id])
    return True


def describe(
    connection: Connection, memory_id: int, length: int, question: str, answer: str, signs: int
) -> None:
    """Store the columns that ranking reads and that are computed from a memory's text."""
    connection.execute(
        "UPDATE context SET doc_len = ?, label = ?, asks = ?, pairs = ? WHERE id = ?",
        (
            length,
            discourse.label(question, answer),
            signs,
            discourse.pairs_of(question, answer, signs),
            memory_id,
        ),
    )


def reindex(connection: Connection, tenant: int, terms: TermIndex) -> None:
    """Rebuild the terms of a tenant's memories and all columns that are computed from their rows.

    The index must hold none of them; the caller renews the sums in `tenants`.
    """
    after = 0
    before: discourse.Neighbour | None = None
    while found := page(connection, tenant, after):
        for memory_id, memory in found:
            terms.put(connection, tenant, memory_id, memory.question, memory.answer, memory.source)
            if memory_id != after + 1:
                before = None
            sequence = memory_id & ((1 << SEQUENCE_BITS) - 1)
            thread = discourse.thread(sequence, memory.timestamp, memory.session, before)
            connection.execute("UPDATE context SET thread = ? WHERE id = ?", (thread, memory_id))
            before = discourse.Neighbour(thread, memory.timestamp, memory.session)
            after = memory_id


def pin(connection: Connection, tenant: int, memory_id: int, pinned: bool) -> bool:
    """Protect a memory from pruning, or no longer; return whether there is such a memory."""
    if not _belongs(tenant, memory_id):
        return False
    rows = connection.execute(
        "UPDATE context SET pinned = ? WHERE id = ? RETURNING id", (int(pinned), memory_id)
    )
    return len(rows) > 0


def delete(connection: Connection, tenant: int, memory_ids: Iterable[int], terms: TermIndex) -> int:
    """Delete those memories that are the tenant's; return how many."""
    removed: list[int] = []
    removed_length = removed_bytes = 0
    for places, few in _few(tenant, memory_ids):
        rows = connection.execute(
            f"DELETE FROM context WHERE id IN {places} RETURNING id, doc_len, {tenants.MEMORY_BYTES_SQL},"
            f" {TEXTS_SQL}",
            few,
        )
        for memory_id, length, size, question, answer in rows:
            terms.remove(connection, memory_id, question, answer)
            removed.append(memory_id)
            removed_length += length
            removed_bytes += size
    if removed:
        for statement in (_FORGET_ITEM, _FORGET_RECALLS):
            connection.execute_many(statement, [(memory_id,) for memory_id in removed])
        [(version,)] = connection.execute(
            "UPDATE tenants SET n = n - ?, total_length = total_length - ?, bytes = bytes - ?,"
            " version = version + 1 WHERE number = ? RETURNING version",
            (len(removed), removed_length, removed_bytes, tenant),
        )
        terms.note_changes(connection, tenant, version, removed)
    return len(removed)


def _few(tenant: int, memory_ids: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
    """Yield the ids that are the tenant's, a few at a time, with places for them in a statement.

    There is a statement for one and another for many: each number of places would be prepared by itself.
    """
    wanted = [memory_id for memory_id in dict.fromkeys(memory_ids) if _belongs(tenant, memory_id)]
    if len(wanted) == 1:
        yield "(?)", wanted
        return
    for start in range(0, len(wanted), _AT_ONCE):
        few = wanted[start : start + _AT_ONCE]
        yield _PLACES, few + few[-1:] * (_AT_ONCE - len(few))


def delete_and_keep(
    connection: Connection, tenant: int, memory_ids: Iterable[int], terms: TermIndex
) -> list[Deleted]:
    """Do as `delete`; return all that `restore` needs of the deleted memories."""
    kept = copies(connection, tenant, memory_ids)
    delete(connection, tenant, [one.id for one in kept], terms)
    return kept


def copies(connection: Connection, tenant: int, memory_ids: Iterable[int]) -> list[Deleted]:
    """Return those memories that are the tenant's, as `restore` needs them after they are deleted."""
    kept = []
    for places, few in _few(tenant, memory_ids):
        recalls = connection.execute(f"SELECT id, n, last FROM recalls WHERE id IN {places}", few)
        counted = {memory_id: (n, last) for memory_id, n, last in recalls}
        rows = connection.execute(
            f"SELECT {MEMORY_COLUMNS} FROM context WHERE id IN {places} ORDER BY id", few
        )
        kept += [Deleted(row, counted.get(row[0])) for row in rows]
    return kept


def restore(connection: Connection, tenant: int, deleted: Deleted, terms: TermIndex) -> bool:
    """Store a deleted memory again as it was, with its id; return False if it is there already.

    Raises UsageError if another memory has the same texts now.
    """
    row = deleted.row
    if not _belongs(tenant, deleted.id) or get(connection, tenant, deleted.id) is not None:
        return False
    other = _same_hash(connection, tenant, row[4])
    if other is not None:
        raise UsageError(f"memory {other[0]} already says exactly this", hint="delete it first")
    connection.execute(INSERT_MEMORY, row)
    length = terms.put(connection, tenant, deleted.id, row[1], row[2], row[8])
    if deleted.recalls is not None:
        connection.execute("INSERT INTO recalls(id, n, last) VALUES(?, ?, ?)", (deleted.id, *deleted.recalls))
    [(size,)] = connection.execute(
        f"SELECT {tenants.MEMORY_BYTES_SQL} FROM context WHERE id = ?", (deleted.id,)
    )
    [(version,)] = connection.execute(
        "UPDATE tenants SET n = n + 1, total_length = total_length + ?, bytes = bytes + ?,"
        " version = version + 1, edits = edits + 1 WHERE number = ? RETURNING version",
        (length, size, tenant),
    )
    terms.note_changes(connection, tenant, version, [deleted.id])
    return True


def delete_question(connection: Connection, tenant: int, question: str, terms: TermIndex) -> list[Deleted]:
    """Delete the memories with this question, compared as `fold_question` returns it; see delete_and_keep."""
    # A scan: the question is in no index, and nobody clears memories in a loop.
    wanted = fold_question(question)
    found: list[int] = []
    after = 0
    while memories := page(connection, tenant, after):
        found += [memory_id for memory_id, memory in memories if fold_question(memory.question) == wanted]
        after = memories[-1][0]
    return delete_and_keep(connection, tenant, found, terms)


# ---- reading


def get(connection: Connection, tenant: int, memory_id: int) -> MemoryRecord | None:
    """Return a memory if it is the tenant's."""
    if not _belongs(tenant, memory_id):
        return None
    rows = connection.execute(f"SELECT {_RECORD} FROM context WHERE id = ?", (memory_id,))
    return _record(rows[0]) if rows else None


def page_of(
    connection: Connection,
    tenant: int,
    *,
    limit: int,
    offset: int,
    wanted: MemoryFilter = _ALL,
    order: str = "newest",
) -> list[MemoryRecord]:
    """Return memories in an order of ORDERS; ties to the newest, then to the one stored last."""
    condition, parameters = _matching(tenant, wanted)
    rows = connection.execute(
        f"SELECT {_RECORD} FROM context WHERE {condition} ORDER BY {ORDERS[order]} LIMIT ? OFFSET ?",
        (*parameters, limit, offset),
    )
    return [_record(row) for row in rows]


def count(connection: Connection, tenant: int, wanted: MemoryFilter = _ALL) -> int:
    """Return the number of the tenant's memories, or of those that are wanted."""
    if wanted == _ALL:
        rows = connection.execute("SELECT n FROM tenants WHERE number = ?", (tenant,))
        return rows[0][0] if rows else 0
    condition, parameters = _matching(tenant, wanted)
    [(n,)] = connection.execute(f"SELECT count(*) FROM context WHERE {condition}", parameters)
    return int(n)


def _matching(tenant: int, wanted: MemoryFilter) -> tuple[str, list[Any]]:
    """Return the condition for the tenant's memories that are wanted, and its parameters."""
    conditions = [f"id >> {SEQUENCE_BITS} = ?"]
    parameters: list[Any] = [tenant]
    if wanted.sources:
        exact = [source for source in wanted.sources if source != IMPORT]
        parts = [f"source IN ({', '.join('?' * len(exact))})"] if exact else []
        parts += [f"source LIKE '{IMPORT}%'"] if IMPORT in wanted.sources else []
        conditions.append(f"({' OR '.join(parts)})")
        parameters += exact
    if wanted.pinned is not None:
        conditions.append("pinned = ?")
        parameters.append(int(wanted.pinned))
    if wanted.since is not None:
        conditions.append("timestamp >= ?")
        parameters.append(wanted.since)
    if wanted.until is not None:
        conditions.append("timestamp < ?")
        parameters.append(wanted.until)
    if wanted.never_recalled:
        conditions.append("NOT EXISTS (SELECT 1 FROM recalls r WHERE r.id = context.id)")
    return " AND ".join(conditions), parameters


def page(connection: Connection, tenant: int, after: int) -> list[tuple[int, NewMemory]]:
    """Return the next few memories with an id above `after`, in id order; none at the end."""
    first, last = memory_range(tenant)
    rows = connection.execute(
        "SELECT id, user_message, assistant_response, timestamp, source, session, pinned FROM context"
        f" WHERE id > ? AND id <= ? ORDER BY id LIMIT {_PAGE}",
        (max(first, after), last),
    )
    return [
        (memory_id, NewMemory(question, answer, timestamp, source, session, bool(pinned)))
        for memory_id, question, answer, timestamp, source, session, pinned in rows
    ]


def fold_question(question: str) -> str:
    """Return a question as questions are compared: one blank between words, case folded."""
    return " ".join(question.split()).casefold()


def _same_hash(connection: Connection, tenant: int, digest: str) -> tuple[int, str] | None:
    rows = connection.execute(
        "SELECT id, user_message FROM context WHERE content_hash = ?"
        " AND user_id = (SELECT user_id FROM tenants WHERE number = ?)",
        (digest, tenant),
    )
    return rows[0] if rows else None


def _belongs(tenant: int, memory_id: int) -> bool:
    return memory_id >> SEQUENCE_BITS == tenant


def _record(row: tuple[int, str, str, int, int, str]) -> MemoryRecord:
    memory_id, question, answer, timestamp, pinned, source = row
    return MemoryRecord(memory_id, question, answer, timestamp, bool(pinned), source)
