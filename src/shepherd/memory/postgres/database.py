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
import itertools
import re
import select
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import pq, sql
from psycopg.adapt import PyFormat, Transformer

from shepherd.errors import StoreError, StoreLockedError
from shepherd.memory.postgres import failures, text
from shepherd.memory.postgres.address import parse
from shepherd.transactions import Value

__all__ = ["Connection", "Database"]

_Result = TypeVar("_Result")
_Bound = tuple[str, Sequence[Value | Sequence[Value]]]

# Further threads wait: the server has a process for each connection.
_MOST_CONNECTIONS = 8
_RETRY_S = 0.05
# For the server to hear that nobody waits any more; otherwise it would go on, with its locks.
_CANCEL_S = 2.0
# Statements of one transaction that wait for the next round trip.
_MOST_WAITING = 1000
# Statements that are kept prepared on a connection.
_MOST_PREPARED = 500
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
_READ: _Bound = ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", ())
_WRITE: _Bound = ("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE", ())
_COMMIT: _Bound = ("COMMIT", ())
_LOCK = "SELECT pg_advisory_xact_lock(?)"
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY)
_IN_THE_MIDDLE = (pq.TransactionStatus.ACTIVE, pq.TransactionStatus.UNKNOWN)
# Names of prepared statements.
_names = itertools.count(1)


class Connection:
    """A connection inside a transaction, which begins with the first statement, in the same round trip.

    Statements that only write and return nothing wait for the next one that returns rows, or for the commit:
    all of them take one round trip. An error of theirs is raised there, too; the transaction fails anyway.
    """

    def __init__(self, raw: Raw, *beginning: _Bound) -> None:
        self._raw = raw
        self._beginning = beginning
        self._has_begun = False
        self._waiting: list[_Bound] = []
        self.kept: dict[Any, Any] = {}
        """Values that a reader keeps for later in the transaction, which sees one moment."""

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
        self.execute_together([])
        self._raw.execute(statement.encode(), prepare=False)

    def execute_together(
        self, statements: Sequence[_Bound], *, binary: bool = False
    ) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement, all in one round trip; `binary` is their format on the wire."""
        beginning = [] if self._has_begun else list(self._beginning)
        waiting, self._waiting, self._has_begun = self._waiting, [], True
        before = [*beginning, *waiting]
        return exchange(self._raw, [*before, *statements], binary=binary)[len(before) :]

    @contextmanager
    def copying(self, table: str, columns: str) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that inserts rows, given as `text.lines`, several times as fast as statements do.

        The server inserts them while the caller makes the next ones.
        """
        self.execute_together([])
        with self._raw.cursor().copy(f"COPY {table}({columns}) FROM STDIN".encode()) as copy:
            yield copy.write

    def commit(self) -> None:
        """Commit, with the statements that wait, in one round trip; nothing if there was no statement."""
        if self._waiting and not self._has_begun:
            # Not with the commit: a connection that broke long ago must show before anything is in doubt.
            self.execute_together([])
        if self._beginning and self._has_begun:
            self.execute_together([_COMMIT])

    def _defer(self, statements: Sequence[_Bound]) -> None:
        self._waiting += statements
        if len(self._waiting) > _MOST_WAITING:
            self.execute_together([])


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
        self._run(lambda connection: connection.execute(""))

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

    def _locked(self, name: str) -> tuple[_Bound, _Bound]:
        """Return the beginning of a transaction that writes with the lock of that name."""
        if self.read_only:
            raise failures.read_only(self.address)
        return _WRITE, (_LOCK, (self.lock_number(name),))

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

    def _run(self, work: Callable[[Connection], _Result], *beginning: _Bound) -> _Result:
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
        self, work: Callable[[Connection], _Result], beginning: tuple[_Bound, ...], deadline: float
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
    def _once(self, *beginning: _Bound) -> Iterator[Connection]:
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
                hint="use fewer threads at once, or wait",
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
            raw = Raw.connect(**self.address.parameters, autocommit=True)  # type: ignore[arg-type]
        except psycopg.Error as error:
            # A server that has answered before may be restarting; one that never did is not running.
            may_pass = self._has_connected or "starting up" in str(error)
            raise _UnreachableError(
                failures.from_connecting(self.address, error), may_pass=may_pass
            ) from None
        self._has_connected = True
        try:
            text.register(raw)
            raw.adapter = Transformer(raw)
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


# ---- the wire


class Raw(psycopg.Connection[tuple[Any, ...]]):
    """psycopg's connection, with the statements that are prepared on it."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.adapter = Transformer(self)
        # Name by statement and types of its parameters.
        self.prepared: dict[_Key, bytes] = {}


_Key = tuple[bytes, tuple[int, ...]]


class _Sent(NamedTuple):
    """A statement with its parameters as they are sent."""

    key: _Key
    values: Sequence[Any]
    formats: Any


def exchange(raw: Raw, statements: Sequence[_Bound], *, binary: bool = False) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each statement; all are sent at once. The first error of one is raised.

    psycopg's own pipelines send each statement by itself, so that the server wakes up for each, and its
    cursors cost as much as a round trip.
    """
    if not statements:
        return []
    if len(raw.prepared) > _MOST_PREPARED:
        raw.prepared.clear()
        raw.execute(b"DEALLOCATE ALL", prepare=False)
    adapter = raw.adapter
    sent = []
    for statement, parameters in statements:
        values = adapter.dump_sequence(parameters, [PyFormat.AUTO] * len(parameters))
        sent.append(_Sent((_numbered(statement), adapter.types or ()), values, adapter.formats))
    form = pq.Format.BINARY if binary else pq.Format.TEXT
    try:
        results = _together(raw, sent, form) if _has_pipelines() else _in_turn(raw, sent, form)
    except BaseException:
        # After Ctrl-C nobody would read the answer. The server's own errors leave nothing behind.
        if raw.pgconn.transaction_status in _IN_THE_MIDDLE or raw.pgconn.pipeline_status:
            with contextlib.suppress(psycopg.Error):
                raw.cancel_safe(timeout=_CANCEL_S)
            raw.close()
        raise
    rows = []
    for result in results:
        adapter.set_pgresult(result)
        rows.append(adapter.load_rows(0, result.ntuples, tuple) if result.ntuples else [])
    return rows


def _together(raw: Raw, sent: Sequence[_Sent], form: pq.Format) -> list[pq.abc.PGresult]:
    """Return the results of statements, or raise the first error; one round trip."""
    pgconn = raw.pgconn
    new: dict[int, _Key] = {}  # by place among the results
    n = 0
    pgconn.enter_pipeline_mode()
    for key, values, formats in sent:
        name = raw.prepared.get(key)
        if name is None:
            name = raw.prepared[key] = b"s%d" % next(_names)
            pgconn.send_prepare(name, key[0], key[1])
            new[n] = key
            n += 1
        pgconn.send_query_prepared(name, values, formats, form)
        n += 1
    pgconn.pipeline_sync()
    results = _read(pgconn)
    pgconn.exit_pipeline_mode()
    n_fine = next((place for place, one in enumerate(results) if one.status not in _FINE), len(results))
    for place, key in new.items():
        if place >= n_fine:
            del raw.prepared[key]
    if n_fine < len(results):
        raise psycopg.errors.error_from_result(results[n_fine])
    return [result for place, result in enumerate(results) if place not in new]


def _in_turn(raw: Raw, sent: Sequence[_Sent], form: pq.Format) -> list[pq.abc.PGresult]:
    """Do as `_together` with an old libpq: a round trip for each."""
    results = []
    for key, values, formats in sent:
        raw.pgconn.send_query_params(key[0], values, key[1], formats, form)
        [result] = _read(raw.pgconn)
        if result.status not in _FINE:
            raise psycopg.errors.error_from_result(result)
        results.append(result)
    return results


def _read(pgconn: pq.abc.PGconn) -> list[pq.abc.PGresult]:
    """Return the results up to the end of the pipeline, or of the one statement without a pipeline."""
    is_pipeline = pgconn.pipeline_status != pq.PipelineStatus.OFF
    results: list[pq.abc.PGresult] = []
    socket = select.poll()
    socket.register(pgconn.socket, select.POLLIN | select.POLLOUT)
    while pgconn.flush():
        # The server may wait for us to read before it reads on.
        if any(event & ~select.POLLOUT for _, event in socket.poll()):
            pgconn.consume_input()
    socket.modify(pgconn.socket, select.POLLIN)
    while True:
        while pgconn.is_busy():
            socket.poll()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if not is_pipeline:
                return results
            if pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)


@cache
def _has_pipelines() -> bool:
    # libpq 14 and newer; the check takes longer than a round trip.
    return psycopg.Pipeline.is_supported()


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
