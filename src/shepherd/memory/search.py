"""From keywords to results: ranking is native, the rows of the few best are fetched here.

Inside the caller's read transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd._native.store import Connection
from shepherd.memory.hot import HotRecall
from shepherd.memory.records import Periods
from shepherd.memory.results import COLUMNS, Hit, Row, best_results
from shepherd.types import SearchResult

__all__ = ["best"]

# Parameters of one statement; more results are fetched in several.
_MOST_IDS = 32
_ROWS = [f"SELECT {COLUMNS} FROM context WHERE id IN ({', '.join('?' * n)})" for n in range(_MOST_IDS + 1)]


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
    except_since: int = 0,
    periods: Periods = (),
    version: int | None = None,
) -> list[SearchResult]:
    """The best memories of a tenant, best first, ties to the one stored last; none that
    `except_session` has told from `except_since` on.

    `periods`: times that the question names, which count for memories of those times. `version`: the tenant's
    in this transaction, where the caller has read it.
    """

    def find(asked: int) -> list[Hit]:
        return recall.search(
            connection,
            tenant,
            keywords,
            asked,
            now,
            recency_floor=recency_floor,
            min_relevance=min_relevance,
            periods=periods,
            version=version,
        )

    def fetch(ids: list[int]) -> dict[int, Row]:
        return _rows(connection, ids)

    return best_results(
        find, fetch, limit=limit, now=now, except_session=except_session, except_since=except_since
    )


def _rows(connection: Connection, ids: list[int]) -> dict[int, Row]:
    if len(ids) <= _MOST_IDS:
        return {row[0]: row for row in connection.execute(_ROWS[len(ids)], ids)}
    rows: dict[int, Row] = {}
    for start in range(0, len(ids), _MOST_IDS):
        rows |= _rows(connection, ids[start : start + _MOST_IDS])
    return rows
