"""Questions that no word of a key answers: what is on a date, what somebody does, all about somebody."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from shepherd.prompt.concepts import FRAME, content_words, is_kind_of, relation_of
from shepherd.prompt.fact_profiles import Known, Profile
from shepherd.types import Fact

__all__ = ["asks_for_work", "facts_about_somebody", "facts_about_work", "facts_on_date"]

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?P<{0}>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<{0}>(?:1\d|20)\d\d)\b"
_DATE = re.compile(
    rf"\b(?:{_DAY.format('d1')}(?:\s+of)?\s+{_MONTH.format('m1')}(?:,?\s+{_YEAR.format('y1')})?"
    rf"|{_MONTH.format('m2')}\s+(?:the\s+)?{_DAY.format('d2')}\b(?:,?\s+{_YEAR.format('y2')})?"
    rf"|{_YEAR.format('y3')}-(?P<m3>\d\d)-(?P<d3>\d\d))",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(r"\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b", re.IGNORECASE)
_CLOCK = re.compile(r"\b\d{1,2}[:.]\d\d\b|\b(?:at|o['\u2019]clock|[ap]m)\b", re.IGNORECASE)
# What is asked of a date, and nothing else: "What's on the 14th of May?", "Whose birthday is on 14 May?"
_ON_DATE = re.compile(r"\b(?:what|who|whose|which|anything|something)(?:['\u2019]?s)?\b", re.IGNORECASE)
_ON = frozenset(content_words("happen happening planned scheduled special event day date born birthday"))
_YEARLY = frozenset(content_words("birthday born birth birthdate dob anniversary wedding nameday"))
_ABOUT = re.compile(
    r"\b(?:tell me (?:something |everything |more |all )?(?:you know )?about|what (?:all )?(?:do|can) you"
    r" (?:know|remember|tell me|have)(?: all)?(?: stored| saved)? (?:about|on)"
    r"|(?:everything|anything|something) (?:you know )?about)"
    r"\s+(?:(?P<mine>(?:my|our) [\w'\u2019-]+(?: [\w'\u2019-]+)?)(?= (?:for|at|in|on|from|with)\b)"
    # What follows may be about somebody else: "the wife of Henry VIII", "dog training".
    r"|(?P<whom>[\w'\u2019-]+(?: [\w'\u2019&-]+){0,7}?)"
    r"(?:,? (?:please|pls|plz|again|now|then|so far|thanks?))?"
    r"\s*(?:[.,;:!?)]|$|(?= (?:so|because|since|before|when|while|if)\b)))",
    re.IGNORECASE,
)
_AND = re.compile(r" (?:and|&) ", re.IGNORECASE)
# "dogs" and "your mother" are not the user's; "Mum" is.
_OF_THE_USER = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)
_THE = re.compile(r"(?:(?:all|both)(?: of)? )?the ", re.IGNORECASE)
_BY_RELATION = ("mother", "father", "grandmother", "grandfather", "aunt", "uncle")
_MOST_ABOUT = 6
_WORK = re.compile(
    r"\W*(?:(?:and|so|then) )?(?:what do i do for (?:work|a living|a job)|where do i work"
    r"|what do i work (?:as|in)"
    r"|what(?:['\u2019]?s| is) my (?:job|occupation|profession|trade|work|line of work|business)"
    r"|what business (?:am i in|do i (?:run|have|own)))(?: again| now| these days)?\W*",
    re.IGNORECASE,
)
# What somebody does who has told no job and no employer.
_WORK_KEYS = ("runs", "teaches", "employment")


def facts_on_date(text: str, profiles: Sequence[Profile]) -> list[Fact]:
    """Return the facts on the date or the day of the week that a question asks about, and nothing besides."""
    dates, days = _dates_in(text), _days_in(text)
    if any(date.year for date in dates):
        days = set()  # "Wednesday 5 May 1948" is one day
    if not (dates or days) or not _ON_DATE.search(text):
        return []
    rest = _CLOCK.sub(" ", _WEEKDAY.sub(" ", _DATE.sub(" ", text)))
    others = {word for word in content_words(rest) if word not in FRAME and not word.isdigit()}
    asked = others & {"born", "birthday"}
    if others - _ON:
        return []
    return [
        one.fact
        for one in profiles
        if (_is_on(one, dates, is_asked="birthday" in asked) or days & _days_in(one.fact.value))
        and (not asked or "birthday" in one.key or not asked.isdisjoint(one.key))
    ]


class _Date(NamedTuple):
    month: int
    day: int
    year: int  # 0 if none is named


def _dates_in(text: str) -> list[_Date]:
    found = []
    for date in _DATE.finditer(text):
        month = date["m1"] or date["m2"]
        number = _MONTHS.index(month[:3].casefold()) + 1 if month else int(date["m3"])
        year = int(date["y1"] or date["y2"] or date["y3"] or 0)
        found.append(_Date(number, int(date["d1"] or date["d2"] or date["d3"]), year))
    return found


def _is_on(one: Profile, dates: Sequence[_Date], *, is_asked: bool) -> bool:
    """Return whether a fact is on one of these dates; `is_asked`: if birthdays are asked for."""
    return any(
        (told.month, told.day) == (date.month, date.day)
        and _is_in_year(one, told.year, date.year, is_asked=is_asked)
        for told in _dates_in(one.fact.value)
        for date in dates
    )


def _is_in_year(one: Profile, told: int, asked: int, *, is_asked: bool) -> bool:
    """Return whether what is told of a year, 0 for none, is what is asked of one.

    A birthday comes again every year. Of a year gone by, a date without a year tells nothing: "What happened
    on 2 July 1776?".
    """
    if not asked or told == asked:
        return True
    is_yearly = not _YEARLY.isdisjoint(one.key)
    is_to_come = asked >= datetime.now(timezone.utc).astimezone().year
    return is_yearly and asked > told and (is_to_come or is_asked) if told else is_to_come


def _days_in(text: str) -> set[str]:
    return {day.casefold() for day in _WEEKDAY.findall(text)}


def asks_for_work(text: str) -> bool:
    """Return whether a question asks for what the user does, and for nothing more: "What is my job?"."""
    return _WORK.fullmatch(text) is not None


def facts_about_work(text: str, profiles: Sequence[Profile]) -> list[Fact]:
    """Return the facts that tell what the user does, for "What do I do for work?"."""
    if not asks_for_work(text):
        return []
    return [one.fact for one in profiles if one.fact.key in _WORK_KEYS]


def facts_about_somebody(text: str, known: Known) -> list[Fact] | None:
    """Return all facts about people or animals of the user: "Tell me about Fips", "Tell me all about my dog".

    None are returned about others, such as "your mother" or "dogs", and None if nobody is asked about.
    """
    found = _ABOUT.search(text)
    parts = [_about(whom, known) for whom in _AND.split(found["mine"] or found["whom"])] if found else []
    about = {one.fact.key: one.fact for part in parts for one in part or ()}
    if not about and all(part is None for part in parts):
        return None
    return [*about.values()][:_MOST_ABOUT]


def _about(whom: str, known: Known) -> list[Profile] | None:
    """Return the facts about one who is named, "Fips", "my dog" or "my dog Fips"; None if it is nobody."""
    words = content_words(whom)
    names = {word for word in words if word in known.names}
    kinds = {kind for word in words if word not in names and (kind := relation_of(word))}
    if not words or len(names) + len(kinds) != len(words) or len(names) > 1 or len(kinds) > 1:
        return None  # "Leo Tolstoy", "dog training"
    if not names and not _is_of_the_user(whom, kinds):
        return []
    about = [one for one in known.profiles if _is_one_of(kinds, one) and (not names or names & one.names)]
    # Of two dogs, one is told of by its name alone.
    return [one for one in about if not (names and one.is_bare) or not one.value.isdisjoint(names)]


def _is_of_the_user(whom: str, kinds: Collection[str]) -> bool:
    """Return whether somebody who is not named belongs to the user: "my wife", "the dog", "Mum"."""
    if _OF_THE_USER.search(whom):
        return True
    if len(whom.split()) > 1:
        return _THE.match(whom) is not None
    return not whom.casefold().endswith("s") and all(kind in _BY_RELATION for kind in kinds)


def _is_one_of(kinds: Collection[str], one: Profile) -> bool:
    return all(
        any(is_kind_of(mine, kind) or is_kind_of(kind, mine) for mine in one.relations) for kind in kinds
    )
