"""Secrets told over two sentences: the first names the kind of secret, the second gives the value.

"We settled on a passphrase for the backup disk. It's …", "I always forget the door code. C4079B.": a value
that stands alone in a sentence, or behind "it's", belongs to what the sentence before it names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from shepherd.secret_detection.vocabulary import NOT_ITSELF, SENTENCE_END, WORDS, Rules, words_of

__all__ = ["find", "is_of_a_code", "sentence_before", "without_open_codes"]

_ENDS = r"\s,;.!?()\"\u2014\u2013\u201d\u201c"
_NOT_TYPED = rf"(?!the \d)(?!(?:{WORDS['not typed']})\b)[\"'\u201c\u2018\u201e]?"
_ONE = rf"{_NOT_TYPED}(?P<words>[^{_ENDS}]{{3,64}})"
_WORDS = (
    rf"{_NOT_TYPED}(?P<words>[^{_ENDS}]{{3,64}}"
    rf"(?: (?!(?:{WORDS['goes on']})\b)[^{_ENDS}-][^{_ENDS}]*){{0,7}}?)"
)
_REST = rf"(?=\s(?:{WORDS['goes on']})\b|[.,;!)\"'\u201d\u2019(]|\s*$)"
_GAP = r"[^.!?\n]{0,120}?(?:\?|[.!:](?=\s)|\.\.\.|\u2026)\s{1,2}"
_ALONE = re.compile(rf"\W*(?:(?:{WORDS['ahead of a number']}) )?\W*", re.IGNORECASE)


def find(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield words that the sentence before them makes a secret: the words, their start and their end."""
    patterns = _patterns()
    if not patterns["hint"].search(text):
        return
    for name in ("linked", "asked", "answered", "said", "behind"):
        for match in patterns[name].finditer(text):
            yield match["words"], *match.span("words")


def sentence_before(text: str, start: int) -> str:
    """Return the sentence before the one that has nothing but the value at `start`, else ""."""
    ends = [match.end() for match in SENTENCE_END.finditer(text, 0, start)]
    if not ends or not _ALONE.fullmatch(text, ends[-1], start):
        return ""
    return text[ends[-2] if len(ends) > 1 else 0 : ends[-1]]


def is_of_a_code(sentence: str) -> bool:
    """Return whether a sentence speaks of a code that opens something: "I always forget the door code"."""
    return _patterns()["code"].search(without_open_codes(sentence)) is not None


def without_open_codes(sentence: str) -> str:
    """Return a sentence without the names of codes that open nothing: "area code", "error code"."""
    return _patterns()["open code"].sub("", sentence)


@cache
def _patterns() -> Rules:
    code_words, memorable = words_of("code words"), WORDS["memorable words"]
    named = f"(?:{WORDS['passphrases']}|{WORDS['password names']}|\\b{code_words}\\b)"
    link = f"(?:{WORDS['behind the naming']})"
    asking, asked = rf"\b(?:{WORDS['those who ask']})\b", rf"\b(?:{WORDS['asked for']})\b"
    is_asked = rf"(?:{asking}[^.!?\n]{{0,60}}?{asked}|{asked}[^.!?\n]{{0,30}}?{asking})"
    # "The alarm people will ask for a word. Ours is …"
    is_wanted = (
        rf"\b{WORDS['asking for a word']}\b[^.!?\n]{{0,40}}?\bask\w* (?:\w+ ){{0,2}}?for (?:a|the|our|my) "
        r"(?:\w+ )?(?:word|name)\b"
    )
    capital = r"(?=(?-i:[A-ZÀ-Þ]))"
    patterns = {
        "hint": rf"{named}|{memorable}|{asked}|\bask\w* ",
        "linked": rf"(?:{named}{NOT_ITSELF}|{memorable}|{is_wanted}){_GAP}{link}\s{_WORDS}{_REST}",
        # "For the phone banking they ask my first pet's name. It was Pickles."
        "asked": rf"{is_asked}{_GAP}(?:{link}\s)?{capital}{_WORDS}{_REST}",
        "answered": rf"\bsecurity (?:question|answer)s?\b{_GAP}{capital}{_ONE}{_REST}",
        "said": rf"(?:\b{code_words}\b|{memorable}){_GAP}(?:(?:just|please|you) )*(?:say|tell them)\s"
        rf"{_WORDS}{_REST}",
        # "wifi at mom's. sunflower. that's the password"
        "behind": rf"(?:^|[.!?\n]\s{{1,2}}){_ONE}[.!]\s{{1,2}}that'?s (?:the|my|our) "
        rf"(?:[\w'-]+ ){{0,2}}?{named}",
        "code": rf"\b(?:{WORDS['codes that open something']})\b",
        "open code": rf"\b(?:{WORDS['codes that open nothing']})\b",
    }
    return Rules(patterns)
