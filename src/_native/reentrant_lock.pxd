# A lock that its owner can acquire again. Waiting for it releases the GIL, which its owner may need to finish.
from cpython.pythread cimport (
    NOWAIT_LOCK,
    WAIT_LOCK,
    PyThread_acquire_lock,
    PyThread_allocate_lock,
    PyThread_free_lock,
    PyThread_get_thread_ident,
    PyThread_release_lock,
    PyThread_type_lock,
)


cdef struct reentrant_lock:
    PyThread_type_lock handle     # owned; NULL before reentrant_lock_init
    unsigned long owner           # the thread that holds it, while depth > 0
    int depth                     # nested acquisitions of the owner


cdef inline int reentrant_lock_init(reentrant_lock* lock) except -1:
    lock.depth = 0
    lock.handle = PyThread_allocate_lock()
    if lock.handle == NULL:
        raise MemoryError
    return 0


cdef inline void reentrant_lock_free(reentrant_lock* lock) noexcept:
    if lock.handle != NULL:
        PyThread_free_lock(lock.handle)


cdef inline void reentrant_lock_acquire(reentrant_lock* lock) noexcept:
    cdef unsigned long me = PyThread_get_thread_ident()
    if lock.depth and lock.owner == me:
        lock.depth += 1
        return
    if not PyThread_acquire_lock(lock.handle, NOWAIT_LOCK):
        with nogil:
            PyThread_acquire_lock(lock.handle, WAIT_LOCK)
    lock.owner = me
    lock.depth = 1


cdef inline void reentrant_lock_release(reentrant_lock* lock) noexcept:
    lock.depth -= 1
    if lock.depth == 0:
        PyThread_release_lock(lock.handle)
