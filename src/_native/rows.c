/* Binding parameters and collecting results without the GIL.

   A result is copied out of SQLite into two growing arrays and turned into Python objects afterwards.  The copy costs
   less than releasing the GIL and taking it back for every row: beside a busy Python thread, taking it back can cost a
   switch interval, 5 ms. */
#include "rows.h"

#include <stdlib.h>
#include <string.h>

int shp_rows_bind(sqlite3_stmt *statement, int n_parameters, const shp_cell *cells)
{
    int code = SQLITE_OK;
    for (int i = 0; i < n_parameters && code == SQLITE_OK; i++) {
        const shp_cell *cell = &cells[i];
        /* STATIC: the caller's bytes outlive the statement's run, and the binding is cleared after it. */
        if (cell->kind == SQLITE_INTEGER)
            code = sqlite3_bind_int64(statement, i + 1, cell->integer);
        else if (cell->kind == SQLITE_TEXT)
            code = sqlite3_bind_text64(statement, i + 1, cell->bytes, (sqlite3_uint64)cell->n_bytes,
                                       SQLITE_STATIC, SQLITE_UTF8);
        else if (cell->kind == SQLITE_FLOAT)
            code = sqlite3_bind_double(statement, i + 1, cell->real);
        else if (cell->kind == SQLITE_BLOB)
            code = sqlite3_bind_blob64(statement, i + 1, cell->bytes, (sqlite3_uint64)cell->n_bytes,
                                       SQLITE_STATIC);
        else
            code = sqlite3_bind_null(statement, i + 1);
    }
    return code;
}

/* Room for one more cell and n_bytes more bytes; 0 when memory is out. */
static int reserve(shp_rows *rows, int64_t n_bytes)
{
    if (rows->n_cells == rows->cell_capacity) {
        int64_t capacity = 2 * rows->n_cells + 64;
        shp_cell *cells = realloc(rows->cells, (size_t)capacity * sizeof *cells);
        if (!cells)
            return 0;
        rows->cells = cells;
        rows->cell_capacity = capacity;
    }
    if (rows->n_bytes + n_bytes > rows->byte_capacity) {
        int64_t capacity = 2 * (rows->n_bytes + n_bytes) + 1024;
        char *bytes = realloc(rows->bytes, (size_t)capacity);
        if (!bytes)
            return 0;
        rows->bytes = bytes;
        rows->byte_capacity = capacity;
    }
    return 1;
}

static int append_column(shp_rows *rows, sqlite3_stmt *statement, int column)
{
    const void *source = NULL;
    int64_t n_bytes = 0;
    int kind = sqlite3_column_type(statement, column);
    if (kind == SQLITE_TEXT)
        source = sqlite3_column_text(statement, column);
    else if (kind == SQLITE_BLOB)
        source = sqlite3_column_blob(statement, column);
    if (kind == SQLITE_TEXT || kind == SQLITE_BLOB)
        n_bytes = sqlite3_column_bytes(statement, column);
    if ((n_bytes && !source) || !reserve(rows, n_bytes))
        return SQLITE_NOMEM;
    shp_cell *cell = &rows->cells[rows->n_cells++];
    cell->kind = kind;
    cell->n_bytes = n_bytes;
    cell->bytes = NULL;
    cell->integer = kind == SQLITE_INTEGER ? sqlite3_column_int64(statement, column) : rows->n_bytes;
    cell->real = kind == SQLITE_FLOAT ? sqlite3_column_double(statement, column) : 0.0;
    if (n_bytes)
        memcpy(rows->bytes + rows->n_bytes, source, (size_t)n_bytes);
    rows->n_bytes += n_bytes;
    return SQLITE_OK;
}

int shp_rows_fill(shp_rows *rows, sqlite3_stmt *statement, int64_t max_cells, int64_t max_bytes)
{
    int code;
    rows->n_cells = rows->n_bytes = 0;
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) {
        rows->n_columns = sqlite3_column_count(statement);
        for (int column = 0; column < rows->n_columns; column++)
            if (append_column(rows, statement, column) != SQLITE_OK)
                return SQLITE_NOMEM;
        if (rows->n_cells >= max_cells || rows->n_bytes >= max_bytes)
            break;
    }
    return code;
}

int shp_rows_run_together(shp_run *runs, int n)
{
    int code = SQLITE_DONE;
    for (int i = 0; i < n && code == SQLITE_DONE; i++) {
        code = shp_rows_bind(runs[i].statement, runs[i].n_parameters, runs[i].cells);
        if (code == SQLITE_OK)
            code = shp_rows_fill(&runs[i].rows, runs[i].statement, INT64_MAX, INT64_MAX);
        if (code != SQLITE_DONE)
            break;
        sqlite3_reset(runs[i].statement);
        sqlite3_clear_bindings(runs[i].statement);
    }
    return code;
}

int shp_rows_run(sqlite3_stmt *statement, int n_parameters, const shp_cell *cells, int64_t n_rows,
                 int64_t *n_changed)
{
    for (int64_t i = 0; i < n_rows; i++) {
        int code = shp_rows_bind(statement, n_parameters, cells + i * n_parameters);
        if (code != SQLITE_OK)
            return code;
        while ((code = sqlite3_step(statement)) == SQLITE_ROW)
            continue;
        if (code != SQLITE_DONE)
            return code;
        *n_changed += sqlite3_changes64(sqlite3_db_handle(statement));
        sqlite3_reset(statement);
    }
    return SQLITE_OK;
}

void shp_rows_free(shp_rows *rows)
{
    free(rows->cells);
    free(rows->bytes);
    memset(rows, 0, sizeof *rows);
}
