"""Looks after the whole database: counts, damage, repair, merging of the index, backup."""

from __future__ import annotations

import os

from shepherd._native.store import Connection, SQLiteError
from shepherd._native.text import TOKENIZER_VERSION
from shepherd.errors import StoreCorruptError, UsageError
from shepherd.memory import memories, tenants
from shepherd.memory.backup import copy_database
from shepherd.memory.database import Database
from shepherd.memory.pruning import used_bytes
from shepherd.memory.records import CheckReport, MemoryStats
from shepherd.memory.schema import SEQUENCE_BITS, memory_range

__all__ = ["backup", "check", "is_index_outdated", "merge_index", "reindex", "stats"]

# Pages per step of a merge, some 4 MB: milliseconds.
_MERGED_PAGES = 1000

_TRUE_SUMS = (
    "SELECT t.number, count(c.id), coalesce(sum(c.doc_len), 0),"
    f" coalesce(sum({tenants.MEMORY_BYTES_SQL}), 0),"
    f" coalesce((SELECT sum({tenants.MESSAGE_BYTES_SQL})"
    " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.user_id = t.user_id), 0)"
    " FROM tenants t LEFT JOIN context c"
    f" ON c.id BETWEEN t.number << {SEQUENCE_BITS} AND ((t.number + 1) << {SEQUENCE_BITS}) - 1"
    " GROUP BY t.number"
)


def stats(database: Database, user_id: str, limit_bytes: int) -> MemoryStats:
    """Counts of one user, and sizes of the whole file."""
    with database.read() as connection:
        tenant = tenants.find(connection, user_id)
        first, last = memory_range(tenant) if tenant is not None else (0, -1)
        [(n, pinned, oldest, newest)] = connection.execute(
            "SELECT count(*), coalesce(sum(pinned), 0), coalesce(min(timestamp), 0),"
            " coalesce(max(timestamp), 0) FROM context WHERE id BETWEEN ? AND ?",
            (first, last),
        )
        [(n_facts,)] = connection.execute("SELECT count(*) FROM facts WHERE user_id = ?", (user_id,))
        [(n_sessions,)] = connection.execute(
            "SELECT count(*) FROM sessions s WHERE user_id = ?"
            " AND EXISTS (SELECT 1 FROM messages WHERE session_id = s.id)",
            (user_id,),
        )
        used = used_bytes(connection)
    return MemoryStats(
        memories=n,
        pinned=pinned,
        facts=n_facts,
        sessions=n_sessions,
        oldest_timestamp=oldest,
        newest_timestamp=newest,
        used_bytes=used,
        file_bytes=os.path.getsize(database.path),
        limit_bytes=limit_bytes,
        path=database.path,
    )


def check(database: Database, *, repair: bool) -> CheckReport:
    """Looks for damage; with `repair` mends everything that can be made again from the rows."""
    damage, index_problems, row_problems = _look(database)
    found = (*damage, *index_problems, *row_problems)
    # What SQLite itself calls damaged is not written to: a copy of it may be all that is left.
    if damage or not found or not repair:
        return CheckReport(found)
    with database.write() as connection:
        if index_problems:
            reindex(connection)
        _mend_rows(connection)
    left = {problem for problems in _look(database) for problem in problems}
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def is_index_outdated(connection: Connection) -> bool:
    """Whether the index was made by another version of the tokenizer than queries are made with."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return not rows or rows[0][0] != TOKENIZER_VERSION


def reindex(connection: Connection) -> None:
    """Makes the full-text index again from the rows, and all the numbers that come from it."""
    connection.execute("INSERT INTO context_fts(context_fts) VALUES('delete-all')")
    for (tenant,) in connection.execute("SELECT number FROM tenants"):
        memories.reindex(connection, tenant)
    _mend_rows(connection)
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))


def merge_index(database: Database) -> None:
    """Merges the full-text index into one piece: recall over what an import wrote is 1.6 to 4 times faster.

    In steps, each a transaction of its own, so that other writers wait for one step and not for all of it.
    """
    pages = -_MERGED_PAGES  # below zero begins a merge of everything there is; above zero goes on with it
    while True:
        with database.write() as connection:
            [(before,)] = connection.execute("SELECT total_changes()")
            connection.execute("INSERT INTO context_fts(context_fts, rank) VALUES('merge', ?)", (pages,))
            [(after,)] = connection.execute("SELECT total_changes()")
        # FTS5's own sign that nothing was left: the command's row is the only change.
        if after - before < 2:
            return
        pages = _MERGED_PAGES


def backup(database: Database, path: str) -> None:
    """Copies the database to a new file while it is in use."""
    target = os.path.abspath(os.path.expanduser(path))
    if os.path.exists(target):
        raise UsageError(f"{target}: there is already something", hint="name a new file for the backup")
    with database.separate_connection() as connection:
        copy_database(connection, target)


# ---- what can be wrong


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
            return (), (*inconsistent, *_index_problems(connection)), _row_problems(connection)
    except SQLiteError as error:
        failure = database.failure(error)
        if isinstance(failure, StoreCorruptError):
            return (f"SQLite: {error.message}",), (), ()
        raise failure from error


def _index_problems(connection: Connection) -> tuple[str, ...]:
    """What a new index would cure."""
    problems = []
    # The contentless index keeps a row of sizes for each row it holds; its tokens cannot be read back.
    missing = "SELECT count(*) FROM context WHERE id NOT IN (SELECT id FROM context_fts_docsize)"
    orphaned = "SELECT count(*) FROM context_fts_docsize WHERE id NOT IN (SELECT id FROM context)"
    if n := connection.execute(missing)[0][0]:
        problems.append(f"{n} memories are missing from the full-text index")
    if n := connection.execute(orphaned)[0][0]:
        problems.append(f"{n} entries of the full-text index have no memory")
    if is_index_outdated(connection):
        problems.append("the full-text index was made by another version of the tokenizer")
    return tuple(problems)


def _row_problems(connection: Connection) -> tuple[str, ...]:
    problems = []
    wrong = sum(1 for row in connection.execute(_TRUE_SUMS) if _sums(connection, row[0]) != row[1:])
    if wrong:
        problems.append(f"the sums of {wrong} users are wrong")
    strangers = (
        f"SELECT count(*) FROM context c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
        " WHERE t.user_id IS NOT c.user_id"
    )
    if n := connection.execute(strangers)[0][0]:
        problems.append(f"{n} memories are filed under another user's number")
    orphans = "SELECT count(*) FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)"
    if n := connection.execute(orphans)[0][0]:
        problems.append(f"{n} messages belong to no session")
    return tuple(problems)


def _sums(connection: Connection, tenant: int) -> tuple[int, int, int, int]:
    rows = connection.execute(
        "SELECT n, total_length, bytes, message_bytes FROM tenants WHERE number = ?", (tenant,)
    )
    sums: tuple[int, int, int, int] = rows[0]
    return sums


def _mend_rows(connection: Connection) -> None:
    connection.execute("DELETE FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)")
    for number, *sums in connection.execute(_TRUE_SUMS):
        connection.execute(
            "UPDATE tenants SET n = ?, total_length = ?, bytes = ?, message_bytes = ?,"
            " version = version + 1, edits = edits + 1 WHERE number = ?",
            (*sums, number),
        )
