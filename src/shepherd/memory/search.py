"""From keywords to results: ranking is native, the rows of the few best are fetched here.

Inside the caller's read transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd._native.store import Connection
from shepherd.memory.hot import HotRecall
from shepherd.memory.records import Periods
from shepherd.types import SearchResult

__all__ = ["best"]

_Row = tuple[int, str, str, int, int, str, str]

_DAY_S = 86_400.0
# Parameters of one statement; more results are fetched in several.
_MOST_IDS = 32
_ROWS = [
    "SELECT id, user_message, assistant_response, timestamp, pinned, source, session FROM context"
    f" WHERE id IN ({', '.join('?' * n)})"
    for n in range(_MOST_IDS + 1)
]


def best(
    connection: Connection,
    recall: HotRecall,
    tenant: int,
    keywords: Sequence[str],
    *,
    limit: int,
    now: float,
    recency_floor: float,
    min_relevance: float,
    except_session: str = "",
    periods: Periods = (),
) -> list[SearchResult]:
    """The best memories of a tenant, best first, ties to the one stored last; none of `except_session`.

    `periods`: times that the question names, which count for memories of those times.
    """
    asked = limit
    while True:
        hits = recall.search(
            connection,
            tenant,
            keywords,
            asked,
            now,
            recency_floor=recency_floor,
            min_relevance=min_relevance,
            periods=periods,
        )
        rows = _rows(connection, [hit[0] for hit in hits]) if hits else {}
        # An entry of the index without its row, in a damaged file, is not there: `check` finds and mends it.
        results = [
            _result(row, score, relevance, now)
            for memory_id, _, score, relevance in hits
            if (row := rows.get(memory_id)) is not None and (not except_session or row[6] != except_session)
        ]
        if len(results) >= limit or len(hits) < asked:
            return results[:limit]
        # What is withheld is the little that this session told, so this is seldom more than one more round.
        asked *= 4


def _result(row: _Row, score: float, relevance: float, now: float) -> SearchResult:
    memory_id, question, answer, timestamp, pinned, source, _ = row
    age_days = (now - timestamp) / _DAY_S
    return SearchResult(
        memory_id,
        question,
        answer,
        timestamp,
        score,
        relevance,
        age_days if age_days > 0 else 0.0,
        pinned != 0,
        source,
    )


def _rows(connection: Connection, ids: list[int]) -> dict[int, _Row]:
    if len(ids) <= _MOST_IDS:
        return {row[0]: row for row in connection.execute(_ROWS[len(ids)], ids)}
    rows: dict[int, _Row] = {}
    for start in range(0, len(ids), _MOST_IDS):
        rows |= _rows(connection, ids[start : start + _MOST_IDS])
    return rows
