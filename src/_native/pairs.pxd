# Declarations of pairs.h.
from libc.stdint cimport uint8_t, uint16_t, uint32_t

cdef extern from "pairs.h" nogil:
    enum: SHP_PAIRS_BYTES, SHP_PAIRS_TERMS
    ctypedef struct shp_pairs:
        uint8_t[32] bits
    ctypedef struct shp_pairs_reader:
        uint32_t last
        int n
    void shp_pairs_add(shp_pairs* pairs, uint16_t pair) noexcept
    int shp_pairs_count(const shp_pairs* pairs, const uint16_t* wanted, int n) noexcept
    bint shp_pairs_next(shp_pairs_reader* reader, const uint8_t* term, size_t n, uint16_t* out) noexcept
