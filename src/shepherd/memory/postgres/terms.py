"""Memories on their way in: rows of `context`, their terms in `context_terms`, their sums in `tenants`.

Inside the caller's transaction, which holds the lock of the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from shepherd._native.text import scoped
from shepherd.memory import connection as shared
from shepherd.memory import discourse, memories, tenants
from shepherd.memory.memories import TermIndex, content_hash, unambiguous_hash
from shepherd.memory.postgres.database import Connection
from shepherd.memory.postgres.text import escaped
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["TERMS", "Terms", "add_all", "terms_of"]


_INSERT_TERMS = (
    "INSERT INTO context_terms(id, timestamp, doc_len, terms, repeated, counts)"
    " VALUES(?, ?, ?, ?::text[], ?::text[], ?::int[])"
)
_INSERT_MEMORY = (
    "INSERT INTO context(id, user_message, assistant_response, timestamp, content_hash, user_id, doc_len,"
    " pinned, source, session, thread, label, asks) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_USER = (
    "SELECT t.number, t.next_sequence, c.thread, c.timestamp, c.session FROM tenants t"
    f" LEFT JOIN context c ON c.id = (t.number << {SEQUENCE_BITS} | (t.next_sequence - 1))"
    " WHERE t.user_id = ?"
)


class Terms(NamedTuple):
    """One memory's terms as `context_terms` keeps them; `length` counts repeats."""

    terms: list[str]
    repeated: list[str] | None
    counts: list[int] | None
    length: int


def terms_of(tenant: int, question: str, answer: str) -> Terms:
    """The scoped terms of question and answer, in order of first appearance."""
    in_question, question_length = scoped(question, tenant)
    in_answer, answer_length = scoped(answer, tenant)
    counted = Counter(f"{in_question.decode()} {in_answer.decode()}".split())
    repeated = {term: n for term, n in counted.items() if n > 1}
    return Terms(
        list(counted),
        list(repeated) or None,
        list(repeated.values()) or None,
        question_length + answer_length,
    )


class _TermIndex:
    """The table context_terms, for the functions that both engines share."""

    def replace(
        self, connection: shared.Connection, tenant: int, memory_id: int, question: str, answer: str
    ) -> int:
        found = terms_of(tenant, question, answer)
        connection.execute(
            "INSERT INTO context_terms(id, timestamp, doc_len, terms, repeated, counts)"
            " SELECT id, timestamp, ?, ?::text[], ?::text[], ?::int[] FROM context WHERE id = ?"
            " ON CONFLICT(id) DO UPDATE SET timestamp = excluded.timestamp, doc_len = excluded.doc_len,"
            " terms = excluded.terms, repeated = excluded.repeated, counts = excluded.counts",
            (found.length, found.terms, found.repeated, found.counts, memory_id),  # type: ignore[arg-type]
        )
        memories.describe(connection, memory_id, found.length, question, answer)
        return found.length

    def remove(self, connection: shared.Connection, memory_id: int) -> None:
        connection.execute("DELETE FROM context_terms WHERE id = ?", (memory_id,))
        connection.execute("DELETE FROM recalls WHERE id = ?", (memory_id,))

    def note_changes(
        self, connection: shared.Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        pass  # nobody keeps a server's memories in main memory


TERMS: TermIndex = _TermIndex()


def add_all(connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
    """Stores memories; for each its id, and whether it is new. Two round trips, however many they are."""
    tenant, sequence, before, known = _known(connection, user_id, new)
    stored: list[tuple[int, bool]] = []
    rows, terms, size = [], [], 0
    for memory in new:
        digest = content_hash(memory.question, memory.answer)
        if digest in known and known[digest][1] != memory.question:
            digest = unambiguous_hash(memory.question, memory.answer)
        if digest in known:
            stored.append((known[digest][0], False))
            continue
        memory_id = tenant << SEQUENCE_BITS | sequence
        known[digest] = (memory_id, memory.question)
        stored.append((memory_id, True))
        found = terms_of(tenant, memory.question, memory.answer)
        thread = discourse.thread(sequence, memory.timestamp, memory.session, before)
        terms.append((memory_id, memory.timestamp, found.length, found.terms, found.repeated, found.counts))
        rows.append(
            (memory_id, memory.question, memory.answer, memory.timestamp, digest, user_id, found.length,
             int(memory.pinned), memory.source, memory.session, thread,
             discourse.label(memory.question, memory.answer), discourse.asks(memory.question, memory.answer))
        )  # fmt: skip
        sequence += 1
        before = discourse.Neighbour(thread, memory.timestamp, memory.session)
        size += _size(memory.question, memory.answer)
    if rows:
        _insert(connection, tenant, rows, terms, size)
    return stored


def _known(
    connection: Connection, user_id: str, new: Sequence[NewMemory]
) -> tuple[int, int, discourse.Neighbour | None, dict[str, tuple[int, str]]]:
    """The user's number, the next sequence, the memory before that, and what is stored already, by hash."""
    digests = {
        digest
        for memory in new
        for digest in (
            content_hash(memory.question, memory.answer),
            unambiguous_hash(memory.question, memory.answer),
        )
    }
    user, rows = connection.execute_together(
        [
            (_USER, (user_id,)),
            (
                "SELECT content_hash, id, user_message FROM context"
                " WHERE user_id = ? AND content_hash = ANY(?::text[])",
                (user_id, list(digests)),
            ),
        ]
    )
    known = {digest: (memory_id, question) for digest, memory_id, question in rows}
    if not user:
        return tenants.ensure(connection, user_id), 1, None, known
    [(tenant, sequence, *before)] = user
    return tenant, sequence, None if before[0] is None else discourse.Neighbour(*before), known


def _insert(
    connection: Connection,
    tenant: int,
    rows: list[tuple[Any, ...]],
    terms: list[tuple[Any, ...]],
    size: int,
) -> None:
    sums = (len(rows), sum(row[6] for row in rows), size, tenant)
    connection.execute_together(
        [
            *((_INSERT_MEMORY, row) for row in rows),
            *((_INSERT_TERMS, row) for row in terms),
            (
                "UPDATE tenants SET n = n + ?1, total_length = total_length + ?2, bytes = bytes + ?3,"
                " version = version + 1, next_sequence = next_sequence + ?1 WHERE number = ?4",
                sums,
            ),
        ]
    )


def _size(question: str, answer: str) -> int:
    return len(escaped(question).encode()) + len(escaped(answer).encode()) + tenants.ROW_BYTES
