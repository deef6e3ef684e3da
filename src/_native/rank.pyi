from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

__all__ = [
    "ASSISTANT_ANSWER",
    "ASSISTANT_QUESTION",
    "ASSISTANT_WEIGHTS",
    "CANDIDATES",
    "DEFAULT_WEIGHTS",
    "INSTRUCTS",
    "PARTS",
    "PREFERS",
    "REACH",
    "REQUEST_CANDIDATES",
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

CANDIDATES: Final[int]
REQUEST_CANDIDATES: Final[int]
"""Least number of memories that are rescored: the best by BM25 and recency."""
REACH: Final[int]
"""Largest distance in sequences at which a memory affects a candidate's rescoring."""
PARTS: Final[int]
"""Parts that a word counts; a word of an assistant counts one."""
ASSISTANT_QUESTION: Final[int]
"""Bit of `asks`: an assistant wrote the memory's question."""
ASSISTANT_ANSWER: Final[int]
"""Bit of `asks`: an assistant wrote the memory's answer."""
INSTRUCTS: Final[int]
"""Bit of `asks`: a person said in the memory how answers have to be."""
PREFERS: Final[int]
"""Bit of `asks`: a person said in the memory what they prefer."""

class Weights(NamedTuple):
    """Weights of rescoring: shares of the neighbours' BM25, and factors of the memory itself.

    `previous`, `exchange`, `answer`: share of the memory before, if it does not end with a question, ends
    with one after a statement, or is nothing but a question. `next`: share of the memory after; `second`: of
    the two memories two steps away; `session`: of the difference to the conversation's best candidate.
    `asking`: factor of a memory that is nothing but a question; `label`, `period`: factors of a memory whose
    label or time the query names; `instruction`, `preference`: of one in which a person says how answers have
    to be, or what they prefer, if the query wants something done; `length`: for each doubling of the length.
    `pair`: share of the memory's own BM25 for each pair of the query's words that stand side by side.
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
    instruction: float
    preference: float
    length: float
    pair: float

DEFAULT_WEIGHTS: Weights
"""Weights between people."""
ASSISTANT_WEIGHTS: Weights
"""Weights of a memory in which an assistant wrote, or in the one before or after it."""

def idf(n_docs: float, doc_freq: float) -> float: ...
def bm25_term(
    idf: float, tf: float, doc_len: float, mean_len: float, *, k1: float = 0.9, b: float = 0.3
) -> float: ...
def recency(age_days: float, floor: float) -> float: ...
def relevance(bm25: float, idf_sum: float, n_docs: float, n_unknown: int = 0) -> float: ...
def min_bm25(relevance: float, idf_sum: float, n_docs: float, n_unknown: int = 0) -> float: ...
def key(text: str) -> int: ...
def length_of(asks: int, n_question: int, n_answer: int) -> int: ...
def rescore(
    memories: Iterable[tuple[int, int, float, float, int, int, int, int, bytes, bool]],
    *,
    now: float,
    mean_len: int = 0,
    recency_floor: float = 0.9,
    words: Sequence[str] = (),
    periods: Sequence[tuple[int, int]] = (),
    weights: Sequence[float] | None = None,
    is_request: bool = False,
) -> list[tuple[int, float, float, float]]: ...
