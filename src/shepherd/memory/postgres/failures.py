"""PostgreSQL's errors as Shepherd's: what happened, to which database, and the remedy.

The server's DETAIL lines quote rows, so only an error's number and first line are repeated.
"""

from __future__ import annotations

import psycopg

from shepherd.errors import (
    InternalError,
    ShepherdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreKeyError,
    StoreLockedError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.memory.postgres.address import Address

__all__ = [
    "from_connecting",
    "from_statement",
    "is_conflict",
    "is_locked",
    "is_lost",
    "is_other_key",
    "is_passing",
    "lost_commit",
    "needs_new_connection",
    "read_only",
    "replaced_user_key",
]

# SQLSTATEs: postgresql.org/docs/current/errcodes-appendix.html.
_CONFLICTS = {"40001", "40P01"}  # serialization failure, deadlock: rolled back, may be tried again
_GOING = {"57P01", "57P02", "57P03"}  # the server stops, crashed, is not ready yet
# Writing, and beginning to write, on a standby; a prepared statement whose result has other columns now.
_OUTLIVED = {"25006", "0A000"}

# libpq gives no number for a failed connection, only the server's message; it is English unless lc_messages
# is set, and is shown unchanged if it is not recognised.
_PASSWORD = ("password authentication failed", "no password supplied", "authentication failed")
_NO_ENTRY = ("no pg_hba.conf entry", "pg_hba.conf rejects")
_NOT_THERE = ("does not exist",)
# Of several hosts none is the one that libpq was told to look for (target_session_attrs).
_STANDBY = ("session is read-only", "is in hot standby mode")
# PgBouncer takes clients while its own server is away, or refuses them.
_NO_SERVER = ("server login has been failing", "query_wait_timeout")
_PASSING = ("starting up", "in recovery", *_STANDBY, *_NO_SERVER)
_REFUSED = "unsupported startup parameter"  # PgBouncer
_TOO_MANY = ("too many clients", "remaining connection slots", "too many connections")


def is_lost(error: psycopg.Error) -> bool:
    """Return whether the connection is lost, and the server may be back in a moment."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return state in _GOING or state.startswith("08")


def needs_new_connection(error: psycopg.Error) -> bool:
    """Return whether a connection is of no use any more, and a new one may do.

    The server is a standby, since another one has taken over; or tables were changed since a statement of
    theirs was prepared.
    """
    return error.sqlstate in _OUTLIVED


def is_passing(error: psycopg.Error) -> bool:
    """Return whether a server that refuses a connection will soon take it, or another one will take over."""
    return any(known in str(error) for known in _PASSING)


def is_locked(error: psycopg.Error) -> bool:
    """Return whether another transaction has held a lock for too long."""
    return error.sqlstate == "55P03"


def is_conflict(error: psycopg.Error) -> bool:
    """Return whether the transaction was rolled back because of another one, and may be tried again."""
    return error.sqlstate in _CONFLICTS


def is_other_key(error: psycopg.Error) -> bool:
    """Return whether the key of the memory or of a user isn't the stored one any more."""
    # Nothing else divides by zero.
    return error.sqlstate == "22012"


def replaced_user_key(address: Address) -> StoreError:
    """Return the error for a user's key that another process has replaced, where nothing is tried again."""
    return StoreKeyError(
        f"{address.shown}: the key of a user was replaced in the meantime; nothing of this was stored",
        hint="try again",
    )


def from_connecting(address: Address, error: psycopg.Error) -> StoreError:
    """Return the error to raise when there is no connection."""
    words = address.without_secrets(" ".join(str(error).split()))
    where = address.shown
    if any(known in words for known in _PASSWORD):
        return StoreError(
            f"{where}: the password is wrong or missing",
            hint="put it into ~/.pgpass (mode 0600) or PGPASSWORD rather than into the address",
        )
    if any(known in words for known in _NO_ENTRY):
        return StoreError(
            f"{where}: the server refuses connections from here under that name",
            hint="the server's administrator allows it in pg_hba.conf",
        )
    if any(known in words for known in _NOT_THERE) and ("role" in words or "database" in words):
        thing, program = ("role", "createuser") if "role" in words else ("database", "createdb")
        return StoreError(
            f"{where}: there is no such {thing}", hint=f"create it on the server, as its superuser: {program}"
        )
    if any(known in words for known in _TOO_MANY):
        return StoreLockedError(
            f"{where}: the server accepts no more connections",
            hint="raise max_connections, or use fewer clients",
        )
    if _REFUSED in words:
        return StoreError(
            f"{where}: the pooler refuses a part of this address ({words[words.index(_REFUSED) :][:100]})",
            hint="remove options= from the address; ALTER ROLE … SET … gives a role the same settings",
        )
    if any(known in words for known in _STANDBY):
        return StoreReadOnlyError(
            f"{where}: none of these servers can be written ({words[:300]})",
            hint="wait until one has taken over, or name the primary server",
        )
    if any(known in words for known in _NO_SERVER):
        return StoreError(
            f"{where}: the pooler has no connection to its server ({words[:300]})",
            hint="is the server running? the pooler's log says why it cannot connect",
        )
    return StoreError(
        f"{where}: the server cannot be reached ({words[:300]})",
        hint="is it running, and are host and port right? pg_isready checks",
    )


def from_statement(address: Address, error: psycopg.Error) -> ShepherdError:
    """Return the error to raise instead of `error`, which a connected server or psycopg raised."""
    state = error.sqlstate or ""
    where = address.shown
    if state in _KNOWN:
        kind, what, hint = _KNOWN[state]
        return kind(f"{where}: {what}", hint=hint)
    if is_lost(error):
        return StoreError(
            f"{where}: the connection was lost", hint="is the server running? pg_isready checks"
        )
    if state == "23514" and error.diag.constraint_name == "writes_format":
        return StoreError(
            f"{where}: a newer Shepherd has upgraded this database; nothing of this change was stored",
            hint="update this Shepherd, and start it again",
        )
    if state == "0A000":
        return StoreError(
            f"{where}: {_first_line(error)} ({state})",
            hint="if this server is a standby, name the primary server; otherwise, look into its log",
        )
    if state in ("XX001", "XX002", "58030"):
        return StoreCorruptError(
            f"{where}: the server reports damage ({state})",
            hint="look into the server's log; restore a backup",
        )
    if state[:2] in ("53", "57", "58", "55"):
        return StoreError(f"{where}: {_first_line(error)} ({state})", hint="look into the server's log")
    return InternalError(f"{where}: {_first_line(error)} ({state or 'psycopg'})", hint="please report this")


def lost_commit(address: Address) -> StoreError:
    """Return the error for a connection that was lost during a commit."""
    return StoreError(
        f"{address.shown}: the connection was lost during a commit; the change may or may not be stored",
        hint="check whether it was stored, and repeat it if not",
    )


def read_only(address: Address) -> StoreReadOnlyError:
    """Return the error for a write to a database that is opened or allowed for reading only."""
    return StoreReadOnlyError(f"{address.shown}: the database cannot be written", hint=_RIGHTS)


_RIGHTS = "GRANT the role its rights (docs/how-to/postgresql.md)"

# An older Shepherd that is still running finds this out by its statements.
_CHANGED = "the tables have changed, probably because a newer Shepherd has upgraded them; nothing was stored"

_KNOWN: dict[str, tuple[type[ShepherdError], str, str]] = {
    "53100": (StoreFullError, "no space left on the server's disk; nothing of this change was stored",
              "free some disk space on the server"),
    "53300": (StoreLockedError, "the server accepts no more connections", "raise max_connections"),
    "42501": (StoreReadOnlyError, "the role may not do that", _RIGHTS),
    "25006": (StoreReadOnlyError, "the server is read-only (a standby?)", "name the primary server"),
    "55P03": (StoreLockedError, "another process has held this user's memory locked for too long",
              "wait for it to finish, or find it in pg_stat_activity"),
    "57014": (StoreLockedError, "the server stopped a statement that took too long",
              "look into pg_stat_activity; statement_timeout in the address's options sets the time"),
    "25P03": (StoreLockedError, "the server ended a transaction that stood idle", "try again"),
    "40001": (StoreLockedError, "other writers were always first", "try again"),
    "40P01": (StoreLockedError, "other writers were always first", "try again"),
    # Of schema.SAME_KEY, and of users' keys after a second try.
    "22012": (StoreKeyError, "the memory's key was changed in the meantime; nothing of this was stored",
              "quit, and restart Shepherd with the new key"),
    "54000": (UsageError, "a user id or the key of a fact is too long for PostgreSQL",
              "keep both together under 2,000 bytes"),
    # No such key for ON CONFLICT; no such column.
    "42P10": (StoreError, _CHANGED, "update this Shepherd, and start it again"),
    "42703": (StoreError, _CHANGED, "update this Shepherd, and start it again"),
    "42P01": (StoreError, "a table is missing", "tables are made when the database is opened: start again"),
    "3F000": (StoreError, "the schema is gone", "it is made when the database is opened: start again"),
}  # fmt: skip


def _first_line(error: psycopg.Error) -> str:
    # In class 22 (data exception) even the first line may quote a value.
    if (error.sqlstate or "22").startswith("22"):
        return type(error).__name__
    return error.diag.message_primary or type(error).__name__
