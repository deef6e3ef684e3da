"""Checks and repairs rows that contradict each other, on both engines: sums, orphans, numbers, hashes.

An engine checks its own index of memories. For knowledge, only the numbers and words that are computed from
its rows are checked here. Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from shepherd.memory import memories, tenants
from shepherd.memory.memories import TermIndex, content_hash, unambiguous_hash
from shepherd.memory.records import NewMemory
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import ChunkIndex, Connection
from shepherd.wording import inflected

__all__ = [
    "ClearableIndex",
    "chunk_problems",
    "count",
    "is_own_hash",
    "mend_chunks",
    "mend_rows",
    "mend_sums",
    "problems",
    "reindex_chunks",
]

_PAGE = 500
_STRANGERS = (
    f"FROM context c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
    " WHERE t.user_id IS DISTINCT FROM c.user_id"
)
# NOT EXISTS, never NOT IN: PostgreSQL reads the inner table once for each row, if it is not a small one.
_ORPHANED_MESSAGES = (
    "FROM messages WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = messages.session_id)"
)
_ORPHANED_RECALLS = "FROM recalls WHERE NOT EXISTS (SELECT 1 FROM context c WHERE c.id = recalls.id)"
# A text that is no memory any more must not stay in the list of what was learned.
_ORPHANED_ITEMS = (
    "FROM learned WHERE memory_id <> 0"
    " AND NOT EXISTS (SELECT 1 FROM context c WHERE c.id = learned.memory_id)"
)
_USED_NUMBERS = (
    "FROM tenants t WHERE next_sequence <="
    f" (SELECT max(id) FROM context WHERE id >> {SEQUENCE_BITS} = t.number) - (t.number << {SEQUENCE_BITS})"
)
# The right n, total_length, bytes and message_bytes of each number. CAST: PostgreSQL's sums are decimals.
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
    """Return what is wrong, in sentences; `other_hashes` counts the rows with is_own_hash False."""
    counted = (
        (_wrong_sums(connection), "the sums of {} [user|users] are wrong"),
        (other_hashes, "{} [memory has|memories have] a content hash of another text"),
        (count(connection, _STRANGERS), "{} [memory is|memories are] filed under another user's number"),
        (
            count(connection, _USED_NUMBERS),
            "{} [user|users] would be given a number for a memory that is in use",
        ),
        (count(connection, _ORPHANED_MESSAGES), "{} [message belongs|messages belong] to no session"),
        (
            count(connection, _ORPHANED_RECALLS),
            "{} [count of recalls belongs|counts of recalls belong] to no memory",
        ),
        (count(connection, _ORPHANED_ITEMS), "{} [learned item belongs|learned items belong] to no memory"),
    )
    return tuple(inflected(n, words) for n, words in counted if n)


def count(connection: Connection, rows: str) -> int:
    """Return the number of rows of a FROM clause and all after it."""
    return int(connection.execute(f"SELECT count(*) {rows}")[0][0])


def is_own_hash(question: str, answer: str, digest: str) -> bool:
    """Return whether a memory has one of the two hashes of its text."""
    return digest in (content_hash(question, answer), unambiguous_hash(question, answer))


def _wrong_sums(connection: Connection) -> int:
    kept = set(connection.execute("SELECT number, n, total_length, bytes, message_bytes FROM tenants"))
    return len(kept.difference(connection.execute(_TRUE_SUMS)))


# ---- mending


def mend_rows(connection: Connection, terms: TermIndex) -> None:
    """Delete orphans and duplicates, file each memory under its user, renew numbers, hashes and sums."""
    connection.execute(f"DELETE {_ORPHANED_MESSAGES}")
    connection.execute(
        "UPDATE tenants SET next_sequence = 1 + coalesce((SELECT max(id) FROM context"
        f" WHERE id >> {SEQUENCE_BITS} = number) - (number << {SEQUENCE_BITS}), 0)"
        f" WHERE number IN (SELECT number {_USED_NUMBERS})"
    )
    _refile(connection, terms)
    for memory_id, question, answer, digest in _rows(connection):
        if not is_own_hash(question, answer, digest):
            _mend_hash(connection, memory_id, question, answer, terms)
    connection.execute(f"DELETE {_ORPHANED_RECALLS}")
    connection.execute(f"DELETE {_ORPHANED_ITEMS}")
    mend_sums(connection)


def mend_sums(connection: Connection) -> None:
    """Compute the sums of each user in `tenants` anew."""
    for number, *sums in connection.execute(_TRUE_SUMS):
        connection.execute(
            "UPDATE tenants SET n = ?, total_length = ?, bytes = ?, message_bytes = ?,"
            " version = version + 1, edits = edits + 1 WHERE number = ?",
            (*sums, number),
        )


def _refile(connection: Connection, terms: TermIndex) -> None:
    """Store memories under the number of the user that their row names: recall searches by the number."""
    strangers = connection.execute(
        "SELECT c.id, c.user_message, c.assistant_response, c.timestamp, c.source, c.session, c.pinned,"
        f" c.user_id {_STRANGERS} ORDER BY c.id"
    )
    # All of them first: a number that is missing from `tenants` may be given to the first of these users.
    for memory_id, question, answer, *_ in strangers:
        connection.execute("DELETE FROM context WHERE id = ?", (memory_id,))
        connection.execute("DELETE FROM recalls WHERE id = ?", (memory_id,))
        terms.remove(connection, memory_id, question, answer)
    for _, question, answer, timestamp, source, session, pinned, user_id in strangers:
        new = NewMemory(question, answer, timestamp, source, session, bool(pinned))
        terms.add(connection, user_id, [new])


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
    """Give a row the hash of its text; delete it if that text is stored already."""
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


# ---- knowledge

_TRUE_CHUNK_SUMS = (
    "SELECT s.number, count(c.id), CAST(coalesce(sum(c.doc_len), 0) AS BIGINT) FROM knowledge_sums s"
    f" LEFT JOIN chunks c ON c.id BETWEEN s.number << {SEQUENCE_BITS}"
    f" AND ((s.number + 1) << {SEQUENCE_BITS}) - 1"
    " GROUP BY s.number"
)
_EDGES_OF = (
    "(SELECT count(*) FROM edges e WHERE e.user_id = nodes.user_id AND e.from_node_id = nodes.id)"
    " + (SELECT count(*) FROM edges e WHERE e.user_id = nodes.user_id AND e.to_node_id = nodes.id)"
)
_USED = {
    # SQL of the largest number in use, of a user of knowledge_sums s.
    "next_chunk": "SELECT max(c.id) - (s.number << {bits}) FROM chunks c"
    " WHERE c.id BETWEEN s.number << {bits} AND ((s.number + 1) << {bits}) - 1",
    "next_node": "SELECT max(n.id) FROM nodes n JOIN tenants t ON t.user_id = n.user_id"
    " WHERE t.number = s.number",
    "next_edge": "SELECT max(e.id) FROM edges e JOIN tenants t ON t.user_id = e.user_id"
    " WHERE t.number = s.number",
}


class ClearableIndex(ChunkIndex, Protocol):
    """A ChunkIndex that can be rebuilt."""

    unindexed: str
    """FROM and WHERE of the chunks that are missing from the index."""
    orphaned: str
    """FROM and WHERE of the entries that have no chunk."""

    def clear(self, connection: Connection) -> None:
        """Remove the words of all chunks."""


def chunk_problems(connection: Connection, index: ClearableIndex) -> tuple[str, ...]:
    """Return what is wrong with the rows and the index of knowledge, in sentences."""
    kept = set(connection.execute("SELECT number, n, total_length FROM knowledge_sums"))
    strangers = (
        f"FROM chunks c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
        " WHERE t.user_id IS DISTINCT FROM c.user_id"
    )
    wrong_sums = kept.difference(connection.execute(_TRUE_CHUNK_SUMS))
    counted = [
        (
            count(connection, index.unindexed),
            "{} [chunk of knowledge is|chunks of knowledge are] missing from the index",
        ),
        (
            count(connection, index.orphaned),
            "{} [entry of the index of chunks has|entries of the index of chunks have] no chunk",
        ),
        (len(wrong_sums), "the sums of the chunks of {} [user|users] are wrong"),
        (
            count(connection, f"FROM nodes WHERE n_edges <> {_EDGES_OF}"),
            "{} [node counts its|nodes count their] edges wrongly",
        ),
        (count(connection, strangers), "{} [chunk is|chunks are] filed under another user's number"),
    ]
    for column in _USED:
        n = count(connection, f"FROM knowledge_sums s WHERE {column} <= ({_used(column)})")
        counted.append((n, f"{{}} [user|users] would be given a number of a {column[5:]} that is in use"))
    return tuple(inflected(n, words) for n, words in counted if n)


def mend_chunks(connection: Connection, index: ClearableIndex) -> None:
    """Repair everything that is computed from the rows; chunks under another user's number are deleted."""
    connection.execute(
        "DELETE FROM chunks WHERE NOT EXISTS (SELECT 1 FROM tenants t"
        f" WHERE t.number = chunks.id >> {SEQUENCE_BITS} AND t.user_id = chunks.user_id)"
    )
    connection.execute(f"UPDATE nodes SET n_edges = {_EDGES_OF} WHERE n_edges <> {_EDGES_OF}")
    for column in _USED:
        used = _used(column).replace("s.number", "knowledge_sums.number")
        connection.execute(f"UPDATE knowledge_sums SET {column} = ({used}) + 1 WHERE {column} <= ({used})")
    reindex_chunks(connection, index)


def reindex_chunks(connection: Connection, index: ClearableIndex) -> None:
    """Rebuild the words of all chunks from their texts, and the sums of their lengths."""
    index.clear(connection)
    after = -(1 << 62)
    while page := connection.execute(
        f"SELECT id, text FROM chunks WHERE id > ? ORDER BY id LIMIT {_PAGE}", (after,)
    ):
        for tenant in sorted({chunk_id >> SEQUENCE_BITS for chunk_id, _ in page}):
            rows = [(chunk_id, text) for chunk_id, text in page if chunk_id >> SEQUENCE_BITS == tenant]
            for (chunk_id, _), length in zip(rows, index.add(connection, tenant, rows), strict=True):
                connection.execute("UPDATE chunks SET doc_len = ? WHERE id = ?", (length, chunk_id))
        after = page[-1][0]
    for number, *sums in connection.execute(_TRUE_CHUNK_SUMS):
        connection.execute(
            "UPDATE knowledge_sums SET n = ?, total_length = ?, version = version + 1, edits = edits + 1"
            " WHERE number = ?",
            (*sums, number),
        )


def _used(column: str) -> str:
    return _USED[column].format(bits=SEQUENCE_BITS)
