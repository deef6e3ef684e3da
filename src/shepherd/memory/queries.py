"""Searches of a user's memories: the query that a text becomes, and the results that ranking becomes.

"What did we do yesterday?" has no word to search by. "Yesterday" in a memory is the day before that memory
was stored, so it is no keyword, and the question asks for the memories of yesterday.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from shepherd._native import text as native
from shepherd._native.text import terms
from shepherd.escaping import storable
from shepherd.memory import tenants
from shepherd.memory.periods import mentions_time, named_times
from shepherd.memory.phrasing import without_frame
from shepherd.memory.records import Periods
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.memory.stop_words import without_stop_words
from shepherd.transactions import Connection
from shepherd.types import SECONDS_PER_DAY, SearchResult

__all__ = [
    "COLUMNS",
    "AskedTime",
    "Hit",
    "RecallQuery",
    "Row",
    "asked_time",
    "best_results",
    "extract_keywords",
    "may_ask_for_time",
    "newest_results",
    "parse_query",
    "result_of",
    "taking_turns",
    "with_distinct_questions",
]

# Id, BM25, score, relevance.
Hit = tuple[int, float, float, float]
# COLUMNS of one row of `context`.
Row = tuple[int, str, str, int, int, str, str]
COLUMNS = "id, user_message, assistant_response, timestamp, pinned, source, session"

# Words that fit any time: "what happened", "what did we talk about", "where did we go".
_GENERAL = frozenset(terms("happen talk discuss chat speak go thing conversation topic new"))
# Names a day without asking about it: "how are you today?"
_GREETING = re.compile(r"\bhow\s*(?:'s|is|are|do)\s+(?:you|u|things|everything|it going)\b", re.IGNORECASE)
_NEWEST = (
    f"SELECT {COLUMNS} FROM context WHERE id >> {SEQUENCE_BITS} = ? AND timestamp >= ? AND timestamp < ?"
    " AND NOT (session = ? AND timestamp >= ?) ORDER BY timestamp DESC, id DESC LIMIT ?"
)
# Above any time.
_NEVER = 1 << 62
# Number of hits up to which more are searched for because turns repeat a question.
_MOST_FOR_DISTINCT = 256
# Factor of a score for each memory of the same session above it, and how many of the best memories are
# reordered by it.
_SAME_SESSION = 0.7
_MOST_TAKING_TURNS = 32


class RecallQuery(NamedTuple):
    """One search of a user's memories as of `now` (unix seconds): at most `limit` results.

    `recency_floor`: share of the score that the oldest memory keeps. Results below `min_relevance` are left
    out, and so are memories of `except_session` from `except_since` on (unix seconds). `periods`: times that
    the question names; memories of those times rank higher. `distinct_questions`: of turns with the same
    question only the best is a result. `is_request`: memories with instructions or preferences rank higher.
    `is_about_several`: the more memories of a session are above one, the lower it ranks.
    """

    # A frozen dataclass takes five times as long to build, 1 µs of the 15 of a recall.
    keywords: Sequence[str]
    limit: int
    now: float
    recency_floor: float
    min_relevance: float
    except_session: str = ""
    except_since: int = 0
    periods: Periods = ()
    distinct_questions: bool = False
    is_request: bool = False
    is_about_several: bool = False

    def excludes(self, row: Row) -> bool:
        """Return whether the row belongs to the session that is left out."""
        # The commonest case first: this stands in front of every message.
        return self.except_session != "" and row[6] == self.except_session and row[3] >= self.except_since


# ---- from a text to a query


def extract_keywords(text: str) -> list[str]:
    """Return the words that a text is searched by."""
    try:
        return native.keywords(text)
    except UnicodeError:
        return native.keywords(storable(text))


def parse_query(text: str, now: float) -> tuple[list[str], Periods, bool]:
    """Return the keywords, the periods named, and whether the text asks for nothing but those periods.

    The words of a date stay among the keywords, since a memory of another time may mention it; words that
    only say how to answer do not.
    """
    keywords = without_frame(text, extract_keywords(text), extract_keywords)
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


# ---- questions about the time of facts

# Longer messages ask for something else.
_LONGEST_QUESTION = 300
# Words of such questions that name no period, in English, German, French, Spanish, Italian, Portuguese and
# Dutch.
_TIME_WORDS = frozenset(
    (
        "since", "long", "when", "changed", "change", "used", "before", "previous", "previously", "former",
        "formerly", "earlier", "ever", "wann", "lange", "geändert", "vorher", "früher", "depuis", "changé",
        "avant", "desde", "tiempo", "cambiado", "quanto", "mudou", "antes", "quando", "cambiato", "cambiata",
        "prima", "sinds", "lang", "veranderd", "vroeger", "cuánto", "cuanto",
    )
)  # fmt: skip
_SINCE = re.compile(
    r"\b(?:since when|how long (?:have|has|am|are|do|is)|when did (?:i|we|my)"
    r"|seit wann|wie lange|depuis (?:quand|combien)|desde (?:cu[aá]ndo|quando)|cu[aá]nto tiempo|h[aá] quanto"
    r"|da quando|da quanto|sinds wanneer|hoe lang)\b"
)
_CHANGED = re.compile(
    r"\b(?:what(?:'s| is| has| have)?(?: \w+){0,2} changed?|was hat sich(?: \w+){0,4} geändert"
    r"|qu'est-ce qui(?: \w+){0,2} changé|qué ha cambiado|o que(?: \w+)? mudou"
    r"|(?:che )?cosa (?:è|e'|é) cambiat\w|wat is er(?: \w+){0,3} veranderd)\b"
)
_BEFORE = re.compile(
    r"\b(?:before|used to|previous(?:ly)?|former(?:ly)?|earlier|vorher|früher|avant|antes|prima|vroeger)\b"
    r"|\b(?:did|have|had) (?:i|we) ever\b"
)
# "What did I tell you before about my job?"
_ASKS_WHAT_WAS_SAID = re.compile(
    r"\b(?:did|have|had) (?:i|we|you) (?:ever )?(?:say|said|tell|told|ask|asked|mention|mentioned|talk|talked"
    r"|discuss|discussed)\b"
)
# "What did I do before?" is about work.
_DID = re.compile(
    r"\bwhat did i (?:do|work as)\b(?: for (?:work|a living|a job))?(?= before\b| previously\b| earlier\b)"
)
_PAST = re.compile(
    r"\b(?:did (?:i|we)|was (?:i|my|our)|were (?:we|my|our)|had (?:i|we)|have (?:i|we) been)\b"
)
_ASKS = re.compile(r"\?|^\W*(?:what|where|who|which|since|how|when|tell|show|remind|list)\b")


class AskedTime(NamedTuple):
    """A question about facts in time, in lower case, and what it asks for.

    at: what held in `period`; since: when it began; before: what held earlier; changed: what changed in
    `period`, or (None) lately.
    """

    kind: Literal["at", "since", "before", "changed"]
    text: str
    period: tuple[int, int] | None


def may_ask_for_time(text: str, periods: Periods) -> bool:
    """Return whether `asked_time` may find something; takes less than a microsecond."""
    if len(text) > _LONGEST_QUESTION:
        return False
    if periods:
        return True
    return not _TIME_WORDS.isdisjoint(text.lower().replace("?", " ").replace("\u00bf", " ").split())


def asked_time(text: str, periods: Periods) -> AskedTime | None:
    """Return the time of facts that a question asks about, if it does."""
    lowered = text.lower().replace("\u2019", "'")
    if not _ASKS.search(lowered):
        return None
    period = periods[0] if periods else None
    if _CHANGED.search(lowered):
        return AskedTime("changed", lowered, period)
    if _SINCE.search(lowered):
        return AskedTime("since", lowered, None)
    if period is not None:
        return AskedTime("at", lowered, period) if _PAST.search(lowered) else None
    lowered = _DID.sub("what was my job, my work", lowered)
    is_earlier = _BEFORE.search(lowered) and not _ASKS_WHAT_WAS_SAID.search(lowered)
    return AskedTime("before", lowered, None) if is_earlier else None


# ---- from ranking to results


def best_results(
    query: RecallQuery,
    find: Callable[[int], Sequence[Hit]],
    fetch: Callable[[list[int]], Mapping[int, Row]],
) -> list[SearchResult]:
    """Return the results of the first hits that the query does not exclude.

    `find(n)` returns the best `n` hits, fewer only if there are no more; `fetch` the rows of ids. A hit
    without a row, in a damaged database, is left out: `check` finds and repairs it.
    """
    now, limit, excludes_any = query.now, query.limit, query.except_session != ""
    asked = max(limit, _MOST_TAKING_TURNS) if query.is_about_several else limit
    while True:
        hits = find(asked)
        rows = fetch([hit[0] for hit in hits]) if hits else {}
        results = [
            result_of(row, score, relevance, now)
            for memory_id, _, score, relevance in hits
            if (row := rows.get(memory_id)) is not None and not (excludes_any and query.excludes(row))
        ]
        n_allowed = len(results)
        if query.distinct_questions:
            results = with_distinct_questions(results)
        if query.is_about_several:
            results = taking_turns(results, {memory_id: row[6] for memory_id, row in rows.items()})
        is_short_of_hits = n_allowed < limit or asked < _MOST_FOR_DISTINCT
        if len(results) >= limit or len(hits) < asked or not is_short_of_hits:
            return results[:limit]
        # Seldom more than one more round: few memories are excluded or repeat a question.
        asked *= 4


def with_distinct_questions(results: list[SearchResult]) -> list[SearchResult]:
    """Return the results without turns whose question a turn before them has, except for case and end."""
    # A question that was asked several times without an answer would displace the memory that it asks about.
    seen: set[str] = set()
    kept = []
    for result in results:
        if result.source == "turn":
            question = result.question.casefold().strip(" ?!.")
            if question in seen:
                continue
            seen.add(question)
        kept.append(result)
    return kept


def taking_turns(results: Sequence[SearchResult], session_of: Mapping[int, str]) -> list[SearchResult]:
    """Return the results, best first, with lower scores for those of a session that has better ones.

    "In which order did I …" is answered by several sessions, of which one may have all the best memories.
    Memories without a session keep their scores. Of equal scores the one that was better comes first.
    """
    left = list(results)
    taken: list[SearchResult] = []
    factors: dict[str, float] = {}
    while left:
        scores = [result.score * factors.get(session_of[result.id], 1.0) for result in left]
        best = scores.index(max(scores))
        chosen = left.pop(best)
        session = session_of[chosen.id]
        if session:
            factors[session] = factors.get(session, 1.0) * _SAME_SESSION
        taken.append(replace(chosen, score=scores[best]))
    return taken


def result_of(row: Row, score: float, relevance: float, now: float) -> SearchResult:
    """Return a row with its score and relevance."""
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


def newest_results(
    connection: Connection, user_id: str, query: RecallQuery, found: Sequence[SearchResult]
) -> list[SearchResult]:
    """Return the newest memories of the query's periods that fill `found` up to its limit, newest first.

    Their score is 0, since no word is searched for, and their relevance 1. Reads an index over the times, at
    most `limit` rows of each period.
    """
    if len(found) >= query.limit:
        return []
    known = {result.id for result in found}
    since = query.except_since if query.except_session else _NEVER
    tenant = tenants.find(connection, user_id)
    rows: set[Row] = set()
    for first, end in query.periods if tenant is not None else ():
        parameters = (tenant, first, end, query.except_session, since, query.limit)
        rows.update(connection.execute(_NEWEST, parameters))
    newest = sorted(rows, key=lambda row: (-row[3], -row[0]))
    more = [result_of(row, 0.0, 1.0, query.now) for row in newest if row[0] not in known]
    return more[: query.limit - len(found)]
