"""SQLite's index of words: `context_fts` for memories and `chunks_fts` for chunks of documents.

Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shepherd._native import rank
from shepherd._native import store as native
from shepherd._native.text import scoped
from shepherd.memory import discourse, hot_rows, memories
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.hot import HotChunks
from shepherd.memory.memories import INSERT_MEMORY, USER, NewRows, TermIndex, content_hash
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection

__all__ = ["FULL_TEXT", "FileChunks", "add_all"]

# Memories of one step, about 0.3 ms of Python, in which other threads wait; while SQLite stores, they do not.
_AT_ONCE = 16
_KNOWN = "SELECT content_hash, id, user_message FROM context WHERE user_id = ? AND content_hash IN ({})"
_KNOWN_ONE, _KNOWN_MANY = _KNOWN.format("?"), _KNOWN.format(", ".join("?" * _AT_ONCE))
_INSERT_TOKENS = "INSERT INTO context_fts(rowid, user_message, assistant_response) VALUES(?, ?, ?)"
_DELETE_TOKENS = (
    "INSERT INTO context_fts(context_fts, rowid, user_message, assistant_response) VALUES('delete', ?, ?, ?)"
)
# As many versions as memories: see hot_rows.py and documents.c.
_COUNT = (
    "UPDATE tenants SET n = n + ?1, total_length = total_length + ?2, bytes = bytes + ?3,"
    " version = version + ?1, next_sequence = next_sequence + ?1 WHERE number = ?4"
)


def add_all(connection: native.Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
    """Store memories; return the id of each, and whether it is new (else that of the identical one)."""
    stored: list[tuple[int, bool]] = []
    for start in range(0, len(new), _AT_ONCE):
        stored += _add_few(connection, user_id, new[start : start + _AT_ONCE])
    return stored


def _add_few(connection: native.Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
    digests = [content_hash(memory.question, memory.answer) for memory in new]
    known, asked = _KNOWN_ONE, digests
    if len(digests) > 1:
        # Always as many places, so that one statement is prepared.
        known, asked = _KNOWN_MANY, digests + digests[-1:] * (_AT_ONCE - len(digests))
    user, rows = connection.execute_together([(USER, (user_id,)), (known, (user_id, *asked))])
    found = {digest: (memory_id, question) for digest, memory_id, question in rows}
    added = _TokenRows(connection, user_id, user[0] if user else None, found)
    stored = [added.place(memory, digest) for memory, digest in zip(new, digests, strict=True)]
    if len(added.rows) == 1:
        # With the next statement, mostly the commit: fewer waits beside a busy thread.
        connection.defer(INSERT_MEMORY, added.rows[0])
        connection.defer(_INSERT_TOKENS, added.tokens[0])
        connection.defer(_COUNT, added.sums)
    elif added.rows:
        connection.execute_many(INSERT_MEMORY, added.rows)
        connection.execute_many(_INSERT_TOKENS, added.tokens)
        connection.execute(_COUNT, added.sums)
    return stored


class _TokenRows(NewRows):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tokens: list[tuple[int, bytes, bytes]] = []

    def find_stored(self, digest: str) -> tuple[int, str] | None:
        rows = self.connection.execute(_KNOWN_ONE, (self.user_id, digest))
        return rows[0][1:] if rows else None

    def add_terms(self, memory_id: int, memory: NewMemory, signs: int) -> tuple[int, int]:
        question, question_length = scoped(memory.question, self.tenant)
        answer, answer_length = scoped(memory.answer, self.tenant)
        self.tokens.append((memory_id, question, answer))
        length = rank.length_of(signs, question_length, answer_length)
        return length, len(memory.question.encode()) + len(memory.answer.encode())


class _FullText:
    """TermIndex over context_fts."""

    def add(
        self, connection: native.Connection, user_id: str, new: Sequence[NewMemory]
    ) -> list[tuple[int, bool]]:
        return add_all(connection, user_id, new)

    def put(
        self, connection: Connection, tenant: int, memory_id: int, question: str, answer: str, source: str
    ) -> int:
        question_tokens, question_length = scoped(question, tenant)
        answer_tokens, answer_length = scoped(answer, tenant)
        signs = discourse.signs(question, answer, source)
        length = rank.length_of(signs, question_length, answer_length)
        connection.execute(_INSERT_TOKENS, (memory_id, question_tokens, answer_tokens))
        memories.describe(connection, memory_id, length, question, answer, signs)
        return length

    def remove(self, connection: Connection, memory_id: int, question: str, answer: str) -> None:
        tenant = memory_id >> SEQUENCE_BITS
        tokens = scoped(question, tenant)[0], scoped(answer, tenant)[0]
        connection.execute(_DELETE_TOKENS, (memory_id, *tokens))

    def note_changes(
        self, connection: Connection, tenant: int, version: int, memory_ids: Iterable[int]
    ) -> None:
        hot_rows.note_changes(connection, MEMORIES, tenant, version, memory_ids)


FULL_TEXT: TermIndex = _FullText()


class FileChunks(HotChunks):
    """ChunkIndex over chunks_fts."""

    # The contentless index keeps a row of sizes for each row it holds.
    unindexed = "FROM chunks WHERE id NOT IN (SELECT id FROM chunks_fts_docsize)"
    orphaned = "FROM chunks_fts_docsize WHERE id NOT IN (SELECT id FROM chunks)"

    def add(self, connection: Connection, tenant: int, chunks: Sequence[tuple[int, str]]) -> list[int]:
        """Add the words of each (id, text); return how many words each has, with repeats."""
        lengths = []
        for chunk_id, text in chunks:
            tokens, length = scoped(text, tenant)
            connection.execute("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", (chunk_id, tokens))
            lengths.append(length)
        return lengths

    def remove(self, connection: Connection, chunks: Sequence[tuple[int, str]]) -> None:
        """Remove the words of each (id, text)."""
        for chunk_id, text in chunks:
            connection.execute(
                "INSERT INTO chunks_fts(chunks_fts, rowid, text) VALUES('delete', ?, ?)",
                (chunk_id, scoped(text, chunk_id >> SEQUENCE_BITS)[0]),
            )

    def clear(self, connection: Connection) -> None:
        """Remove the words of all chunks."""
        connection.execute("INSERT INTO chunks_fts(chunks_fts) VALUES('delete-all')")
