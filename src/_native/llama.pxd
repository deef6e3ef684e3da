# llama.h of llama-cpp-python 0.3.36: the functions the loop calls, as pointer types. Their addresses come from
# the library that llama_cpp has loaded, so there is no header to find and never a second llama.cpp.
# None of them raises or takes the GIL.
from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

cdef extern from "<stdbool.h>" nogil:
    # C's own bool: a byte whose upper neighbours in a register mean nothing.
    ctypedef bint c_bool "bool"

ctypedef unsigned char bint_byte   # a bool inside a struct

cdef struct llama_batch:            # passed by value; compared with ctypes' view in bind()
    int32_t n_tokens
    int32_t *token                  # n_tokens ids
    float *embd                     # NULL: we feed ids
    int32_t *pos                    # n_tokens positions
    int32_t *n_seq_id               # n_tokens times 1
    int32_t **seq_id                # n_tokens pointers to a sequence id
    int8_t *logits                  # n_tokens flags: compute logits here

cdef struct llama_token_data:       # compared in bind(), as the next
    int32_t id
    float logit                     # minus infinity: refused
    float p

cdef struct llama_token_data_array:
    llama_token_data *data          # samplers sort, cut, and may replace it
    size_t size
    int64_t selected                # index in data, -1 while nothing is
    bint_byte sorted

# 0 done; 1 no room; 2 aborted; -1 bad batch; below -1 failed. After 2 and below -1 part of it may be in the cache.
ctypedef int32_t (*llama_decode_fn)(void *ctx, llama_batch batch) noexcept nogil
ctypedef void (*llama_synchronize_fn)(void *ctx) noexcept nogil
ctypedef float *(*llama_get_logits_ith_fn)(void *ctx, int32_t i) noexcept nogil          # NULL: no logits there
ctypedef void (*llama_set_abort_callback_fn)(void *ctx, c_bool (*callback)(void *) noexcept nogil, void *data) noexcept nogil

ctypedef void (*llama_memory_clear_fn)(void *memory, c_bool data) noexcept nogil
ctypedef c_bool (*llama_memory_seq_rm_fn)(void *memory, int32_t seq, int32_t p0, int32_t p1) noexcept nogil
ctypedef int32_t (*llama_memory_seq_pos_fn)(void *memory, int32_t seq) noexcept nogil      # -1: nothing there

ctypedef int32_t (*llama_sampler_sample_fn)(void *sampler, void *ctx, int32_t i) noexcept nogil
ctypedef void (*llama_sampler_accept_fn)(void *sampler, int32_t token) noexcept nogil
ctypedef void (*llama_sampler_apply_fn)(void *sampler, llama_token_data_array *candidates) noexcept nogil
ctypedef void (*llama_sampler_fn)(void *sampler) noexcept nogil                           # reset

ctypedef c_bool (*llama_vocab_is_eog_fn)(const void *vocab, int32_t token) noexcept nogil
ctypedef int32_t (*llama_vocab_n_tokens_fn)(const void *vocab) noexcept nogil
ctypedef int (*llama_vocab_get_attr_fn)(const void *vocab, int32_t token) noexcept nogil
ctypedef const char *(*llama_vocab_get_text_fn)(const void *vocab, int32_t token) noexcept nogil
# Negative: the bytes needed.
ctypedef int32_t (*llama_token_to_piece_fn)(const void *vocab, int32_t token, char *out, int32_t capacity,
                                            int32_t lstrip, c_bool special) noexcept nogil

ctypedef void (*llama_log_set_fn)(void (*callback)(int, const char *, void *) noexcept nogil, void *data) noexcept nogil
