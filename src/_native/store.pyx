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


cdef int n_forks = 0    # between this process and the first of its kind


def _count_fork():
    global n_forks
    n_forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


include "store_values.pxi"
include "store_statements.pxi"
include "store_together.pxi"
include "store_files.pxi"
include "store_connection.pxi"
include "store_recall.pxi"
