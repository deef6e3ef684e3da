/* Slots: which sequence a prompt continues.

   A prompt that keeps at least half of an idle sequence's tokens, not counting the shared head (the system prompt), is
   the same conversation: it continues that sequence, from which the rest is cut off. Any other prompt takes an empty
   slot, else the least recently used one, whose sequence is parked. The prefix that it shares with a resident sequence
   is not computed again: the cells are shared (llama_memory_seq_cp, exact). A parked sequence is restored when it has
   a longer prefix of the prompt than all resident ones.
   Cost per prompt: one comparison of ids per slot and parked sequence, 0.5 ns per token and comparison. */
#include "slots.h"

/* Computing fewer tokens again costs less than parking them, or waiting for them. */
enum { MIN_PARKED = 32, MIN_SHARED = 32 };

/* How many of the source's first n tokens can be shared: fewer where a state or a lost window forbids it. */
static int32_t sharable_now(const shp_slots *slots, const shp_sequence *source, const int32_t *prompt, int32_t n) {
    if (n == 0 || shp_sequence_has_hole(source, n))
        return 0;
    if (shp_sequence_has_end(source, n))
        return n;
    long i = shp_snapshots_checkpoint(slots->snapshots, prompt, n);
    return i < 0 ? 0 : slots->snapshots->items[i].n;
}

/* Share the first n tokens of the source with another sequence, with the checkpoint that this needs, if any. */
static void share(shp_slots *slots, shp_sequence *target, const shp_sequence *source, int32_t n) {
    if (shp_sequence_has_end(source, n)) {
        if (shp_sequence_copy_head(target, source, n) && !shp_sequence_verify(target, n))
            shp_sequence_clear(target);
        return;
    }
    long i = shp_snapshots_checkpoint(slots->snapshots, source->ids, n);
    if (i >= 0 && (source->context->kind == SHP_RECURRENT || shp_sequence_copy_head(target, source, n)))
        shp_snapshots_restore(slots->snapshots, (size_t)i, target);
}

static void park(shp_slots *slots, shp_slot *slot) {
    if (slot->sequence.n >= MIN_PARKED)
        shp_snapshots_save(slots->snapshots, &slot->sequence, SHP_STATE_WHOLE);
}

/* The least recently used idle slot, an empty one first; `not_empty`: only one that holds tokens. */
static shp_slot *least_recently_used(shp_slots *slots, int not_empty, const shp_slot *except) {
    shp_slot *best = NULL;
    for (int32_t i = 0; i < slots->n; i++) {
        shp_slot *slot = &slots->items[i];
        int is_empty = slot->sequence.n == 0;
        if (slot->job || slot == except || (not_empty && is_empty))
            continue;
        if (!best || is_empty > (best->sequence.n == 0)
            || (is_empty == (best->sequence.n == 0) && slot->sequence.used_at < best->sequence.used_at))
            best = slot;
    }
    return best;
}

static int evict(shp_slots *slots, const shp_slot *except) {
    shp_slot *slot = least_recently_used(slots, 1, except);
    if (!slot)
        return 0;
    park(slots, slot);
    shp_sequence_clear(&slot->sequence);
    return 1;
}

int shp_slots_evict(shp_slots *slots) { return evict(slots, NULL); }

/* Evict other idle sequences until n more tokens fit into the cache, or nothing is left to evict. */
static void make_room(shp_slots *slots, const shp_slot *keep, int32_t n) {
    int64_t used;
    do {
        used = n;
        for (int32_t i = 0; i < slots->n; i++)
            used += slots->items[i].sequence.n;
    } while (used > slots->n_cells && evict(slots, keep));
}

/* Whether n tokens fit beside those of running jobs once all idle sequences are evicted. If nothing runs, waiting
   cannot help: yes. */
static int can_fit(const shp_slots *slots, int32_t n) {
    int64_t used = 0;
    for (int32_t i = 0; i < slots->n; i++)
        used += slots->items[i].job ? slots->items[i].sequence.n : 0;
    return used == 0 || used + n <= slots->n_cells;
}

/* The idle slot that has the prompt's conversation, and how many tokens it keeps; NULL: none. */
static shp_slot *slot_of_conversation(shp_slots *slots, const int32_t *prompt, int32_t most, int32_t n_shared_head,
                                      int32_t *kept) {
    shp_slot *best = NULL;
    *kept = 0;
    for (int32_t i = 0; i < slots->n; i++) {
        shp_slot *slot = &slots->items[i];
        if (slot->job || slot->sequence.n == 0)
            continue;
        int32_t n = shp_sequence_edit(&slot->sequence, prompt, most, slots->edit, 0);
        int32_t head = n_shared_head < n ? n_shared_head : n;
        if (n > *kept && 2 * (n - head) >= slot->sequence.n - head) {
            best = slot;
            *kept = n;
        }
    }
    return best;
}

/* The resident sequence with the longest sharable prefix of the prompt, and that length; NULL: none. */
static const shp_sequence *longest_shared(const shp_slots *slots, const int32_t *prompt, int32_t most,
                                          int32_t *common) {
    const shp_sequence *best = NULL;
    *common = 0;
    for (int32_t i = 0; i < slots->n; i++) {
        const shp_sequence *sequence = &slots->items[i].sequence;
        int32_t n = sharable_now(slots, sequence, prompt, shp_sequence_common(sequence, prompt, most));
        if (n > *common) {
            best = sequence;
            *common = n;
        }
    }
    return best;
}

void shp_slots_realign(shp_slots *slots, shp_slot *slot, const int32_t *prompt, int32_t n_prompt) {
    shp_sequence *sequence = &slot->sequence;
    int32_t n = shp_sequence_edit(sequence, prompt, n_prompt - 1, slots->edit, 1);
    if (n < sequence->n)
        shp_snapshots_rewind(slots->snapshots, sequence, n);
    /* A checkpoint of a recurrent model is complete: it fits into any sequence. */
    if (sequence->n == 0 && sequence->context->kind == SHP_RECURRENT) {
        long i = shp_snapshots_checkpoint(slots->snapshots, prompt, n_prompt - 1);
        if (i >= 0)
            shp_snapshots_restore(slots->snapshots, (size_t)i, sequence);
    }
}

/* How many tokens a prompt can share with a slot in prefill, once that slot has computed them. */
static int32_t sharable_later(const shp_slots *slots, const shp_slot *source, const int32_t *prompt, int32_t most) {
    const shp_job *job = source->job;
    int32_t n = 0, at_boundary = 0;
    most = most < job->n_prompt ? most : job->n_prompt;
    while (n < most && job->prompt[n] == prompt[n])
        n++;
    if (source->sequence.context->kind == SHP_PLAIN)
        return n;
    /* A state or a sliding window can be shared only where a checkpoint is saved. */
    for (int32_t i = 0; slots->snapshots->budget > 0 && i < job->n_boundaries; i++)
        if (job->boundaries[i] <= n)
            at_boundary = job->boundaries[i];
    return at_boundary;
}

void shp_slots_find_prefix_source(shp_slots *slots, shp_slot *slot) {
    const shp_job *job = slot->job;
    slot->prefix_source = -1;
    slot->n_prefix = slot->sequence.n + MIN_SHARED - 1;
    for (int32_t i = 0; i < slots->n; i++) {
        const shp_slot *other = &slots->items[i];
        /* Only one that started earlier, so that no slots wait in a circle, and never a foreground job for a background
           job, which is paused meanwhile. */
        if (!other->job || other->is_decoding || other->sequence.used_at >= slot->sequence.used_at
            || (other->job->is_background && !job->is_background))
            continue;
        int32_t n = sharable_later(slots, other, job->prompt, job->n_prompt - 1);
        if (n > slot->n_prefix && n > other->sequence.n) {
            slot->prefix_source = i;
            slot->prefix_source_run = other->sequence.used_at;
            slot->n_prefix = n;
        }
    }
}

int shp_slots_awaits_prefix(shp_slots *slots, shp_slot *slot) {
    int32_t common, most = slot->job->n_prompt - 1;
    if (slot->prefix_source < 0)
        return 0;
    const shp_slot *source = &slots->items[slot->prefix_source];
    int is_same = source->job && source->sequence.used_at == slot->prefix_source_run;
    if (is_same && !source->is_decoding && source->sequence.n < slot->n_prefix)
        return 1;
    const shp_sequence *longest = longest_shared(slots, slot->job->prompt, most, &common);
    if (longest && longest != &slot->sequence && common > slot->sequence.n)
        share(slots, &slot->sequence, longest, common);
    slot->job->counts.reused_tokens = slot->sequence.n;
    shp_slots_find_prefix_source(slots, slot);
    return slot->prefix_source >= 0;
}

/* Prepare the least recently used slot for a new conversation: park its sequence, and share the longest prefix of the
   prompt that any sequence has. NULL: no slot is idle. */
static shp_slot *start_conversation(shp_slots *slots, const int32_t *prompt, int32_t n_prompt) {
    int32_t common;
    shp_slot *slot = least_recently_used(slots, 0, NULL);
    if (!slot)
        return NULL;
    park(slots, slot);
    const shp_sequence *source = longest_shared(slots, prompt, n_prompt - 1, &common);
    if (source == &slot->sequence || !source)
        return slot; /* shp_slots_realign cuts it to the common prefix */
    shp_sequence_clear(&slot->sequence);
    share(slots, &slot->sequence, source, common);
    return slot;
}

int32_t shp_slots_held(const shp_slots *slots, const int32_t *prompt, int32_t n_prompt) {
    int32_t shared, parked, is_state = shp_sequence_is_state(&slots->items[0].sequence);
    longest_shared(slots, prompt, n_prompt - 1, &shared);
    shp_snapshots_parked(slots->snapshots, prompt, n_prompt - 1, is_state, &parked);
    return shared > parked ? shared : parked;
}

/* The parked sequence with the longest prefix of the prompt, if it has room now; else -1. A restore without room fails,
   and the snapshot would be lost. */
static long restorable(const shp_slots *slots, const int32_t *prompt, int32_t most, int32_t *common) {
    int is_state = shp_sequence_is_state(&slots->items[0].sequence);
    long parked = shp_snapshots_parked(slots->snapshots, prompt, most, is_state, common);
    return parked >= 0 && can_fit(slots, slots->snapshots->items[parked].n) ? parked : -1;
}

/* Whether the prompt's conversation is parked and has no room now. */
static int must_wait(const shp_slots *slots, const int32_t *prompt, int32_t most, int32_t n_shared_head) {
    int32_t common, head, n;
    int is_state = shp_sequence_is_state(&slots->items[0].sequence);
    long parked = shp_snapshots_parked(slots->snapshots, prompt, most, is_state, &common);
    if (parked < 0)
        return 0;
    n = slots->snapshots->items[parked].n;
    head = n_shared_head < common ? n_shared_head : common;
    return common > head && 2 * (common - head) >= n - head && !can_fit(slots, n);
}

shp_slot *shp_slots_place(shp_slots *slots, const int32_t *prompt, int32_t n_prompt, int32_t n_shared_head) {
    int32_t kept, common, most = n_prompt - 1;
    shp_slot *slot = slot_of_conversation(slots, prompt, most, n_shared_head, &kept);
    if (!slot && must_wait(slots, prompt, most, n_shared_head))
        return NULL;
    if (!slot || (restorable(slots, prompt, most, &common) >= 0 && common > kept)) {
        slot = start_conversation(slots, prompt, n_prompt);
        if (!slot)
            return NULL;
        /* Parking may have changed the indices of other snapshots. */
        long parked = restorable(slots, prompt, most, &common);
        if (parked >= 0 && common > shp_sequence_common(&slot->sequence, prompt, most)) {
            shp_sequence_clear(&slot->sequence);
            make_room(slots, slot, slots->snapshots->items[parked].n);
            parked = restorable(slots, prompt, most, &common);
            if (parked >= 0)
                shp_snapshots_restore(slots->snapshots, (size_t)parked, &slot->sequence);
        }
    }
    int is_staged = slot->sequence.staged_at == slot->sequence.used_at;
    slot->sequence.used_at = ++slots->clock;
    slot->sequence.staged_at = is_staged ? slot->sequence.used_at : 0; /* what is left of it */
    shp_slots_realign(slots, slot, prompt, n_prompt);
    return slot;
}
