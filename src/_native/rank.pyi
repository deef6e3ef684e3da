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
"""At least so many best memories by BM25 and recency are rescored."""
REACH: Final[int]
"""Memories whose sequence is so far from a candidate's play a part in that."""

class Weights(NamedTuple):
    """What rescoring gives: shares of the BM25 of neighbours, factors of the memory itself.

    `previous`, `exchange`, `answer`: share of the memory before when that one does not end with a question,
    ends with one after telling something, only asks. `next`: of the one after; `second`: of both two steps
    away; `session`: of how much better the conversation's best candidate is. `asking`: factor of a memory
    that only asks; `label`, `period`: of one whose label or time the question names.
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
