"""An open database file: one connection that writes, one per thread that reads, and backups.

Knows files, locks and transactions, but not the tables. No other module opens a memory database.
"""

from __future__ import annotations

import contextlib
import filecmp
import logging
import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from types import TracebackType

from shepherd._native.store import Connection, Recall, SQLiteError
from shepherd.encryption import MemoryKey, Sealer, looks_encrypted
from shepherd.encryption.key_file import read_entries, refuse_foreign, write_entries
from shepherd.errors import ShepherdError, StoreError, StoreMissingError, UsageError
from shepherd.memory import failures, new_files
from shepherd.memory.identify import Owner, foreign, identify, key_of, refuse_lost, refuse_version
from shepherd.memory.migration import is_original, migrate
from shepherd.memory.overwriting import COMING, LOGS, PART, UNFINISHED, remove_unfinished
from shepherd.memory.schema import APPLICATION_ID, USER_VERSION, create_schema, upgrade

__all__ = [
    "OF_BACKUP",
    "PAGE_COUNTS",
    "Database",
    "connect",
    "connect_to_copy",
    "copy_key_entry",
    "copy_to",
    "free_name",
    "is_encrypted",
    "is_open",
    "key_of_file",
    "pages_in_use",
    "place_of_backup",
]

_log = logging.getLogger(__name__)

# SQLITE_BUSY does not wait by itself when the journal mode changes.
_BUSY, _RETRY_S = 5, 0.02
# Pages that a connection keeps. Each thread that reads has one, and the commits of others empty its cache.
_READER_CACHE_KIB, _WRITER_CACHE_KIB = 2048, 4096

OF_BACKUP = "name another file for the backup"
"""Hint if a backup can't be written."""
# Beside the database, files with these ends are overwritten and deleted.
_OWN_ENDS = (*LOGS, "-key", "-history", "-hot", UNFINISHED, COMING, PART, ".decrypting", ".making")

# Statements whose results pages_in_use takes.
PAGE_COUNTS: tuple[tuple[str, tuple[()]], ...] = (
    ("PRAGMA page_size", ()),
    ("PRAGMA page_count", ()),
    ("PRAGMA freelist_count", ()),
)
_COMMIT_AND_MEASURE = (("COMMIT", ()), *PAGE_COUNTS)

# Files that this process has open, by device and inode, with a count. Closing a descriptor of our own on one
# of them would drop SQLite's locks (see identify). The lock is held from looking at a file until it is open.
_open_files: dict[tuple[int, int], int] = {}
_open_keys: dict[tuple[int, int], MemoryKey | None] = {}
_opening = threading.RLock()  # also taken by a finalizer, which may run inside


class Database:
    """Opens `path`, or creates it; ForeignDatabaseError leaves the file as it is.

    Thread-safe. `read()` and `write()` are context managers around one transaction each; a thread must not
    open one inside another. SQLite's errors leave them as those of shepherd.errors.
    """

    def __init__(self, path: str, *, read_only: bool = False, busy_timeout_s: float = 5.0) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self.read_only = read_only
        self.recall = Recall()
        self.key: MemoryKey | None = None
        self._busy_timeout_s = busy_timeout_s
        self._write_lock = threading.Lock()
        self._local = threading.local()
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self.is_closed = False
        with _opening:
            self._open()

    # ---- transactions

    def read(self) -> _Read:
        """Return a read transaction on this thread's connection: everything in it sees the same moment."""
        return _Read(self)

    def look(self) -> _Read:
        """Do as `read`, for a few rows by an index: no other thread of Python runs meanwhile."""
        return _Read(self, keeps_gil=True)

    def write(self) -> _Write:
        """Return a write transaction, committed at the end of the block, rolled back when it raises.

        It begins with the first statement; deferred statements run with the commit.
        """
        return _Write(self)

    def failure(self, error: SQLiteError) -> ShepherdError:
        """Return the error to raise instead of `error`."""
        return failures.from_sqlite_error(self.path, error)

    def close(self) -> None:
        """Close every connection, also those of other threads; a second call does nothing."""
        with self._write_lock:
            if self.is_closed:
                return
            self.is_closed = True
            for reader in list(self._readers):
                reader.connection.close()
            # The last connection to close moves the log into the file; readers cannot.
            self._writer.close()
            self._forget_file()

    def separate_connection(self) -> Connection:
        """Return a new connection for reading, for work that lasts; the caller closes it."""
        return self._connect(read_only=True)

    def empty_log(self, *, waits: bool = True) -> bool:
        """Move the log into the file and cut it to nothing; False if a reader keeps it for `busy_timeout_s`.

        Without `waits`, one reader is enough. Outside of transactions. What was deleted is then in neither of
        the two.
        """
        with self._on_writer() as writer:
            if not waits:
                writer.execute("PRAGMA busy_timeout = 0")
            try:
                [(is_busy, _, _)] = writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                if not waits:
                    writer.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")
        return not is_busy

    def rewrite(self) -> None:
        """Write the file anew, without free pages; needs room for a copy, and others wait to write."""
        with self._on_writer() as writer:
            writer.execute("VACUUM")

    @contextlib.contextmanager
    def _on_writer(self) -> Iterator[Connection]:
        """Give the writing connection without a transaction."""
        writer = self.acquire_writer()
        try:
            yield writer
        except SQLiteError as error:
            raise self.failure(error) from error
        finally:
            self.release_writer()

    def backup(self, path: str) -> None:
        """Copy the database to a new file while it is in use; UsageError if there is a file."""
        target = place_of_backup(path, self.path)
        if self.key is not None:
            refuse_foreign(target)
        # The copy is to blame, not the database.
        with self.separate_connection() as connection, failures.blamed_on(target, OF_BACKUP):
            copy_to(connection, target, self.key, OF_BACKUP)
            copy_key_entry(self.path, target, self.key)

    # ---- opening

    @property
    def sealer(self) -> Sealer | None:
        """Seals what is kept beside the database; None if it is not encrypted."""
        return None if self.key is None else Sealer(self.key)

    def _open(self) -> None:
        # shepherd encrypt replaces the file, perhaps between the moments when it is looked at and opened.
        # Once it is open in WAL mode, it cannot be replaced.
        deadline = time.monotonic() + self._busy_timeout_s
        while not self._open_once():
            if time.monotonic() > deadline:
                raise failures.locked(self.path)
        if not self.read_only:
            remove_unfinished(self.path)

    def _open_once(self) -> bool:
        """Open the file; return False if it was replaced meanwhile, and nothing is open."""
        before = self._identity() if os.path.exists(self.path) else None
        try:
            self._prepare_file()
            identity = self._identity()
            self._writer = self._connect(read_only=self.read_only)
        except (OSError, SQLiteError, StoreError) as error:
            if self._is_replaced(before):
                return False
            if isinstance(error, StoreError):
                raise
            raise self._failure_to_open(error) from error
        self._forget_file = _remember_file(self, identity, self.key)
        try:
            self._sign()
            is_current = not self._writer.has_moved()
        except BaseException as error:
            self._close_early()
            if isinstance(error, (SQLiteError, StoreError)) and self._is_replaced(identity):
                return False
            if isinstance(error, SQLiteError):
                raise self._failure_to_open(error) from error
            raise
        if not is_current:
            self._close_early()
        return is_current

    def _close_early(self) -> None:
        self._writer.close()
        self._forget_file()

    def _failure_to_open(self, error: OSError | SQLiteError) -> ShepherdError:
        if isinstance(error, OSError):
            return failures.from_os_error(self.path, error)
        return self.failure(error)

    def _is_replaced(self, identity: tuple[int, int] | None) -> bool:
        """Return whether the path leads to another file than the one that was looked at."""
        with contextlib.suppress(OSError):
            return identity is not None and self._identity() != identity
        return False

    def _prepare_file(self) -> None:
        """Look at the file before SQLite does, or create an empty one."""
        if os.path.isdir(self.path):
            raise StoreError(f"{self.path}: this is a folder", hint="name a file in it, such as memory.db")
        if not os.path.exists(self.path):
            refuse_lost(self.path)
            if self.read_only:
                raise StoreMissingError(
                    f"{self.path}: there is no such database", hint="open it once for writing"
                )
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            # Memories are private; SQLite gives its log the same mode.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            return
        if not os.path.isfile(self.path):
            raise StoreError(f"{self.path}: this is not a regular file", hint="name a file for the database")
        owner = Owner.SHEPHERD if is_open(self.path) else identify(self.path)
        if owner is Owner.NOBODY:
            refuse_lost(self.path)
        self.key = key_of_file(self.path)
        if not self.read_only and not self._is_writable():
            raise failures.read_only(self.path)
        if owner in (Owner.SHEPHERD, Owner.ENCRYPTED):
            self._refuse_newer_log()
        elif self.read_only:
            what = "empty" if owner is Owner.NOBODY else "an older Shepherd's, to be migrated first"
            raise StoreError(f"{self.path}: the database is {what}", hint="open it once for writing")

    def _refuse_newer_log(self) -> None:
        # The header may be older than the log beside it. A reading connection never moves the log into the
        # file, so a database that is refused stays as it is.
        if not os.path.exists(self.path + "-wal") or os.path.getsize(self.path + "-wal") == 0:
            return
        with self._connect(read_only=True) as connection:
            refuse_version(self.path, connection.execute("PRAGMA user_version")[0][0])

    def _is_writable(self) -> bool:
        # SQLite would fall back to reading and fail at the first write, in the middle of something.
        return os.access(self.path, os.W_OK) and os.access(os.path.dirname(self.path), os.W_OK)

    def _connect(self, *, read_only: bool) -> Connection:
        return Connection(
            self.path,
            read_only=read_only,
            create=False,
            busy_timeout_ms=int(self._busy_timeout_s * 1000),
            cache_kib=_READER_CACHE_KIB if read_only else _WRITER_CACHE_KIB,
            key=None if self.key is None else self.key.database,
        )

    def _sign(self) -> None:
        """Sign a new file or migrate an older one, and set what a writing connection needs."""
        writer = self._writer
        if not self.read_only:
            # Whatever is deleted from here on is overwritten with zeros.
            writer.execute("PRAGMA secure_delete = ON")
        [(application_id,)] = writer.execute("PRAGMA application_id")
        if application_id != APPLICATION_ID:
            if self.key is not None:
                raise foreign(self.path, application_id)
            # Before WAL: an interrupted creation leaves an empty file, never a log of unknown origin.
            writer.execute("BEGIN IMMEDIATE")
            with contextlib.ExitStack() as undo:
                undo.callback(self.roll_back)
                done = self._make_ours(undo)
                writer.execute("COMMIT")
                undo.pop_all()
            if done:
                _log.warning("%s", done)
        version = writer.execute("PRAGMA user_version")[0][0]
        refuse_version(self.path, version)
        if version < USER_VERSION:
            self._upgrade()
        if not self.read_only:
            self._use_log()
            # Reading opens the log: a connection that never used it leaves the log behind at the end.
            writer.execute("PRAGMA user_version")
            writer.execute("PRAGMA synchronous = NORMAL")
            writer.execute("PRAGMA foreign_keys = ON")
            writer.execute("PRAGMA journal_size_limit = 67108864")

    def _upgrade(self) -> None:
        """Bring the tables of an older version to this one; after a failure they are as before."""
        if self.read_only:
            raise StoreError(
                f"{self.path}: an older Shepherd's database, to be upgraded first",
                hint="open it once for writing",
            )
        writer = self._writer
        writer.execute("BEGIN IMMEDIATE")
        with contextlib.ExitStack() as undo:
            undo.callback(self.roll_back)
            version = writer.execute("PRAGMA user_version")[0][0]
            # Another process may have been first.
            if version < USER_VERSION:
                upgrade(writer, version)
            writer.execute("COMMIT")
            undo.pop_all()

    def _make_ours(self, undo: contextlib.ExitStack) -> str:
        """Inside the transaction, create the tables or migrate the original's; return a message, if any."""
        writer = self._writer
        if writer.execute("PRAGMA application_id")[0][0] == APPLICATION_ID:
            return ""  # another process was first
        if writer.execute("SELECT count(*) FROM sqlite_master")[0][0] == 0:
            create_schema(writer)
            return ""
        if not is_original(writer):
            raise foreign(self.path)
        # A connection of its own: one that writes cannot be copied from.
        with self._connect(read_only=True) as connection:
            kept, is_new = _keep_copy(connection, self.path + ".before-migration")
        if is_new:
            undo.callback(os.remove, kept)
        return migrate(writer, int(time.time())).summary(self.path, f"kept as it was: {kept}")

    def _use_log(self) -> None:
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except SQLiteError as error:
                if (error.code & 0xFF) != _BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_S)

    # ---- which files are open

    def _identity(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_dev, status.st_ino

    # ---- for the transactions below

    def reader(self) -> Connection:
        """Return this thread's reading connection."""
        try:
            reader: _Reader = self._local.reader
        except AttributeError:
            reader = _Reader(self._connect(read_only=True))
            self._local.reader = reader
            self._readers.add(reader)
            if self.is_closed:
                reader.connection.close()
        return reader.connection

    def acquire_writer(self) -> Connection:
        """Return the writing connection, locked for this thread until release_writer."""
        self._write_lock.acquire()
        if self.read_only:
            self._write_lock.release()
            raise failures.read_only(self.path)
        return self._writer

    def release_writer(self) -> None:
        """Let the next thread write."""
        self._write_lock.release()

    def roll_back(self) -> None:
        """Roll back what the writing connection has not committed."""
        # A full disk has rolled back already; the first failure is the one to report.
        with contextlib.suppress(SQLiteError):
            self._writer.forget_deferred()
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")


def pages_in_use(counts: Sequence[Sequence[tuple[int]]]) -> int:
    """Return the bytes of the pages in use from the results of PAGE_COUNTS."""
    [(page_size,)], [(n_pages,)], [(n_free,)] = counts
    return (n_pages - n_free) * page_size


def is_open(path: str) -> bool:
    """Return whether this process has the existing file open as a memory database, by any name."""
    status = os.stat(path)
    return (status.st_dev, status.st_ino) in _open_files


def key_of_file(path: str) -> MemoryKey | None:
    """Return the key of an existing database, None if it is not encrypted; it may be open.

    Raises StoreKeyError, OSError.
    """
    status = os.stat(path)
    with _opening:
        identity = (status.st_dev, status.st_ino)
        key = _open_keys.get(identity)
        # A forked process has none of its parent's locks on the file, and not the key.
        is_known = identity in _open_files and not (key is not None and key.is_wiped)
        return key if is_known else key_of(path)


def is_encrypted(path: str) -> bool:
    """Return whether an existing file is an encrypted database; needs no key. Raises OSError."""
    status = os.stat(path)
    with _opening:
        identity = (status.st_dev, status.st_ino)
        if identity in _open_files:
            return _open_keys[identity] is not None
        with open(path, "rb") as file:
            return looks_encrypted(file.read(24))


def connect(path: str, *, read_only: bool = False, busy_timeout_ms: int = 5000) -> Connection:
    """Open an existing database, encrypted or not, apart from any Database.

    Raises SQLiteError, StoreKeyError.
    """
    key = key_of_file(path)
    return Connection(
        path,
        read_only=read_only,
        create=False,
        busy_timeout_ms=busy_timeout_ms,
        key=None if key is None else key.database,
    )


def connect_to_copy(path: str) -> Connection:
    """Open a database that nobody else writes to, such as a backup, and leave nothing beside it.

    Raises SQLiteError, StoreKeyError.
    """
    key = key_of_file(path)
    # Whoever has it open has a log. One that a killed process has left completes the file.
    is_alone = not is_open(path) and not any(os.path.exists(path + end) for end in LOGS)
    return Connection(
        path,
        read_only=True,
        create=False,
        immutable=is_alone,
        key=None if key is None else key.database,
    )


def _remember_file(
    owner: Database, identity: tuple[int, int], key: MemoryKey | None
) -> weakref.finalize[[tuple[int, int]], Database]:
    """Count an opening of the file, until the finalizer is called or `owner` is lost."""
    _open_files[identity] = _open_files.get(identity, 0) + 1
    _open_keys[identity] = key
    return weakref.finalize(owner, _forget_file, identity)


def _forget_file(identity: tuple[int, int]) -> None:
    with _opening:
        _open_files[identity] -= 1
        if _open_files[identity] == 0:
            del _open_files[identity], _open_keys[identity]


def copy_key_entry(source: str, target: str, key: MemoryKey | None) -> None:
    """Write the key file of a copy: where the key of both comes from. Raises OSError."""
    entry = None if key is None else read_entries(source).get(key.salt)
    write_entries(target, () if entry is None else (entry,))


def place_of_backup(path: str, database: str) -> str:
    """Return where a new backup of a database goes; UsageError if there can't be one."""
    target = new_files.place_of(path)
    if target.startswith(tuple(f"{database}{end}" for end in _OWN_ENDS)):
        raise UsageError(f"{target}: Shepherd writes its own files under this name", hint=OF_BACKUP)
    if os.path.exists(target):
        raise UsageError(f"{target} already exists", hint="name a new file for the backup")
    return target


def copy_to(connection: Connection, target: str, key: MemoryKey | None = None, hint: str = "") -> None:
    """Copy what `connection` sees to `target`, which appears when it is complete.

    `key` is the connection's: the copy of an encrypted database is encrypted. Raises StoreError about
    `target`, with `hint` if there is one.
    """
    with new_files.writing(target, hint) as part:
        connection.backup(part, key=None if key is None else key.database)


def _keep_copy(connection: Connection, target: str) -> tuple[str, bool]:
    """Copy to `target` or a free name like it; return the copy, and False if an older one was identical.

    A killed migration leaves its copy, and the next one needs no other.
    """
    copy = free_name(target)
    copy_to(connection, copy)
    number = 1
    older = target
    while older != copy:
        if os.path.isfile(older) and filecmp.cmp(older, copy, shallow=False):
            os.remove(copy)
            return older, False
        number += 1
        older = f"{target}-{number}"
    return copy, True


def free_name(path: str) -> str:
    """Return `path`, or with -2, -3 … at its end, so that nothing has the name yet."""
    name, number = path, 1
    while os.path.lexists(name):
        number += 1
        name = f"{path}-{number}"
    return name


class _Reader:
    # Held by its thread: the connection closes when the thread is gone.
    __slots__ = ("__weakref__", "connection")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection


class _Read:
    # A class, not a generator: this runs before every message, and costs a third.
    __slots__ = ("_connection", "_database", "_keeps_gil")

    def __init__(self, database: Database, *, keeps_gil: bool = False) -> None:
        self._database = database
        self._keeps_gil = keeps_gil

    def __enter__(self) -> Connection:
        try:
            self._connection = self._database.reader()
            self._connection.begin()
            self._connection.keeps_gil = self._keeps_gil
        except SQLiteError as error:
            raise self._database.failure(error) from error
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.keeps_gil = False
        try:
            self._connection.end_reading()
        except SQLiteError as late:
            # An error in the block may have ended the transaction; the first failure is the one to report.
            if error is None:
                raise self._database.failure(late) from late
        if isinstance(error, SQLiteError):
            raise self._database.failure(error) from error


class _Write:
    __slots__ = ("_connection", "_database", "used_bytes")

    def __init__(self, database: Database) -> None:
        self._database = database
        # Set by the commit: before, the full-text index has not written its pages.
        self.used_bytes = 0

    def __enter__(self) -> Connection:
        self._connection = self._database.acquire_writer()
        try:
            # With the first statement: beside a busy thread every call may be a wait.
            self._connection.defer("BEGIN IMMEDIATE")
        except BaseException as error:
            self._database.release_writer()
            if isinstance(error, SQLiteError):
                raise self._database.failure(error) from error
            raise
        return self._connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._commit()
            else:
                self._database.roll_back()
        finally:
            self._database.release_writer()
        if isinstance(error, SQLiteError):
            raise self._database.failure(error) from error

    def _commit(self) -> None:
        try:
            _, *sizes = self._connection.execute_together(_COMMIT_AND_MEASURE)
            self.used_bytes = pages_in_use(sizes)
        except SQLiteError as error:
            self._database.roll_back()
            raise self._database.failure(error) from error
