/* Pictures in a prompt: their embeddings, and the ids that stand for them in prompts and mirrors.

   A picture of n tokens is n negative ids, which the caller makes from its contents. So whatever compares, copies, saves
   and reads ids also does so for pictures. The bits of such an id:
   - 31: set; it is no token of the vocabulary
   - 30: set in the first id of a picture only
   - 29 to 0: in the second id, the number of positions that the picture takes; in the others, bits of a digest. */
#ifndef SHP_PICTURES_H
#define SHP_PICTURES_H

#include <stdint.h>

#include "sync.h"

enum { SHP_PICTURE_BEGIN = 0x40000000, SHP_PICTURE_BITS = 0x3FFFFFFF };

static inline int shp_is_picture(int32_t id) { return id < 0; }
static inline int shp_begins_picture(int32_t id) { return id < 0 && (id & SHP_PICTURE_BEGIN); }

/* What a model reads in place of a picture's ids. */
typedef struct {
    int32_t n;           /* tokens */
    int32_t n_positions; /* positions that they take; fewer than n in models with positions in several dimensions */
    int is_whole;        /* its tokens attend to each other: they must be decoded in one batch */
    float *embeddings;   /* n * the model's embedding size; owned, as the next */
    int32_t *places;     /* NULL: one position after the other; else 4 * n, dimension by dimension, relative to the first */
    int n_holders;       /* under the mutex; the last one frees it */
    shp_mutex mutex;
} shp_picture;

typedef struct {
    shp_picture *picture;
    int32_t at; /* index of its first id in the prompt */
} shp_placed_picture;

shp_picture *shp_picture_new(int32_t n, int32_t n_embd, int has_places); /* NULL: no memory; with one holder */
void shp_picture_hold(shp_picture *picture);
void shp_picture_free(shp_picture *picture); /* one holder less */

/* n, or the beginning of the picture that the first n of these `n_ids` ids would cut. */
int32_t shp_picture_round(const int32_t *ids, int32_t n_ids, int32_t n);

/* The number of positions that the first n ids take, and each one's; `out` may be NULL. */
int32_t shp_picture_positions(const int32_t *ids, int32_t n, int32_t *out);

#endif
