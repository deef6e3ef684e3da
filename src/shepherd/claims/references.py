"""Names that a pronoun gets, bound to the relative or the pet that it stands for.

"My wife works at the library, her name's Belinda" and "We got a puppy. She's called Juno" name somebody in a
later clause or sentence. A name is bound only where one answer is possible: not to one of two people who both
fit the pronoun, nor to somebody else's relative, nor behind a supposition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from shepherd.claims.wordings import rule, tables

__all__ = ["with_referents"]

_SHE = ("her", "she")
_IT = ("its", "it")
_THEY = ("their", "they", "them")
_FEMALE = re.compile(
    r"(?:step|grand|god)*(?:mothers?|mom|mum|mama|mummy|sisters?|wife|wifey"
    r"|girlfriend|gf|fianc[eé]e|daughters?|girls?|aunt|niece|ma|granny|gran|nana?|missus|sis|hen|mare|cow|landlady"
    r"|mother-in-law|sister-in-law|daughter-in-law|baby girl|little girl|midwife)",
    re.IGNORECASE,
)
_MALE = re.compile(
    r"(?:step|grand|god)*(?:fathers?|dad|papa|daddy|brothers?|husband|hubby|boyfriend|bf|sons?|boys?|lads?|uncle"
    r"|nephew|pa|bro|grandad|granddad|tomcat|cockerel|rooster|landlord|(?:father|brother|son)-in-law|baby boy"
    r"|little boy)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"\w+(?:[^s]s|ies)|children|twins|triplets|geese|mice|sheep|grandchildren", re.IGNORECASE
)
_ALSO_THEY = re.compile(r"partner|child|kid|baby|other half|better half|grandchild", re.IGNORECASE)
# Between the one who is meant and the pronoun, where nobody else can be: "a dog, her name".
_BETWEEN = re.compile(r"[\s,;:.!()\u2013\u2014-]*(?:and|und|et|y|e|en|who)?[\s,]*")
# Nobody is there of whom this is said.
_UNTRUE = ("unreal", "reported", "made up or gone", "parted")
_PLURALS = {
    "katzen": "katze", "hunde": "hund", "kinder": "kind", "töchter": "tochter", "söhne": "sohn",
    "pferde": "pferd", "katten": "kat", "honden": "hond", "poezen": "poes", "paarden": "paard",
}  # fmt: skip
# "He's mine and" speaks of the one whom the sentence before named.
_GOES_ON = re.compile(
    r"\W*(?:(?:he|she|it|they)(?:'?s| is|'?re| are) (?:[\w']+ ){1,4}?)?(?:and |und )?\W*", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?]+\s+$")
# "Guess who got a dog?", "My daughter?"
_ASKS_WHO = re.compile(r"\bguess (?:who|what)\b|^\W*(?=my (?:\w+ )?\w+\?+$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Language:
    """The wordings of one language; see references.txt."""

    own: re.Pattern[str]
    held: re.Pattern[str]
    other: re.Pattern[str]
    naming: re.Pattern[str]
    relative: re.Pattern[str] | None
    one: str
    many: str
    has_genders: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Somebody who may be meant; `noun` is "" for anybody who is not the user's."""

    start: int
    end: int
    noun: str


def with_referents(sentence: str, before: str) -> str:
    """Return the sentence with its names given to whom they belong: "her name's" is "my wife's name is".

    `before` is the sentence before it, in which the one who is meant may stand.
    """
    for language in _languages():
        found = list(language.naming.finditer(sentence))
        for match in reversed(found):
            noun = _meant(language, match, sentence, before)
            if noun:
                # A sentence that was joined to the one before it becomes a clause.
                near = _SENTENCE_END.sub(", ", sentence[: match.start()])
                sentence = near + _statement(language, noun) + sentence[match.end() :]
        if language.relative is not None:
            sentence = _with_relatives(language, sentence)
    return sentence


def _with_relatives(language: _Language, sentence: str) -> str:
    """Return the sentence with "ein Hund, der Bruno heißt" as a clause of its own."""
    assert language.relative is not None
    match = language.relative.search(sentence)
    noun = _meant(language, match, sentence, "") if match else ""
    if match is None or not noun:
        return sentence
    statement = f", {_statement(language, noun)}{match['named']}"
    return f"{sentence[: match.start()]}{statement}{sentence[match.end() :]}"


def _statement(language: _Language, noun: str) -> str:
    many = language.many if language.many and _SEVERAL.fullmatch(noun) else language.one
    return many.replace("{noun}", _PLURALS.get(noun.casefold(), noun))


def _meant(language: _Language, match: re.Match[str], sentence: str, before: str) -> str:
    """Return the noun of the one whom the pronoun stands for, "" where it may be somebody else."""
    pronoun = next((word for word in match.groups() if word), "").casefold()
    near = sentence[: match.start()]
    text = near if any(True for _ in _own(language, near)) else ""
    if not text and _GOES_ON.fullmatch(near) and (not before.endswith("?") or _ASKS_WHO.search(before)):
        text = before
    said = _ASKS_WHO.sub("", text)
    if not text or any(rule(name).search(said) for name in _UNTRUE):
        return ""
    fitting = [one for one in _candidates(language, text) if _fits(language, one.noun, pronoun)]
    if not fitting:
        return ""
    last = fitting[-1]
    is_beside = _BETWEEN.fullmatch(text[last.end :]) is not None
    is_alone = len({one.noun.casefold() for one in fitting}) == 1
    return last.noun if is_beside or is_alone else ""


def _own(language: _Language, text: str) -> Iterator[_Candidate]:
    for pattern in (language.own, language.held):
        for match in pattern.finditer(text):
            yield _Candidate(match.start(), match.end(), match["noun"])


def _candidates(language: _Language, text: str) -> list[_Candidate]:
    """Return all who may be meant, in order; of two that overlap, the user's own."""
    own = list(_own(language, text))
    others = (_Candidate(match.start(), match.end(), "") for match in language.other.finditer(text))
    kept = [one for one in others if not any(one.start < mine.end and mine.start < one.end for mine in own)]
    return sorted([*own, *kept], key=lambda one: one.end)


def _fits(language: _Language, noun: str, pronoun: str) -> bool:
    """Return whether the pronoun can stand for the noun; anybody may be meant by one of unknown gender."""
    if not noun or not language.has_genders or not pronoun:
        return True
    if pronoun in _THEY:
        return bool(_SEVERAL.fullmatch(noun) or _ALSO_THEY.fullmatch(noun))
    if _SEVERAL.fullmatch(noun):
        return False
    is_she, is_he = _FEMALE.fullmatch(noun) is not None, _MALE.fullmatch(noun) is not None
    if pronoun in _IT:
        return not (is_she or is_he)
    return not is_he if pronoun in _SHE else not is_she


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(
        _Language(
            own=_compiled(rows["own"]),
            held=_compiled(rows["held"]),
            other=re.compile(rows["other"], re.IGNORECASE),
            naming=re.compile(rows["naming"], re.IGNORECASE),
            relative=re.compile(rows["relative"], re.IGNORECASE) if "relative" in rows else None,
            one=rows["one"],
            many=rows.get("many", ""),
            has_genders=name == "English",
        )
        for name, rows in tables("references.txt").items()
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w'])(?:{pattern})(?![\w-])", re.IGNORECASE)
