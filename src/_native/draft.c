/* Drafts without a second model: an answer often repeats what was said before.

   An answer that has just repeated some tokens of its conversation, or of an earlier answer to the same user, is
   expected to go on repeating: the place is followed token by token, and sought anew when it was wrong. After a long
   run one wrong token is taken for a change of a word, and the run goes on behind it.

   How likely a candidate is right depends on how long the text has agreed. Each answer learns this for each kind of
   candidate by what it samples, also where nothing is drafted, since a prediction costs nothing: so an answer that
   repeats nothing drafts nothing, and one that begins to repeat does so at once. */
#include "draft.h"

#include <string.h>

enum {
    FORCED = SHP_DRAFT_KINDS - 1, /* the kind of the grammar's candidates */
    SURE_MATCHED = 8,
    RESUMED_MATCHED = 8, /* a run of so many tokens is resumed behind a changed one */
};

/* The least agreement of each kind; the first is that of a run which is resumed behind a changed token. */
static const int32_t least_matched[FORCED] = {0, 2, 3, 4, 6, 8, 16, 32};
/* How often the candidates of each kind are right before this is known of an answer, and what that is worth. */
static const float expected[SHP_DRAFT_KINDS] = {.5f, .2f, .3f, .45f, .6f, .75f, .88f, .94f, .8f};
static const float EXPECTED_WEIGHT = 4, KEPT = .95f;

void shp_draft_free(shp_draft *d) { shp_ngrams_free(&d->own); }

static int kind_of(const shp_draft *d, int32_t n_more) {
    int kind = FORCED - 1;
    if (d->is_forced)
        return FORCED;
    while (kind > 0 && d->n_matched + n_more < least_matched[kind])
        kind--;
    return kind;
}

float shp_draft_chance(const shp_draft *d, int32_t i) {
    int kind = kind_of(d, i);
    return (d->right[kind] + EXPECTED_WEIGHT * expected[kind]) / (d->seen[kind] + EXPECTED_WEIGHT);
}

static void learn(shp_draft *d, int is_right) {
    int kind = kind_of(d, 0);
    d->seen[kind] = KEPT * d->seen[kind] + 1;
    d->right[kind] = KEPT * d->right[kind] + (is_right ? 1 : 0);
}

/* Where the end of the text occurs longest; 0: nowhere. */
static int find(shp_draft *d) {
    int32_t length, other_length, other;
    int32_t at = shp_ngrams_find(&d->own, d->own.ids, d->own.n, &length);
    d->source = at < 0 ? NULL : &d->own;
    if (d->earlier && (other = shp_ngrams_find(d->earlier, d->own.ids, d->own.n, &other_length)) >= 0
        && other_length > length) {
        d->source = d->earlier;
        at = other;
        length = other_length;
    }
    d->at = at;
    d->n_matched = length;
    return d->source != NULL;
}

void shp_draft_begin(shp_draft *d, const int32_t *ids, int32_t n, const shp_ngrams *earlier) {
    shp_ngrams own = d->own;
    memset(d, 0, sizeof *d);
    d->own = own;
    d->is_on = shp_ngrams_assign(&d->own, ids, n);
    d->earlier = earlier;
    if (d->is_on)
        find(d);
}

static void follow(shp_draft *d, int32_t token) {
    const shp_ngrams *source = d->source;
    int32_t n_matched = d->n_matched, behind = d->at + 1;
    int is_right = source && source->ids[d->at] == token;
    if (is_right && behind < source->n) {
        d->at = behind;
        d->n_matched++;
        return;
    }
    if (!find(d) && source && !is_right && n_matched >= RESUMED_MATCHED && behind < source->n) {
        d->source = source;
        d->at = behind;
        d->n_matched = 0;
    }
}

void shp_draft_take(shp_draft *d, int32_t token) {
    if (!d->is_on)
        return;
    if (d->is_forced && d->n_candidates > 0)
        learn(d, d->tokens[0] == token);
    d->is_forced = 0;
    d->n_candidates = 0;
    if (d->source)
        learn(d, d->source->ids[d->at] == token);
    d->is_on = shp_ngrams_add(&d->own, token);
    if (d->is_on)
        follow(d, token);
}

int32_t shp_draft_collect(shp_draft *d, const shp_context *context, int32_t most) {
    d->is_forced = 0;
    d->n_candidates = d->n = 0;
    if (!d->is_on || !d->source)
        return 0;
    for (int32_t i = d->at; d->n_candidates < most; i++) {
        /* A conversation that repeats itself to its end goes on with what was just drafted. */
        if (i >= d->source->n && (d->source != &d->own || i - d->source->n >= d->n_candidates))
            break;
        int32_t token = i < d->source->n ? d->source->ids[i] : d->tokens[i - d->source->n];
        if (shp_api.is_eog(context->vocab, token))
            break;
        d->tokens[d->n_candidates++] = token;
    }
    return d->n_candidates;
}

void shp_draft_force(shp_draft *d, const int32_t *tokens, int32_t n) {
    memcpy(d->tokens, tokens, (size_t)n * sizeof *tokens);
    d->n_candidates = n;
    d->is_forced = 1;
}

int shp_draft_is_sure(const shp_draft *d) { return d->n_candidates > 0 && d->n_matched >= SURE_MATCHED; }
