# Part of store.pyx: opening a database file, and copying one that is in use.

cdef bytes _path_bytes(object path):
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("the path of a database cannot have a NUL character")
    return encoded


cdef sqlite3* _open(str path, int flags, int busy_timeout_ms) except NULL:
    cdef bytes encoded = _path_bytes(path)
    cdef const char* name = encoded
    cdef sqlite3* db = NULL
    cdef int code
    with nogil:
        code = sqlite3_open_v2(name, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL)
    if code != SQLITE_OK:
        error = _error(db, code, False)
        sqlite3_close_v2(db)
        raise error
    sqlite3_busy_timeout(db, busy_timeout_ms)
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_FKEY, <int>1, <int*>NULL)
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, <int>0, <int*>NULL)
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, <int>1, <int*>NULL)
    return db


cdef int _copy_pages(sqlite3* source, str path, int pages_per_step, object progress) except -1:
    cdef sqlite3* target = _open(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, 5000)
    cdef sqlite3_backup* backup = NULL
    cdef int code
    try:
        backup = sqlite3_backup_init(target, b"main", source, b"main")
        if backup == NULL:
            raise _error(target, sqlite3_errcode(target), False)
        while True:
            with nogil:
                code = sqlite3_backup_step(backup, pages_per_step)
            if code != SQLITE_OK and code != SQLITE_DONE:
                raise _error(NULL, code, False)
            if progress is not None:
                progress(sqlite3_backup_remaining(backup), sqlite3_backup_pagecount(backup))
            if code == SQLITE_DONE:
                return 0
    finally:
        with nogil:
            sqlite3_backup_finish(backup)
            sqlite3_close_v2(target)
