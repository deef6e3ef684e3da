/* Drafts without a second model: an answer often repeats what was said before.

   An answer that has just repeated some tokens of its conversation, or of an earlier answer to the same user, is
   expected to go on repeating: the place is followed token by token, and sought anew when it was wrong. A wrong token
   after a long run is taken for a change, and the run is resumed a little behind it.

   How likely a candidate is right depends on how long the text has agreed. Each answer learns this for each kind of
   candidate by what it samples, also where nothing is drafted, since a prediction costs nothing: so an answer that
   repeats nothing drafts nothing, and one that begins to repeat does so at once. */
#include "draft.h"

#include <math.h>
#include <string.h>

enum {
    FORCED = SHP_DRAFT_KINDS - 1, /* the kind of the grammar's candidates */
    LONG_RUN = 8,        /* a run of so many tokens is resumed behind a change */
    MOST_CHANGED = 16,   /* tokens of a change in the answer */
    MOST_SKIPPED = 24,   /* and of the text that it replaces */
};

/* The least agreement of each kind; the first is that of a run which is resumed behind a changed token. */
static const int32_t least_matched[FORCED] = {0, 2, 3, 4, 6, 8, 16, 32};
/* How often the candidates of each kind are right before this is known of an answer, as a logarithm of odds (0 is a half,
   1 is .73, 2 is .88, 3 is .95), and how many predictions that is worth. */
static const float expected[SHP_DRAFT_KINDS] = {0, -1.2f, -.5f, .3f, 1, 1.5f, 2.2f, 3, 3};
static const float EXPECTED_WEIGHT = 4, KEPT = .95f;
/* How fast an answer learns from one kind of candidate for all others, and how much at most. */
static const float TRUST_STEP = .25f, MOST_TRUST = 2;

void shp_draft_free(shp_draft *d) { shp_ngrams_free(&d->own); }

static int kind_of(int32_t n_matched) {
    int kind = FORCED - 1;
    while (kind > 0 && n_matched < least_matched[kind])
        kind--;
    return kind;
}

static float chance_of(const shp_draft *d, int kind) {
    float trusted = 1 / (1 + expf(-expected[kind] - d->trust));
    return (d->right[kind] + EXPECTED_WEIGHT * trusted) / (d->seen[kind] + EXPECTED_WEIGHT);
}

float shp_draft_chance(const shp_draft *d, int32_t i) {
    return chance_of(d, i < d->n_forced ? FORCED : kind_of(d->n_matched + i));
}

static void learn(shp_draft *d, int kind, int is_right) {
    d->trust += TRUST_STEP * ((is_right ? 1 : 0) - chance_of(d, kind));
    d->trust = d->trust > MOST_TRUST ? MOST_TRUST : d->trust < -MOST_TRUST ? -MOST_TRUST : d->trust;
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

static void lose(shp_draft *d) {
    d->lost_source = d->source;
    d->lost_at = d->at;
    d->lost_matched = d->n_matched;
    d->n_lost = 0;
}

static int continue_at(shp_draft *d, const shp_ngrams *source, int32_t at, int32_t n_matched) {
    if (at >= source->n)
        return 0;
    d->source = source;
    d->at = at;
    d->n_matched = n_matched;
    return 1;
}

/* Resume a lost run a little behind where it was, at the next place of the last two tokens: what is repeated with changes
   goes on there, though the same two tokens may be elsewhere as well. */
static int resume(shp_draft *d) {
    const shp_ngrams *lost = d->lost_source;
    const int32_t *last = d->own.ids + d->own.n - 2;
    if (!lost || ++d->n_lost > MOST_CHANGED)
        d->lost_source = NULL;
    else
        for (int32_t at = d->lost_at + 1; at <= d->lost_at + MOST_SKIPPED && at < lost->n; at++)
            if (at >= 2 && lost->ids[at - 2] == last[0] && lost->ids[at - 1] == last[1])
                return continue_at(d, lost, at, d->lost_matched);
    return 0;
}

static void follow(shp_draft *d, int32_t token) {
    int is_right = d->source && d->source->ids[d->at] == token;
    if (is_right) {
        /* The first token behind a change was right. */
        int32_t n_matched = d->n_matched == 0 && d->lost_source ? d->lost_matched : d->n_matched;
        if (n_matched >= LONG_RUN)
            d->lost_source = NULL;
        if (continue_at(d, d->source, d->at + 1, n_matched + 1))
            return;
    } else if (d->source && d->n_matched >= LONG_RUN)
        lose(d);
    if (!resume(d) && !find(d) && d->lost_source && d->n_lost == 1)
        continue_at(d, d->lost_source, d->lost_at + 1, 0);
}

void shp_draft_take(shp_draft *d, int32_t token) {
    if (!d->is_on)
        return;
    if (d->n_forced > 0)
        learn(d, FORCED, d->tokens[0] == token);
    else if (d->source)
        learn(d, kind_of(d->n_matched), d->source->ids[d->at] == token);
    d->n_forced = d->n_candidates = 0;
    d->is_on = shp_ngrams_add(&d->own, token);
    if (d->is_on)
        follow(d, token);
}

int32_t shp_draft_collect(shp_draft *d, const shp_context *context, int32_t most) {
    d->n_forced = d->n_candidates = d->n = 0;
    if (!d->is_on || !d->source)
        return 0;
    for (int32_t i = d->at; d->n_candidates < most; i++) {
        /* A conversation that repeats itself to its end goes on with what was just drafted. */
        if (i >= d->source->n && (d->source != &d->own || i - d->source->n >= d->n_candidates))
            break;
        int32_t token = i < d->source->n ? d->source->ids[i] : d->tokens[i - d->source->n];
        if (shp_is_picture(token) || shp_api.is_eog(context->vocab, token))
            break;
        d->tokens[d->n_candidates++] = token;
    }
    return d->n_candidates;
}

void shp_draft_force(shp_draft *d, const int32_t *tokens, int32_t n) {
    int32_t common = 0;
    while (common < n && common < d->n_candidates && d->tokens[common] == tokens[common])
        common++;
    if (common < n) {
        memcpy(d->tokens, tokens, (size_t)n * sizeof *tokens);
        d->n_candidates = n;
    }
    d->n_forced = n;
}
