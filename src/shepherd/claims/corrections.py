"""Known values that a message corrects: "my car is blue, not grey" makes a grey Skoda blue.

Such a sentence states no value by itself; what is known says what the corrected word belongs to. Who works at
Bosch and "moved from Bosch to Siemens" works at Siemens; who lives in Metz and moved "from Metz to Toul" has
another home. Whoever works at Spotify and "switched from Spotify to Tidal" may have another app.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from shepherd.claims.keys import INSTRUCTIONS, LISTS, canonical_key, words_of
from shepherd.claims.moves import MOVED_FROM, is_home, is_town
from shepherd.claims.statements import own_sentences
from shepherd.claims.successors import IT_IS, are_alike
from shepherd.claims.wordings import definition, rule, words
from shepherd.given_names import GIVEN_NAMES
from shepherd.types import Fact

__all__ = ["Correction", "corrected_facts"]

_WORD = r"[\w&@+.'/-]*\w"
_END = r"(?=\s*(?:$|[.,;!)]|\s(?:any ?more|at all|as (?:you|i) (?:say|said|think|thought|told)|like you)\b))"
_TOPIC = rf"\b(?P<whose>my|our|the) (?P<topic>{_WORD}(?: {_WORD}){{0,2}}?)"
_NEW, _OLD = rf"(?P<new>{_WORD}(?: {_WORD}){{0,2}}?)", rf"(?P<old>{_WORD}(?: {_WORD}){{0,2}}?)"
_BEFORE = r"(?:(?:actually|really|in fact|now) )?"
_WORDINGS = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        # "My car is blue, not grey", "my car is blue instead of grey"
        rf"{_TOPIC}(?:'s| is| are) {_BEFORE}{_NEW},? (?:(?:and )?not|instead of|rather than) {_OLD}{_END}",
        # "My car isn't grey, it's blue", "my car is not grey but blue"
        rf"{_TOPIC}(?:(?: is|'s| are)(?:n't| not)| is no longer) {_OLD}(?: any ?(?:more|longer))?"
        rf"(?:(?:\s*[,;.:\u2013\u2014-]+\s*|\s+)(?:but )?(?:{IT_IS}|they(?:'re| are) )|,? but )"
        rf"{_BEFORE}{_NEW}(?: now)?{_END}",
    )
)
_NAMED = (
    r"(?P<new>(?-i:[A-Z\u00c0-\u00de])[\w&'.-]*"
    r"(?: (?:(?:of|and|&|on|upon|the) )?(?-i:[A-Z\u00c0-\u00de0-9])[\w&'.-]*){0,3})"
)
_NEW_PLACES = tuple(
    re.compile(f"{wording}{_NAMED}", re.IGNORECASE)
    for wording in (
        MOVED_FROM,
        r"(?<![\w'])(?P<who>i)(?:'ve| have)? (?:(?:just|recently|now|finally) )*(?P<verb>left|quit)"
        r" (?P<old>[^,;:.!?]{2,50}?) for (?:the )?",
    )
)
# What may follow a new home: no noun ("the Leeds office").
_BEHIND_HOME = re.compile(
    r"\W*$|\s*[.,;:!?()]|\s+(?:and|to|for|with|in|on|at|as|by|last|this|two|three|four|five|six|\d+|an?|the|because|when"
    r"|where|after|before|since|so|but|now|recently|together|permanently|yesterday|today)\b",
    re.IGNORECASE,
)
_BEHIND_EMPLOYER = re.compile(
    r"\W*$|\s+(?:(?:last|this) (?:week|month|year|spring|summer|autumn|winter)|in (?:19|20)\d\d|now|recently"
    r"|yesterday|\w+ (?:weeks|months|years) ago)\W*$",
    re.IGNORECASE,
)
_OF_WORK = re.compile(
    r"(?<!for my )(?<!for the )\b(?:jobs?|employers?|careers?|position|role|promotion|promoted|hired"
    r"|recruited|headhunted|salary|pay rise|joined|work(?:ing)? (?:there|as)|started (?:as|working))\b",
    re.IGNORECASE,
)
_COMPANY_IN_CAPITALS = re.compile(r"[A-Z][A-Z&]{2,4}")
_BACK = re.compile(
    r"\b(?:and|i'm|i am|went|came|moved|got) back\b|\bback (?:at|in|to|with|home)\b|\bre(?:turn|join)ed\b",
    re.IGNORECASE,
)
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_NTH = r"\d{1,2}(?:st|nd|rd|th)?"
_DAY = (
    rf"(?:(?:the )?{_NTH}(?: of)? {_MONTH}(?: \d{{4}})?|{_MONTH} {_NTH}(?:,? \d{{4}})?"
    rf"|(?:next )?(?:mon|tues|wednes|thurs|fri|satur|sun)day(?: the {_NTH})?"
    r"(?: at \d{1,2}(?:[:.]\d\d)?(?: ?[ap]m)?)?)\b"
)
_WHERE_TO = r"(?: (?:back|forward|off))?"
_PUT = rf"(?:moved?|rescheduled?|postponed?|push(?:ed)?|put|brought|bring|delay(?:ed)?){_WHERE_TO}"
_HAVE_PUT = rf"(?:'ve| have|'d)?(?: (?:just|now|had to|decided to))* {_PUT}"
_EVENT = r"(?P<topic>[\w -]{2,40}?)"
_TO_DAY = rf"(?: from [^.!?;,]{{2,25}}?)? (?:to|until|till) (?P<new>{_DAY})"
# "My wedding has been moved to 19 June", "we've had to push the exam back to Friday"
_PUT_OFF = tuple(
    re.compile(wording, re.IGNORECASE)
    for wording in (
        rf"(?<![\w'])(?:my|our) {_EVENT}(?:'s| has| have| was| were| is| got)"
        rf"(?: (?:just|now|been|being|had to be|had))* {_PUT}{_TO_DAY}",
        rf"(?<![\w'])(?:they|we|i){_HAVE_PUT} (?:my|our) {_EVENT}{_WHERE_TO}{_TO_DAY}",
        rf"(?<![\w'])(?:we|i){_HAVE_PUT} the {_EVENT}{_WHERE_TO}{_TO_DAY}",
    )
)
_BEHIND_MARK = re.compile(r"[.;:]\s|, (?=my |our |the )")


class Correction(NamedTuple):
    """A fact with the value that it has with the corrected words, and the sentence that says so.

    `changes`: the sentence says that the value is new.
    """

    key: str
    value: str
    sentence: str
    changes: bool = False

    def says_more_than(self, value: str) -> bool:
        """Return whether it has all words of another value and more: "blue Skoda" than "blue"."""
        return {*value.casefold().split()} < {*self.value.casefold().split()}


def corrected_facts(text: str, facts: Iterable[Fact]) -> list[Correction]:
    """Return the facts of which a message corrects a part; of one fact, the last correction.

    A word in the place of another has its form: a plain word, a name, a number.
    """
    sentences = own_sentences(text)
    told = [(sentence, match) for sentence in sentences for match in _told(sentence)]
    current = {fact.key: fact for fact in facts}
    found = {}
    for sentence, match in told:
        concerned = [fact for fact in current.values() if _is_about(match, fact)]
        # "My car": of two cars, it could be either.
        if len(concerned) == 1:
            key, value = concerned[0].key, _corrected(match, concerned[0].value)
            found[key] = Correction(key, value, sentence)
    for sentence, match in _moved(sentences):
        for fact in [*current.values()]:
            new = match["new"].rstrip(".'")
            if _is_left(match, fact, new):
                # "I left Bosch" ends it; "I moved from Apple to Google" may be about a telephone.
                leaves = match["verb"].casefold() in ("left", "quit")
                is_certain = leaves or _named(fact) == "location" or _OF_WORK.search(sentence) is not None
                found[fact.key] = Correction(fact.key, new, sentence, changes=is_certain)
                # "I moved from Bosch to Siemens. I moved from Siemens to ABB."
                current[fact.key] = replace(fact, value=new)
    for sentence, topic, new in _put_off(sentences):
        for fact in current.values():
            if {*words_of(fact.key)} == topic and re.search(_DAY, fact.value, re.IGNORECASE):
                found[fact.key] = Correction(fact.key, new, sentence, changes=True)
    return [*found.values()]


def _put_off(sentences: Iterable[str]) -> Iterator[tuple[str, set[str], str]]:
    """Yield sentences that move something to another day, with the words for it and the day."""
    for sentence in sentences:
        if any(rule(name).search(sentence) for name in ("unreal", "reported", "negations")):
            continue
        plain = sentence.replace("\u2019", "'")
        for match in (match for wording in _PUT_OFF for match in wording.finditer(plain)):
            yield sentence, {*match["topic"].casefold().split()}, match["new"].removeprefix("the ")


def _told(sentence: str) -> Iterator[re.Match[str]]:
    """Yield what a sentence corrects; what is supposed, planned or reported corrects nothing."""
    plain = sentence.replace("\u2019", "'")
    for wording in _WORDINGS:
        for match in wording.finditer(plain):
            before = _BEHIND_MARK.split(plain[: match.start()])[-1]
            is_unsure = any(rule(name).search(f"{before} {match[0]}") for name in ("unreal", "reported"))
            is_state = {*match["new"].casefold().split()} & words("momentary")
            if not is_unsure and not is_state and _is_alike(match["old"], match["new"]):
                yield match


def _moved(sentences: Sequence[str]) -> Iterator[tuple[str, re.Match[str]]]:
    """Yield who moved from one place or company to another, and stayed there."""
    last_back = max((number for number, one in enumerate(sentences) if _BACK.search(one)), default=-1)
    for number, sentence in enumerate(sentences):
        if number < last_back or any(
            rule(name).search(sentence) for name in ("unreal", "reported", "negations", "a story", "past")
        ):
            continue
        plain = sentence.replace("\u2019", "'")
        for match in (match for wording in _NEW_PLACES for match in wording.finditer(plain)):
            if not _BACK.search(plain, match.end()):
                yield sentence, match


def _named(fact: Fact) -> str:
    known = canonical_key(fact.key)
    return fact.key if known is None else known.name


def _is_left(match: re.Match[str], fact: Fact, new: str) -> bool:
    """Return whether a fact is the employer or the home that somebody moved from, to another of its kind.

    People switch from a company as customers as well: a new employer needs a word of work, or "I moved" or
    "I left", a well-known company and nothing more.
    """
    name, behind = _named(fact), match.string[match.end("new") :]
    old, value = match["old"].casefold().removeprefix("the "), fact.value.casefold().removeprefix("the ")
    if not old or not (f"{value} ".startswith((f"{old} ", f"{old}, ")) or old == value):
        return False
    if name == "employer":
        is_named = not is_town(new) and new.split(maxsplit=1)[0].casefold() not in GIVEN_NAMES
        return is_named and (_is_at_work(match, behind) or _is_bare_move(match, new, behind))
    has_moved = match["verb"].casefold() in ("moved", "relocated") and _BEHIND_HOME.match(behind) is not None
    return name == "location" and has_moved and is_home(new, f"I moved to {new}.")


def _is_at_work(match: re.Match[str], behind: str) -> bool:
    is_move = match["verb"].casefold() not in ("left", "quit")
    return is_move and _OF_WORK.search(match.string) is not None and _BEHIND_HOME.match(behind) is not None


def _is_bare_move(match: re.Match[str], new: str, behind: str) -> bool:
    is_company = definition("firm").fullmatch(new) or _COMPANY_IN_CAPITALS.fullmatch(new)
    is_mine = match["who"].casefold() == "i" and match["verb"].casefold() in ("moved", "left", "quit")
    return is_mine and is_company is not None and _BEHIND_EMPLOYER.match(behind) is not None


def _is_alike(old: str, new: str) -> bool:
    # "My car is parked, not grey" says where it is.
    is_done = new.endswith(("ed", "ing")) and not old.endswith(("ed", "ing"))
    is_other = len(old.split()) == len(new.split()) and old.casefold() != new.casefold()
    return is_other and not is_done and are_alike(old, new)


def _is_about(match: re.Match[str], fact: Fact) -> bool:
    """Return whether a fact has the words that are corrected, and is about what they are said of."""
    name = _named(fact)
    if name in LISTS or name == INSTRUCTIONS or _part(match["old"]).search(fact.value) is None:
        return False
    topic = {word.casefold() for word in match["topic"].split()}
    named = {*re.findall(r"[\w-]+", fact.value.casefold())}
    # "The Skoda" is the user's; "the car" may be any.
    return topic <= (named if match["whose"].casefold() == "the" else {*words_of(fact.key), *named})


def _corrected(match: re.Match[str], value: str) -> str:
    return _part(match["old"]).sub(lambda _: match["new"], value, count=1)


def _part(words_said: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(words_said)}(?![\w-])", re.IGNORECASE)
