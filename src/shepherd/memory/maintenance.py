"""Looks after the whole database: counts, a new index, merging of the index, backup."""

from __future__ import annotations

import os
from dataclasses import replace

from shepherd._native.store import Connection
from shepherd._native.text import TOKENIZER_VERSION
from shepherd.errors import StoreError, UsageError
from shepherd.memory import chunk_upkeep, consistency, memories, tenants
from shepherd.memory.backup import copy_database
from shepherd.memory.chunk_index import FileChunks
from shepherd.memory.database import Database
from shepherd.memory.pruning import used_bytes
from shepherd.memory.records import MemoryStats

__all__ = [
    "backup",
    "is_index_outdated",
    "merge_index",
    "reindex",
    "stats",
]

# Pages per step of a merge, some 4 MB: milliseconds.
_MERGED_PAGES = 1000


def stats(database: Database, user_id: str, limit_bytes: int) -> MemoryStats:
    """Counts of one user, and sizes of the whole file."""
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


def is_index_outdated(connection: Connection) -> bool:
    """Whether the index was made by another version of the tokenizer than queries are made with."""
    rows = connection.execute("SELECT value FROM meta WHERE key = 'tokenizer_version'")
    return not rows or rows[0][0] != TOKENIZER_VERSION


def reindex(connection: Connection) -> None:
    """Makes the full-text index again from the rows, and all the numbers that come from it."""
    connection.execute("INSERT INTO context_fts(context_fts) VALUES('delete-all')")
    for (tenant,) in connection.execute("SELECT number FROM tenants"):
        memories.reindex(connection, tenant)
    consistency.mend_sums(connection)
    chunk_upkeep.reindex(connection, FileChunks())
    connection.execute("INSERT OR REPLACE INTO meta VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))


def merge_index(database: Database) -> None:
    """Merges each full-text index into one piece: recall over what an import wrote is 1.6 to 4 times faster.

    In steps, each a transaction of its own, so that other writers wait for one step and not for all of it.
    """
    for table in ("context_fts", "chunks_fts"):
        _merge(database, table)


def _merge(database: Database, table: str) -> None:
    pages = -_MERGED_PAGES  # below zero begins a merge of everything there is; above zero goes on with it
    while True:
        with database.write() as connection:
            [(before,)] = connection.execute("SELECT total_changes()")
            connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('merge', ?)", (pages,))
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
        try:
            copy_database(connection, target)
        except StoreError as error:
            if str(error).startswith(f"{target}:"):  # the copy is to blame, not the database
                error.hint = "name another file for the backup"
            raise
