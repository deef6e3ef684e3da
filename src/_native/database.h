/* Opening database files and preparing statements as the store needs them. */
#ifndef SHP_DATABASE_H
#define SHP_DATABASE_H

#include "sqlite3.h"

enum { SHP_DATABASE_NOT_ONE = -1 }; /* beside SQLite's result codes: the SQL is not exactly one statement */

/* Opens a file without SQLite's own lock (the connection has one), with foreign keys on and an untrusted schema. *out
   is set even on failure, for sqlite3_errmsg; the caller closes it with sqlite3_close_v2. */
int shp_database_open(const char *path, int flags, int busy_timeout_ms, sqlite3 **out);

/* Prepares the one statement of `sql`, which ends with a NUL at sql[n_bytes]; only white space and comments may follow
   it. *out may be set on failure, too; the caller finalizes it once the error has been read. */
int shp_database_prepare(sqlite3 *db, const char *sql, int n_bytes, sqlite3_stmt **out);

#endif
