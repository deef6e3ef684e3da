# Declarations of text.h; text.c says what they compute.
from libc.stdint cimport uint8_t, uint32_t

cdef extern from "text.h" nogil:
    enum:
        SHP_TEXT_VERSION

    ctypedef enum shp_text_status:
        SHP_TEXT_OK
        SHP_TEXT_FULL
        SHP_TEXT_NO_MEMORY

    ctypedef struct shp_terms:
        uint8_t* bytes    # terms, UTF-8, one after the other; freed by shp_terms_free
        size_t* ends      # term i is bytes[ends[i - 1]:ends[i]]
        size_t n          # terms

    void shp_text_initialise() noexcept
    void shp_terms_begin(shp_terms* terms, size_t limit, int distinct, int all_words) noexcept
    void shp_terms_free(shp_terms* terms) noexcept
    shp_text_status shp_terms_read(shp_terms* terms, const uint8_t* text, size_t n) noexcept
    size_t shp_text_stem(char* word, size_t n) noexcept
    const char* shp_text_stop_word(size_t i) noexcept
    const char* shp_text_form(size_t i, const char** base) noexcept
    size_t shp_term_encode(uint8_t* out, const uint8_t* term, size_t n) noexcept
    size_t shp_terms_scoped(const shp_terms* terms, const char* prefix, uint8_t* out) noexcept
