# Declarations of rows.h. Result codes are SQLite's; no call needs the GIL.
from libc.stdint cimport int64_t

from sqlite3 cimport sqlite3_stmt

cdef extern from "rows.h" nogil:
    ctypedef struct shp_cell:
        int kind             # SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL
        int64_t integer      # INTEGER; coming out, of TEXT and BLOB: offset into shp_rows.bytes
        double real
        const char* bytes    # going in: TEXT or BLOB; borrowed until the statement is reset
        int64_t n_bytes

    ctypedef struct shp_rows:
        shp_cell* cells      # owned, as bytes: shp_rows_free
        int64_t n_cells, cell_capacity
        char* bytes
        int64_t n_bytes, byte_capacity
        int n_columns

    ctypedef struct shp_run:
        sqlite3_stmt* statement
        int n_parameters
        shp_cell* cells
        shp_rows rows        # the caller's

    int shp_rows_run_together(shp_run* runs, int n) noexcept
    int shp_rows_bind(sqlite3_stmt* statement, int n_parameters, const shp_cell* cells) noexcept
    int shp_rows_fill(shp_rows* rows, sqlite3_stmt* statement, int64_t max_cells, int64_t max_bytes) noexcept
    int shp_rows_run(sqlite3_stmt* statement, int n_parameters, const shp_cell* cells, int64_t n_rows,
                     int64_t* n_changed) noexcept
    void shp_rows_free(shp_rows* rows) noexcept
