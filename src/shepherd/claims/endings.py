"""Decides which values of facts, and which items of lists, end when the user says that something is over."""

from __future__ import annotations

import re

from shepherd._native.text import terms
from shepherd.claims.counts import COUNTED, counts_alike
from shepherd.claims.keys import INSTRUCTIONS, canonical_key, items_of

__all__ = ["KNOWN", "ends_item", "ends_value", "items_left", "may_end"]

# The kind of an ending that was found by the fact itself: its value is the fact's, word for word.
KNOWN = "known"
# What is told so exactly that only the same words end it.
_EXACT = frozenset(
    (
        "name", "nickname", "last_name", "location", "origin", "hometown", "birthplace", "nationality",
        "allergy", "condition", "medication", "avoids",
    )
)  # fmt: skip
# What stays true, or even follows, when the user leaves or stops something, unless the wording says more:
# "I no longer eat nuts" ends no allergy, "I left Oslo" no birthplace.
_NOT_VAGUELY = frozenset(
    (
        "allergy", "avoids", "dislikes", "fears", "name", "nickname", "last_name", "origin", "hometown",
        "birthplace", "birthday", "birth_year", "age", "degree", "studied",
    )
)  # fmt: skip
_DETERMINED = re.compile(r"(?:an?|the|my|our|that|this)\s+", re.IGNORECASE)
_OR = re.compile(r",? n?or ", re.IGNORECASE)
# Behind the noun of a value: "small bakery in Gdynia".
_BEHIND = re.compile(r"\s+(?:in|of|at|on|for|with|near|from|called|named|by|to|and)\s|,")


def may_end(kind: str, key: str) -> bool:
    """Return whether an ending of this kind, that of an assertion, may end facts of a key."""
    known = canonical_key(key)
    if kind == "any":
        return known is None or known.name not in _NOT_VAGUELY
    return kind == KNOWN or (known is not None and kind in known.kinds)


def ends_value(kind: str, ended: str, key: str, value: str) -> bool:
    """Return whether an ending that may end facts of a key ends this value, which is no list.

    >>> ends_value("any", "the bakery", "shop", "small bakery in Gdynia")
    True
    """
    if kind == KNOWN or _folded(value) == _folded(ended):
        return _folded(value) == _folded(ended)
    known = canonical_key(key)
    return (key if known is None else known.name) not in _EXACT and _is_noun_of(ended, value)


def ends_item(kind: str, ended: str, key: str, item: str) -> bool:
    """Return whether an ending that may end facts of a key ends this item; an instruction, by its words.

    "Stop using emoji" ends "always use emoji", and "we gave our cats away" ends "two cats".
    """
    if kind == KNOWN:
        return _folded(item) == _folded(ended)
    if key in COUNTED:
        return counts_alike(item, ended)
    if key == INSTRUCTIONS:
        said = set(terms(ended))
        return bool(said) and said <= set(terms(item))
    return _folded(item) == _folded(ended) or (key not in _EXACT and _is_noun_of(ended, item))


def items_left(kind: str, ended: str, key: str, value: str) -> list[str] | None:
    """Return the items of a list without those that such an ending ends; None if it ends none of them.

    "Rock and roll" is one item if it is said to end, and "nuts and latex" are two. Both can be said of a list
    with either.
    """
    for apart in (False, True):
        items = items_of(key, value, apart=apart)
        said = items_of(key, _OR.sub(" and ", ended), apart=True) if apart else [ended]
        left = [item for item in items if not any(ends_item(kind, one, key, item) for one in (ended, *said))]
        if len(left) < len(items):
            return left
    return None


def _is_noun_of(ended: str, value: str) -> bool:
    """Return whether what has ended is the noun of a value: "choir" of "community choir in Leeds"."""
    words, said = _BEHIND.split(value)[0].split(), _DETERMINED.sub("", ended.strip(), count=1).split()
    if not said or len(said) > len(words):
        return False
    before, noun = words[: len(words) - len(said)], words[len(words) - len(said) :]
    # "York" is not New York.
    is_other = any(word[:1].isupper() for word in before) and said[0][:1].isupper()
    return _folded(" ".join(noun)) == _folded(" ".join(said)) and not is_other


def _folded(value: str) -> str:
    return " ".join(value.casefold().split())
