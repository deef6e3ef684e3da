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
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.adapt import Transformer

from shepherd.encryption.blinding import BlindError
from shepherd.encryption.user_keys import TransactionKeys, UnknownKeyError
from shepherd.errors import ShepherdError, StoreError, StoreLockedError
from shepherd.memory.postgres import commits, failures, text
from shepherd.memory.postgres.address import Address, parse
from shepherd.memory.postgres.blind import BlindColumns
from shepherd.memory.postgres.blind_statements import Plan
from shepherd.memory.postgres.user_keys import Lookup, StaleKeyError
from shepherd.memory.postgres.wire import Bound, Raw, exchange, find_out_about_pooler
from shepherd.transactions import Value

__all__ = ["REBUILDING", "Connection", "Database"]

_Result = TypeVar("_Result")

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
_READ: Bound = ("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", ())
_WRITE: Bound = ("BEGIN ISOLATION LEVEL READ COMMITTED, READ WRITE", ())
_COMMIT: Bound = ("COMMIT", ())
_LOCK = "SELECT pg_advisory_xact_lock(?)"
# Lock of those who make, upgrade or rebuild all tables. Others wait for them for as long as it takes.
REBUILDING = "schema"


class Connection:
    """A connection inside a transaction, which begins with the first statement, in the same round trip.

    Statements that only write and return nothing wait for the next one that returns rows, or for the commit:
    all of them take one round trip. An error of theirs is raised there, too; the transaction fails anyway.
    """

    def __init__(
        self,
        raw: Raw,
        *beginning: Bound,
        ending: Sequence[Bound] = (),
        same_key: Sequence[Bound] = (),
        blind: BlindColumns | None = None,
        user_id: str = "",
    ) -> None:
        self._raw = raw
        self._blind, self._user_id = blind, user_id
        self._beginning, self._ending, self._same_key = beginning, ending, same_key
        self._writes = beginning[:1] == (_WRITE,)
        self._lookup: Lookup | None = None
        if blind is not None and blind.keys is not None:
            self._blind = blind = blind.for_transaction()
            self._lookup = blind.lookup(self._exchange, same_key, makes_keys=self._writes)
        self._has_begun = False
        self._waiting: list[Bound] = []
        self.kept: dict[Any, Any] = {}
        """Values that a reader keeps for later in the transaction, which sees one moment."""
        self.wants_position = False
        self.position: int | None = None
        """Where the transaction ends in the server's log, once it is committed, if that is wanted."""

    @property
    def is_blind(self) -> bool:
        """True if the server cannot read texts and words: it finds only those that are equal."""
        return self._blind is not None

    @property
    def users_keys(self) -> TransactionKeys | None:
        """The keys of a blind memory's users, as this transaction sees them; None if they have none."""
        return None if self._blind is None else self._blind.keys

    def execute(
        self, statement: str, parameters: Sequence[Value | Sequence[Value]] = ()
    ) -> list[tuple[Any, ...]]:
        """Return all rows of the result."""
        if _is_silent(statement) and self._beginning:
            self._write(statement, [parameters])
            return []
        return self.execute_together([(statement, parameters)])[0]

    def execute_many(self, statement: str, rows: Sequence[Sequence[Value]]) -> None:
        """Run the statement with the parameters of each row, in one round trip with others."""
        self._write(statement, rows)

    def _write(self, statement: str, rows: Sequence[Sequence[Value | Sequence[Value]]]) -> None:
        if self._blind is not None:
            statement, rows, _ = self._hidden(self._blind, statement, rows)
        self._defer([(statement, row) for row in rows])

    def run(self, statement: str) -> None:
        """Run statements without parameters and rows, such as CREATE, with semicolons between them."""
        self._exchange([])
        self._raw.execute(statement.encode(), prepare=False)

    def execute_together(
        self, statements: Sequence[Bound], *, binary: bool = False
    ) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement, all in one round trip; `binary` is their format on the wire."""
        if self._blind is None:
            return self._exchange(statements, binary=binary)
        hidden = [(self._hidden(self._blind, one, [row]), row) for one, row in statements]
        found = self._exchange([(one, rows[0]) for (one, rows, _), _ in hidden], binary=binary)
        return [
            rows if plan is None else self._shown(self._blind, plan, rows, row)
            for rows, ((_, _, plan), row) in zip(found, hidden, strict=True)
        ]

    def _hidden(
        self, blind: BlindColumns, statement: str, rows: Sequence[Sequence[Any]]
    ) -> tuple[str, Sequence[Sequence[Any]], Plan | None]:
        return self._with_keys(lambda: blind.hidden(statement, rows, self._user_id))

    def _shown(
        self, blind: BlindColumns, plan: Plan, rows: Sequence[tuple[Any, ...]], parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        if not rows:
            return []
        try:
            return self._with_keys(lambda: blind.shown(plan, rows, parameters, self._user_id))
        except BlindError:
            if self._lookup is not None:
                # It may be the text of another process, after the user's key was destroyed.
                self._lookup.compare()
                self._exchange([])
                if user := self._lookup.unreadable():
                    raise self._lookup.missing(user) from None
            raise blind.changed() from None

    def _with_keys(self, work: Callable[[], _Result]) -> _Result:
        """Return the result of `work`, which may need users' keys that are not known yet."""
        while True:
            try:
                return work()
            except UnknownKeyError as unknown:
                if self._lookup is None:
                    raise
                self._lookup.find(unknown)

    def destroy_key(self, user_id: str) -> None:
        """Destroy the key of a user of a blind memory, of whom nothing is stored any more."""
        if self._lookup is not None:
            self._defer([self._lookup.destroy(user_id)])

    def forget_keys(self) -> bool:
        """Forget users' keys that others have replaced; return whether the transaction may be tried again."""
        return self._lookup is not None and self._lookup.forget()

    def _exchange(self, statements: Sequence[Bound], *, binary: bool = False) -> list[list[tuple[Any, ...]]]:
        beginning = [] if self._has_begun else list(self._beginning)
        waiting, self._waiting, self._has_begun = self._waiting, [], True
        # As early as possible: the lock is held, and the rest is of no use with another key.
        checks = self._lookup.checks() if self._lookup is not None else ()
        before = [*beginning, *checks, *waiting]
        return exchange(self._raw, [*before, *statements], binary=binary)[len(before) :]

    def hidden_by(self, blind: BlindColumns, user_id: str = "") -> Connection:
        """Return a connection inside the same transaction whose texts another key hides."""
        self.flush()
        return Connection(self._raw, blind=blind, user_id=user_id)

    def flush(self) -> None:
        """Run the statements that wait."""
        self._exchange([])

    def lines(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> bytes:
        """Return rows as `copying` takes them."""
        if (blind := self._blind) is not None:
            rows = self._with_keys(lambda: blind.copied(table, columns, rows, self._user_id))
        return text.lines(rows)

    def stored_size(self, table: str, column: str, value: str) -> int:
        """Return the bytes that a text takes in a column."""
        if self._blind is not None:
            return self._blind.size_of(table, column, len(value.encode()))
        return len(text.escaped(value).encode())

    def stored_words(self, words: Sequence[str]) -> list[str]:
        """Return words, each with its user's number, as an index of terms has them, in any order."""
        blind = self._blind
        return list(words) if blind is None else self._with_keys(lambda: blind.words(words))

    @contextmanager
    def copying(self, table: str, columns: str) -> Iterator[Callable[[bytes], None]]:
        """Yield a function that inserts rows, given as `lines`, several times as fast as statements do.

        The server inserts them while the caller makes the next ones.
        """
        self._exchange([])
        with self._raw.cursor().copy(f"COPY {table}({columns}) FROM STDIN".encode()) as copy:
            yield copy.write

    def commit(self) -> None:
        """Commit, with the statements that wait, in one round trip; nothing if there was no statement."""
        if self._waiting and not self._has_begun:
            # Not with the commit: a connection that broke long ago must show before anything is in doubt.
            self._exchange([])
        if self._beginning and self._has_begun:
            # A user's key that is the stored one shows that the memory's is, too.
            is_known = not self._writes or (self._lookup is not None and self._lookup.proves_key)
            ending = [*(() if is_known else self._same_key), *self._ending, _COMMIT]
            if not self.wants_position:
                self._exchange(ending)
                return
            self.position = self._exchange([*ending, (commits.POSITION, ())])[-1][0][0]

    def publish_keys(self) -> None:
        """Let the process know which keys were made and destroyed; it is committed."""
        if self._lookup is not None:
            self._lookup.publish()

    def _defer(self, statements: Sequence[Bound]) -> None:
        self._waiting += statements
        if len(self._waiting) > _MOST_WAITING:
            self._exchange([])


class Database:
    """The schema that `url` names. Thread-safe; raises StoreError if the server cannot be reached.

    `read` and `write` run a function inside a transaction. They run it again for `patience_s` seconds if
    another writer was first, and for the address's failover_timeout if the connection is lost: it must have
    no effect but on its connection. If the connection is lost during a commit, a write first looks up whether
    that has arrived (after `keep_keys`).
    """

    def __init__(self, url: str | Address, *, read_only: bool = False, patience_s: float = 5.0) -> None:
        self.address = url if isinstance(url, Address) else parse(url, read_only=read_only)
        self.read_only = read_only
        self.is_closed = False
        self.blind: BlindColumns | None = None
        """Hides texts and words from the server; None: it may read them."""
        self._same_key: tuple[Bound, ...] = ()
        self.schema = self.address.schema or ""
        self._settings: dict[str, object] = dict(_SETTINGS)
        self._patience_s = patience_s
        given = self.address.failover_timeout_s
        self._outage_s = patience_s if given is None else given
        self._cleaning: commits.Cleaning | None = None
        self.written: commits.Written | None = None
        """Where the changes of this process end in the server's log, for those who read elsewhere."""
        self._answer_ms: int | None = None
        self._has_connected = False
        self._idle: list[Raw] = []
        self._lock = threading.Lock()
        self._places = threading.Semaphore(_MOST_CONNECTIONS)

    @property
    def shown(self) -> str:
        """Address without the password."""
        return self.address.shown

    @property
    def has_users_keys(self) -> bool:
        """True for a blind memory whose users have keys of their own."""
        return self.blind is not None and self.blind.keys is not None

    def keep_keys(self) -> None:
        """Store a key with each write from now on; our tables are there."""
        self._cleaning = commits.Cleaning()

    def hide_with(self, blind: BlindColumns, same_key: Bound) -> None:
        """Hide texts and words from the server from now on.

        Each write ends with the statement `same_key`, which fails if the memory has got another key since.
        """
        self.blind, self._same_key = blind, (same_key,)

    def change_key(self, work: Callable[[Connection], _Result]) -> _Result:
        """Like `write_locked`, for changing the key. Afterwards, this object can't be used any more."""
        self._same_key = ()
        return self.write_locked(REBUILDING, work)

    def plan_once(self) -> None:
        """Plan a prepared statement once, not for each question: of divided tables that takes milliseconds.

        For each question, the plan of one partition looks cheaper to the server than one that chooses it.
        """
        self._settings["plan_cache_mode"] = "force_generic_plan"
        with self._lock:
            idle, self._idle = self._idle, []
        for raw in idle:
            raw.close()

    def replica(self, *, patience_s: float, answer_s: float) -> Database:
        """Return the replicas of this database, whose schema is known; they have to answer in time."""
        other = Database(self.address.of_replica(), read_only=True, patience_s=patience_s)
        other.schema, other._settings = self.schema, self._settings
        other._answer_ms = int(answer_s * 1000)
        other.blind = self.blind
        return other

    def read(self, work: Callable[[Connection], _Result], user_id: str = "") -> _Result:
        """Return the result of `work`; everything in it sees the same moment.

        `user_id`: whose texts it reads, "" if that is unknown or they are of several users.
        """
        return self._run(work, _READ, user_id=user_id)

    def look(self, statement: str, parameters: Sequence[Value | Sequence[Value]]) -> list[tuple[Any, ...]]:
        """Return the rows of one statement that reads, which sees one moment: one round trip."""
        return self._run(lambda connection: connection.execute(statement, parameters))

    def together(self, statements: Sequence[Bound]) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each statement; without a transaction around them, all in one round trip."""
        return self._run(lambda connection: connection.execute_together(statements))

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
        return self._run(work, *self.writer(user_id), user_id=user_id)

    def writer(self, user_id: str) -> tuple[Bound, Bound]:
        """Return what a user's changes begin with, by which `written` names them."""
        return self._locked(f"user {user_id}")

    def write_locked(self, name: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `write`, with a lock of that name."""
        return self._run(work, *self._locked(name))

    def _locked(self, name: str) -> tuple[Bound, Bound]:
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

    def _run(self, work: Callable[[Connection], _Result], *beginning: Bound, user_id: str = "") -> _Result:
        began = time.monotonic()
        write = commits.Write(self._cleaning) if beginning[:1] == (_WRITE,) else None
        n_tries, has_forgotten, has_waited = 0, False, False
        while True:
            n_tries += 1
            try:
                return self._attempt(work, beginning, write, user_id)
            except StaleKeyError as error:
                if has_forgotten:
                    raise self._failure(error.failure, write) from None
                has_forgotten = True
                continue
            except psycopg.Error as error:
                if not self._may_repeat(error, began, n_tries):
                    is_rebuilding = self._waits_for_rebuilding(error)
                    # It may have ended between the failure and the question: then the lock is free now.
                    if not is_rebuilding and not (has_waited and failures.is_locked(error)):
                        # Not `from error`: its text may quote a row.
                        raise self._failure(error, write) from None
                    has_waited = is_rebuilding
            except _UnreachableError as error:
                if not error.may_pass or time.monotonic() >= began + self._outage_s:
                    raise self._failure(error.failure, write) from None
            time.sleep(_RETRY_S)

    def _attempt(
        self,
        work: Callable[[Connection], _Result],
        beginning: tuple[Bound, ...],
        write: commits.Write | None,
        user_id: str,
    ) -> _Result:
        raw, connection = self._take(), None
        try:
            connection = Connection(
                raw,
                *beginning,
                ending=write.ending if write else (),
                same_key=self._same_key,
                blind=self.blind,
                user_id=user_id,
            )
            connection.wants_position = write is not None and self.written is not None
            if write is None or not write.has_arrived(connection):
                result = work(connection)
                if write is not None:
                    write.result = result
            else:
                result = write.result
            self._commit(connection, write)
            connection.publish_keys()
            if self.written is not None and connection.position is not None:
                self.written.note(beginning, connection.position)
            return result
        except psycopg.Error as error:
            if failures.is_other_key(error) and connection is not None and connection.forget_keys():
                raise StaleKeyError(error) from None
            if failures.needs_new_connection(error):
                raw.close()
            raise
        finally:
            self._give_back(raw)

    def _commit(self, connection: Connection, write: commits.Write | None) -> None:
        try:
            connection.commit()
        except psycopg.Error as error:
            if write is not None and failures.is_lost(error):
                write.is_in_doubt = True
                if not write.can_be_resolved:
                    raise failures.lost_commit(self.address) from None
            raise

    def _may_repeat(self, error: psycopg.Error, began: float, n_tries: int) -> bool:
        waited = time.monotonic() - began
        if failures.is_lost(error) or failures.needs_new_connection(error):
            # A connection that broke while it was idle may take 20 seconds to show that.
            return (n_tries == 1 or waited < self._outage_s) and not self.is_closed
        return failures.is_conflict(error) and waited < self._patience_s and not self.is_closed

    def _waits_for_rebuilding(self, error: psycopg.Error) -> bool:
        """Return whether a lock was not free because somebody changes or rebuilds all tables."""
        # That may take many minutes; the wait ends when it does.
        if not failures.is_locked(error) or self.is_closed:
            return False
        number = self.lock_number(REBUILDING)
        asked = "SELECT pg_try_advisory_xact_lock_shared(?)"
        try:
            rows = self._attempt(lambda connection: connection.execute(asked, (number,)), (), None, "")
        except (ShepherdError, psycopg.Error, _UnreachableError):
            return False
        return rows == [(False,)]

    def _failure(self, error: psycopg.Error | StoreError, write: commits.Write | None) -> ShepherdError:
        if write is not None and write.is_in_doubt:
            return failures.lost_commit(self.address)
        if isinstance(error, StoreError):
            return error
        return failures.from_statement(self.address, error)

    @contextmanager
    def _once(self, *beginning: Bound) -> Iterator[Connection]:
        connection = None
        try:
            raw = self._take()
            try:
                is_write = beginning[0] is _WRITE
                connection = Connection(raw, *beginning, same_key=self._same_key, blind=self.blind)
                yield connection
                # Without a key: nobody can look up what became of it.
                self._commit(connection, commits.Write(None) if is_write else None)
                connection.publish_keys()
            finally:
                self._give_back(raw)
        except _UnreachableError as error:
            raise error.failure from None
        except psycopg.Error as error:
            if failures.is_other_key(error) and connection is not None and connection.forget_keys():
                raise failures.replaced_user_key(self.address) from None
            raise failures.from_statement(self.address, error) from None

    # ---- the pool

    def _take(self) -> Raw:
        if self.is_closed:
            raise StoreError(f"{self.shown}: the database is closed", hint="open a new Memory")
        # While the server is away or stands still, those that have a connection wait for it.
        if not self._places.acquire(timeout=max(self._patience_s, self._outage_s, 0.001)):
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
            raw.answer_ms = self._answer_ms
        except psycopg.Error as error:
            # A server that has answered before may be restarting; one that never did is not running.
            may_pass = self._has_connected or failures.is_passing(error)
            raise _UnreachableError(
                failures.from_connecting(self.address, error), may_pass=may_pass
            ) from None
        try:
            text.register(raw)
            raw.adapter = Transformer(raw)
            self._set_up(raw)
        except psycopg.Error as error:
            raw.close()
            if failures.is_lost(error):
                # A pooler takes connections while its server is away.
                may_pass = self._has_connected or failures.is_passing(error)
                failure = failures.from_connecting(self.address, error)
                raise _UnreachableError(failure, may_pass=may_pass) from None
            raise
        except BaseException:
            raw.close()
            raise
        self._has_connected = True
        return raw

    def _set_up(self, raw: Raw) -> None:
        """Set the settings of a connection; behind a pooler let each transaction do so."""
        settings: dict[str, object] = {**self._settings, "lock_timeout": max(int(self._patience_s * 1000), 1)}
        options = self.address.parameters.get("options", "")
        if self.schema:
            settings["search_path"] = sql.Identifier(self.schema).as_string(raw)
        chosen = [(name, str(value)) for name, value in settings.items() if name not in options]
        # A pooler tells its clients another number than that of the server's process. Settings that are
        # local end with this statement.
        is_pooled = f"pg_backend_pid() <> {raw.info.backend_pid}"
        values = [part for pair in chosen for part in pair]
        calls = ", ".join([f"set_config(%s, %s, {is_pooled})"] * len(chosen))
        [row] = raw.execute(f"SELECT {is_pooled}, {calls}", values, prepare=False)
        if row[0]:
            find_out_about_pooler(raw)
            raw.local = ("SELECT " + ", ".join(["set_config(?, ?, true)"] * len(chosen)), values)


class _UnreachableError(Exception):
    def __init__(self, failure: StoreError, *, may_pass: bool) -> None:
        super().__init__()
        self.failure = failure
        self.may_pass = may_pass


@lru_cache(256)
def _is_silent(statement: str) -> bool:
    return statement.startswith(("INSERT ", "UPDATE ", "DELETE ")) and "RETURNING" not in statement
