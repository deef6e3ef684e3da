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
from shepherd.memory import memories, tenants
from shepherd.memory.database import Database
from shepherd.memory.maintenance import TRUE_SUMS, is_index_outdated, mend_sums, reindex
from shepherd.memory.memories import content_hash, unambiguous_hash
from shepherd.memory.records import CheckReport, NewMemory
from shepherd.memory.schema import SEQUENCE_BITS

__all__ = ["check"]

_PAGE = 500
# The words of every row are counted. That the index has these very words is looked up for so many rows,
# spread over all of them.
_LOOKED_UP = 20_000
_MOST_WORDS = 50

_STRANGERS = (
    f"FROM context c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
    " WHERE t.user_id IS NOT c.user_id"
)
_ORPHANED_MESSAGES = "FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)"
_ORPHANED_RECALLS = "FROM recalls WHERE id NOT IN (SELECT id FROM context)"
_USED_NUMBERS = (
    "FROM tenants t WHERE next_sequence <="
    f" (SELECT max(id) FROM context WHERE id >> {SEQUENCE_BITS} = t.number) - (t.number << {SEQUENCE_BITS})"
)


def check(database: Database, *, repair: bool) -> CheckReport:
    """Looks for damage; with `repair` mends everything that can be made again from the rows."""
    damage, index_problems, row_problems = _look(database)
    found = (*damage, *index_problems, *row_problems)
    # What SQLite itself calls damaged is not written to.
    if damage or not found or not repair:
        return CheckReport(found)
    with database.write() as connection:
        _mend_rows(connection)
        if index_problems:
            reindex(connection)
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
            if damage := tuple(f"SQLite: {line}" for line in lines if "context_fts" not in line):
                return damage, (), ()
            inconsistent = ("the full-text index contradicts itself",) if lines else ()
            other_words, other_hashes = _compare_rows(connection) if not lines else (0, 0)
            index_problems = (*inconsistent, *_index_problems(connection, other_words))
            return (), index_problems, _row_problems(connection, other_hashes)
    except SQLiteError as error:
        failure = database.failure(error)
        if isinstance(failure, StoreCorruptError):
            return (f"SQLite: {error.message}",), (), ()
        raise failure from error


def _index_problems(connection: Connection, other_words: int) -> tuple[str, ...]:
    """What a new index would cure."""
    problems = []
    # The contentless index keeps a row of sizes for each row it holds.
    missing = "FROM context WHERE id NOT IN (SELECT id FROM context_fts_docsize)"
    orphaned = "FROM context_fts_docsize WHERE id NOT IN (SELECT id FROM context)"
    if n := _count(connection, missing):
        problems.append(f"{n} memories are missing from the full-text index")
    if n := _count(connection, orphaned):
        problems.append(f"{n} entries of the full-text index have no memory")
    if is_index_outdated(connection):
        problems.append("the full-text index was made by another version of the tokenizer")
    elif other_words:
        problems.append(f"{other_words} memories are in the full-text index with other words")
    return tuple(problems)


def _row_problems(connection: Connection, other_hashes: int) -> tuple[str, ...]:
    problems = []
    wrong = sum(1 for row in connection.execute(TRUE_SUMS) if _sums(connection, row[0]) != row[1:])
    if wrong:
        problems.append(f"the sums of {wrong} users are wrong")
    if other_hashes:
        problems.append(f"{other_hashes} memories have a content hash of another text")
    for what, problem in (
        (_STRANGERS, "memories are filed under another user's number"),
        (_USED_NUMBERS, "users would be given a number for a memory that is in use"),
        (_ORPHANED_MESSAGES, "messages belong to no session"),
        (_ORPHANED_RECALLS, "counts of recalls belong to no memory"),
    ):
        if n := _count(connection, what):
            problems.append(f"{n} {problem}")
    return tuple(problems)


def _count(connection: Connection, what: str) -> int:
    return int(connection.execute(f"SELECT count(*) {what}")[0][0])


def _sums(connection: Connection, tenant: int) -> tuple[int, int, int, int]:
    rows = connection.execute(
        "SELECT n, total_length, bytes, message_bytes FROM tenants WHERE number = ?", (tenant,)
    )
    sums: tuple[int, int, int, int] = rows[0]
    return sums


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
        "SELECT c.id, user_message, assistant_response, content_hash, doc_len, d.sz FROM context c"
        f" LEFT JOIN context_fts_docsize d ON d.id = c.id WHERE c.id > ? ORDER BY c.id LIMIT {_PAGE}",
        (after,),
    ):
        yield from map(_Row._make, page)
        after = page[-1][0]


def _compare_rows(connection: Connection) -> tuple[int, int]:
    """How many rows the index has with other words, and how many have the hash of another text."""
    other_words = other_hashes = 0
    step = _count(connection, "FROM context") // _LOOKED_UP + 1
    for number, row in enumerate(_rows(connection)):
        if not _is_own_hash(row):
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


def _is_own_hash(row: _Row) -> bool:
    return row.content_hash in (
        content_hash(row.question, row.answer),
        unambiguous_hash(row.question, row.answer),
    )


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


# ---- mending


def _mend_rows(connection: Connection) -> None:
    connection.execute(f"DELETE {_ORPHANED_MESSAGES}")
    connection.execute(
        "UPDATE tenants SET next_sequence = 1 + coalesce((SELECT max(id) FROM context"
        f" WHERE id >> {SEQUENCE_BITS} = number) - (number << {SEQUENCE_BITS}), 0)"
        f" WHERE number IN (SELECT number {_USED_NUMBERS})"
    )
    _refile(connection)
    for row in _rows(connection):
        if not _is_own_hash(row):
            _mend_hash(connection, row)
    connection.execute(f"DELETE {_ORPHANED_RECALLS}")
    mend_sums(connection)


def _refile(connection: Connection) -> None:
    """Gives memories a number of the user that their row names: recall goes by the number."""
    strangers = connection.execute(
        "SELECT c.id, c.user_message, c.assistant_response, c.timestamp, c.source, c.session, c.pinned,"
        f" c.user_id {_STRANGERS} ORDER BY c.id"
    )
    # All of them first: a number that is missing from `tenants` may be given to the first of these users.
    for memory_id, *_ in strangers:
        connection.execute("DELETE FROM context WHERE id = ?", (memory_id,))
        connection.execute("DELETE FROM context_fts WHERE rowid = ?", (memory_id,))
    for _, question, answer, timestamp, source, session, pinned, user_id in strangers:
        memory = NewMemory(question, answer, timestamp, source, session, bool(pinned))
        memories.add(connection, user_id, tenants.ensure(connection, user_id), memory)


def _mend_hash(connection: Connection, row: _Row) -> None:
    """Gives a row its own hash. One whose text is there already goes."""
    for digest in (content_hash(row.question, row.answer), unambiguous_hash(row.question, row.answer)):
        taken = connection.execute(
            "SELECT user_message FROM context WHERE content_hash = ?"
            " AND user_id = (SELECT user_id FROM context WHERE id = ?)",
            (digest, row.id),
        )
        if not taken:
            connection.execute("UPDATE context SET content_hash = ? WHERE id = ?", (digest, row.id))
            return
        if taken[0][0] == row.question:
            break
    memories.delete(connection, row.id >> SEQUENCE_BITS, [row.id])
