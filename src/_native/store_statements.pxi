# Part of store.pyx: prepared statements, and the lock under which they run.

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


cdef class _Statements:
    """The handle of a database, who uses it, and what it has prepared."""

    cdef sqlite3* db              # owned; NULL once closed.  Set to NULL only with the GIL held
    cdef PyThread_type_lock lock  # held by the thread that uses db; owned
    cdef unsigned long owner      # that thread, while depth > 0
    cdef int depth                # nested calls of the owner (a progress callback, a finaliser run by the GC)
    cdef bint close_on_leave
    cdef int forks                # n_forks when it was opened
    cdef dict statements          # SQL -> _Statement
    cdef uint64_t clock           # ticks once per use of a statement
    cdef shp_recall_reader* readers[SHP_RECALL_CORPORA]  # owned; by corpus, NULL until the first recall

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError
        self.statements = {}
        self.forks = n_forks

    def __dealloc__(self):
        if self.forks == n_forks:
            self._close_readers()
            # close_v2 waits for the other statements, which go with the dictionary.
            sqlite3_close_v2(self.db)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef int _enter(self) except -1:
        """Takes the lock.  The GIL goes while it waits: its holder may need the GIL to finish."""
        cdef unsigned long me = PyThread_get_thread_ident()
        # The locks on the file belong to the parent, and a thread that is not here may hold ours
        # (sqlite.org/howtocorrupt.html, 2.6).
        if self.forks != n_forks:
            raise SQLiteError(SQLITE_MISUSE, "this process was forked after the connection was opened")
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
