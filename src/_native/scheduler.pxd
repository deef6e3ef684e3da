# Declarations of scheduler.h and of the headers that it includes, for engine.pyx. No call takes the GIL.
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from priority_lock cimport shp_priority_lock
from stream cimport shp_counters, shp_stream

cdef extern from "<stdbool.h>" nogil:
    # C's own bool: a byte whose upper neighbours in a register mean nothing.
    ctypedef bint c_bool "bool"

cdef extern from "llama_api.h" nogil:
    ctypedef struct shp_llama_batch:
        int32_t n_tokens
        int32_t *token
        float *embd
        int32_t *pos
        int32_t *n_seq_id
        int32_t **seq_id
        int8_t *logits
    ctypedef struct shp_llama_token_data:
        int32_t id
        float logit
        float p
    ctypedef struct shp_llama_token_data_array:
        shp_llama_token_data *data
        size_t size
        int64_t selected
        unsigned char sorted
    ctypedef struct shp_llama:
        float *(*get_logits_ith)(void *, int32_t) noexcept nogil
        int32_t (*seq_pos_max)(void *, int32_t) noexcept nogil
        int32_t (*vocab_n_tokens)(const void *) noexcept nogil
        int (*vocab_get_attr)(const void *, int32_t) noexcept nogil
        const char *(*vocab_get_text)(const void *, int32_t) noexcept nogil
        int32_t (*token_to_piece)(const void *, int32_t, char *, int32_t, int32_t, bint) noexcept nogil
        void (*log_set)(void (*callback)(int, const char *, void *) noexcept nogil, void *) noexcept nogil
    shp_llama shp_api                       # filled by bind()
    enum: SHP_PLAIN
    enum: SHP_SLIDING
    enum: SHP_RECURRENT
    enum: SHP_HYBRID
    enum: SHP_STATE_WHOLE
    enum: SHP_STATE_PARTIAL

cdef extern from "pictures.h" nogil:
    enum: SHP_PICTURE_BITS
    int shp_begins_picture(int32_t) noexcept
    ctypedef struct shp_picture:
        int32_t n
        int32_t n_positions
        int is_whole
        float *embeddings
        int32_t *places                     # NULL, or 4 * n
    ctypedef struct shp_placed_picture:
        shp_picture *picture
        int32_t at
    shp_picture *shp_picture_new(int32_t, int32_t, int) noexcept                    # NULL: no memory
    void shp_picture_hold(shp_picture *) noexcept
    void shp_picture_free(shp_picture *) noexcept

cdef extern from "sequence.h" nogil:
    ctypedef struct shp_context:
        void *ctx                           # borrowed, as the next two
        void *memory
        void *vocab
        int kind
        int32_t n_window                    # tokens
        int32_t n_swa                       # tokens, or 0
        int32_t n_vocab
        int32_t n_embd
    ctypedef struct shp_sequence:
        int32_t *ids
        int32_t *positions
        int32_t n
    ctypedef struct shp_belonging:
        int64_t owner                       # 0: none
        int64_t asked_ms
        int32_t n_head
    ctypedef enum shp_edit:
        SHP_EDIT_EXACT
        SHP_EDIT_SHIFT
        SHP_EDIT_HOLE

cdef extern from "snapshots.h" nogil:
    ctypedef struct shp_snapshot:
        int32_t *ids                        # n of them
        int32_t n
        uint8_t *data                       # size bytes
        size_t size
        uint32_t flags
        shp_belonging belonging
    ctypedef struct shp_snapshots:
        size_t bytes
        size_t budget
    enum: SHP_MOST_WRITTEN
    uint8_t *shp_snapshots_new_data(size_t) noexcept                                # NULL: no memory
    void shp_snapshots_free_data(uint8_t *, size_t) noexcept
    int shp_snapshots_add_read(shp_snapshots *, const int32_t *, int32_t, uint8_t *, size_t, uint32_t,
                               shp_belonging) noexcept
    void shp_snapshots_want_none(shp_snapshots *) noexcept

cdef extern from "sampling.h" nogil:
    ctypedef struct shp_sampling:
        void *sampler                       # borrowed, as the next
        void *grammar
        int32_t *shown                      # SHP_MOST_SHOWN ids
        int32_t n_shown
        int asks_likely
        int32_t n_likely
        int is_after
    enum: SHP_MOST_SHOWN

cdef extern from "ngrams.h" nogil:
    ctypedef struct shp_ngrams:
        pass
    void shp_ngrams_free(shp_ngrams *) noexcept
    int shp_ngrams_assign(shp_ngrams *, const int32_t *, int32_t) noexcept         # 0: no memory

cdef extern from "forced.h" nogil:
    ctypedef struct shp_letters:
        pass

cdef extern from "draft.h" nogil:
    ctypedef enum shp_draft_mode:
        SHP_DRAFT_OFF
        SHP_DRAFT_AUTO
        SHP_DRAFT_ALWAYS
    enum: SHP_MOST_DRAFTED
    enum: SHP_MOST_DRAFTS
    ctypedef struct shp_draft_place:
        int32_t n_matched
    ctypedef struct shp_draft:
        shp_draft_place place
        int is_on
        int32_t *tokens                     # SHP_MOST_DRAFTED of them
        int32_t n_candidates
        int32_t n
    ctypedef struct shp_batch_costs:
        pass
    void shp_draft_free(shp_draft *) noexcept
    void shp_draft_begin(shp_draft *, const shp_context *, const int32_t *, int32_t, const shp_ngrams *) noexcept
    void shp_draft_take(shp_draft *, int32_t) noexcept
    int32_t shp_draft_collect(shp_draft *, int32_t) noexcept
    int32_t shp_draft_collect_allowed(shp_draft *, void *, shp_letters *, int32_t) noexcept
    void shp_draft_choose(shp_draft **, int32_t, int32_t, int32_t, shp_batch_costs *) noexcept
    void shp_batch_costs_add(shp_batch_costs *, int32_t, int64_t) noexcept

cdef extern from "draft_model.h" nogil:
    ctypedef struct shp_draft_model:
        pass
    void shp_draft_model_counts(const shp_draft_model *, int64_t *, int64_t *) noexcept
    int32_t shp_draft_model_ids(const shp_draft_model *, int32_t, const int32_t **, int32_t *) noexcept

cdef extern from "scheduler.h" nogil:
    enum: SHP_CODE_NO_MEMORY
    enum: SHP_CODE_NO_LOGITS
    enum: SHP_CODE_NO_TOKEN
    enum: SHP_CODE_AMBIGUOUS
    enum: SHP_CODE_NO_NUMBERS
    enum: SHP_MOST_BOUNDARIES
    enum: SHP_MOST_SLOTS
    ctypedef struct shp_job:
        int32_t boundaries[8]
        int32_t n_boundaries
        int32_t n_shared_head
        int32_t max_tokens
        int32_t n_penalty
        shp_ngrams earlier
        shp_sampling sampling
        shp_placed_picture *pictures
        int32_t n_pictures
        int is_background
        shp_belonging belonging
        int64_t file
        int32_t n_in_file
    ctypedef struct shp_slot:
        shp_sequence sequence
        shp_job *job
    ctypedef struct shp_scheduler:
        pass
    ctypedef struct shp_schedule:
        int32_t n_slots
        int32_t n_chunk
        int32_t n_cells
        size_t snapshot_bytes
        int writes
        shp_edit edit
        shp_draft_mode draft
        const shp_context *draft_context    # of a model that drafts; copied; NULL: none
        int32_t n_draft_chunk
        int is_on_cpu
        shp_priority_lock *priority_lock    # borrowed, as the next; either may be NULL
        shp_priority_lock *yields_to
    shp_scheduler *shp_scheduler_new(const shp_context *, const shp_schedule *) noexcept    # NULL: no memory
    void shp_scheduler_free(shp_scheduler *) noexcept
    shp_job *shp_job_new(shp_stream *, const int32_t *, int32_t) noexcept                   # NULL: no memory
    void shp_job_free(shp_job *) noexcept
    int shp_scheduler_submit(shp_scheduler *, shp_job *, int) noexcept                      # 1, 0: full, -1: closed
    void shp_scheduler_serve(shp_scheduler *) noexcept
    void shp_scheduler_close(shp_scheduler *) noexcept
    int shp_scheduler_wait_idle(shp_scheduler *, int) noexcept
    void shp_scheduler_forget(shp_scheduler *) noexcept
    int shp_scheduler_park(shp_scheduler *) noexcept
    shp_slot *shp_scheduler_slot(shp_scheduler *, int32_t) noexcept
    int32_t shp_scheduler_last_slot(const shp_scheduler *) noexcept
    shp_snapshots *shp_scheduler_snapshots(shp_scheduler *) noexcept
    shp_draft_model *shp_scheduler_draft_model(shp_scheduler *) noexcept                    # NULL: none

cdef extern from "keeping.h" nogil:
    int shp_keeping_wait(shp_scheduler *, int, int) noexcept
    void shp_keeping_wake(shp_scheduler *) noexcept
    shp_job *shp_keeping_next_read(shp_scheduler *) noexcept                                # NULL: none
    void shp_keeping_was_read(shp_scheduler *, shp_job *, const shp_snapshot *, int32_t) noexcept
    int32_t shp_keeping_take(shp_scheduler *, shp_snapshot *) noexcept
    void shp_keeping_give_back(shp_scheduler *, const shp_snapshot *, int32_t) noexcept
    int64_t shp_keeping_n_lost(const shp_scheduler *) noexcept
    int shp_keeping_stage_one(shp_scheduler *) noexcept
