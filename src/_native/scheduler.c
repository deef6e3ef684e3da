/* The scheduler: one thread, one context, continuous batching.

   One step:
   1. waiting jobs are admitted to slots, and cancelled jobs end;
   2. one batch is built: a token for each decoding slot, then prefill tokens, round robin over the slots in prefill, up
      to n_chunk tokens in all;
   3. the batch is decoded, and each slot that has logits samples.
   So a long prompt delays the other jobs by no more than one micro-batch, and beside the model's own work a token costs
   O(1).

   Foreground jobs have priority: while one of them waits or runs, background jobs pause, and are preempted if there is
   no other slot. A scheduler that yields to another one (yields_to) waits while that one has foreground jobs, but does
   not starve: it gets one part in SLICE_SHARE of the time, as small batches between two steps of the other. Foreground
   answers take that much longer, and background work makes progress.

   A preempted job goes back to the front of the queue. Its prompt then includes what it has generated so far, and is
   prefilled again where its cells were removed.

   The queue is in jobs.c, the batch in batch.c, the choice of a slot in slots.c. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include <stdlib.h>

#include "scheduler_parts.h"

enum {
    POLL_MS = 20,     /* while it yields, the thread checks its jobs' cancel flags this often */
    NEAR_TOKENS = 16, /* a boundary this close gets its checkpoint now */
    SLICE_SHARE = 20, /* while it yields, it gets one part in so many of the time */
    LONGEST_SLICE_NS = 5000000, /* unless a single batch takes longer; foreground answers wait for it */
};

static int make_batch(shp_scheduler *s) {
    size_t n = (size_t)s->n_batch;
    s->batch.token = malloc(n * sizeof *s->batch.token);
    s->batch.pos = malloc(n * sizeof *s->batch.pos);
    s->batch.n_seq_id = malloc(n * sizeof *s->batch.n_seq_id);
    s->batch.seq_id = malloc(n * sizeof *s->batch.seq_id);
    s->batch.logits = malloc(n);
    s->places = malloc(4 * n * sizeof *s->places);
    if (!s->places || !s->batch.token || !s->batch.pos || !s->batch.n_seq_id || !s->batch.seq_id || !s->batch.logits)
        return 0;
    for (size_t i = 0; i < n; i++)
        s->batch.n_seq_id[i] = 1;
    return 1;
}

static int make_slots(shp_scheduler *s, const shp_schedule *schedule) {
    s->slots.items = calloc((size_t)schedule->n_slots, sizeof *s->slots.items);
    if (!s->slots.items)
        return 0;
    s->slots.n = schedule->n_slots;
    s->slots.n_cells = schedule->n_cells;
    s->slots.snapshots = &s->snapshots;
    s->slots.edit = schedule->edit;
    for (int32_t i = 0; i < schedule->n_slots; i++)
        if (!shp_sequence_init(&s->slots.items[i].sequence, &s->context, i))
            return 0;
    return 1;
}

static int make_draft_model(shp_scheduler *s, const shp_schedule *schedule) {
    if (!schedule->draft_context || s->draft == SHP_DRAFT_OFF)
        return 1;
    s->draft_model = shp_draft_model_new(schedule->draft_context, schedule->n_slots, schedule->n_draft_chunk,
                                         schedule->is_on_cpu);
    return s->draft_model != NULL;
}

shp_scheduler *shp_scheduler_new(const shp_context *context, const shp_schedule *schedule) {
    shp_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context = *context;
    s->n_chunk = s->prefill_limit = schedule->n_chunk;
    s->n_batch = schedule->n_chunk > schedule->n_slots ? schedule->n_chunk : schedule->n_slots;
    s->priority_lock = schedule->priority_lock;
    s->yields_to = schedule->yields_to;
    s->is_on_cpu = schedule->is_on_cpu;
    /* A state cannot be rewound to the last right token of a draft. */
    if (context->kind == SHP_PLAIN || context->kind == SHP_SLIDING)
        s->draft = schedule->draft;
    if (shp_snapshots_init(&s->snapshots, schedule->snapshot_bytes) != 0) {
        free(s);
        return NULL;
    }
    s->snapshots.writes = schedule->writes;
    if (shp_mutex_init(&s->mutex) != 0) {
        shp_snapshots_free(&s->snapshots);
        free(s);
        return NULL;
    }
    if (shp_condition_init(&s->changed) != 0) {
        shp_mutex_destroy(&s->mutex);
        shp_snapshots_free(&s->snapshots);
        free(s);
        return NULL;
    }
    if (!shp_candidates_init(&s->candidates, context->n_vocab) || !make_batch(s) || !make_slots(s, schedule)
        || !make_draft_model(s, schedule)) {
        shp_scheduler_free(s);
        return NULL;
    }
    return s;
}

void shp_scheduler_free(shp_scheduler *s) {
    if (!s)
        return;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_sequence_free(&s->slots.items[i].sequence);
        shp_draft_free(&s->slots.items[i].draft);
    }
    free(s->slots.items);
    shp_draft_model_free(s->draft_model);
    shp_snapshots_free(&s->snapshots);
    free(s->batch.token);
    free(s->batch.pos);
    free(s->batch.n_seq_id);
    free(s->batch.seq_id);
    free(s->batch.logits);
    free(s->places);
    shp_candidates_free(&s->candidates);
    shp_condition_destroy(&s->changed);
    shp_mutex_destroy(&s->mutex);
    free(s);
}

void shp_scheduler_forget(shp_scheduler *s) {
    for (int32_t i = 0; i < s->slots.n; i++)
        s->slots.items[i].sequence.n = 0;
    shp_snapshots_clear(&s->snapshots);
    if (s->draft_model)
        shp_draft_model_forget(s->draft_model);
    shp_api.memory_clear(s->context.memory, true);
}

int shp_scheduler_park(shp_scheduler *s) {
    int n = 0;
    for (int32_t i = 0; i < s->slots.n; i++)
        n += shp_snapshots_save(&s->snapshots, &s->slots.items[i].sequence, SHP_STATE_WHOLE);
    return n;
}

shp_slot *shp_scheduler_slot(shp_scheduler *s, int32_t i) { return &s->slots.items[i]; }

int32_t shp_scheduler_last_slot(const shp_scheduler *s) { return s->last_slot; }

shp_draft_model *shp_scheduler_draft_model(shp_scheduler *s) { return s->draft_model; }

shp_snapshots *shp_scheduler_snapshots(shp_scheduler *s) { return &s->snapshots; }

/* ---- the engine thread ---- */

/* Save the checkpoint of a boundary that is only a few tokens away now. Stopping at the boundary would cost a batch,
   which on a large model takes as long as a token; after a restore these few are prefilled again with what is new. */
static void checkpoint_near_boundary(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t n = slot->sequence.n, kept = 0, is_near = 0;
    if (n == 0 || s->context.kind == SHP_PLAIN)
        return;
    for (int32_t i = 0; i < job->n_boundaries; i++) {
        int32_t gap = job->boundaries[i] - n;
        if (gap > 0 && gap <= NEAR_TOKENS)
            is_near = 1;
        else
            job->boundaries[kept++] = job->boundaries[i];
    }
    job->n_boundaries = kept;
    if (is_near)
        shp_snapshots_save(&s->snapshots, &slot->sequence, SHP_STATE_PARTIAL);
}

/* A job between the queue and a slot is in neither, so shp_scheduler_close cannot have cancelled it. */
static void cancel_if_closed(shp_scheduler *s, shp_job *job) {
    if (shp_flag_get(&s->is_closed))
        shp_stream_cancel(job->out);
}

static void start_job(shp_scheduler *s, shp_slot *slot, shp_job *job) {
    shp_mutex_lock(&s->mutex);
    slot->job = job;
    cancel_if_closed(s, job);
    shp_mutex_unlock(&s->mutex);
    slot->sequence.belonging = job->belonging;
    /* What is read ahead is written with the answer that follows: a file may have hundreds of megabytes. */
    if (job->max_tokens > 0 || !job->is_background)
        slot->sequence.staged_at = 0;
    slot->is_decoding = 0;
    slot->prefix_source = -1;
    if (job->is_resumed)
        return;
    job->model_before_ns = s->model_ns;
    job->counts.prompt_tokens = job->n_prompt;
    job->counts.reused_tokens = slot->sequence.n;
    for (int32_t i = 0; i < job->n_boundaries && job->boundaries[i] <= slot->sequence.n; i++)
        shp_snapshots_touch(&s->snapshots, job->prompt, job->boundaries[i]);
    shp_slots_find_prefix_source(&s->slots, slot);
    checkpoint_near_boundary(s, slot);
}

shp_slot *shp_scheduler_background_slot(shp_scheduler *s) {
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job && s->slots.items[i].job->is_background)
            return &s->slots.items[i];
    return NULL;
}

static int has_idle_slot(const shp_scheduler *s) {
    for (int32_t i = 0; i < s->slots.n; i++)
        if (!s->slots.items[i].job)
            return 1;
    return 0;
}

/* Move waiting jobs into slots until the queue is empty or no slot or room is left. */
static void admit(shp_scheduler *s) {
    shp_job *job;
    while ((job = shp_job_dequeue(s, 1)))
        shp_job_finish(s, job, NULL, SHP_END_CANCELLED, 0);
    while (shp_flag_get(&s->has_waiting) && !s->is_admission_paused) {
        shp_slot *background = shp_scheduler_background_slot(s);
        job = shp_job_dequeue(s, 0);
        if (shp_keeping_read_first(s, job))
            continue;
        if (!has_idle_slot(s) && background && !job->is_background)
            shp_job_preempt(s, background);
        shp_slot *slot = NULL;
        if (has_idle_slot(s))
            slot = shp_slots_place(&s->slots, job->prompt, job->n_prompt, job->n_shared_head);
        shp_snapshots_want_none(&s->snapshots);
        if (!slot) {
            s->is_admission_paused = has_idle_slot(s);
            shp_mutex_lock(&s->mutex);
            shp_job_enqueue(s, job, 1);
            cancel_if_closed(s, job);
            shp_mutex_unlock(&s->mutex);
            return;
        }
        start_job(s, slot, job);
    }
}

/* Whether a batch may run now: yields_to is free, or it granted us a slice. 0 after a short wait, to check the
   jobs again. */
static int may_run(shp_scheduler *s) {
    if (!s->yields_to || !shp_priority_lock_is_held(s->yields_to))
        return 1;
    int64_t now = shp_now_ns(), left_ms = (s->next_slice_ns - now + 999999) / 1000000;
    if (s->waiting_since_ns == 0)
        s->waiting_since_ns = now;
    if (left_ms > 0)
        return shp_priority_lock_wait(s->yields_to, left_ms < POLL_MS ? (int)left_ms : POLL_MS);
    s->has_slice = shp_priority_lock_request_slice(s->yields_to, POLL_MS);
    return s->has_slice || !shp_priority_lock_is_held(s->yields_to);
}

/* Build and decode one batch; in a time slice, as many as fit into our share of the time waited, but at least one. */
static void run_batches(shp_scheduler *s) {
    int64_t started = shp_now_ns(), now = started, before;
    int64_t share = (started - s->waiting_since_ns) / (SLICE_SHARE - 1);
    if (share > LONGEST_SLICE_NS)
        share = LONGEST_SLICE_NS;
    do {
        before = now;
        shp_batch_build(s);
        if (s->batch.n_tokens > 0)
            shp_batch_decode(s);
        now = shp_now_ns();
    } while (s->has_slice && s->batch.n_tokens > 0 && (now - started) + (now - before) <= share);
    /* The next slice is due once our share of the time is long enough for another batch. */
    s->waiting_since_ns = 0;
    s->next_slice_ns = now + (SLICE_SHARE - 1) * (now - before);
    if (s->has_slice)
        shp_priority_lock_end_slice(s->yields_to);
    s->has_slice = 0;
}

static void step(shp_scheduler *s) {
    if (shp_flag_get(&s->has_waiting))
        admit(s);
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job && shp_stream_is_cancelled(s->slots.items[i].job->out))
            shp_job_end(s, &s->slots.items[i], SHP_END_CANCELLED, 0);
    shp_keeping_tell(s);
    if (!may_run(s))
        return;
    run_batches(s);
    if (s->priority_lock)
        shp_priority_lock_grant_slice(s->priority_lock);
}

static int wait_for_jobs(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    /* Jobs submitted before the closing must still end: their readers wait for that. */
    while (s->n_jobs == s->n_in_files && (s->n_jobs > 0 || !s->is_closed)) {
        int wait_ms = shp_keeping_wait_ms(s);
        if (wait_ms != 0)
            shp_condition_wait_ms(&s->changed, &s->mutex, wait_ms);
        else
            shp_keeping_stage(s);
    }
    int has_jobs = s->n_jobs > 0;
    shp_mutex_unlock(&s->mutex);
    return has_jobs;
}

void shp_scheduler_serve(shp_scheduler *s) {
    shp_api.set_abort_callback(s->context.ctx, shp_batch_is_aborted, s);
    while (wait_for_jobs(s))
        step(s);
    /* The scheduler may be freed before the context. */
    shp_api.set_abort_callback(s->context.ctx, NULL, NULL);
}
