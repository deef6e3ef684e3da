"""Backups of an encrypted file in which each user's rows are encrypted once more, with the user's own key.

Without the keys, which are in a file of their own (see backup_keys), nobody can read the users' rows. Once a
user's key is destroyed, nobody can read that user in any older backup.

    contents     name and value: statements that make the tables, names of columns, numbers in the header
    owners       number, user, tag of the key, the user's number in `tenants` (0: none), and number of pieces
    pieces       number, owner (0: nobody), and rows as JSON, [[table, [value, …]], …]; bytes are ["base64"]

Indexes of words aren't copied, but made again.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shepherd._native.store import Connection
from shepherd.encryption import MemoryKey
from shepherd.encryption.blinding import UserCipher
from shepherd.encryption.key_file import refuse_foreign
from shepherd.errors import InternalError, UsageError
from shepherd.memory import backup_keys, failures, new_files, removal, tenants
from shepherd.memory.database import OF_BACKUP, Database, copy_key_entry, place_of_backup
from shepherd.memory.schema import BACKUP_ID, SEQUENCE_BITS

__all__ = ["KIND", "NOBODY", "SYNCED", "VERSION", "back_up", "indexes_of_words"]

VERSION = 1
NOBODY = 0
KIND = "rows of a backup"
_PIECE_BYTES, _MOST_WAITING_BYTES = 1 << 19, 1 << 25
_PAGE = 500
_BY_USER = (
    "tenants", "context", "facts", "fact_history", "learned", "sessions", "ledger", "extraction_jobs",
    "trace", "nodes", "edges", "dimensions", "node_dimensions", "focused_nodes", "chunks",
)  # fmt: skip
_BY_SESSION = ("messages", "session_entities", "session_summaries")
# Tables whose rows have the user's number, alone or in an id.
_BY_NUMBER = {"knowledge_sums": "number", "context_changes": "tenant", "chunk_changes": "tenant"}
_BY_ID = ("recalls", "context_vectors", "chunk_vectors")
# Of the one user whose memory is synced.
SYNCED = ("sync_state", "sync_log", "sync_rows", "sync_seen", "sync_own", "sync_outbox")
_META, _API_KEYS = "meta", "api_keys"
_TABLES = (*_BY_USER, *_BY_SESSION, *_BY_NUMBER, *_BY_ID, *SYNCED, _META, _API_KEYS)
# Users of a memory: everybody whom a row names, apart from the names that removed users leave.
_USERS = " UNION ".join(
    [f"SELECT user_id FROM {table}" for table in _BY_USER if table != "tenants"]
    + [f"SELECT user_id FROM tenants WHERE user_id <> '{tenants.REMOVED}' || number"]
    + [f"SELECT owner FROM {_API_KEYS} WHERE owner <> '{tenants.NO_OWNER}'"]
)
_CREATE = """
    CREATE TABLE contents(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE owners(number INTEGER PRIMARY KEY, user_id TEXT NOT NULL, tag BLOB NOT NULL,
        tenant INTEGER NOT NULL, n_pieces INTEGER NOT NULL);
    CREATE TABLE pieces(number INTEGER PRIMARY KEY, owner INTEGER NOT NULL, data BLOB NOT NULL);
"""
_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table: the columns that are copied, and those that its rows are read by."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def place(self, column: str) -> int:
        return self.columns.index(column)


# ---- making a backup


def back_up(database: Database, path: str, keys: str) -> None:
    """Copy an encrypted database to a new file, and put the keys of its users into the file `keys`."""
    key = database.key
    if key is None:
        raise UsageError(
            f"{database.path}: only the backups of an encrypted memory have keys of their users",
            hint="run shepherd encrypt first, or make a backup without --keys",
        )
    target = place_of_backup(path, database.path)
    # The file itself, whose older keys are overwritten, and not a link to it.
    keys = os.path.realpath(new_files.place_of(keys))
    is_taken = keys in (target, f"{target}-key") or target == f"{keys}-key"
    if is_taken or keys == os.path.realpath(database.path):
        raise UsageError(f"{keys}: the keys need a file of their own", hint="name another file after --keys")
    refuse_foreign(target)
    while True:
        with database.write() as connection:
            ciphers = backup_keys.ensure(connection, key, _users_of(connection))
        with database.separate_connection() as connection:
            connection.execute("BEGIN")
            users = _users_of(connection)
            # Another program may have stored something of a new user in between.
            if ciphers.keys() >= set(users):
                # First: a backup without its keys would be of no use.
                backup_keys.write(keys, database.path, key, connection)
                _write(connection, target, key, {user: ciphers[user] for user in users})
                with failures.blamed_on(target, OF_BACKUP):
                    copy_key_entry(database.path, target, key)
                return


def _users_of(connection: Connection) -> list[str]:
    """Return everybody who has something in a memory."""
    return [user for (user,) in connection.execute(_USERS)]


def _write(connection: Connection, target: str, key: MemoryKey, ciphers: Mapping[str, UserCipher]) -> None:
    """Write what `connection` sees to a new file, encrypted with `key` and then with the users' ciphers."""
    with (
        new_files.writing(target, OF_BACKUP) as part,
        Connection(part, create=False, key=key.database) as copy,
    ):
        copy.script(f"BEGIN; {_CREATE}")
        _Writer(connection, copy, ciphers).write()
        copy.script(f"PRAGMA application_id = {BACKUP_ID}; PRAGMA user_version = {VERSION}; COMMIT")


class _Writer:
    """Collects the rows of each user, and writes them piece by piece."""

    def __init__(self, connection: Connection, copy: Connection, ciphers: Mapping[str, UserCipher]) -> None:
        self._connection, self._copy, self._ciphers = connection, copy, ciphers
        self._owners = {user: number for number, user in enumerate(ciphers, 1)}
        self._waiting: dict[str, list[str]] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._n_pieces = dict.fromkeys(ciphers, 0)
        self._next = 1
        numbers = connection.execute("SELECT number, user_id FROM tenants")
        self._user_of_number = {number: user for number, user in numbers if user in ciphers}
        self._user_of_session = dict(connection.execute("SELECT id, user_id FROM sessions"))

    def write(self) -> None:
        """Write all rows, and then what they need."""
        tables = list(_tables(self._connection))
        for place, table in enumerate(tables):
            owner_of = self._owner_of(table)
            for row in _rows(self._connection, table):
                for user, kept in owner_of(row):
                    self._add(user, json.dumps([place, [_encoded(value) for value in kept]]))
        for user in list(self._waiting):
            self._flush(user)
        numbers = {user: number for number, user in self._user_of_number.items()}
        self._copy.execute_many(
            "INSERT INTO owners VALUES(?, ?, ?, ?, ?)",
            [
                (number, user, self._ciphers[user].tag, numbers.get(user, 0), self._n_pieces[user])
                for user, number in self._owners.items()
            ],
        )
        has_sequences = self._connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_sequence'")
        contents = {
            "statements": _statements(self._connection),
            "tables": [[table.name, table.columns] for table in tables],
            "sequences": self._connection.execute("SELECT name, seq FROM sqlite_sequence")
            if has_sequences
            else [],
            "user_version": self._connection.execute("PRAGMA user_version")[0][0],
            "memory": backup_keys.memory_id(self._connection),
        }
        self._copy.execute_many(
            "INSERT INTO contents VALUES(?, ?)",
            [(name, json.dumps(value)) for name, value in contents.items()],
        )

    def _owner_of(self, table: _Table) -> Callable[[_Row], list[tuple[str, _Row]]]:
        """Return a function that gives the owners of a row ("": nobody), each with the row for that owner.

        A row of nobody who is known, which a check would remove, has none.
        """
        if table.name in _BY_USER:
            place = table.place("user_id")
            # A user who was removed has a number.
            return lambda row: [(row[place] if row[place] in self._ciphers else "", row)]
        if table.name in _BY_SESSION:
            place = table.place("session_id")
            return lambda row: self._if_known(self._user_of_session.get(row[place]), row)
        if table.name in _BY_NUMBER:
            place = table.place(_BY_NUMBER[table.name])
            return lambda row: self._if_known(self._user_of_number.get(row[place]), row)
        if table.name in _BY_ID:
            place = table.place("id")
            return lambda row: self._if_known(self._user_of_number.get(row[place] >> SEQUENCE_BITS), row)
        if table.name in SYNCED:
            synced = dict(self._connection.execute("SELECT key, value FROM sync_state")).get("user", "")
            return lambda row: self._if_known(synced, row)
        if table.name == _META:
            return lambda row: [(self._user_of_meta(row[table.place("key")]), row)]
        return self._owners_of_api_key(table)

    def _if_known(self, user: str | None, row: _Row) -> list[tuple[str, _Row]]:
        return [(user, row)] if user in self._ciphers and user is not None else []

    def _user_of_meta(self, key: str) -> str:
        users = (key[len(start) :] for start in removal.KEYS_IN_META if key.startswith(start))
        return next((user for user in users if user in self._ciphers), "")

    def _owners_of_api_key(self, table: _Table) -> Callable[[_Row], list[tuple[str, _Row]]]:
        """Do as `_owner_of`. Without its user, a key stays known: a server with keys must not become open."""
        label, owner = table.place("label"), table.place("owner")

        def both(row: _Row) -> list[tuple[str, _Row]]:
            bare = (*row[:label], "", *row[label + 1 :])
            return [("", bare), *self._if_known(row[owner], row)]

        return both

    def _add(self, user: str, record: str) -> None:
        self._waiting.setdefault(user, []).append(record)
        self._sizes[user] = self._sizes.get(user, 0) + len(record)
        self._size += len(record)
        if self._sizes[user] > _PIECE_BYTES:
            self._flush(user)
        elif self._size > _MOST_WAITING_BYTES:
            for one in list(self._waiting):
                self._flush(one)

    def _flush(self, user: str) -> None:
        data = f"[{','.join(self._waiting.pop(user))}]".encode()
        self._size -= self._sizes.pop(user)
        number, self._next = self._next, self._next + 1
        if user:
            data = self._ciphers[user].data(data, KIND, (number,))
            self._n_pieces[user] += 1
        self._copy.execute(
            "INSERT INTO pieces VALUES(?, ?, ?)", (number, self._owners.get(user, NOBODY), data)
        )


def _tables(connection: Connection) -> Iterator[_Table]:
    """Yield the tables whose rows are copied."""
    made = [
        (name, sql)
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        if not name.startswith("sqlite_") and name != backup_keys.TABLE
    ]
    indexes = indexes_of_words(connection)
    for name, sql in made:
        if name.startswith(tuple(indexes)):
            continue
        if name not in _TABLES:
            raise InternalError(f"{connection.path}: nobody knows whose the rows of {name} are")
        # Name, type, and place in the primary key.
        columns = connection.execute('SELECT name, "type", pk FROM pragma_table_info(?)', (name,))
        key = [(pk, column) for column, _, pk in columns if pk]
        names = tuple(column for column, _, _ in columns)
        if "WITHOUT ROWID" in sql.upper():
            yield _Table(name, names, tuple(column for _, column in sorted(key)))
        elif len(key) == 1 and any(pk and kind == "INTEGER" for _, kind, pk in columns):
            yield _Table(name, names, (key[0][1],))
        else:
            # The order of equal rows.
            yield _Table(name, ("rowid", *names), ("rowid",))


def indexes_of_words(connection: Connection) -> list[str]:
    """Return the virtual tables, whose own tables have names that begin with theirs."""
    return [
        name
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        if str(sql).upper().startswith("CREATE VIRTUAL TABLE")
    ]


def _rows(connection: Connection, table: _Table) -> Iterator[_Row]:
    """Yield all rows, in the order of the key."""
    key = ", ".join(table.key)
    places = [table.place(column) for column in table.key]
    select = f"SELECT {', '.join(table.columns)} FROM {table.name}"
    marks = ", ".join("?" * len(table.key))
    page = connection.execute(f"{select} ORDER BY {key} LIMIT {_PAGE}")
    while page:
        yield from page
        last = [page[-1][place] for place in places]
        page = connection.execute(f"{select} WHERE ({key}) > ({marks}) ORDER BY {key} LIMIT {_PAGE}", last)


def _statements(connection: Connection) -> dict[str, list[str]]:
    """Return the statements that make tables, indexes and triggers, by these names."""
    own_tables = tuple(f"{name}_" for name in indexes_of_words(connection))
    found: dict[str, list[str]] = {"table": [], "index": [], "trigger": []}
    for kind, name, sql in connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid"
    ):
        if kind in found and not name.startswith(("sqlite_", backup_keys.TABLE, *own_tables)):
            found[kind].append(sql)
    return found


def _encoded(value: object) -> object:
    return [b64encode(value).decode()] if isinstance(value, bytes) else value
