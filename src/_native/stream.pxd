# Declarations of stream.h and log.h for engine.pyx. No call takes the GIL.
from libc.stdint cimport int32_t, int64_t

cdef extern from "stream.h" nogil:
    ctypedef enum shp_status:
        SHP_OK
        SHP_STOPPED
        SHP_CANCELLED
        SHP_NO_MEMORY
    ctypedef enum shp_ending:
        SHP_RUNNING
        SHP_END_STOP
        SHP_END_LENGTH
        SHP_END_CANCELLED
        SHP_END_FAILED
    ctypedef struct shp_counters:
        int64_t prompt_tokens
        int64_t reused_tokens
        int64_t decoded_tokens
        int64_t sampled_tokens
        int64_t drafted_tokens
        int64_t accepted_tokens
        int64_t model_drafted_tokens
        int64_t model_accepted_tokens
        int64_t prefill_ns
        int64_t first_token_ns
        int64_t decode_ns
        int64_t total_ns
        int64_t model_ns
        int32_t code
    enum: SHP_MOST_LIKELY
    ctypedef struct shp_likely:
        float logprob
        int32_t n_top
        int32_t *top_ids                    # SHP_MOST_LIKELY of them, as the next
        float *top_logprobs
    ctypedef struct shp_stream:
        pass

    shp_stream *shp_stream_new() noexcept                                          # NULL: no memory
    void shp_stream_free(shp_stream *) noexcept
    shp_status shp_stream_add_stop(shp_stream *, const char *, size_t) noexcept
    shp_status shp_stream_write(shp_stream *, int32_t, const char *, size_t, const shp_likely *) noexcept
    void shp_stream_report(shp_stream *, int32_t, int32_t) noexcept
    void shp_stream_end(shp_stream *, shp_ending, const shp_counters *) noexcept
    int shp_stream_is_cancelled(const shp_stream *) noexcept
    int shp_stream_fits(const shp_stream *, const char *, size_t) noexcept
    void shp_stream_cancel(shp_stream *) noexcept
    int shp_stream_notify(shp_stream *, int) noexcept                              # 0: not on this system
    size_t shp_stream_wait(shp_stream *, int) noexcept
    void shp_stream_progress(shp_stream *, int32_t *, int32_t *) noexcept
    size_t shp_stream_take(shp_stream *, char *, size_t) noexcept
    shp_ending shp_stream_ending(shp_stream *, shp_counters *) noexcept
    size_t shp_stream_tokens(shp_stream *, const int32_t **, const int64_t **) noexcept
    int64_t shp_stream_text_length(shp_stream *) noexcept
    int shp_stream_likely(shp_stream *, size_t, int32_t *, shp_likely *) noexcept  # 0: not there
    int shp_stream_token(shp_stream *, size_t, int32_t *, int64_t *) noexcept       # 0: not there
    int32_t shp_stream_stopped_by(shp_stream *) noexcept    # -1: none

    int64_t shp_now_ns() noexcept

cdef extern from "log.h" nogil:
    enum: SHP_LOG_CAPACITY
    int shp_log_init() noexcept
    void shp_log_set_level(int) noexcept
    void shp_log_write(int, const char *, void *) noexcept
    size_t shp_log_take(char *, size_t) noexcept
