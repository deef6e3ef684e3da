"""Looks after a schema: counts, sizes, max_db_size, damage and repair.

The pages of a deleted row come back when the server's autovacuum has passed, so the size of the tables says
nothing about what is kept. What max_db_size limits is computed from the rows: their text, and as much again
for the terms and indexes of memories.
"""

from __future__ import annotations

import contextlib
import logging
import time

from shepherd._native.text import TOKENIZER_VERSION
from shepherd.errors import StoreReadOnlyError
from shepherd.memory import memories, pruning, tenants
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.schema import TABLES
from shepherd.memory.postgres.terms import TERMS
from shepherd.memory.records import CheckReport, MemoryStats
from shepherd.memory.schema import SEQUENCE_BITS, memory_range

__all__ = ["Limit", "check", "refresh_index", "settle", "stats"]

_log = logging.getLogger(__name__)

_USED = "SELECT coalesce(sum(2 * bytes + message_bytes), 0)::bigint FROM tenants"
_TRUE_SUMS = (
    "SELECT t.number, count(c.id), coalesce(sum(c.doc_len), 0)::bigint,"
    f" coalesce(sum({tenants.MEMORY_BYTES_SQL}), 0)::bigint,"
    f" coalesce((SELECT sum({tenants.MESSAGE_BYTES_SQL})"
    " FROM messages m JOIN sessions s ON s.id = m.session_id WHERE s.user_id = t.user_id), 0)::bigint"
    " FROM tenants t LEFT JOIN context c"
    f" ON c.id BETWEEN t.number << {SEQUENCE_BITS} AND ((t.number + 1) << {SEQUENCE_BITS}) - 1"
    " GROUP BY t.number"
)
_WRONG_SUMS = (
    f"SELECT s.* FROM ({_TRUE_SUMS}) AS s(number, n, total_length, bytes, message_bytes)"
    " JOIN tenants t ON t.number = s.number"
    " WHERE (s.n, s.total_length, s.bytes, s.message_bytes)"
    " IS DISTINCT FROM (t.n, t.total_length, t.bytes, t.message_bytes)"
)


class Limit:
    """max_db_size, looked at often enough: adding up all users costs more than a write."""

    # Other processes write too; after so long their writes are counted.
    _STALE_S = 10.0
    _MOST_SPARE_BYTES = 256 * 1024

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = limit_bytes
        self._room = 0
        self._looked_at = 0.0

    def keep(self, database: Database, written_bytes: int) -> None:
        """Removes what is oldest when the database is over the limit, as it may be after such a write."""
        self._room -= written_bytes
        if self._room > 0 and time.monotonic() - self._looked_at < self._STALE_S:
            return
        room = self.bytes - database.read(_used_bytes)
        if room < 0:
            # A little more than asked, or every write from now on would have to look again.
            room = min(self.bytes // 64, self._MOST_SPARE_BYTES)
            _prune(database, self.bytes - room)
        # Eight processes that all write as much stay within it.
        self._room = room // 8
        self._looked_at = time.monotonic()


def _used_bytes(connection: Connection) -> int:
    return int(connection.execute(_USED)[0][0])


def _prune(database: Database, limit: int) -> None:
    """Removes what is oldest, from those who hold most, in small transactions, until the rest fits."""
    exhausted: set[int] = set()

    def step(connection: Connection) -> bool:
        excess = _used_bytes(connection) - limit
        if excess <= 0:
            return False
        largest = pruning.holders(connection, exhausted)
        if not largest or pruning.is_in_vain(connection, excess):
            _log.warning("%s: over max_db_size by what may not be removed", database.shown)
            return False
        # Nobody waits for the lock that this step holds already, so waiting here cannot be for ever.
        number = database.lock_number(f"user {largest[0].user_id}")
        connection.execute("SELECT pg_advisory_xact_lock(?)", (number,))
        if pruning.remove_some(connection, largest, excess, TERMS) is None:
            exhausted.add(largest[0].tenant)
        return True

    while database.write_locked("pruning", step):
        pass


def stats(database: Database, user_id: str, limit_bytes: int) -> MemoryStats:
    """Counts of one user, and sizes of the whole schema."""

    def count(connection: Connection) -> MemoryStats:
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
        [(file_bytes,)] = connection.execute(
            "SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(?::text[]) AS name",
            (list(TABLES),),
        )
        return MemoryStats(
            memories=n,
            pinned=pinned,
            facts=n_facts,
            sessions=n_sessions,
            oldest_timestamp=oldest,
            newest_timestamp=newest,
            used_bytes=_used_bytes(connection),
            file_bytes=file_bytes,
            limit_bytes=limit_bytes,
            path=database.shown,
        )

    return database.read(count)


def settle(database: Database) -> None:
    """Sorts what the index has only collected, and counts what the planner goes by."""

    def tidy(connection: Connection) -> None:
        connection.execute("SELECT gin_clean_pending_list('context_terms_gin'::regclass)")
        connection.run("ANALYZE context, context_terms")

    # Only the tables' owner may; autovacuum comes by itself, later.
    with contextlib.suppress(StoreReadOnlyError):
        database.write_locked("settle", tidy)


# ---- damage


def check(database: Database, *, repair: bool) -> CheckReport:
    """Looks for damage; with `repair` mends everything that can be made again from the rows."""
    found = database.read(_problems)
    if not found or not repair:
        return CheckReport(found)
    database.write_locked("schema", _mend)
    left = database.read(_problems)
    return CheckReport(found, tuple(problem for problem in found if problem not in left))


def refresh_index(database: Database) -> None:
    """Makes the terms again when another version of the tokenizer has made them."""
    if database.read(_is_outdated):
        database.write_locked("schema", _refresh)


def _refresh(connection: Connection) -> None:
    # Another process may have been first.
    if _is_outdated(connection):
        _mend(connection)


def _is_outdated(connection: Connection) -> bool:
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return rows != [(TOKENIZER_VERSION,)]


def _problems(connection: Connection) -> tuple[str, ...]:
    problems = []
    counted = (
        ("SELECT count(*) FROM context WHERE id NOT IN (SELECT id FROM context_terms)",
         "{} memories are missing from the index of terms"),
        ("SELECT count(*) FROM context_terms WHERE id NOT IN (SELECT id FROM context)",
         "{} entries of the index of terms have no memory"),
        ("SELECT count(*) FROM context c JOIN context_terms t ON t.id = c.id"
         " WHERE (t.doc_len, t.timestamp) IS DISTINCT FROM (c.doc_len, c.timestamp)",
         "{} entries of the index of terms differ from their memory"),
        ("SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
         " JOIN pg_namespace n ON n.oid = c.relnamespace"
         " WHERE n.nspname = current_schema() AND NOT i.indisvalid",
         "{} indexes are not valid; REINDEX SCHEMA makes them again"),
        (f"SELECT count(*) FROM ({_WRONG_SUMS}) AS wrong", "the sums of {} users are wrong"),
        (f"SELECT count(*) FROM context c LEFT JOIN tenants t ON t.number = c.id >> {SEQUENCE_BITS}"
         " WHERE t.user_id IS DISTINCT FROM c.user_id",
         "{} memories are filed under another user's number"),
        ("SELECT count(*) FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)",
         "{} messages belong to no session"),
    )  # fmt: skip
    for statement, words in counted:
        if n := connection.execute(statement)[0][0]:
            problems.append(words.format(n))
    if _is_outdated(connection):
        problems.append("the index of terms was made by another version of the tokenizer")
    return tuple(problems)


def _mend(connection: Connection) -> None:
    """Makes the terms and the sums again from the rows. Writers wait; readers see what was there before."""
    connection.run("LOCK TABLE tenants, context, context_terms IN SHARE ROW EXCLUSIVE MODE")
    connection.execute("DELETE FROM context_terms")
    for (tenant,) in connection.execute("SELECT number FROM tenants"):
        memories.reindex(connection, tenant, TERMS)
    connection.execute("DELETE FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)")
    for number, *sums in connection.execute(_WRONG_SUMS):
        connection.execute(
            "UPDATE tenants SET n = ?, total_length = ?, bytes = ?, message_bytes = ?,"
            " version = version + 1, edits = edits + 1 WHERE number = ?",
            (*sums, number),
        )
    connection.execute("DELETE FROM meta WHERE key = 'tokenizer_version'")
    connection.execute("INSERT INTO meta(key, value) VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))
