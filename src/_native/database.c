/* Opening database files and preparing statements; see database.h. */
#include "database.h"

#include <stddef.h>

int shp_database_open(const char *path, int flags, int busy_timeout_ms, sqlite3 **out)
{
    int code = sqlite3_open_v2(path, out, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_busy_timeout(*out, busy_timeout_ms);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_ENABLE_FKEY, 1, (int *)NULL);
    /* The file can come from another person: its schema must not call functions with side effects. */
    sqlite3_db_config(*out, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, (int *)NULL);
    sqlite3_db_config(*out, SQLITE_DBCONFIG_DEFENSIVE, 1, (int *)NULL);
    return SQLITE_OK;
}

int shp_database_prepare(sqlite3 *db, const char *sql, int n_bytes, sqlite3_stmt **out)
{
    const char *tail = NULL;
    sqlite3_stmt *second = NULL;
    int code = sqlite3_prepare_v3(db, sql, n_bytes + 1, SQLITE_PREPARE_PERSISTENT, out, &tail);
    /* Anything but white space and comments behind the statement would be dropped silently. */
    if (code == SQLITE_OK && tail < sql + n_bytes)
        code = sqlite3_prepare_v3(db, tail, (int)(sql + n_bytes - tail) + 1, 0, &second, NULL);
    if (code == SQLITE_OK && (second || !*out))
        code = SHP_DATABASE_NOT_ONE;
    sqlite3_finalize(second);
    return code;
}
