"""Words that mean the same thing in questions, in keys of facts and in notes, from `concepts.txt`.

Words are compared as stems, as the index has them: "allergic" and "allergies" are both about `allergy`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shepherd._native.text import STOP_WORDS, keywords

__all__ = [
    "FRAME",
    "are_related",
    "are_same",
    "content_words",
    "is_common",
    "is_kind_of",
    "relation_of",
    "relations_among",
    "searched_words",
]

_SECTION = re.compile(r"\[(\w+)")
# Several words that mean one thing, as one word.
_PHRASES = (
    (re.compile(r"\b(mother|father|sister|brother|son|daughter)[ _-]in[ _-]law\b", re.I), r"\1inlaw"),
    (re.compile(r"\b(?:mum|mom)[ _-]in[ _-]law\b", re.I), "motherinlaw"),
    (re.compile(r"\bdad[ _-]in[ _-]law\b", re.I), "fatherinlaw"),
    (re.compile(r"\b(?:do|did|does|doing) (?:(?:for|to earn|to make) )a living\b", re.I), "work"),
    (re.compile(r"\b(?:spare|free) time\b", re.I), "hobby"),
    (re.compile(r"\bnext[ -]door\b", re.I), "neighbor"),
    (re.compile(r"\bblood (?:group|type)\b", re.I), "blood"),
    (re.compile(r"\b(?:better|other) half\b|\bsignificant other\b", re.I), "partner"),
    (re.compile(r"\b(?:pick|picks|picked|picking) (?:it |them )?up\b", re.I), "collect"),
    (re.compile(r"\b(?:call|calls|called|calling)[ _]off\b", re.I), "cancel"),
    (re.compile(r"\b(?:hand|hands|handed) (?:it |them )?in\b", re.I), "submit"),
    (re.compile(r"\blook(?:s|ing|ed)? after\b", re.I), "service"),
    (re.compile(r"\b(?:people|friends|every(?:one|body)|they) calls? me(?: for short)?\b", re.I), "nickname"),
    (re.compile(r"\b(?:these days|at the moment|at present)\b", re.I), ""),
    (re.compile(r"\bpart of (?:the )?(?:town|city)\b", re.I), "neighborhood"),
    (re.compile(r"\bline manager\b", re.I), "boss"),
)  # fmt: skip


_HOW = re.compile(r"\bhow (?:long|often|old|many|much|far|big|tall|high|hot|heavy)\b", re.I)
_ASKS = re.compile(
    r"\W*(?:\w+ )?(?:what|which|who|whose|where|when|how|is|are|do|does|did|can)(?:['\u2019]?s)?\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class _Lexicon:
    """Concepts by the stem of each word: by its own words, and also by words of questions about it.

    `relations` are the people and animals; `kinds` has the kinds of one: wife and husband of partner.
    """

    own: Mapping[str, frozenset[str]]
    about: Mapping[str, frozenset[str]]
    relations: Mapping[str, str]
    kinds: Mapping[str, frozenset[str]]
    things: frozenset[str]


def content_words(text: str) -> list[str]:
    """Return the stems of the words of a text that say something, in their order, each once."""
    for pattern, word in _PHRASES:
        text = pattern.sub(word, text)
    return [word for word in dict.fromkeys(keywords(text)) if word not in STOP_WORDS]


def searched_words(question: str) -> str:
    """Return a question without the words that only ask: "how long do liquids go in" is about liquids.

    Other texts, and questions of nothing else, are returned as they are.
    """
    found = _HOW.sub(" ", question)
    if found == question and not _ASKS.match(question):
        return question
    words = [word for word in found.split() if not FRAME.issuperset(content_words(word))]
    return " ".join(words) or question


def are_related(one: str, other: str) -> bool:
    """Return whether two stems are the same, name the same thing, or one asks for what the other names."""
    if one == other:
        return True
    table = _lexicon()
    nothing: frozenset[str] = frozenset()
    mine, theirs = table.own.get(one, nothing), table.own.get(other, nothing)
    if mine & theirs or _is_kind(table, one, other) or _is_kind(table, other, one):
        return True
    return bool(table.about.get(one, nothing) & theirs or mine & table.about.get(other, nothing))


def _is_kind(table: _Lexicon, one: str, other: str) -> bool:
    return table.relations.get(one, "") in table.kinds.get(table.relations.get(other, ""), ())


def are_same(one: str, other: str) -> bool:
    """Return whether two stems are the same or name the same thing."""
    table = _lexicon()
    return one == other or not table.own.get(one, frozenset()).isdisjoint(table.own.get(other, ()))


def is_common(word: str) -> bool:
    """Return whether a stem names something that facts are about, or somebody."""
    return word in _lexicon().things


def relation_of(word: str) -> str:
    """Return the kind of person or animal that a stem names, such as "mother" or "dog"; "" if none."""
    return _lexicon().relations.get(word, "")


def relations_among(words: Iterable[str]) -> frozenset[str]:
    """Return the kinds of people and animals among stems."""
    return frozenset(filter(None, map(relation_of, words)))


def is_kind_of(relation: str, other: str) -> bool:
    """Return whether a relation is another one, or a kind of it: "wife" of "partner"."""
    return relation == other or relation in _lexicon().kinds.get(other, ())


@cache
def _lexicon() -> _Lexicon:
    own: dict[str, set[str]] = {}
    about: dict[str, set[str]] = {}
    relations: dict[str, str] = {}
    kinds: dict[str, frozenset[str]] = {}
    section, things = "", set()
    for line in Path(__file__).with_name("concepts.txt").read_text(encoding="utf-8").splitlines():
        if found := _SECTION.match(line):
            section = found[1]
        elif line and not line.startswith("#"):
            name, words, others = (part.strip() for part in line.split("|"))
            others, _, members = others.partition(">")
            for stem in _stems(words):
                own.setdefault(stem, set()).add(name)
                if section != "notes":
                    things.add(stem)
                if section == "relations":
                    relations[stem] = name
            for stem in _stems(others):
                about.setdefault(stem, set()).add(name)
            if members:
                kinds[name] = frozenset(members.split())
    return _Lexicon(
        {stem: frozenset(names) for stem, names in own.items()},
        {stem: frozenset(names) for stem, names in about.items()},
        relations,
        kinds,
        frozenset(things),
    )


def _stems(words: str) -> Iterable[str]:
    return (stem for word in words.split() for stem in keywords(word.replace("_", " "))[-1:])


# Words of a question that ask and say nothing about what is asked for.
FRAME = frozenset(
    content_words(
        "again now today currently dear thing things got get have take need give show find look forgot forget"
        " ask asks asking use using go goes put way kind sort type exactly actual called call me know own"
        " main recall check correct right please come wondering write down enter fill form present else there"
        " long normally usually generally usual often always particular remind reminder make makes made well"
        " nowadays"
    )
)
