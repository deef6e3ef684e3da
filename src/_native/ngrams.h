/* Where the last tokens of a text occurred before: an index of token pairs over a list of tokens. */
#ifndef SHP_NGRAMS_H
#define SHP_NGRAMS_H

#include <stdint.h>

typedef struct {
    int32_t *ids;    /* n tokens; owned, as the next two */
    int32_t *before; /* for each token: the one before it that follows the same pair, or 0 */
    int32_t *newest; /* 1 << bits entries, by hash of a pair: the newest token that follows it, or 0 */
    int32_t n, capacity, bits;
} shp_ngrams;

void shp_ngrams_free(shp_ngrams *ngrams); /* leaves it empty and usable; so is one that is all zeros */
int shp_ngrams_assign(shp_ngrams *ngrams, const int32_t *ids, int32_t n); /* 0: no memory, and it is empty */
int shp_ngrams_add(shp_ngrams *ngrams, int32_t id);                       /* 0: no memory */

void shp_ngrams_cut(shp_ngrams *ngrams, int32_t n); /* to its first n tokens */

/* The place where the longest end of a text occurs: the index of the token behind it, or -1; of equally long ones the
   newest that was looked at. `length`: tokens that agree, from 2. */
int32_t shp_ngrams_find(const shp_ngrams *ngrams, const int32_t *text, int32_t n, int32_t *length);

#endif
