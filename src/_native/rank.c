/* BM25, recency and relevance.  Doubles in, doubles out; no state.

   BM25 as in Robertson and Zaragoza, "The Probabilistic Relevance Framework" (2009), eq. 3.15, with the idf
   that Lucene uses, ln(1 + (N - df + 1/2) / (df + 1/2)), which is never negative.

   relevance(B) = min(1, B / I) * (1 - 2^(-B / m)),   m = ln(1 + (N - 1/2) / (3/2))
   I: sum of the idf of the query's keywords that the memories know; m: the idf of a word that one memory has.
   The first factor is the share of the query that matched, the second the rarity of its words.  Relevance grows
   strictly with B, so a threshold on it is a threshold on B (min_bm25). */
#include "rank.h"

#include <float.h>
#include <math.h>

static const double LN_2 = 0.69314718055994530942;

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

double shp_rank_relevance_of(double bm25, double idf_sum, double rarest_idf)
{
    if (!(idf_sum > 0.0) || !(bm25 > 0.0))
        return 0.0;
    double met = bm25 / idf_sum;
    return (met < 1.0 ? met : 1.0) * rarity(bm25, rarest_idf);
}

double shp_rank_relevance(double bm25, double idf_sum, double n_docs)
{
    return n_docs >= 1.0 ? shp_rank_relevance_of(bm25, idf_sum, shp_rank_idf(n_docs, 1.0)) : 0.0;
}

/* The least B of at least this relevance, to a few units in the last place; infinity when there is none.
   Where B < I there is no closed form: Newton's steps inside a shrinking bracket, 5 to 10 of them, from the
   solution for small B, where relevance = B^2 ln 2 / (I m). */
double shp_rank_min_bm25(double relevance, double idf_sum, double n_docs)
{
    if (!(relevance > 0.0))
        return 0.0;
    if (relevance > 1.0 || !(n_docs >= 1.0) || !(idf_sum > 0.0))
        return INFINITY;
    double m = shp_rank_idf(n_docs, 1.0);
    if (rarity(idf_sum, m) <= relevance) {
        double bm25 = relevance < 1.0 ? -log1p(-relevance) * m / LN_2 : 55.0 * m; /* rounds to 1 from there */
        return bm25 > idf_sum ? bm25 : idf_sum;
    }
    double low = 0.0, high = idf_sum, bm25 = sqrt(relevance * idf_sum * m / LN_2);
    for (int i = 0; i < 200 && high - low > 1e-15 * high; i++) {
        double decay = exp(-bm25 * LN_2 / m);
        double excess = bm25 * rarity(bm25, m) - relevance * idf_sum;
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
