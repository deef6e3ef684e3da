# gate.h: who decodes first. Nothing here takes the GIL.
cdef extern from "gate.h" nogil:
    ctypedef struct shp_gate:
        pass

    shp_gate *shp_gate_new() noexcept                                              # NULL: no memory
    void shp_gate_free(shp_gate *) noexcept
    void shp_gate_enter(shp_gate *) noexcept
    void shp_gate_leave(shp_gate *) noexcept
    int shp_gate_is_taken(const shp_gate *) noexcept
    int shp_gate_wait(shp_gate *, int timeout_ms) noexcept
