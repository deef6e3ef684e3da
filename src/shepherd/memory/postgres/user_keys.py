"""The table with the keys of a blind memory's users, and how a transaction finds, makes and compares them.

A key is made with the first text of its user, in the same transaction, and destroyed when the user is
removed. Each process keeps the keys that it uses. When a transaction first uses one of them, it also asks, in
the same round trip, whether that is still the stored one. If not, it fails, and runs again with the stored
key.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from shepherd.encryption.blinding import PREFIX, BlindError, UserCipher
from shepherd.encryption.user_keys import NewKeys, TransactionKeys, UnknownKeyError
from shepherd.errors import StoreCorruptError, StoreKeyError
from shepherd.memory.postgres.blind_columns import WITH_TEXTS, TextTable
from shepherd.memory.postgres.wire import Bound
from shepherd.memory.schema import memory_range

if TYPE_CHECKING:
    from shepherd.memory.postgres.database import Connection

__all__ = [
    "STATEMENTS",
    "TABLE",
    "Exchange",
    "Lookup",
    "StaleKeyError",
    "problems",
    "remove_unreadable",
    "replace",
    "unreadable",
]

TABLE = "user_keys"
# tag: that of the user's texts, for those who read texts of all users.
STATEMENTS = (
    f"""CREATE TABLE IF NOT EXISTS {TABLE}(
        user_id TEXT COLLATE "C" PRIMARY KEY,
        tag BIGINT NOT NULL,
        wrapped BYTEA NOT NULL)""",
    f"CREATE INDEX IF NOT EXISTS {TABLE}_tag ON {TABLE}(tag)",
)
_FIND = {
    "user": f"SELECT user_id, wrapped FROM {TABLE} WHERE user_id = ?",
    "tag": f"SELECT user_id, wrapped FROM {TABLE} WHERE tag = ?",
    "number": f"SELECT k.user_id, k.wrapped FROM {TABLE} k JOIN tenants t ON t.user_id = k.user_id"
    " WHERE t.number = ?",
}
_INSERT = f"INSERT INTO {TABLE}(user_id, tag, wrapped) VALUES(?, ?, ?) ON CONFLICT DO NOTHING"
_DELETE = f"DELETE FROM {TABLE} WHERE user_id = ?"
# It fails if no user has this key.
_SAME = f"SELECT 1 / count(*) FROM {TABLE} WHERE tag = ?"
_PAGE = 1000
_MOST_NAMED = 5
_RESTORE = (
    f"restore the table {TABLE} from its newest dump; what users have whose keys aren't in there either can't"
    " be read any more, and shepherd memory forget --everything --user NAME removes it"
)
Exchange = Callable[[Sequence[Bound]], list[list[tuple[Any, ...]]]]


class StaleKeyError(Exception):
    """A transaction has used a key that isn't the user's any more; the process has forgotten it."""

    def __init__(self, failure: psycopg.Error) -> None:
        super().__init__()
        self.failure = failure


class Lookup:
    """Finds the keys that a transaction needs. `makes_keys`: a user who has none gets one.

    `same_key` are statements that fail if the memory has another key than this process.
    """

    def __init__(
        self,
        keys: TransactionKeys,
        shown: str,
        exchange: Exchange,
        same_key: Sequence[Bound],
        *,
        makes_keys: bool,
    ) -> None:
        self._keys, self._shown, self._exchange, self._same_key = keys, shown, exchange, same_key
        self._makes_keys = makes_keys
        self._has_asked = False

    @property
    def proves_key(self) -> bool:
        """True if a stored key was used, so that the memory's key is that of this process."""
        return bool(self._keys.used) and not self._keys.created

    def find(self, unknown: UnknownKeyError) -> None:
        """Look a key up in the transaction; raises StoreKeyError or StoreCorruptError if it can't be had."""
        value = _number_of(unknown.value) if isinstance(unknown.value, bytes) else unknown.value
        [rows] = self._exchange([(_FIND[unknown.by], (value,))])
        number = unknown.value if isinstance(unknown.value, int) else None
        if rows:
            user_id, wrapped = rows[0]
            cipher = self._opened(user_id, bytes(wrapped))
            if unknown.value not in (user_id, cipher.tag, number):
                raise self._damaged(user_id)
            self._keys.add(cipher, number)
        elif isinstance(unknown.value, str):
            self._begin(unknown.value)
        else:
            raise self.missing("a user")

    def _begin(self, user_id: str) -> None:
        """Make the key of a user who has none; for reading, one that finds nothing."""
        if self.has_unreadable(user_id):
            raise self.missing(user_id)
        if not self._makes_keys:
            self._keys.add(self._keys.kept.wrap.temporary(user_id))
            return
        cipher = self._keys.create(user_id)
        # A writer without this user's lock may have made one: `checks` finds that out.
        self._exchange([(_INSERT, (user_id, _number_of(cipher.tag), cipher.wrapped))])

    def has_unreadable(self, user_id: str) -> bool:
        """Return whether there are texts of a user whose key isn't stored."""
        [rows] = self._exchange([(_HAS_UNREADABLE, (user_id,))])
        return rows != [(False,)]

    def _opened(self, user_id: str, wrapped: bytes) -> UserCipher:
        try:
            return self._keys.kept.wrap.opened(user_id, wrapped)
        except BlindError:
            self._exchange(self._same_key)
            raise self._damaged(user_id) from None

    def _damaged(self, user_id: str) -> StoreCorruptError:
        return StoreCorruptError(f"{self._shown}: the stored key of {user_id} is damaged", hint=_RESTORE)

    def missing(self, user_id: str) -> StoreKeyError:
        """Return the error for texts whose key is not there."""
        return StoreKeyError(
            f"{self._shown}: the texts of {user_id} can't be read: the key was destroyed, or not restored",
            hint=_RESTORE,
        )

    def checks(self) -> Sequence[Bound]:
        """Return the statements that fail unless the keys used so far are the stored ones."""
        if not self._keys.unchecked:
            return ()
        new, self._keys.unchecked = self._keys.unchecked, []
        self._has_asked = True
        return [(_SAME, (_number_of(one.tag),)) for one in new]

    def compare(self) -> None:
        """Let the next exchange compare all keys that were read with, too."""
        for cipher in self._keys.found():
            if cipher.wrapped:
                self._keys.note_used(cipher)

    def unreadable(self) -> str:
        """Return a user with texts of a lost key, of those whom the transaction reads; "" for none."""
        users = dict.fromkeys(cipher.user_id for cipher in self._keys.found())
        return next((user for user in users if self.has_unreadable(user)), "")

    def destroy(self, user_id: str) -> Bound:
        """Return the statement that destroys a user's key; nothing else of the user is stored after that."""
        self._keys.destroy(user_id)
        return _DELETE, (user_id,)

    def publish(self) -> None:
        """Let the process know which keys were made and destroyed."""
        self._keys.publish()

    def forget(self) -> bool:
        """Forget the keys that turned out to be others; return whether another try may help."""
        return self._has_asked and self._keys.drop_used()


def _number_of(tag: bytes) -> int:
    """Return a tag as it is stored: a number is sent and compared faster than bytes."""
    return int.from_bytes(tag, "big", signed=True)


# ---- all users


# Characters of a stored text that only its key's tag decides, and those of a stored key.
_OF_TEXT, _OF_KEY = "substr(t.{}, 2, 10)", "left(encode(int8send({}.tag), 'base64'), 10)"


def _unreadable_in(table: TextTable) -> str:
    """Return FROM and WHERE of the rows with a text whose key isn't stored.

    A text of another user isn't one of these: it was moved there.
    """
    found = " OR ".join(
        f"(starts_with(t.{name}, '{PREFIX}')"
        f" AND {_OF_TEXT.format(name)} IS DISTINCT FROM {_OF_KEY.format('k')}"
        f" AND NOT EXISTS (SELECT 1 FROM {TABLE} o WHERE {_OF_KEY.format('o')} = {_OF_TEXT.format(name)}))"
        for name in table.texts
        if name not in table.bytes
    )
    return f"{table.source} LEFT JOIN {TABLE} k ON k.user_id = {table.user} WHERE ({found})"


_HAS_UNREADABLE = "SELECT " + " OR ".join(
    f"EXISTS (SELECT 1 {_unreadable_in(table)} AND {table.user} = ?1)" for table in WITH_TEXTS
)


def problems(connection: Connection) -> tuple[str, ...]:
    """Return in sentences which users' keys are damaged or missing; () in a memory whose users have none."""
    keys = connection.users_keys
    if keys is None:
        return ()
    found = (("damaged", _damaged(connection, keys)), ("missing", _missing(connection)))
    return tuple(f"the keys of {_named(users)} are {what}; {_RESTORE}" for what, users in found if users)


def unreadable(connection: Connection) -> set[str]:
    """Return the users whose texts can't be read."""
    keys = connection.users_keys
    return set() if keys is None else {*_damaged(connection, keys), *_missing(connection)}


def _damaged(connection: Connection, keys: TransactionKeys) -> list[str]:
    found, after = [], ""
    while page := connection.execute(
        f"SELECT user_id, wrapped FROM {TABLE} WHERE user_id > ? ORDER BY user_id LIMIT {_PAGE}", (after,)
    ):
        found += [user for user, wrapped in page if not _is_whole(keys, user, bytes(wrapped))]
        after = page[-1][0]
    return found


def _missing(connection: Connection) -> list[str]:
    found = {
        user
        for table in WITH_TEXTS
        for (user,) in connection.execute(f"SELECT DISTINCT {table.user} {_unreadable_in(table)}")
    }
    return sorted(found)


def _named(users: Sequence[str]) -> str:
    more = len(users) - _MOST_NAMED
    return ", ".join(users[:_MOST_NAMED]) + (f" and {more} more users" if more > 0 else "")


def _is_whole(keys: TransactionKeys, user_id: str, wrapped: bytes) -> bool:
    try:
        keys.kept.wrap.opened(user_id, wrapped)
    except BlindError:
        return False
    return True


def remove_unreadable(connection: Connection, user_id: str) -> int:
    """Delete the memories of a user whose key is gone, another one or damaged; return how many there were."""
    keys = connection.users_keys
    if keys is None:
        return 0
    found = connection.execute(_FIND["user"], (user_id,))
    is_whole = not found or _is_whole(keys, user_id, bytes(found[0][1]))
    if is_whole and connection.execute(_HAS_UNREADABLE, (user_id,)) == [(False,)]:
        return 0
    for (number,) in connection.execute("SELECT number FROM tenants WHERE user_id = ?", (user_id,)):
        connection.execute("DELETE FROM context_terms WHERE tenant = ?", (number,))
        connection.execute("DELETE FROM recalls WHERE id BETWEEN ? AND ?", memory_range(number))
        # Indexes in main memory are built again: no change is listed for this version.
        connection.execute(
            "UPDATE tenants SET n = 0, total_length = 0, bytes = 0, version = version + 1 WHERE number = ?",
            (number,),
        )
    return len(connection.execute("DELETE FROM context WHERE user_id = ? RETURNING 1", (user_id,)))


def replace(connection: Connection, keys: NewKeys) -> None:
    """Store these keys in place of all others; the table may not be there yet."""
    for statement in STATEMENTS:
        connection.run(statement)
    connection.execute(f"DELETE FROM {TABLE}")
    connection.execute_many(
        _INSERT, [(one.user_id, _number_of(one.tag), one.wrapped) for one in keys.by_user.values()]
    )
