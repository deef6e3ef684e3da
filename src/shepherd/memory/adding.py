"""Memories on their way into a file: rows of `context`, tokens in `context_fts`, sums in `tenants`.

Inside the caller's transaction. A few at a time: while Python looks at them, other threads wait; while SQLite
stores them, they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shepherd._native.store import Connection
from shepherd._native.text import scoped
from shepherd.memory import discourse, tenants
from shepherd.memory.memories import content_hash, unambiguous_hash
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["add_all"]

# About 0.3 ms of Python.
_AT_ONCE = 16
_USER = (
    "SELECT t.number, t.next_sequence, c.thread, c.timestamp, c.session FROM tenants t"
    f" LEFT JOIN context c ON c.id = (t.number << {SEQUENCE_BITS} | (t.next_sequence - 1))"
    " WHERE t.user_id = ?"
)
_KNOWN = "SELECT content_hash, id, user_message FROM context WHERE user_id = ? AND content_hash IN ({})"
_KNOWN_ONE, _KNOWN_MANY = _KNOWN.format("?"), _KNOWN.format(", ".join("?" * _AT_ONCE))
_INSERT_MEMORY = (
    "INSERT INTO context(id, user_message, assistant_response, timestamp, content_hash, user_id, doc_len,"
    " pinned, source, session, thread, label, asks) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_INSERT_TOKENS = "INSERT INTO context_fts(rowid, user_message, assistant_response) VALUES(?, ?, ?)"
# As many versions as memories: see hot_rows.py and documents.c.
_COUNT = (
    "UPDATE tenants SET n = n + ?1, total_length = total_length + ?2, bytes = bytes + ?3,"
    " version = version + ?1, next_sequence = next_sequence + ?1 WHERE number = ?4"
)


def add_all(connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
    """Stores memories; for each its id, and whether it is new. An identical one is left as it is."""
    stored: list[tuple[int, bool]] = []
    for start in range(0, len(new), _AT_ONCE):
        stored += _Few(connection, user_id, new[start : start + _AT_ONCE]).add()
    return stored


class _Few:
    """Some memories of one user, and what the tables know before they are stored."""

    def __init__(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> None:
        self._connection, self._user_id = connection, user_id
        self._new = [(memory, content_hash(memory.question, memory.answer)) for memory in new]
        digests = [digest for _, digest in self._new]
        if len(digests) > 1:
            digests += digests[-1:] * (_AT_ONCE - len(digests))
        user, rows = connection.execute_together(
            [
                (_USER, (user_id,)),
                (_KNOWN_ONE if len(digests) == 1 else _KNOWN_MANY, (user_id, *digests)),
            ]
        )
        self._known = {digest: (memory_id, question) for digest, memory_id, question in rows}
        self._before: discourse.Neighbour | None = None
        if user:
            [(self._tenant, self._sequence, *before)] = user
            self._before = None if before[0] is None else discourse.Neighbour(*before)
        else:
            self._tenant, self._sequence = tenants.ensure(connection, user_id), 1
        self._rows: list[tuple[Any, ...]] = []
        self._tokens: list[tuple[int, bytes, bytes]] = []
        self._size = 0

    def add(self) -> list[tuple[int, bool]]:
        """Stores those that are new."""
        stored = [self._place(memory, digest) for memory, digest in self._new]
        if self._rows:
            self._insert()
        return stored

    def _place(self, memory: NewMemory, digest: str) -> tuple[int, bool]:
        known = self._known.get(digest)
        if known is not None and known[1] != memory.question:
            digest = unambiguous_hash(memory.question, memory.answer)
            known = self._known.get(digest) or self._stored(digest)
        if known is not None:
            return known[0], False
        memory_id = self._tenant << SEQUENCE_BITS | self._sequence
        self._known[digest] = (memory_id, memory.question)
        self._describe(memory, memory_id, digest)
        self._sequence += 1
        return memory_id, True

    def _stored(self, digest: str) -> tuple[int, str] | None:
        rows = self._connection.execute(_KNOWN_ONE, (self._user_id, digest))
        return rows[0][1:] if rows else None

    def _describe(self, memory: NewMemory, memory_id: int, digest: str) -> None:
        question, answer = memory.question, memory.answer
        question_tokens, question_length = scoped(question, self._tenant)
        answer_tokens, answer_length = scoped(answer, self._tenant)
        thread = discourse.thread(self._sequence, memory.timestamp, memory.session, self._before)
        self._rows.append(
            (memory_id, question, answer, memory.timestamp, digest, self._user_id,
             question_length + answer_length, int(memory.pinned), memory.source, memory.session, thread,
             discourse.label(question, answer), discourse.asks(question, answer))
        )  # fmt: skip
        self._tokens.append((memory_id, question_tokens, answer_tokens))
        self._before = discourse.Neighbour(thread, memory.timestamp, memory.session)
        self._size += len(question.encode()) + len(answer.encode()) + tenants.ROW_BYTES

    def _insert(self) -> None:
        sums = (len(self._rows), sum(row[6] for row in self._rows), self._size, self._tenant)
        if len(self._rows) == 1:
            # With the next statement, mostly the commit: fewer waits beside a busy thread.
            self._connection.defer(_INSERT_MEMORY, self._rows[0])
            self._connection.defer(_INSERT_TOKENS, self._tokens[0])
            self._connection.defer(_COUNT, sums)
            return
        self._connection.execute_many(_INSERT_MEMORY, self._rows)
        self._connection.execute_many(_INSERT_TOKENS, self._tokens)
        self._connection.execute(_COUNT, sums)
