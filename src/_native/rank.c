/* BM25, recency and relevance.  Doubles in, doubles out; no state.

   BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), eq. 3.15, with the idf
   that Lucene uses, ln(1 + (N - df + 1/2) / (df + 1/2)), which is never negative.

   relevance(B) = K sqrt(min(1, B / I)) sqrt(1 - 2^(-B / m)),   m = ln(1 + (N - 1/2) / (3/2))
   I: sum of the idf of the query's keywords that the memories know; m: the idf of a word that one memory has.
   K = I / (I + u ln(2 N + 2) N / (N + 100)), u: the number of keywords that no memory has, 4 at most.
   K is the share of the query that the memories know: of somebody with many memories, a word that none of them has
   says that they do not answer the question; of a beginner it says little.  The first root is of the share of the
   rest that matched, the second of the rarity of its words.  Relevance grows strictly with B, so a threshold on it is
   a threshold on B (min_bm25). */
#include "rank.h"

#include <float.h>
#include <math.h>

static const double LN_2 = 0.69314718055994530942;
static const int64_t MOST_UNKNOWN = 4; /* a long message has many, and may still be about what the memories know */
static const double MANY_MEMORIES = 100.0;

void shp_rank_bm25_set(double k1, double b, double mean_len, shp_rank_bm25 *out)
{
    out->k1_plus_1 = k1 + 1.0;
    out->base = k1 * (1.0 - b);
    double slope = mean_len > 0.0 ? k1 * b / mean_len : 0.0;
    /* Infinity times a length of 0 would be no number. */
    out->slope = slope < DBL_MAX ? slope : DBL_MAX;
}

double shp_rank_idf(double n_docs, double doc_freq)
{
    return log(1.0 + (n_docs - doc_freq + 0.5) / (doc_freq + 0.5));
}

/* expm1 instead of 1 - exp2: keeps its digits, and so its order, for the smallest B. */
static double rarity(double bm25, double rarest_idf)
{
    return -expm1(-bm25 * LN_2 / rarest_idf);
}

shp_rank_query shp_rank_query_of(double idf_sum, double n_docs, int64_t n_unknown)
{
    if (!(n_docs >= 1.0) || !(idf_sum > 0.0))
        return (shp_rank_query){0.0, 0.0, 0.0};
    double counted = n_unknown < MOST_UNKNOWN ? (double)n_unknown : (double)MOST_UNKNOWN;
    /* Without unknown words the quotient is 1, and the logarithm is not needed. */
    double unknown = n_unknown ? counted * (shp_rank_idf(n_docs, 0.0) * (n_docs / (n_docs + MANY_MEMORIES))) : 0.0;
    return (shp_rank_query){idf_sum, shp_rank_idf(n_docs, 1.0), idf_sum / (idf_sum + unknown)};
}

double shp_rank_relevance(double bm25, const shp_rank_query *query)
{
    if (!(query->idf_sum > 0.0) || !(bm25 > 0.0))
        return 0.0;
    double met = bm25 / query->idf_sum;
    return query->known * sqrt(met < 1.0 ? met : 1.0) * sqrt(rarity(bm25, query->rarest_idf));
}

/* The least B of at least this relevance, to a few units in the last place; infinity when there is none.
   Where B < I there is no closed form: Newton's steps inside a shrinking bracket, 5 to 10 of them, from the
   solution for small B, where relevance = K B sqrt(ln 2 / (I m)). */
double shp_rank_min_bm25(double relevance, const shp_rank_query *query)
{
    if (!(relevance > 0.0))
        return 0.0;
    double idf_sum = query->idf_sum, m = query->rarest_idf;
    if (!(idf_sum > 0.0) || !(relevance <= query->known))
        return INFINITY;
    double root = relevance / query->known, square = root * root;
    if (rarity(idf_sum, m) <= square) {
        double bm25 = square < 1.0 ? -log1p(-square) * m / LN_2 : 55.0 * m; /* rounds to 1 from there */
        return bm25 > idf_sum ? bm25 : idf_sum;
    }
    double low = 0.0, high = idf_sum, bm25 = root * sqrt(idf_sum * m / LN_2);
    if (root < 1e-100) /* whose square has no digits left; the rest of the series is far below one */
        return bm25;
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double decay = exp(-bm25 * LN_2 / m);
        double excess = bm25 * rarity(bm25, m) - square * idf_sum;
        double slope = 1.0 - decay + bm25 * LN_2 / m * decay;
        if (excess >= 0.0)
            high = bm25;
        else
            low = bm25;
        double next = bm25 - excess / slope;
        if (fabs(next - bm25) <= 1e-15 * bm25)
            return bm25;
        bm25 = next > low && next < high ? next : low + (high - low) / 2.0;
    }
    return high;
}
