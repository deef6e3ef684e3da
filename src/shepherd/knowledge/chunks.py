"""Chunks of documents: splitting of texts, the rows of `chunks`, and their words in the engine's index."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shepherd.knowledge.records import ChunkResult, Part
from shepherd.sequences import SEQUENCE_BITS
from shepherd.transactions import ChunkHit, ChunkIndex, Connection, Meaning, Transactions

__all__ = ["CHUNK_CHARS", "Shelf", "add_part", "card", "of_node", "remove", "results", "shelf_of", "spans"]


CHUNK_CHARS = 1000

# Overlap with the piece before, in percent of the size.
_LEAST_OVERLAP, _MOST_OVERLAP = 15, 20
# Gaps from the best place to cut to the worst.
_GAPS = tuple(
    re.compile(gap)
    for gap in (
        r"\n[^\S\n]*\n\s*",
        r"\n\s*",
        # No white space follows a full stop of CJK.
        "(?:(?<=[.!?…])|(?<=[.!?…][\"')\\]»”\u2019]))\\s+|(?<=[。\uff01\uff1f｡])\\s*",
        r"\s+",
    )
)
_BLANKS = re.compile(r"\s*")
# Letters with more marks than this can be split.
_MOST_MARKS = 16


def spans(text: str, size: int = CHUNK_CHARS) -> list[tuple[int, int]]:
    """Return (start, end) of pieces of at most `size` characters, in order.

    The pieces cover every character that is not white space; none begins or ends with white space.
    """
    if size < 20:
        raise ValueError(f"a piece has at least 20 characters, not {size}")
    return list(_pieces(text, size))


def _pieces(text: str, size: int) -> Iterator[tuple[int, int]]:
    least, most = size * _LEAST_OVERLAP // 100, size * _MOST_OVERLAP // 100
    last = len(text.rstrip())
    start = _after_blanks(text, 0)
    while last - start > size:
        end = _end(text, start, size)
        yield start, end
        start = _after_blanks(text, _overlap(text, end - most, end - least) if end - most > start else end)
    if start < last:
        yield start, last


def _end(text: str, start: int, size: int) -> int:
    """Return the end of the piece from `start`: the last of the best gaps in its second half."""
    low, high = start + size // 2, start + size
    for gap in _GAPS:
        places = [found.start() for found in gap.finditer(text, low + 1, high + 1)]
        if places:
            # White space before the gap belongs to it.
            return start + len(text[start : places[-1]].rstrip())
    return start + len(text[start : _between_letters(text, high)].rstrip())


def _overlap(text: str, low: int, high: int) -> int:
    """Return the start of the next piece: after the first of the best gaps."""
    for gap in _GAPS:
        found = gap.search(text, low, high)
        if found is not None and found.end() <= high:
            return found.end()
    return _between_letters(text, low)


def _after_blanks(text: str, start: int) -> int:
    blanks = _BLANKS.match(text, start)
    return start if blanks is None else blanks.end()


def _between_letters(text: str, index: int) -> int:
    """Return the nearest place at or before `index` that does not separate a letter from its marks."""
    for place in range(index, max(index - _MOST_MARKS, 0), -1):
        if place >= len(text) or not (unicodedata.combining(text[place]) or text[place] == "\u200d"):
            return place
    return index


_MOST_IDS = 32
_COLUMNS = "c.id, c.node_id, n.title, c.part, c.idx, c.start_char, c.end_char, c.text, n.event_date, n.link"


@dataclass(frozen=True)
class Shelf:
    """A user's number, and the index, tokeniser and vectors of the user's chunks.

    `vectors` by text were made before the transaction; other chunks get theirs in the background.
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
    """Return the user's shelf, whose rows are added if they are missing."""
    number = transactions.ensure_number(connection, user_id)
    connection.execute(
        "INSERT INTO knowledge_sums(number) VALUES(?) ON CONFLICT(number) DO NOTHING", (number,)
    )
    return Shelf(user_id, number, transactions.chunks, count_tokens, transactions.meaning, vectors or {})


def card(title: str, description: str, notes: str) -> str:
    """Return the part `card` of a node, by which it is found beside its text."""
    return "\n\n".join(filter(None, (title, description, notes)))


def add_part(connection: Connection, shelf: Shelf, node_id: int, part: Part, text: str) -> None:
    """Split a part of a node into chunks and store them."""
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
    first = shelf.number << SEQUENCE_BITS | int(sequence)
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
    """Remove the chunks of a part of a node."""
    rows = connection.execute(
        "DELETE FROM chunks WHERE user_id = ? AND node_id = ? AND part = ? RETURNING id, doc_len, text",
        (shelf.user_id, node_id, part),
    )
    if rows:
        gone = [chunk_id for chunk_id, _, _ in rows]
        shelf.index.remove(connection, [(chunk_id, text) for chunk_id, _, text in rows])
        version = _count(connection, shelf, -len(rows), -sum(length for _, length, _ in rows))
        shelf.index.note_removed(connection, shelf.number, version, gone)


def _count(connection: Connection, shelf: Shelf, n: int, length: int) -> int:
    """Update the sums; return the new version: plus one for each added chunk, or for a removal."""
    [(version,)] = connection.execute(
        "UPDATE knowledge_sums SET n = n + ?, total_length = total_length + ?, version = version + ?"
        " WHERE number = ? RETURNING version",
        (n, length, max(n, 1), shelf.number),
    )
    return int(version)


# ---- reading


def of_node(connection: Connection, user_id: str, node_id: int, part: Part = "text") -> list[ChunkResult]:
    """Return all chunks of a part, in order."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM chunks c JOIN nodes n ON n.user_id = c.user_id AND n.id = c.node_id"
        " WHERE c.user_id = ? AND c.node_id = ? AND c.part = ? ORDER BY c.idx",
        (user_id, node_id, part),
    )
    return [_result(row) for row in rows]


def beginning(connection: Connection, user_id: str, node_id: int) -> str:
    """Return the first chunk of a node's text; "" without any."""
    rows = connection.execute(
        "SELECT text FROM chunks WHERE user_id = ? AND node_id = ? AND part = 'text' AND idx = 0",
        (user_id, node_id),
    )
    return str(rows[0][0]) if rows else ""


def results(connection: Connection, user_id: str, hits: Sequence[ChunkHit]) -> list[ChunkResult]:
    """Return the chunks of these hits, in their order."""
    rows: dict[int, tuple[Any, ...]] = {}
    for start in range(0, len(hits), _MOST_IDS):
        ids = [hit[0] for hit in hits[start : start + _MOST_IDS]]
        # With a condition on the user SQLite would read all of the user's chunks, 7 ms for 100,000.
        found = connection.execute(
            f"SELECT {_COLUMNS}, c.user_id FROM chunks c"
            " JOIN nodes n ON n.user_id = c.user_id AND n.id = c.node_id"
            f" WHERE c.id IN ({', '.join('?' * len(ids))})",
            ids,
        )
        rows |= {row[0]: row[:-1] for row in found if row[-1] == user_id}
    return [
        _result(rows[chunk_id], score, relevance)
        for chunk_id, _, score, relevance in hits
        if chunk_id in rows
    ]


def _result(row: tuple[Any, ...], score: float = 0.0, relevance: float = 0.0) -> ChunkResult:
    chunk_id, node_id, title, part, idx, start, end, text, date, link = row
    return ChunkResult(chunk_id, node_id, title, part, idx, start, end, text, score, relevance, date, link)
