"""Rows of `context`, their tokens in `context_fts` and their sums in `tenants`, always changed together.

Everything here runs inside the caller's transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Protocol

from shepherd._native.text import scoped
from shepherd.errors import UsageError
from shepherd.memory import discourse, tenants
from shepherd.memory.connection import Connection
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.types import MemoryRecord

__all__ = [
    "FULL_TEXT",
    "TermIndex",
    "content_hash",
    "count",
    "delete",
    "describe",
    "edit",
    "fold_question",
    "get",
    "index",
    "newest",
    "page",
    "pin",
    "reindex",
    "unambiguous_hash",
    "with_question",
]

_RECORD = "id, user_message, assistant_response, timestamp, pinned, source"
_PAGE = 500
# Of context_changes: who is further behind reads everything again.
_KEPT_VERSIONS = 4096


class TermIndex(Protocol):
    """What the terms of memories are searched by; each engine has its own."""

    def replace(self, connection: Connection, tenant: int, memory_id: int, question: str, answer: str) -> int:
        """Replaces the terms of a memory and what else comes from its text; how many terms, with repeats."""

    def remove(self, connection: Connection, memory_id: int) -> None:
        """Takes a memory's terms out."""

    def note_changes(
        self, connection: Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        """Tells who holds memories in main memory which of them are not as they were before `version`."""


def content_hash(question: str, answer: str) -> str:
    """SHA-256 in hex of the question directly followed by the answer."""
    return hashlib.sha256((question + answer).encode()).hexdigest()


def unambiguous_hash(question: str, answer: str) -> str:
    """For a memory whose content_hash another one has: "ab" + "c" and "a" + "bc" share theirs."""
    return hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()


# ---- writing


class _FullText:
    """The table context_fts."""

    def replace(self, connection: Connection, tenant: int, memory_id: int, question: str, answer: str) -> int:
        return index(connection, tenant, memory_id, question, answer)

    def remove(self, connection: Connection, memory_id: int) -> None:
        connection.execute("DELETE FROM context_fts WHERE rowid = ?", (memory_id,))
        connection.execute("DELETE FROM recalls WHERE id = ?", (memory_id,))

    def note_changes(
        self, connection: Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        for memory_id in memory_ids:
            connection.execute(
                "INSERT OR IGNORE INTO context_changes VALUES(?, ?, ?)", (tenant, version, memory_id)
            )
        connection.execute(
            "DELETE FROM context_changes WHERE tenant = ? AND version <= ?",
            (tenant, version - _KEPT_VERSIONS),
        )


FULL_TEXT: TermIndex = _FullText()


def edit(
    connection: Connection,
    user_id: str,
    tenant: int,
    memory_id: int,
    *,
    question: str | None,
    answer: str | None,
    terms: TermIndex = FULL_TEXT,
) -> bool:
    """Replaces what is not None; UsageError when another memory already says the same."""
    known = get(connection, tenant, memory_id)
    if known is None:
        return False
    question = known.question if question is None else question
    answer = known.answer if answer is None else answer
    digest = content_hash(question, answer)
    other = _same_hash(connection, user_id, digest)
    if other is not None and other[1] != question:
        digest = unambiguous_hash(question, answer)
        other = _same_hash(connection, user_id, digest)
    if other is not None and other[0] != memory_id:
        raise UsageError(
            f"memory {memory_id}: memory {other[0]} already says exactly this", hint="delete one of the two"
        )
    [(old_length, old_size)] = connection.execute(
        f"SELECT doc_len, {tenants.MEMORY_BYTES_SQL} FROM context WHERE id = ?", (memory_id,)
    )
    length = terms.replace(connection, tenant, memory_id, question, answer)
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


def index(connection: Connection, tenant: int, memory_id: int, question: str, answer: str) -> int:
    """Replaces the tokens of a memory and what else comes from its text; how many tokens there are."""
    question_tokens, question_length = scoped(question, tenant)
    answer_tokens, answer_length = scoped(answer, tenant)
    length = question_length + answer_length
    connection.execute("DELETE FROM context_fts WHERE rowid = ?", (memory_id,))
    _insert_tokens(connection, memory_id, question_tokens, answer_tokens)
    describe(connection, memory_id, length, question, answer)
    return length


def describe(connection: Connection, memory_id: int, length: int, question: str, answer: str) -> None:
    """Writes what ranking knows of a memory's text beside the memory."""
    connection.execute(
        "UPDATE context SET doc_len = ?, label = ?, asks = ? WHERE id = ?",
        (length, discourse.label(question, answer), discourse.asks(question, answer), memory_id),
    )


def reindex(connection: Connection, tenant: int, terms: TermIndex = FULL_TEXT) -> None:
    """Makes the tokens of all of a tenant's memories again, and everything else that comes from their rows.

    For an index that holds none of them; the sums in `tenants` are the caller's to renew.
    """
    after = 0
    before: discourse.Neighbour | None = None
    while found := page(connection, tenant, after):
        for memory_id, memory in found:
            terms.replace(connection, tenant, memory_id, memory.question, memory.answer)
            if memory_id != after + 1:
                before = None
            sequence = memory_id & ((1 << SEQUENCE_BITS) - 1)
            thread = discourse.thread(sequence, memory.timestamp, memory.session, before)
            connection.execute("UPDATE context SET thread = ? WHERE id = ?", (thread, memory_id))
            before = discourse.Neighbour(thread, memory.timestamp, memory.session)
            after = memory_id


def pin(connection: Connection, tenant: int, memory_id: int, pinned: bool) -> bool:
    """Protects a memory from pruning, or no longer."""
    if not _belongs(tenant, memory_id):
        return False
    rows = connection.execute(
        "UPDATE context SET pinned = ? WHERE id = ? RETURNING id", (int(pinned), memory_id)
    )
    return len(rows) > 0


def delete(
    connection: Connection, tenant: int, memory_ids: Iterable[int], terms: TermIndex = FULL_TEXT
) -> int:
    """Removes those memories of the tenant; how many there were."""
    removed: list[int] = []
    removed_length = removed_bytes = 0
    for memory_id in memory_ids:
        if not _belongs(tenant, memory_id):
            continue
        rows = connection.execute(
            f"DELETE FROM context WHERE id = ? RETURNING doc_len, {tenants.MEMORY_BYTES_SQL}",
            (memory_id,),
        )
        if rows:
            terms.remove(connection, memory_id)
            removed.append(memory_id)
            removed_length += rows[0][0]
            removed_bytes += rows[0][1]
    if removed:
        [(version,)] = connection.execute(
            "UPDATE tenants SET n = n - ?, total_length = total_length - ?, bytes = bytes - ?,"
            " version = version + 1 WHERE number = ? RETURNING version",
            (len(removed), removed_length, removed_bytes, tenant),
        )
        terms.note_changes(connection, tenant, version, removed)
    return len(removed)


# ---- reading


def get(connection: Connection, tenant: int, memory_id: int) -> MemoryRecord | None:
    """That memory if it is the tenant's."""
    if not _belongs(tenant, memory_id):
        return None
    rows = connection.execute(f"SELECT {_RECORD} FROM context WHERE id = ?", (memory_id,))
    return _record(rows[0]) if rows else None


def newest(connection: Connection, tenant: int, *, limit: int, offset: int) -> list[MemoryRecord]:
    """Newest first, ties to the one stored last."""
    rows = connection.execute(
        f"SELECT {_RECORD} FROM context WHERE id >> {SEQUENCE_BITS} = ?"
        " ORDER BY timestamp DESC, id DESC LIMIT ? OFFSET ?",
        (tenant, limit, offset),
    )
    return [_record(row) for row in rows]


def count(connection: Connection, tenant: int) -> int:
    """How many memories the tenant has."""
    rows = connection.execute("SELECT n FROM tenants WHERE number = ?", (tenant,))
    return rows[0][0] if rows else 0


def page(connection: Connection, tenant: int, after: int) -> list[tuple[int, NewMemory]]:
    """The next few memories with an id above `after`, in id order; none: the end."""
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


def with_question(connection: Connection, tenant: int, question: str) -> Iterator[int]:
    """Ids of the memories with this question, compared after whitespace and case folding."""
    # A scan: the question is in no index, and nobody clears memories in a loop.
    wanted = fold_question(question)
    after = 0
    while found := page(connection, tenant, after):
        for memory_id, memory in found:
            if fold_question(memory.question) == wanted:
                yield memory_id
        after = found[-1][0]


def fold_question(question: str) -> str:
    """What questions are compared by."""
    return " ".join(question.split()).casefold()


def _same_hash(connection: Connection, user_id: str, digest: str) -> tuple[int, str] | None:
    rows = connection.execute(
        "SELECT id, user_message FROM context WHERE user_id = ? AND content_hash = ?", (user_id, digest)
    )
    return rows[0] if rows else None


def _insert_tokens(connection: Connection, memory_id: int, question: bytes, answer: bytes) -> None:
    connection.execute(
        "INSERT INTO context_fts(rowid, user_message, assistant_response) VALUES(?, ?, ?)",
        (memory_id, question, answer),
    )


def _belongs(tenant: int, memory_id: int) -> bool:
    return memory_id >> SEQUENCE_BITS == tenant


def _record(row: tuple[int, str, str, int, int, str]) -> MemoryRecord:
    memory_id, question, answer, timestamp, pinned, source = row
    return MemoryRecord(memory_id, question, answer, timestamp, bool(pinned), source)
