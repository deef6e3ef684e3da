/* Parameters and results of SQLite statements in a form that needs no GIL; see rows.c. */
#ifndef SHP_ROWS_H
#define SHP_ROWS_H

#include <stdint.h>

#include "sqlite3.h"

typedef struct {
    int kind;          /* SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB or SQLITE_NULL */
    int64_t integer;   /* INTEGER; coming out, of TEXT and BLOB: offset into shp_rows.bytes */
    double real;       /* FLOAT */
    const char *bytes; /* going in: TEXT (UTF-8) or BLOB, owned by the caller until the statement is reset */
    int64_t n_bytes;   /* of TEXT or BLOB */
} shp_cell;

/* Some rows of a result, cell after cell.  All zero is an empty one. */
typedef struct {
    shp_cell *cells; /* owned */
    int64_t n_cells, cell_capacity;
    char *bytes; /* owned */
    int64_t n_bytes, byte_capacity;
    int n_columns;
} shp_rows;

/* Binds cells[0 .. n_parameters) as parameters 1 .. n_parameters. */
int shp_rows_bind(sqlite3_stmt *statement, int n_parameters, const shp_cell *cells);

/* Steps and collects until `rows` has max_cells cells or max_bytes bytes (SQLITE_ROW: there may be more), the
   result ends (SQLITE_DONE), or an error. */
int shp_rows_fill(shp_rows *rows, sqlite3_stmt *statement, int64_t max_cells, int64_t max_bytes);

/* A statement with its parameters and its result. */
typedef struct {
    sqlite3_stmt *statement;
    int n_parameters;
    shp_cell *cells;
    shp_rows rows; /* owned by the caller */
} shp_run;

/* Runs the statements one after the other and resets each; SQLITE_DONE, or the code of the first one that failed, which
   is not reset and whose rows are not valid. */
int shp_rows_run_together(shp_run *runs, int n);

/* Runs the statement once per row of parameters, dropping what it returns; *n_changed grows by the rows changed. */
int shp_rows_run(sqlite3_stmt *statement, int n_parameters, const shp_cell *cells, int64_t n_rows,
                 int64_t *n_changed);

void shp_rows_free(shp_rows *rows);

#endif
