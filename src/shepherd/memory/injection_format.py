"""The tail that memory appends to a message: one line of facts, one block of memories.

The bytes are a contract that clients parse:

    "\\n\\n" "[facts: " key=value ", " key=value … "]" "\\n" "[context: " result " | " result … "]"
    result = "User: " question "\\n" "Assistant: " answer

Between them stands a line of the user's standing instructions, if there are any:

    "[the user's instructions: " instruction "; " instruction … "]"

Each of these may stand alone; with none there is no tail. Facts come in key order, so that the same facts
make the same bytes. Escaping makes this reading unambiguous: the first `]` ends a block; ` | ` ends a result,
whose line break ends the question; ", " ends a fact if an `=` follows before the next ", " (a comma in a
value stays a comma), and its first `=` ends the key. A long text is cut to the part with most keywords.

If a message asks about another time, the facts of that time follow, each with the time in parentheses behind
its key: `location=Paris, name=Steve, location (March 2025)=Köln`. Without parentheses a fact is current. A
memory that states a former value ends with what is current: `(location is Paris now)`, or with
`(location is no longer Köln)`. Where it matters when a memory was told (courses.py), its answer ends with the
day: `(said on 2026-03-12)`, or `(said on 2026-03-12, the latest)`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from shepherd._native.text import STOP_WORDS, terms
from shepherd.claims.keys import INSTRUCTIONS, is_about
from shepherd.escaping import ELLIPSIS, escape_fact_key, escape_fact_value, escape_text, shorten, storable
from shepherd.lru_cache import FIFODict
from shepherd.memory.periods import unit_named
from shepherd.memory.queries import AskedTime
from shepherd.memory.records import FactPeriod
from shepherd.memory.redundant_turns import FactWords, fact_words
from shepherd.types import Fact, PastFact, SearchResult

__all__ = [
    "FactsBlock",
    "FactsBlocks",
    "block_for",
    "escape_excerpt",
    "facts_block",
    "fewer_facts",
    "note_of",
    "past_facts",
    "past_pair",
    "render_tail",
    "shown_facts",
    "with_past_facts",
]

# Characters after escaping. With three results and a handful of facts a tail then stays below about 1,500
# tokens, which fit into a context window of 4,096.
MAX_KEY = 80
MAX_VALUE = 400
MAX_QUESTION = 400
MAX_ANSWER = 1200
MAX_FACTS = 4000
MAX_INSTRUCTIONS = 1000
# Facts that are shown with every message, however many others there are.
_KEPT = frozenset(("name", "allergy", "avoids", "condition", "medication", "diet", "pronouns"))
# The same of a value where there is no room for even one whole fact.
_CUT_VALUE = 40

# Number of users whose blocks are cached.
_MOST_USERS = 1024

# Characters of a text that are searched for keywords, which takes some milliseconds.
_MOST_SEARCHED = 32_768
# A sentence or a few short ones; a piece of a long one ends with a blank, or anywhere if there is none.
_PIECE = re.compile(
    r"(?s).{1,24}\Z|.{24,120}?(?:[.!?…][\"')\]]?\s|[\n\u3002\uff01\uff1f]|\Z)|.{1,120}(?<=\s)|.{1,120}"
)
# Weight of a keyword that is in one piece only; whole numbers, so that sums can be compared.
_SHARES = 1 << 20


class FactsBlock(NamedTuple):
    """A user's facts as every message gets them; `shown` are those that fit, see `block_for`.

    `fewer` are shorter forms of `text`, the longest first, each with the facts that it shows.
    """

    facts: tuple[Fact, ...]
    shown: tuple[Fact, ...]
    text: str
    words: FactWords
    fewer: tuple[tuple[str, tuple[Fact, ...]], ...] = ()


_NO_NOTES: Mapping[int, str] = {}
_NOT_NEAR: Mapping[str, int] = {}
_NO_FACTS = FactsBlock((), (), "", fact_words(()))


class FactsBlocks:
    """Cache of each user's block, made once per change of the facts."""

    # By identity: a store returns the same tuple until something changes.
    def __init__(self) -> None:
        self._blocks: FIFODict[str, FactsBlock] = FIFODict(_MOST_USERS)

    def of(self, user_id: str, facts: tuple[Fact, ...]) -> FactsBlock:
        """Return the block of the user's facts."""
        if not facts:
            return _NO_FACTS
        known = self._blocks.get(user_id)
        if known is not None and known.facts is facts:
            return known
        block = self._blocks[user_id] = _block_of(facts)
        return block


def block_for(block: FactsBlock, message: str) -> FactsBlock:
    """Return the block with the facts that a message is about before others, if not all of them fit."""
    if len(block.shown) == len(block.facts):
        return block
    asked, said = message.casefold(), set(terms(message[:_MOST_SEARCHED])) - STOP_WORDS
    nearness = {
        fact.key: is_about(asked, fact.key) + len(said.intersection(terms(f"{fact.key} {fact.value}")))
        for fact in block.facts
    }
    return _block_of(block.facts, nearness)


def _block_of(facts: tuple[Fact, ...], nearness: Mapping[str, int] = _NOT_NEAR) -> FactsBlock:
    shown = tuple(shown_facts(facts, nearness))
    return FactsBlock(facts, shown, facts_block(shown), fact_words(shown), fewer_facts(shown, nearness))


def render_tail(
    facts: str,
    results: Sequence[SearchResult],
    keywords: Collection[str] = (),
    notes: Mapping[int, str] | None = None,
) -> str:
    """Return the tail from `facts_block()` and the results; empty if there is nothing to add.

    `notes`: remarks behind the answers of memories, by id; see `note_of`.
    """
    if not results:
        return f"\n\n{facts}" if facts else ""
    noted = notes or _NO_NOTES
    shown = " | ".join(
        f"User: {escape_excerpt(r.question, MAX_QUESTION, keywords)}"
        f"\nAssistant: {escape_excerpt(r.answer, MAX_ANSWER, keywords)}{noted.get(r.id, '')}"
        for r in results
    )
    return f"\n\n{facts}\n[context: {shown}]" if facts else f"\n\n[context: {shown}]"


def note_of(fact: Fact, former: str) -> str:
    """Return the remark behind a memory that states a former value of a fact, which may have ended."""
    now = f"{fact.key} is {fact.value} now" if fact.value else f"{fact.key} is no longer {former}"
    return f" ({escape_text(now, MAX_QUESTION)})"


def facts_block(facts: Iterable[Fact]) -> str:
    """Return `[facts: …]` for facts in the order given, and the line of instructions; empty for none."""
    known: list[Fact] = []
    told: list[Fact] = []
    for fact in facts:
        (told if fact.key == INSTRUCTIONS else known).append(fact)
    lines = [f"[facts: {', '.join(map(_pair, known))}]"] if known else []
    return "\n".join([*lines, *map(_instructions, told)])


def _instructions(fact: Fact) -> str:
    return f"[the user's instructions: {escape_fact_value(fact.value, MAX_INSTRUCTIONS)}]"


def shown_facts(facts: Sequence[Fact], nearness: Mapping[str, int] = _NOT_NEAR) -> Sequence[Fact]:
    """Return the facts that fit into MAX_FACTS characters, in their order, chosen as `_by_weight` says."""
    # Most users have a few dozen: then nothing has to be measured exactly.
    if sum(len(fact.key) + len(fact.value) + 3 for fact in facts) <= MAX_FACTS:
        return facts
    left = MAX_FACTS
    kept = set()
    for fact in _by_weight(facts, nearness):
        left -= len(_pair(fact)) + 2
        if left < 0:
            break
        kept.add(fact.key)
    return [fact for fact in facts if fact.key in kept]


def _by_weight(facts: Sequence[Fact], nearness: Mapping[str, int]) -> list[Fact]:
    """Return facts as they are kept where there is no room for all.

    First instructions, what may hurt the user, and the name; then those that are nearest to a message; then
    the latest changed.
    """

    def weight(fact: Fact) -> tuple[bool, bool, int, int]:
        is_kept = fact.key in _KEPT or fact.key.endswith("_allergy")
        return fact.key != INSTRUCTIONS, not is_kept, -nearness.get(fact.key, 0), -fact.updated_at

    return sorted(facts, key=weight)


def fewer_facts(
    facts: Sequence[Fact], nearness: Mapping[str, int] = _NOT_NEAR
) -> tuple[tuple[str, tuple[Fact, ...]], ...]:
    """Return shorter forms of the block of these facts: about eight with fewer of them, one with a cut value.

    They are chosen as `_by_weight` says. For windows and shares that the whole block exceeds.
    """
    ranked = _by_weight(facts, nearness)
    forms = []
    for n in sorted({len(ranked) * eighths // 8 for eighths in range(1, 8)} | {1}, reverse=True):
        if 0 < n < len(ranked):
            kept = {fact.key for fact in ranked[:n]}
            some = tuple(fact for fact in facts if fact.key in kept)
            forms.append((facts_block(some), some))
    if ranked and len(cut := _cut(ranked[0])) < len(facts_block(ranked[:1])):
        forms.append((cut, tuple(ranked[:1])))
    return tuple(forms)


def _cut(fact: Fact) -> str:
    """Return the block of one fact with its value cut."""
    return facts_block([replace(fact, value=shorten(fact.value, _CUT_VALUE))])


def _pair(fact: Fact, most: int = MAX_VALUE) -> str:
    return f"{escape_fact_key(fact.key, MAX_KEY)}={escape_fact_value(fact.value, most)}"


# ---- facts of another time

_FACTS = "[facts: "
# Enough for an answer; more would hide it.
_MOST_PAST = 8
_DAY_S = 86_400


def with_past_facts(block: str, pairs: Sequence[tuple[str, str]]) -> str:
    """Return the block of facts with those of another time behind them, as `past_pair` words them."""
    if not pairs:
        return block
    past = ", ".join(
        f"{escape_fact_key(key, MAX_KEY)}={escape_fact_value(value, MAX_VALUE)}" for key, value in pairs
    )
    known, mark, others = (
        block.partition("\n") if block.startswith(_FACTS) else ("", "\n" * bool(block), block)
    )
    return f"{known.removesuffix(']')}, {past}]{mark}{others}" if known else f"{_FACTS}{past}]{mark}{others}"


def past_facts(asked: AskedTime, periods: Sequence[FactPeriod]) -> list[PastFact]:
    """Return the facts that answer a question about time."""
    if asked.kind == "changed":
        return _changes(asked.period, periods)
    by_key: dict[str, list[FactPeriod]] = {}
    for period in periods:
        by_key.setdefault(period.key, []).append(period)
    found: list[PastFact] = []
    for key, values in sorted(by_key.items()):
        if not is_about(asked.text, key):
            continue
        if asked.kind == "since":
            found += [PastFact("since", key, p.value, p.since) for p in values if p.until is None]
        elif asked.kind == "before":
            found += [
                PastFact("held", key, p.value, p.since, p.until) for p in values if p.until is not None
            ][-3:]
        elif asked.period is not None:
            found += _at(key, values, *asked.period)
    return found[:_MOST_PAST]


def _at(key: str, values: Sequence[FactPeriod], first: int, end: int) -> list[PastFact]:
    """Return what a fact was in a period, and since when it is known if that is later."""
    held = [p for p in values if p.since < end and (p.until is None or p.until > first)]
    if not held:
        began = values[0]
        return (
            [PastFact("known", key, began.value, began.since, began.until)]
            if values[-1].until is None
            else []
        )
    if len(held) == 1 and held[0].until is None and held[0].since <= first:
        return [PastFact("since", key, held[0].value, held[0].since)]
    if len(held) == 1:
        return [PastFact("then", key, held[0].value, held[0].since, held[0].until, _span(first, end))]
    return [PastFact("held", key, p.value, p.since, p.until) for p in held]


def _changes(period: tuple[int, int] | None, periods: Sequence[FactPeriod]) -> list[PastFact]:
    """Return the values that began or ended in a period, or lately, the last ones."""
    first, end = period or (0, 1 << 62)
    # What was told for the first time has not changed.
    began_first: dict[str, FactPeriod] = {}
    for p in periods:
        began_first.setdefault(p.key, p)
    changed: list[tuple[int, PastFact]] = []
    for p in periods:
        if p.until is not None and first <= p.until < end:
            changed.append((p.until, PastFact("ended", p.key, p.value, p.since, p.until)))
        if first <= p.since < end and (period is not None or began_first[p.key] is not p):
            changed.append((p.since, PastFact("began", p.key, p.value, p.since, p.until)))
    changed.sort(key=lambda change: change[0])
    return [fact for _, fact in changed[-_MOST_PAST:]]


def past_pair(fact: PastFact) -> tuple[str, str]:
    """Return a fact of another time as a key with that time, and a value."""
    key = fact.key
    if fact.kind == "since":
        return f"{key} (since)", _day(fact.since)
    if fact.kind == "known":
        return f"{key} (known since)", _day(fact.since)
    if fact.kind == "then":
        return f"{key} ({fact.time})", fact.value
    if fact.kind == "ended":
        return f"{key} (until {_day(fact.until or fact.since)})", fact.value
    if fact.kind == "began" or fact.until is None:
        return f"{key} (since {_day(fact.since)})", fact.value
    return f"{key} ({_day(fact.since)} to {_day(fact.until)})", fact.value


def _day(moment: int) -> str:
    """Return the day of a time, or the month or the year if no more was named."""
    form = {"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}[unit_named(moment)]
    return datetime.fromtimestamp(moment).strftime(form)


def _span(first: int, end: int) -> str:
    """Return a period in words: a day, a month, a year, or two days."""
    begin, last = datetime.fromtimestamp(first), datetime.fromtimestamp(end - 1)
    if (begin.year, begin.month, begin.day) == (last.year, last.month, last.day):
        return f"{begin:%Y-%m-%d}"
    ends_month = datetime.fromtimestamp(end).day == 1
    if begin.day == 1 and ends_month and (begin.year, begin.month) == (last.year, last.month):
        return f"{begin:%B %Y}"
    if (begin.month, begin.day, last.month, last.day) == (1, 1, 12, 31) and begin.year == last.year:
        return f"{begin:%Y}"
    return f"{begin:%Y-%m-%d} to {last:%Y-%m-%d}"


# ---- excerpts


def escape_excerpt(text: str, limit: int, keywords: Collection[str] = ()) -> str:
    """Do as `escape_text`, but cut a long text to the part with most of the keywords.

    The rarer a keyword is in the text, the more it counts. The beginning is preferred among equals.
    """
    shown = escape_text(text, limit)
    if not keywords or not shown.endswith(ELLIPSIS) or len(escape_text(text, 2 * limit)) <= limit:
        return shown
    text = storable(text).strip()
    begin, end = _best_part(text, limit - 2 * len(ELLIPSIS), frozenset(keywords))
    if begin == 0:
        return shown
    after = ELLIPSIS if end < len(text) else ""
    part = text[begin:end].strip()
    return ELLIPSIS + escape_text(part, limit - len(ELLIPSIS) - len(after)).removesuffix(after) + after


def _best_part(text: str, limit: int, keywords: frozenset[str]) -> tuple[int, int]:
    """Return begin and end of the pieces with most of the keywords, at most `limit` characters."""
    starts = [match.start() for match in _PIECE.finditer(text, 0, _MOST_SEARCHED)]
    ends = [*starts[1:], min(len(text), _MOST_SEARCHED)]
    # A line break is shown by two characters.
    sizes = [end - start + text.count("\n", start, end) for start, end in zip(starts, ends, strict=True)]
    found = [keywords.intersection(terms(text[start:end])) for start, end in zip(starts, ends, strict=True)]
    first, last = _best_run(sizes, found, limit)
    return starts[first], ends[last]


def _best_run(sizes: Sequence[int], found: Sequence[frozenset[str]], limit: int) -> tuple[int, int]:
    """Return the first and the last of the pieces to be shown."""
    n = len(sizes)
    n_pieces = Counter(word for words in found for word in words)
    inside: Counter[str] = Counter()
    worth = size = stop = 0
    runs = []
    for first in range(n):
        while stop < n and (size + sizes[stop] <= limit or stop == first):
            for word in found[stop]:
                inside[word] += 1
                worth += _SHARES // n_pieces[word] if inside[word] == 1 else 0
            size += sizes[stop]
            stop += 1
        runs.append((worth, stop - 1))
        for word in found[first]:
            inside[word] -= 1
            worth -= _SHARES // n_pieces[word] if inside[word] == 0 else 0
        size -= sizes[first]
    most = max(worth for worth, _ in runs)
    if runs[0][0] == most:
        return 0, runs[0][1]
    # Of the runs with the same words the one in the middle, so that there is context on both sides.
    first = end = next(i for i, (worth, _) in enumerate(runs) if worth == most)
    while end + 1 < n and runs[end + 1][0] == most:
        end += 1
    first = (first + end) // 2
    last = runs[first][1]
    left = limit - sum(sizes[first : last + 1])
    while first > 0 and sizes[first - 1] <= left:
        first -= 1
        left -= sizes[first]
    return first, last
