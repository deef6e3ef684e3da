/* The ranking formulas of recall; see rank.c. */
#ifndef SHP_RANK_H
#define SHP_RANK_H

#include <stdint.h>

/* Products and sums are rounded one by one, never fused: the same scores on every machine, and the same as
   any program that adds in the same order in IEEE doubles.  (GCC: -ffp-contract=off, set by the build.) */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif

/* BM25 of one query over one user's memories: length_norm = base + slope * doc_len. */
typedef struct {
    double k1_plus_1;
    double base;      /* k1 (1 - b) */
    double slope;     /* k1 b / mean document length, per token */
} shp_rank_bm25;

/* Words are counted in parts: one that an assistant wrote counts 1, any other so many.  A power of two: the division
   is exact, and texts without an assistant are ranked by the plain counts of their words. */
enum { SHP_RANK_PARTS = 16 };

static inline double shp_rank_tf(uint32_t parts)
{
    return (double)parts / SHP_RANK_PARTS;
}

/* The same for relevance: rounded up to whole words, so that a word which only an assistant wrote counts as one. */
static inline double shp_rank_whole_tf(uint32_t parts)
{
    return (double)((parts + (SHP_RANK_PARTS - 1)) / SHP_RANK_PARTS);
}

/* Largest k1: with it and counts of 32 bits every score is above 0 and finite, which searches rely on. */
#define SHP_RANK_MOST_K1 1e6

/* k1 from 0 to SHP_RANK_MOST_K1, b from 0 to 1.  Without a mean length (0) lengths do not count; one so small that
   the slope would be infinite gets the largest finite slope. */
void shp_rank_bm25_set(double k1, double b, double mean_len, shp_rank_bm25 *out);

/* The BM25 score of one keyword in a document that has it tf times (shp_rank_tf). */
static inline double shp_rank_term(const shp_rank_bm25 *bm25, double idf, double tf, double doc_len)
{
    return idf * tf * bm25->k1_plus_1 / (tf + (bm25->base + bm25->slope * doc_len));
}

static inline double shp_rank_recency(double age_days, double floor)
{
    return floor + (1.0 - floor) / (1.0 + (age_days > 0.0 ? age_days : 0.0) / 30.0);
}

/* The same to a few units in the last place, of seconds: one division, where days and recency take three. */
static inline double shp_rank_recency_about(double age_s, double floor)
{
    const double month_s = 30.0 * 86400.0;
    return floor + (1.0 - floor) * month_s / (month_s + (age_s > 0.0 ? age_s : 0.0));
}

double shp_rank_idf(double n_docs, double doc_freq);

/* What relevance depends on besides a memory's BM25: the same for all memories of a search. */
typedef struct {
    double idf_sum;    /* of the keywords that are ranked by */
    double rarest_idf; /* of a word that one memory has */
    double known;      /* share of the query that the user's memories know, 0 to 1 */
} shp_rank_query;

/* `n_unknown`: how many keywords no memory has. */
shp_rank_query shp_rank_query_of(double idf_sum, double n_docs, int64_t n_unknown);
double shp_rank_relevance(double bm25, const shp_rank_query *query);
double shp_rank_min_bm25(double relevance, const shp_rank_query *query);

#endif
