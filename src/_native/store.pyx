"""SQLite connections, and recall over the FTS5 index.  The only module that links SQLite.

It knows statements, rows and postings; the schema, the settings and the meaning of a row are known above.
All result codes become SQLiteError in one place (`_error`).  Work on the database runs without the GIL, and releases it
once per statement, not once per row: beside a busy Python thread, taking it back can cost a switch interval (5 ms).

Python's values become cells in cells.pxd, cells are bound and collected in rows.c, and recall itself is recall.c.
"""
import os
import pathlib

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from cells cimport append_tuples, cells_from_row, sql_bytes
from database cimport (
    SHP_DATABASE_AEGIS,
    SHP_DATABASE_CHACHA20,
    SHP_DATABASE_KEY_BYTES,
    SHP_DATABASE_NO_CIPHERS,
    SHP_DATABASE_NOT_ONE,
    shp_database_best_cipher,
    shp_database_copy,
    shp_database_has_ciphers,
    shp_database_open,
    shp_database_prepare,
)
from recall cimport (
    SHP_RECALL_CHUNKS,
    SHP_RECALL_CORPORA,
    SHP_RECALL_MAX_PHRASES,
    SHP_RECALL_MEMORIES,
    shp_documents_cache,
    shp_documents_cache_bytes,
    shp_documents_cache_free,
    shp_documents_cache_new,
    shp_documents_forget,
    shp_recall_hit,
    shp_recall_query,
    shp_recall_reader,
    shp_recall_reader_close,
    shp_recall_reader_open,
    shp_recall_search,
)
from recall_query cimport check_recall_numbers, set_recall_query
from reentrant_lock cimport (
    reentrant_lock,
    reentrant_lock_acquire,
    reentrant_lock_free,
    reentrant_lock_init,
    reentrant_lock_release,
)
from rows cimport (
    shp_cell,
    shp_rows,
    shp_rows_bind,
    shp_rows_fill,
    shp_rows_free,
    shp_rows_run,
    shp_rows_run_together,
    shp_run,
)
from sqlite3 cimport (
    SQLITE_DONE,
    SQLITE_ERROR,
    SQLITE_FCNTL_DATA_VERSION,
    SQLITE_FCNTL_HAS_MOVED,
    SQLITE_MISUSE,
    SQLITE_OK,
    SQLITE_OPEN_CREATE,
    SQLITE_OPEN_READONLY,
    SQLITE_OPEN_READWRITE,
    SQLITE_OPEN_URI,
    SQLITE_ROW,
    sqlite3,
    sqlite3_backup,
    sqlite3_backup_finish,
    sqlite3_backup_init,
    sqlite3_backup_pagecount,
    sqlite3_backup_remaining,
    sqlite3_backup_step,
    sqlite3_bind_parameter_count,
    sqlite3_changes64,
    sqlite3_clear_bindings,
    sqlite3_close_v2,
    sqlite3_errcode,
    sqlite3_errmsg,
    sqlite3_errstr,
    sqlite3_exec,
    sqlite3_extended_errcode,
    sqlite3_file_control,
    sqlite3_finalize,
    sqlite3_get_autocommit,
    sqlite3_interrupt,
    sqlite3_last_insert_rowid,
    sqlite3_libversion,
    sqlite3_reset,
    sqlite3_step,
    sqlite3_stmt,
    sqlite3_threadsafe,
)

from shepherd._native.text import match_expression

cdef extern from *:
    """
    #ifndef SHEPHERD_SQLITE_KIND          /* the build says which copy of SQLite it linked */
    #define SHEPHERD_SQLITE_KIND "system"
    #endif
    """
    const char* SHEPHERD_SQLITE_KIND

__all__ = [
    "AEGIS",
    "BEST_CIPHER",
    "CHACHA20",
    "HAS_CIPHERS",
    "KEY_BYTES",
    "SQLITE_KIND",
    "SQLITE_VERSION",
    "Connection",
    "Recall",
    "SQLiteError",
]

SQLITE_VERSION = sqlite3_libversion().decode()
SQLITE_KIND = SHEPHERD_SQLITE_KIND.decode()
HAS_CIPHERS = bool(shp_database_has_ciphers())
KEY_BYTES = SHP_DATABASE_KEY_BYTES
CHACHA20, AEGIS = SHP_DATABASE_CHACHA20, SHP_DATABASE_AEGIS
BEST_CIPHER = shp_database_best_cipher()

if not sqlite3_threadsafe():
    raise ImportError("this SQLite was built without thread support; build with SHEPHERD_SQLITE=bundled")

cdef enum:
    MAX_STATEMENTS = 128      # prepared statements kept per connection
    MAX_PARAMETERS = 64       # of one statement
    MAX_TOGETHER = 4          # statements of execute_together
    MAX_DEFERRED = 64         # statements deferred to the next call
    MAX_RUNS = MAX_TOGETHER + MAX_DEFERRED
    MAX_DEFERRED_CELLS = 256  # parameters of all deferred statements
    MAX_RUN_CELLS = MAX_TOGETHER * MAX_PARAMETERS + MAX_DEFERRED_CELLS
    BATCH_CELLS = 65536       # results become Python objects in batches of at most so many cells
    BATCH_BYTES = 1 << 20     # ... or this many bytes of text, so that a big result is not held twice
    BATCH_ROWS = 256          # rows of execute_many that are bound and stepped per release of the GIL


class SQLiteError(Exception):
    """An error of SQLite: `code` is its extended result code, `message` its message, without any bound value."""

    def __init__(self, code: int, message: str):
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self):
        return f"{self.message} (SQLite code {self.code})"


cdef object _error(sqlite3* db, int code, bint with_values):
    """Return the exception for a failed call; `with_values` hides messages that may quote a bound text.

    Only SQLITE_ERROR quotes values: FTS5 repeats the query near a syntax error, JSON its path.
    """
    cdef object message
    if db != NULL and (sqlite3_errcode(db) & 0xFF) == (code & 0xFF):
        code = sqlite3_extended_errcode(db)
        message = sqlite3_errmsg(db).decode("utf-8", "replace")
    else:
        message = sqlite3_errstr(code).decode("utf-8", "replace")
    if with_values and (code & 0xFF) == SQLITE_ERROR and not message.startswith("no such table: "):
        message = "SQL logic error; SQLite's own words may quote a parameter and are not repeated"
    return SQLiteError(code, message)


cdef object _closed():
    return SQLiteError(SQLITE_MISUSE, "the connection is closed")


cdef int n_forks = 0    # forks between the process that imported this module and this one


def _count_fork():
    global n_forks
    n_forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


# ---- files and statements --------------------------------------------------------------------------------

cdef bytes _path_bytes(object path):
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("the path of a database cannot have a NUL character")
    return encoded


cdef const unsigned char* _key_bytes(const unsigned char[::1] key) except? NULL:
    """Return the address of a key, NULL for none.  The caller keeps the view."""
    if key is None:
        return NULL
    if key.shape[0] != SHP_DATABASE_KEY_BYTES:
        raise ValueError(f"a key has {SHP_DATABASE_KEY_BYTES} bytes, not {key.shape[0]}")
    if not shp_database_has_ciphers():
        raise ValueError("this SQLite was built without ciphers")
    return &key[0]


cdef str _uri(str path):
    return pathlib.Path(os.path.abspath(path)).as_uri()


cdef sqlite3* _open(str path, int flags, int busy_timeout_ms, const unsigned char[::1] key=None) except NULL:
    cdef bytes encoded = _path_bytes(path)
    cdef const char* name = encoded
    cdef const unsigned char* secret = _key_bytes(key)
    cdef sqlite3* db = NULL
    cdef int code
    with nogil:
        code = shp_database_open(name, flags, busy_timeout_ms, secret, &db)
    if code != SQLITE_OK:
        error = _error(db, code, False)
        sqlite3_close_v2(db)
        raise error
    return db


cdef int _copy_pages(sqlite3* source, str path, int pages_per_step, object progress,
                     const unsigned char[::1] key=None) except -1:
    cdef sqlite3* target = _open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 5000, key)
    cdef sqlite3_backup* backup = NULL
    cdef int code
    try:
        backup = sqlite3_backup_init(target, b"main", source, b"main")
        if backup == NULL:
            raise _error(target, sqlite3_errcode(target), False)
        while True:
            with nogil:
                code = sqlite3_backup_step(backup, pages_per_step)
            if code != SQLITE_OK and code != SQLITE_DONE:
                raise _error(NULL, code, False)
            if progress is not None:
                progress(sqlite3_backup_remaining(backup), sqlite3_backup_pagecount(backup))
            if code == SQLITE_DONE:
                return 0
    finally:
        with nogil:
            sqlite3_backup_finish(backup)
            sqlite3_close_v2(target)


@cython.final
@cython.freelist(16)
cdef class _Statement:
    """A prepared statement in the cache of a connection."""

    cdef sqlite3_stmt* handle     # owned
    cdef str sql
    cdef int n_parameters
    cdef bint is_running          # by a call further up this thread's stack: must not be stepped again
    cdef uint64_t last_use        # tick of the connection's statement clock

    def __dealloc__(self):
        sqlite3_finalize(self.handle)


cdef _Statement _prepare(sqlite3* db, str sql):
    cdef _Statement statement = _Statement.__new__(_Statement)
    cdef int code, size = 0
    cdef const char* text = sql_bytes(sql, &size)
    with nogil:
        code = shp_database_prepare(db, text, size, &statement.handle)
    if code == SHP_DATABASE_NOT_ONE:
        raise ValueError("execute() takes exactly one statement; use script() for several")
    if code != SQLITE_OK:
        raise _error(db, code, False)
    statement.sql = sql
    statement.n_parameters = sqlite3_bind_parameter_count(statement.handle)
    if statement.n_parameters > MAX_PARAMETERS:
        raise ValueError(f"at most {MAX_PARAMETERS} parameters, the statement has {statement.n_parameters}")
    return statement


cdef int _first_rows(sqlite3_stmt* statement, int n_parameters, const shp_cell* cells, shp_rows* rows) noexcept nogil:
    """Collect the first batch of a statement's rows, and reset the statement if it was the last batch.

    The reset is done here because it saves a release of the GIL.
    """
    cdef int code = shp_rows_bind(statement, n_parameters, cells)
    if code == SQLITE_OK:
        code = shp_rows_fill(rows, statement, BATCH_CELLS, BATCH_BYTES)
    if code == SQLITE_DONE:
        sqlite3_reset(statement)
    return code


# ---- connections -----------------------------------------------------------------------------------------

@cython.final
cdef class Connection:
    """A connection to one database file (":memory:" for none).

    Only one thread uses it at a time: a lock makes others wait.  But a transaction is shared, so give each thread a
    connection of its own.  WAL is the caller's choice (`PRAGMA journal_mode = WAL`).  Foreign keys are on, functions
    and views of the schema are not trusted, and shadow tables cannot be written.  As a context manager it closes
    itself.

    Values are None, int (64 bits), float (not NaN), str and bytes.  Text may have NUL characters; lone surrogates are
    refused with ValueError.  Stored text that is not UTF-8 is returned with U+FFFD.
    `immutable` reads the main file alone, without locks, log or journal, and writes nothing beside it.
    `key` opens an encrypted file, or makes a new one encrypted: a key of 32 bytes, the 16 that the file begins with, and
    the number of the cipher.  It is copied into SQLite's memory, and wiped there when the connection closes.
    Raises SQLiteError when the file cannot be opened, is not a database, or is encrypted with another key.
    """

    cdef sqlite3* db              # owned; NULL once closed.  Set to NULL only with the GIL held
    cdef reentrant_lock lock      # held by the thread that uses db, also in a progress callback or a finaliser below it
    cdef bint close_on_leave
    cdef int forks                # n_forks when it was opened
    cdef dict statements          # SQL -> _Statement: the cache of prepared statements
    cdef uint64_t clock           # ticks once per use of a statement
    cdef shp_recall_reader* readers[SHP_RECALL_CORPORA]  # owned; by corpus, NULL until the first recall
    cdef list deferred            # (SQL, parameters) that run before the next statement
    cdef Py_ssize_t n_deferred_cells     # parameters of these
    cdef shp_rows[MAX_TOGETHER] spares   # buffers of the last results, reused by the next
    cdef object database          # identity for Recall: the path, or the lock's address for a database in memory
    cdef readonly str path
    cdef readonly bint read_only
    cdef bint immutable
    # While set, `execute` and `execute_together` keep the GIL: for a few rows by an index, which take microseconds.
    # A thread that releases the GIL beside busy threads waits until they release it, and a thread that is not scheduled
    # releases it late.
    cdef public bint keeps_gil

    def __cinit__(self):
        reentrant_lock_init(&self.lock)
        self.statements = {}
        self.deferred = []
        self.forks = n_forks

    def __dealloc__(self):
        cdef int i
        for i in range(MAX_TOGETHER):
            shp_rows_free(&self.spares[i])
        if self.forks == n_forks:
            self._close_readers()
            # close_v2 waits for the other statements, which are finalised with the dictionary.
            sqlite3_close_v2(self.db)
        reentrant_lock_free(&self.lock)

    def __init__(self, path, *, bint read_only=False, bint create=True, int busy_timeout_ms=5000,
                 int cache_kib=16384, bint immutable=False, const unsigned char[::1] key=None):
        if self.db != NULL:
            raise RuntimeError("a connection is opened once")
        if cache_kib < 0 or busy_timeout_ms < 0:
            raise ValueError("cache_kib and busy_timeout_ms cannot be negative")
        self.path = os.fsdecode(path)
        self.database = self.path if self.path not in ("", ":memory:") else <size_t>self.lock.handle
        self.read_only = read_only or immutable
        self.immutable = immutable
        cdef int flags = SQLITE_OPEN_READONLY if self.read_only else SQLITE_OPEN_READWRITE
        cdef str name = self.path
        flags |= SQLITE_OPEN_URI              # for write_copy
        if immutable:
            name = _uri(self.path) + "?immutable=1"
        else:
            if create and not read_only:
                flags |= SQLITE_OPEN_CREATE
            if name.startswith("file:"):      # a path, not a URI
                name = "./" + name
        self.db = _open(name, flags, busy_timeout_ms, key)
        try:
            # The cache size reads the schema: a file that is not a database is refused here.
            self.script(f"PRAGMA cell_size_check = ON; PRAGMA cache_size = -{cache_kib}")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    def close(self):
        """Roll back what was not committed and close the file; may be called twice."""
        if self.db == NULL:
            return
        try:
            self._enter()
        except SQLiteError:               # another thread closed it meanwhile
            return
        self.close_on_leave = True
        self._leave()

    # ---- lock and cache of statements

    cdef int _enter(self) except -1:
        """Take the lock; the GIL is released while it waits."""
        # The locks on the file belong to the parent, and a thread that does not exist here may hold ours
        # (sqlite.org/howtocorrupt.html, 2.6).
        if self.forks != n_forks:
            raise SQLiteError(SQLITE_MISUSE, "this process was forked after the connection was opened")
        reentrant_lock_acquire(&self.lock)
        if self.db == NULL:
            self._leave()
            raise _closed()
        return 0

    cdef void _leave(self) noexcept:
        cdef sqlite3* db
        if self.close_on_leave and self.lock.depth == 1:
            self.close_on_leave = False
            db = self.db
            self.db = NULL
            self.statements = {}      # finalises them
            with nogil:
                self._close_readers()
                sqlite3_close_v2(db)
        reentrant_lock_release(&self.lock)

    cdef int _enter_settled(self) except -1:
        """Take the lock and run the deferred statements."""
        self._enter()
        if self.deferred:
            try:
                self._run_together(())
            except BaseException:
                self._leave()
                raise
        return 0

    cdef void _close_readers(self) noexcept nogil:
        cdef int corpus
        for corpus in range(SHP_RECALL_CORPORA):
            shp_recall_reader_close(self.readers[corpus])
            self.readers[corpus] = NULL

    cdef _Statement _statement(self, str sql):
        """Return a prepared statement of `sql`, ready to bind: the cached one unless it is running."""
        cdef object cached = self.statements.get(sql)
        cdef _Statement statement
        self.clock += 1
        if cached is not None:
            statement = <_Statement>cached
            if not statement.is_running:
                statement.last_use = self.clock
                return statement
        statement = _prepare(self.db, sql)
        statement.last_use = self.clock
        if cached is None:
            if len(self.statements) >= MAX_STATEMENTS:
                self._forget_oldest_statement()
            self.statements[sql] = statement
        return statement

    cdef int _forget_oldest_statement(self) except -1:
        cdef uint64_t oldest = <uint64_t>-1
        cdef object oldest_sql = None
        for sql, statement in self.statements.items():
            if (<_Statement>statement).last_use < oldest:
                oldest = (<_Statement>statement).last_use
                oldest_sql = sql
        del self.statements[oldest_sql]
        return 0

    # ---- statements

    def execute(self, str sql not None, parameters=()):
        """Run one statement and return all its rows; an empty list when it returns none.

        Raises SQLiteError, ValueError (number of parameters, lone surrogate, NaN), OverflowError, TypeError.
        """
        # A text would be taken for a sequence of its characters.
        if isinstance(parameters, (str, bytes, dict)):
            raise TypeError(f"parameters are a sequence of values, not {type(parameters).__name__}")
        cdef tuple row = tuple(parameters)
        self._enter()
        try:
            if self.deferred:
                return self._run_together(((sql, row),))[0]
            return self._execute(sql, row)
        finally:
            self._leave()

    cdef list _execute(self, str sql, tuple parameters):
        cdef shp_cell cells[MAX_PARAMETERS]
        cdef _Statement statement = self._statement(sql)
        cdef list result = []
        cdef int code
        cdef bint is_reset = False
        cells_from_row(parameters, statement.n_parameters, cells)
        # A finaliser that the garbage collector runs below may execute on this connection: it finds the statement
        # running and no buffers, and makes its own.
        cdef shp_rows rows = self.spares[0]
        memset(&self.spares[0], 0, sizeof(shp_rows))
        statement.is_running = True
        try:
            if self.keeps_gil:
                code = _first_rows(statement.handle, statement.n_parameters, cells, &rows)
            else:
                with nogil:
                    code = _first_rows(statement.handle, statement.n_parameters, cells, &rows)
            is_reset = code == SQLITE_DONE
            while code == SQLITE_ROW:
                append_tuples(result, &rows)
                with nogil:
                    code = shp_rows_fill(&rows, statement.handle, BATCH_CELLS, BATCH_BYTES)
            if code != SQLITE_DONE:
                raise _error(self.db, code, len(parameters) > 0)
            append_tuples(result, &rows)
        finally:
            if not is_reset:
                with nogil:
                    sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False
            self._keep_buffers(&self.spares[0], &rows)
        return result

    def execute_together(self, statements):
        """Run a few statements, (sql, parameters), with one release of the GIL; return the rows of each.

        For small queries that are needed together: beside a busy thread every release of the GIL may be a wait.  When a
        statement fails, those before it have run; errors as for `execute`.
        """
        if len(statements) > MAX_TOGETHER:
            raise ValueError(f"at most {MAX_TOGETHER} statements together, not {len(statements)}")
        self._enter()
        try:
            return self._run_together(tuple(statements))
        finally:
            self._leave()

    def defer(self, str sql not None, parameters=()):
        """Defer a statement to the next call, which runs it first, with the same release of the GIL.

        For statements whose rows are not needed.  If it fails, that call raises and does nothing else.  All deferred
        statements are prepared before the first one runs: a table that one creates does not exist for the next.
        """
        cdef tuple row = tuple(parameters)
        if len(row) > MAX_PARAMETERS:
            raise ValueError(f"at most {MAX_PARAMETERS} parameters, not {len(row)}")
        self._enter()
        try:
            if len(self.deferred) == MAX_DEFERRED or self.n_deferred_cells + len(row) > MAX_DEFERRED_CELLS:
                self._run_together(())
            self.deferred.append((sql, row))
            self.n_deferred_cells += len(row)
        finally:
            self._leave()

    def forget_deferred(self):
        """Drop the deferred statements that have not run yet."""
        self._enter()
        self.deferred = []
        self.n_deferred_cells = 0
        self._leave()

    cdef list _run_together(self, tuple statements):
        """Run the deferred statements, then these; return the rows of these.  The caller holds the lock."""
        cdef list taken = []
        try:
            return self._execute_together(statements, taken)
        finally:
            self._reset(taken)

    cdef void _reset(self, list statements) noexcept:
        cdef _Statement statement
        for statement in statements:
            sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False

    cdef list _execute_together(self, tuple statements, list taken):
        """Prepare and run the statements; append them to `taken`, which the caller resets."""
        cdef shp_cell cells[MAX_RUN_CELLS]
        cdef shp_run runs[MAX_RUNS]
        cdef list deferred = self.deferred, results = []
        cdef list rows = []       # keeps the parameters alive until all statements have run
        cdef int i, code, n = 0, n_cells = 0, first = <int>len(deferred)
        cdef bint with_values = False
        if first:
            self.deferred, self.n_deferred_cells = [], 0
        for sql, parameters in (*deferred, *statements) if first else statements:
            row = tuple(parameters)
            rows.append(row)
            self._fill_run(&runs[n], sql, row, &cells[n_cells], taken)
            n_cells += runs[n].n_parameters
            n += 1
        with_values = n_cells > 0
        for i in range(n):     # as in _execute: a finaliser that runs below finds no buffers
            memset(&runs[i].rows, 0, sizeof(shp_rows))
            if i >= first:
                runs[i].rows = self.spares[i - first]
                memset(&self.spares[i - first], 0, sizeof(shp_rows))
        try:
            if self.keeps_gil and first == 0:
                code = shp_rows_run_together(runs, n)
            else:
                with nogil:
                    code = shp_rows_run_together(runs, n)
            if code != SQLITE_DONE:
                raise _error(self.db, code, with_values)
            for i in range(first, n):
                results.append([])
                append_tuples(results[i - first], &runs[i].rows)
        finally:
            for i in range(first):
                shp_rows_free(&runs[i].rows)
            for i in range(first, n):
                self._keep_buffers(&self.spares[i - first], &runs[i].rows)
        return results

    cdef int _fill_run(self, shp_run* run, str sql, tuple row, shp_cell* cells, list taken) except -1:
        cdef _Statement statement = <_Statement>taken[-1] if taken else None
        # Consecutive runs may share one statement: each run ends before the next one binds.
        if statement is None or statement.sql is not sql:
            statement = self._statement(sql)
            statement.is_running = True
            taken.append(statement)
        cells_from_row(row, statement.n_parameters, cells)
        run.statement, run.cells, run.n_parameters = statement.handle, cells, statement.n_parameters
        return 0

    cdef void _keep_buffers(self, shp_rows* spare, shp_rows* rows) noexcept:
        """Keep buffers for the next result, unless they are large."""
        shp_rows_free(spare)
        if rows.byte_capacity > 2 * BATCH_BYTES or rows.cell_capacity > BATCH_CELLS:
            shp_rows_free(rows)
        spare[0] = rows[0]

    # ---- transactions and many rows

    def begin(self):
        """Run BEGIN without releasing the GIL: nothing is locked or read before the first statement."""
        self._step_briefly("BEGIN")

    def end_reading(self):
        """Run COMMIT of a read-only transaction without releasing the GIL: nothing is written."""
        self._step_briefly("COMMIT")

    cdef int _step_briefly(self, str sql) except -1:
        cdef _Statement statement
        cdef int code
        self._enter_settled()
        try:
            statement = self._statement(sql)
            code = sqlite3_step(statement.handle)
            if code != SQLITE_DONE:
                error = _error(self.db, code, False)
                sqlite3_reset(statement.handle)
                raise error
            sqlite3_reset(statement.handle)
        finally:
            self._leave()
        return 0

    def execute_many(self, str sql not None, rows):
        """Run one statement for every row of parameters; return the number of table rows changed.

        All or nothing: outside a transaction it opens one of its own.  Rows that the statement returns are dropped.
        `rows` may be a generator that uses this connection.
        """
        cdef int64_t n_changed = 0
        cdef bint own_transaction = not self.in_transaction
        cdef list chunk = []
        if own_transaction:
            self.execute("BEGIN IMMEDIATE")
        try:
            for row in rows:
                chunk.append(tuple(row))
                if len(chunk) == BATCH_ROWS:
                    n_changed += self._run_chunk(sql, chunk)
                    chunk = []
            if chunk:
                n_changed += self._run_chunk(sql, chunk)
            if own_transaction:
                self.execute("COMMIT")
        except BaseException:
            if own_transaction and self.db != NULL and self.in_transaction:
                self.execute("ROLLBACK")
            raise
        return n_changed

    cdef int64_t _run_chunk(self, str sql, list chunk) except -1:
        cdef int64_t n_changed
        self._enter_settled()
        try:
            n_changed = self._run_rows(self._statement(sql), chunk)
        finally:
            self._leave()
        return n_changed

    cdef int64_t _run_rows(self, _Statement statement, list chunk) except -1:
        cdef Py_ssize_t i, n = len(chunk)
        cdef int code, width = statement.n_parameters
        cdef int64_t n_changed = 0
        cdef shp_cell* cells = <shp_cell*>malloc((<size_t>n * width + 1) * sizeof(shp_cell))
        if cells == NULL:
            raise MemoryError
        statement.is_running = True
        try:
            for i in range(n):
                cells_from_row(chunk[i], width, cells + i * width)
            with nogil:
                code = shp_rows_run(statement.handle, width, cells, n, &n_changed)
            if code != SQLITE_OK:
                raise _error(self.db, code, width > 0)
        finally:
            # After SQLITE_OK the statement is reset already, so this needs no release of the GIL.
            sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False
            free(cells)
        return n_changed

    def script(self, str sql not None):
        """Run any number of statements without parameters; their rows are dropped."""
        cdef int code, size = 0
        cdef const char* text = sql_bytes(sql, &size)
        self._enter_settled()
        try:
            with nogil:
                code = sqlite3_exec(self.db, text, NULL, NULL, NULL)
            if code != SQLITE_OK:
                raise _error(self.db, code, False)
        finally:
            self._leave()

    @property
    def changes(self):
        """The number of rows that the last INSERT, UPDATE or DELETE changed."""
        self._enter_settled()
        cdef int64_t n = sqlite3_changes64(self.db)
        self._leave()
        return n

    @property
    def last_insert_rowid(self):
        """Row id of the last successful INSERT of this connection, 0 before the first."""
        self._enter_settled()
        cdef int64_t rowid = sqlite3_last_insert_rowid(self.db)
        self._leave()
        return rowid

    @property
    def in_transaction(self):
        """True between BEGIN and its COMMIT or ROLLBACK."""
        self._enter_settled()
        cdef bint inside = not sqlite3_get_autocommit(self.db)
        self._leave()
        return inside

    def data_version(self):
        """Return a number that changes with every commit of this or another connection.

        A change is noticed when a transaction begins to read: inside a read transaction the number and the rows belong
        together.  Numbers of different connections cannot be compared.
        """
        cdef unsigned int version = 0
        cdef int code
        self._enter_settled()
        try:
            with nogil:
                code = sqlite3_file_control(self.db, b"main", SQLITE_FCNTL_DATA_VERSION, &version)
            if code != SQLITE_OK:
                raise _error(self.db, code, False)
        finally:
            self._leave()
        return version

    def has_moved(self):
        """Return whether the path no longer leads to the file that is open: it was renamed, replaced or deleted."""
        cdef int moved = 0
        self._enter_settled()
        try:
            if sqlite3_file_control(self.db, b"main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK:
                moved = 0
        finally:
            self._leave()
        return bool(moved)

    def write_copy(self, path, *, const unsigned char[::1] key=None):
        """Write what is committed to a new file without free pages, encrypted with `key`, else not at all.

        Whether this database is encrypted makes no difference.  Must be called outside a transaction.
        """
        cdef bytes uri = _uri(os.fsdecode(path)).encode()
        cdef const char* name = uri
        cdef const unsigned char* secret = _key_bytes(key)
        cdef int code
        self._enter_settled()
        try:
            with nogil:
                code = shp_database_copy(self.db, name, secret)
            if code != SQLITE_OK:
                raise _error(self.db, code, True)
        finally:
            self._leave()

    def backup(self, path, *, int pages_per_step=256, progress=None, const unsigned char[::1] key=None):
        """Copy the last committed state to the database at `path`, whose content it replaces.

        `key` is that of this connection: the copy is encrypted as this database is.

        Other connections may write meanwhile; the copy is one snapshot.  `progress(remaining, total)` is called after
        every `pages_per_step` pages; an exception that it raises stops the backup.  A failed backup leaves the target
        as it was.
        """
        if pages_per_step < 1:
            raise ValueError("pages_per_step must be at least 1")
        if self.db == NULL:
            raise _closed()
        if self.path in ("", ":memory:"):
            self._enter_settled()             # no other connection can open this database
            try:
                _copy_pages(self.db, os.fsdecode(path), pages_per_step, progress)
            finally:
                self._leave()
            return
        # A connection of its own, in one read transaction: a backup step on a connection that others
        # write through would start again at the first page after every commit.
        with Connection(self.path, read_only=self.read_only, create=False, immutable=self.immutable,
                        key=key) as source:
            source.script("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")
            _copy_pages((<Connection>source).db, os.fsdecode(path), pages_per_step, progress, key)

    def interrupt(self):
        """Make the statement that another thread runs here fail with SQLITE_INTERRUPT; without one, do nothing."""
        # Without the lock, since it must not wait.  Safe against close(), which sets db to NULL with the GIL held.
        if self.db != NULL:
            sqlite3_interrupt(self.db)


# ---- recall ----------------------------------------------------------------------------------------------

@cython.final
cdef class Recall:
    """Search for the memories of one user by keywords.  One object per database serves all its connections.

    With `corpus="chunks"` it searches the chunks of the user's knowledge instead: a chunk's neighbours are the chunks
    stored next to it, its conversation is its node, and it has no time.

    It caches what ranking needs of the memories of each user searched (29 bytes per memory).  Every search brings this
    up to date by the table `tenants`, so it sees the writes of other connections and processes that its transaction
    sees.  After a database file was replaced by another, make a new object.  Any number of threads may search at a
    time, each with its own connection.
    """

    cdef shp_documents_cache* cache   # owned
    cdef object database              # Connection.database of the database it serves; None before the first search
    cdef int corpus                   # SHP_RECALL_...

    def __cinit__(self, *, corpus="memories"):
        if corpus not in ("memories", "chunks"):
            raise ValueError(f"corpus is memories or chunks, not {corpus!r}")
        self.corpus = SHP_RECALL_CHUNKS if corpus == "chunks" else SHP_RECALL_MEMORIES
        self.cache = shp_documents_cache_new()
        if self.cache == NULL:
            raise MemoryError

    def __dealloc__(self):
        shp_documents_cache_free(self.cache)

    def search(self, Connection connection not None, int64_t tenant, keywords, int64_t k, double now, *,
               double k1=0.9, double b=0.3, double recency_floor=0.9, double min_relevance=0.0, periods=(),
               weights=None, bint is_request=False):
        """Return (id, bm25, score, relevance) of the best `k` memories, best first; ties by the larger id.

        The score is BM25 with the evidence of the conversation around the memory (rescore.c), times recency at `now`
        (seconds).  A memory without any keyword whose neighbours have some has a `bm25` of 0.  Memories from one of the
        `periods`, pairs of the first second and the one after the last, get a higher score.  `weights` as rank.Weights;
        those of instructions and preferences count if `is_request`: the query wants something done.
        Statistics are those of the tenant alone.  Sums are taken in the order of the keywords (repeats count once), so
        that equal data give equal bits.  At most 64 keywords are looked up; of those that the tenant's memories have,
        the 16 rarest are used.  Memories below `min_relevance` are dropped.
        Reads in the connection's open transaction, else in one of its own.
        """
        cdef list words = list(dict.fromkeys(keywords))[:SHP_RECALL_MAX_PHRASES]
        cdef shp_recall_query query
        cdef bytes match
        check_recall_numbers(tenant, now, k1, b, recency_floor, min_relevance)
        self._check_database(connection)
        if not words or k < 1:
            return []
        match = match_expression(words, tenant)
        set_recall_query(&query, tenant, match, words, k, k1, b, min_relevance, now, recency_floor, periods, weights,
                         is_request)
        connection._enter_settled()
        try:
            return self._search(connection, &query)
        finally:
            connection._leave()

    cdef list _search(self, Connection connection, const shp_recall_query* query):
        cdef const shp_recall_hit* hits = NULL
        cdef int64_t i, n_hits = 0
        cdef int code = SQLITE_OK
        cdef list found = []
        with nogil:
            if connection.readers[self.corpus] == NULL:
                code = shp_recall_reader_open(connection.db, self.corpus, &connection.readers[self.corpus])
            if code == SQLITE_OK:
                code = shp_recall_search(self.cache, connection.readers[self.corpus], query, &hits, &n_hits)
        if code != SQLITE_OK:
            raise _error(connection.db, code, True)
        for i in range(n_hits):
            found.append((hits[i].id, hits[i].bm25, hits[i].score, hits[i].relevance))
        return found

    cdef int _check_database(self, Connection connection) except -1:
        if self.database is None:
            self.database = connection.database
        elif self.database != connection.database:
            raise ValueError("a Recall serves one database; this connection is to another")
        return 0

    def forget(self, int64_t tenant):
        """Drop the cache of a tenant; the next search reads it again."""
        shp_documents_forget(self.cache, tenant)

    @property
    def memory_bytes(self):
        """Bytes that the caches of all tenants take."""
        return shp_documents_cache_bytes(self.cache)
