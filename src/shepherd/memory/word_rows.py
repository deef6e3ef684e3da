"""Search of all tables for a word, on both engines. Inside the caller's transaction."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from shepherd.transactions import Connection

__all__ = ["count_read_rows", "count_rows"]

# Columns of one statement, each with all forms of the word: a statement has 64 parameters at most.
_MOST_PARAMETERS = 60


def count_rows(
    connection: Connection, columns: Iterable[tuple[str, str]], forms: Collection[str]
) -> dict[str, int]:
    """Return how many rows of each table have one of the forms of a word, of the (table, column) given.

    ASCII letters are compared in any case. Reads everything.
    """
    by_table: dict[str, list[str]] = {}
    for table, column in columns:
        by_table.setdefault(table, []).append(column)
    # LIKE ignores the case of ASCII letters in SQLite alone.
    escaped = [re.sub(r"([\\%_])", r"\\\1", form.lower()) for form in forms]
    patterns = [f"%{form}%" for form in escaped[:_MOST_PARAMETERS]]
    found = {}
    for table, names in by_table.items():
        if n := _count(connection, table, names, patterns):
            found[table] = n
    return found


def count_read_rows(
    connection: Connection, columns: Iterable[tuple[str, str]], forms: Collection[str]
) -> dict[str, int]:
    """Do as `count_rows` on our side, for a server that cannot read the texts."""
    by_table: dict[str, list[str]] = {}
    for table, column in columns:
        by_table.setdefault(table, []).append(column)
    lowered = [form.lower() for form in forms]
    found = {}
    for table, names in by_table.items():
        rows = connection.execute(f"SELECT {', '.join(names)} FROM {table}")
        n = sum(any(form in (text or "").lower() for text in row for form in lowered) for row in rows)
        if n:
            found[table] = n
    return found


def _count(connection: Connection, table: str, names: list[str], patterns: list[str]) -> int:
    at_once = max(_MOST_PARAMETERS // len(patterns), 1)
    n_found = 0
    for start in range(0, len(names), at_once):
        some = names[start : start + at_once]
        matches = [f"lower({name}) LIKE ? ESCAPE '\\'" for name in some for _ in patterns]
        [(n,)] = connection.execute(
            f"SELECT count(*) FROM {table} WHERE {' OR '.join(matches)}", patterns * len(some)
        )
        # A row that is in two parts of the columns counts once.
        n_found = max(n_found, n)
    return n_found
