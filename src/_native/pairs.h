/* Words that stand side by side: a set of the pairs in a memory, and the pairs of a query to be looked up in it.

   The set is a Bloom filter of 256 bits over the first 32 terms of each text that a person wrote; an assistant's reply
   has none.  A pair sets two bits, so that of 31 pairs one in twenty others seems to be there, and none is missed.  It
   is computed when a memory is stored: ranking reads no texts. */
#ifndef SHP_PAIRS_H
#define SHP_PAIRS_H

#include <stddef.h>
#include <stdint.h>

enum {
    SHP_PAIRS_BYTES = 32,
    SHP_PAIRS_TERMS = 32,  /* of each text */
    SHP_PAIRS_COUNTED = 3, /* more pairs in one memory count as so many */
    SHP_PAIRS_MOST = 64    /* of a query */
};

typedef struct {
    uint8_t bits[SHP_PAIRS_BYTES];
} shp_pairs;

/* FNV-1a of a term. */
static inline uint32_t shp_pairs_key(const uint8_t *term, size_t n)
{
    uint32_t key = UINT32_C(2166136261);
    for (size_t i = 0; i < n; i++)
        key = (key ^ term[i]) * UINT32_C(16777619);
    return key;
}

/* The numbers of a pair's two bits, in the lower and in the upper byte.  The order of the terms matters. */
static inline uint16_t shp_pair_of(uint32_t first, uint32_t second)
{
    uint32_t mixed = first * UINT32_C(0x9E3779B1) + second * UINT32_C(0x85EBCA77);
    mixed ^= mixed >> 15;
    mixed *= UINT32_C(0x2C1B3C6D);
    mixed ^= mixed >> 13;
    return (uint16_t)mixed;
}

static inline void shp_pairs_add(shp_pairs *pairs, uint16_t pair)
{
    pairs->bits[(pair & 255) >> 3] |= (uint8_t)(1u << (pair & 7));
    pairs->bits[pair >> 11] |= (uint8_t)(1u << (pair >> 8 & 7));
}

/* How many of a query's pairs are in the set, SHP_PAIRS_COUNTED at most. */
static inline int shp_pairs_count(const shp_pairs *pairs, const uint16_t *wanted, int n)
{
    unsigned count = 0;
    for (int i = 0; i < n; i++) {
        unsigned pair = wanted[i];
        count += pairs->bits[(pair & 255) >> 3] >> (pair & 7) & pairs->bits[pair >> 11] >> (pair >> 8 & 7) & 1u;
    }
    return count < SHP_PAIRS_COUNTED ? (int)count : SHP_PAIRS_COUNTED;
}

/* Takes the terms of a query or of a text one after the other. */
typedef struct {
    uint32_t last;
    int n; /* terms so far */
} shp_pairs_reader;

/* Reads the next term; returns whether it makes a pair with the one before, which is then `out`. */
static inline int shp_pairs_next(shp_pairs_reader *reader, const uint8_t *term, size_t n, uint16_t *out)
{
    uint32_t key = shp_pairs_key(term, n);
    *out = shp_pair_of(reader->last, key);
    reader->last = key;
    return reader->n++ > 0;
}

#endif
