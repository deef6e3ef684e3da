/* One batch: a token for each slot that generates, then prompt tokens round robin over the slots that read; decoded,
   and each slot that has its logits samples. What may go wrong with it:
   - no room (1): an idle sequence is parked; then the prompt part is halved; then a job is put back, or, if it is
     alone, ends: its window is full;
   - given up (2): the prompt part is decoded again, or its jobs were cancelled;
   - refused (-1) or failed (below -1): the jobs whose sequences do not fit end. The cache is believed, not our list. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "scheduler_parts.h"

/* Prompt tokens of a batch that others wait for: few, as one that cannot be interrupted. */
enum { TURN_TOKENS = 8 };

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

/* Prompt tokens up to the end, the next boundary, or what the batch has left. A boundary where no checkpoint is kept
   would only cost a batch: on a large model, as much as a token. */
static void add_prompt(shp_scheduler *s, shp_slot *slot, int32_t room) {
    const shp_job *job = slot->job;
    int32_t n = slot->sequence.n, to = job->n_prompt, is_last;
    int keeps = s->snapshots.budget > 0 && s->context.kind != SHP_PLAIN;
    for (int32_t i = job->n_boundaries; keeps && i-- > 0;)
        if (job->boundaries[i] > n && job->boundaries[i] < to)
            to = job->boundaries[i];
    if (to - n > room)
        to = n + room;
    is_last = to == job->n_prompt;
    add(s, slot, job->prompt + n, to - n);
    s->batch.logits[s->batch.n_tokens - 1] = is_last != 0;
}

void shp_batch_build(shp_scheduler *s) {
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
    /* Prompts wait for answers to end while there is no room; without answers there is nothing to wait for. */
    if (s->limit == 0 && !s->has_generating)
        s->limit = 1;
    if (left > s->limit)
        left = s->limit;
    if (s->has_turn && left > TURN_TOKENS)
        left = TURN_TOKENS;
    for (int32_t k = 0; k < s->slots.n && left > 0; k++) {
        shp_slot *slot = &s->slots.items[(s->turn + k) % s->slots.n];
        if (!slot->job || slot->is_generating || pauses(slot, has_user) || shp_slots_is_led(&s->slots, slot))
            continue;
        add_prompt(s, slot, left);
        left -= slot->n_batched;
    }
    s->turn = (s->turn + 1) % s->slots.n;
}

/* llama.cpp asks between the nodes of a graph. Not while answers go on: a token that is given up costs caches that
   cannot rewind all they hold, and the others their turn. */
bool shp_batch_is_interrupted(void *data) {
    shp_scheduler *s = data;
    if (!s->is_decoding || s->has_generating)
        return false;
    if (s->before && !s->has_turn && shp_gate_is_taken(s->before))
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
    int64_t started = shp_now_ns();
    int32_t token = shp_sampling_next(&job->sampling, &s->context, at, job->out);
    int64_t now = shp_now_ns();
    s->model_ns += now - started;
    if (token == SHP_NO_TOKEN || token == SHP_AMBIGUOUS) {
        shp_job_end(s, slot, SHP_END_FAILED, token == SHP_NO_TOKEN ? SHP_CODE_NO_TOKEN : SHP_CODE_AMBIGUOUS);
        return;
    }
    if (job->counts.sampled_tokens == 0)
        job->counts.first_token_ns = now - job->started_ns;
    if (token < 0 || token >= s->context.n_vocab || shp_api.is_eog(s->context.vocab, token)) {
        shp_job_end(s, slot, SHP_END_STOP, 0);
        return;
    }
    job->counts.sampled_tokens++;
    job->token = token;
    shp_status status = shp_sampling_write(&job->sampling, &s->context, job->out, token);
    if (status == SHP_STOPPED)
        shp_job_end(s, slot, SHP_END_STOP, 0);
    else if (status != SHP_OK)
        shp_job_end(s, slot, SHP_END_FAILED, SHP_CODE_NO_MEMORY);
    else if (job->counts.sampled_tokens == job->max_tokens || slot->sequence.n == s->context.n_window)
        shp_job_end(s, slot, SHP_END_LENGTH, 0);
}

/* The prompt is read: begin to answer. */
static void begin_answer(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t tail = job->n_penalty < job->n_prompt ? job->n_penalty : job->n_prompt;
    shp_job_count_prompt(slot);
    slot->is_generating = 1;
    if (!job->is_resumed) {
        int64_t started = shp_now_ns();
        shp_api.synchronize(s->context.ctx);
        job->prefilled_ns = shp_now_ns();
        s->model_ns += job->prefilled_ns - started;
        job->counts.prefill_ns = job->prefilled_ns - job->started_ns;
    }
    if (job->max_tokens == 0)
        shp_job_end(s, slot, SHP_END_LENGTH, 0);
    else if (!shp_api.get_logits_ith(s->context.ctx, slot->first + slot->n_batched - 1))
        shp_job_end(s, slot, SHP_END_FAILED, SHP_CODE_NO_LOGITS);
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
    s->limit = 2 * s->limit + 1 < s->n_chunk ? 2 * s->limit + 1 : s->n_chunk;
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
    shp_slot *weaker = shp_scheduler_background(s);
    int32_t n_jobs = 0;
    for (int32_t i = 0; i < s->slots.n; i++)
        n_jobs += s->slots.items[i].job != NULL;
    if (n_jobs > 1) {
        s->is_blocked = 1;
        shp_job_put_back(s, weaker ? weaker : slot);
    } else if (slot->is_generating)
        shp_job_end(s, slot, SHP_END_LENGTH, 0);
    else
        shp_job_end(s, slot, SHP_END_FAILED, 1);
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
            shp_job_end(s, slot, SHP_END_FAILED, code);
    }
}

void shp_batch_decode(shp_scheduler *s) {
    int64_t started = shp_now_ns();
    s->is_decoding = 1;
    int32_t code = shp_api.decode(s->context.ctx, s->batch);
    s->is_decoding = 0;
    s->model_ns += shp_now_ns() - started;
    if (code == 0)
        after_batch(s);
    else if (code == 1)
        relieve(s);
    else
        recover(s, code);
}
