"""Search of all tables for a word, on both engines. Inside the caller's transaction."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from shepherd.memory.schema import APPLICATION_ID
from shepherd.transactions import Connection

__all__ = ["count_read_rows", "count_rows", "schema_texts", "tables_with"]

# Columns of one statement, each with all forms of the word: a statement has 64 parameters at most.
_MOST_PARAMETERS = 60
# Types of 0, 1 and integers of up to 32 bits in a record of SQLite.
_INTEGERS = (8, 9, 1, 2, 3, 4)
# Keys of the table `meta` that every memory has.
_OWN_KEYS = ("overwrites", "recalls_counted_since", "tokenizer_version")


def tables_with(connection: Connection, forms: Collection[str]) -> dict[str, int]:
    """Return how many rows of each table of a file have one of the forms of a word."""
    columns = connection.execute(
        "SELECT t.name, c.name FROM sqlite_master t JOIN pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.type = 'TEXT' AND t.name NOT LIKE '%!_fts%' ESCAPE '!'"
        " AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY t.name, c.cid"
    )
    return count_rows(connection, columns, forms)


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
        if n := _count(connection, table, names, patterns) - _n_own(connection, table, forms):
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
        if n := n - _n_own(connection, table, forms):
            found[table] = n
    return found


def schema_texts(connection: Connection) -> list[bytes]:
    """Return the texts in the file of an empty database in SQLite: its header, and names and statements."""
    texts = [b"SQLite format 3\0", bytes(4) + APPLICATION_ID.to_bytes(4, "big") + bytes(20)]
    rows = connection.execute("SELECT type || name || tbl_name, sql FROM sqlite_master")
    texts += [text.encode() for row in rows for text in row if text]
    keys = list(_OWN_KEYS)
    for (table,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%!_fts!_config' ESCAPE '!'"
    ):
        keys += [key for (key,) in connection.execute(f"SELECT k FROM {table}")]
    for key in set(keys):
        # The header of a row with a key and a number has the length of the key, and the type of the number.
        texts += [bytes((3, 2 * len(key) + 13, kind)) + key.encode() for kind in _INTEGERS]
    return texts


def _n_own(connection: Connection, table: str, forms: Collection[str]) -> int:
    """Return how many rows of a table have the word only since every memory has them."""
    if table != "meta":
        return 0
    with_word = [key for key in _OWN_KEYS if any(form.lower() in key for form in forms)]
    return sum(bool(connection.execute("SELECT 1 FROM meta WHERE key = ?", (key,))) for key in with_word)


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
