# Declarations of sqlite3.h, as far as they are used here. Every call is plain C: it raises nothing and needs no GIL.
from libc.stdint cimport int64_t

cdef extern from "sqlite3.h" nogil:
    ctypedef struct sqlite3:
        pass
    ctypedef struct sqlite3_stmt:
        pass
    ctypedef struct sqlite3_backup:
        pass

    const int SQLITE_OK, SQLITE_ERROR, SQLITE_MISUSE
    const int SQLITE_ROW, SQLITE_DONE
    const int SQLITE_INTEGER, SQLITE_FLOAT, SQLITE_TEXT, SQLITE_BLOB, SQLITE_NULL
    const int SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE, SQLITE_OPEN_CREATE, SQLITE_OPEN_URI
    const int SQLITE_FCNTL_DATA_VERSION, SQLITE_FCNTL_HAS_MOVED

    const char* sqlite3_libversion()
    int sqlite3_threadsafe()
    int sqlite3_close_v2(sqlite3* db)
    int sqlite3_file_control(sqlite3* db, const char* schema, int option, void* value)
    void sqlite3_interrupt(sqlite3* db)
    int sqlite3_get_autocommit(sqlite3* db)
    int64_t sqlite3_changes64(sqlite3* db)
    int64_t sqlite3_last_insert_rowid(sqlite3* db)

    int sqlite3_errcode(sqlite3* db)
    int sqlite3_extended_errcode(sqlite3* db)
    const char* sqlite3_errmsg(sqlite3* db)
    const char* sqlite3_errstr(int code)

    int sqlite3_exec(sqlite3* db, const char* sql, void* callback, void* argument, char** message)
    int sqlite3_step(sqlite3_stmt* statement)
    int sqlite3_reset(sqlite3_stmt* statement)
    int sqlite3_finalize(sqlite3_stmt* statement)
    int sqlite3_clear_bindings(sqlite3_stmt* statement)

    int sqlite3_bind_parameter_count(sqlite3_stmt* statement)

    sqlite3_backup* sqlite3_backup_init(sqlite3* target, const char* target_name,
                                        sqlite3* source, const char* source_name)
    int sqlite3_backup_step(sqlite3_backup* backup, int pages)
    int sqlite3_backup_remaining(sqlite3_backup* backup)
    int sqlite3_backup_pagecount(sqlite3_backup* backup)
    int sqlite3_backup_finish(sqlite3_backup* backup)
