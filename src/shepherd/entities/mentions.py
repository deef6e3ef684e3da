"""Spots of a text that refer to something: names, descriptions and pronouns, in order, without overlap.

Resolution decides what they refer to. Code and addresses are skipped; of a long text only the beginning is
read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from shepherd.entities.lexicon import (
    CONNECTORS,
    GERMAN_POSSESSIVES,
    GERMAN_ROLES,
    GIVEN_NAMES,
    HEADS,
    HONORIFICS,
    KINDS,
    NO_NAMES,
    OWNED_KINDS,
    PERSONAL_VERBS,
    PLACES,
    POSSESSIVES,
    PRONOUNS,
    ROLES,
    is_plain_word,
    singular_role,
)
from shepherd.entities.names import PART, WORD, Entry, NameIndex
from shepherd.sentences import is_abbreviation

__all__ = ["Spot", "find_spots"]

# The names in a pasted document are found when it is searched.
_MOST_CHARS = 4000
_LONGEST_NAME = 6
_UNREAD = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|\b(?:https?://|www\.)\S+|\S+@\S+\.\w+|(?:^|(?<=\s))[@#/]\w\S*", re.DOTALL
)
# Each match of _UNREAD contains one of these.
_UNREAD_SIGNS = re.compile(r"[`@#/]|www\.")
# A capital behind one of these says nothing about the word.
_OPENING = re.compile(r"[.!?:;\n•>*\"\u201c\u201d]")
_POSSESSIVE = re.compile(r"['\u2019][sS]?$")
# Phrases in which "it" refers to nothing: "it is raining", "it's hard to", "makes it easy".
_NOTHING = re.compile(
    r"\s*(?:(?:'s|\u2019s|\s+(?:is|was|will be|would be|seems|looks|has been))"
    r"\s+(?:not\s+|so\s+|very\s+|too\s+)?"
    r"(?:raining|snowing|cold|hot|warm|late|early|dark|time|possible|impossible|important|clear|likely"
    r"|unlikely|true|necessary|hard|easy|difficult|better|best|worth|ok|okay|fine|that|a\s+pity|obvious)\b"
    r"|\s+(?:rains|snows|depends|takes|turns\s+out|doesn't\s+matter))",
    re.IGNORECASE,
)
_BE = frozenset(("is", "was", "isn't", "wasn't", "will", "would", "be", "make", "makes", "find"))
_OF_NOTHING = re.compile(
    r"\s+(?:be\s+|not\s+|so\s+|very\s+|too\s+)*(?:raining|snowing|cold|hot|warm|sunny|late|early|dark|time|possible"
    r"|important|clear|likely|true|necessary|hard|easy|easier|difficult|better|best|worth|ok|okay|safe|rain|snow)\b",
    re.IGNORECASE,
)
_SELF_INTRODUCTION = re.compile(
    r"(?:\bI['\u2019]?\s*a?m|\bmy\s+(?:full\s+|first\s+|last\s+)?name\s+is|\bmy\s+name['\u2019]s|\bcall\s+me)\s+$",
    re.IGNORECASE,
)
_NAME = r"[^\W\d_a-z][\w-]*(?:['\u2019][^\W\d_a-z]\w+)?"
_NICKNAMED = re.compile(
    rf"(?P<first>{_NAME}) +"
    rf"(?:\"(?P<straight>{_NAME})\"|\u201c(?P<curly>{_NAME})\u201d|\((?P<round>{_NAME})\))"
    rf" +(?P<last>{_NAME})"
)
# Short forms that are no part of the name: Bill is William.
_SHORT_FORMS = frozenset(
    (
        "bea", "bess", "bill", "dick", "dot", "fritz", "gus", "hal", "hank", "harry", "jack", "jim", "kit",
        "mick", "ned", "nell", "peggy", "polly", "rick", "sally", "sepp", "ted", "tess", "toni", "willi",
    )
)  # fmt: skip
# Words that refer to something in lower case, too.
_REFERRING = frozenset(("the", *POSSESSIVES, *PRONOUNS, *ROLES))


@dataclass(frozen=True, slots=True)
class Spot:
    """A span of text that refers to something.

    `entries` are registered entities with that name, `known` are known names by their place. `role` is the
    noun of a description ("sister"), `owner` is my, our, his, her, their, its, the, or "" after a name.
    `is_plural` means everybody with the role. `sentence`
    counts from 0. `text` is what stands there, without the `nickname` in `William "Bill" Turner`.
    """

    kind: Literal["name", "description", "pronoun"]
    text: str
    start: int
    end: int
    sentence: int
    entries: tuple[Entry, ...] = ()
    known: tuple[Entry, ...] = ()
    role: str = ""
    owner: str = ""
    is_possessive: bool = False
    is_first: bool = False
    is_plural: bool = False
    nickname: str = ""


@dataclass(slots=True)
class _Word:
    text: str
    folded: str
    start: int
    end: int
    sentence: int
    is_first: bool
    is_possessive: bool
    gap: str


@dataclass(slots=True)
class _Reading:
    """A text being read: its words, the indexes of names, and whether most of it is in capitals."""

    text: str
    words: list[_Word]
    folded: list[str]
    names: NameIndex
    known: NameIndex
    shouts: bool


def find_spots(text: str, names: NameIndex, known: NameIndex) -> list[Spot]:
    """Return all spots of a text, in order."""
    readable = text[:_MOST_CHARS]
    if _UNREAD_SIGNS.search(readable):
        readable = _UNREAD.sub(lambda match: " " * len(match[0]), readable)
    words = _split(readable)
    shouts = sum(word.text.isupper() and len(word.text) > 1 for word in words) * 2 > len(words)
    reading = _Reading(readable, words, [word.folded for word in words], names, known, shouts)
    spots = []
    at = 0
    while at < len(words):
        spot, length = _at(reading, at) if _may_refer(reading, words[at]) else (None, 1)
        if spot is not None:
            spots.append(spot)
        at += max(length, 1)
    return spots


def _may_refer(reading: _Reading, word: _Word) -> bool:
    """Return whether a spot can begin at a word, which rules most words out quickly."""
    folded = word.folded
    return (
        word.text[:1].isupper()
        or folded in _REFERRING
        or reading.names.begins_with(folded)
        or reading.known.begins_with(folded)
    )


def _split(text: str) -> list[_Word]:
    words: list[_Word] = []
    sentence, end = 0, 0
    for match in WORD.finditer(text):
        gap = text[end : match.start()]
        is_first = not words or (
            gap != " "
            and _OPENING.search(gap) is not None
            and not (gap.startswith(".") and is_abbreviation(words[-1].folded))
        )
        sentence += bool(words) and is_first
        word = match[0]
        possessive = None if word.isalnum() else _POSSESSIVE.search(word)
        if possessive is not None:
            word = word[: possessive.start()]
        end = match.end()
        is_possessive = possessive is not None or (
            word.endswith("s") and text[end : end + 1] in ("'", "\u2019")
        )
        words.append(
            _Word(
                word,
                word.casefold().replace("\u2019", "'"),
                match.start(),
                match.start() + len(word),
                sentence,
                is_first,
                is_possessive,
                gap,
            )
        )
    return words


def _at(reading: _Reading, at: int) -> tuple[Spot | None, int]:
    """Return the spot that begins at a word, and its number of words."""
    text, words = reading.text, reading.words
    word = words[at]
    if word.folded in POSSESSIVES or word.folded == "the":
        length = _description(words, at)
        if length:
            role = words[at + length - 1].folded
            plural_of = "" if role in ROLES or role in KINDS else singular_role(role)
            spot = _spot("description", text, words, at, length, role=plural_of or role, owner=word.folded)
            return replace(spot, is_plural=bool(plural_of)), length
    found = _nicknamed(reading, at) or _name(reading, at)
    if found is not None:
        return found
    if word.folded in PRONOUNS:
        if word.folded == "it" and _means_nothing(text, words, at):
            return None, 1
        return _spot("pronoun", text, words, at, 1, owner=word.folded), 1
    if at and word.folded in ROLES and words[at - 1].is_possessive and _is_gap(word.gap):
        # "Anna's brother": the owner is the spot before.
        return _spot("description", text, words, at, 1, role=word.folded), 1
    return None, 1


def _means_nothing(text: str, words: list[_Word], at: int) -> bool:
    """Return whether an "it" refers to nothing: it rains; is it warm there?"""
    end = words[at].end
    if at and words[at - 1].folded in _BE and _OF_NOTHING.match(text, end):
        return True
    return _NOTHING.match(text, end) is not None


def _description(words: list[_Word], at: int) -> int:
    """Return the number of words of "my older sister" or "the manager"; 0 if there is no description."""
    kinds = KINDS if words[at].folded == "the" else OWNED_KINDS
    for n in range(1, 4):
        if at + n >= len(words):
            return 0
        word = words[at + n]
        if not _is_gap(word.gap) or word.text[:1].isupper() != word.text.isupper():
            return 0
        is_plural = words[at].folded != "the" and singular_role(word.folded) != ""
        if word.folded in ROLES or word.folded in kinds or is_plural:
            # In "the project manager" the last such word decides.
            after = at + n + 1
            if after == len(words) or not _is_gap(words[after].gap) or word.is_possessive:
                return n + 1
            then = words[after].folded
            if then in HEADS:
                return 0
            if not (then in ROLES or then in KINDS):
                return n + 1
        elif word.folded in NO_NAMES and n > 1:
            return 0
    return 0


def _nicknamed(reading: _Reading, at: int) -> tuple[Spot, int] | None:
    """Return the spot of a name with a nickname in it, such as `William "Bill" Turner`."""
    words = reading.words
    if words[at].folded not in GIVEN_NAMES:
        return None
    match = _NICKNAMED.match(reading.text, words[at].start)
    if match is None or match["last"].casefold() in NO_NAMES:
        return None
    # In round brackets stands more than names: "Anna (Berlin) Meier", unlike "Anne (Annie) Meier".
    aside = (match["round"] or "").casefold()
    is_short_form = aside in _SHORT_FORMS or aside[:3] in match["first"].casefold()
    if aside and not (aside in GIVEN_NAMES or is_short_form):
        return None
    length = sum(word.start < match.end() for word in words[at : at + _LONGEST_NAME])
    name = f"{match['first']} {match['last']}"
    spot = _spot("name", reading.text, words, at, length)
    entries, known = reading.names.find(name), reading.known.find(name)
    nickname = match["straight"] or match["curly"] or match["round"]
    return replace(spot, text=name, nickname=nickname, entries=tuple(entries), known=tuple(known)), length


def _name(reading: _Reading, at: int) -> tuple[Spot | None, int] | None:
    text, words, folded = reading.text, reading.words, reading.folded
    names, known = reading.names, reading.known
    n_named, entries = names.longest(folded, at)
    n_known, before = known.longest(folded, at)
    if not words[at].text[:1].isupper():  # part of a name counts with a capital only
        if folded[at] not in GIVEN_NAMES:
            entries = [entry for entry in entries if entry.rank != PART]
            before = [entry for entry in before if entry.rank != PART]
        n_named, n_known = n_named if entries else 0, n_known if before else 0
    n = max(n_named, n_known)
    is_small = n == 1 and not words[at].text[:1].isupper()
    # A name of one letter needs its capital.
    if is_small and (is_plain_word(folded[at]) or len(folded[at]) == 1):
        n = n_named = n_known = 0
    # A name does not cross the end of a sentence.
    if n > 1 and any(words[i].is_first for i in range(at + 1, at + n)):
        n = n_named = n_known = 0
    run = 0 if reading.shouts else _capitalised(words, at)
    is_named_first = folded[at] in GIVEN_NAMES or folded[at] in HONORIFICS
    if run > max(n, 1) and words[at].is_first and not is_named_first and len(folded[at + 1]) > 1:
        # "Poor Anna", if Anna is known: the sentence begins with a word. Not "Plan C".
        run = 0 if names.longest(folded, at + 1)[0] or known.longest(folded, at + 1)[0] else run
    if n == 1 and words[at].is_first and folded[at] in NO_NAMES:
        n = n_named = n_known = 0
    length = run if run > n and _is_name(words, at, run, is_known=n > 0) else n
    if length == 0:
        return None
    if _SELF_INTRODUCTION.search(text, max(words[at].start - 40, 0), words[at].start):
        return None, length
    is_known = n_known > n_named
    if n_known and n_known == n_named:  # a whole known name wins against a part of another name
        is_known = before[0].rank < PART == entries[0].rank
    spot = _spot(
        "name",
        text,
        words,
        at,
        length,
        entries=tuple(entries) if n_named and not is_known else (),
        known=tuple(before) if is_known else (),
    )
    return spot, length


def _capitalised(words: list[_Word], at: int) -> int:
    """Return the length of the run of capitalised words from here that can form one name."""
    if not _is_capital(words[at]) or words[at].folded in NO_NAMES or _is_german_role(words, at):
        return 0
    length = 1
    while at + length < len(words) and length < _LONGEST_NAME:
        before, word = words[at + length - 1], words[at + length]
        if word.is_first or before.is_possessive or not _is_name_gap(word.gap, before):
            break
        if _is_capital(word) and word.folded not in NO_NAMES:
            length += 1
            continue
        after = at + length + 1
        joins = word.folded in CONNECTORS and after < len(words) and _is_gap(words[after].gap)
        if joins and _is_gap(word.gap) and _is_capital(words[after]) and not words[at].is_first:
            length += 2
            continue
        break
    return length


def _is_german_role(words: list[_Word], at: int) -> bool:
    """Return whether a word belongs to "Meine Schwester", before a name."""
    if words[at].folded in GERMAN_POSSESSIVES:
        return at + 1 < len(words) and words[at + 1].folded in GERMAN_ROLES
    return at > 0 and words[at].folded in GERMAN_ROLES and words[at - 1].folded in GERMAN_POSSESSIVES


def _is_name(words: list[_Word], at: int, length: int, *, is_known: bool) -> bool:
    """Return whether a run of capitalised words is a name."""
    word = words[at]
    if length == 1 and len(word.text) < 2:
        return False
    if not is_known and all(one.text.isupper() for one in words[at : at + length]):
        return False  # PDF, API, USB
    if not word.is_first:
        return True
    if length > 1 or word.folded in GIVEN_NAMES or word.folded in PLACES or word.folded in HONORIFICS:
        return True
    after, then = ([one.folded for one in words[at + 1 : at + 3]] + ["", ""])[:2]
    if after in ("is", "was"):  # "Coffee is good" is not about somebody
        return then in POSSESSIVES or then in ("from", "married")
    return word.is_possessive or after in PERSONAL_VERBS


def _is_capital(word: _Word) -> bool:
    if not word.text[:1].isupper() or word.folded in PRONOUNS:
        return False
    before, apostrophe, _ = word.folded.partition("'")
    return not (apostrophe and before in NO_NAMES)  # I'd, You've


def _is_gap(gap: str) -> bool:
    return gap in (" ", "  ")


def _is_name_gap(gap: str, before: _Word) -> bool:
    return _is_gap(gap) or (gap == ". " and is_abbreviation(before.folded))


def _spot(
    kind: Literal["name", "description", "pronoun"],
    text: str,
    words: list[_Word],
    at: int,
    length: int,
    *,
    entries: tuple[Entry, ...] = (),
    known: tuple[Entry, ...] = (),
    role: str = "",
    owner: str = "",
) -> Spot:
    first, last = words[at], words[at + length - 1]
    return Spot(
        kind,
        text[first.start : last.end],
        first.start,
        last.end,
        first.sentence,
        entries,
        known,
        role,
        owner,
        last.is_possessive,
        first.is_first,
    )
