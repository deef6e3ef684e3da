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
from dataclasses import dataclass
from typing import Any

from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import Blinder
from shepherd.errors import StoreCorruptError, StoreError
from shepherd.memory.postgres import maintenance, schema
from shepherd.memory.postgres.blind import BlindColumns
from shepherd.memory.postgres.blind_statements import LITERALS
from shepherd.memory.postgres.database import Connection, Database

__all__ = ["REWRITTEN", "check_key", "rekey", "uses"]

_PAGE = 500


@dataclass(frozen=True, slots=True)
class _Table:
    """A table with texts: what names its rows, and its texts. `of_session`: its rows name no user.

    `more`: if the texts name the rows themselves, the other columns, since each row is inserted again.
    """

    name: str
    row: tuple[str, ...]
    texts: tuple[str, ...]
    of_session: bool = False
    is_paged: bool = False
    more: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The table as `t`, and what has the user of its rows."""
        joined = " JOIN sessions s ON s.id = t.session_id" if self.of_session else ""
        return f"FROM {self.name} t{joined}"

    @property
    def user(self) -> str:
        """The column with the user."""
        return "s.user_id" if self.of_session else "t.user_id"


REWRITTEN = (
    _Table("context", ("id",), ("user_message", "assistant_response", "content_hash"), is_paged=True),
    _Table("facts", (), ("key", "value"), more=("created_at", "updated_at", "valid_from")),
    _Table("fact_history", ("id",), ("key", "value", "statement"), is_paged=True),
    _Table("learned", ("number",), ("key", "value", "former", "statement", "undo"), is_paged=True),
    _Table("sessions", ("id",), ("title",)),
    _Table(
        "messages",
        ("id", "session_id", "role"),
        ("raw", "sent", "injected", "token_ids", "tool_calls", "tool_call_id", "thought"),
        of_session=True,
        is_paged=True,
    ),
    _Table("session_entities", ("session_id", "id"), ("record",), of_session=True),
    _Table("session_summaries", ("session_id",), ("pieces",), of_session=True),
    _Table("ledger", (), ("hash", "note"), more=("used_at",)),
    _Table("extraction_jobs", ("id", "message_ids"), ("lines", "error"), is_paged=True),
)
"""The tables whose texts are written again; label, pairs and terms of memories are computed from these."""


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
        columns = BlindColumns(Blinder(new), database.shown)

        def change(connection: Connection) -> None:
            _lock(connection)
            n_rows = {table.name: _rewrite(connection, table, columns) for table in REWRITTEN}
            hidden = connection.hidden_by(columns)
            maintenance.reindex(hidden)
            _read_again(hidden, n_rows, database.shown)
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
    names = ", ".join(table.name for table in REWRITTEN)
    connection.run(f"LOCK TABLE tenants, meta, context_terms, {names} IN ACCESS EXCLUSIVE MODE")


def _rewrite(connection: Connection, table: _Table, columns: BlindColumns) -> int:
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


def _users(connection: Connection, table: _Table) -> list[str]:
    return [user for (user,) in connection.execute(f"SELECT DISTINCT {table.user} {table.source}")]


def _pages(connection: Connection, table: _Table, user_id: str) -> Iterator[list[tuple[Any, ...]]]:
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


def _update(connection: Connection, table: _Table, user_id: str, rows: Sequence[tuple[Any, ...]]) -> None:
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
    connection: Connection, table: _Table, user_id: str, rows: Sequence[tuple[Any, ...]]
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
    for table in REWRITTEN:
        n_read = sum(
            len(rows) for user in _users(connection, table) for rows in _pages(connection, table, user)
        )
        [(n_there,)] = connection.execute(f"SELECT count(*) FROM {table.name}")
        if not n_read == n_there == n_rows[table.name]:
            raise StoreCorruptError(
                f"{shown}: {n_there - n_read} rows of {table.name} belong to no user; nothing was changed",
                hint="run shepherd memory check --repair first",
            )
