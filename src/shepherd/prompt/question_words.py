"""Words of questions that ask for nothing: "What do I put in the pronouns field?", "Who do I ring?"."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shepherd.prompt.concepts import content_words
from shepherd.prompt.fact_kinds import HOW_MANY, WHEN, WHO

__all__ = ["is_silent", "turns_to_somebody"]

_SILENT = frozenset(
    content_words(
        "us under happen repeat possibly sorry hmm quick question curious oops write written"
        " put field order fit see buy spell spelled spelt record records stuff tick mean belong possess state"
        " label badge tag sticker envelope ticket certificate file list aside"
        " enter quote supply register registered official officially exact listed hold per"
    )
)
# What one does with somebody who is asked for: "Who do I ring?"
_TURNED_TO = frozenset(content_words("call ring phone come send keep handle see go turn talk contact use"))
# What one does on a date: "When am I running the marathon?"
_HAPPENS = frozenset(
    content_words(
        "run go fly leave travel happen attend celebrate serve start begin take place finish complete pass"
        " graduate"
    )
)
# What one does with a thing somewhere: "Where do I keep the spare key?"
_KEPT = frozenset(content_words("keep put leave store"))
# What one does with things that are counted: "How many ewes do I keep?"
_HELD = frozenset(content_words("keep own raise breed grow tend hold"))
# "What is wrong with my hearing?"
_ILL = frozenset(content_words("wrong condition problem matter trouble"))
_WRONG_WITH = re.compile(
    r"\b(?:wrong|problem|matter|trouble) with\b|\bcondition of (?:my|our)\b", re.IGNORECASE
)
# "What kind of shop do I run?"
_KIND_OF_MINE = re.compile(
    r"\b(?:kind|sort|type|make|brand|model|breed) of \w+ (?:do|did|have) (?:i|we) (\w+)\W*$", re.IGNORECASE
)
_WHERE = re.compile(r"\W*where\b", re.IGNORECASE)


def is_silent(word: str, text: str = "") -> bool:
    """Return whether a stem asks for nothing in a question, such as "ring" behind "who"."""
    of_kind = _KIND_OF_MINE.search(text)
    return (
        word in _SILENT
        or (of_kind is not None and word in content_words(of_kind[1]))
        or (word in _TURNED_TO and WHO.search(text) is not None)
        or (word in _HAPPENS and WHEN.search(text) is not None)
        or (word in _HELD and HOW_MANY.search(text) is not None)
        or (word in _ILL and _WRONG_WITH.search(text) is not None)
        or (word in _KEPT and _WHERE.match(text) is not None)
    )


def turns_to_somebody(words: Iterable[str], text: str) -> bool:
    """Return whether a question asks for somebody whom only its context describes: "…, who do I ring?"."""
    return WHO.search(text) is not None and set(words) <= _TURNED_TO | _SILENT
