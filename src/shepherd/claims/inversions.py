"""Statements in another order than the frames know, as plain ones.

"What I drive is a Skoda", "of all teas Assam is my favourite" and "from Lyon, living in Lille" become
"I drive a Skoda", "my favourite tea is Assam" and "I'm from Lyon, I live in Lille", which the frames know.
What stands in the middle and says nothing of its own is left out: "I live with my wife in Ulm" is "I live
in Ulm".
"""

from __future__ import annotations

import re
from functools import cache, partial

from shepherd.claims.wordings import replacements, rule
from shepherd.pattern_index import Replacements

__all__ = ["standard_english", "turned_round"]

_TABLES = ("middles.txt", "inversions.txt", "paraphrases.txt")
_DIALECTS = ("dialects.txt",)
_ELSEWHERE = ("paraphrases_elsewhere.txt",)


def standard_english(text: str) -> str:
    """Return a sentence of a dialect, of a learner or of somebody in a hurry as others would write it."""
    return _replacements(_DIALECTS).apply(text)


def turned_round(text: str) -> str:
    """Return the sentence with its statements in the order that the frames know."""
    text = _replacements(_TABLES).apply(text)
    return _replacements(_ELSEWHERE).apply(text) if rule("other languages").search(text) else text


@cache
def _replacements(tables: tuple[str, ...]) -> Replacements:
    rows = [row for table in tables for row in replacements(table)]

    def replace(n: int, text: str) -> str:
        return _pattern(rows[n].pattern).sub(partial(_filled, rows[n].template), text)

    return Replacements([row.needed for row in rows], replace)


@cache
def _pattern(wording: str) -> re.Pattern[str]:
    """Return the pattern of a wording, compiled when a text first has the words for it."""
    return re.compile(rf"(?<![\w'])(?:{wording})", re.IGNORECASE)


def _filled(replacement: str, match: re.Match[str]) -> str:
    if "{noun}" in replacement:
        replacement = replacement.replace("{noun}", _single(match["noun"]))
    return match.expand(replacement)


def _single(noun: str) -> str:
    """Return one of what there are several of: "teas", "countries", "dishes"."""
    if noun.endswith("ies") and noun not in ("movies", "series"):
        return noun[:-3] + "y"
    if noun.endswith(("shes", "ches", "sses", "xes")):
        return noun[:-2]
    return noun[:-1] if noun.endswith("s") and not noun.endswith(("ss", "series")) else noun
