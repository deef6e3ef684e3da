/* The mirror of one sequence.

   Invariant between calls: llama.cpp's cache holds exactly `ids[0..n)` of this sequence, at `positions[0..n)`, and
   the next token that is decoded sees all that it may attend to. Positions are 0..n-1 unless a hole was left, or a
   picture takes fewer positions than it has tokens (see pictures.h).

   Operations that each kind supports:
   - plain: any tail can be cut off;
   - sliding window: only while the window before the cut is there. seq_rm says yes even when it is gone, and the
     logits are then wrong without an error (off by 4.3 where logits are about 7);
   - recurrent, hybrid: nothing can be cut off, unless the context keeps snapshots to roll back to (n_rs_seq).
   After each operation llama.cpp's own positions are compared; a mismatch empties the sequence rather than risk a
   wrong logit. Costs: O(n) comparisons of 4 bytes for a prefix; the cache's own operations scan its cells. */
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

shp_llama shp_api;

/* Tokens that must agree behind a removed part before it counts as removed and not as something else. */
enum { EDIT_AGREE = 8 };

int shp_sequence_init(shp_sequence *s, const shp_context *context, int32_t id) {
    s->context = context;
    s->id = id;
    s->n = 0;
    s->used_at = s->staged_at = 0;
    s->belonging = (shp_belonging){0, 0, 0};
    s->ids = malloc((size_t)context->n_window * sizeof *s->ids);
    s->positions = malloc((size_t)context->n_window * sizeof *s->positions);
    return s->ids && s->positions;
}

void shp_sequence_free(shp_sequence *s) {
    free(s->ids);
    free(s->positions);
    s->ids = s->positions = NULL;
}

int32_t shp_sequence_common(const shp_sequence *s, const int32_t *ids, int32_t n) {
    int32_t i = 0, most = s->n < n ? s->n : n;
    while (i < most && s->ids[i] == ids[i])
        i++;
    /* A picture is reused as a whole or not at all. */
    return i == s->n ? shp_picture_round(ids, n, i) : shp_picture_round(s->ids, s->n, i);
}

static int32_t position_after(const shp_sequence *s, int32_t n) { return n == 0 ? 0 : s->positions[n - 1] + 1; }

int32_t shp_sequence_next_position(const shp_sequence *s) { return position_after(s, s->n); }

int shp_sequence_has_hole(const shp_sequence *s, int32_t n) {
    if (s->context->n_embd == 0) /* no pictures: nothing to count */
        return position_after(s, n) != n;
    return position_after(s, n) != shp_picture_positions(s->ids, n, NULL);
}

int shp_sequence_is_state(const shp_sequence *s) {
    return s->context->kind == SHP_RECURRENT || s->context->kind == SHP_HYBRID;
}

void shp_sequence_clear(shp_sequence *s) {
    shp_api.seq_rm(s->context->memory, s->id, -1, -1);
    s->n = 0;
}

/* Whether a token at this position would see all it may attend to: position p is seen while next - p < n_swa. */
static int holds_window(const shp_sequence *s, int32_t next) {
    int32_t n_swa = s->context->n_swa, first = next - n_swa + 1;
    if (n_swa <= 0)
        return 1;
    return shp_api.seq_pos_min(s->context->memory, s->id) <= (first > 0 ? first : 0);
}

int shp_sequence_verify(shp_sequence *s, int32_t n) {
    int32_t next = position_after(s, n);
    return shp_api.seq_pos_max(s->context->memory, s->id) == next - 1 && (n == 0 || holds_window(s, next));
}

int shp_sequence_has_end(const shp_sequence *s, int32_t n) {
    if (n == s->n)
        return 1;
    return !shp_sequence_is_state(s) && holds_window(s, position_after(s, n));
}

int shp_sequence_cut(shp_sequence *s, int32_t n) {
    if (n >= s->n)
        return 1;
    if (n == 0) {
        shp_sequence_clear(s);
        return 1;
    }
    int32_t next = position_after(s, n);
    if (!holds_window(s, next) || !shp_api.seq_rm(s->context->memory, s->id, next, -1))
        return 0;
    if (shp_api.seq_pos_max(s->context->memory, s->id) != next - 1) {
        shp_sequence_clear(s);
        return 0;
    }
    s->n = n;
    return 1;
}

void shp_sequence_append(shp_sequence *s, const int32_t *ids, const int32_t *positions, int32_t n) {
    memcpy(s->ids + s->n, ids, (size_t)n * sizeof *ids);
    memcpy(s->positions + s->n, positions, (size_t)n * sizeof *positions);
    s->n += n;
}

int shp_sequence_match_cache(shp_sequence *s) {
    int32_t last = shp_api.seq_pos_max(s->context->memory, s->id), n = s->n;
    if (last == position_after(s, n) - 1)
        return 1;
    while (n > 0 && s->positions[n - 1] > last)
        n--;
    /* A state behind an old position may hold half of a micro-batch, layer by layer. */
    if (n == 0 || s->positions[n - 1] != last || shp_sequence_is_state(s) || !holds_window(s, last + 1))
        shp_sequence_clear(s);
    else
        s->n = n;
    return 0;
}

/* Own copies of the cells of a sliding window. A cell that belongs to two sequences is not taken back when it has
   left the window of both, so shared ones would fill the ring. */
static int unshare(shp_sequence *s) {
    size_t size = shp_api.state_size(s->context->ctx, s->id, SHP_STATE_PARTIAL);
    uint8_t *data = malloc(size ? size : 1);
    int done = data && shp_api.state_get(s->context->ctx, data, size, s->id, SHP_STATE_PARTIAL) == size
               && shp_api.state_set(s->context->ctx, data, size, s->id, SHP_STATE_PARTIAL) == size;
    free(data);
    return done;
}

/* Share the first n tokens of another sequence; exact. 0, and s empty, where that cannot be. A state is shared as it
   is now, so it must be that of exactly n tokens, unless a checkpoint is put over it afterwards. */
int shp_sequence_copy_head(shp_sequence *s, const shp_sequence *source, int32_t n) {
    shp_sequence_clear(s);
    if (n <= 0 || n > source->n || shp_sequence_has_hole(source, n))
        return 0;
    shp_api.seq_cp(s->context->memory, source->id, s->id, 0, position_after(source, n));
    memcpy(s->ids, source->ids, (size_t)n * sizeof *s->ids);
    memcpy(s->positions, source->positions, (size_t)n * sizeof *s->positions);
    s->n = n;
    if (s->context->kind == SHP_SLIDING && !unshare(s)) {
        shp_sequence_clear(s);
        return 0;
    }
    return 1;
}

/* Take tokens [from, to) out of the middle; 0 where the cache refuses, and then it is as it was or empty. */
static int take_out(shp_sequence *s, int32_t from, int32_t to, shp_edit edit) {
    void *memory = s->context->memory;
    int32_t first = s->positions[from], after = s->positions[to], gap = after - first;
    if (edit == SHP_EDIT_SHIFT && !shp_api.can_shift(memory))
        return 0;
    if (!shp_api.seq_rm(memory, s->id, first, after))
        return 0;
    if (edit == SHP_EDIT_SHIFT)
        shp_api.seq_add(memory, s->id, after, -1, -gap);
    for (int32_t i = to; i < s->n; i++) {
        s->ids[from + i - to] = s->ids[i];
        s->positions[from + i - to] = s->positions[i] - (edit == SHP_EDIT_SHIFT ? gap : 0);
    }
    s->n -= to - from;
    if (shp_api.seq_pos_max(memory, s->id) == position_after(s, s->n) - 1)
        return 1;
    shp_sequence_clear(s);
    return 0;
}

/* Where the mirror agrees with the prompt again behind `at`, or -1: the end of a removed part. */
static int32_t agreement(const shp_sequence *s, int32_t at, const int32_t *prompt, int32_t n_prompt) {
    for (int32_t to = at + 1; to < s->n; to++) {
        int32_t left = s->n - to, most = left < EDIT_AGREE ? left : EDIT_AGREE;
        if (most <= n_prompt && memcmp(s->ids + to, prompt, (size_t)most * sizeof *prompt) == 0)
            return to;
    }
    return -1;
}

int32_t shp_sequence_edit(shp_sequence *s, const int32_t *prompt, int32_t n_prompt, shp_edit edit, int apply) {
    int32_t at = shp_sequence_common(s, prompt, n_prompt), kept = at;
    if (edit == SHP_EDIT_EXACT)
        return kept;
    /* `at` runs over the mirror, `kept` over the prompt; they differ by what is skipped and not yet taken out. */
    while (at < s->n && kept < n_prompt) {
        int32_t to = agreement(s, at, prompt + kept, n_prompt - kept);
        if (to < 0)
            break;
        if (apply) {
            if (!take_out(s, at, to, edit))
                break;
            to = at;
        }
        at = to;
        while (at < s->n && kept < n_prompt && s->ids[at] == prompt[kept]) {
            at++;
            kept++;
        }
    }
    return kept;
}
