"""Looks for damage in a database, and mends what can be made again from the rows themselves.

Three layers: the pages (SQLite's own check; never repaired, a copy of it may be all that is left), the
full-text index against the rows (made again), and the rows against one another: sums, orphans, wrong numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from shepherd._native.store import Connection, SQLiteError
from shepherd._native.text import scoped
from shepherd.errors import StoreCorruptError
from shepherd.memory import adding, chunk_upkeep, consistency, memories
from shepherd.memory.chunk_index import FileChunks
from shepherd.memory.database import Database
from shepherd.memory.maintenance import is_index_outdated, reindex
from shepherd.memory.records import CheckReport
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["check"]

_PAGE = 500
# The words of every row are counted. That the index has these very words is looked up for so many rows,
# spread over all of them.
_LOOKED_UP = 20_000
_MOST_WORDS = 50
# SQLite keeps any type in any column: another program, or a flipped bit, leaves bytes.
_NO_TEXT = "context WHERE typeof(user_message) <> 'text' OR typeof(assistant_response) <> 'text'"
_AS_TEXT = (
    "user_message = CAST(user_message AS TEXT), assistant_response = CAST(assistant_response AS TEXT)"
    f" {_NO_TEXT.removeprefix('context ')}"
)


def check(database: Database, *, repair: bool) -> CheckReport:
    """Looks for damage; with `repair` mends everything that can be made again from the rows."""
    damage, index_problems, row_problems = _look(database)
    found = (*damage, *index_problems, *row_problems)
    # What SQLite itself calls damaged is not written to.
    if damage or not found or not repair:
        return CheckReport(found)
    with database.write() as connection:
        connection.execute(f"UPDATE context SET {_AS_TEXT}")
        consistency.mend_rows(connection, adding.add_all, memories.FULL_TEXT)
        if index_problems:
            reindex(connection)
        if chunk_upkeep.problems(connection, FileChunks()):
            chunk_upkeep.mend(connection, FileChunks())
    left = {problem for problems in _look(database) for problem in problems}
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def _look(database: Database) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Problems of pages, of the full-text index, and of rows."""
    # A connection of its own: FTS5's integrity check trusts what a connection has cached of the index, and
    # calls an index corrupt that another connection has made again meanwhile (seen with SQLite 3.53.4).
    try:
        with database.separate_connection() as connection:
            connection.execute("BEGIN")
            lines = [line for (line,) in connection.execute("PRAGMA integrity_check(20)") if line != "ok"]
            if damage := tuple(f"SQLite: {line}" for line in lines if not _is_of_an_index(line)):
                return damage, (), ()
            inconsistent = ("the full-text index contradicts itself",) if lines else ()
            other_words, other_hashes = _compare_rows(connection) if not lines else (0, 0)
            index_problems = (*inconsistent, *_index_problems(connection, other_words))
            row_problems = consistency.problems(connection, other_hashes)
            return (), index_problems, (*row_problems, *chunk_upkeep.problems(connection, FileChunks()))
    except SQLiteError as error:
        failure = database.failure(error)
        if isinstance(failure, StoreCorruptError):
            return (f"SQLite: {error.message}",), (), ()
        raise failure from error


def _is_of_an_index(line: str) -> bool:
    return "context_fts" in line or "chunks_fts" in line


def _index_problems(connection: Connection, other_words: int) -> tuple[str, ...]:
    """What a new index would cure."""
    problems = []
    # The contentless index keeps a row of sizes for each row it holds.
    missing = "FROM context WHERE id NOT IN (SELECT id FROM context_fts_docsize)"
    orphaned = "FROM context_fts_docsize WHERE id NOT IN (SELECT id FROM context)"
    if n := consistency.count(connection, missing):
        problems.append(f"{n} memories are missing from the full-text index")
    if n := consistency.count(connection, orphaned):
        problems.append(f"{n} entries of the full-text index have no memory")
    if n := consistency.count(connection, f"FROM {_NO_TEXT}"):
        problems.append(f"{n} memories hold bytes where text belongs")
    if is_index_outdated(connection):
        problems.append("the full-text index was made by another version of the tokenizer")
    elif other_words:
        problems.append(f"{other_words} memories are in the full-text index with other words")
    return tuple(problems)


# ---- row by row


class _Row(NamedTuple):
    id: int
    question: str
    answer: str
    content_hash: str
    doc_len: int
    sizes: bytes | None


def _rows(connection: Connection) -> Iterator[_Row]:
    after = -(1 << 63)
    while page := connection.execute(
        "SELECT c.id, CAST(user_message AS TEXT), CAST(assistant_response AS TEXT), content_hash, doc_len,"
        " d.sz FROM context c"
        f" LEFT JOIN context_fts_docsize d ON d.id = c.id WHERE c.id > ? ORDER BY c.id LIMIT {_PAGE}",
        (after,),
    ):
        yield from map(_Row._make, page)
        after = page[-1][0]


def _compare_rows(connection: Connection) -> tuple[int, int]:
    """How many rows the index has with other words, and how many have the hash of another text."""
    other_words = other_hashes = 0
    step = consistency.count(connection, "FROM context") // _LOOKED_UP + 1
    for number, row in enumerate(_rows(connection)):
        if not consistency.is_own_hash(row.question, row.answer, row.content_hash):
            other_hashes += 1
        if row.sizes is None:
            continue  # counted as missing
        tenant = row.id >> SEQUENCE_BITS
        question, question_length = scoped(row.question, tenant)
        answer, answer_length = scoped(row.answer, tenant)
        is_same = (
            _varints(row.sizes) == [question_length, answer_length]
            and row.doc_len == question_length + answer_length
            and (number % step != 0 or _has_words(connection, row.id, question + b" " + answer))
        )
        other_words += not is_same
    return other_words, other_hashes


def _has_words(connection: Connection, memory_id: int, tokens: bytes) -> bool:
    words = sorted(set(tokens.decode().split()))[:_MOST_WORDS]
    match = " AND ".join(f'"{word}"' for word in words)
    return not words or bool(
        connection.execute(
            "SELECT 1 FROM context_fts WHERE context_fts MATCH ? AND rowid = ?", (match, memory_id)
        )
    )


def _varints(encoded: bytes) -> list[int]:
    """SQLite's numbers of variable length: seven bits a byte, the highest says that another follows."""
    values, value = [], 0
    for byte in encoded:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            values.append(value)
            value = 0
    return values
