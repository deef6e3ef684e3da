/* The scheduler: one thread, one context, continuous batching.

   A step: jobs that wait get slots; those that were cancelled end; one batch is made of a token for each slot that
   generates and up to n_chunk tokens in all, the rest of it prompt tokens, round robin over the slots that read; it
   is decoded; each slot whose logits are there samples. So a long prompt never holds the others up for more than one
   micro-batch, and beside the model's own work a token costs O(1).

   The user's jobs go first: while one of them runs or waits, background jobs stand still, and give up their slots
   when there is no other. A scheduler behind another's gate waits for that one's jobs, but not for ever: where they
   never end, it has one part in SHARE of the time, a small batch each, between two of their steps; a user waits for it
   that much longer, and what is to be learned is. A job that loses its slot goes back to the front of the queue with what it has said so far,
   and reads that again if its cells are gone.

   The queue is jobs.c, the batch batch.c, the choice of a slot slots.c. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include <stdlib.h>

#include "scheduler_parts.h"

enum {
    LOOK_MS = 20, /* while it yields, the thread looks at its jobs' cancel flags this often */
    NEAR = 16,    /* tokens */
    SHARE = 20,   /* of the time while others go first, the part that is its own: one in so many */
    /* Of one turn, if a batch is not longer. Users wait for it. */
    LONGEST_TURN_NS = 5000000,
};

static int make_batch(shp_scheduler *s) {
    size_t n = (size_t)s->n_batch;
    s->batch.token = malloc(n * sizeof *s->batch.token);
    s->batch.pos = malloc(n * sizeof *s->batch.pos);
    s->batch.n_seq_id = malloc(n * sizeof *s->batch.n_seq_id);
    s->batch.seq_id = malloc(n * sizeof *s->batch.seq_id);
    s->batch.logits = malloc(n);
    if (!s->batch.token || !s->batch.pos || !s->batch.n_seq_id || !s->batch.seq_id || !s->batch.logits)
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

shp_scheduler *shp_scheduler_new(const shp_context *context, const shp_schedule *schedule) {
    shp_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->context = *context;
    s->n_chunk = s->limit = schedule->n_chunk;
    s->n_batch = schedule->n_chunk > schedule->n_slots ? schedule->n_chunk : schedule->n_slots;
    s->gate = schedule->gate;
    s->before = schedule->before;
    shp_snapshots_init(&s->snapshots, schedule->snapshot_bytes);
    if (shp_mutex_init(&s->mutex) != 0) {
        free(s);
        return NULL;
    }
    if (shp_condition_init(&s->changed) != 0) {
        shp_mutex_destroy(&s->mutex);
        free(s);
        return NULL;
    }
    if (!make_batch(s) || !make_slots(s, schedule)) {
        shp_scheduler_free(s);
        return NULL;
    }
    return s;
}

void shp_scheduler_free(shp_scheduler *s) {
    if (!s)
        return;
    for (int32_t i = 0; i < s->slots.n; i++)
        shp_sequence_free(&s->slots.items[i].sequence);
    free(s->slots.items);
    shp_snapshots_free(&s->snapshots);
    free(s->batch.token);
    free(s->batch.pos);
    free(s->batch.n_seq_id);
    free(s->batch.seq_id);
    free(s->batch.logits);
    shp_condition_destroy(&s->changed);
    shp_mutex_destroy(&s->mutex);
    free(s);
}

void shp_scheduler_forget(shp_scheduler *s) {
    for (int32_t i = 0; i < s->slots.n; i++)
        s->slots.items[i].sequence.n = 0;
    shp_snapshots_free(&s->snapshots);
    shp_api.memory_clear(s->context.memory, true);
}

int shp_scheduler_park(shp_scheduler *s) {
    int n = 0;
    for (int32_t i = 0; i < s->slots.n; i++)
        n += shp_snapshots_save(&s->snapshots, &s->slots.items[i].sequence, SHP_STATE_WHOLE);
    return n;
}

shp_slot *shp_scheduler_slot(shp_scheduler *s, int32_t i) { return &s->slots.items[i]; }

int32_t shp_scheduler_last(const shp_scheduler *s) { return s->last; }

shp_snapshots *shp_scheduler_snapshots(shp_scheduler *s) { return &s->snapshots; }

/* ---- the engine thread ---- */

/* Where a conversation goes on a few tokens before a boundary, the checkpoint is taken now: to stop there costs a
   batch, which on a large model takes as long as a token, and a restore reads those few again with what is new. */
static void keep_near_boundary(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t n = slot->sequence.n, kept = 0, is_near = 0;
    if (n == 0 || s->context.kind == SHP_PLAIN)
        return;
    for (int32_t i = 0; i < job->n_boundaries; i++) {
        int32_t gap = job->boundaries[i] - n;
        if (gap > 0 && gap <= NEAR)
            is_near = 1;
        else
            job->boundaries[kept++] = job->boundaries[i];
    }
    job->n_boundaries = kept;
    if (is_near)
        shp_snapshots_save(&s->snapshots, &slot->sequence, SHP_STATE_PARTIAL);
}

/* While a job was being placed, shp_scheduler_close found it neither in the queue nor in a slot. */
static void cancel_if_closed(shp_scheduler *s, shp_job *job) {
    if (shp_flag_get(&s->is_closed))
        shp_stream_cancel(job->out);
}

static void start(shp_scheduler *s, shp_slot *slot, shp_job *job) {
    shp_mutex_lock(&s->mutex);
    slot->job = job;
    cancel_if_closed(s, job);
    shp_mutex_unlock(&s->mutex);
    slot->is_generating = 0;
    slot->leader = -1;
    if (job->is_resumed)
        return;
    job->model_before_ns = s->model_ns;
    job->counts.prompt_tokens = job->n_prompt;
    job->counts.reused_tokens = slot->sequence.n;
    for (int32_t i = 0; i < job->n_boundaries && job->boundaries[i] <= slot->sequence.n; i++)
        shp_snapshots_touch(&s->snapshots, job->prompt, job->boundaries[i]);
    shp_slots_follow(&s->slots, slot);
    keep_near_boundary(s, slot);
}

shp_slot *shp_scheduler_background(shp_scheduler *s) {
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

/* Slots for the jobs that wait, as far as there are any. */
static void admit(shp_scheduler *s) {
    shp_job *job;
    while ((job = shp_job_take(s, 1)))
        shp_job_finish(s, job, NULL, SHP_END_CANCELLED, 0);
    while (shp_flag_get(&s->has_waiting) && !s->is_blocked) {
        shp_slot *weaker = shp_scheduler_background(s);
        job = shp_job_take(s, 0);
        if (!has_idle_slot(s) && weaker && !job->is_background)
            shp_job_put_back(s, weaker);
        shp_slot *slot = NULL;
        if (has_idle_slot(s))
            slot = shp_slots_place(&s->slots, job->prompt, job->n_prompt, job->n_head);
        if (!slot) {
            s->is_blocked = has_idle_slot(s);
            shp_mutex_lock(&s->mutex);
            shp_job_queue(s, job, 1);
            cancel_if_closed(s, job);
            shp_mutex_unlock(&s->mutex);
            return;
        }
        start(s, slot, job);
    }
}

/* Wait while others go first, or for a turn among them; 0 when it should look at its jobs again. */
static int may_go_on(shp_scheduler *s) {
    if (!s->before || !shp_gate_is_taken(s->before))
        return 1;
    int64_t now = shp_now_ns(), left_ms = (s->turn_after_ns - now + 999999) / 1000000;
    if (s->waits_since_ns == 0)
        s->waits_since_ns = now;
    if (left_ms > 0)
        return shp_gate_wait(s->before, left_ms < LOOK_MS ? (int)left_ms : LOOK_MS);
    s->has_turn = shp_gate_ask(s->before, LOOK_MS);
    return s->has_turn || !shp_gate_is_taken(s->before);
}

/* A batch; in a turn, as many as its share of the time that it has waited allows, the first in any case. */
static void decode(shp_scheduler *s) {
    int64_t started = shp_now_ns(), now = started, before;
    int64_t share = (started - s->waits_since_ns) / (SHARE - 1);
    if (share > LONGEST_TURN_NS)
        share = LONGEST_TURN_NS;
    do {
        before = now;
        shp_batch_build(s);
        if (s->batch.n_tokens > 0)
            shp_batch_decode(s);
        now = shp_now_ns();
    } while (s->has_turn && s->batch.n_tokens > 0 && (now - started) + (now - before) <= share);
    /* The next one is due when there is time for another batch, at least. */
    s->waits_since_ns = 0;
    s->turn_after_ns = now + (SHARE - 1) * (now - before);
    if (s->has_turn)
        shp_gate_give_back(s->before);
    s->has_turn = 0;
}

static void step(shp_scheduler *s) {
    if (shp_flag_get(&s->has_waiting))
        admit(s);
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job && shp_stream_is_cancelled(s->slots.items[i].job->out))
            shp_job_end(s, &s->slots.items[i], SHP_END_CANCELLED, 0);
    if (!may_go_on(s))
        return;
    decode(s);
    if (s->gate)
        shp_gate_let_in(s->gate);
}

static int wait_for_jobs(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    while (s->n_jobs == 0 && !s->is_closed)
        shp_condition_wait_ms(&s->changed, &s->mutex, -1);
    /* A job that came before the closing is still ended: its reader waits for that. */
    int has_jobs = s->n_jobs > 0;
    shp_mutex_unlock(&s->mutex);
    return has_jobs;
}

void shp_scheduler_serve(shp_scheduler *s) {
    shp_api.set_abort_callback(s->context.ctx, shp_batch_is_interrupted, s);
    while (wait_for_jobs(s))
        step(s);
    /* The scheduler may go before the context. */
    shp_api.set_abort_callback(s->context.ctx, NULL, NULL);
}
