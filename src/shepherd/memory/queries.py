"""What a message asks memory for: words to search by, times, or all that was told at those times.

"What did we do yesterday?" has no word to search by. "Yesterday" in a memory is the day before that memory
was told, so it is not searched for, and what was told yesterday is what is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from shepherd._native.text import terms
from shepherd.memory.arguments import extract_keywords
from shepherd.memory.connection import Connection
from shepherd.memory.periods import mentions_time, named_times
from shepherd.memory.records import Periods
from shepherd.memory.results import COLUMNS, Row, result_of
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.memory.stop_words import without_stop_words
from shepherd.memory.store import MemoryStore
from shepherd.types import SearchResult

__all__ = ["newest_told", "understood"]

# What is said of any time: "what happened", "what did we talk about", "where did we go".
_GENERAL = frozenset(terms("happen talk discuss chat speak go thing conversation topic new"))
# Asks nothing of a day, though it names one: "how are you today?"
_GREETING = re.compile(r"\bhow\s*(?:'s|is|are|do)\s+(?:you|u|things|everything|it going)\b", re.IGNORECASE)
_NEWEST = (
    f"SELECT {COLUMNS} FROM context WHERE id >> {SEQUENCE_BITS} = ? AND timestamp >= ? AND timestamp < ?"
    " AND NOT (session = ? AND timestamp >= ?) ORDER BY timestamp DESC, id DESC LIMIT ?"
)
# Above any time and any number of rows.
_NEVER = 1 << 62


def understood(text: str, now: float) -> tuple[list[str], Periods, bool]:
    """The keywords, the periods named, and whether nothing else is asked than what was at those times.

    Of a date the words stay among the keywords, since a memory of another time may speak of it.
    """
    keywords = extract_keywords(text)
    if not mentions_time(keywords):
        return without_stop_words(keywords), (), False
    times = named_times(text, now)
    if not times.periods:
        return without_stop_words(keywords), (), False
    # Not the keywords of the other texts: of nothing but stop words all are keywords.
    undated = frozenset(extract_keywords(times.undated))
    if _GENERAL.issuperset(undated.intersection(keywords)) and not _GREETING.search(text):
        dated = frozenset(extract_keywords(times.dated)) - undated
        return [word for word in keywords if word in dated], times.periods, True
    left = frozenset(extract_keywords(times.text))
    return without_stop_words([word for word in keywords if word in left]), times.periods, False


def newest_told(
    store: MemoryStore,
    user_id: str,
    periods: Periods,
    found: Collection[SearchResult],
    limit: int,
    now: float,
    except_session: str = "",
    except_since: int = 0,
) -> list[SearchResult]:
    """The newest memories of the periods, newest first, so many that with those found they are `limit`.

    Without a score, since no word is looked for, and as relevant as can be. None that `except_session` has
    told from `except_since` on. Reads an index over the times, at most twice `limit` rows of each period.
    """
    if len(found) >= limit:
        return []
    known = {result.id for result in found}
    most = min(limit + len(known), _NEVER)
    since = except_since if except_session else _NEVER

    def read(connection: Connection) -> set[Row]:
        tenant = store.find_number(connection, user_id)
        rows: set[Row] = set()
        for first, end in periods if tenant is not None else ():
            parameters = (tenant, first, end, except_session, since, most)
            rows.update(connection.execute(_NEWEST, parameters))
        return rows

    rows = sorted(store.read(read), key=lambda row: (-row[3], -row[0]))
    more = [result_of(row, 0.0, 1.0, now) for row in rows if row[0] not in known]
    return more[: limit - len(found)]
