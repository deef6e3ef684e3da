"""Numbers of PostgreSQL and refusals of libpq, as errors that say what to do. No server is asked."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import lookup
from psycopg.pq import DiagnosticField

from shepherd.errors import (
    InternalError,
    ShepherdError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLockedError,
    StoreReadOnlyError,
    UsageError,
)
from shepherd.memory.postgres import failures
from shepherd.memory.postgres.address import parse

ADDRESS = parse("postgresql://steve:secret@db.example/memory")
START = "postgresql://steve@db.example/memory: "


def failed(state: str) -> psycopg.Error:
    """Return what psycopg raises for that number; the server's other lines quote a row."""
    error = lookup(state)(
        "it failed\nDETAIL: (steve, private)", info={DiagnosticField.MESSAGE_PRIMARY: b"it failed"}
    )
    assert error.sqlstate == state
    return error


@pytest.mark.parametrize(
    ("state", "kind", "said", "hint"),
    [
        ("53100", StoreFullError, "no space left on the server's disk", "free some disk space on the server"),
        ("53300", StoreLockedError, "accepts no more connections", "raise max_connections"),
        ("42501", StoreReadOnlyError, "the role may not do that", "GRANT the role its rights"),
        ("25006", StoreReadOnlyError, "the server is read-only (a standby?)", "name the primary server"),
        ("55P03", StoreLockedError, "has held this user's memory locked", "pg_stat_activity"),
        ("57014", StoreLockedError, "stopped a statement that took too long", "statement_timeout"),
        ("25P03", StoreLockedError, "ended a transaction that stood idle", "try again"),
        ("40001", StoreLockedError, "other writers were always first", "try again"),
        ("40P01", StoreLockedError, "other writers were always first", "try again"),
        ("54000", UsageError, "the key of a fact is too long", "under 2,000 bytes"),
        ("42P10", StoreError, "probably because a newer Shepherd", "update this Shepherd"),
        ("42703", StoreError, "probably because a newer Shepherd", "update this Shepherd"),
        ("42P01", StoreError, "a table is missing", "start again"),
        ("3F000", StoreError, "the schema is gone", "start again"),
        ("57P01", StoreError, "the connection was lost", "is the server running?"),
        ("57P02", StoreError, "the connection was lost", "is the server running?"),
        ("57P03", StoreError, "the connection was lost", "is the server running?"),
        ("08006", StoreError, "the connection was lost", "is the server running?"),
        ("0A000", StoreError, "it failed (0A000)", "if this server is a standby"),
        ("XX001", StoreCorruptError, "reports damage (XX001)", "restore a backup"),
        ("XX002", StoreCorruptError, "reports damage (XX002)", "restore a backup"),
        ("58030", StoreCorruptError, "reports damage (58030)", "restore a backup"),
        ("53200", StoreError, "it failed (53200)", "look into the server's log"),
        ("57000", StoreError, "it failed (57000)", "look into the server's log"),
        ("58000", StoreError, "it failed (58000)", "look into the server's log"),
        ("55000", StoreError, "it failed (55000)", "look into the server's log"),
        ("42601", InternalError, "it failed (42601)", "please report this"),
        ("22001", InternalError, "StringDataRightTruncation (22001)", "please report this"),
    ],
)
def test_a_number_of_the_server_is_an_error_with_its_remedy(
    state: str, kind: type[ShepherdError], said: str, hint: str
) -> None:
    found = failures.from_statement(ADDRESS, failed(state))

    assert type(found) is kind
    assert str(found).startswith(START)
    assert said in str(found)
    assert hint in found.hint
    assert "private" not in str(found)


def test_a_failure_without_a_number_is_a_lost_connection_or_ours() -> None:
    lost = failures.from_statement(ADDRESS, psycopg.OperationalError("server closed the connection"))
    ours = failures.from_statement(ADDRESS, psycopg.ProgrammingError("a cursor of (steve, private)"))

    assert (type(lost), type(ours)) == (StoreError, InternalError)
    assert str(ours) == f"{START}ProgrammingError (psycopg)"


@pytest.mark.parametrize(
    ("error", "lost", "conflict", "new"),
    [
        (failed("57P01"), True, False, False),
        (failed("57P02"), True, False, False),
        (failed("57P03"), True, False, False),
        (failed("08001"), True, False, False),
        (failed("57014"), False, False, False),
        (psycopg.OperationalError("closed"), True, False, False),
        (psycopg.InterfaceError("closed"), True, False, False),
        (psycopg.ProgrammingError("no such thing"), False, False, False),
        (failed("40001"), False, True, False),
        (failed("40P01"), False, True, False),
        (failed("40002"), False, False, False),
        (failed("25006"), False, False, True),
        (failed("0A000"), False, False, True),
    ],
)
def test_what_may_be_tried_again_and_how(error: psycopg.Error, lost: bool, conflict: bool, new: bool) -> None:
    found = failures.is_lost(error), failures.is_conflict(error), failures.needs_new_connection(error)

    assert found == (lost, conflict, new)


@pytest.mark.parametrize(
    ("words", "kind", "said", "hint", "passing"),
    [
        ('FATAL: password authentication failed for "steve"', StoreError, "the password is wrong or missing",
         "~/.pgpass", False),
        ("fe_sendauth: no password supplied", StoreError, "the password is wrong or missing", "PGPASSWORD",
         False),
        ("FATAL: GSSAPI authentication failed", StoreError, "the password is wrong or missing", "~/.pgpass",
         False),
        ('FATAL: no pg_hba.conf entry for host "10.0.0.1"', StoreError, "refuses connections from here",
         "pg_hba.conf", False),
        ("FATAL: pg_hba.conf rejects connection", StoreError, "refuses connections from here", "pg_hba.conf",
         False),
        ('FATAL: role "steve" does not exist', StoreError, "there is no such role",
         "as its superuser: createuser", False),
        ('FATAL: database "memory" does not exist', StoreError, "there is no such database",
         "as its superuser: createdb", False),
        ('"/run/pg.sock" failed: the file does not exist', StoreError, "the server cannot be reached",
         "pg_isready", False),
        ("FATAL: sorry, too many clients already", StoreLockedError, "accepts no more connections",
         "max_connections", False),
        ("FATAL: remaining connection slots are reserved", StoreLockedError, "accepts no more connections",
         "max_connections", False),
        ('FATAL: too many connections for role "steve"', StoreLockedError, "accepts no more connections",
         "fewer clients", False),
        ("FATAL: unsupported startup parameter: " + "x" * 200, StoreError,
         f"(unsupported startup parameter: {'x' * 69})", "remove options=", False),
        ("a.example: session is read-only", StoreReadOnlyError, "none of these servers can be written",
         "wait until one has taken over", True),
        ("a.example: server is in hot standby mode", StoreReadOnlyError, "none of these servers",
         "name the primary server", True),
        ("FATAL: server login has been failing, try again later (server_login_retry)", StoreError,
         "the pooler has no connection to its server", "the pooler's log", True),
        ("FATAL: query_wait_timeout", StoreError, "the pooler has no connection to its server",
         "the pooler's log", True),
        ("FATAL: the database system is starting up", StoreError, "cannot be reached", "pg_isready", True),
        ("FATAL: the database system is in recovery", StoreError, "cannot be reached", "pg_isready", True),
        ("Connection  refused\n\tIs it secret? " + "x" * 300, StoreError,
         f"(Connection refused Is it ***? {'x' * 270})", "are host and port right?", False),
    ],
)  # fmt: skip
def test_a_refused_connection_is_an_error_with_its_remedy(
    words: str, kind: type[StoreError], said: str, hint: str, passing: bool
) -> None:
    error = psycopg.OperationalError(words)

    found = failures.from_connecting(ADDRESS, error)

    assert type(found) is kind
    assert str(found).startswith(START)
    assert said in str(found)
    assert hint in found.hint
    assert failures.is_passing(error) is passing
