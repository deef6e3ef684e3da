"""Looks after the index and the sums of knowledge, on both engines: found out of step, made again.

What nodes say is the knowledge room's; here are only the numbers and words that follow from its rows. Inside
the caller's transaction.
"""

from __future__ import annotations

from typing import Protocol

from shepherd.memory.consistency import count
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import ChunkIndex, Connection

__all__ = ["ClearableIndex", "mend", "problems", "reindex"]

_PAGE = 500
_TRUE_SUMS = (
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
    # The largest number that is in use, of a user of knowledge_sums s.
    "next_chunk": "SELECT max(c.id) - (s.number << {bits}) FROM chunks c"
    " WHERE c.id BETWEEN s.number << {bits} AND ((s.number + 1) << {bits}) - 1",
    "next_node": "SELECT max(n.id) FROM nodes n JOIN tenants t ON t.user_id = n.user_id"
    " WHERE t.number = s.number",
    "next_edge": "SELECT max(e.id) FROM edges e JOIN tenants t ON t.user_id = e.user_id"
    " WHERE t.number = s.number",
}


class ClearableIndex(ChunkIndex, Protocol):
    """A ChunkIndex that can be made again."""

    unindexed: str
    """FROM and WHERE of chunks that the index has not, and of what it has without a chunk."""
    orphaned: str

    def clear(self, connection: Connection) -> None:
        """Takes the words of all chunks out."""


def problems(connection: Connection, index: ClearableIndex) -> tuple[str, ...]:
    """What is wrong, in sentences."""
    kept = set(connection.execute("SELECT number, n, total_length FROM knowledge_sums"))
    strangers = (
        f"FROM chunks c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
        " WHERE t.user_id IS DISTINCT FROM c.user_id"
    )
    wrong_sums = kept.difference(connection.execute(_TRUE_SUMS))
    counted = [
        (count(connection, index.unindexed), "{} chunks of knowledge are missing from their index"),
        (count(connection, index.orphaned), "{} entries of the index of chunks have no chunk"),
        (len(wrong_sums), "the sums of the chunks of {} users are wrong"),
        (count(connection, f"FROM nodes WHERE n_edges <> {_EDGES_OF}"), "{} nodes count their edges wrongly"),
        (count(connection, strangers), "{} chunks are filed under another user's number"),
    ]
    for column in _USED:
        n = count(connection, f"FROM knowledge_sums s WHERE {column} <= ({_used(column)})")
        counted.append((n, f"{{}} users would be given a number of a {column[5:]} that is in use"))
    return tuple(words.format(n) for n, words in counted if n)


def mend(connection: Connection, index: ClearableIndex) -> None:
    """Makes everything again that follows from the rows; chunks under a stranger's number go."""
    connection.execute(
        "DELETE FROM chunks WHERE id NOT IN (SELECT c.id FROM chunks c"
        f" JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS} AND t.user_id = c.user_id)"
    )
    connection.execute(f"UPDATE nodes SET n_edges = {_EDGES_OF} WHERE n_edges <> {_EDGES_OF}")
    for column in _USED:
        used = _used(column).replace("s.number", "knowledge_sums.number")
        connection.execute(f"UPDATE knowledge_sums SET {column} = ({used}) + 1 WHERE {column} <= ({used})")
    reindex(connection, index)


def reindex(connection: Connection, index: ClearableIndex) -> None:
    """Makes the words of all chunks again from their texts, and the sums that come from them."""
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
    for number, *sums in connection.execute(_TRUE_SUMS):
        connection.execute(
            "UPDATE knowledge_sums SET n = ?, total_length = ?, version = version + 1, edits = edits + 1"
            " WHERE number = ?",
            (*sums, number),
        )


def _used(column: str) -> str:
    return _USED[column].format(bits=SEQUENCE_BITS)
