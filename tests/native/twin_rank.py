"""The slow truth of recall: BM25, conversation, recency and relevance over lists of terms, in plain Python.

Sums are taken in the order of the keywords, one rounding per operation, so that equal means equal bits.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

MAX_KEYWORDS = 16
CANDIDATES, REQUEST_CANDIDATES = 32, 48
# Shares of the memory before (by how that ends), after, two away, of the session; factors of a memory that
# only asks, of a label and of a time that the question names, of an instruction and of a preference, and for
# each doubling of the length, and share of its own for each of the query's pairs of words.
WEIGHTS = (0.15, 0.4, 0.7, 0.2, 0.15, 0.3, 0.8, 1.15, 1.3, 1.0, 1.0, 1.0, 0.1)
# The same where an assistant wrote in the memory, or in the one before or after it.
ASSISTANT_WEIGHTS = (0.05, 0.05, 0.05, 0.05, 0.0, 0.2, 1.0, 1.15, 1.3, 2.5, 1.75, 0.875, 0.2)
# A word of an assistant counts a sixteenth.
PARTS = 16
BY_ASSISTANT = (4, 8)  # bits of `asks`: in the question, in the answer
INSTRUCTS, PREFERS = 16, 32
MOST_DIGITS = 15
MOST_WORDS = 64
PAIRED_TERMS, COUNTED_PAIRS = 32, 3
MOST_UNKNOWN, MANY_DOCUMENTS = 4, 100.0
LN_2 = 0.69314718055994530942


@dataclass(frozen=True)
class Document:
    """One memory: its terms with repeats, by text, and the length that the table states (normally theirs)."""

    id: int
    texts: tuple[tuple[str, ...], tuple[str, ...]]
    timestamp: int
    doc_len: int
    thread: int = 0
    label: int = 0
    asks: int = 0

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms of both texts."""
        return self.texts[0] + self.texts[1]

    @property
    def ending(self) -> int:
        """How it ends: 0, 1 with a question after something else, 2 with nothing but a question."""
        return min(self.asks % 4, 2)

    @property
    def has_assistant(self) -> bool:
        """Return whether an assistant wrote one of its texts."""
        return any(self.asks & bit for bit in BY_ASSISTANT)

    def tf(self, word: str) -> float:
        """How often it has a word; a sixteenth for each time in a text that an assistant wrote."""
        return (
            sum(
                text.count(word) * (1 if self.asks & bit else PARTS)
                for text, bit in zip(self.texts, BY_ASSISTANT, strict=True)
            )
            / PARTS
        )

    def whole_tf(self, word: str) -> float:
        """The same in whole words, rounded up, for relevance."""
        return float(math.ceil(self.tf(word)))


def fnv(text: str) -> int:
    number = 2166136261
    for byte in text.encode("utf-8", "surrogatepass"):
        number = (number ^ byte) * 16777619 % 2**32
    return number


def bits_of_pair(first: str, second: str) -> set[int]:
    """The bits that two words side by side set of 256."""
    mixed = (fnv(first) * 0x9E3779B1 + fnv(second) * 0x85EBCA77) % 2**32
    mixed ^= mixed >> 15
    mixed = mixed * 0x2C1B3C6D % 2**32
    mixed ^= mixed >> 13
    return {mixed % 256, mixed // 256 % 256}


def pairs(asks: int, question: Sequence[str], answer: Sequence[str]) -> set[int]:
    """The bits of all pairs in what people wrote of a memory."""
    bits: set[int] = set()
    for text, bit in zip((question, answer), BY_ASSISTANT, strict=True):
        terms = [] if asks & bit else text[:PAIRED_TERMS]
        for first, second in itertools.pairwise(terms):
            bits |= bits_of_pair(first, second)
    return bits


def stored_pairs(bits: Collection[int]) -> bytes:
    """The bits as a database has them."""
    return sum(1 << bit for bit in bits).to_bytes(32, "little") if bits else b""


def length(asks: int, question: Sequence[str], answer: Sequence[str]) -> int:
    """The length of a memory of these terms, in words of a person, rounded up."""
    parts = sum(
        len(text) * (1 if asks & bit else PARTS)
        for text, bit in zip((question, answer), BY_ASSISTANT, strict=True)
    )
    return -(-parts // PARTS)


def idf(n_docs: float, doc_freq: float) -> float:
    return math.log(1.0 + (n_docs - doc_freq + 0.5) / (doc_freq + 0.5))


def bm25_term(
    idf: float, tf: float, doc_len: float, mean_len: float, *, k1: float = 0.9, b: float = 0.3
) -> float:
    # A mean length next to 0 makes it infinite: the largest number stands for that.
    slope = min(k1 * b / mean_len, sys.float_info.max) if mean_len > 0.0 else 0.0
    return idf * tf * (k1 + 1.0) / (tf + (k1 * (1.0 - b) + slope * doc_len))


def recency(age_days: float, floor: float) -> float:
    return floor + (1.0 - floor) / (1.0 + max(age_days, 0.0) / 30.0)


def known_share(idf_sum: float, n_docs: float, n_unknown: int) -> float:
    """Share of a query that the documents know; an unknown word counts more the more documents there are."""
    unknown = min(n_unknown, MOST_UNKNOWN) * (idf(n_docs, 0.0) * (n_docs / (n_docs + MANY_DOCUMENTS)))
    return idf_sum / (idf_sum + unknown)


def relevance(bm25: float, idf_sum: float, n_docs: float, n_unknown: int = 0) -> float:
    if n_docs < 1 or idf_sum <= 0.0 or bm25 <= 0.0:
        return 0.0
    rarity = -math.expm1(-bm25 * LN_2 / idf(n_docs, 1.0))
    known = known_share(idf_sum, n_docs, n_unknown)
    return known * math.sqrt(min(bm25 / idf_sum, 1.0)) * math.sqrt(rarity)


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


def key(text: str) -> int:
    """FNV-1a, 31 bits of it, never 0."""
    return fnv(text) % 2**31 or 1


def neighbour(documents: Mapping[int, Document], document: Document, distance: int) -> Document | None:
    """The document with an id that much larger, if it is of the same thread."""
    found = documents.get(document.id + distance)
    return found if found is not None and found.thread == document.thread != 0 else None


def weights_of(document: Document, documents: Mapping[int, Document]) -> Sequence[float]:
    """The weights of its talk: with an assistant, if one wrote in it or beside it."""
    near = [document, *(neighbour(documents, document, distance) for distance in (-1, 1))]
    return ASSISTANT_WEIGHTS if any(one and one.has_assistant for one in near) else WEIGHTS


def length_factor(doc_len: int, mean_len: int, each: float) -> float:
    """The factor of a length: `each` for every binary digit more than the mean length has."""
    digits, mean = (min(number.bit_length(), MOST_DIGITS) for number in (doc_len, mean_len))
    factor = 1.0
    for _ in range(mean, digits):
        factor *= each
    for _ in range(digits, mean):
        factor /= each
    return factor


def evidence(
    document: Document,
    documents: Mapping[int, Document],
    bm25: Mapping[int, float],
    candidates: Collection[int],
    labels: Collection[int] = (),
    periods: Sequence[tuple[int, int]] = (),
    weights: Sequence[float] | None = None,
    *,
    is_request: bool = False,
    mean_len: int = 0,
    words: Sequence[str] = (),
) -> tuple[float, float]:
    """BM25 of the document with its share of that of its conversation, and the factor of its length."""
    around = {distance: neighbour(documents, document, distance) for distance in (-2, -1, 1, 2)}
    weights = weights or weights_of(document, documents)
    previous_share, (next_share, second, session, asking, label, period) = weights[:3], weights[3:9]
    instruction, preference, each, pair = weights[9:]
    scores = {distance: bm25[found.id] if found else 0.0 for distance, found in around.items()}
    own = bm25[document.id]
    thread = document.thread
    of_session = [bm25[id] for id in candidates if thread and documents[id].thread == thread]
    before = around[-1]
    total = own
    there = pairs(document.asks, *document.texts)
    wanted = [bits_of_pair(*two) for two in itertools.pairwise(words)] if document.id in candidates else []
    total += pair * min(sum(two <= there for two in wanted), COUNTED_PAIRS) * own
    total += previous_share[before.ending if before else 0] * scores[-1]
    total += next_share * scores[1]
    total += second * scores[-2]
    total += second * scores[2]
    total += session * (max(own, *of_session, 0.0) - own)
    if document.ending == 2:
        total *= asking
    if document.label and document.label in labels:
        total *= label
    if any(first <= document.timestamp < end for first, end in periods):
        total *= period
    if is_request and document.asks & INSTRUCTS:
        total *= instruction
    if is_request and document.asks & PREFERS:
        total *= preference
    return total, length_factor(document.doc_len, mean_len, each)


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
    periods: Sequence[tuple[int, int]] = (),
    weights: Sequence[float] | None = None,
    is_request: bool = False,
) -> list[tuple[int, float, float, float]]:
    """(id, bm25, score, relevance) of the best k of one user's documents; ties to the larger id."""
    if not documents:
        return []
    n_docs = float(len(documents))
    total_len = sum(document.doc_len for document in documents)
    mean_len, whole_mean_len = float(total_len) / n_docs, total_len // len(documents)
    chosen = [(word, idf(n_docs, doc_freq)) for word, doc_freq in chosen_keywords(documents, keywords)]
    idf_sum = 0.0
    for _, weight in chosen:
        idf_sum += weight

    by_id = {document.id: document for document in documents}
    ages = {document.id: (now - document.timestamp) / 86400.0 for document in documents}
    bm25, whole = dict.fromkeys(by_id, 0.0), dict.fromkeys(by_id, 0.0)
    for document in documents:
        for word, weight in chosen:
            for sums, tf in ((bm25, document.tf(word)), (whole, document.whole_tf(word))):
                if tf:
                    sums[document.id] += bm25_term(weight, tf, float(document.doc_len), mean_len, k1=k1, b=b)
    first = {id: score * recency(ages[id], recency_floor) for id, score in bm25.items() if score > 0.0}
    wants_instructions = is_request and (weights or ASSISTANT_WEIGHTS)[9] > 1.0
    n_candidates = max(k, REQUEST_CANDIDATES if wants_instructions else CANDIDATES)
    candidates = sorted(first, key=lambda id: (-first[id], -id))[:n_candidates]

    labels = {key(word) for word in dict.fromkeys(keywords)}
    looked_up = list(dict.fromkeys(keywords))[:MOST_WORDS]
    n_unknown = sum(not any(word in document.terms for document in documents) for word in looked_up)
    found = []
    for document in documents:
        near = [neighbour(by_id, document, distance) for distance in (-1, 0, 1)]
        is_beside = document.thread > 0 and any(one and one.id in candidates for one in near)
        if document.id not in candidates and not is_beside:
            continue
        total, shortness = evidence(
            document,
            by_id,
            bm25,
            candidates,
            labels,
            periods,
            weights,
            is_request=is_request,
            mean_len=whole_mean_len,
            words=looked_up,
        )
        own = whole[document.id]
        talk_weights = weights or weights_of(document, by_id)
        is_wanted = is_request and document.asks & INSTRUCTS and talk_weights[9] > 1.0
        counted = total + (total - bm25[document.id]) if is_wanted else total
        fit = relevance(0.5 * (own + (counted + (own - bm25[document.id]))), idf_sum, n_docs, n_unknown)
        if total > 0.0 and fit >= min_relevance:
            score = total * shortness * recency(ages[document.id], recency_floor)
            found.append((document.id, bm25[document.id], score, fit))
    return sorted(found, key=lambda entry: (-entry[2], -entry[0]))[:k]
