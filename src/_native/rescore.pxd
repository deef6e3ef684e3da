# Declarations of rescore.h, for the extensions that link rescore.c.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t

from pairs cimport shp_pairs_reader

cdef extern from "rescore.h" nogil:
    enum: SHP_TALKS
    const int SHP_TALK_PEOPLE, SHP_TALK_ASSISTANT
    const int SHP_ASSISTANT_QUESTION, SHP_ASSISTANT_ANSWER, SHP_INSTRUCTS, SHP_PREFERS
    const int SHP_RESCORE_CANDIDATES, SHP_RESCORE_REQUEST_CANDIDATES
    const int SHP_RESCORE_REACH, SHP_RESCORE_MAX_LABELS, SHP_RESCORE_MAX_PERIODS

    ctypedef struct shp_rescore_memory:
        int64_t sequence, timestamp   # seconds
        double bm25, whole
        int32_t thread, label         # keys, 0 for none
        uint8_t asks                  # SHP_ASKS_..., SHP_ASSISTANT_..., SHP_INSTRUCTS, SHP_PREFERS
        uint8_t length                # shp_length_class
        uint8_t pairs
        uint8_t is_candidate

    ctypedef struct shp_rescore_weights:
        double[3] answer              # by how the memory before ends
        double next, second, session, asking, label, period
        double instruction, preference, length, pair

    ctypedef struct shp_rescore_query:
        double now, recency_floor     # seconds; 0 to 1
        shp_rescore_weights[SHP_TALKS] weights
        int n_labels
        int32_t[64] labels
        int n_pairs
        uint16_t[64] pairs
        int n_periods
        int64_t[16][2] periods        # first second, the one after the last

    ctypedef struct shp_rescore_hit:
        int64_t sequence
        double bm25, whole, evidence, score

    ctypedef struct shp_rescore_buffers:
        shp_rescore_hit* hits         # owned
        int64_t n_hits

    int64_t shp_length_of(uint8_t asks, int64_t n_question, int64_t n_answer) noexcept
    shp_rescore_weights shp_rescore_default_weights(int talk) noexcept
    uint8_t shp_length_class(int64_t doc_len) noexcept
    void shp_rescore_read_word(shp_rescore_query* query, shp_pairs_reader* reader, const uint8_t* word,
                               size_t n) noexcept
    bint shp_rescore_counts_pairs(const shp_rescore_query* query) noexcept
    int shp_rescore(shp_rescore_buffers* buffers, const shp_rescore_query* query, int64_t mean_len,
                    const shp_rescore_memory* memories, int64_t n) noexcept   # 0 when memory is out
    int shp_rescore_pop(shp_rescore_buffers* buffers, shp_rescore_hit* out) noexcept
    double shp_rescore_mean(const shp_rescore_hit* hit) noexcept
    void shp_rescore_free(shp_rescore_buffers* buffers) noexcept
    int32_t shp_rescore_key(const uint8_t* bytes, size_t n) noexcept
