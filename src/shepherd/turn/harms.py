"""Finds the allergies and conditions that a question such as "Can I take penicillin?" touches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shepherd.claims.keys import items_of
from shepherd.prompt.asked_facts import named_in, words_in
from shepherd.prompt.concepts import content_words, is_kind_of, relations_among
from shepherd.prompt.phrases import in_key
from shepherd.types import Fact

__all__ = ["harm_asked_about"]

_OF_HEALTH = re.compile(r"(?:\w+_)?(?:allergy|allergies|avoids|condition|intolerance)")
_ASKS_ABOUT = re.compile(r"\W*(?:and |so )?(?:what|when|where|which|who|whose|why|how)\b", re.IGNORECASE)
# Foods whose name ends like this are one of them: "walnut" of nuts.
_KINDS_OF_FOOD = frozenset(("bean", "berri", "cheese", "fish", "milk", "nut", "seed"))
_MYSELF = frozenset(("i", "me", "mine", "we", "us"))


def harm_asked_about(question: str, known: Sequence[Fact]) -> tuple[Fact, ...]:
    """Return the facts about health that a question touches, each with the item that it names."""
    return tuple(
        Fact(fact.key, item, fact.created_at, fact.updated_at)
        for fact in known
        if _OF_HEALTH.fullmatch(fact.key) and _concerns(question, fact, known)
        # "You have migraines" tells nothing to "When did my migraines start?".
        if not (fact.key.endswith("condition") and _ASKS_ABOUT.match(question))
        for item in items_of(fact.key, fact.value, apart=True)
        if _touches(question, item)
    )


def _touches(question: str, item: str) -> bool:
    """Return whether a question has all words of what harms somebody: "a strawberry" of "strawberries"."""
    asked, harms = content_words(question), content_words(item)
    return bool(harms) and all(
        any(word == one or (one in _KINDS_OF_FOOD and word.endswith(one)) for word in asked) for one in harms
    )


def _concerns(question: str, fact: Fact, known: Sequence[Fact]) -> bool:
    """Return whether a fact about health matters to a question: it is about those whom this names, if any.

    What may be eaten by nobody in particular matters to the user and to all of their people.
    """
    *owner, _ = words_in(in_key(fact.key))
    people, named = relations_among(content_words(question)), named_in(question, known)
    is_of_nobody = not people and not named
    if not owner:
        return is_of_nobody or not _MYSELF.isdisjoint(words_in(question))
    if any(one.key == f"{'_'.join(owner)}_name" for one in named):
        return True
    mine = relations_among(content_words(" ".join(owner)))
    is_theirs = any(is_kind_of(one, other) or is_kind_of(other, one) for one in people for other in mine)
    return is_of_nobody or is_theirs
