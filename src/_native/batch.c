/* One batch: a token for each decoding slot, with its draft behind it, then prefill tokens, round robin over the slots in
   prefill. Every second batch may instead be a part of a picture: llama.cpp takes ids or embeddings, not both. The batch
   is decoded, and each slot that has its logits samples: of a draft, position by position, as long as what it samples is
   what was drafted. The tokens behind that are taken out of the cache. llama_decode may fail:
   - 1, no room in the KV cache: drafts are left out; else an idle sequence is parked; else the prefill part is halved;
     else a job is preempted or, if it is the only one, ends, since its window is full;
   - 2, aborted: the prefill part is decoded again, unless its jobs were cancelled;
   - -1, refused, or below -1, failed: the jobs whose sequences do not match the cache end. After a failure the cache's
     own positions count, not our mirror. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "scheduler_parts.h"

/* Prefill tokens of a batch in a time slice: few, since foreground answers wait for it and it cannot be aborted. */
enum { SLICE_TOKENS = 8 };
/* Batches without drafts after one for which the cache had no room. */
enum { WITHOUT_DRAFTS = 32 };

static int is_paused(const shp_slot *slot, int has_foreground) {
    return slot->job->is_background && has_foreground;
}

/* Add the slot's next tokens, behind those that it has in the batch. */
static void add_tokens(shp_scheduler *s, shp_slot *slot, const int32_t *tokens, int32_t n, int8_t has_logits) {
    int32_t at = s->batch.n_tokens, position = shp_sequence_next_position(&slot->sequence) + slot->n_batched;
    slot->first = at - slot->n_batched;
    slot->n_batched += n;
    for (int32_t i = 0; i < n; i++, at++) {
        s->batch.token[at] = tokens[i];
        s->batch.pos[at] = position + i;
        s->batch.seq_id[at] = &slot->sequence.id;
        s->batch.logits[at] = has_logits;
    }
    s->batch.n_tokens = at;
}

static void add_decode(shp_scheduler *s, shp_slot *slot) {
    add_tokens(s, slot, &slot->job->token, 1, 1);
    add_tokens(s, slot, slot->draft.tokens, slot->draft.n, 1);
    s->n_drafted += slot->draft.n;
    s->has_decode = 1;
}

/* Add prefill tokens: up to the end of the prompt, the next boundary, or what the batch has room for. Boundaries count
   only where checkpoints are kept; elsewhere they would only cost a batch, on a large model as much as a token. */
static void add_prefill(shp_scheduler *s, shp_slot *slot, int32_t room) {
    const shp_job *job = slot->job;
    int32_t n = slot->sequence.n, to = job->n_prompt, is_last;
    int keeps = s->snapshots.budget > 0 && s->context.kind != SHP_PLAIN;
    for (int32_t i = job->n_boundaries; keeps && i-- > 0;)
        if (job->boundaries[i] > n && job->boundaries[i] < to)
            to = job->boundaries[i];
    for (int32_t i = job->n_pictures; i-- > 0;)
        if (job->pictures[i].at > n && job->pictures[i].at < to)
            to = job->pictures[i].at;
    if (to - n > room)
        to = n + room;
    is_last = to == job->n_prompt;
    add_tokens(s, slot, job->prompt + n, to - n, 0);
    s->batch.logits[s->batch.n_tokens - 1] = is_last != 0;
}

/* The picture that the prompt goes on with; NULL: it goes on with a token. */
static const shp_placed_picture *next_picture(const shp_slot *slot) {
    const shp_job *job = slot->job;
    int32_t n = slot->sequence.n;
    if (n >= job->n_prompt || !shp_is_picture(job->prompt[n]))
        return NULL;
    for (int32_t i = 0; i < job->n_pictures; i++)
        if (job->pictures[i].at <= n && n < job->pictures[i].at + job->pictures[i].picture->n)
            return &job->pictures[i];
    return NULL;
}

static int is_in_prefill(shp_scheduler *s, shp_slot *slot, int has_foreground) {
    return slot->job && !slot->is_decoding && !is_paused(slot, has_foreground)
           && !shp_slots_awaits_prefix(&s->slots, slot);
}

/* Fill the batch with the slot's next picture, or as much of it as there is room for. */
static void add_picture(shp_scheduler *s, shp_slot *slot, const shp_placed_picture *placed) {
    const shp_picture *picture = placed->picture;
    int32_t n_seen = slot->sequence.n - placed->at, n = picture->n - n_seen;
    int32_t first = n_seen > 0 ? slot->sequence.positions[placed->at] : shp_sequence_next_position(&slot->sequence);
    if (!picture->is_whole && n > s->n_chunk)
        n = s->n_chunk;
    add_tokens(s, slot, slot->job->prompt + slot->sequence.n, n, 0);
    for (int32_t i = 0; i < n; i++) {
        int32_t place = n_seen + i < picture->n_positions ? n_seen + i : picture->n_positions - 1;
        s->batch.pos[i] = first + place;
        /* llama.cpp does not use the last dimension yet, and leaves it at 0. */
        for (int32_t k = 0; picture->places && k < 4; k++)
            s->places[k * n + i] = (k < 3 ? first : 0) + picture->places[k * picture->n + n_seen + i];
    }
    s->picture = picture;
    s->n_seen = n_seen;
}

/* Take a picture of a slot in prefill, round robin; 0: none waits. */
static int build_picture(shp_scheduler *s, int has_foreground) {
    for (int32_t k = 0; k < s->slots.n; k++) {
        shp_slot *slot = &s->slots.items[(s->next_prefill + k) % s->slots.n];
        const shp_placed_picture *placed = slot->job && !slot->is_decoding ? next_picture(slot) : NULL;
        if (!placed || !is_in_prefill(s, slot, has_foreground))
            continue;
        add_picture(s, slot, placed);
        s->next_prefill = (s->next_prefill + 1) % s->slots.n;
        return 1;
    }
    return 0;
}

void shp_batch_build(shp_scheduler *s) {
    int has_foreground = 0, was_picture = s->picture != NULL;
    s->picture = NULL;
    s->batch.n_tokens = s->has_decode = s->n_drafted = 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        s->slots.items[i].n_batched = 0;
        has_foreground |= s->slots.items[i].job && !s->slots.items[i].job->is_background;
    }
    if (!was_picture && build_picture(s, has_foreground))
        return;
    shp_drafting_choose(s, has_foreground);
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (slot->job && slot->is_decoding && !is_paused(slot, has_foreground))
            add_decode(s, slot);
    }
    int32_t left = s->n_chunk - s->batch.n_tokens;
    /* While the cache has no room, prefill waits for decoding jobs to end; without any it must go on. */
    if (s->prefill_limit == 0 && !s->has_decode)
        s->prefill_limit = 1;
    if (left > s->prefill_limit)
        left = s->prefill_limit;
    if (s->has_slice && left > SLICE_TOKENS)
        left = SLICE_TOKENS;
    for (int32_t k = 0; k < s->slots.n && left > 0; k++) {
        shp_slot *slot = &s->slots.items[(s->next_prefill + k) % s->slots.n];
        if (!is_in_prefill(s, slot, has_foreground) || next_picture(slot))
            continue;
        add_prefill(s, slot, left);
        left -= slot->n_batched;
    }
    s->next_prefill = (s->next_prefill + 1) % s->slots.n;
    if (s->batch.n_tokens == 0)
        build_picture(s, has_foreground);
}

/* llama.cpp calls this between the nodes of a graph. A batch with decode tokens is never aborted: caches that cannot
   rewind would lose all they hold, and the other jobs their token. */
bool shp_batch_is_aborted(void *data) {
    shp_scheduler *s = data;
    if (!s->is_in_decode_call || s->has_decode)
        return false;
    if (s->yields_to && !s->has_slice && shp_priority_lock_is_held(s->yields_to))
        return true;
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].n_batched > 0 && !shp_stream_is_cancelled(s->slots.items[i].job->out))
            return false;
    return true;
}

/* ---- the engine thread: after the batch ---- */

/* Of a run that ended because there is no token; 0: there is one. */
static int32_t code_of(int32_t token) {
    switch (token) {
    case SHP_NO_TOKEN:
        return SHP_CODE_NO_TOKEN;
    case SHP_AMBIGUOUS:
        return SHP_CODE_AMBIGUOUS;
    case SHP_NO_NUMBERS:
        return SHP_CODE_NO_NUMBERS;
    default:
        return 0;
    }
}

/* Sample behind the first `n_held` tokens of the sequence, whose logits are at index `at` of the batch. */
static shp_ending sample_one(shp_scheduler *s, shp_slot *slot, int32_t at, int32_t n_held, int32_t *code) {
    shp_job *job = slot->job;
    int64_t started = shp_now_ns();
    int32_t token = shp_sampling_next(&job->sampling, &s->context, at, job->out);
    int64_t now = shp_now_ns();
    s->model_ns += now - started;
    *code = code_of(token);
    if (*code != 0)
        return SHP_END_FAILED;
    if (job->counts.sampled_tokens == 0)
        job->counts.first_token_ns = now - job->started_ns;
    if (token < 0 || token >= s->context.n_vocab || shp_api.is_eog(s->context.vocab, token))
        return SHP_END_STOP;
    job->counts.sampled_tokens++;
    job->token = token;
    shp_draft_take(&slot->draft, token);
    shp_status status = shp_sampling_write(&job->sampling, &s->context, job->out, token);
    if (status == SHP_STOPPED)
        return SHP_END_STOP;
    if (status != SHP_OK) {
        *code = SHP_CODE_NO_MEMORY;
        return SHP_END_FAILED;
    }
    return job->counts.sampled_tokens == job->max_tokens || n_held == s->context.n_window ? SHP_END_LENGTH
                                                                                         : SHP_RUNNING;
}

/* Take the rest of a draft out of the cache: all but the first n tokens of the sequence. */
static void drop_draft(shp_scheduler *s, shp_slot *slot, int32_t n, int is_running) {
    shp_sequence *sequence = &slot->sequence;
    int32_t n_before = sequence->n;
    if (shp_sequence_cut(sequence, n))
        return;
    /* The answer goes on once the cache holds its tokens again. */
    int32_t n_held = sequence->n;
    sequence->n = n;
    if (is_running)
        shp_job_preempt(s, slot);
    sequence->n = n_held == n_before ? n : 0;
    shp_snapshots_back(&s->snapshots, sequence, n);
}

/* Sample once, or behind each token of a draft as long as it is right. */
static void sample(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t last = slot->first + slot->n_batched - 1, at = last - slot->draft.n, code = 0;
    int32_t n_drafted = slot->draft.n, n_right = 0;
    int is_by_model = n_drafted > 0 && slot->draft.kinds[0] >= SHP_DRAFT_MODEL;
    shp_ending ending;
    for (;; at++, n_right++) {
        ending = sample_one(s, slot, at, slot->sequence.n - (last - at), &code);
        if (ending != SHP_RUNNING || at == last || job->token != s->batch.token[at + 1]
            || shp_stream_is_cancelled(job->out))
            break;
    }
    slot->draft.n = 0;
    job->counts.drafted_tokens += n_drafted;
    job->counts.accepted_tokens += n_right;
    if (is_by_model) {
        job->counts.model_drafted_tokens += n_drafted;
        job->counts.model_accepted_tokens += n_right;
    }
    if (at < last)
        drop_draft(s, slot, slot->sequence.n - (last - at), ending == SHP_RUNNING);
    /* What made the logits such is in the cache, too, and would spoil the next answer. */
    if (code == SHP_CODE_NO_NUMBERS)
        shp_sequence_clear(&slot->sequence);
    if (ending != SHP_RUNNING)
        shp_job_end(s, slot, ending, code);
}

/* Prefill is complete: sample the first token. */
static void start_decode(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    int32_t tail = job->n_penalty < job->n_prompt ? job->n_penalty : job->n_prompt;
    shp_job_count_prompt(slot);
    slot->is_decoding = 1;
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
        shp_drafting_begin(s, slot);
        sample(s, slot);
    }
}

static void save_checkpoint(shp_scheduler *s, const shp_slot *slot) {
    const shp_job *job = slot->job;
    if (s->context.kind == SHP_PLAIN)
        return;
    for (int32_t i = 0; i < job->n_boundaries; i++)
        if (job->boundaries[i] == slot->sequence.n)
            shp_snapshots_save(&s->snapshots, &slot->sequence, SHP_STATE_PARTIAL);
}

static void append_batched(shp_scheduler *s, shp_slot *slot) {
    shp_sequence_append(&slot->sequence, s->batch.token + slot->first, s->batch.pos + slot->first, slot->n_batched);
}

static void report_prefill(const shp_slot *slot) {
    const shp_job *job = slot->job;
    int32_t n_reused = (int32_t)job->counts.reused_tokens;
    if (!job->is_resumed)
        shp_stream_report(job->out, slot->sequence.n - n_reused, job->n_prompt - n_reused);
}

static void after_batch(shp_scheduler *s) {
    s->prefill_limit = 2 * s->prefill_limit + 1 < s->n_chunk ? 2 * s->prefill_limit + 1 : s->n_chunk;
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].n_batched > 0)
            append_batched(s, &s->slots.items[i]);
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (slot->n_batched == 0)
            continue;
        if (slot->is_decoding) {
            sample(s, slot);
            continue;
        }
        report_prefill(slot);
        if (slot->sequence.n == slot->job->n_prompt)
            start_decode(s, slot);
        else
            save_checkpoint(s, slot);
    }
}

/* No idle sequence is left to evict, and the batch is as small as it can be. */
static void preempt_or_end(shp_scheduler *s, shp_slot *slot) {
    shp_slot *background = shp_scheduler_background_slot(s);
    int32_t n_jobs = 0;
    for (int32_t i = 0; i < s->slots.n; i++)
        n_jobs += s->slots.items[i].job != NULL;
    if (n_jobs > 1) {
        s->is_admission_paused = 1;
        shp_job_preempt(s, background ? background : slot);
    } else if (slot->is_decoding)
        shp_job_end(s, slot, SHP_END_LENGTH, 0);
    else
        shp_job_end(s, slot, SHP_END_FAILED, 1);
}

/* The cache has no room for the batch, and has not changed. */
static void make_room(shp_scheduler *s) {
    shp_slot *slot = NULL;
    int32_t n_prompt = 0;
    if (s->n_drafted > 0) {
        s->n_without_drafts = WITHOUT_DRAFTS;
        return;
    }
    if (shp_slots_evict(&s->slots))
        return;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *one = &s->slots.items[i];
        if (one->n_batched == 0)
            continue;
        n_prompt += one->is_decoding ? 0 : one->n_batched;
        if (!slot || one->is_decoding)
            slot = one;
    }
    if (s->picture) {
        preempt_or_end(s, slot);
        return;
    }
    s->prefill_limit = n_prompt / 2;
    if (n_prompt > 1 || (n_prompt == 1 && s->has_decode))
        return;
    s->prefill_limit = 1;
    preempt_or_end(s, slot);
}

/* Bring the mirror of a sequence in line with what an aborted batch has left of it in the cache. */
static void resync(shp_scheduler *s, shp_slot *slot) {
    /* A recurrent state may include a part of the batch, whatever its position says. */
    if (shp_sequence_is_state(&slot->sequence)) {
        shp_snapshots_back(&s->snapshots, &slot->sequence, slot->sequence.n);
        return;
    }
    append_batched(s, slot);
    shp_sequence_match_cache(&slot->sequence);
}

/* The batch was aborted (2), refused (-1) or failed (below -1): the cache counts, not our mirror. */
static void recover(shp_scheduler *s, int32_t code) {
    uint64_t batched = 0, wrong = 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        if (slot->n_batched == 0)
            continue;
        batched |= 1ull << i;
        if (code != -1)
            resync(s, slot);
        else if (!shp_sequence_match_cache(&slot->sequence))
            wrong |= 1ull << i;
    }
    /* A whole batch is refused for one sequence that does not match; after other failures none can be trusted. */
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

static int32_t decode_picture(shp_scheduler *s) {
    shp_llama_batch batch = s->batch;
    batch.token = NULL;
    batch.embd = s->picture->embeddings + (size_t)s->n_seen * (size_t)s->context.n_embd;
    if (s->picture->places)
        batch.pos = s->places;
    if (s->picture->is_whole)
        shp_api.set_causal_attn(s->context.ctx, false);
    int32_t code = shp_api.decode(s->context.ctx, batch);
    if (s->picture->is_whole)
        shp_api.set_causal_attn(s->context.ctx, true);
    return code;
}

void shp_batch_decode(shp_scheduler *s) {
    int64_t started = shp_now_ns(), counted = shp_drafting_clock(s);
    s->is_in_decode_call = 1;
    int32_t code = s->picture ? decode_picture(s) : shp_api.decode(s->context.ctx, s->batch);
    s->is_in_decode_call = 0;
    if (code == 0 && s->draft == SHP_DRAFT_AUTO) {
        shp_api.synchronize(s->context.ctx);
        shp_drafting_measure(s, shp_drafting_clock(s) - counted);
    }
    s->model_ns += shp_now_ns() - started;
    if (code == 0)
        after_batch(s);
    else if (code == 1)
        make_room(s);
    else
        recover(s, code);
}
