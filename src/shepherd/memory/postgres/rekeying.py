"""Another key for a blind memory: all of its rows are re-encrypted in one transaction.

    1  all tables are locked: other programs wait, and find the old or the new memory afterwards
    2  each user's texts are read with the old key, and written with the new one
    3  words, numbers of words and all that is computed from texts are made again
    4  everything is read with the new key, and counted
    5  the salt and the check of the new key take the place of the old ones

The server takes all of it or nothing. A program that has been running since before is refused when it writes
(Database.hide_with), since nobody could read that any more. A memory of the first version becomes one whose
texts are bound to their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from shepherd.encryption import MemoryKey
from shepherd.encryption.user_keys import NewKeys
from shepherd.errors import StoreCorruptError, StoreError
from shepherd.memory.postgres import maintenance, schema, user_keys
from shepherd.memory.postgres.blind import BlindColumns
from shepherd.memory.postgres.blind_columns import WITH_TEXTS, TextTable
from shepherd.memory.postgres.blind_statements import LITERALS
from shepherd.memory.postgres.database import Connection, Database

__all__ = ["check_key", "rekey", "uses"]

_PAGE = 500


def rekey(url: str, new: MemoryKey) -> None:
    """Give the blind memory at an address another key; its own is found as usual.

    Raises StoreError, and then nothing has changed; StoreKeyError without the old key.
    """
    database = Database(url)
    try:
        schema.prepare(database, blind=True)
        # Its words cannot be compared as long as another version of the tokenizer has made them.
        maintenance.refresh_index(database)
        if problems := maintenance.check(database, repair=False).problems:
            raise StoreError(
                f"{database.shown}: the memory is damaged: {problems[0]}; nothing was changed",
                hint="run shepherd memory check --repair first",
            )

        def change(connection: Connection) -> None:
            _lock(connection)
            keys = NewKeys(new, dict(connection.execute("SELECT number, user_id FROM tenants")))
            columns = BlindColumns(keys, database.shown)
            n_rows = {table.name: _rewrite(connection, table, columns) for table in WITH_TEXTS}
            hidden = connection.hidden_by(columns)
            maintenance.reindex(hidden)
            _read_again(hidden, n_rows, database.shown)
            user_keys.replace(hidden, keys)
            schema.note_other_key(hidden, new)

        database.change_key(change)
    finally:
        database.close()


def check_key(url: str) -> None:
    """Raise StoreKeyError unless the key of the blind memory at an address is found."""
    database = Database(url, read_only=True)
    try:
        schema.prepare(database, blind=True)
    finally:
        database.close()


def uses(url: str, key: MemoryKey) -> bool:
    """Return whether the memory at an address has this key; raises StoreError."""
    database = Database(url)
    try:
        return database.read(schema.salt_of_key) == key.salt
    finally:
        database.close()


def _lock(connection: Connection) -> None:
    # A large memory takes longer than a statement may.
    connection.run("SET LOCAL statement_timeout = 0")
    names = ["tenants", "meta", "context_terms", *(table.name for table in WITH_TEXTS)]
    if connection.users_keys is not None:
        names.append(user_keys.TABLE)
    connection.run(f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE")


def _rewrite(connection: Connection, table: TextTable, columns: BlindColumns) -> int:
    """Write the texts of a table with the new key; return of how many rows."""
    n_rows = 0
    for user_id in _users(connection, table):
        theirs = connection.hidden_by(columns, user_id)
        for rows in _pages(connection, table, user_id):
            n_rows += len(rows)
            if table.more:
                _insert_again(theirs, table, user_id, rows)
            else:
                _update(theirs, table, user_id, rows)
        theirs.flush()
    return n_rows


def _users(connection: Connection, table: TextTable) -> list[str]:
    return [user for (user,) in connection.execute(f"SELECT DISTINCT {table.user} {table.source}")]


def _pages(connection: Connection, table: TextTable, user_id: str) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows of a user: what names them, their texts and the rest."""
    names = ", ".join(f"t.{name}" for name in (*table.row, *table.texts, *table.more))
    statement = f"SELECT {names} {table.source} WHERE {table.user} = ?"
    if not table.is_paged:
        if rows := connection.execute(statement, (user_id,)):
            yield rows
        return
    number = f"t.{table.row[0]}"
    after = -1
    while page := connection.execute(
        f"{statement} AND {number} > ? ORDER BY {number} LIMIT {_PAGE}", (user_id, after)
    ):
        yield page
        after = page[-1][0]


def _update(connection: Connection, table: TextTable, user_id: str, rows: Sequence[tuple[Any, ...]]) -> None:
    n_names = len(table.row)
    for row in rows:
        place, texts = row[:n_names], dict(zip(table.texts, row[n_names:], strict=True))
        # What stays as it is: nothing, and what the server may read.
        changed = {
            name: text for name, text in texts.items() if text is not None and text not in (*LITERALS, b"")
        }
        if not changed:
            continue
        owner = () if table.of_session else (user_id,)
        conditions = [*([] if table.of_session else ["user_id = ?"]), *(f"{name} = ?" for name in table.row)]
        connection.execute_many(
            f"UPDATE {table.name} SET {', '.join(f'{name} = ?' for name in changed)}"
            f" WHERE {' AND '.join(conditions)}",
            [(*changed.values(), *owner, *place)],
        )


def _insert_again(
    connection: Connection, table: TextTable, user_id: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Replace all rows of a user."""
    connection.execute(f"DELETE FROM {table.name} WHERE user_id = ?", (user_id,))
    names = ("user_id", *table.texts, *table.more)
    connection.execute_many(
        f"INSERT INTO {table.name}({', '.join(names)}) VALUES({', '.join('?' * len(names))})",
        [(user_id, *row) for row in rows],
    )


def _read_again(connection: Connection, n_rows: dict[str, int], shown: str) -> None:
    """Read everything with the new key. Raises StoreCorruptError if a row was not written again."""
    for table in WITH_TEXTS:
        n_read = sum(
            len(rows) for user in _users(connection, table) for rows in _pages(connection, table, user)
        )
        [(n_there,)] = connection.execute(f"SELECT count(*) FROM {table.name}")
        if not n_read == n_there == n_rows[table.name]:
            raise StoreCorruptError(
                f"{shown}: {n_there - n_read} rows of {table.name} belong to no user; nothing was changed",
                hint="run shepherd memory check --repair first",
            )
