# Declarations of rank.h, for the extensions that link rank.c.
from libc.stdint cimport int64_t


cdef extern from "rank.h" nogil:
    const double SHP_RANK_MOST_K1
    const int SHP_RANK_PARTS

    ctypedef struct shp_rank_bm25:
        double k1_plus_1
        double base      # k1 (1 - b)
        double slope     # k1 b / mean document length, per token

    void shp_rank_bm25_set(double k1, double b, double mean_len, shp_rank_bm25* out) noexcept
    double shp_rank_term(const shp_rank_bm25* bm25, double idf, double tf, double doc_len) noexcept
    double shp_rank_recency(double age_days, double floor) noexcept
    double shp_rank_idf(double n_docs, double doc_freq) noexcept

    ctypedef struct shp_rank_query:
        double idf_sum
        double rarest_idf
        double known

    shp_rank_query shp_rank_query_of(double idf_sum, double n_docs, int64_t n_unknown) noexcept
    double shp_rank_relevance(double bm25, const shp_rank_query* query) noexcept
    double shp_rank_min_bm25(double relevance, const shp_rank_query* query) noexcept


cdef inline int check_rank_numbers(double k1, double b, double recency_floor) except -1:
    """Raise ValueError for parameters of the ranking that are out of range."""
    if not 0 <= k1 <= SHP_RANK_MOST_K1:
        raise ValueError(f"k1 must be between 0 and {SHP_RANK_MOST_K1:,.0f}")
    if not (0 <= b <= 1 and 0 <= recency_floor <= 1):
        raise ValueError("b and recency_floor must be between 0 and 1")
    return 0
