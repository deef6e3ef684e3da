"""SQLite connections, and recall over its FTS5 index.  The only module that links SQLite.

It knows statements, rows and postings; the schema, settings and the meaning of a row live above.
One door (`_error`) turns result codes into SQLiteError.  Work on the database runs without the GIL, and
crosses it once per statement, not once per row: a busy Python thread would cost a switch interval (5 ms)
at every crossing.
"""
import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.limits cimport INT_MAX
from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memchr, memset

from recall cimport (
    SHP_MAX_TENANT,
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
from rescore cimport shp_rescore_key
from rescore_query cimport set_rescore_query
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
from sqlite3 cimport *

from shepherd._native.text import match_expression

cdef extern from *:
    """
    #ifndef SHEPHERD_SQLITE_KIND          /* the build says which copy of SQLite it linked */
    #define SHEPHERD_SQLITE_KIND "system"
    #endif
    """
    const char* SHEPHERD_SQLITE_KIND

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)   # NULL with an exception set
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

__all__ = ["SQLITE_KIND", "SQLITE_VERSION", "Connection", "Recall", "SQLiteError"]

SQLITE_VERSION = sqlite3_libversion().decode()
SQLITE_KIND = SHEPHERD_SQLITE_KIND.decode()

if not sqlite3_threadsafe():
    raise ImportError("this SQLite was built without thread support; build with SHEPHERD_SQLITE=bundled")

cdef enum:
    MAX_STATEMENTS = 128      # prepared statements kept per connection
    MAX_PARAMETERS = 64       # of one statement
    MAX_TOGETHER = 4          # statements of execute_together
    MAX_DEFERRED = 64         # statements that wait for the next one
    MAX_RUNS = MAX_TOGETHER + MAX_DEFERRED
    MAX_DEFERRED_CELLS = 256  # parameters of all of those
    MAX_RUN_CELLS = MAX_TOGETHER * MAX_PARAMETERS + MAX_DEFERRED_CELLS
    BATCH_CELLS = 65536       # results are turned into Python objects in batches of at most this
    BATCH_BYTES = 1 << 20     # ... or this many bytes of text, so that a big result is not held twice
    BATCH_ROWS = 256          # rows of execute_many bound and stepped in one stretch without the GIL


class SQLiteError(Exception):
    """SQLite refused: `code` is its extended result code, `message` its words, without any bound value."""

    def __init__(self, code: int, message: str):
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self):
        return f"{self.message} (SQLite code {self.code})"


cdef object _error(sqlite3* db, int code, bint with_values):
    """The exception for a failed call; `with_values` hides words that may quote a bound text.

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


include "store_values.pxi"


# ---- statements -----------------------------------------------------------------------------------------

@cython.final
@cython.freelist(16)
cdef class _Statement:
    cdef sqlite3_stmt* handle     # owned
    cdef str sql
    cdef int n_parameters
    cdef bint is_running          # in a call further up this thread's stack: must not be stepped again
    cdef uint64_t last_use        # tick of the connection's statement clock

    def __dealloc__(self):
        sqlite3_finalize(self.handle)


cdef const char* _sql_bytes(str sql, int* size) except NULL:
    cdef Py_ssize_t n = 0
    cdef const char* text = PyUnicode_AsUTF8AndSize(sql, &n)
    if text == NULL:
        PyErr_Clear()
        raise ValueError("the SQL has a lone surrogate")
    if n > INT_MAX - 1 or memchr(text, 0, n) != NULL:
        raise ValueError("the SQL is longer than 2 GiB or has a NUL character")
    size[0] = <int>n
    return text


cdef bytes _path_bytes(object path):
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("the path of a database cannot have a NUL character")
    return encoded


# ---- connections ----------------------------------------------------------------------------------------

@cython.final
cdef class Connection:
    """A connection to one database file (":memory:" for none).

    One thread at a time: a lock makes others wait, but a transaction is shared, so give each thread its own.
    WAL is the caller's choice (`PRAGMA journal_mode = WAL`); foreign keys are on, functions and views of the
    schema are not trusted, shadow tables cannot be written.  Usable as a context manager, which closes it.

    Values are None, int (64 bits), float (not NaN), str and bytes.  Text may hold NUL characters; lone
    surrogates are refused with ValueError.  Text that is not UTF-8 comes back with U+FFFD.
    Raises SQLiteError when the file cannot be opened or is not a database.
    """

    cdef sqlite3* db              # owned; NULL once closed.  Set to NULL only with the GIL held
    cdef PyThread_type_lock lock  # held by the thread that uses db; owned
    cdef unsigned long owner      # that thread, while depth > 0
    cdef int depth                # nested calls of the owner (a progress callback, a finaliser run by the GC)
    cdef bint close_on_leave
    cdef dict statements          # SQL -> _Statement
    cdef uint64_t clock           # ticks once per use of a statement
    cdef list deferred            # (SQL, parameters) that run before the next statement
    cdef Py_ssize_t n_deferred_cells   # parameters of these
    cdef shp_rows[MAX_TOGETHER] spares   # buffers of the last results, used again by the next
    cdef shp_recall_reader* readers[SHP_RECALL_CORPORA]  # owned; by corpus, NULL until the first recall
    cdef object database          # what Recall compares: the path, or of a database in memory the lock's address
    cdef readonly str path
    cdef readonly bint read_only

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __init__(self, path, *, bint read_only=False, bint create=True, int busy_timeout_ms=5000,
                 int cache_kib=16384):
        if self.db != NULL:
            raise RuntimeError("a connection is opened once")
        if cache_kib < 0 or busy_timeout_ms < 0:
            raise ValueError("cache_kib and busy_timeout_ms cannot be negative")
        self.statements = {}
        self.deferred = []
        self.path = os.fsdecode(path)
        self.database = self.path if self.path not in ("", ":memory:") else <size_t>self.lock
        self.read_only = read_only
        cdef int flags = SQLITE_OPEN_READONLY if read_only else SQLITE_OPEN_READWRITE
        if create and not read_only:
            flags |= SQLITE_OPEN_CREATE
        self.db = _open(self.path, flags, busy_timeout_ms)
        try:
            # The cache size reads the schema: a file that is not a database is refused here.
            self.script(f"PRAGMA cell_size_check = ON; PRAGMA cache_size = -{cache_kib}")
        except BaseException:
            self.close()
            raise

    def __dealloc__(self):
        cdef int i
        self._close_readers()
        # close_v2 waits for the other statements, which go with the dictionary.
        sqlite3_close_v2(self.db)
        for i in range(MAX_TOGETHER):
            shp_rows_free(&self.spares[i])
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

    cdef int _enter(self) except -1:
        """Takes the lock.  The GIL goes while it waits: its holder may need the GIL to finish."""
        cdef unsigned long me = PyThread_get_thread_ident()
        if self.depth and self.owner == me:
            self.depth += 1
        else:
            if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
                with nogil:
                    PyThread_acquire_lock(self.lock, WAIT_LOCK)
            self.owner = me
            self.depth = 1
        if self.db == NULL:
            self._leave()
            raise _closed()
        return 0

    cdef int _enter_settled(self) except -1:
        """The same, and runs what was deferred."""
        self._enter()
        if self.deferred:
            try:
                self._run_together(())
            except BaseException:
                self._leave()
                raise
        return 0

    cdef void _leave(self) noexcept:
        cdef sqlite3* db
        self.depth -= 1
        if self.depth:
            return
        if self.close_on_leave:
            self.close_on_leave = False
            db = self.db
            self.db = NULL
            self.statements = {}      # finalises them
            with nogil:
                self._close_readers()
                sqlite3_close_v2(db)
        PyThread_release_lock(self.lock)

    cdef void _close_readers(self) noexcept nogil:
        cdef int corpus
        for corpus in range(SHP_RECALL_CORPORA):
            shp_recall_reader_close(self.readers[corpus])
            self.readers[corpus] = NULL

    cdef _Statement _statement(self, str sql):
        """The prepared statement of `sql`, ready to bind; from the cache where it is not running."""
        cdef object cached = self.statements.get(sql)
        cdef _Statement statement
        self.clock += 1
        if cached is not None:
            statement = <_Statement>cached
            if not statement.is_running:
                statement.last_use = self.clock
                return statement
        statement = self._prepare(sql)
        statement.last_use = self.clock
        if cached is None:
            if len(self.statements) >= MAX_STATEMENTS:
                self._forget_oldest_statement()
            self.statements[sql] = statement
        return statement

    cdef _Statement _prepare(self, str sql):
        cdef _Statement statement = _Statement.__new__(_Statement)
        cdef const char* tail = NULL
        cdef sqlite3_stmt* second = NULL
        cdef int code, size = 0
        cdef const char* text = _sql_bytes(sql, &size)
        cdef const char* end = text + size
        with nogil:
            code = sqlite3_prepare_v3(self.db, text, size + 1, SQLITE_PREPARE_PERSISTENT, &statement.handle,
                                      &tail)
            if code == SQLITE_OK and tail < end:
                # Only white space and comments may follow; anything else would be dropped in silence.
                code = sqlite3_prepare_v3(self.db, tail, <int>(end - tail) + 1, 0, &second, NULL)
        if code != SQLITE_OK:
            raise _error(self.db, code, False)
        if second != NULL or statement.handle == NULL:
            sqlite3_finalize(second)
            raise ValueError("execute() takes exactly one statement; use script() for several")
        statement.sql = sql
        statement.n_parameters = sqlite3_bind_parameter_count(statement.handle)
        if statement.n_parameters > MAX_PARAMETERS:
            raise ValueError(f"at most {MAX_PARAMETERS} parameters, the statement has {statement.n_parameters}")
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

    def execute(self, str sql not None, parameters=()):
        """All rows of one statement; an empty list when it returns none.

        Raises SQLiteError, ValueError (number of parameters, lone surrogate, NaN), OverflowError, TypeError.
        """
        # A statement of parameters given as text would be taken for their letters.
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
        _cells_from_row(parameters, statement.n_parameters, cells)
        # A finaliser run by the garbage collector below may execute on this connection: it finds the
        # statement taken and the buffers gone, and makes its own.
        cdef shp_rows rows = self.spares[0]
        memset(&self.spares[0], 0, sizeof(shp_rows))
        statement.is_running = True
        try:
            with nogil:
                code = shp_rows_bind(statement.handle, statement.n_parameters, cells)
                if code == SQLITE_OK:
                    code = shp_rows_fill(&rows, statement.handle, BATCH_CELLS, BATCH_BYTES)
                if code == SQLITE_DONE:     # here, for one crossing less
                    sqlite3_reset(statement.handle)
                    is_reset = True
            while code == SQLITE_ROW:
                _append_tuples(result, &rows)
                with nogil:
                    code = shp_rows_fill(&rows, statement.handle, BATCH_CELLS, BATCH_BYTES)
            if code != SQLITE_DONE:
                raise _error(self.db, code, len(parameters) > 0)
            _append_tuples(result, &rows)
        finally:
            if not is_reset:
                with nogil:
                    sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False
            self._keep(&self.spares[0], &rows)
        return result

    def begin(self):
        """BEGIN, keeping the GIL: nothing is locked or read before the first statement."""
        self._step_briefly("BEGIN")

    def end_reading(self):
        """COMMIT of a transaction that only read, keeping the GIL: nothing is written."""
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

    def execute_together(self, statements):
        """For each of a few statements, (sql, parameters), all its rows; run in one stretch without the GIL.

        For what is small and needed at once: beside a busy thread every crossing may be a wait.  A statement that
        fails leaves those before it done; errors as of `execute`.
        """
        if len(statements) > MAX_TOGETHER:
            raise ValueError(f"at most {MAX_TOGETHER} statements together, not {len(statements)}")
        self._enter()
        try:
            return self._run_together(tuple(statements))
        finally:
            self._leave()

    def defer(self, str sql not None, parameters=()):
        """Leaves a statement to the next call, which runs it first, in the same stretch without the GIL.

        For statements whose rows nobody wants.  If it fails, that call raises and does nothing else.  All are
        prepared before the first one runs: a table that one makes is not there for the next.
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
        """Drops what `defer` was given and no call has run yet."""
        self._enter()
        self.deferred = []
        self.n_deferred_cells = 0
        self._leave()

    cdef list _run_together(self, tuple statements):
        """The rows of each, after what was deferred; inside the lock."""
        cdef list taken = []
        try:
            return self._execute_together(statements, taken)
        finally:
            self._let_go(taken)

    cdef void _let_go(self, list statements) noexcept:
        cdef _Statement statement
        for statement in statements:
            sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False

    cdef list _execute_together(self, tuple statements, list taken):
        """Adds the statements to `taken`: they are the caller's to reset."""
        cdef shp_cell cells[MAX_RUN_CELLS]
        cdef shp_run runs[MAX_RUNS]
        cdef list waiting = self.deferred, kept = [], results = []   # kept: the parameters, alive until all has run
        cdef int i, code, n = 0, n_cells = 0, first = <int>len(waiting)
        cdef bint with_values = False
        if first:
            self.deferred, self.n_deferred_cells = [], 0
        for sql, parameters in (*waiting, *statements) if first else statements:
            row = tuple(parameters)
            kept.append(row)
            self._fill_run(&runs[n], sql, row, &cells[n_cells], taken)
            n_cells += runs[n].n_parameters
            n += 1
        with_values = n_cells > 0
        for i in range(n):     # as in _execute: what runs below on this connection finds none
            memset(&runs[i].rows, 0, sizeof(shp_rows))
            if i >= first:
                runs[i].rows = self.spares[i - first]
                memset(&self.spares[i - first], 0, sizeof(shp_rows))
        try:
            with nogil:
                code = shp_rows_run_together(runs, n)
            if code != SQLITE_DONE:
                raise _error(self.db, code, with_values)
            for i in range(first, n):
                results.append([])
                _append_tuples(results[i - first], &runs[i].rows)
        finally:
            for i in range(first):
                shp_rows_free(&runs[i].rows)
            for i in range(first, n):
                self._keep(&self.spares[i - first], &runs[i].rows)
        return results

    cdef int _fill_run(self, shp_run* run, str sql, tuple row, shp_cell* cells, list taken) except -1:
        cdef _Statement statement = <_Statement>taken[-1] if taken else None
        # One statement serves several rows in a row: each run ends before the next one binds.
        if statement is None or statement.sql is not sql:
            statement = self._statement(sql)
            statement.is_running = True
            taken.append(statement)
        _cells_from_row(row, statement.n_parameters, cells)
        run.statement, run.cells, run.n_parameters = statement.handle, cells, statement.n_parameters
        return 0

    cdef void _keep(self, shp_rows* spare, shp_rows* rows) noexcept:
        """Keeps buffers for the next result, unless they are large."""
        shp_rows_free(spare)
        if rows.byte_capacity > 2 * BATCH_BYTES or rows.cell_capacity > BATCH_CELLS:
            shp_rows_free(rows)
        spare[0] = rows[0]

    def execute_many(self, str sql not None, rows):
        """Runs one statement for every row of parameters; the number of rows changed in the tables.

        All or nothing: outside a transaction it opens one of its own.  Rows that the statement returns are
        dropped.  `rows` may be a generator that uses this connection.
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
                _cells_from_row(chunk[i], width, cells + i * width)
            with nogil:
                code = shp_rows_run(statement.handle, width, cells, n, &n_changed)
            if code != SQLITE_OK:
                raise _error(self.db, code, width > 0)
        finally:
            # After SQLITE_OK it is reset already: no crossing for that.
            sqlite3_reset(statement.handle)
            sqlite3_clear_bindings(statement.handle)
            statement.is_running = False
            free(cells)
        return n_changed

    def script(self, str sql not None):
        """Runs any number of statements without parameters; rows are dropped."""
        cdef int code, size = 0
        cdef const char* text = _sql_bytes(sql, &size)
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
        """Rows that the last INSERT, UPDATE or DELETE changed."""
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
        """Whether BEGIN has run and neither COMMIT nor ROLLBACK ended it."""
        self._enter_settled()
        cdef bint inside = not sqlite3_get_autocommit(self.db)
        self._leave()
        return inside

    def data_version(self):
        """A number that another one's or this connection's commit changes.

        It is noticed when a transaction begins to read: inside a read transaction the number and the rows
        belong together.  Numbers of different connections cannot be compared.
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

    def backup(self, path, *, int pages_per_step=256, progress=None):
        """Copies the last committed state to the database at `path`, whose content it replaces.

        Others may write meanwhile; the copy is one snapshot.  `progress(remaining, total)` is called after
        every `pages_per_step` pages; what it raises stops the backup.  A backup that failed leaves the
        target as it was.
        """
        if pages_per_step < 1:
            raise ValueError("pages_per_step must be at least 1")
        if self.db == NULL:
            raise _closed()
        if self.path in ("", ":memory:"):
            self._enter_settled()             # nobody else can reach these pages
            try:
                _copy_pages(self.db, os.fsdecode(path), pages_per_step, progress)
            finally:
                self._leave()
            return
        # A connection of its own, in one read transaction: a backup step on a connection that others
        # write through would start again at the first page after every commit.
        with Connection(self.path, read_only=self.read_only, create=False) as source:
            source.script("BEGIN; SELECT 1 FROM sqlite_schema LIMIT 1")
            _copy_pages((<Connection>source).db, os.fsdecode(path), pages_per_step, progress)

    def interrupt(self):
        """Makes the statement that another thread runs here fail with SQLITE_INTERRUPT; else does nothing."""
        # No lock: it must not wait.  Safe against close(), which lets go of db with the GIL held.
        if self.db != NULL:
            sqlite3_interrupt(self.db)

    def close(self):
        """Rolls back what was not committed and lets the file go; closing twice is fine."""
        if self.db == NULL:
            return
        try:
            self._enter()
        except SQLiteError:               # another thread closed it while this one waited
            return
        self.close_on_leave = True
        self._leave()


include "store_files.pxi"
include "store_recall.pxi"
