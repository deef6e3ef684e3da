/* Drafts without a second model: an answer often repeats what was said before.

   An answer that has just repeated some tokens of its conversation, or of an earlier answer to the same user, is
   expected to go on repeating: the place is followed token by token, and sought anew when it was wrong. A wrong token
   after a long run is taken for a change, and the run is resumed a little behind it.

   How likely a candidate is right depends on how long the text has agreed. Each answer learns this for each kind of
   candidate by what it samples, also where nothing is drafted, since a prediction costs nothing: so an answer that
   repeats nothing drafts nothing, and one that begins to repeat does so at once. */
#include "draft.h"

#include "draft_model.h"

#include <math.h>
#include <string.h>

enum {
    N_RUNS = SHP_DRAFT_FORCED, /* kinds of candidates of a run */
    UNFORCED = 1 << 30,  /* tokens since the last forced one, where there was none */
    LEAST_COPIED = 2,    /* tokens of a value that agree before it is taken for a copy */
    LONG_RUN = 8,        /* a run of so many tokens is resumed behind a change */
    MOST_CHANGED = 16,   /* tokens of a change in the answer */
    MOST_SKIPPED = 24,   /* and of the text that it replaces */
};

/* The least agreement of each kind; the first is that of a run which is resumed behind a changed token. */
static const int32_t least_matched[N_RUNS] = {0, 2, 3, 4, 6, 8, 16, 32};
/* How often the candidates of each kind are right before this is known of an answer, as a logarithm of odds (0 is a half,
   1 is .73, 2 is .88, 3 is .95), and how many predictions that is worth. */
static const float expected[SHP_DRAFT_KINDS] = {0, -1.2f, -.5f, .3f, 1, 1.5f, 2.2f, 3, 3, -1, -.5f, -.6f, .3f, 1.2f,
                                                2.5f};
static const float EXPECTED_WEIGHT = 4, KEPT = .95f;
/* How fast an answer learns from one kind of candidate for all others, and how much at most. */
static const float TRUST_STEP = .25f, MOST_TRUST = 2;

void shp_draft_free(shp_draft *d) { shp_ngrams_free(&d->own); }

static int kind_of(int32_t n_matched) {
    int kind = N_RUNS - 1;
    while (kind > 0 && n_matched < least_matched[kind])
        kind--;
    return kind;
}

/* That the forced text before a value agrees says nothing about the value. */
static int kind_at(const shp_draft_place *p, int32_t n_more) {
    int32_t n_matched = p->n_matched + n_more, n_free = p->n_free < UNFORCED ? p->n_free + n_more : UNFORCED;
    if (n_free == 0)
        return SHP_DRAFT_SAME;
    return kind_of(n_matched <= n_free ? n_matched : n_free + 1);
}

int shp_draft_kind(const shp_draft *d) { return kind_at(&d->place, 0); }

float shp_draft_chance_of(const shp_draft *d, int kind) {
    float trusted = 1 / (1 + expf(-expected[kind] - (kind < N_RUNS ? d->trust : 0)));
    return (d->right[kind] + EXPECTED_WEIGHT * trusted) / (d->seen[kind] + EXPECTED_WEIGHT);
}

float shp_draft_chance(const shp_draft *d, int32_t i) { return shp_draft_chance_of(d, d->kinds[i]); }

static void learn(shp_draft *d, int kind, int is_right) {
    if (kind < N_RUNS) {
        d->trust += TRUST_STEP * ((is_right ? 1 : 0) - shp_draft_chance_of(d, kind));
        d->trust = d->trust > MOST_TRUST ? MOST_TRUST : d->trust < -MOST_TRUST ? -MOST_TRUST : d->trust;
    }
    d->seen[kind] = KEPT * d->seen[kind] + 1;
    d->right[kind] = KEPT * d->right[kind] + (is_right ? 1 : 0);
}

/* Where the end of the text occurs longest; 0: nowhere. */
static int find(shp_draft *d) {
    shp_draft_place *p = &d->place;
    int32_t length, other_length, other;
    int32_t at = shp_ngrams_find(&d->own, d->own.ids, d->own.n, &length);
    p->source = at < 0 ? NULL : &d->own;
    if (d->earlier && (other = shp_ngrams_find(d->earlier, d->own.ids, d->own.n, &other_length)) >= 0
        && other_length > length) {
        p->source = d->earlier;
        at = other;
        length = other_length;
    }
    p->at = at;
    p->n_matched = length;
    return p->source != NULL;
}

void shp_draft_begin(shp_draft *d, const shp_context *context, const int32_t *ids, int32_t n,
                     const shp_ngrams *earlier) {
    shp_ngrams own = d->own;
    memset(d, 0, sizeof *d);
    d->context = context;
    d->own = own;
    d->is_on = shp_ngrams_assign(&d->own, ids, n);
    d->earlier = earlier;
    d->n_prompt = n;
    d->place.n_free = UNFORCED;
    d->blanks[':'] = d->blanks[','] = 1;
    if (d->is_on)
        find(d);
}

static void lose(shp_draft_place *p) {
    p->lost_source = p->source;
    p->lost_at = p->at;
    p->lost_matched = p->n_matched;
    p->n_lost = 0;
}

static int continue_at(shp_draft_place *p, const shp_ngrams *source, int32_t at, int32_t n_matched) {
    if (at >= source->n)
        return 0;
    p->source = source;
    p->at = at;
    p->n_matched = n_matched;
    return 1;
}

/* Resume a lost run a little behind where it was, at the next place of the last two tokens: what is repeated with changes
   goes on there, though the same two tokens may be elsewhere as well. */
static int resume(shp_draft *d) {
    shp_draft_place *p = &d->place;
    const shp_ngrams *lost = p->lost_source;
    const int32_t *last = d->own.ids + d->own.n - 2;
    if (!lost || ++p->n_lost > MOST_CHANGED)
        p->lost_source = NULL;
    else
        for (int32_t at = p->lost_at + 1; at <= p->lost_at + MOST_SKIPPED && at < lost->n; at++)
            if (at >= 2 && lost->ids[at - 2] == last[0] && lost->ids[at - 1] == last[1])
                return continue_at(p, lost, at, p->lost_matched);
    return 0;
}

/* A value that was copied ends where the text has something else; what is behind it may be the next value. */
static void leave(const shp_draft *d, shp_draft_place *p) {
    int is_copy = p->n_free < UNFORCED && p->n_right >= LEAST_COPIED;
    if (is_copy && (p->source == d->earlier || p->at < d->n_prompt)) {
        p->left_source = p->source;
        p->left_at = p->at;
    }
    p->n_right = 0;
}

static void follow(shp_draft *d, int32_t token) {
    shp_draft_place *p = &d->place;
    int is_right = p->source && p->source->ids[p->at] == token;
    if (is_right) {
        /* The first token behind a change was right. */
        int32_t n_matched = p->n_matched == 0 && p->lost_source ? p->lost_matched : p->n_matched;
        if (n_matched >= LONG_RUN)
            p->lost_source = NULL;
        p->n_right++;
        if (continue_at(p, p->source, p->at + 1, n_matched + 1))
            return;
    } else if (p->source) {
        leave(d, p);
        if (p->n_matched >= LONG_RUN)
            lose(p);
    }
    if (!resume(d) && !find(d) && p->lost_source && p->n_lost == 1)
        continue_at(p, p->lost_source, p->lost_at + 1, 0);
}

void shp_draft_step(shp_draft *d, int32_t token, int kind) {
    shp_draft_place *p = &d->place;
    int32_t at = -1;
    if (kind == SHP_DRAFT_NEXT)
        shp_draft_next_value(d, &at);
    if (at < 0 || !continue_at(p, p->left_source, at + 1, 1))
        follow(d, token);
    else
        p->n_right = LEAST_COPIED;
    if (kind == SHP_DRAFT_FORCED) {
        p->n_free = p->n_right = 0;
        return;
    }
    p->n_free += p->n_free < UNFORCED;
    /* The first word of a value has other letters before it where it is copied from. */
    if (p->n_free == 1 && at < 0 && (!p->source || p->n_matched < LEAST_COPIED + 1)
        && (at = shp_draft_find_word(d, token)) >= 0 && continue_at(p, &d->own, at + 1, 1))
        p->n_right = LEAST_COPIED - 1;
}

static void learn_of_model(shp_draft *d, int is_right, int32_t token) {
    shp_draft_model_learn(d->model, d, is_right);
    if (d->place.source)
        learn(d, shp_draft_kind(d), d->place.source->ids[d->place.at] == token);
}

/* Learn from candidate i, and whether it came true. */
static int compare(shp_draft *d, int32_t i, int32_t token) {
    int kind = d->kinds[i], is_right = d->tokens[i] == token;
    learn(d, kind, is_right);
    if (kind >= SHP_DRAFT_MODEL)
        learn_of_model(d, is_right, token);
    if (d->others[i] >= 0)
        learn(d, kind == SHP_DRAFT_SAME ? SHP_DRAFT_NEXT : SHP_DRAFT_SAME, d->others[i] == token);
    if (!is_right && kind == SHP_DRAFT_FORCED)
        shp_draft_learn_blank(d, i, token);
    return is_right;
}

void shp_draft_take(shp_draft *d, int32_t token) {
    int kind = -1;
    if (!d->is_on)
        return;
    if (d->n_taken < d->n_candidates) {
        int32_t i = d->n_taken;
        if (compare(d, i, token))
            kind = d->kinds[i];
        else if (d->others[i] == token)
            kind = d->kinds[i] == SHP_DRAFT_SAME ? SHP_DRAFT_NEXT : SHP_DRAFT_SAME;
        d->n_taken++;
        if (d->tokens[i] != token)
            d->n_candidates = d->n_taken = 0;
    } else if (d->place.source)
        learn(d, shp_draft_kind(d), d->place.source->ids[d->place.at] == token);
    d->is_on = shp_ngrams_add(&d->own, token);
    if (d->is_on)
        shp_draft_step(d, token, kind);
}

int32_t shp_draft_collect(shp_draft *d, int32_t most) {
    const shp_draft_place *p = &d->place;
    d->n_candidates = d->n_taken = d->n = 0;
    if (!d->is_on || !p->source)
        return 0;
    for (int32_t i = p->at; d->n_candidates < most; i++) {
        /* A conversation that repeats itself to its end goes on with what was just drafted. */
        if (i >= p->source->n && (p->source != &d->own || i - p->source->n >= d->n_candidates))
            break;
        int32_t token = i < p->source->n ? p->source->ids[i] : d->tokens[i - p->source->n];
        if (shp_is_picture(token) || shp_api.is_eog(d->context->vocab, token))
            break;
        d->kinds[d->n_candidates] = (int8_t)kind_at(p, d->n_candidates);
        d->others[d->n_candidates] = -1;
        d->tokens[d->n_candidates++] = token;
    }
    return d->n_candidates;
}
