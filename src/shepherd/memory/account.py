"""The user of an account of this machine, whom a database still recognises after the machine was renamed.

Without the setting user_id, users are called HOST:LOGIN. A database in a file therefore notes which user the
account of this machine is: a number in `meta`, made of the machine's id and the login. Without that note, the
only user with the same login is taken if the file is in the account's own home folder and nobody else is in
it. In every other case nothing is assumed, and the user is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from shepherd.config import default_user_id
from shepherd.errors import StoreError
from shepherd.installation import program
from shepherd.memory.migration import DEFAULT_USER
from shepherd.memory.tenants import REMOVED
from shepherd.transactions import Connection, Transactions

__all__ = ["Account", "find_user", "is_own_file"]

# Key in `meta` of the account that a user is, before the user's id.
_ACCOUNT = "account/"
_HOST = re.compile(r"[A-Za-z0-9._-]+")
_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
_TABLES = ("tenants", "facts", "sessions", "nodes")


@dataclass(frozen=True, slots=True)
class Account:
    """An account of a machine: its default user id, and a number that outlasts the machine's name.

    The number is 0 where the machine has no id, as in most containers.
    """

    user_id: str
    number: int

    @property
    def login(self) -> str:
        """Name of the account."""
        return self.user_id.partition(":")[2]

    @classmethod
    def of_process(cls) -> Account:
        """Return the account that this process runs in."""
        user_id = default_user_id()
        machine = _machine_id()
        if not machine:
            return cls(user_id, 0)
        owner = os.getuid() if hasattr(os, "getuid") else 0
        text = f"shepherd\0{machine}\0{owner}\0{user_id.partition(':')[2]}"
        # Hashed, since machine-id(5) asks that the id itself is not passed on.
        digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        return cls(user_id, int.from_bytes(digest[:8], "big") >> 1 or 1)


def _machine_id() -> str:
    for path in _MACHINE_IDS:
        try:
            found = Path(path).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        if re.fullmatch(r"[0-9a-f]{32}", found):
            return found
    return ""


def is_own_file(path: Path) -> bool:
    """Return True for a file of this account in its own home folder."""
    try:
        path, home = path.resolve(), Path.home().resolve()
        is_ours = not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()
    except (OSError, RuntimeError):
        return False
    return is_ours and home in path.parents


def find_user(database: Transactions, account: Account, *, is_own: bool, writes: bool) -> tuple[str, str]:
    """Return the user that this account is in the database, and what to tell the user ("" for nothing).

    `is_own`: nobody else can have made the file. `writes`: the answer may be noted for later.
    """
    user, message, is_new = database.read(lambda connection: _found(connection, account, is_own))
    if is_new and writes:
        # Another process may hold the database, or the disk be full: then a later start notes it.
        with contextlib.suppress(StoreError):
            database.write(user, lambda connection: _note(connection, user, account.number))
    return user, message


def _found(connection: Connection, account: Account, is_own: bool) -> tuple[str, str, bool]:
    """Return the user, a message, and whether the user is to be noted."""
    own = account.user_id
    noted: dict[str, int] = dict(
        connection.execute(
            "SELECT substr(key, ?), value FROM meta WHERE key >= ? AND key < ? ORDER BY key",
            (len(_ACCOUNT) + 1, _ACCOUNT, f"{_ACCOUNT[:-1]}0"),
        )
    )
    known = [user for user, number in noted.items() if 0 < number == account.number]
    if known:
        return known[0], "", False
    can_note = bool(account.number) and own not in noted
    has_rows = any(
        connection.execute(f"SELECT 1 FROM {table} WHERE user_id = ? LIMIT 1", (own,)) for table in _TABLES
    )
    if has_rows and not can_note:
        return own, "", False
    users = _users(connection)
    others = sorted(user for user in users if user != own and _is_host_and(user, account.login))
    if has_rows:
        return own, _also(own, others) if others and is_own else "", can_note
    if not others:
        return own, "", can_note
    is_alone = len(others) == 1 and users <= {DEFAULT_USER, *others}
    if is_own and is_alone and others[0] not in noted:
        return others[0], "", bool(account.number)
    return own, _undecided(own, others), False


def _users(connection: Connection) -> set[str]:
    # Skips from user to user, since one may have a million rows.
    queries = [
        f"WITH RECURSIVE u(id) AS (SELECT min(user_id) FROM {table} UNION ALL SELECT"
        f" (SELECT min(user_id) FROM {table} WHERE user_id > u.id) FROM u WHERE u.id IS NOT NULL)"
        " SELECT id FROM u WHERE id IS NOT NULL"
        for table in _TABLES
    ]
    found = {user for query in queries for (user,) in connection.execute(query)}
    return {user for user in found if not user.startswith(REMOVED)}


def _is_host_and(user: str, login: str) -> bool:
    host, separator, name = user.partition(":")
    return bool(separator) and name == login and _HOST.fullmatch(host) is not None


def _undecided(own: str, others: list[str]) -> str:
    return (
        f"nothing is stored for {own} yet, but something is for {' and '.join(others)}. If that is you, for"
        " example because this machine was renamed, run this to continue with it:"
        f" {program()} config set user_id {shlex.quote(others[0])}"
    )


def _also(own: str, others: list[str]) -> str:
    return (
        f"this database also has a memory of {' and '.join(others)}. If that is you, for example because this"
        f" machine was renamed, run this to add it to that of {own}:"
        f" {program()} memory claim --from {shlex.quote(others[0])}"
    )


def _note(connection: Connection, user: str, number: int) -> None:
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT(key) DO NOTHING", (_ACCOUNT + user, number)
    )
