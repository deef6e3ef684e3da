/* Sampling of tokens with a sampler chain of llama.cpp, constrained by a grammar or not. */
#ifndef SHP_SAMPLING_H
#define SHP_SAMPLING_H

#include "sequence.h"
#include "stream.h"

enum { /* in place of an id */
    SHP_NO_TOKEN = -2,  /* the grammar and the biases refuse every token of the vocabulary */
    SHP_AMBIGUOUS = -3, /* the grammar has too many possible continuations: checking them would block all jobs */
    SHP_NO_NUMBERS = -4, /* among the model's logits is one that is not a number */
};
enum { SHP_MOST_SHOWN = 48 };

/* Room for the vocabulary, for one choice at a time. */
typedef struct {
    shp_llama_token_data *tokens; /* n_vocab entries; owned, as the next */
    int32_t *refused;             /* n_vocab ids: tokens rejected at this position */
    int32_t n_refused;
} shp_candidates;

int shp_candidates_init(shp_candidates *candidates, int32_t n_vocab); /* 0: no memory */
void shp_candidates_free(shp_candidates *candidates);

typedef struct {
    void *sampler; /* borrowed; may be NULL when nothing is sampled */
    void *grammar; /* borrowed; NULL: all tokens are allowed */
    shp_candidates *candidates;       /* borrowed: those of the engine thread */
    int32_t shown[SHP_MOST_SHOWN];    /* control tokens whose text goes into the stream */
    int32_t n_shown;
    int asks_likely;                  /* 1: record each token's log probability and the n_likely likeliest tokens */
    int32_t n_likely;
    int is_after;                     /* 1: those are of the tokens among which the samplers chose */
    shp_llama_token_data *left;       /* those tokens, of the last draw: `n_left` of the candidates or of the sampler's */
    size_t n_left;
    shp_likely likely;                /* of the last token */
} shp_sampling;

void shp_sampling_begin(shp_sampling *sampling, const int32_t *tail, int32_t n);
int32_t shp_sampling_next(shp_sampling *sampling, const shp_context *context, int32_t at, const shp_stream *out);
shp_status shp_sampling_write(const shp_sampling *sampling, const shp_context *context, shp_stream *out,
                              int32_t token);

#endif
