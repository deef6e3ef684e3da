/* Drafts of an answer that follows a grammar: what the grammar forces, and between that what is likely in its values.

   An object of JSON is a few forced runs (keys, quotes, punctuation) with values between them, which are often copied
   from the conversation. So the draft is woven: forced text as far as it goes, then the likely value, as far as the
   grammar allows it, and forced text again. The first word of a value is likely to be
   - the one that the run goes on with: the same value as in the last object, or
   - the next word behind the text from which the last value was copied, since lists are mostly written in their order.
   Both are learned like all kinds of candidates. The end of a value cannot be foreseen; there the draft is wrong, and the
   next one begins with forced text.
   Costs: some microseconds where nothing is forced; else a copy of the grammar, and a check of each character. */
#if !defined(_WIN32) && !defined(__APPLE__)
#define _POSIX_C_SOURCE 200809L /* CLOCK_THREAD_CPUTIME_ID */
#endif
#include "draft.h"

#include <math.h>
#include <string.h>

#include "sync.h"

enum {
    MOST_BETWEEN = 8, /* tokens of punctuation between two values that are copied */
    PIECE_BYTES = 64, /* of a token that is looked at */
    NOTHING = -1,
};
/* A draft of 31 tokens takes some 0.3 ms; an ambiguous grammar may take much longer. */
static const int64_t MOST_NS = 2000000;

static int32_t piece_of(const shp_draft *d, int32_t token, char *piece) {
    if (shp_is_picture(token))
        return 0;
    int32_t n = shp_api.token_to_piece(d->context->vocab, token, piece, PIECE_BYTES, 0, false);
    return n < 0 ? 0 : n;
}

static int is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 128;
}

/* The token that begins a value with the word of this token, which may have a blank before it; or NOTHING. */
static int32_t without_blank(const shp_draft *d, int32_t token) {
    char piece[PIECE_BYTES];
    int32_t found[2], n = piece_of(d, token, piece);
    if (n > 0 && is_word(piece[0]))
        return token;
    if (n < 2 || piece[0] != ' ' || !is_word(piece[1]))
        return NOTHING;
    return shp_tokens_within(d->context, piece + 1, n - 1, found, 2) == 1 ? found[0] : NOTHING;
}

int32_t shp_draft_next_value(const shp_draft *d, int32_t *at) {
    const shp_draft_place *p = &d->place;
    int32_t end = p->left_source == &d->own ? d->n_prompt : p->left_source ? p->left_source->n : 0;
    for (*at = p->left_at; p->left_source && *at < end && *at < p->left_at + MOST_BETWEEN; ++*at) {
        int32_t token = without_blank(d, p->left_source->ids[*at]);
        if (token != NOTHING)
            return token;
    }
    *at = -1;
    return NOTHING;
}

/* The first place behind the one that was copied last, or else the newest. */
int32_t shp_draft_find_word(const shp_draft *d, int32_t token) {
    char piece[PIECE_BYTES], blank[1 + PIECE_BYTES] = " ";
    int32_t other[2] = {NOTHING, NOTHING}, n = piece_of(d, token, piece), newest = -1;
    if (n == 0 || !is_word(piece[0]))
        return -1;
    memcpy(blank + 1, piece, (size_t)n);
    if (shp_tokens_within(d->context, blank, 1 + n, other, 2) != 1)
        other[0] = token;
    int32_t from = d->place.left_source == &d->own ? d->place.left_at : d->n_prompt;
    for (int32_t i = 0; i < d->n_prompt; i++)
        if (d->own.ids[i] == token || d->own.ids[i] == other[0]) {
            newest = i;
            if (i >= from)
                break;
        }
    return newest;
}

/* The first character in which the text differs from what was forced tells whether a blank follows the one before. */
void shp_draft_learn_blank(shp_draft *d, int32_t i, int32_t token) {
    char expected[4 * PIECE_BYTES], found[PIECE_BYTES], last[PIECE_BYTES];
    int32_t n_expected = 0, n_found = piece_of(d, token, found), same = 0;
    for (int32_t k = i; k < d->n_candidates && k < i + 4 && d->kinds[k] == SHP_DRAFT_FORCED; k++)
        n_expected += piece_of(d, d->tokens[k], expected + n_expected);
    while (same < n_found && same < n_expected && found[same] == expected[same])
        same++;
    if (same == n_found || same == n_expected || (found[same] == ' ') == (expected[same] == ' '))
        return;
    int32_t n_last = same > 0 ? 0 : piece_of(d, d->own.ids[d->own.n - 1], last);
    char before = same > 0 ? found[same - 1] : n_last > 0 ? last[n_last - 1] : '\0';
    if ((unsigned char)before < sizeof d->blanks)
        d->blanks[(unsigned char)before] = found[same] == ' ';
}

typedef struct {
    shp_draft *d;
    void *grammar; /* a copy, which has taken the candidates so far; NULL: none yet */
    const shp_letters *letters;
    char text[SHP_MOST_FORCED]; /* forced text that is not drafted yet: from n_used to n_text */
    int32_t n_text, n_used;
    int32_t ids[SHP_MOST_DRAFTED], n_ids, n_ids_used; /* its tokens; n_ids 0: not known */
} weaving;

static int is_allowed(void *grammar, int32_t token) {
    shp_llama_token_data one = {token, 1, 0};
    shp_llama_token_data_array alone = {&one, 1, -1, false};
    shp_api.sampler_apply(grammar, &alone);
    return one.logit != -INFINITY;
}

/* The last character of the text, or NOTHING. */
static int last_character(const shp_draft *d) {
    char piece[PIECE_BYTES];
    int32_t n = d->own.n > d->n_prompt ? piece_of(d, d->own.ids[d->own.n - 1], piece) : 0;
    return n > 0 ? (unsigned char)piece[n - 1] : NOTHING;
}

static void find_forced(weaving *w, void *grammar) {
    w->n_text = shp_forced_text(grammar, w->letters, w->d->blanks, last_character(w->d), w->text);
    w->n_used = w->n_ids = w->n_ids_used = 0;
}

/* What the run has next, if it is a token that a draft may have; else NOTHING. */
static int32_t next_of_run(const shp_draft *d) {
    if (!d->place.source || d->place.at >= d->place.source->n)
        return NOTHING;
    int32_t token = d->place.source->ids[d->place.at];
    return shp_is_picture(token) || shp_api.is_eog(d->context->vocab, token) ? NOTHING : token;
}

/* Whether a token goes on with the forced text, and how much of it that uses. */
static int goes_on(const weaving *w, int32_t token, int32_t *n_used) {
    char piece[PIECE_BYTES];
    int32_t n = token == NOTHING ? 0 : piece_of(w->d, token, piece), left = w->n_text - w->n_used;
    *n_used = n < left ? n : left;
    return n > 0 && memcmp(piece, w->text + w->n_used, (size_t)*n_used) == 0
           && (n <= left || is_allowed(w->grammar, token));
}

/* A token of the forced text: as the run writes it, if there is one, or else as the tokenizer does. */
static int32_t forced_token(weaving *w) {
    int32_t n, token = next_of_run(w->d);
    if (goes_on(w, token, &n)) {
        if (w->n_ids_used < w->n_ids && w->ids[w->n_ids_used] == token)
            w->n_ids_used++;
        else
            w->n_ids = w->n_ids_used = 0;
        w->n_used += n;
        return token;
    }
    if (w->n_ids_used >= w->n_ids) {
        w->n_ids = shp_tokens_within(w->d->context, w->text + w->n_used, w->n_text - w->n_used, w->ids,
                                     SHP_MOST_DRAFTED);
        w->n_ids_used = 0;
    }
    token = w->n_ids > 0 ? w->ids[w->n_ids_used++] : NOTHING;
    if (!goes_on(w, token, &n) || !is_allowed(w->grammar, token))
        return NOTHING;
    w->n_used += n;
    return token;
}

/* A token of a value: what the run has, or at its beginning the next word of the text that was copied last. */
static int32_t value_token(const weaving *w, int *kind, int32_t *other) {
    const shp_draft *d = w->d;
    int32_t at, same = next_of_run(d), next = NOTHING;
    *other = NOTHING;
    if (same != NOTHING && !is_allowed(w->grammar, same))
        same = NOTHING;
    *kind = shp_draft_kind(d);
    if (*kind != SHP_DRAFT_SAME)
        return same;
    next = shp_draft_next_value(d, &at);
    if (next != NOTHING && !is_allowed(w->grammar, next))
        next = NOTHING;
    float chance = shp_draft_chance_of(d, SHP_DRAFT_SAME);
    if (next != NOTHING && (same == NOTHING || shp_draft_chance_of(d, SHP_DRAFT_NEXT) > chance)) {
        *kind = SHP_DRAFT_NEXT;
        *other = same;
        return next;
    }
    *other = next;
    return same;
}

/* The text goes on with this candidate, until it is taken back. 0: no memory. */
static int add(weaving *w, int32_t token, int kind, int32_t other) {
    shp_draft *d = w->d;
    d->tokens[d->n_candidates] = token;
    d->kinds[d->n_candidates] = (int8_t)kind;
    d->others[d->n_candidates++] = other;
    shp_api.sampler_accept(w->grammar, token);
    if (!shp_ngrams_add(&d->own, token))
        return 0;
    shp_draft_step(d, token, kind);
    return 1;
}

static int add_next(weaving *w) {
    int kind = SHP_DRAFT_FORCED;
    int32_t token = NOTHING, other = NOTHING;
    if (w->n_used >= w->n_text)
        find_forced(w, w->grammar);
    if (w->n_used < w->n_text)
        token = forced_token(w);
    else
        token = value_token(w, &kind, &other);
    return token != NOTHING && add(w, token, kind, other);
}

int32_t shp_draft_collect_allowed(shp_draft *d, void *grammar, shp_letters *letters, int32_t most) {
    weaving w = {.d = d, .letters = letters};
    int64_t until = shp_thread_clock_ns() + MOST_NS;
    if (!d->is_on)
        return 0;
    shp_letters_fill(letters, d->context);
    find_forced(&w, grammar);
    /* Inside a value, what follows is found without the grammar. */
    if (w.n_text == 0 && d->place.n_free > 0)
        return shp_draft_collect(d, most);
    if (!(w.grammar = shp_api.sampler_clone(grammar)))
        return shp_draft_collect(d, most);
    shp_draft_place place = d->place;
    int32_t n = d->own.n;
    d->n_candidates = d->n_taken = d->n = 0;
    while (d->n_candidates < most && add_next(&w) && shp_thread_clock_ns() < until)
        ;
    shp_ngrams_cut(&d->own, n);
    d->place = place;
    shp_api.sampler_free(w.grammar);
    return d->n_candidates;
}
