"""The text that is appended to a message: one line of facts, one block of memories.

The bytes are a contract that clients parse:

    "\\n\\n" "[facts: " key=value ", " key=value … "]" "\\n" "[context: " result " | " result … "]"
    result = "User: " question "\\n" "Assistant: " answer

Either block may stand alone; with neither there is no tail. Facts come in key order, so that the same facts
make the same bytes. How a reader splits it, which escaping guarantees to be unambiguous: the first `]` ends a
block; ` | ` ends a result, whose line break ends the question; ", " ends a fact if an `=` follows before the
next ", " (a comma in a value stays a comma), and its first `=` ends the key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from shepherd.escaping import escape_fact_key, escape_fact_value
from shepherd.lru_cache import FIFODict
from shepherd.memory.excerpts import escape_excerpt
from shepherd.memory.repetition import FactWords, fact_words
from shepherd.types import Fact, SearchResult

__all__ = ["FactsBlock", "FactsBlocks", "facts_block", "render_tail", "shown_facts"]

# Characters after escaping. A chat with three results and a handful of facts then stays below about 1,500
# tokens, which a window of 4,096 still has room for.
MAX_KEY = 80
MAX_VALUE = 400
MAX_QUESTION = 400
MAX_ANSWER = 1200
MAX_FACTS = 4000

# Number of users whose blocks are cached.
_MOST_USERS = 1024


class FactsBlock(NamedTuple):
    """What is made of a user's facts for every message: those that are shown, and how."""

    facts: tuple[Fact, ...]
    shown: tuple[Fact, ...]
    text: str
    words: FactWords


_NO_FACTS = FactsBlock((), (), "", fact_words(()))


class FactsBlocks:
    """The block of each user, made once per change of the facts."""

    # By identity: a store hands out the same tuple until something changes.
    def __init__(self) -> None:
        self._blocks: FIFODict[str, FactsBlock] = FIFODict(_MOST_USERS)

    def of(self, user_id: str, facts: tuple[Fact, ...]) -> FactsBlock:
        """The block of these facts of the user's."""
        if not facts:
            return _NO_FACTS
        known = self._blocks.get(user_id)
        if known is not None and known.facts is facts:
            return known
        shown = tuple(shown_facts(facts))
        block = FactsBlock(facts, shown, facts_block(shown), fact_words(shown))
        self._blocks[user_id] = block
        return block


def render_tail(facts: str, results: Sequence[SearchResult], keywords: Collection[str] = ()) -> str:
    """The tail of a message from `facts_block()` and the results, empty when there is nothing to add.

    Of a long text the part is shown that has the keywords.
    """
    if not results:
        return f"\n\n{facts}" if facts else ""
    shown = " | ".join(
        f"User: {escape_excerpt(r.question, MAX_QUESTION, keywords)}"
        f"\nAssistant: {escape_excerpt(r.answer, MAX_ANSWER, keywords)}"
        for r in results
    )
    return f"\n\n{facts}\n[context: {shown}]" if facts else f"\n\n[context: {shown}]"


def facts_block(facts: Iterable[Fact]) -> str:
    """`[facts: …]` for facts in the order given, empty for none."""
    shown = ", ".join(_pair(fact) for fact in facts)
    return f"[facts: {shown}]" if shown else ""


def shown_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Those of `facts` that fit into MAX_FACTS characters, the most recently changed first to stay."""
    # Most users have a few dozen: then nothing has to be measured exactly.
    if sum(len(fact.key) + len(fact.value) + 3 for fact in facts) <= MAX_FACTS:
        return facts
    room = MAX_FACTS
    kept = set()
    for fact in sorted(facts, key=lambda fact: -fact.updated_at):
        room -= len(_pair(fact)) + 2
        if room < 0:
            break
        kept.add(fact.key)
    return [fact for fact in facts if fact.key in kept]


def _pair(fact: Fact) -> str:
    return f"{escape_fact_key(fact.key, MAX_KEY)}={escape_fact_value(fact.value, MAX_VALUE)}"
