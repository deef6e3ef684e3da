# Conversion between Python's values and the cells of rows.h: parameters on the way in, rows on the way out.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.limits cimport INT_MAX
from libc.math cimport isnan
from libc.stdint cimport int64_t
from libc.string cimport memchr

from rows cimport shp_cell, shp_rows
from sqlite3 cimport SQLITE_BLOB, SQLITE_FLOAT, SQLITE_INTEGER, SQLITE_NULL, SQLITE_TEXT

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size)   # NULL with an exception set
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


# ---- in --------------------------------------------------------------------------------------------------

cdef inline const char* sql_bytes(str sql, int* size) except NULL:
    """Return the UTF-8 of a statement, borrowed from `sql`."""
    cdef Py_ssize_t n = 0
    cdef const char* text = PyUnicode_AsUTF8AndSize(sql, &n)
    if text == NULL:
        PyErr_Clear()
        raise ValueError("the SQL has a lone surrogate")
    if n > INT_MAX - 1 or memchr(text, 0, n) != NULL:
        raise ValueError("the SQL is longer than 2 GiB or has a NUL character")
    size[0] = <int>n
    return text


cdef inline int cell_from_object(object value, Py_ssize_t index, shp_cell* cell) except -1:
    """Point `cell` at `value`, which must stay alive until the statement is reset."""
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
            PyErr_Clear()     # its exception would contain the text
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


cdef inline int cells_from_row(tuple row, int n_parameters, shp_cell* cells) except -1:
    """Fill the n_parameters cells of a statement from its parameters."""
    cdef Py_ssize_t i, n = len(row)
    if n != n_parameters:
        raise ValueError(f"the statement takes {n_parameters} parameters, {n} were given")
    for i in range(n):
        cell_from_object(row[i], i, &cells[i])
    return 0


# ---- out -------------------------------------------------------------------------------------------------

cdef inline object object_from_cell(const shp_rows* rows, const shp_cell* cell):
    if cell.kind == SQLITE_INTEGER:
        return cell.integer
    if cell.kind == SQLITE_TEXT:
        # A damaged or foreign file may have invalid UTF-8; one row must not make the rest unreadable.
        return PyUnicode_DecodeUTF8(rows.bytes + cell.integer, <Py_ssize_t>cell.n_bytes, "replace")
    if cell.kind == SQLITE_FLOAT:
        return cell.real
    if cell.kind == SQLITE_BLOB:
        return PyBytes_FromStringAndSize(rows.bytes + cell.integer, <Py_ssize_t>cell.n_bytes)
    return None


cdef inline int append_tuples(list result, const shp_rows* rows) except -1:
    """Append the rows to `result`, each as a tuple."""
    cdef int64_t start = 0
    cdef int column
    cdef tuple row
    cdef object value
    while start < rows.n_cells:
        row = PyTuple_New(rows.n_columns)
        for column in range(rows.n_columns):
            value = object_from_cell(rows, &rows.cells[start + column])
            Py_INCREF(value)
            PyTuple_SET_ITEM(row, column, value)
        result.append(row)
        start += rows.n_columns
    return 0
