# Part of store.pyx: several statements in one stretch without the GIL, at once or left to the next call.

cdef class _Together(_Statements):
    """Statements that run together, those first that were deferred."""

    cdef list deferred            # (SQL, parameters) that run before the next statement
    cdef Py_ssize_t n_deferred_cells   # parameters of these
    # While set, `execute` and `execute_together` keep the GIL: for a few rows by an index, which take microseconds.
    # Who lets it go beside threads that compute waits until they give it back, and one that has it and no processor
    # gives it back late.
    cdef public bint keeps_gil
    cdef shp_rows[MAX_TOGETHER] spares   # buffers of the last results, used again by the next

    def __cinit__(self):
        self.deferred = []

    def __dealloc__(self):
        cdef int i
        for i in range(MAX_TOGETHER):
            shp_rows_free(&self.spares[i])

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
            if self.keeps_gil and first == 0:
                code = shp_rows_run_together(runs, n)
            else:
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
