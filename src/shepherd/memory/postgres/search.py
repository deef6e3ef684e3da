"""Ranking on a server: PostgreSQL returns the postings of the keywords, and our formulas rank them.

The same sums in the same order as src/_native/recall.c, one rounding per operation, and then the same
rescoring by the conversation around a memory: equal data gives equal bits on both engines.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shepherd import paths
from shepherd._native import rank
from shepherd._native.text import match_expression
from shepherd.encryption import Sealer
from shepherd.memory.corpora import Corpus
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.queries import Hit, RecallQuery
from shepherd.memory.records import Periods
from shepherd.memory.schema import memory_range
from shepherd.types import SECONDS_PER_DAY

__all__ = ["ServerTables"]

_Numbers = NDArray[np.int64]
_Doubles = NDArray[np.float64]

_K1, _B = 0.9, 0.3
# As in recall.c: the number of keywords that are looked up, and of the rarest known ones that are ranked by.
_MOST_LOOKED_UP = 64
_MOST_KEYWORDS = 16

# One row per keyword, its postings in PostgreSQL's binary form of a bigint array: a posting takes 48 bytes of
# traffic and no Python object. A keyword without postings has no row. `id + 0` and OFFSET 0 keep the planner,
# which knows neither the words nor the user, from reading all rows by the primary key or without an index.
_POSTINGS = (
    "SELECT k.place, array_send(array_agg(t.id)), array_send(array_agg(t.parts)),"
    " array_send(array_agg(t.doc_len)), array_send(array_agg(t.timestamp))"
    " FROM unnest(?1::text[] /* ?1: {corpus.terms}.terms */) WITH ORDINALITY AS k(term, place)"
    " CROSS JOIN LATERAL (SELECT id, {corpus.timestamp}::bigint AS timestamp, doc_len::bigint AS doc_len,"
    "  coalesce(counts[array_position(repeated, k.term)], {corpus.usual_parts})::bigint AS parts"
    "  FROM {corpus.terms} WHERE terms @> ARRAY[k.term] AND id + 0 BETWEEN ?2 AND ?3"
    "  OFFSET 0) AS t"
    " GROUP BY k.place ORDER BY k.place"
)
_AROUND = (
    "SELECT id, {corpus.timestamp}, {corpus.thread}, {corpus.label}, {corpus.asks}, doc_len,"
    " {corpus.pairs} FROM {corpus.rows} WHERE user_id = (SELECT user_id FROM tenants WHERE number = ?)"
    " AND id = ANY(?::bigint[]) ORDER BY id"
)
# array_send: number of dimensions, flags, type, then length and lower bound of the one dimension.
_ARRAY_HEADER_BYTES = 20
_ELEMENT = np.dtype([("size", ">i4"), ("value", ">i8")])


@dataclass(frozen=True)
class _Postings:
    """Memories with one keyword, as parallel arrays."""

    ids: _Numbers
    tf: _Doubles
    whole_tf: _Doubles
    """For relevance: in whole words, rounded up."""
    doc_len: _Doubles
    timestamps: _Doubles


@dataclass(frozen=True)
class _Scored:
    """Memories with any of the keywords, as parallel arrays, ids ascending; `order` is best first."""

    tenant: int
    ids: _Numbers
    bm25: _Doubles
    whole: _Doubles
    """BM25 of whole words."""
    order: _Numbers
    idf_sum: float
    n_docs: float
    n_unknown: int
    """Number of keywords that no row has."""
    mean_len: int

    def sums_of(self, memory_ids: list[int]) -> Iterator[tuple[float, float]]:
        """Yield the BM25 of each memory, and that of whole words; 0 without any of the keywords."""
        wanted = np.array(memory_ids, dtype=np.int64)
        places = np.minimum(np.searchsorted(self.ids, wanted), len(self.ids) - 1)
        is_known = self.ids[places] == wanted
        bm25, whole = (np.where(is_known, sums[places], 0.0).tolist() for sums in (self.bm25, self.whole))
        return zip(bm25, whole, strict=True)


class ServerTables:
    """hot_rows.Tables of a server, and the ranking that answers where there is no hot index."""

    has_marks = True
    # Even for a hundred memories that takes milliseconds.
    most_at_once = 5_000
    patience_s = 0.2

    def __init__(self, database: Database, corpus: Corpus, sealer: Sealer | None = None) -> None:
        self._database = database
        self.sealer = sealer
        self._corpus = corpus
        self.name = database.shown
        self.read_only = database.read_only
        self.read = database.reading
        place = "\0".join(
            str(database.address.parameters.get(part, "")) for part in ("host", "hostaddr", "port", "dbname")
        )
        key = hashlib.blake2b(f"{place}\0{database.schema}".encode(), digest_size=8).hexdigest()
        self.folder = paths.cache_dir() / "hot-indexes" / key
        here = f"{socket.gethostname()}\0{self.folder}"
        self.copy = hashlib.blake2b(here.encode(), digest_size=8).hexdigest()

    def write(self) -> AbstractContextManager[Connection]:
        """Return a write transaction, committed at the end of the block."""
        return self._database.writing("hot indexes")

    def ids(self, connection: Connection, corpus: Corpus, first: int, last: int) -> list[tuple[int]]:
        """Return the ids of the rows in a range."""
        return connection.execute(f"SELECT id FROM {corpus.rows} WHERE id BETWEEN ? AND ?", (first, last))

    def search(
        self,
        connection: Connection,
        tenant: int,
        keywords: Sequence[str],
        k: int,
        now: float,
        *,
        k1: float = _K1,
        b: float = _B,
        recency_floor: float,
        min_relevance: float,
        periods: Periods = (),
        weights: Sequence[float] | None = None,
        is_request: bool = False,
    ) -> list[Hit]:
        """Return (id, bm25, score, relevance) of the best `k`, ties to the larger id first, as Recall.search.

        `k1`, `b` and `weights` are those of the corpus, which are the only ones that are used.
        """
        words = list(dict.fromkeys(keywords))[:_MOST_LOOKED_UP]
        query = RecallQuery(
            words, k, now, recency_floor, min_relevance, periods=periods, is_request=is_request
        )
        # A search asks again for more hits if some are excluded.
        asked = (self._corpus.noun, tenant, now, recency_floor, *words)
        if asked not in connection.kept:
            connection.kept[asked] = self._scored(connection, tenant, query)
        scored: _Scored | None = connection.kept[asked]
        if scored is None:
            return []
        # The scores that neighbours add depend on the number of candidates, on both engines.
        return _rescore(connection, self._corpus, scored, query, k)

    def _scored(self, connection: Connection, tenant: int, query: RecallQuery) -> _Scored | None:
        """Return BM25 of every row with one of the words, None if there is no such row."""
        if not query.keywords or query.limit < 1:
            return None
        sums = connection.execute(
            f"SELECT n, total_length FROM {self._corpus.sums} WHERE number = ?", (tenant,)
        )
        lists = _postings(connection, self._corpus, tenant, list(query.keywords)) if sums else []
        return _score(lists, query, tenant, *sums[0]) if lists else None


def _postings(connection: Connection, corpus: Corpus, tenant: int, words: list[str]) -> list[_Postings]:
    """Return the postings of each keyword that the tenant's rows have, in the keywords' order."""
    # The quoted tokens of FTS5's query are the terms as they are stored; none has a quote in it.
    terms = match_expression(words, tenant).decode()[1:-1].split('" OR "')
    first, last = memory_range(tenant)
    [rows] = connection.execute_together(
        [(_POSTINGS.format(corpus=corpus), (terms, first, last))], binary=True
    )
    return [
        _Postings(
            _numbers(ids),
            _numbers(parts).astype(np.float64) / rank.PARTS,
            np.ceil(_numbers(parts).astype(np.float64) / rank.PARTS),
            _numbers(doc_len).astype(np.float64),
            _numbers(timestamps).astype(np.float64),
        )
        for _, ids, parts, doc_len, timestamps in rows
    ]


def _numbers(array: bytes) -> _Numbers:
    values = np.frombuffer(array, dtype=_ELEMENT, offset=_ARRAY_HEADER_BYTES)["value"]
    return values.astype(np.int64)


def _score(
    lists: list[_Postings], query: RecallQuery, tenant: int, n_memories: int, total_length: int
) -> _Scored:
    """Return BM25 of every memory with one of the keywords, ordered by BM25 times recency."""
    # Sums that are smaller than the postings (a damaged database) must not give NaN.
    n_docs = float(max(n_memories, *(len(postings.ids) for postings in lists)))
    used = _rarest(lists)
    idfs = [rank.idf(n_docs, len(postings.ids)) for postings in used]
    idf_sum = 0.0
    for idf in idfs:
        idf_sum += idf
    ids, doc_len, timestamps = _documents(used)
    mean_len = total_length / n_docs
    whole_mean_len = total_length // int(n_docs)
    bm25 = _sums([(one.ids, one.tf) for one in used], idfs, ids, doc_len, mean_len)
    whole = _sums([(one.ids, one.whole_tf) for one in used], idfs, ids, doc_len, mean_len)
    age_days = np.maximum((query.now - timestamps) / SECONDS_PER_DAY, 0.0)
    floor = query.recency_floor
    scores = bm25 * (floor + (1.0 - floor) / (1.0 + age_days / 30.0))
    order = np.lexsort((ids, scores))[::-1]
    n_unknown = len(query.keywords) - len(lists)
    return _Scored(tenant, ids, bm25, whole, order, idf_sum, n_docs, n_unknown, whole_mean_len)


def _rescore(
    connection: Connection,
    corpus: Corpus,
    scored: _Scored,
    query: RecallQuery,
    n: int,
) -> list[Hit]:
    """Return the best `n` hits, scored with the conversation around them."""
    is_request = query.is_request and corpus.weights is None
    n_candidates = max(n, rank.REQUEST_CANDIDATES if is_request else rank.CANDIDATES)
    candidates = set(scored.ids[scored.order[:n_candidates]].tolist())
    within_reach = {near for one in candidates for near in range(one - rank.REACH, one + rank.REACH + 1)}
    first, last = memory_range(scored.tenant)
    rows = connection.execute(
        _AROUND.format(corpus=corpus),
        (scored.tenant, [near for near in within_reach if first <= near <= last]),
    )
    sums = scored.sums_of([row[0] for row in rows])
    around = [
        (
            memory_id - first,
            timestamp,
            bm25,
            whole,
            thread,
            label,
            asks,
            doc_len,
            pairs or b"",
            memory_id in candidates,
        )
        for (memory_id, timestamp, thread, label, asks, doc_len, pairs), (bm25, whole) in zip(
            rows, sums, strict=True
        )
    ]
    least = query.min_relevance
    known = (scored.idf_sum, scored.n_docs, scored.n_unknown)
    lowest = rank.min_bm25(least, *known) * (1.0 - 1e-12)
    hits: list[Hit] = []
    rescored = rank.rescore(
        around,
        now=query.now,
        mean_len=scored.mean_len,
        recency_floor=query.recency_floor,
        words=query.keywords,
        periods=query.periods,
        weights=corpus.weights,
        is_request=query.is_request,
    )
    for sequence, bm25, mean, score in rescored:
        if mean < lowest:
            continue
        relevance = rank.relevance(mean, *known)
        if relevance >= least:
            hits.append((first + sequence, bm25, score, relevance))
        if len(hits) == n:
            break
    return hits


def _rarest(lists: list[_Postings]) -> list[_Postings]:
    """Return the keywords to rank by, in their order: of too many the rarest, ties to the earlier."""
    order = sorted(range(len(lists)), key=lambda place: (len(lists[place].ids), place))
    return [lists[place] for place in sorted(order[:_MOST_KEYWORDS])]


def _documents(lists: list[_Postings]) -> tuple[_Numbers, _Doubles, _Doubles]:
    """Return id, length and time of every memory in the postings, ids ascending."""
    ids, places = np.unique(np.concatenate([postings.ids for postings in lists]), return_index=True)
    doc_len = np.concatenate([postings.doc_len for postings in lists])[places]
    timestamps = np.concatenate([postings.timestamps for postings in lists])[places]
    return ids, doc_len, timestamps


def _sums(
    lists: list[tuple[_Numbers, _Doubles]],
    idfs: list[float],
    ids: _Numbers,
    doc_len: _Doubles,
    mean_len: float,
) -> _Doubles:
    """Return BM25 of each document, added up in the order of the keywords, with the operations of rank.h.

    `lists` are the documents with a keyword, and how often they have it.
    """
    base = _K1 * (1.0 - _B)
    slope = _K1 * _B / mean_len if mean_len > 0.0 else 0.0
    norms = base + slope * doc_len
    sums = np.zeros(len(ids))
    for (holders, tf), idf in zip(lists, idfs, strict=True):
        places = np.searchsorted(ids, holders)
        sums[places] += idf * tf * (_K1 + 1.0) / (tf + norms[places])
    return sums
