# Part of store.pyx: connections, as others see them.

cdef int _first_rows(sqlite3_stmt* statement, int n_parameters, const shp_cell* cells, shp_rows* rows) noexcept nogil:
    """The first batch of a statement's rows; after the last one it is reset, for one crossing less."""
    cdef int code = shp_rows_bind(statement, n_parameters, cells)
    if code == SQLITE_OK:
        code = shp_rows_fill(rows, statement, BATCH_CELLS, BATCH_BYTES)
    if code == SQLITE_DONE:
        sqlite3_reset(statement)
    return code


@cython.final
cdef class Connection(_Together):
    """A connection to one database file (":memory:" for none).

    One thread at a time: a lock makes others wait, but a transaction is shared, so give each thread its own.
    WAL is the caller's choice (`PRAGMA journal_mode = WAL`); foreign keys are on, functions and views of the
    schema are not trusted, shadow tables cannot be written.  Usable as a context manager, which closes it.

    Values are None, int (64 bits), float (not NaN), str and bytes.  Text may hold NUL characters; lone
    surrogates are refused with ValueError.  Text that is not UTF-8 comes back with U+FFFD.
    Raises SQLiteError when the file cannot be opened or is not a database.
    """

    cdef object database          # what Recall compares: the path, or of a database in memory the lock's address
    cdef readonly str path
    cdef readonly bint read_only

    def __init__(self, path, *, bint read_only=False, bint create=True, int busy_timeout_ms=5000,
                 int cache_kib=16384):
        if self.db != NULL:
            raise RuntimeError("a connection is opened once")
        if cache_kib < 0 or busy_timeout_ms < 0:
            raise ValueError("cache_kib and busy_timeout_ms cannot be negative")
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

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.close()

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
            if self.keeps_gil:
                code = _first_rows(statement.handle, statement.n_parameters, cells, &rows)
            else:
                with nogil:
                    code = _first_rows(statement.handle, statement.n_parameters, cells, &rows)
            is_reset = code == SQLITE_DONE
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
