# Part of store.pyx: Python's values into cells, and cells into rows of Python's values.

cdef int _cell_from_object(object value, Py_ssize_t index, shp_cell* cell) except -1:
    """Points `cell` at `value`, which must stay alive until the statement is reset."""
    cdef int overflow = 0
    cdef Py_ssize_t size = 0
    if value is None:
        cell.kind = SQLITE_NULL
    elif isinstance(value, int):
        cell.kind = SQLITE_INTEGER
        cell.integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            raise OverflowError(f"parameter {index + 1}: the integer does not fit 64 bits")
    elif isinstance(value, float):
        cell.kind = SQLITE_FLOAT
        cell.real = value
        if isnan(cell.real):
            raise ValueError(f"parameter {index + 1}: SQLite would store NaN as NULL; pass None to mean that")
    elif isinstance(value, str):
        cell.kind = SQLITE_TEXT
        cell.bytes = PyUnicode_AsUTF8AndSize(value, &size)
        if cell.bytes == NULL:
            PyErr_Clear()     # its exception would carry the text
            raise ValueError(f"parameter {index + 1}: the text has a lone surrogate (U+D800 to U+DFFF), "
                             "which UTF-8 cannot hold")
        cell.n_bytes = size
    elif isinstance(value, bytes):
        cell.kind = SQLITE_BLOB
        cell.bytes = PyBytes_AS_STRING(value)
        cell.n_bytes = PyBytes_GET_SIZE(value)
    else:
        raise TypeError(f"parameter {index + 1}: {type(value).__name__} cannot be stored; "
                        "use None, int, float, str or bytes")
    return 0


cdef int _cells_from_row(tuple row, int n_parameters, shp_cell* cells) except -1:
    cdef Py_ssize_t i, n = len(row)
    if n != n_parameters:
        raise ValueError(f"the statement takes {n_parameters} parameters, {n} were given")
    for i in range(n):
        _cell_from_object(row[i], i, &cells[i])
    return 0


# ---- rows out -------------------------------------------------------------------------------------------

cdef object _object_from_cell(const shp_rows* rows, const shp_cell* cell):
    if cell.kind == SQLITE_INTEGER:
        return cell.integer
    if cell.kind == SQLITE_TEXT:
        # A damaged or foreign file may hold bad UTF-8; one row must not make the rest unreadable.
        return PyUnicode_DecodeUTF8(rows.bytes + cell.integer, <Py_ssize_t>cell.n_bytes, "replace")
    if cell.kind == SQLITE_FLOAT:
        return cell.real
    if cell.kind == SQLITE_BLOB:
        return PyBytes_FromStringAndSize(rows.bytes + cell.integer, <Py_ssize_t>cell.n_bytes)
    return None


cdef int _append_tuples(list result, const shp_rows* rows) except -1:
    cdef int64_t start = 0
    cdef int column
    cdef tuple row
    cdef object value
    while start < rows.n_cells:
        row = PyTuple_New(rows.n_columns)
        for column in range(rows.n_columns):
            value = _object_from_cell(rows, &rows.cells[start + column])
            Py_INCREF(value)
            PyTuple_SET_ITEM(row, column, value)
        result.append(row)
        start += rows.n_columns
    return 0
