# Declarations of database.h. No call takes the GIL.
from sqlite3 cimport sqlite3, sqlite3_stmt

cdef extern from "database.h" nogil:
    enum:
        SHP_DATABASE_NOT_ONE
        SHP_DATABASE_NO_CIPHERS
        SHP_DATABASE_KEY_BYTES
        SHP_DATABASE_CHACHA20
        SHP_DATABASE_AEGIS
    int shp_database_has_ciphers() noexcept
    int shp_database_best_cipher() noexcept
    int shp_database_open(const char* path, int flags, int busy_timeout_ms, const unsigned char* key,
                          sqlite3** out) noexcept
    int shp_database_copy(sqlite3* db, const char* uri, const unsigned char* key) noexcept
    int shp_database_prepare(sqlite3* db, const char* sql, int n_bytes, sqlite3_stmt** out) noexcept
