"""Whether the rows of a database agree with one another, on both engines: sums, orphans, numbers, hashes.

Inside the caller's transaction. What an engine searches by is its own to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from shepherd.memory import memories, tenants
from shepherd.memory.connection import Connection
from shepherd.memory.memories import TermIndex, content_hash, unambiguous_hash
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["AddMemories", "count", "is_own_hash", "mend_rows", "mend_sums", "problems"]

# From the engine's own connection, the user and memories to their ids, and whether each is new.
AddMemories = Callable[[Any, str, Sequence[NewMemory]], list[tuple[int, bool]]]

_PAGE = 500
_STRANGERS = (
    f"FROM context c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
    " WHERE t.user_id IS DISTINCT FROM c.user_id"
)
_ORPHANED_MESSAGES = "FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)"
_ORPHANED_RECALLS = "FROM recalls WHERE id NOT IN (SELECT id FROM context)"
_USED_NUMBERS = (
    "FROM tenants t WHERE next_sequence <="
    f" (SELECT max(id) FROM context WHERE id >> {SEQUENCE_BITS} = t.number) - (t.number << {SEQUENCE_BITS})"
)
# What the columns n, total_length, bytes and message_bytes of each number should be. CAST: PostgreSQL's sums
# are decimals.
_TRUE_SUMS = (
    "SELECT t.number, count(c.id), CAST(coalesce(sum(c.doc_len), 0) AS BIGINT),"
    f" CAST(coalesce(sum({tenants.MEMORY_BYTES_SQL}), 0) AS BIGINT),"
    f" CAST(coalesce((SELECT sum({tenants.MESSAGE_BYTES_SQL})"
    " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.user_id = t.user_id), 0) AS BIGINT)"
    " FROM tenants t LEFT JOIN context c"
    f" ON c.id BETWEEN t.number << {SEQUENCE_BITS} AND ((t.number + 1) << {SEQUENCE_BITS}) - 1"
    " GROUP BY t.number"
)


def problems(connection: Connection, other_hashes: int) -> tuple[str, ...]:
    """What is wrong, in sentences; `other_hashes` is for how many rows is_own_hash said no."""
    counted = (
        (_wrong_sums(connection), "the sums of {} users are wrong"),
        (other_hashes, "{} memories have a content hash of another text"),
        (count(connection, _STRANGERS), "{} memories are filed under another user's number"),
        (count(connection, _USED_NUMBERS), "{} users would be given a number for a memory that is in use"),
        (count(connection, _ORPHANED_MESSAGES), "{} messages belong to no session"),
        (count(connection, _ORPHANED_RECALLS), "{} counts of recalls belong to no memory"),
    )
    return tuple(words.format(n) for n, words in counted if n)


def count(connection: Connection, what: str) -> int:
    """How many rows `what` names, a FROM and all after it."""
    return int(connection.execute(f"SELECT count(*) {what}")[0][0])


def is_own_hash(question: str, answer: str, digest: str) -> bool:
    """Whether a memory has one of the two hashes of its text."""
    return digest in (content_hash(question, answer), unambiguous_hash(question, answer))


def _wrong_sums(connection: Connection) -> int:
    kept = set(connection.execute("SELECT number, n, total_length, bytes, message_bytes FROM tenants"))
    return len(kept.difference(connection.execute(_TRUE_SUMS)))


# ---- mending


def mend_rows(connection: Connection, add: AddMemories, terms: TermIndex) -> None:
    """Removes orphans and doubles, files each memory under its user, renews numbers, hashes and sums."""
    connection.execute(f"DELETE {_ORPHANED_MESSAGES}")
    connection.execute(
        "UPDATE tenants SET next_sequence = 1 + coalesce((SELECT max(id) FROM context"
        f" WHERE id >> {SEQUENCE_BITS} = number) - (number << {SEQUENCE_BITS}), 0)"
        f" WHERE number IN (SELECT number {_USED_NUMBERS})"
    )
    _refile(connection, add, terms)
    for memory_id, question, answer, digest in _rows(connection):
        if not is_own_hash(question, answer, digest):
            _mend_hash(connection, memory_id, question, answer, terms)
    connection.execute(f"DELETE {_ORPHANED_RECALLS}")
    mend_sums(connection)


def mend_sums(connection: Connection) -> None:
    """Counts anew what `tenants` keeps of each user."""
    for number, *sums in connection.execute(_TRUE_SUMS):
        connection.execute(
            "UPDATE tenants SET n = ?, total_length = ?, bytes = ?, message_bytes = ?,"
            " version = version + 1, edits = edits + 1 WHERE number = ?",
            (*sums, number),
        )


def _refile(connection: Connection, add: AddMemories, terms: TermIndex) -> None:
    """Gives memories a number of the user that their row names: recall goes by the number."""
    strangers = connection.execute(
        "SELECT c.id, c.user_message, c.assistant_response, c.timestamp, c.source, c.session, c.pinned,"
        f" c.user_id {_STRANGERS} ORDER BY c.id"
    )
    # All of them first: a number that is missing from `tenants` may be given to the first of these users.
    for memory_id, *_ in strangers:
        connection.execute("DELETE FROM context WHERE id = ?", (memory_id,))
        terms.remove(connection, memory_id)
    for _, question, answer, timestamp, source, session, pinned, user_id in strangers:
        add(connection, user_id, [NewMemory(question, answer, timestamp, source, session, bool(pinned))])


def _rows(connection: Connection) -> Iterator[tuple[Any, ...]]:
    after = -(1 << 63)
    while page := connection.execute(
        "SELECT id, user_message, assistant_response, content_hash FROM context"
        f" WHERE id > ? ORDER BY id LIMIT {_PAGE}",
        (after,),
    ):
        yield from page
        after = page[-1][0]


def _mend_hash(connection: Connection, memory_id: int, question: str, answer: str, terms: TermIndex) -> None:
    """Gives a row its own hash. One whose text is there already goes."""
    for digest in (content_hash(question, answer), unambiguous_hash(question, answer)):
        taken = connection.execute(
            "SELECT user_message FROM context WHERE content_hash = ?"
            " AND user_id = (SELECT user_id FROM context WHERE id = ?)",
            (digest, memory_id),
        )
        if not taken:
            connection.execute("UPDATE context SET content_hash = ? WHERE id = ?", (digest, memory_id))
            return
        if taken[0][0] == question:
            break
    memories.delete(connection, memory_id >> SEQUENCE_BITS, [memory_id], terms)
