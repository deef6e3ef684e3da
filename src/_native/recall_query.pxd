# Fills a shp_recall_query from Python's values, for store.pyx.
from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t

from pairs cimport shp_pairs_reader
from rank cimport check_rank_numbers
from recall cimport SHP_MAX_TENANT, shp_recall_query
from rescore cimport shp_rescore_counts_pairs, shp_rescore_key, shp_rescore_read_word
from rescore_query cimport set_rescore_query


cdef inline int check_recall_numbers(int64_t tenant, double now, double k1, double b, double recency_floor,
                                     double min_relevance) except -1:
    if not 0 <= tenant <= SHP_MAX_TENANT:
        raise ValueError(f"a tenant's number is from 0 to {SHP_MAX_TENANT}, not {tenant}")
    if not isfinite(now):
        raise ValueError("now must be finite")
    check_rank_numbers(k1, b, recency_floor)
    if isnan(min_relevance):
        raise ValueError("min_relevance must be a number")
    return 0


cdef inline int set_recall_query(shp_recall_query* out, int64_t tenant, bytes match, list words, int64_t k, double k1,
                                 double b, double min_relevance, double now, double recency_floor, periods,
                                 weights, bint is_request) except -1:
    """Fill the query; `match`, the FTS5 query of `words`, is borrowed. check_recall_numbers was called before."""
    cdef bytes encoded
    cdef shp_pairs_reader reader
    cdef Py_ssize_t i
    cdef bint counts_pairs
    out.tenant = tenant
    out.match = match
    out.match_bytes = <int>len(match)
    out.n_phrases = <int>len(words)
    out.k, out.k1, out.b, out.min_relevance = k, k1, b, min_relevance
    set_rescore_query(&out.rescore, now, recency_floor, periods, weights, is_request)
    out.rescore.n_labels = out.n_phrases
    counts_pairs = shp_rescore_counts_pairs(&out.rescore)
    reader.n, reader.last = 0, 0
    for i in range(len(words)):
        encoded = (<str>words[i]).encode("utf-8", "surrogatepass")
        out.rescore.labels[i] = shp_rescore_key(encoded, <size_t>len(encoded))
        if counts_pairs:
            shp_rescore_read_word(&out.rescore, &reader, encoded, <size_t>len(encoded))
    return 0
