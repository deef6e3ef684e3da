"""Connections to one schema of a PostgreSQL database: a pool, transactions, locks, and retries.

Knows servers and transactions, but not the tables.

The pool is our own. psycopg_pool (3.3) connects in worker threads, one new connection at a time, and only
logs why a connection failed: `getconn` waits for the whole timeout and then raises PoolTimeout. A wrong
password or a server that is not running must be reported at once and with its reason, and a server that
restarts must be waited for. A broken connection takes no idle ones with it there, so each of them would fail
a transaction after a restart, or a check would cost a round trip per transaction.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from shepherd.errors import StoreError, StoreLockedError
from shepherd.memory.postgres import failures, text
from shepherd.memory.postgres.address import parse
from shepherd.transactions import Value

__all__ = ["Connection", "Database"]

_Result = TypeVar("_Result")
Raw = psycopg.Connection[tuple[Any, ...]]
_Bound = tuple[str, Sequence[Value | Sequence[Value]]]

# Further threads wait: the server has a process for each connection.
_MOST_CONNECTIONS = 8
_RETRY_S = 0.05
# Statements of one transaction that wait for the next round trip.
_MOST_WAITING = 1000
_STATEMENT_TIMEOUT_MS = 60_000
# A process that was stopped inside a transaction must not keep its locks for ever.
_IDLE_TIMEOUT_MS = 60_000

# Settings of every connection, unless the address's `options` name them.
_SETTINGS = {
    "statement_timeout": _STATEMENT_TIMEOUT_MS,
    "idle_in_transaction_session_timeout": _IDLE_TIMEOUT_MS,
    # Just-in-time compilation costs 100 ms and more, and pays for statements of many seconds.
    "jit": "off",
}
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE"


class Connection:
    """A connection inside a transaction, which begins with the first statement, in the same round trip.

    Statements that only write and return nothing wait for the next one that returns rows, or for the commit:
    all of them take one round trip. An error of theirs is raised there, too; the transaction fails anyway.
    """

    def __init__(self, raw: Raw, *beginning: bytes) -> None:
        self._raw = raw
        self._beginning = beginning
        self._has_begun = False
        self._waiting: list[_Bound] = []
        self.kept: dict[Any, Any] = {}
        """What a reader keeps for later in the transaction, which sees one moment."""

    def execute(
        self, statement: str, parameters: Sequence[Value | Sequence[Value]] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of the result."""
        if _is_silent(statement) and self._beginning:
            self._defer([(statement, parameters)])
            return []
        return self.execute_together([(statement, parameters)])[0]

    def execute_many(self, statement: str, rows: Sequence[Sequence[Value]]) -> None:
        """Run the statement with the parameters of each row, in one round trip with others."""
        self._defer([(statement, row) for row in rows])

    def run(self, statement: str) -> None:
        """Run a statement without parameters and rows, such as CREATE."""
        self._flush()
        self._begin()
        self._raw.execute(statement.encode(), prepare=False)

    def execute_together(
        self, statements: Sequence[_Bound], *, binary: bool = False
    ) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement, all in one round trip; `binary` is their format on the wire."""
        waiting, self._waiting = self._waiting, []
        is_alone = len(statements) == 1 and not waiting and (self._has_begun or not self._beginning)
        with nullcontext() if is_alone or not _has_pipelines() else self._raw.pipeline():
            self._begin()
            for statement, parameters in waiting:
                psycopg.RawCursor(self._raw).execute(_numbered(statement), parameters, prepare=True)
            cursors = [psycopg.RawCursor(self._raw) for _ in statements]
            for cursor, (statement, parameters) in zip(cursors, statements, strict=True):
                cursor.execute(_numbered(statement), parameters, prepare=True, binary=binary)
        return [cursor.fetchall() if _has_rows(cursor) else [] for cursor in cursors]

    def commit(self) -> None:
        """Commit, with the statements that wait, in one round trip; nothing if there was no statement."""
        if not self._has_begun:
            # Not with the commit: a connection that broke long ago must show before anything is in doubt.
            self._flush()
        if not self._beginning or not self._has_begun:
            return
        waiting, self._waiting = self._waiting, []
        with self._raw.pipeline() if waiting and _has_pipelines() else nullcontext():
            self._begin()
            for statement, parameters in waiting:
                psycopg.RawCursor(self._raw).execute(_numbered(statement), parameters, prepare=True)
            self._raw.execute(b"COMMIT")

    def _defer(self, statements: Sequence[_Bound]) -> None:
        self._waiting += statements
        if len(self._waiting) > _MOST_WAITING:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self.execute_together([])

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            for statement in self._beginning:
                self._raw.execute(statement)


@cache
def _has_pipelines() -> bool:
    # libpq 14 and newer; the check takes longer than a round trip.
    return psycopg.Pipeline.is_supported()


def _has_rows(cursor: psycopg.RawCursor[Any]) -> bool:
    # `description` makes an object of each column: a third of the time of a small result.
    result = cursor.pgresult
    return result is not None and result.status == psycopg.pq.ExecStatus.TUPLES_OK


@lru_cache(256)
def _is_silent(statement: str) -> bool:
    return statement.startswith(("INSERT ", "UPDATE ", "DELETE ")) and "RETURNING" not in statement


@lru_cache(256)
def _numbered(statement: str) -> bytes:
    """Replace `?` and `?1` by `$1`. No statement of ours has a question mark in a literal."""
    count = 0

    def number(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${match[1] or count}"

    return re.sub(r"\?(\d*)", number, statement).encode()


class Database:
    """The schema that `url` names. Thread-safe; raises StoreError if the server cannot be reached.

    `read` and `write` run a function inside a transaction. If the connection is lost before the commit, or
    another writer was first, they run it again, for `patience_s` seconds: it must have no effect but on its
    connection.
    """

    def __init__(self, url: str, *, read_only: bool = False, patience_s: float = 5.0) -> None:
        self.address = parse(url)
        self.read_only = read_only
        self.is_closed = False
        self.schema = self.address.schema or ""
        self._patience_s = patience_s
        self._has_connected = False
        self._idle: list[Raw] = []
        self._lock = threading.Lock()
        self._places = threading.Semaphore(_MOST_CONNECTIONS)

    @property
    def shown(self) -> str:
        """Address without the password."""
        return self.address.shown

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment."""
        return self._run(work, _READ)

    def look(self, statement: str, parameters: Sequence[Value | Sequence[Value]]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement that reads, which sees one moment: one round trip."""
        return self._run(lambda connection: connection.execute(statement, parameters))

    def ping(self) -> None:
        """Ask the server nothing: one round trip."""
        self._run(lambda connection: connection.run(""))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Do as `read` for a block, which is not run again if the connection is lost."""
        with self._once(_READ) as connection:
            yield connection

    @contextmanager
    def writing(self, name: str) -> Iterator[Connection]:
        """Do as `write_locked` for a block, which is not run again if the connection is lost."""
        with self._once(*self._locked(name)) as connection:
            yield connection

    def write(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work` once it is committed. Writers of one user take turns."""
        return self.write_locked(f"user {user_id}", work)

    def write_locked(self, name: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `write`, with a lock of that name."""
        return self._run(work, *self._locked(name))

    def _locked(self, name: str) -> tuple[bytes, bytes]:
        """Return the beginning of a transaction that writes with the lock of that name."""
        if self.read_only:
            raise failures.read_only(self.address)
        return _WRITE, f"SELECT pg_advisory_xact_lock({self.lock_number(name)})".encode()

    def lock_number(self, name: str) -> int:
        """Return the advisory lock of a name: 64 bits, per database; a collision only makes writers wait."""
        digest = hashlib.blake2b(f"shepherd\0{self.schema}\0{name}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big", signed=True)

    def close(self) -> None:
        """Close idle connections, the others when they are returned; a second call does nothing."""
        with self._lock:
            self.is_closed = True
            idle, self._idle = self._idle, []
        for raw in idle:
            raw.close()

    # ---- one transaction

    def _run(self, work: Callable[[Connection], _Result], *beginning: bytes) -> _Result:
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                return self._attempt(work, beginning, deadline)
            except psycopg.Error as error:
                can_wait = time.monotonic() < deadline and not self.is_closed
                if not (can_wait and (failures.is_lost(error) or failures.is_conflict(error))):
                    # Not `from error`: its text may quote a row.
                    raise failures.from_statement(self.address, error) from None
            except _UnreachableError as error:
                if time.monotonic() >= deadline or not error.may_pass:
                    raise error.failure from None
            time.sleep(_RETRY_S)

    def _attempt(
        self, work: Callable[[Connection], _Result], beginning: tuple[bytes, ...], deadline: float
    ) -> _Result:
        raw = self._take(deadline)
        try:
            connection = Connection(raw, *beginning)
            result = work(connection)
            self._commit(connection, is_write=beginning[:1] == (_WRITE,))
            return result
        finally:
            self._give_back(raw)

    def _commit(self, connection: Connection, *, is_write: bool) -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if is_write and failures.is_lost(error):
                raise failures.lost_commit(self.address) from None
            raise

    @contextmanager
    def _once(self, *beginning: bytes) -> Iterator[Connection]:
        try:
            raw = self._take(time.monotonic() + self._patience_s)
            try:
                connection = Connection(raw, *beginning)
                yield connection
                self._commit(connection, is_write=beginning[0] is _WRITE)
            finally:
                self._give_back(raw)
        except _UnreachableError as error:
            raise error.failure from None
        except psycopg.Error as error:
            raise failures.from_statement(self.address, error) from None

    # ---- the pool

    def _take(self, deadline: float) -> Raw:
        if self.is_closed:
            raise StoreError(f"{self.shown}: the database is closed", hint="open a new Memory")
        if not self._places.acquire(timeout=max(deadline - time.monotonic(), 0.001)):
            raise StoreLockedError(
                f"{self.shown}: all {_MOST_CONNECTIONS} connections have been in use for too long",
                hint="use fewer threads at a time, or wait",
            )
        try:
            with self._lock:
                # The one used last: its caches are warm, and the others may time out.
                raw = self._idle.pop() if self._idle else None
            return raw or self._connect()
        except BaseException:
            self._places.release()
            raise

    def _give_back(self, raw: Raw) -> None:
        if raw.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with contextlib.suppress(psycopg.Error):
                raw.execute(b"ROLLBACK")
        with self._lock:
            gone = [raw] if self.is_closed else []
            if raw.closed:
                # A server that restarts breaks all connections at once: the idle ones too.
                gone, self._idle = [raw, *self._idle], []
            elif not gone:
                self._idle.append(raw)
        self._places.release()
        for one in gone:
            one.close()

    def _connect(self) -> Raw:
        try:
            raw: Raw = psycopg.connect(**self.address.parameters, autocommit=True)  # type: ignore[arg-type]
        except psycopg.Error as error:
            # A server that has answered before may be restarting; one that never did is not running.
            may_pass = self._has_connected or "starting up" in str(error)
            raise _UnreachableError(
                failures.from_connecting(self.address, error), may_pass=may_pass
            ) from None
        self._has_connected = True
        try:
            raw.prepare_threshold = 0
            raw.prepared_max = 256
            text.register(raw)
            settings: dict[str, object] = {**_SETTINGS, "lock_timeout": max(int(self._patience_s * 1000), 1)}
            options = self.address.parameters.get("options", "")
            if self.schema:
                settings["search_path"] = sql.Identifier(self.schema).as_string(raw)
            for name, value in settings.items():
                if name not in options:
                    raw.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
        except BaseException:
            raw.close()
            raise
        return raw


class _UnreachableError(Exception):
    def __init__(self, failure: StoreError, *, may_pass: bool) -> None:
        super().__init__()
        self.failure = failure
        self.may_pass = may_pass
