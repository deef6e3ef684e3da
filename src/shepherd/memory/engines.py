"""The choice of the engine by the name of a database."""

from __future__ import annotations

import re

from shepherd import paths
from shepherd.errors import StoreError, UsageError, pip_install
from shepherd.memory.sqlite import SQLiteStore
from shepherd.memory.store import MemoryStore

__all__ = ["open_store"]


def open_store(
    database: str, *, read_only: bool, max_db_size: str, recall_cache_mb: int, busy_timeout_s: float
) -> MemoryStore:
    """Open the store of a path, or of postgresql://…; empty is the default path.

    Raises UsageError for another scheme, StoreError if it cannot be opened.
    """
    if database.startswith(("postgresql://", "postgres://")):
        return _open_postgres(
            database, read_only=read_only, max_db_size=max_db_size, busy_timeout_s=busy_timeout_s
        )
    if scheme := re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", database):  # the rest may hold a password
        raise UsageError(
            f"memory_database: there is no engine for {scheme[0]}",
            hint="write postgresql://… for PostgreSQL, or the path of a file",
        )
    if database.startswith(":memory:"):
        raise UsageError("memory_database: a database needs a file", hint="give a path, or leave it empty")
    return SQLiteStore(
        database or str(paths.default_database()),
        read_only=read_only,
        max_db_size=max_db_size,
        recall_cache_mb=recall_cache_mb,
        busy_timeout_s=busy_timeout_s,
    )


def _open_postgres(url: str, *, read_only: bool, max_db_size: str, busy_timeout_s: float) -> MemoryStore:
    # Not at the top: a memory in a file does not need psycopg, which takes 50 ms.
    try:
        from shepherd.memory.postgres import PostgresStore
    except ImportError as error:
        raise StoreError(
            f"memory_database: PostgreSQL needs psycopg 3, which cannot be loaded ({error})",
            hint=pip_install("'shepherd-llm[postgres]'")
            + " compiles it, which needs libpq-dev or libpq-devel; 'psycopg[binary]' needs neither",
        ) from None
    return PostgresStore(url, read_only=read_only, max_db_size=max_db_size, busy_timeout_s=busy_timeout_s)
