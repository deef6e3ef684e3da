"""Rows of `chunks`, their words in the engine's index and their sums in `knowledge_sums`, changed together.

Inside the caller's transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from shepherd.knowledge.chunking import spans
from shepherd.knowledge.records import ChunkResult, Part
from shepherd.transactions import ChunkHit, ChunkIndex, Connection, Meaning, Transactions

__all__ = ["Shelf", "add_part", "card", "of_node", "remove", "results", "shelf_of"]

# As memories: tenant number << 40 | sequence.
_SEQUENCE_BITS = 40
_MOST_IDS = 32
_COLUMNS = "c.id, c.node_id, n.title, c.part, c.idx, c.start_char, c.end_char, c.text, n.event_date, n.link"


@dataclass(frozen=True)
class Shelf:
    """Where a user's knowledge is filed, and what its chunks are indexed and measured by.

    `vectors`: of texts that chunks are expected to have, made before the transaction; one that is not among
    them gets its vector in the background.
    """

    user_id: str
    number: int
    index: ChunkIndex
    count_tokens: Callable[[str], int] | None = None
    meaning: Meaning | None = None
    vectors: Mapping[str, Any] = field(default_factory=dict)


def shelf_of(
    connection: Connection,
    transactions: Transactions,
    user_id: str,
    count_tokens: Callable[[str], int] | None,
    vectors: Mapping[str, Any] | None = None,
) -> Shelf:
    """The user's shelf, which is there from now on."""
    number = transactions.ensure_number(connection, user_id)
    connection.execute(
        "INSERT INTO knowledge_sums(number) VALUES(?) ON CONFLICT(number) DO NOTHING", (number,)
    )
    return Shelf(user_id, number, transactions.chunks, count_tokens, transactions.meaning, vectors or {})


def card(title: str, description: str, notes: str) -> str:
    """What a node is found by beside its text; offsets of its chunks of part `card` are into this."""
    return "\n\n".join(filter(None, (title, description, notes)))


def add_part(connection: Connection, shelf: Shelf, node_id: int, part: Part, text: str) -> None:
    """Cuts a part of a node into chunks and stores them."""
    found = spans(text)
    if part == "text":
        connection.execute(
            "UPDATE nodes SET index_state = ?, index_error = '' WHERE user_id = ? AND id = ?",
            ("chunked" if found else "none", shelf.user_id, node_id),
        )
    if not found:
        return
    [(sequence,)] = connection.execute(
        "UPDATE knowledge_sums SET next_chunk = next_chunk + ?1 WHERE number = ?2 RETURNING next_chunk - ?1",
        (len(found), shelf.number),
    )
    first = shelf.number << _SEQUENCE_BITS | int(sequence)
    pieces = [(first + i, text[start:end]) for i, (start, end) in enumerate(found)]
    lengths = shelf.index.add(connection, shelf.number, pieces)
    for idx, ((chunk_id, piece), (start, end), length) in enumerate(zip(pieces, found, lengths, strict=True)):
        n_tokens = shelf.count_tokens(piece) if shelf.count_tokens else 0
        connection.execute(
            "INSERT INTO chunks(id, user_id, node_id, part, idx, start_char, end_char, token_count, doc_len,"
            " text) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (chunk_id, shelf.user_id, node_id, part, idx, start, end, n_tokens, length, piece),
        )
    _count(connection, shelf, len(found), sum(lengths))
    made = [(chunk_id, shelf.vectors[piece]) for chunk_id, piece in pieces if piece in shelf.vectors]
    if made and shelf.meaning is not None:
        shelf.meaning.put(connection, made)


def remove(connection: Connection, shelf: Shelf, node_id: int, part: Part) -> None:
    """Takes the chunks of a part of a node out."""
    rows = connection.execute(
        "DELETE FROM chunks WHERE user_id = ? AND node_id = ? AND part = ? RETURNING id, doc_len",
        (shelf.user_id, node_id, part),
    )
    if rows:
        gone = [chunk_id for chunk_id, _ in rows]
        shelf.index.remove(connection, gone)
        version = _count(connection, shelf, -len(rows), -sum(length for _, length in rows))
        shelf.index.note_removed(connection, shelf.number, version, gone)


def _count(connection: Connection, shelf: Shelf, n: int, length: int) -> int:
    """The version from now on: one more for each chunk that came, one more for all that went together."""
    [(version,)] = connection.execute(
        "UPDATE knowledge_sums SET n = n + ?, total_length = total_length + ?, version = version + ?"
        " WHERE number = ? RETURNING version",
        (n, length, max(n, 1), shelf.number),
    )
    return int(version)


# ---- reading


def of_node(connection: Connection, user_id: str, node_id: int, part: Part = "text") -> list[ChunkResult]:
    """All chunks of a part, in order."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM chunks c JOIN nodes n ON n.user_id = c.user_id AND n.id = c.node_id"
        " WHERE c.user_id = ? AND c.node_id = ? AND c.part = ? ORDER BY c.idx",
        (user_id, node_id, part),
    )
    return [_result(row) for row in rows]


def results(connection: Connection, user_id: str, hits: Sequence[ChunkHit]) -> list[ChunkResult]:
    """The chunks of these hits, in their order."""
    rows: dict[int, ChunkResult] = {}
    for start in range(0, len(hits), _MOST_IDS):
        ids = [hit[0] for hit in hits[start : start + _MOST_IDS]]
        # By id alone: with the user beside it SQLite reads all of the user's chunks, 7 ms of 100,000.
        found = connection.execute(
            f"SELECT {_COLUMNS}, c.user_id FROM chunks c"
            " JOIN nodes n ON n.user_id = c.user_id AND n.id = c.node_id"
            f" WHERE c.id IN ({', '.join('?' * len(ids))})",
            ids,
        )
        rows |= {row[0]: _result(row[:-1]) for row in found if row[-1] == user_id}
    return [
        replace(rows[chunk_id], score=score, relevance=relevance)
        for chunk_id, _, score, relevance in hits
        if chunk_id in rows
    ]


def _result(row: tuple[Any, ...]) -> ChunkResult:
    chunk_id, node_id, title, part, idx, start, end, text, date, link = row
    return ChunkResult(chunk_id, node_id, title, part, idx, start, end, text, 0.0, 0.0, date, link)
