"""The ranking formulas one by one, from the same C as recall: for explanations, tests and other stores."""
from rank cimport (
    shp_rank_bm25,
    shp_rank_bm25_set,
    shp_rank_idf,
    shp_rank_min_bm25,
    shp_rank_recency,
    shp_rank_relevance,
    shp_rank_term,
)

__all__ = ["bm25_term", "idf", "min_bm25", "recency", "relevance"]


def idf(double n_docs, double doc_freq):
    """Weight of a word that `doc_freq` of `n_docs` memories have: ln(1 + (N - df + 1/2) / (df + 1/2))."""
    if not 0.0 <= doc_freq <= n_docs:
        raise ValueError("doc_freq must be between 0 and n_docs")
    return shp_rank_idf(n_docs, doc_freq)


def bm25_term(double idf, double tf, double doc_len, double mean_len, *, double k1=0.9, double b=0.3):
    """What one keyword adds to the BM25 of a memory of `doc_len` terms that has it `tf` times."""
    cdef shp_rank_bm25 bm25
    if not (k1 >= 0.0 and 0.0 <= b <= 1.0):
        raise ValueError("k1 must be at least 0, b between 0 and 1")
    if not (tf >= 0.0 and doc_len >= 0.0):
        raise ValueError("tf and doc_len cannot be negative")
    if tf == 0.0:
        return 0.0
    shp_rank_bm25_set(k1, b, mean_len, &bm25)
    return shp_rank_term(&bm25, idf, tf, doc_len)


def recency(double age_days, double floor):
    """Factor from 1 (now) down to `floor`; half of the way after 30 days.  The future counts as now."""
    if not 0.0 <= floor <= 1.0:
        raise ValueError("floor must be between 0 and 1")
    return shp_rank_recency(age_days, floor)


def relevance(double bm25, double idf_sum, double n_docs):
    """How well a memory fits, 0 to 1, without its age.

    `idf_sum` is over those keywords of the query that the user's `n_docs` memories know.
    """
    return shp_rank_relevance(bm25, idf_sum, n_docs)


def min_bm25(double relevance, double idf_sum, double n_docs):
    """The least BM25 of at least this relevance, to a few units in the last place; inf when there is none."""
    return shp_rank_min_bm25(relevance, idf_sum, n_docs)
