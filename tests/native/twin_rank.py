"""The slow truth of recall: BM25, recency and relevance over lists of terms, in plain Python.

Sums are taken in the order of the keywords, one rounding per operation, so that equal means equal bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

MAX_KEYWORDS = 16
LN_2 = 0.69314718055994530942


@dataclass(frozen=True)
class Document:
    """One memory: its terms with repeats, and the length that the table states (normally their number)."""

    id: int
    terms: tuple[str, ...]
    timestamp: int
    doc_len: int


def idf(n_docs: float, doc_freq: float) -> float:
    return math.log(1.0 + (n_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def bm25_term(
    idf: float, tf: float, doc_len: float, mean_len: float, *, k1: float = 0.9, b: float = 0.3
) -> float:
    slope = k1 * b / mean_len if mean_len > 0.0 else 0.0
    return idf * tf * (k1 + 1.0) / (tf + (k1 * (1.0 - b) + slope * doc_len))


def recency(age_days: float, floor: float) -> float:
    return floor + (1.0 - floor) / (1.0 + max(age_days, 0.0) / 30.0)


def relevance(bm25: float, idf_sum: float, n_docs: float) -> float:
    if n_docs < 1 or idf_sum <= 0.0 or bm25 <= 0.0:
        return 0.0
    return min(bm25 / idf_sum, 1.0) * -math.expm1(-bm25 * LN_2 / idf(n_docs, 1.0))


def chosen_keywords(documents: Sequence[Document], keywords: Sequence[str]) -> list[tuple[str, int]]:
    """The distinct keywords that some document has, with their document frequency, in the order given.

    Of more than sixteen the rarest stay, the earlier first where equally rare.
    """
    known = []
    for position, word in enumerate(dict.fromkeys(keywords)):
        doc_freq = sum(word in document.terms for document in documents)
        if doc_freq:
            known.append((doc_freq, position, word))
    rarest = sorted(known)[:MAX_KEYWORDS]
    return [(word, doc_freq) for doc_freq, _, word in sorted(rarest, key=lambda entry: entry[1])]


def search(
    documents: Sequence[Document],
    keywords: Sequence[str],
    k: int,
    now: float,
    *,
    k1: float = 0.9,
    b: float = 0.3,
    recency_floor: float = 0.9,
    min_relevance: float = 0.0,
) -> list[tuple[int, float, float, float]]:
    """(id, bm25, score, relevance) of the best k of one user's documents; ties to the larger id."""
    if not documents:
        return []
    n_docs = float(len(documents))
    mean_len = float(sum(document.doc_len for document in documents)) / n_docs
    weights = [(word, idf(n_docs, doc_freq)) for word, doc_freq in chosen_keywords(documents, keywords)]
    idf_sum = 0.0
    for _, weight in weights:
        idf_sum += weight
    found = []
    for document in documents:
        bm25 = 0.0
        for word, weight in weights:
            tf = document.terms.count(word)
            if tf:
                bm25 += bm25_term(weight, float(tf), float(document.doc_len), mean_len, k1=k1, b=b)
        if bm25 <= 0.0:
            continue
        fit = relevance(bm25, idf_sum, n_docs)
        if fit >= min_relevance:
            age_days = (now - document.timestamp) / 86400.0
            found.append((document.id, bm25, bm25 * recency(age_days, recency_floor), fit))
    return sorted(found, key=lambda entry: (-entry[2], -entry[0]))[:k]
