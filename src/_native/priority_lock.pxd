# Declarations of priority_lock.h for engine.pyx. No call takes the GIL.
cdef extern from "priority_lock.h" nogil:
    ctypedef struct shp_priority_lock:
        pass

    shp_priority_lock *shp_priority_lock_new() noexcept                             # NULL: no memory
    void shp_priority_lock_free(shp_priority_lock *) noexcept
