"""Maintenance of a whole database file: sizes, the full-text indexes, and the check for damage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from shepherd._native import rank
from shepherd._native.store import Connection, SQLiteError
from shepherd._native.text import TOKENIZER_VERSION, scoped
from shepherd.errors import StoreCorruptError
from shepherd.memory import consistency, discourse, memories, tenants
from shepherd.memory.database import Database
from shepherd.memory.full_text import FULL_TEXT, FileChunks
from shepherd.memory.pruning import used_bytes
from shepherd.memory.records import CheckReport, MemoryStats
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.wording import inflected

__all__ = ["check", "merge_index", "refresh_index", "reindex", "stats"]

# Pages per step of a merge, some 4 MB: milliseconds.
_MERGED_PAGES = 1000
_PAGE = 500
# The words of every row are counted. For this many rows, spread over all of them, the index is searched for
# the words themselves.
_LOOKED_UP = 20_000
_MOST_WORDS = 50
# SQLite stores any type in any column: another program, or a flipped bit, leaves bytes.
_NO_TEXT = "context WHERE typeof(user_message) <> 'text' OR typeof(assistant_response) <> 'text'"
_AS_TEXT = (
    "user_message = CAST(user_message AS TEXT), assistant_response = CAST(assistant_response AS TEXT)"
    f" {_NO_TEXT.removeprefix('context ')}"
)


def stats(database: Database, user_id: str, limit_bytes: int) -> MemoryStats:
    """Return counts of a user and sizes of the file."""
    with database.read() as connection:
        counts = tenants.counts(connection, user_id)
        used = used_bytes(connection)
    return replace(
        counts,
        used_bytes=used,
        file_bytes=os.path.getsize(database.path),
        limit_bytes=limit_bytes,
        path=database.path,
    )


def refresh_index(database: Database) -> None:
    """Rebuild the full-text index if another version of the tokenizer has made it."""
    with database.read() as connection:
        is_outdated = _is_index_outdated(connection)
    if is_outdated:
        with database.write() as connection:
            reindex(connection)


def _is_index_outdated(connection: Connection) -> bool:
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return not rows or rows[0][0] != TOKENIZER_VERSION


def reindex(connection: Connection) -> None:
    """Rebuild the full-text indexes from the rows, and all the numbers that come from them."""
    connection.execute("INSERT INTO context_fts(context_fts) VALUES('delete-all')")
    for (tenant,) in connection.execute("SELECT number FROM tenants"):
        memories.reindex(connection, tenant, FULL_TEXT)
    consistency.mend_sums(connection)
    consistency.reindex_chunks(connection, FileChunks())
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))


def merge_index(database: Database) -> None:
    """Merge each full-text index into one piece: recall after an import gets 1.6 to 4 times faster.

    In steps, each a transaction of its own, so that other writers wait for one step and not for all of it.
    """
    for table in ("context_fts", "chunks_fts"):
        _merge(database, table)


def _merge(database: Database, table: str) -> None:
    pages = -_MERGED_PAGES  # a negative number begins a merge of everything, a positive one continues it
    while True:
        with database.write() as connection:
            [(before,)] = connection.execute("SELECT total_changes()")
            connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)", (pages,))
            [(after,)] = connection.execute("SELECT total_changes()")
        # FTS5 has nothing left to merge: the command's row is the only change.
        if after - before < 2:
            return
        pages = _MERGED_PAGES


# ---- the check


def check(database: Database, *, repair: bool) -> CheckReport:
    """Look for damage, and with `repair` mend everything that can be rebuilt from the rows.

    Three layers are checked: the pages (by SQLite; never repaired, since a copy of the file may be all that
    can be saved), the full-text indexes against the rows (rebuilt), and the rows against one another (see
    consistency).
    """
    damage, index_problems, row_problems = _look(database)
    found = (*damage, *index_problems, *row_problems)
    # Pages that SQLite calls damaged are not written to.
    if damage or not found or not repair:
        return CheckReport(found)
    with database.write() as connection:
        connection.execute(f"UPDATE context SET {_AS_TEXT}")
        consistency.mend_rows(connection, FULL_TEXT)
        if index_problems:
            reindex(connection)
        if consistency.chunk_problems(connection, FileChunks()):
            consistency.mend_chunks(connection, FileChunks())
    left = {problem for problems in _look(database) for problem in problems}
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def _look(database: Database) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the problems of pages, of the full-text index, and of rows."""
    # A connection of its own: FTS5's integrity check trusts a connection's cache of the index, and calls an
    # index corrupt that another connection has rebuilt meanwhile (seen with SQLite 3.53.4).
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
            return (), index_problems, (*row_problems, *consistency.chunk_problems(connection, FileChunks()))
    except SQLiteError as error:
        failure = database.failure(error)
        if isinstance(failure, StoreCorruptError):
            return (f"SQLite: {error.message}",), (), ()
        raise failure from error


def _is_of_an_index(line: str) -> bool:
    return "context_fts" in line or "chunks_fts" in line


def _index_problems(connection: Connection, other_words: int) -> tuple[str, ...]:
    """Return the problems that a new index would solve."""
    problems = []
    # The contentless index keeps a row of sizes for each row it holds.
    missing = "FROM context WHERE id NOT IN (SELECT id FROM context_fts_docsize)"
    orphaned = "FROM context_fts_docsize WHERE id NOT IN (SELECT id FROM context)"
    if n := consistency.count(connection, missing):
        problems.append(inflected(n, "{} [memory is|memories are] missing from the full-text index"))
    if n := consistency.count(connection, orphaned):
        problems.append(
            inflected(
                n, "{} [entry of the full-text index has|entries of the full-text index have] no memory"
            )
        )
    if n := consistency.count(connection, f"FROM {_NO_TEXT}"):
        problems.append(inflected(n, "{} [memory holds|memories hold] bytes where text belongs"))
    if _is_index_outdated(connection):
        problems.append("the full-text index was made by another version of the tokenizer")
    elif other_words:
        problems.append(
            inflected(other_words, "{} [memory is|memories are] in the full-text index with other words")
        )
    return tuple(problems)


# ---- row by row


class _Row(NamedTuple):
    id: int
    question: str
    answer: str
    content_hash: str
    doc_len: int
    source: str
    sizes: bytes | None


def _rows(connection: Connection) -> Iterator[_Row]:
    after = -(1 << 63)
    while page := connection.execute(
        "SELECT c.id, CAST(user_message AS TEXT), CAST(assistant_response AS TEXT), content_hash, doc_len,"
        " source, d.sz FROM context c"
        f" LEFT JOIN context_fts_docsize d ON d.id = c.id WHERE c.id > ? ORDER BY c.id LIMIT {_PAGE}",
        (after,),
    ):
        yield from map(_Row._make, page)
        after = page[-1][0]


def _compare_rows(connection: Connection) -> tuple[int, int]:
    """Return how many rows the index has with other words, and how many have the hash of another text."""
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
        signs = discourse.signs(row.question, row.answer, row.source)
        is_same = (
            _varints(row.sizes) == [question_length, answer_length]
            and row.doc_len == rank.length_of(signs, question_length, answer_length)
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
    """Decode SQLite's varints: seven bits a byte, the highest bit set if another byte follows."""
    values, value = [], 0
    for byte in encoded:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            values.append(value)
            value = 0
    return values
