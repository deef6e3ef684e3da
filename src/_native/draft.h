/* Drafts: likely next tokens of an answer, which the model checks in one batch instead of one after the other. */
#ifndef SHP_DRAFT_H
#define SHP_DRAFT_H

#include "forced.h"
#include "ngrams.h"
#include "sampling.h"

typedef enum {
    SHP_DRAFT_OFF = 0,
    SHP_DRAFT_AUTO = 1,   /* where it should save time, by what batches took so far */
    SHP_DRAFT_ALWAYS = 2, /* wherever there is a candidate */
} shp_draft_mode;

enum {
    SHP_MOST_DRAFTED = 31,    /* tokens of a draft: with the sampled one before them a batch of 32 */
    SHP_DRAFT_KINDS = 15,     /* of candidates, by how far the text before them agrees; see draft.c */
    SHP_MOST_DRAFTS = 64,     /* in a batch; as many as there are slots at most */
    SHP_MOST_BATCH_COSTS = 128,
};

/* Where an answer seems to continue. */
typedef struct {
    const shp_ngrams *source;  /* the answer's own text or earlier answers; NULL: nowhere */
    int32_t at;                /* index in the source of the likely next token */
    int32_t n_matched;         /* tokens before it that agree */
    const shp_ngrams *lost_source; /* a long run that was left, and may be resumed near where it was; NULL: none */
    int32_t lost_at, lost_matched, n_lost; /* n_lost: tokens since then */
    const shp_ngrams *left_source; /* text that was copied into a value of a grammar; NULL: none */
    int32_t left_at;               /* the first token of it that was not copied */
    int32_t n_right;               /* so many predictions in a row were right */
    int32_t n_free;                /* tokens since the last one that a grammar forced */
} shp_draft_place;

/* The draft of one running answer. */
typedef struct {
    const shp_context *context; /* borrowed */
    shp_ngrams own;            /* the conversation with the answer so far */
    const shp_ngrams *earlier; /* earlier answers to the same user; borrowed, may be NULL */
    int32_t n_prompt;
    shp_draft_place place;
    int is_on;
    int64_t grammar_ns;        /* finding what the grammar allows took so long, */
    int32_t n_allowed;         /* in so many searches and for so many candidates; */
    int is_grammar_slow;       /* that is too long */
    float trust;               /* how much better candidates are than expected, as a logarithm of odds */
    float seen[SHP_DRAFT_KINDS], right[SHP_DRAFT_KINDS]; /* predictions of each kind; older ones count less */
    uint8_t blanks[128];       /* whether a blank follows this character, where a grammar leaves that open */
    int32_t tokens[SHP_MOST_DRAFTED]; /* candidates, the next token first */
    int8_t kinds[SHP_MOST_DRAFTED];
    int32_t others[SHP_MOST_DRAFTED]; /* what was expected instead at the beginning of a value, or -1 */
    int32_t n_candidates;
    int32_t n_taken;           /* so many of them have come true */
    int32_t n;                 /* of them in the current batch */
    struct shp_draft_model *model;     /* drafts where nothing repeats; borrowed, may be NULL */
    float model_seen, model_right;     /* its candidates */
} shp_draft;

/* What batches without prefill took, by their tokens. */
typedef struct {
    double ns[SHP_MOST_BATCH_COSTS];      /* 0: not measured */
    uint8_t measured[SHP_MOST_BATCH_COSTS]; /* how often, up to a few times */
    int64_t n_steps;                        /* choices made */
} shp_batch_costs;

void shp_draft_free(shp_draft *draft);
/* Begin an answer after these tokens. Without memory there are no drafts. */
void shp_draft_begin(shp_draft *draft, const shp_context *context, const int32_t *ids, int32_t n,
                     const shp_ngrams *earlier);
/* The answer goes on with this token: learn how good the prediction was, and find the next one. */
void shp_draft_take(shp_draft *draft, int32_t token);
/* Collect at most `most` candidates; how many. */
int32_t shp_draft_collect(shp_draft *draft, int32_t most);

float shp_draft_chance(const shp_draft *draft, int32_t i); /* that candidate i is right if those before it are */

/* draft_grammar.c: collect candidates that the grammar allows; how many. The grammar is as before. */
int32_t shp_draft_collect_allowed(shp_draft *draft, void *grammar, shp_letters *letters, int32_t most);

/* Choose how many candidates of each draft go into a batch that has `n_tokens` tokens without them and room for `room`
   more; sets n of each. */
void shp_draft_choose(shp_draft *const *drafts, int32_t n_drafts, int32_t n_tokens, int32_t room,
                      shp_batch_costs *costs);
/* The time of a batch of n tokens, of which `base` are not drafted. */
double shp_batch_cost(const shp_batch_costs *costs, int32_t n, int32_t base);
int shp_batch_is_tried(int32_t n); /* 0: drafts make no batches of that size */
void shp_batch_costs_add(shp_batch_costs *costs, int32_t n_tokens, int64_t ns);

/* Internal, between draft.c and draft_grammar.c. */
enum { /* kinds of candidates besides those of a run */
    SHP_DRAFT_FORCED = 8, /* by a grammar */
    SHP_DRAFT_SAME = 9,   /* the first token of a value: where the run goes on */
    SHP_DRAFT_NEXT = 10,  /* likewise, where the text goes on from which the last value was copied */
    SHP_DRAFT_MODEL = 11, /* of a draft model, and more the surer it is: see draft_model.c */
};
int shp_draft_kind(const shp_draft *draft);                  /* of what the source has next */
float shp_draft_chance_of(const shp_draft *draft, int kind);
void shp_draft_step(shp_draft *draft, int32_t token, int kind); /* the text goes on, with a candidate of a kind or -1 */
int32_t shp_draft_find_word(const shp_draft *draft, int32_t token); /* where the conversation has it; -1: nowhere */
void shp_draft_learn_blank(shp_draft *draft, int32_t i, int32_t token); /* candidate i, forced, was another token */
int32_t shp_draft_next_value(const shp_draft *draft, int32_t *at); /* a token and its index in the source, or -1 */

#endif
