from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

__all__ = [
    "CANDIDATES",
    "DEFAULT_WEIGHTS",
    "REACH",
    "Weights",
    "bm25_term",
    "idf",
    "key",
    "min_bm25",
    "recency",
    "relevance",
    "rescore",
]

CANDIDATES: Final[int]
"""Least number of memories that are rescored: the best by BM25 and recency."""
REACH: Final[int]
"""Largest distance in sequences at which a memory affects a candidate's rescoring."""

class Weights(NamedTuple):
    """Weights of rescoring: shares of the neighbours' BM25, and factors of the memory itself.

    `previous`, `exchange`, `answer`: share of the memory before, if it does not end with a question, ends
    with one after a statement, or is nothing but a question. `next`: share of the memory after; `second`: of
    the two memories two steps away; `session`: of the difference to the conversation's best candidate.
    `asking`: factor of a memory that is nothing but a question; `label`, `period`: factors of a memory whose
    label or time the query names.
    """

    previous: float
    exchange: float
    answer: float
    next: float
    second: float
    session: float
    asking: float
    label: float
    period: float

DEFAULT_WEIGHTS: Weights

def idf(n_docs: float, doc_freq: float) -> float: ...
def bm25_term(
    idf: float, tf: float, doc_len: float, mean_len: float, *, k1: float = 0.9, b: float = 0.3
) -> float: ...
def recency(age_days: float, floor: float) -> float: ...
def relevance(bm25: float, idf_sum: float, n_docs: float) -> float: ...
def min_bm25(relevance: float, idf_sum: float, n_docs: float) -> float: ...
def key(text: str) -> int: ...
def rescore(
    memories: Iterable[tuple[int, int, float, int, int, int, bool]],
    *,
    now: float,
    recency_floor: float = 0.9,
    labels: Sequence[int] = (),
    periods: Sequence[tuple[int, int]] = (),
    weights: Sequence[float] = ...,
) -> list[tuple[int, float, float, float]]: ...
