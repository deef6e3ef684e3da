/* Opening database files and preparing statements as the store needs them. */
#ifndef SHP_DATABASE_H
#define SHP_DATABASE_H

#include "sqlite3.h"

enum {
    SHP_DATABASE_NOT_ONE = -1,    /* beside SQLite's result codes: the SQL is not exactly one statement */
    SHP_DATABASE_NO_CIPHERS = -2, /* a key was given, and this SQLite was built without ciphers */
    SHP_DATABASE_KEY_BYTES = 49,  /* a key of 32 bytes, the 16 bytes that the file begins with, the cipher */
    SHP_DATABASE_CHACHA20 = 0,    /* ChaCha20-Poly1305 */
    SHP_DATABASE_AEGIS = 1        /* AEGIS-256 */
};

/* Whether this SQLite can encrypt. */
int shp_database_has_ciphers(void);

/* The cipher that is the fastest on this machine. Every machine can read both. */
int shp_database_best_cipher(void);

/* Opens a file without SQLite's own lock (the connection has one), with foreign keys on and an untrusted schema. `key`
   is NULL for a file that is not encrypted. *out is set even on failure, for sqlite3_errmsg; the caller closes it with
   sqlite3_close_v2. A wrong key shows when the file is first read. */
int shp_database_open(const char *path, int flags, int busy_timeout_ms, const unsigned char *key, sqlite3 **out);

/* Writes what `db` sees to a new file, without free pages: encrypted with `key`, or not at all if it is NULL. `uri` is
   the file's, file:///…, without a query; `db` was opened with SQLITE_OPEN_URI and is outside a transaction. */
int shp_database_copy(sqlite3 *db, const char *uri, const unsigned char *key);

/* Prepares the one statement of `sql`, which ends with a NUL at sql[n_bytes]; only white space and comments may follow
   it. *out may be set on failure, too; the caller finalizes it once the error has been read. */
int shp_database_prepare(sqlite3 *db, const char *sql, int n_bytes, sqlite3_stmt **out);

#endif
