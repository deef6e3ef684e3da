"""From keywords to results: ranking is native, the rows of the few best are fetched here.

Inside the caller's read transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd._native.store import Connection, Recall
from shepherd.types import SearchResult

__all__ = ["best"]

_DAY_S = 86_400.0
# Parameters of one statement; more results are fetched in several.
_MOST_IDS = 32
_ROWS = [
    "SELECT id, user_message, assistant_response, timestamp, pinned, source FROM context"
    f" WHERE id IN ({', '.join('?' * n)})"
    for n in range(_MOST_IDS + 1)
]


def best(
    connection: Connection,
    recall: Recall,
    tenant: int,
    keywords: Sequence[str],
    *,
    limit: int,
    now: float,
    recency_floor: float,
    min_relevance: float,
) -> list[SearchResult]:
    """The best memories of a tenant, best first, ties to the one stored last."""
    hits = recall.search(
        connection, tenant, keywords, limit, now, recency_floor=recency_floor, min_relevance=min_relevance
    )
    if not hits:
        return []
    rows = _rows(connection, [hit[0] for hit in hits])
    results = []
    for memory_id, _, score, relevance in hits:
        _, question, answer, timestamp, pinned, source = rows[memory_id]
        age_days = (now - timestamp) / _DAY_S
        results.append(
            SearchResult(
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
        )
    return results


def _rows(connection: Connection, ids: list[int]) -> dict[int, tuple[int, str, str, int, int, str]]:
    if len(ids) <= _MOST_IDS:
        return {row[0]: row for row in connection.execute(_ROWS[len(ids)], ids)}
    rows: dict[int, tuple[int, str, str, int, int, str]] = {}
    for start in range(0, len(ids), _MOST_IDS):
        rows |= _rows(connection, ids[start : start + _MOST_IDS])
    return rows
