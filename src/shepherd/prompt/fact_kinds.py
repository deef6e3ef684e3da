"""Kinds of values: which question a fact can answer ("when", "where"), and whether its time is asked for."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from shepherd.prompt.concepts import are_same, content_words, is_kind_of, relations_among
from shepherd.prompt.fact_profiles import FORMER, NAME, NAMED, NUMERALS, Profile
from shepherd.prompt.fact_values import agrees

__all__ = [
    "CALENDAR",
    "DATE",
    "HOW_MANY",
    "HOW_MUCH",
    "NUMBER",
    "WHEN",
    "WHO",
    "YEAR",
    "can_answer",
    "is_human",
    "is_likewise",
    "is_listed",
    "is_of_this_time",
    "serves",
    "tells_name_asked_for",
]

HOW_MANY = re.compile(r"\bhow many\b", re.IGNORECASE)
HOW_MUCH = re.compile(r"\bhow (?:many|much|old|tall|big|long|heavy|often)\b", re.IGNORECASE)
WHEN = re.compile(
    r"\b(?:when|(?:what|which) (?:\w+ )?(?:days?|dates?|months?|years?|times?|evenings?|mornings?|hours?))\b",
    re.IGNORECASE,
)
WHO = re.compile(r"\bwho(?:se|m)?\b", re.IGNORECASE)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
DATE = re.compile(
    r"\d|\b(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?|(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:days?)?"
    r"|noon|midnight|easter|christmas|spring|summer|autumn|winter|mornings?|evenings?|weekends?|weeks?|months?"
    r"|years?|daily|weekly|(?:before|after|with) (?:breakfast|lunch|dinner|meals|bed|work|school))\b",
    re.IGNORECASE,
)
NUMBER = re.compile(rf"\d|\b(?:{NUMERALS}|no|none|both|every|once|twice|daily|weekly)\b", re.IGNORECASE)
_MODEL = re.compile(r"\b([A-Z][\w-]+) [A-Z]?\d{1,3}\b(?![:.]\d)")
# Names of days and months are nobody's.
CALENDAR = re.compile(
    r"\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|January|February|March|April|May|June|July|August"
    r"|September|October|November|December)\b"
)
_CALLED = re.compile(r"\b(?:called|named?|names)\b", re.IGNORECASE)
# "What does Pixel need?", but not "What is Pixel?"
_ASKS_MORE = re.compile(
    r"\W*(?:and |so |but )?(?:what(?!(?:['\u2019]?s| is| are) [\w'\u2019 ]+\W*$)|how|when|where|why|which)\b",
    re.IGNORECASE,
)
_COUNTED = frozenset(("children", "siblings", "pets"))
_HOW_OLD = re.compile(r"\bhow old\b|\bage\b", re.IGNORECASE)
_HOW_LONG = re.compile(r"\bhow long (?:is|are|does|do|will)\b", re.IGNORECASE)
_LONG = re.compile(
    r"\d\W*(?:sec|min|h\b|hour|day|week|month|year|m\b|cm|mm|km|met|feet|foot|ft|inch|mile|page)"
    r"|\b(?:an? |one |two |three |half )?(?:hour|day|week|month|year|minute)s?\b|[\"\u2033']",
    re.IGNORECASE,
)
_LENGTHS = frozenset(content_words("length long duration size time hours sleep expiry valid until"))
_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_MINE_ALONE = re.compile(r"\bhow old (?:am|are) (?:i|we|you)\b", re.IGNORECASE)
# "Who sings in my choir?" is not answered by the choir.
_WHO_IN = re.compile(
    r"\bwho (?!(?:is|are|was|do|does|did)\b)\w+ (?:in|at|on) (?:my|our|the)\b", re.IGNORECASE
)
_WHERE_IS = re.compile(r"\bwhere(?:['\u2019]?s| is| are) (?:my|our|the)\b", re.IGNORECASE)
_LOCATION = frozenset(
    content_words(
        "location home town city village address origin birthplace hometown school employer company workplace"
        " stable livery kennel cabin cottage allotment caravan boat mooring"
        " parking garage office desk holiday secondhome"
    )
)
_PLACE = _LOCATION | frozenset(
    content_words(
        " university church"
        " gym hospital hotel club bank shop restaurant pub stable locker secondhome destination trip market"
        " parish clinic studio library hairdresser pool rink pitch court hall theatre mosque temple"
        " synagogue cafe"
    )
)
_IN_PLACE = re.compile(
    r"\b(?:at|in|near|for|on|with|under|behind|inside|beside|above|to)\s+\S", re.IGNORECASE
)
_NO_PLACE = frozenset(content_words("occupation profession trade title role function position post team"))
_OTHER_TIME = re.compile(
    r"\b(?:was|were|did|used to|(?:i|we) use to|before|previous(?:ly)?|former(?:ly)?|last|next|ago|will"
    r"|going to)\b",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"\b(?:used to|(?:i|we) use to|before|previous(?:ly)?|former(?:ly)?|last|next|ago|will|going to)\b",
    re.IGNORECASE,
)
# In German, "was" is "what" and "will" is "want"; in Dutch, "last" is "trouble".
_GERMAN = re.compile(
    r"\b(?:ich|mein(?:e[mnrs]?)?|mich|mir|wir|unser(?:e[mnrs]?)?|ist|sind|bin|heißt|heiße)\b", re.IGNORECASE
)
_DUTCH = re.compile(r"\b(?:ik|mijn|m['\u2019]n|mij|wij|onze)\b", re.IGNORECASE)
_TIMES_IN_GERMAN = (
    (re.compile(r"\b(?:was|will)\b", re.IGNORECASE), ""),
    (re.compile(r"\b(?:war(?:st|t|en)?|hatten?|wurden?)\b", re.IGNORECASE), "was"),
    (
        re.compile(r"\b(?:(?:früher|vorher|ehemalig|vorig|bisherig|letzt)\w*|zuvor|damals)\b", re.IGNORECASE),
        "former",
    ),
    (re.compile(r"\bnächste\w?\b", re.IGNORECASE), "next"),
)
_TIMES_IN_DUTCH = (
    (re.compile(r"\b(?:will|last)\b", re.IGNORECASE), ""),
    (re.compile(r"\b(?:waren|hadden)\b", re.IGNORECASE), "was"),
    (re.compile(r"\b(?:vroeger|eerder|voormalige?|vorige?|laatste)\b", re.IGNORECASE), "former"),
    (re.compile(r"\bvolgende?\b", re.IGNORECASE), "next"),
)
_CHANGING = frozenset(content_words("job employer location phone email address age car partner boss doctor"))
_PAST = re.compile(r"(?:^|_)(?:taught|was|did|went|grew|had|[a-z]{2,}ed)(?:_|$)")
_AGAIN = re.compile(r"\bagain\W*$", re.IGNORECASE)
# "my last name" and "my next of kin" are of no other time.
_TIMELESS = re.compile(r"\b(?:last|next) (?:names?|of kin|door|born)\b", re.IGNORECASE)
# Who does no longer work, or is no longer alive, is asked for with "did".
_WORKED = frozenset(content_words("job occupation profession trade work employer career"))
# Questions for what the user likes, and for what he does not.
_DISLIKES = frozenset(content_words("dislike dislikes disliked hate hates hated avoid avoids avoided detest"))
_LIKES = re.compile(r"\b(?:like|love|enjoy|prefer|favou?rite|fave?|best)\b", re.IGNORECASE)
_FAVORITE = frozenset(content_words("favorite favourite"))
_CHOICE = frozenset(content_words("fav fave best most prefer preferred choice love ideal dream usual"))
_LIKE = re.compile(r"\b(?:like|likes)\b", re.IGNORECASE)
_DOES = re.compile(r"\b(?:am|are|did|was|were|have|had) (?:i|we) (\w+)", re.IGNORECASE)
# Things and places whose names are nobody's: "Who teaches me?" does not ask for the school.
_NOBODY = frozenset(
    content_words(
        "car van bike motorbike boat house flat home laptop computer phone printer camera boiler garden"
        " glasses watch truck caravan instrument school university college location city town village address"
    )
)
_IDENTIFIES = ("_number", "_no", "_id", "_code", "_pin")
_LISTED = re.compile(r",| and | & ")
# Whose things and helpers are of the user's animals and children, though their keys do not say so.
_FOR_PETS = frozenset(content_words("vet farrier groomer kennel cattery stable livery petsitter"))
_FOR_CHILDREN = frozenset(
    content_words("paediatrician pediatrician childminder nanny babysitter nursery creche")
)
_DESCRIBES = re.compile(r"\d|\b(?!and\b)[a-z]{2,}")
_THING_ASKED = re.compile(r"\b(?:what|which) (\w+) (?:do|does|did|should|can|will|would)\b", re.IGNORECASE)


def is_human(one: Profile) -> bool:
    """Return whether a fact is about a person, or about nobody but the user."""
    return not any(is_kind_of(relation, "pet") for relation in one.relations)


def serves(one: Profile, relation: str) -> bool:
    """Return whether a fact is about somebody or a place for the user's animals or children: the vet."""
    kind = "pet" if not _FOR_PETS.isdisjoint(one.attributes) else ""
    kind = "child" if not _FOR_CHILDREN.isdisjoint(one.attributes) else kind
    return bool(kind) and is_kind_of(relation, kind)


def tells_name_asked_for(text: str, key: str, value: str, *, is_name: bool) -> bool:
    """Return whether a fact tells a name where one is asked for, and nothing that the question says already.

    "What is my daughter called?" is not answered by "two kids", nor "What does Pixel need?" by "Pixel".
    """
    if _CALLED.search(text):
        return key not in _COUNTED or NAME.search(value) is not None
    # "What present does my sister want?" does not ask who she is.
    asked = _THING_ASKED.search(text) if is_name and not _DESCRIBES.search(value) else None
    if asked and not set(content_words(asked[1])) <= NAMED and not relations_among(content_words(asked[1])):
        return False
    return not (is_name and _ASKS_MORE.match(text) and set(content_words(value)) <= set(content_words(text)))


def can_answer(one: Profile, text: str) -> bool:
    """Return whether a value can answer "when", "how old", "where" and the like."""
    value = one.fact.value
    if not agrees(text, one.fact.key, value):
        return False
    if not tells_name_asked_for(text, one.fact.key, value, is_name=one.is_bare):
        return False
    if _HOW_OLD.search(text) and not one.is_age():
        return not one.relations and YEAR.search(value) is not None and not _MINE_ALONE.search(text)
    asks_when = WHEN.search(text)
    if asks_when and (not _tells_time(value) or one.fact.key.endswith(_IDENTIFIES)):
        # Values of "favourite month" need not be one.
        return not set(content_words(asks_when[0])).isdisjoint(one.key)
    if HOW_MUCH.search(text) and not _has_amount(one, text):
        return False
    if WHO.search(text) and not one.relations and one.head in _NOBODY:
        return False
    # "Mum" is no name, yet somebody to live with.
    if (
        WHO.search(text)
        and not one.fact.key.endswith("_with")
        and (not NAME.search(CALENDAR.sub("", value)) or (_WHO_IN.search(text) and not one.relations))
    ):
        return False
    return not _WHERE.search(text) or _is_place(one, text)


def _tells_time(value: str) -> bool:
    """Return whether a value has a date or a time, not only the number of a model: "Framework 13"."""
    return (
        DATE.search(_MODEL.sub(lambda found: found[0] if DATE.search(found[1]) else found[1], value))
        is not None
    )


def _has_amount(one: Profile, text: str) -> bool:
    """Return whether a value tells how many, how much or how long."""
    value = one.fact.value
    if HOW_MANY.search(text):
        if one.fact.key.endswith(_IDENTIFIES):
            return False
        return NUMBER.search(value) is not None or is_listed(one)
    if _HOW_LONG.search(text):
        return _LONG.search(value) is not None or not _LENGTHS.isdisjoint(one.key)
    return NUMBER.search(value) is not None


def is_listed(one: Profile) -> bool:
    """Return whether a value lists several: "Ayo, Bisi and Tunde"."""
    return _LISTED.search(one.fact.value) is not None


def _is_place(one: Profile, text: str) -> bool:
    # "You live with mum" doesn't tell where.
    if not _NO_PLACE.isdisjoint(one.attributes) or one.fact.key.endswith("_with"):
        return False
    is_place = any(are_same(word, place) for word in one.attributes for place in _PLACE)
    if is_place and _WHERE_IS.search(text):  # the name of the gym is no answer to that
        is_place = any(are_same(word, place) for word in one.attributes for place in _LOCATION)
    return is_place or one.fact.key.endswith(("_at", "_in")) or _IN_PLACE.search(one.fact.value) is not None


def is_likewise(one: Profile, text: str, words: Collection[str]) -> bool:
    """Return whether a fact is about likes as the question is: what is disliked is no answer to "I like".

    "What book am I reading?" does not ask for the favourite one.
    """
    is_dislike = not _DISLIKES.isdisjoint(one.attributes)
    asks_dislike = not _DISLIKES.isdisjoint(words)
    if is_dislike and not asks_dislike:
        return not _LIKES.search(text)
    if _FAVORITE.isdisjoint(one.attributes):
        return True
    if asks_dislike:
        return False
    is_asked = not (_FAVORITE | _CHOICE).isdisjoint(words) or _LIKE.search(text)
    return bool(is_asked) or not _DOES.search(text)


@lru_cache(maxsize=8)  # for each fact, the same question
def _times_in_english(text: str) -> str:
    """Return a question with English words of time for those of German and Dutch."""
    times = _TIMES_IN_GERMAN if _GERMAN.search(text) else _TIMES_IN_DUTCH if _DUTCH.search(text) else ()
    for pattern, word in times:
        text = pattern.sub(word, text)
    return text


def is_of_this_time(one: Profile, text: str, words: Collection[str]) -> bool:
    """Return whether a fact holds at the time that a question asks of: now or formerly."""
    text = _times_in_english(_TIMELESS.sub("", text))
    is_past = _OTHER_TIME.search(text) is not None
    is_person = one.is_bare and is_human(one)
    is_lasting = is_person or not one.relations or not _WORKED.isdisjoint(one.attributes)
    if is_past and not _CHANGED.search(text) and is_lasting:
        # "What was my thesis about?", "What was my husband called?": that has not changed since.
        is_past = (
            not is_person and not one.relations and any(are_same(one.head, thing) for thing in _CHANGING)
        )
    if "next" in one.key:
        return not is_past or re.search(r"\bnext\b|\bwill\b|\bgoing to\b", text, re.IGNORECASE) is not None
    if one.is_former:
        return is_past or not FORMER.isdisjoint(words)
    return (
        not is_past
        or one.is_event
        or YEAR.fullmatch(one.fact.value.strip()) is not None
        or _PAST.search(one.fact.key) is not None
        or "late" in one.key
        or _AGAIN.search(text) is not None
    )
