"""The ranking formulas one by one, in the C that recall uses: for explanations, tests and other stores."""
from collections import namedtuple

from libc.math cimport isfinite, isnan
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from pairs cimport SHP_PAIRS_BYTES, shp_pairs, shp_pairs_count, shp_pairs_reader
from rank cimport (
    SHP_RANK_PARTS,
    check_rank_numbers,
    shp_rank_bm25,
    shp_rank_bm25_set,
    shp_rank_idf,
    shp_rank_min_bm25,
    shp_rank_query,
    shp_rank_query_of,
    shp_rank_recency,
    shp_rank_relevance,
    shp_rank_term,
)
from rescore cimport (
    SHP_ASSISTANT_ANSWER,
    SHP_ASSISTANT_QUESTION,
    SHP_INSTRUCTS,
    SHP_PREFERS,
    SHP_RESCORE_CANDIDATES,
    SHP_RESCORE_REQUEST_CANDIDATES,
    SHP_RESCORE_MAX_LABELS,
    SHP_RESCORE_REACH,
    SHP_TALK_ASSISTANT,
    SHP_TALK_PEOPLE,
    shp_length_class,
    shp_length_of,
    shp_rescore,
    shp_rescore_buffers,
    shp_rescore_default_weights,
    shp_rescore_free,
    shp_rescore_hit,
    shp_rescore_key,
    shp_rescore_mean,
    shp_rescore_memory,
    shp_rescore_pop,
    shp_rescore_query,
    shp_rescore_read_word,
    shp_rescore_weights,
)
from rescore_query cimport set_rescore_query

__all__ = [
    "ASSISTANT_ANSWER",
    "ASSISTANT_QUESTION",
    "ASSISTANT_WEIGHTS",
    "CANDIDATES",
    "REQUEST_CANDIDATES",
    "DEFAULT_WEIGHTS",
    "INSTRUCTS",
    "PARTS",
    "PREFERS",
    "REACH",
    "Weights",
    "bm25_term",
    "idf",
    "key",
    "length_of",
    "min_bm25",
    "recency",
    "relevance",
    "rescore",
]

cdef int64_t MOST_SEQUENCE = 1 << 61   # the difference of two fits into 64 bits

CANDIDATES = SHP_RESCORE_CANDIDATES
REQUEST_CANDIDATES = SHP_RESCORE_REQUEST_CANDIDATES
REACH = SHP_RESCORE_REACH
PARTS = SHP_RANK_PARTS
ASSISTANT_QUESTION = SHP_ASSISTANT_QUESTION
ASSISTANT_ANSWER = SHP_ASSISTANT_ANSWER
INSTRUCTS = SHP_INSTRUCTS
PREFERS = SHP_PREFERS

Weights = namedtuple(
    "Weights",
    "previous exchange answer next second session asking label period instruction preference length pair",
)


cdef object _default_weights(int talk):
    cdef shp_rescore_weights w = shp_rescore_default_weights(talk)
    return Weights(w.answer[0], w.answer[1], w.answer[2], w.next, w.second, w.session, w.asking, w.label, w.period,
                   w.instruction, w.preference, w.length, w.pair)


DEFAULT_WEIGHTS = _default_weights(SHP_TALK_PEOPLE)
ASSISTANT_WEIGHTS = _default_weights(SHP_TALK_ASSISTANT)


def idf(double n_docs, double doc_freq):
    """Return the weight of a word that `doc_freq` of `n_docs` memories have: ln(1 + (N - df + 1/2) / (df + 1/2))."""
    if not (0.0 <= doc_freq <= n_docs and isfinite(n_docs)):
        raise ValueError("doc_freq must be between 0 and n_docs, which must be finite")
    return shp_rank_idf(n_docs, doc_freq)


def bm25_term(double idf, double tf, double doc_len, double mean_len, *, double k1=0.9, double b=0.3):
    """Return the BM25 of one keyword in a memory of `doc_len` terms that has it `tf` times.

    A `mean_len` of 0, as of no memories, means that lengths do not count.
    """
    cdef shp_rank_bm25 bm25
    check_rank_numbers(k1, b, 0.0)
    if not (tf >= 0.0 and doc_len >= 0.0 and mean_len >= 0.0):
        raise ValueError("tf, doc_len and mean_len cannot be negative")
    if not (isfinite(idf) and isfinite(tf) and isfinite(doc_len) and isfinite(mean_len)):
        raise ValueError("idf, tf, doc_len and mean_len must be finite")
    if tf == 0.0:
        return 0.0
    shp_rank_bm25_set(k1, b, mean_len, &bm25)
    return shp_rank_term(&bm25, idf, tf, doc_len)


def recency(double age_days, double floor):
    """Return a factor from 1 (now) to `floor`, half-way after 30 days.  The future counts as now."""
    if not 0.0 <= floor <= 1.0:
        raise ValueError("floor must be between 0 and 1")
    if isnan(age_days):
        raise ValueError("age_days must be a number")
    return shp_rank_recency(age_days, floor)


def relevance(double bm25, double idf_sum, double n_docs, int64_t n_unknown=0):
    """Return how well a memory matches, 0 to 1, regardless of its age.

    `idf_sum` is the sum over the keywords that occur in the user's `n_docs` memories; `n_unknown` others do not.
    """
    cdef shp_rank_query query = shp_rank_query_of(idf_sum, n_docs, n_unknown)
    return shp_rank_relevance(bm25, &query)


def min_bm25(double relevance, double idf_sum, double n_docs, int64_t n_unknown=0):
    """Return the least BM25 with this relevance, to a few units in the last place; inf when there is none."""
    cdef shp_rank_query query = shp_rank_query_of(idf_sum, n_docs, n_unknown)
    return shp_rank_min_bm25(relevance, &query)


def length_of(int asks, int64_t n_question, int64_t n_answer):
    """Return the length of a memory with so many words in its two texts, as `asks` says who wrote them."""
    return shp_length_of(<uint8_t>asks, n_question, n_answer)


def key(str text):
    """Return the key of a term, a label or a session; 0 for an empty text."""
    cdef bytes encoded = text.encode("utf-8", "surrogatepass")
    return shp_rescore_key(encoded, <size_t>len(encoded)) if encoded else 0


cdef uint8_t _count_pairs(bytes stored, const shp_rescore_query* query) except 255:
    cdef shp_pairs pairs
    if len(stored) != SHP_PAIRS_BYTES:
        return 0
    memcpy(&pairs, <const char*>stored, SHP_PAIRS_BYTES)
    return <uint8_t>shp_pairs_count(&pairs, query.pairs, query.n_pairs)


def rescore(memories, *, double now, int64_t mean_len=0, double recency_floor=0.9, words=(), periods=(), weights=None,
            bint is_request=False):
    """Return (sequence, bm25, mean, score) of the candidates and their neighbours, best first.

    `memories` are (sequence, timestamp, bm25, whole, thread, label, asks, doc_len, pairs, is_candidate) in ascending order
    of sequence: all candidates and the memories within three sequences of one.  `whole` is the BM25 of whole words
    (`whole_tf`), `mean` the BM25 that relevance is computed from.  `mean_len`: the mean length of all the user's
    memories, rounded down.  `pairs` are those of text.pairs, `words` the query's keywords.  `weights` are for all of them; None: those of talks between people, and with an assistant.
    Instructions and preferences count as the weights say if `is_request`.  The formula is in rescore.c.
    """
    cdef list given = list(memories)
    cdef shp_rescore_query query
    cdef shp_rescore_buffers buffers
    cdef shp_rescore_hit hit
    cdef shp_rescore_memory* rows
    cdef list found = []
    cdef Py_ssize_t i
    cdef int64_t doc_len
    cdef shp_pairs_reader reader
    cdef bytes pairs
    if len(words) > SHP_RESCORE_MAX_LABELS:
        raise ValueError(f"at most {SHP_RESCORE_MAX_LABELS} words")
    if not isfinite(now):
        raise ValueError("now must be finite")
    check_rank_numbers(0.0, 0.0, recency_floor)
    set_rescore_query(&query, now, recency_floor, periods, weights, is_request)
    query.n_labels = <int>len(words)
    reader.n, reader.last = 0, 0
    for i in range(len(words)):
        pairs = words[i].encode("utf-8", "surrogatepass")
        query.labels[i] = shp_rescore_key(pairs, <size_t>len(pairs)) if pairs else 0
        shp_rescore_read_word(&query, &reader, pairs, <size_t>len(pairs))
    rows = <shp_rescore_memory*>malloc((<size_t>len(given) + 1) * sizeof(shp_rescore_memory))
    if rows == NULL:
        raise MemoryError
    memset(&buffers, 0, sizeof(buffers))
    try:
        for i in range(len(given)):
            (rows[i].sequence, rows[i].timestamp, rows[i].bm25, rows[i].whole, rows[i].thread, rows[i].label,
             rows[i].asks, doc_len, pairs, rows[i].is_candidate) = given[i]
            rows[i].length = shp_length_class(doc_len)
            rows[i].pairs = _count_pairs(pairs, &query)
            if i and rows[i].sequence <= rows[i - 1].sequence:
                raise ValueError("memories must be in ascending order of sequence")
            if not -MOST_SEQUENCE <= rows[i].sequence <= MOST_SEQUENCE:
                raise ValueError(f"a sequence must be between -{MOST_SEQUENCE} and {MOST_SEQUENCE}")
        if not shp_rescore(&buffers, &query, mean_len, rows, len(given)):
            raise MemoryError
        while shp_rescore_pop(&buffers, &hit):
            found.append((hit.sequence, hit.bm25, shp_rescore_mean(&hit), hit.score))
    finally:
        shp_rescore_free(&buffers)
        free(rows)
    return found
