/* The scheduler: one thread, one context, continuous batching.

   A step: jobs that wait get slots; those that were cancelled end; one batch is made of a token for each slot that
   generates and up to n_chunk tokens in all, the rest of it prompt tokens, round robin over the slots that read; it
   is decoded; each slot whose logits are there samples. So a long prompt never holds the others up for more than one
   micro-batch, and beside the model's own work a token costs O(1).

   The user's jobs go first: while one of them runs or waits, background jobs stand still, and give up their slots
   when there is no other. A job that loses its slot goes back to the front of the queue with what it has said so far,
   and reads that again if its cells are gone.

   The context's cells are shared. When llama_decode finds no room, an idle sequence is parked; then the prompt part of
   the batch is halved; then a job is put back, or, if it is alone, ends: its window is full.

   Python's threads only touch the queue, the flag beside it and the streams. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "slots.h"
#include "sync.h"

enum { LOOK_MS = 20 }; /* while it yields, the thread looks at its jobs' cancel flags this often */

struct shp_scheduler {
    shp_context context;
    shp_mutex mutex;
    shp_condition changed;
    shp_job *waiting; /* in the order in which they will run */
    int32_t n_jobs;   /* that wait or run */
    int has_waiting, is_closed; /* also read without the mutex, through shp_flag_get */

    shp_slots slots;
    shp_snapshots snapshots;
    shp_llama_batch batch; /* its arrays hold n_batch entries; owned */
    int32_t n_batch, n_chunk;
    int32_t limit;         /* prompt tokens of the next batch: halved while there is no room */
    int32_t turn;          /* the slot whose prompt goes first */
    int32_t last;
    int has_generating;    /* the batch has tokens of answers: it is not interrupted */
    int is_blocked;        /* a job was put back for lack of room: none is admitted until one ends */
    shp_gate *gate, *before;
};

/* ---- making and freeing ---- */

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
    s->slots.n_window = s->context.n_window;
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

shp_job *shp_job_new(shp_stream *out, const int32_t *prompt, int32_t n_prompt) {
    shp_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->prompt = malloc((size_t)n_prompt * sizeof *prompt);
    if (!job->prompt) {
        free(job);
        return NULL;
    }
    memcpy(job->prompt, prompt, (size_t)n_prompt * sizeof *prompt);
    job->n_prompt = n_prompt;
    job->token = -1;
    job->out = out;
    shp_stream_hold(out);
    return job;
}

void shp_job_free(shp_job *job) {
    shp_sampling_free(&job->sampling);
    shp_stream_free(job->out);
    free(job->prompt);
    free(job);
}

/* ---- the queue, from any thread ---- */

static void queue_job(shp_scheduler *s, shp_job *job, int at_front) {
    shp_job **at = &s->waiting;
    /* Behind those of its own kind, or before them; the user's all before the background's. */
    while (*at && ((*at)->is_background < job->is_background
                   || (!at_front && (*at)->is_background == job->is_background)))
        at = &(*at)->next;
    job->next = *at;
    *at = job;
    shp_flag_set(&s->has_waiting, 1);
}

int shp_scheduler_submit(shp_scheduler *s, shp_job *job, int may_wait) {
    shp_mutex_lock(&s->mutex);
    int answer = s->is_closed ? -1 : may_wait || s->n_jobs < s->slots.n;
    if (answer == 1) {
        job->started_ns = shp_now_ns();
        queue_job(s, job, 0);
        s->n_jobs++;
        if (s->gate && !job->is_background)
            shp_gate_enter(s->gate);
        shp_condition_broadcast(&s->changed);
    }
    shp_mutex_unlock(&s->mutex);
    return answer;
}

void shp_scheduler_close(shp_scheduler *s) {
    shp_mutex_lock(&s->mutex);
    shp_flag_set(&s->is_closed, 1);
    for (shp_job *job = s->waiting; job; job = job->next)
        shp_stream_cancel(job->out);
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job)
            shp_stream_cancel(s->slots.items[i].job->out);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
}

int shp_scheduler_wait_idle(shp_scheduler *s, int timeout_ms) {
    shp_mutex_lock(&s->mutex);
    if (s->n_jobs > 0 && timeout_ms != 0)
        shp_condition_wait_ms(&s->changed, &s->mutex, timeout_ms);
    int is_idle = s->n_jobs == 0;
    shp_mutex_unlock(&s->mutex);
    return is_idle;
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

/* ---- the engine thread: the ends of jobs ---- */

/* Tell the reader, and only then anybody who waits for the scheduler; both see the same. */
static void finish(shp_scheduler *s, shp_job *job, shp_slot *slot, shp_ending ending, int32_t code) {
    int64_t now = shp_now_ns();
    if (job->prefilled_ns)
        job->counts.decode_ns = now - job->prefilled_ns;
    else
        job->counts.prefill_ns = now - job->started_ns;
    job->counts.total_ns = now - job->started_ns;
    job->counts.code = code;
    shp_mutex_lock(&s->mutex);
    if (slot) {
        slot->job = NULL;
        s->last = (int32_t)(slot - s->slots.items);
    }
    s->n_jobs--;
    s->is_blocked = 0;
    if (s->gate && !job->is_background)
        shp_gate_leave(s->gate);
    shp_stream_end(job->out, ending, &job->counts);
    shp_condition_broadcast(&s->changed);
    shp_mutex_unlock(&s->mutex);
    shp_job_free(job);
}

static void count_prompt(shp_slot *slot) {
    shp_job *job = slot->job;
    int64_t decoded = slot->sequence.n - job->counts.reused_tokens;
    if (!job->is_resumed)
        job->counts.decoded_tokens = decoded > 0 ? decoded : 0;
}

static void end(shp_scheduler *s, shp_slot *slot, shp_ending ending, int32_t code) {
    if (!slot->is_generating)
        count_prompt(slot);
    finish(s, slot->job, slot, ending, code);
}

/* Back to the front of the queue, with what was said so far as a part of the prompt. */
static void put_back(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t n = slot->sequence.n, more = job->token >= 0;
    if (slot->is_generating) {
        int32_t *longer = realloc(job->prompt, ((size_t)n + 1) * sizeof *longer);
        if (!longer) {
            end(s, slot, SHP_END_FAILED, SHP_CODE_NO_MEMORY);
            return;
        }
        memcpy(longer, slot->sequence.ids, (size_t)n * sizeof *longer);
        if (more)
            longer[n] = job->token;
        job->prompt = longer;
        job->n_prompt = n + more;
        job->token = -1;
        job->is_resumed = 1;
    }
    shp_mutex_lock(&s->mutex);
    slot->job = NULL;
    queue_job(s, job, 1);
    shp_mutex_unlock(&s->mutex);
}

/* ---- the engine thread: who runs ---- */

static shp_job *take_waiting(shp_scheduler *s, int only_cancelled) {
    shp_mutex_lock(&s->mutex);
    shp_job **at = &s->waiting;
    while (only_cancelled && *at && !shp_stream_is_cancelled((*at)->out))
        at = &(*at)->next;
    shp_job *job = *at;
    if (job)
        *at = job->next;
    shp_flag_set(&s->has_waiting, s->waiting != NULL);
    shp_mutex_unlock(&s->mutex);
    return job;
}

static void start(shp_scheduler *s, shp_slot *slot, shp_job *job) {
    shp_mutex_lock(&s->mutex);
    slot->job = job;
    shp_mutex_unlock(&s->mutex);
    slot->is_generating = 0;
    if (job->is_resumed)
        return;
    job->counts.prompt_tokens = job->n_prompt;
    job->counts.reused_tokens = slot->sequence.n;
    for (int32_t i = 0; i < job->n_boundaries && job->boundaries[i] <= slot->sequence.n; i++)
        shp_snapshots_touch(&s->snapshots, job->prompt, job->boundaries[i]);
}

static shp_slot *background_slot(shp_scheduler *s) {
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
    while ((job = take_waiting(s, 1)))
        finish(s, job, NULL, SHP_END_CANCELLED, 0);
    while (shp_flag_get(&s->has_waiting) && !s->is_blocked) {
        shp_slot *weaker = background_slot(s);
        job = take_waiting(s, 0);
        if (!has_idle_slot(s) && weaker && !job->is_background)
            put_back(s, weaker);
        /* The last boundary is the end of the last message; one before it is that of the system prompt. */
        int32_t n_head = job->n_boundaries > 1 ? job->boundaries[0] : 0;
        shp_slot *slot = NULL;
        if (has_idle_slot(s))
            slot = shp_slots_place(&s->slots, job->prompt, job->n_prompt, n_head);
        if (!slot) {
            shp_mutex_lock(&s->mutex);
            queue_job(s, job, 1);
            shp_mutex_unlock(&s->mutex);
            return;
        }
        start(s, slot, job);
    }
}

/* Wait while others go first; 0 when it should look at its jobs again. */
static int may_go_on(shp_scheduler *s) {
    if (!s->before || !shp_gate_is_taken(s->before))
        return 1;
    return shp_gate_wait(s->before, LOOK_MS);
}

/* ---- the engine thread: one batch ---- */

static int pauses(const shp_slot *slot, int has_user) { return slot->job->is_background && has_user; }

static void add(shp_scheduler *s, shp_slot *slot, const int32_t *tokens, int32_t n) {
    int32_t at = s->batch.n_tokens, position = shp_sequence_next_position(&slot->sequence);
    slot->first = at;
    slot->n_batched = n;
    for (int32_t i = 0; i < n; i++, at++) {
        s->batch.token[at] = tokens[i];
        s->batch.pos[at] = position + i;
        s->batch.seq_id[at] = &slot->sequence.id;
        s->batch.logits[at] = 0;
    }
    s->batch.n_tokens = at;
}

/* Prompt tokens up to the end, the next boundary, or what the batch has left. */
static void add_prompt(shp_scheduler *s, shp_slot *slot, int32_t room) {
    const shp_job *job = slot->job;
    int32_t n = slot->sequence.n, to = job->n_prompt, is_last;
    for (int32_t i = job->n_boundaries; i-- > 0 && s->snapshots.budget > 0;)
        if (job->boundaries[i] > n && job->boundaries[i] < to)
            to = job->boundaries[i];
    if (to - n > room)
        to = n + room;
    is_last = to == job->n_prompt;
    add(s, slot, job->prompt + n, to - n);
    s->batch.logits[s->batch.n_tokens - 1] = is_last != 0;
}

static void build(shp_scheduler *s) {
    int has_user = 0;
    s->batch.n_tokens = s->has_generating = 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        s->slots.items[i].n_batched = 0;
        has_user |= s->slots.items[i].job && !s->slots.items[i].job->is_background;
    }
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (!slot->job || !slot->is_generating || pauses(slot, has_user))
            continue;
        add(s, slot, &slot->job->token, 1);
        s->batch.logits[s->batch.n_tokens - 1] = 1;
        s->has_generating = 1;
    }
    int32_t left = s->n_chunk - s->batch.n_tokens;
    if (left > s->limit)
        left = s->limit;
    for (int32_t k = 0; k < s->slots.n && left > 0; k++) {
        shp_slot *slot = &s->slots.items[(s->turn + k) % s->slots.n];
        if (!slot->job || slot->is_generating || pauses(slot, has_user))
            continue;
        add_prompt(s, slot, left);
        left -= slot->n_batched;
    }
    s->turn = (s->turn + 1) % s->slots.n;
}

/* llama.cpp asks between the nodes of a graph. Not while answers go on: a token that is given up costs caches that
   cannot rewind all they hold, and the others their turn. */
static bool is_interrupted(void *data) {
    shp_scheduler *s = data;
    if (s->has_generating)
        return false;
    if (s->before && shp_gate_is_taken(s->before))
        return true;
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].n_batched > 0 && !shp_stream_is_cancelled(s->slots.items[i].job->out))
            return false;
    return true;
}

/* ---- the engine thread: after the batch ---- */

static void sample(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t at = slot->first + slot->n_batched - 1;
    int32_t token = shp_sampling_next(&job->sampling, &s->context, at, job->out);
    if (token == SHP_NO_TOKEN) {
        end(s, slot, SHP_END_FAILED, SHP_CODE_NO_TOKEN);
        return;
    }
    if (job->counts.sampled_tokens == 0)
        job->counts.first_token_ns = shp_now_ns() - job->started_ns;
    if (token < 0 || token >= s->context.n_vocab || shp_api.is_eog(s->context.vocab, token)) {
        end(s, slot, SHP_END_STOP, 0);
        return;
    }
    job->counts.sampled_tokens++;
    job->token = token;
    shp_status status = shp_sampling_write(&s->context, job->out, token);
    if (status == SHP_STOPPED)
        end(s, slot, SHP_END_STOP, 0);
    else if (status != SHP_OK)
        end(s, slot, SHP_END_FAILED, SHP_CODE_NO_MEMORY);
    else if (job->counts.sampled_tokens == job->max_tokens || slot->sequence.n == s->context.n_window)
        end(s, slot, SHP_END_LENGTH, 0);
}

/* The prompt is read: begin to answer. */
static void begin_answer(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t tail = job->n_penalty < job->n_prompt ? job->n_penalty : job->n_prompt;
    count_prompt(slot);
    slot->is_generating = 1;
    if (!job->is_resumed) {
        shp_api.synchronize(s->context.ctx);
        job->prefilled_ns = shp_now_ns();
        job->counts.prefill_ns = job->prefilled_ns - job->started_ns;
    }
    if (job->max_tokens == 0)
        end(s, slot, SHP_END_LENGTH, 0);
    else if (!shp_api.get_logits_ith(s->context.ctx, slot->first + slot->n_batched - 1))
        end(s, slot, SHP_END_FAILED, SHP_CODE_NO_LOGITS);
    else {
        if (!job->is_resumed)
            shp_sampling_begin(&job->sampling, job->prompt + job->n_prompt - tail, tail);
        sample(s, slot);
    }
}

static void keep_checkpoint(shp_scheduler *s, const shp_slot *slot) {
    const shp_job *job = slot->job;
    if (s->context.kind == SHP_PLAIN)
        return;
    for (int32_t i = 0; i < job->n_boundaries; i++)
        if (job->boundaries[i] == slot->sequence.n)
            shp_snapshots_save(&s->snapshots, &slot->sequence, SHP_STATE_PARTIAL);
}

static void note(shp_scheduler *s, shp_slot *slot) {
    shp_sequence_note(&slot->sequence, s->batch.token + slot->first, s->batch.pos + slot->first, slot->n_batched);
}

static void after_batch(shp_scheduler *s) {
    s->limit = 2 * s->limit < s->n_chunk ? 2 * s->limit : s->n_chunk;
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].n_batched > 0)
            note(s, &s->slots.items[i]);
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (slot->n_batched == 0)
            continue;
        if (slot->is_generating)
            sample(s, slot);
        else if (slot->sequence.n == slot->job->n_prompt)
            begin_answer(s, slot);
        else
            keep_checkpoint(s, slot);
    }
}

/* Nobody idle is left to evict, and the batch is as small as it can be. */
static void give_way(shp_scheduler *s, shp_slot *slot) {
    shp_slot *weaker = background_slot(s);
    int32_t n_jobs = 0;
    for (int32_t i = 0; i < s->slots.n; i++)
        n_jobs += s->slots.items[i].job != NULL;
    if (n_jobs > 1) {
        s->is_blocked = 1;
        put_back(s, weaker ? weaker : slot);
    } else if (slot->is_generating)
        end(s, slot, SHP_END_LENGTH, 0);
    else
        end(s, slot, SHP_END_FAILED, 1);
}

/* No room for the batch, and nothing in the cache has changed. */
static void relieve(shp_scheduler *s) {
    shp_slot *slot = NULL;
    int32_t n_prompt = 0;
    if (shp_slots_evict(&s->slots))
        return;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *one = &s->slots.items[i];
        if (one->n_batched == 0)
            continue;
        n_prompt += one->is_generating ? 0 : one->n_batched;
        if (!slot || one->is_generating)
            slot = one;
    }
    s->limit = n_prompt / 2;
    if (n_prompt > 1 || (n_prompt == 1 && s->has_generating))
        return;
    s->limit = 1;
    give_way(s, slot);
}

/* What a batch that was given up has left of a sequence. */
static void distrust(shp_scheduler *s, shp_slot *slot) {
    /* A state may have met a part of the batch, whatever its position says. */
    if (shp_sequence_is_state(&slot->sequence)) {
        shp_snapshots_back(&s->snapshots, &slot->sequence, slot->sequence.n);
        return;
    }
    note(s, slot);
    shp_sequence_believe_cache(&slot->sequence);
}

/* The batch was given up (2), was refused (-1) or failed (below -1): believe the cache, not our list. */
static void recover(shp_scheduler *s, int32_t code) {
    uint64_t batched = 0, wrong = 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (slot->n_batched == 0)
            continue;
        batched |= 1ull << i;
        if (code != -1)
            distrust(s, slot);
        else if (!shp_sequence_believe_cache(&slot->sequence))
            wrong |= 1ull << i;
    }
    /* A batch is refused whole for the one sequence that does not fit. */
    if (code != -1 || wrong == 0)
        wrong = batched;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (!(wrong >> i & 1) || (code == 2 && shp_stream_is_cancelled(slot->job->out)))
            continue;
        if (code == 2)
            shp_slots_realign(&s->slots, slot, slot->job->prompt, slot->job->n_prompt);
        else
            end(s, slot, SHP_END_FAILED, code);
    }
}

static void step(shp_scheduler *s) {
    if (shp_flag_get(&s->has_waiting))
        admit(s);
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].job && shp_stream_is_cancelled(s->slots.items[i].job->out))
            end(s, &s->slots.items[i], SHP_END_CANCELLED, 0);
    if (!may_go_on(s))
        return;
    build(s);
    if (s->batch.n_tokens == 0)
        return;
    int32_t code = shp_api.decode(s->context.ctx, s->batch);
    if (code == 0)
        after_batch(s);
    else if (code == 1)
        relieve(s);
    else
        recover(s, code);
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
    shp_api.set_abort_callback(s->context.ctx, is_interrupted, s);
    while (wait_for_jobs(s))
        step(s);
    /* The scheduler may go before the context. */
    shp_api.set_abort_callback(s->context.ctx, NULL, NULL);
}
