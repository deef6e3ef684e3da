/* Drafts by a second, smaller model with the same vocabulary: it guesses the next tokens of an answer where the
   conversation has nothing that it may repeat. See draft_model.c. */
#ifndef SHP_DRAFT_MODEL_H
#define SHP_DRAFT_MODEL_H

#include "draft.h"

typedef struct shp_draft_model shp_draft_model;

/* An answer for which it may draft; `slot` is the number of its sequence, which the model keeps for it. */
typedef struct {
    shp_draft *draft;
    int32_t slot;
    int32_t most;  /* candidates */
    int is_wanted; /* 0: only its token counts */
} shp_drafted_answer;

/* `context` has a cache that can be cut, for so many sequences. NULL: no memory. */
shp_draft_model *shp_draft_model_new(const shp_context *context, int32_t n_slots, int32_t n_chunk, int is_on_cpu);
void shp_draft_model_free(shp_draft_model *model); /* NULL: nothing */
void shp_draft_model_forget(shp_draft_model *model);

/* What it has read of a slot's text: how many ids, and the last position that llama.cpp has, or -1. */
int32_t shp_draft_model_ids(const shp_draft_model *model, int32_t slot, const int32_t **ids, int32_t *last);

/* How many batches it has decoded so far, and how many tokens. */
void shp_draft_model_counts(const shp_draft_model *model, int64_t *n_batches, int64_t *n_read);

/* An answer begins: how often its drafts are right is expected as with the answers before. */
void shp_draft_model_begin(shp_draft_model *model, shp_draft *draft);
/* Candidates for the answers that want them, as many as there should be by what batches take. A part of a text that the
   model has not read yet is read first, one micro-batch in a call. `n_tokens`: of the batch without them. 1: it drafted. */
int shp_draft_model_draft(shp_draft_model *model, shp_drafted_answer *answers, int32_t n, int32_t n_tokens,
                          const shp_batch_costs *costs, shp_draft_mode mode);
/* A candidate of the model was right or not in this answer. */
void shp_draft_model_learn(shp_draft_model *model, shp_draft *draft, int is_right);

#endif
