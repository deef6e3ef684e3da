"""PostgreSQL's index of words: `context_terms` for memories and `chunk_terms` for chunks of documents.

Inside the caller's transaction, which holds the lock of the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

from shepherd import transactions
from shepherd._native import rank
from shepherd._native.text import scoped
from shepherd.memory import discourse, hot_rows, memories
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.hot import HotChunks
from shepherd.memory.memories import (
    INSERT_MEMORY,
    MEMORY_COLUMNS,
    USER,
    NewRows,
    TermIndex,
    content_hash,
    unambiguous_hash,
)
from shepherd.memory.postgres.database import Connection
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["TERMS", "ServerChunks", "Terms", "add_all", "terms_of"]

_TERM_COLUMNS = "id, timestamp, doc_len, usual, terms, repeated, counts, tenant"
_INSERT_TERMS = (
    f"INSERT INTO context_terms({_TERM_COLUMNS}) VALUES(?, ?, ?, ?, ?::text[], ?::text[], ?::int[], ?)"
)
_INSERT_CHUNK_TERMS = (
    "INSERT INTO chunk_terms(id, doc_len, terms, repeated, counts, tenant)"
    " VALUES(?, ?, ?::text[], ?::text[], ?::int[], ?)"
)
# Number of memories from which on they are copied, which takes four more round trips; and at once: the server
# inserts these while the next ones are split into words.
_LEAST_COPIED = 32
# As many versions as memories: see hot_rows.py.
_COUNT = (
    "UPDATE tenants SET n = n + ?1, total_length = total_length + ?2, bytes = bytes + ?3,"
    " version = version + ?1, next_sequence = next_sequence + ?1 WHERE number = ?4"
)


class Terms(NamedTuple):
    """Terms of a memory as `context_terms` stores them. `counts` are parts (rank.PARTS), as is `usual`."""

    usual: int
    terms: list[str]
    repeated: list[str] | None
    counts: list[int] | None
    length: int


def terms_of(tenant: int, question: str, answer: str, signs: int) -> Terms:
    """Return the scoped terms of question and answer, in order of first appearance.

    `signs` are the memory's `asks`, which say who wrote the texts.
    """
    in_question, question_length = scoped(question, tenant)
    in_answer, answer_length = scoped(answer, tenant)
    asked, answered = in_question.decode().split(), in_answer.decode().split()
    question_parts = 1 if signs & rank.ASSISTANT_QUESTION else rank.PARTS
    answer_parts = 1 if signs & rank.ASSISTANT_ANSWER else rank.PARTS
    # An assistant's text is most of a memory. What follows is in units of this.
    usual = min(question_parts, answer_parts)
    counted = Counter(asked)
    if question_parts != usual:
        counted = Counter({term: n * question_parts // usual for term, n in counted.items()})
    if answer_parts == usual:
        counted.update(answered)
    else:
        counted.update({term: n * answer_parts // usual for term, n in Counter(answered).items()})
    repeated = {}
    if len(counted) < len(asked) + len(answered) or question_parts != answer_parts:
        repeated = {term: n * usual for term, n in counted.items() if n != 1}
    return Terms(
        usual,
        list(counted),
        list(repeated) or None,
        list(repeated.values()) or None,
        rank.length_of(signs, question_length, answer_length),
    )


def add_all(connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
    """Store memories; return the id of each, and whether it is new. One round trip and one of the commit."""
    digests = [content_hash(memory.question, memory.answer) for memory in new]
    others = [unambiguous_hash(memory.question, memory.answer) for memory in new]
    user, rows = connection.execute_together(
        [
            (USER, (user_id,)),
            (
                "SELECT content_hash, id, user_message FROM context"
                " WHERE user_id = ? AND content_hash = ANY(?::text[])",
                # As a text: psycopg takes 4 us for each element of an array.
                (user_id, "{" + ",".join({*digests, *others}) + "}"),
            ),
        ]
    )
    known = {digest: (memory_id, question) for digest, memory_id, question in rows}
    added = _TermRows(connection, user_id, user[0] if user else None, known)
    stored = _insert(connection, added, zip(new, digests, strict=True))
    if added.rows:
        connection.execute(_COUNT, added.sums)
    return stored


def _insert(
    connection: Connection, added: _TermRows, new: Iterable[tuple[NewMemory, str]]
) -> list[tuple[int, bool]]:
    """Insert the rows of memories with their hashes; many are copied while the next are split into words."""
    stored = []
    with ExitStack() as stack:
        copy: Callable[[bytes], None] | None = None
        for memory, digest in new:
            stored.append(added.place(memory, digest))
            if len(added.terms) == _LEAST_COPIED:
                copy = copy or stack.enter_context(connection.copying("context_terms", _TERM_COLUMNS))
                copy(connection.lines("context_terms", _TERM_COLUMNS, added.take_terms()))
        if copy is not None:
            copy(connection.lines("context_terms", _TERM_COLUMNS, added.take_terms()))
            # Made here, while the server is still busy with the terms.
            encoded = connection.lines("context", MEMORY_COLUMNS, added.rows)
    if copy is not None:
        with connection.copying("context", MEMORY_COLUMNS) as copy_rows:
            copy_rows(encoded)
    elif added.rows:
        connection.execute_many(INSERT_MEMORY, added.rows)
        connection.execute_many(_INSERT_TERMS, added.terms)
    return stored


class _TermRows(NewRows):
    connection: Connection

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.terms: list[tuple[Any, ...]] = []

    def take_terms(self) -> list[tuple[Any, ...]]:
        """Return the rows of `context_terms` since the last call."""
        taken, self.terms = self.terms, []
        return taken

    def find_stored(self, digest: str) -> None:
        """Return None: `known` has both hashes of every new memory."""

    def add_terms(self, memory_id: int, memory: NewMemory, signs: int) -> tuple[int, int]:
        found = terms_of(self.tenant, memory.question, memory.answer, signs)
        self.terms.append(
            (
                memory_id,
                memory.timestamp,
                found.length,
                found.usual,
                found.terms,
                found.repeated,
                found.counts,
                self.tenant,
            )
        )
        size_of = self.connection.stored_size
        size = size_of("context", "user_message", memory.question)
        return found.length, size + size_of("context", "assistant_response", memory.answer)


class _TermIndex:
    """TermIndex over context_terms."""

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return add_all(connection, user_id, new)

    def put(
        self,
        connection: transactions.Connection,
        tenant: int,
        memory_id: int,
        question: str,
        answer: str,
        source: str,
    ) -> int:
        signs = discourse.signs(question, answer, source)
        found = terms_of(tenant, question, answer, signs)
        connection.execute(
            f"INSERT INTO context_terms({_TERM_COLUMNS})"
            f" SELECT id, timestamp, ?, ?, ?::text[], ?::text[], ?::int[], id >> {SEQUENCE_BITS} FROM context"
            " WHERE id = ? ON CONFLICT(tenant, id) DO UPDATE SET timestamp = excluded.timestamp,"
            " doc_len = excluded.doc_len, usual = excluded.usual, terms = excluded.terms,"
            " repeated = excluded.repeated, counts = excluded.counts",
            (found.length, found.usual, found.terms, found.repeated, found.counts, memory_id),  # type: ignore[arg-type]
        )
        memories.describe(connection, memory_id, found.length, question, answer, signs)
        return found.length

    def remove(self, connection: transactions.Connection, memory_id: int, question: str, answer: str) -> None:
        connection.execute(
            "DELETE FROM context_terms WHERE tenant = ? AND id = ?", (memory_id >> SEQUENCE_BITS, memory_id)
        )

    def note_changes(
        self, connection: transactions.Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        hot_rows.note_changes(connection, MEMORIES, tenant, version, memory_ids)


TERMS: TermIndex = _TermIndex()


class ServerChunks(HotChunks):
    """ChunkIndex over chunk_terms."""

    unindexed = (
        "FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM chunk_terms t"
        f" WHERE t.tenant = c.id >> {SEQUENCE_BITS} AND t.id = c.id)"
    )
    orphaned = "FROM chunk_terms t WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = t.id)"

    def add(
        self, connection: transactions.Connection, tenant: int, chunks: Sequence[tuple[int, str]]
    ) -> list[int]:
        """Add the words of each (id, text); return how many words each has, with repeats."""
        found = [(chunk_id, terms_of(tenant, text, "", 0)) for chunk_id, text in chunks]
        connection.execute_together(  # type: ignore[attr-defined]  # of the one engine that this serves
            [
                (
                    _INSERT_CHUNK_TERMS,
                    (chunk_id, terms.length, terms.terms, terms.repeated, terms.counts, tenant),
                )
                for chunk_id, terms in found
            ]
        )
        return [terms.length for _, terms in found]

    def remove(self, connection: transactions.Connection, chunks: Sequence[tuple[int, str]]) -> None:
        """Remove the words of each (id, text)."""
        ids = [chunk_id for chunk_id, _ in chunks]
        connection.execute(
            "DELETE FROM chunk_terms WHERE tenant = ANY(?::bigint[]) AND id = ANY(?::bigint[])",
            ([*{chunk_id >> SEQUENCE_BITS for chunk_id in ids}], ids),  # type: ignore[arg-type]
        )

    def clear(self, connection: transactions.Connection) -> None:
        """Remove the words of all chunks."""
        connection.execute("DELETE FROM chunk_terms")
