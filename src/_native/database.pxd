# Declarations of database.h. No call takes the GIL.
from sqlite3 cimport sqlite3, sqlite3_stmt

cdef extern from "database.h" nogil:
    enum: SHP_DATABASE_NOT_ONE
    int shp_database_open(const char* path, int flags, int busy_timeout_ms, sqlite3** out) noexcept
    int shp_database_prepare(sqlite3* db, const char* sql, int n_bytes, sqlite3_stmt** out) noexcept
