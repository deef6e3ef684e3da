# Declarations of hot.h; hot_index.c and hot_search.c say what they do.
from libc.stdint cimport int64_t, uint8_t

from rescore cimport shp_rescore_query

cdef extern from "hot.h" nogil:
    ctypedef enum shp_hot_status:
        SHP_HOT_OK
        SHP_HOT_STALE
        SHP_HOT_LONG
        SHP_HOT_BUSY
        SHP_HOT_NO_MEMORY
        SHP_HOT_FULL
        SHP_HOT_BAD_ROW
        SHP_HOT_DAMAGED

    ctypedef struct shp_hot:
        pass

    ctypedef struct shp_hot_row:
        int64_t sequence, timestamp, doc_len
        int64_t thread, label, asks
        const uint8_t* texts[2]    # borrowed, as n_bytes
        size_t n_bytes[2]

    ctypedef struct shp_hot_word:
        const uint8_t* bytes       # borrowed; UTF-8
        size_t n_bytes

    ctypedef struct shp_hot_query:
        int64_t version, k, most_postings
        double k1, b, min_relevance
        shp_rescore_query rescore  # without labels

    ctypedef struct shp_hot_hit:
        int64_t sequence
        double bm25, score, relevance

    ctypedef struct shp_hot_found:
        const shp_hot_hit* hits
        int64_t n

    ctypedef struct shp_hot_counts:
        int64_t version            # -1: stale
        int64_t n_memories, total_length, last_sequence
        int64_t n_terms, n_postings
        int64_t n_bytes, n_free_bytes

    shp_hot* shp_hot_new() noexcept     # NULL when memory is out; freed by shp_hot_free
    void shp_hot_free(shp_hot* index) noexcept
    shp_hot_status shp_hot_add(shp_hot* index, const shp_hot_row* rows, size_t n_rows, bint waits) noexcept
    shp_hot_status shp_hot_remove(shp_hot* index, const int64_t* sequences, size_t n) noexcept
    shp_hot_status shp_hot_replace(shp_hot* index, const shp_hot_row* row) noexcept
    shp_hot_status shp_hot_publish(shp_hot* index, int64_t version, int64_t n_memories,
                                   int64_t total_length, bint waits) noexcept
    void shp_hot_fetch(const shp_hot* index) noexcept
    shp_hot_status shp_hot_find(shp_hot* index, shp_hot_query* query, const shp_hot_word* words, int n_words,
                                shp_hot_found* found) noexcept
    void shp_hot_found_free(shp_hot_found* found) noexcept
    shp_hot_status shp_hot_count(shp_hot* index, shp_hot_counts* out) noexcept
    int64_t shp_hot_sequences(shp_hot* index, int64_t* out, int64_t room) noexcept
    shp_hot_status shp_hot_save(shp_hot* index, uint8_t** out, size_t* n_bytes) noexcept     # *out is the caller's: free()
    shp_hot_status shp_hot_load(const uint8_t* bytes, size_t n_bytes, shp_hot** out) noexcept
