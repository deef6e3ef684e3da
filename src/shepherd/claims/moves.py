"""Whether "I moved to …" and "I live in …" name a home: people also move to banks, wards, jobs and apps."""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.wordings import alternatives, definition, rule, words

__all__ = ["MOVED_FROM", "is_certain_move", "is_home", "is_town"]

_CAPITAL = r"(?-i:[A-Z\u00c0-\u00de])"
# "I've just moved from Bosch to Siemens": X and the beginning of Y. "I went from X to Y" tells of a journey.
MOVED_FROM = (
    r"(?<![\w'])(?P<who>i|we)(?:'ve| have)? (?:(?:just|recently|now|finally|also|since|both|all) )*"
    r"(?P<verb>moved|relocated|switched|transferred|changed) (?:(?:away|over|across|jobs|employers|companies"
    r"|house|straight) )*from (?P<old>[^,;:.!?]{2,50}?) (?:over )?to (?:the )?"
)
_FROM_TO = re.compile(MOVED_FROM, re.IGNORECASE)
# "Row F", "Terminal 5 of Heathrow"
_NUMBERED = re.compile(
    r"(?:row|seat|terminal|gate|room|table|platform|desk|lane|section|level|stage|floor|bay|ward|aisle|carriage|coach)"
    r" (?:\d+|[A-Z])\b",
    re.IGNORECASE,
)
_AND_BACK = re.compile(r",? and (?:then )?(?:straight |right )?back\b", re.IGNORECASE)
_MOVED = re.compile(r"\b(?:moved|moving|relocated|shifted|transferred)\b", re.IGNORECASE)
# Endings that few but towns have, in English, German, French, Dutch and Scandinavian.
_OF_TOWNS = re.compile(
    r"\w{2,}(?:ford|ton|ham|bury|borough|burgh|bridge|mouth|chester|cester|wick|wich|stead|field|leigh|ley|minster"
    r"|combe|hurst|shire|thorpe|thwaite|pool|haven|by|kirk|burg|stadt|dorf|hausen|heim|brück|brücken|furt|felde?"
    r"|kirchen|weiler|ingen|ville|bourg|grad|drecht|hoven|köping|borg|sund|stad)",
    re.IGNORECASE,
)
_SHORTEST_TOWN = 6
_BEFORE_TOWNS = re.compile(r"(?:St\.?|San|Santa|Bad|Isle of|Isles of|Mount|Nether|Upper|Lower|Stoke) [A-Z]")
_BETWEEN_TOWNS = re.compile(r"[ -](?:upon|on|sur|am|an der|ob der|under|le)[ -](?:the[ -])?[A-Z]")
_END_OF_SERVICE = re.compile(r"\W*$|\s*[,.;!?]|\s+(?:and|but|so|because|as|last|this|now|too)\b")
# Departments, wards and countries have short names in capitals alike.
_ACRONYM = re.compile(r"[A-Z][A-Z&0-9]{1,4}")


def is_home(value: str, sentence: str) -> bool:
    """Return whether a sentence that says where the user lives or moved to may mean a place to live.

    "From Bosch to Siemens" is a change of jobs, and "from Metz to Toul" one of homes: one of the two has to
    be a town by its name, or the sentence has to speak of a home.
    """
    if _NUMBERED.match(value) or _AND_BACK.match(sentence.partition(value)[2]):
        return False
    if is_town(value):
        return True
    if _is_no_place(value, sentence):
        return False
    moved = _FROM_TO.search(sentence)
    if moved is None or not sentence[moved.end() :].casefold().startswith(value.casefold()):
        return True
    old = moved["old"].removeprefix("the ").removeprefix("The ")
    is_place = not _is_no_place(old, sentence)
    return is_place and (is_town(old) or _speaks_of_home(sentence))


def is_certain_move(sentence: str, value: str, known: str) -> bool:
    """Return whether a sentence that calls a home new says so clearly: then a fact set by hand gives way.

    "I moved to Zelp" may be about an app; nothing else is than "moved", in English.
    """
    if not _MOVED.search(sentence) or is_town(value) or _speaks_of_home(sentence):
        return True
    moved = _FROM_TO.search(sentence)
    return moved is not None and moved["old"].casefold() in known.casefold()


def is_town(name: str) -> bool:
    """Return whether a name is that of a town or a country, which people know or which ends like one."""
    first = name.split(",", maxsplit=1)[0].strip()
    if first.casefold().removeprefix("the ") in words("towns and countries"):
        return True
    if not first[:1].isupper() or _is_no_place(first, ""):
        return False
    last = first.split()[-1]
    has_ending = len(last) >= _SHORTEST_TOWN and _OF_TOWNS.fullmatch(last) is not None
    return has_ending or bool(_BEFORE_TOWNS.match(first) or _BETWEEN_TOWNS.search(first))


def _speaks_of_home(sentence: str) -> bool:
    return rule("speaking of a home").search(sentence) is not None


def _is_no_place(value: str, sentence: str) -> bool:
    """Return whether a value names a company, a department, a program, a party, clothes or a world."""
    plain = value.casefold().removeprefix("the ")
    if plain in words("towns and countries"):
        return False
    if _brand().match(plain) or rule("software").fullmatch(plain):
        return True
    # "I moved to Zelp for my energy", and not "for the music scene"
    behind = sentence.partition(value)[2]
    service = rule("for a service", begins=True).match(behind)
    is_service = service is not None and _END_OF_SERVICE.match(behind, service.end()) is not None
    if is_service or _institution().search(value):
        return True
    # People move to HR and QA, and live in NRW.
    is_shouted = sentence == sentence.upper()
    return not is_shouted and _MOVED.search(sentence) is not None and _ACRONYM.fullmatch(value) is not None


@cache
def _brand() -> re.Pattern[str]:
    named = "|".join(definition(name).pattern for name in ("services", "shops"))
    return re.compile(
        rf"(?!(?:orange|mars|target|bolt|subway|boots|shell|ing)\b)(?:{named}|{alternatives('brands')})"
        r"(?=\W*$|\s+(?:mobile|music|energy|bank|insurance|tv|prime|plus|premium|pro|business|one|app|eats|broadband"
        r"|tights|leggings|\w+wear|jeans|shorts|hoodies?|shirts?|shoes|boots|trainers|socks|and|over|now)\b)",
        re.IGNORECASE,
    )


@cache
def _institution() -> re.Pattern[str]:
    """Return the pattern of a name of something that people work in, or belong to, and do not live in."""
    return re.compile(
        r"\b(?:university|college|academy|school"
        r"|hospital|infirmary|paediatrics|oncology|maternity|cardiology|radiology|intensive care"
        r"|theatres?)$"
        r"|\S (?:general|royal|bank|energy|mobile|media|music|insurance|council|party|department|dept"
        r"|broadband|plc|ltd|inc|gmbh|united|fc|prime|premium|airways|airlines|group|solutions|consulting|systems|partners"
        r"|leggings|jeans|hoodies|joggers|trainers|boots|pyjamas|sweats|sweatpants|tracksuits|dungarees|linen|shorts"
        r"|dresses|fleeces|crocs|sandals|jumpers)$"
        rf"|^(?:team|ward|year|unit|level|group|grade|set|band|plan|tier|phase|stage|wing|shift|class)"
        rf" (?:{_CAPITAL}|\d)",
        re.IGNORECASE,
    )
