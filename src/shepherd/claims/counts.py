"""Counted things in a list: "two cats" and "a tortoise" are two items, "three cats" corrects "two cats"."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["COUNTED", "counts_alike", "is_total", "merged_counts", "singular"]

# Keys whose items are counted.
COUNTED = ("pets", "children", "siblings", "grandchildren")
_WORDS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
_NUMBERS = {word: n for n, word in enumerate(_WORDS, 1)}
_ARTICLE = re.compile(r"(?:an?|the|my|our|some|only|just|now)\s+", re.IGNORECASE)
_NUMBER = re.compile(rf"(\d+|{'|'.join(_NUMBERS)})\b\s*", re.IGNORECASE)
_SINGULARS = {
    "children": "child", "grandchildren": "grandchild", "mice": "mouse", "geese": "goose", "ponies": "pony",
    "budgies": "budgie", "puppies": "puppy", "bunnies": "bunny", "huskies": "husky",
    "calves": "calf", "donkeys": "donkey",
}  # fmt: skip
# Keys of which a number in all says more than one of them: "three children" after "a son", not "two pets".
_SWALLOWING = ("children", "grandchildren")
# Words for all of them: "three kids" after "two children" corrects the number.
_ALL_OF = ("", "kid", "child", "sibling", "pet", "animal", "grandchild", "grandkid")
# Who is told with one of these comes beside the others.
_BESIDE = ("another", "other", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


@dataclass(frozen=True, slots=True)
class _Count:
    """An item: how many (0: not said), what, and whether the noun is a plural."""

    number: int
    noun: tuple[str, ...]
    is_plural: bool


def _count_of(item: str) -> _Count:
    text = item.strip().casefold()
    while article := _ARTICLE.match(text):
        text = text[article.end() :]
    number = 0
    if counted := _NUMBER.match(text):
        number = _NUMBERS.get(counted[1]) or int(counted[1][:9])
        text = text[counted.end() :]
    words = text.split() or [""]
    single = singular(words[-1])
    noun = ("",) if single in _ALL_OF and len(words) == 1 else (*words[:-1], single)
    return _Count(number, noun, single != words[-1])


def singular(noun: str) -> str:
    """Return a lower-case noun in the singular."""
    if known := _SINGULARS.get(noun):
        return known
    if noun.endswith(("ches", "shes", "xes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "us")) else noun


def is_total(item: str) -> bool:
    """Return whether an item says how many there are in all: "two kids", "3"."""
    return _count_of(item).noun == ("",)


def counts_alike(item: str, other: str) -> bool:
    """Return whether two items mean the same things: "two cats" and "cats", not "two cats" and "cat"."""
    one, two = _count_of(item), _count_of(other)
    is_same_number = one.number == two.number or (0 in (one.number, two.number))
    return one.noun == two.noun and is_same_number and one.is_plural == two.is_plural


def merged_counts(items: list[str], key: str = "") -> list[str]:
    """Return items without those that a later one corrects or says more about, in their order.

    A number corrects an earlier one of the same things. "A cat" does not correct "two cats", and "a black
    cat" says more than "a cat". "Three children" stands for "a son" that was told before, too, but adds
    nothing to "a son, a daughter and another daughter".
    """
    kept: list[str] = []
    for item in items:
        new = _count_of(item)
        for at, earlier in enumerate(kept):
            known = _count_of(earlier)
            if known.noun[-1] != new.noun[-1] or {*known.noun[:-1], *new.noun[:-1]} & {*_BESIDE}:
                continue
            if known.noun == new.noun:
                kept[at] = item if new.number or new.is_plural > known.is_plural else earlier
            elif known.number == new.number and set(known.noun) <= set(new.noun):
                kept[at] = item
            elif known.number != new.number or not set(new.noun) <= set(known.noun):
                continue
            break
        else:
            kept.append(item)
    if key in _SWALLOWING:
        kept = _with_one_total(kept)
    return [_ARTICLE.sub("", item, count=1) if _ARTICLE.match(item) else item for item in kept]


def _with_one_total(items: list[str]) -> list[str]:
    """Return the items, or the number in all, where these say the same or the number says more."""
    total = max((_count_of(item).number for item in items if is_total(item)), default=0)
    parts = [item for item in items if not is_total(item)]
    if not total or not parts:
        return items
    if sum(_count_of(item).number or 1 for item in parts) == total:
        return parts
    # A number that was told before "a son" leaves him where he is.
    at = next(n for n, item in enumerate(items) if is_total(item))
    before = [_count_of(item) for item in items[:at]]
    is_single = all(count.number <= 1 and not count.is_plural for count in before)
    return items[at:] if is_single else items
