/* Drafts of the running answers: which of them get one in the next batch, and what batches take.

   Only batches without prefill have drafts: a prompt fills its batch by itself. Background work does not draft, and
   neither does a scheduler that yields to another one: a message would have to wait for the longer batch. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* clock_gettime, pthread_condattr_setclock */
#endif
#include "scheduler_parts.h"

enum { ALWAYS_DRAFTED = 15 };
/* Looking for what a grammar allows may take this part of the time that its candidates take without a draft. */
static const double MOST_GRAMMAR_SHARE = 0.02;

void shp_drafting_begin(shp_scheduler *s, shp_slot *slot) {
    shp_job *job = slot->job;
    slot->draft.is_on = 0;
    if (s->draft != SHP_DRAFT_OFF && !s->yields_to && !job->is_background)
        shp_draft_begin(&slot->draft, &s->context, job->prompt, job->n_prompt,
                        job->earlier.n > 0 ? &job->earlier : NULL);
    if (slot->draft.is_on && s->draft_model && job->n_pictures == 0)
        shp_draft_model_begin(s->draft_model, &slot->draft);
}

static int can_draft(const shp_scheduler *s, int has_foreground) {
    if (s->draft == SHP_DRAFT_OFF || s->yields_to)
        return 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        const shp_slot *slot = &s->slots.items[i];
        if (slot->job && !slot->is_decoding && (!slot->job->is_background || !has_foreground))
            return 0;
    }
    return 1;
}

/* One slow search may be a coincidence, so their sum counts. */
static void collect_allowed(shp_scheduler *s, shp_slot *slot, int32_t most) {
    shp_draft *draft = &slot->draft;
    shp_letters_fill(&s->letters, &s->context);
    int64_t started = shp_thread_clock_ns();
    draft->n_allowed += 1 + shp_draft_collect_allowed(draft, slot->job->sampling.grammar, &s->letters, most);
    draft->grammar_ns += shp_thread_clock_ns() - started;
    if (s->draft == SHP_DRAFT_AUTO && s->costs.ns[1] > 0)
        draft->is_grammar_slow = (double)draft->grammar_ns > MOST_GRAMMAR_SHARE * s->costs.ns[1] * draft->n_allowed;
}

/* No more candidates than the answer and the window have room for. The last token of an answer is sampled and not
   decoded. */
static int32_t most_candidates(const shp_scheduler *s, const shp_slot *slot) {
    const shp_job *job = slot->job;
    int32_t most = SHP_MOST_DRAFTED, left = job->max_tokens - (int32_t)job->counts.sampled_tokens - 1;
    int32_t room = s->context.n_window - slot->sequence.n - 1;
    most = left < most ? left : most;
    return room < most ? room : most;
}

static int32_t collect(shp_scheduler *s, shp_slot *slot) {
    int32_t most = most_candidates(s, slot);
    if (most <= 0 || !slot->draft.is_on)
        return 0;
    if (slot->job->sampling.grammar && !slot->draft.is_grammar_slow)
        collect_allowed(s, slot, most);
    else
        shp_draft_collect(&slot->draft, most);
    return slot->draft.n_candidates;
}

/* As many as there are, up to a fixed number, whatever they cost. */
static void take_all(shp_draft *const *drafts, int32_t n, int32_t room) {
    for (int32_t i = 0; i < n; i++) {
        int32_t most = drafts[i]->n_candidates < room ? drafts[i]->n_candidates : room;
        drafts[i]->n = most < ALWAYS_DRAFTED ? most : ALWAYS_DRAFTED;
        room -= drafts[i]->n;
    }
}

static void choose(shp_scheduler *s, shp_slot *const *slots, int32_t n, int32_t room) {
    shp_draft *drafts[SHP_MOST_DRAFTS];
    int32_t n_drafts = 0;
    for (int32_t i = 0; i < n; i++)
        if (slots[i]->draft.is_on && slots[i]->draft.n_candidates > 0)
            drafts[n_drafts++] = &slots[i]->draft;
    if (s->draft == SHP_DRAFT_ALWAYS)
        take_all(drafts, n_drafts, room);
    else
        shp_draft_choose(drafts, n_drafts, n, room, &s->costs);
}

/* The model drafts where nothing else was chosen. */
static int draft_by_model(shp_scheduler *s, shp_slot *const *slots, int32_t n) {
    shp_drafted_answer answers[SHP_MOST_DRAFTS];
    int32_t n_answers = 0;
    for (int32_t i = 0; i < n; i++) {
        shp_draft *draft = &slots[i]->draft;
        if (draft->is_on && draft->n == 0 && draft->model)
            answers[n_answers++] = (shp_drafted_answer){draft, (int32_t)(slots[i] - s->slots.items),
                                                        most_candidates(s, slots[i]), 1};
    }
    if (n_answers == 0)
        return 0;
    int64_t started = shp_now_ns();
    int has_drafted = shp_draft_model_draft(s->draft_model, answers, n_answers, n, &s->costs, s->draft);
    s->model_ns += shp_now_ns() - started;
    return has_drafted;
}

void shp_drafting_choose(shp_scheduler *s, int has_foreground) {
    shp_slot *slots[SHP_MOST_DRAFTS];
    int32_t n = 0;
    int can = can_draft(s, has_foreground) && s->n_without_drafts == 0;
    s->n_without_drafts -= s->n_without_drafts > 0;
    for (int32_t i = 0; i < s->slots.n; i++) {
        shp_slot *slot = &s->slots.items[i];
        slot->draft.n = slot->draft.n_candidates = slot->draft.n_taken = 0;
        if (!slot->job || !slot->is_decoding || (slot->job->is_background && has_foreground))
            continue;
        slots[n++] = slot;
        if (can)
            collect(s, slot);
    }
    int32_t room = s->n_chunk - n;
    if (!can || n == 0 || room <= 0)
        return;
    choose(s, slots, n, room);
    if (s->draft_model && draft_by_model(s, slots, n))
        choose(s, slots, n, room);
}

/* Another program that takes the core makes a batch take longer, but not compute more. */
int64_t shp_drafting_clock(const shp_scheduler *s) { return s->is_on_cpu ? shp_thread_clock_ns() : shp_now_ns(); }

void shp_drafting_measure(shp_scheduler *s, int64_t ns) {
    for (int32_t i = 0; i < s->slots.n; i++)
        if (s->slots.items[i].n_batched > 0 && !s->slots.items[i].is_decoding)
            return;
    shp_batch_costs_add(&s->costs, s->batch.n_tokens, ns);
}
