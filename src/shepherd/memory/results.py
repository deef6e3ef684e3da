"""From what ranking found to results: rows are fetched, what the running conversation told is withheld."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from shepherd.types import SECONDS_PER_DAY, SearchResult

__all__ = ["COLUMNS", "Hit", "Row", "best_results", "result_of"]

# Id, BM25, score, relevance.
Hit = tuple[int, float, float, float]
# COLUMNS of one row of `context`.
Row = tuple[int, str, str, int, int, str, str]
COLUMNS = "id, user_message, assistant_response, timestamp, pinned, source, session"


def best_results(
    find: Callable[[int], Sequence[Hit]],
    fetch: Callable[[list[int]], Mapping[int, Row]],
    *,
    limit: int,
    now: float,
    except_session: str,
    except_since: int,
) -> list[SearchResult]:
    """Results of the first `limit` hits that are not of `except_session` from `except_since` on.

    `find` gives so many hits, best first, and fewer only if there are no more; `fetch` the rows of ids. A hit
    without its row, in a damaged database, is not there: `check` finds and mends it.
    """
    asked = limit
    while True:
        hits = find(asked)
        rows = fetch([hit[0] for hit in hits]) if hits else {}
        results = [
            result_of(row, score, relevance, now)
            for memory_id, _, score, relevance in hits
            if (row := rows.get(memory_id)) is not None
            and not (except_session and row[6] == except_session and row[3] >= except_since)
        ]
        if len(results) >= limit or len(hits) < asked:
            return results[:limit]
        # What is withheld is the little that this session told, so this is seldom more than one more round.
        asked *= 4


def result_of(row: Row, score: float, relevance: float, now: float) -> SearchResult:
    """A row with what ranking found for it."""
    memory_id, question, answer, timestamp, pinned, source, _ = row
    age_days = (now - timestamp) / SECONDS_PER_DAY
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
