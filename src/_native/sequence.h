/* The mirror of one sequence: the token ids that the KV cache holds for it, in order, and exact ways to change them. */
#ifndef SHP_SEQUENCE_H
#define SHP_SEQUENCE_H

#include "llama_api.h"
#include "pictures.h"

typedef struct {
    void *ctx, *memory, *vocab; /* borrowed */
    int kind;
    int32_t n_window; /* tokens that one sequence may have */
    int32_t n_swa;    /* sliding window in tokens, or 0 */
    int32_t n_vocab;
    int32_t n_embd; /* of an embedding that the model reads in place of a token; 0: it reads no pictures */
} shp_context;

/* Whose tokens a sequence has. A conversation with an owner may be kept outside the process. */
typedef struct {
    int64_t owner;    /* a number; 0: none */
    int64_t asked_ms; /* time of its last run, in unix milliseconds */
    int32_t n_head;   /* leading tokens that unrelated conversations share */
} shp_belonging;

typedef struct {
    const shp_context *context;
    int32_t id;
    int32_t *ids, *positions; /* n_window entries each; owned */
    int32_t n;
    int64_t used_at;   /* number of its last run, counted up */
    int64_t staged_at; /* used_at when its state was staged for writing; else another number */
    shp_belonging belonging;
} shp_sequence;

/* How to reuse the cache for a prompt from whose middle a part was removed (setting kv_edit). */
typedef enum {
    SHP_EDIT_EXACT = 0, /* decode again from the cut on */
    SHP_EDIT_SHIFT = 1, /* close the gap: approximate, where the model can shift */
    SHP_EDIT_HOLE = 2,  /* leave the gap: approximate */
} shp_edit;

int shp_sequence_init(shp_sequence *s, const shp_context *context, int32_t id); /* 0: no memory */
void shp_sequence_free(shp_sequence *s);

int32_t shp_sequence_common(const shp_sequence *s, const int32_t *ids, int32_t n);
int32_t shp_sequence_next_position(const shp_sequence *s);
int shp_sequence_has_hole(const shp_sequence *s, int32_t n); /* among its first n tokens */
int shp_sequence_is_state(const shp_sequence *s); /* its cache includes a state that cannot be cut */

void shp_sequence_clear(shp_sequence *s);
int shp_sequence_has_end(const shp_sequence *s, int32_t n); /* 1: decoding can continue after its first n tokens */
int shp_sequence_cut(shp_sequence *s, int32_t n);       /* 1: holds its first n tokens; 0: it cannot */
void shp_sequence_append(shp_sequence *s, const int32_t *ids, const int32_t *positions, int32_t n);
int shp_sequence_match_cache(shp_sequence *s);        /* cut the mirror to the cache; 1: it matched */
int shp_sequence_verify(shp_sequence *s, int32_t n);    /* 1: the cache ends at n tokens, with their whole window */
int shp_sequence_copy_head(shp_sequence *s, const shp_sequence *source, int32_t n);

/* Returns how many tokens of s the prompt reuses if parts of the middle may be removed; `apply` removes them. */
int32_t shp_sequence_edit(shp_sequence *s, const int32_t *prompt, int32_t n_prompt, shp_edit edit, int apply);

#endif
