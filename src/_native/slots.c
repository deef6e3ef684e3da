/* Slots: which sequence a prompt goes on with.

   A prompt that keeps at least half of an idle sequence's tokens, those of the system prompt not counted, is the same
   conversation: it goes on there, and what it lacks is cut off. Any other takes an empty slot, else the one used longest ago, whose sequence is parked; the
   tokens it shares with any sequence, such as a system prompt, are shared cells (llama_memory_seq_cp, exact). A
   parked sequence comes back when it has more of the prompt than what is resident.
   Cost per prompt: one comparison of ids for each slot and each parked sequence, 0.5 ns per token and comparison. */
#include "slots.h"

/* Reading so few tokens again costs less than to keep them, or to wait for them. */
enum { PARK_LEAST = 32, LEAD_LEAST = 32 };

/* How many of the first n tokens of the source could be shared: less where a state or a lost window forbids it. */
static int32_t shareable(const shp_slots *slots, const shp_sequence *source, const int32_t *prompt, int32_t n) {
    if (n == 0 || source->positions[n - 1] != n - 1)
        return 0;
    if (shp_sequence_has_end(source, n))
        return n;
    long i = shp_snapshots_checkpoint(slots->snapshots, prompt, n);
    return i < 0 ? 0 : slots->snapshots->items[i].n;
}

/* Put the first n tokens of the source into another sequence, with the checkpoint that this needs, if any. */
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
    if (slot->sequence.n >= PARK_LEAST)
        shp_snapshots_save(slots->snapshots, &slot->sequence, SHP_STATE_WHOLE);
}

/* The idle slot that was used longest ago, an empty one first; one that holds something if it must. */
static shp_slot *least_used(shp_slots *slots, int must_hold, const shp_slot *except) {
    shp_slot *best = NULL;
    for (int32_t i = 0; i < slots->n; i++) {
        shp_slot *slot = &slots->items[i];
        int is_empty = slot->sequence.n == 0;
        if (slot->job || slot == except || (must_hold && is_empty))
            continue;
        if (!best || is_empty > (best->sequence.n == 0)
            || (is_empty == (best->sequence.n == 0) && slot->sequence.used_at < best->sequence.used_at))
            best = slot;
    }
    return best;
}

static int evict(shp_slots *slots, const shp_slot *except) {
    shp_slot *slot = least_used(slots, 1, except);
    if (!slot)
        return 0;
    park(slots, slot);
    shp_sequence_clear(&slot->sequence);
    return 1;
}

int shp_slots_evict(shp_slots *slots) { return evict(slots, NULL); }

/* Evict others until n more tokens fit beside what is resident, or nothing is left to evict. */
static void make_room(shp_slots *slots, const shp_slot *keep, int32_t n) {
    int64_t used;
    do {
        used = n;
        for (int32_t i = 0; i < slots->n; i++)
            used += slots->items[i].sequence.n;
    } while (used > slots->n_cells && evict(slots, keep));
}

/* Whether so many tokens fit beside those of the runs under way, once the idle are gone. Where nothing runs they do, or
   never will. */
static int can_fit(const shp_slots *slots, int32_t n) {
    int64_t used = 0;
    for (int32_t i = 0; i < slots->n; i++)
        used += slots->items[i].job ? slots->items[i].sequence.n : 0;
    return used == 0 || used + n <= slots->n_cells;
}

/* The idle slot whose conversation this is, and how many tokens it keeps. */
static shp_slot *home(shp_slots *slots, const int32_t *prompt, int32_t most, int32_t n_head, int32_t *kept) {
    shp_slot *best = NULL;
    *kept = 0;
    for (int32_t i = 0; i < slots->n; i++) {
        shp_slot *slot = &slots->items[i];
        if (slot->job || slot->sequence.n == 0)
            continue;
        int32_t n = shp_sequence_edit(&slot->sequence, prompt, most, slots->edit, 0);
        int32_t head = n_head < n ? n_head : n;
        if (n > *kept && 2 * (n - head) >= slot->sequence.n - head) {
            best = slot;
            *kept = n;
        }
    }
    return best;
}

static const shp_sequence *richest(const shp_slots *slots, const int32_t *prompt, int32_t most, int32_t *common) {
    const shp_sequence *best = NULL;
    *common = 0;
    for (int32_t i = 0; i < slots->n; i++) {
        const shp_sequence *sequence = &slots->items[i].sequence;
        int32_t n = shareable(slots, sequence, prompt, shp_sequence_common(sequence, prompt, most));
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
    /* A checkpoint of a recurrent model is all there is to know, wherever its sequence went. */
    if (sequence->n == 0 && sequence->context->kind == SHP_RECURRENT) {
        long i = shp_snapshots_checkpoint(slots->snapshots, prompt, n_prompt - 1);
        if (i >= 0)
            shp_snapshots_restore(slots->snapshots, (size_t)i, sequence);
    }
}

/* How many tokens a prompt could take over from a slot that is reading its own, once it has read them. */
static int32_t promised(const shp_slots *slots, const shp_slot *leader, const int32_t *prompt, int32_t most) {
    const shp_job *job = leader->job;
    int32_t n = 0, at_boundary = 0;
    most = most < job->n_prompt ? most : job->n_prompt;
    while (n < most && job->prompt[n] == prompt[n])
        n++;
    if (leader->sequence.context->kind == SHP_PLAIN)
        return n;
    /* A state, or a window that moves on, can be had where a checkpoint is kept. */
    for (int32_t i = 0; slots->snapshots->budget > 0 && i < job->n_boundaries; i++)
        if (job->boundaries[i] <= n)
            at_boundary = job->boundaries[i];
    return at_boundary;
}

void shp_slots_follow(shp_slots *slots, shp_slot *slot) {
    const shp_job *job = slot->job;
    slot->leader = -1;
    slot->n_led = slot->sequence.n + LEAD_LEAST - 1;
    for (int32_t i = 0; i < slots->n; i++) {
        const shp_slot *other = &slots->items[i];
        /* Only one that came before: nobody waits in a circle. And never for what pauses while this one is there. */
        if (!other->job || other->is_generating || other->sequence.used_at >= slot->sequence.used_at
            || (other->job->is_background && !job->is_background))
            continue;
        int32_t n = promised(slots, other, job->prompt, job->n_prompt - 1);
        if (n > slot->n_led && n > other->sequence.n) {
            slot->leader = i;
            slot->leader_at = other->sequence.used_at;
            slot->n_led = n;
        }
    }
}

int shp_slots_is_led(shp_slots *slots, shp_slot *slot) {
    int32_t common, most = slot->job->n_prompt - 1;
    if (slot->leader < 0)
        return 0;
    const shp_slot *leader = &slots->items[slot->leader];
    int is_same = leader->job && leader->sequence.used_at == slot->leader_at;
    if (is_same && !leader->is_generating && leader->sequence.n < slot->n_led)
        return 1;
    const shp_sequence *source = richest(slots, slot->job->prompt, most, &common);
    if (source && source != &slot->sequence && common > slot->sequence.n)
        share(slots, &slot->sequence, source, common);
    slot->job->counts.reused_tokens = slot->sequence.n;
    shp_slots_follow(slots, slot);
    return slot->leader >= 0;
}

/* An empty slot, or the one used longest ago, filled with what another sequence has in common with the prompt. */
static shp_slot *settle(shp_slots *slots, const int32_t *prompt, int32_t n_prompt) {
    int32_t common;
    shp_slot *slot = least_used(slots, 0, NULL);
    if (!slot)
        return NULL;
    park(slots, slot);
    const shp_sequence *source = richest(slots, prompt, n_prompt - 1, &common);
    if (source == &slot->sequence || !source)
        return slot; /* what it has in common is cut to in its place */
    shp_sequence_clear(&slot->sequence);
    share(slots, &slot->sequence, source, common);
    return slot;
}

/* What is parked that has most of the prompt, if it could be put back now: a restore without room fails, and what was
   parked is gone with it. */
static long fetchable(const shp_slots *slots, const int32_t *prompt, int32_t most, int32_t *common) {
    int is_state = shp_sequence_is_state(&slots->items[0].sequence);
    long parked = shp_snapshots_parked(slots->snapshots, prompt, most, is_state, common);
    return parked >= 0 && can_fit(slots, slots->snapshots->items[parked].n) ? parked : -1;
}

/* Whether the prompt's conversation is parked, and has no room. */
static int must_wait(const shp_slots *slots, const int32_t *prompt, int32_t most, int32_t n_head) {
    int32_t common, head, n;
    int is_state = shp_sequence_is_state(&slots->items[0].sequence);
    long parked = shp_snapshots_parked(slots->snapshots, prompt, most, is_state, &common);
    if (parked < 0)
        return 0;
    n = slots->snapshots->items[parked].n;
    head = n_head < common ? n_head : common;
    return common > head && 2 * (common - head) >= n - head && !can_fit(slots, n);
}

shp_slot *shp_slots_place(shp_slots *slots, const int32_t *prompt, int32_t n_prompt, int32_t n_head) {
    int32_t kept, common, most = n_prompt - 1;
    shp_slot *slot = home(slots, prompt, most, n_head, &kept);
    if (!slot && must_wait(slots, prompt, most, n_head))
        return NULL;
    if (!slot || (fetchable(slots, prompt, most, &common) >= 0 && common > kept)) {
        slot = settle(slots, prompt, n_prompt);
        if (!slot)
            return NULL;
        /* Parking may have moved the others. */
        long parked = fetchable(slots, prompt, most, &common);
        if (parked >= 0 && common > shp_sequence_common(&slot->sequence, prompt, most)) {
            shp_sequence_clear(&slot->sequence);
            make_room(slots, slot, slots->snapshots->items[parked].n);
            parked = fetchable(slots, prompt, most, &common);
            if (parked >= 0)
                shp_snapshots_restore(slots->snapshots, (size_t)parked, &slot->sequence);
        }
    }
    slot->sequence.used_at = ++slots->clock;
    shp_slots_realign(slots, slot, prompt, n_prompt);
    return slot;
}
