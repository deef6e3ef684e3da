/* Drafts: likely next tokens of an answer, which the model checks in one batch instead of one after the other. */
#ifndef SHP_DRAFT_H
#define SHP_DRAFT_H

#include "ngrams.h"
#include "sampling.h"

typedef enum {
    SHP_DRAFT_OFF = 0,
    SHP_DRAFT_AUTO = 1,   /* where it should save time, by what batches took so far */
    SHP_DRAFT_ALWAYS = 2, /* wherever there is a candidate */
} shp_draft_mode;

enum {
    SHP_MOST_DRAFTED = 31,    /* tokens of a draft: with the sampled one before them a batch of 32 */
    SHP_DRAFT_KINDS = 9,      /* of candidates, by how far the text before them agrees; see draft.c */
    SHP_MOST_DRAFTS = 64,     /* in a batch; as many as there are slots at most */
    SHP_MOST_BATCH_COSTS = 128,
};

/* The draft of one running answer. */
typedef struct {
    shp_ngrams own;            /* the conversation with the answer so far */
    const shp_ngrams *earlier; /* earlier answers to the same user; borrowed, may be NULL */
    const shp_ngrams *source;  /* of these two: where the answer seems to continue; NULL: nowhere */
    int32_t at;                /* index in the source of the likely next token */
    int32_t n_matched;         /* tokens before it that agree */
    const shp_ngrams *lost_source; /* a long run that was left, and may be resumed near where it was; NULL: none */
    int32_t lost_at, lost_matched, n_lost; /* n_lost: tokens since then */
    int is_on;
    int32_t n_forced;          /* so many of the candidates come from the grammar */
    int is_grammar_slow;       /* finding them took too long */
    float trust;               /* how much better candidates are than expected, as a logarithm of odds */
    float seen[SHP_DRAFT_KINDS], right[SHP_DRAFT_KINDS]; /* predictions of each kind; older ones count less */
    int32_t tokens[SHP_MOST_DRAFTED];                    /* candidates, the next token first */
    int32_t n_candidates;
    int32_t n;                 /* of them in the current batch */
} shp_draft;

/* What batches without prefill took, by their tokens. */
typedef struct {
    double ns[SHP_MOST_BATCH_COSTS];      /* 0: not measured */
    uint8_t measured[SHP_MOST_BATCH_COSTS]; /* how often, up to a few times */
    int64_t n_steps;                        /* choices made */
} shp_batch_costs;

void shp_draft_free(shp_draft *draft);
/* Begin an answer after these tokens. Without memory there are no drafts. */
void shp_draft_begin(shp_draft *draft, const int32_t *ids, int32_t n, const shp_ngrams *earlier);
/* The answer goes on with this token: learn how good the prediction was, and find the next one. */
void shp_draft_take(shp_draft *draft, int32_t token);
/* Collect at most `most` candidates; how many. */
int32_t shp_draft_collect(shp_draft *draft, const shp_context *context, int32_t most);
/* The grammar leaves no choice but these tokens: use them, or the other candidates if those begin with them. */
void shp_draft_force(shp_draft *draft, const int32_t *tokens, int32_t n);

float shp_draft_chance(const shp_draft *draft, int32_t i); /* that candidate i is right if those before it are */

/* Choose how many candidates of each draft go into a batch that has `n_tokens` tokens without them and room for `room`
   more; sets n of each. */
void shp_draft_choose(shp_draft *const *drafts, int32_t n_drafts, int32_t n_tokens, int32_t room,
                      shp_batch_costs *costs);
void shp_batch_costs_add(shp_batch_costs *costs, int32_t n_tokens, int64_t ns);

#endif
