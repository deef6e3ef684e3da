"""Sentences for facts, for facts that have ended, and for learned items.

A clause is a sentence without its capital letter and its full stop, to be put into another one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shepherd.claims.counts import is_total
from shepherd.claims.keys import items_of
from shepherd.claims.wordings import definition
from shepherd.prompt.concepts import content_words, relation_of, relations_among

if TYPE_CHECKING:
    from shepherd.memory import LearnedItem

__all__ = [
    "asked_for",
    "ended_clause",
    "fact_clause",
    "former_clause",
    "is_clause",
    "learned_clause",
    "past_clause",
    "sentence",
]

# How facts are told; others as "your KEY is VALUE".
_OWN = {
    "location": "live in",
    "origin": "are from",
    "employer": "work at",
    "allergy": "are allergic to",
    "language": "speak",
    "learning": "are learning",
    "likes": "like",
    "dislikes": "dislike",
    "prefers": "prefer",
    "avoids": "avoid",
    "uses": "use",
    "plays": "play",
    "drives": "drive",
    "owns": "own",
    "runs": "run",
    "teaches": "teach",
    "collects": "collect",
    "supports": "support",
    "wears": "wear",
    "writes": "write",
    "learns": "are learning",
    "works_on": "work on",
    "lives_with": "live with",
    "married_to": "are married to",
    "training_for": "are training for",
    "fears": "are afraid of",
    "instructions": "want me to",
    "lives_in": "live in",
    "works_at": "work at",
    "works_for": "work for",
    "works_as": "work as",
    "born_in": "were born in",
    "grew_up_in": "grew up in",
    "studies": "study",
    "studies_at": "study at",
    "speaks": "speak",
    "rides": "ride",
    "drinks": "drink",
    "eats": "eat",
    "works_in": "work in",
    "work_style": "work",
    "studied": "studied",
    "study": "study",
    "degree": "have a degree in",
}
# What held once; other verbs end in "-ed".
_PAST = {
    "are": "were", "is": "was", "have": "had", "has": "had", "speak": "spoke", "drive": "drove", "run": "ran",
    "teach": "taught", "wear": "wore", "write": "wrote", "ride": "rode", "drink": "drank", "eat": "ate",
    "study": "studied", "prefer": "preferred", "lives": "lived", "were": "were", "grew": "grew",
    "studied": "had studied", "keep": "kept", "sing": "sang", "breed": "bred", "read": "read", "sell": "sold",
    "take": "took", "rest": "rested",
}  # fmt: skip
# Verbs that become keys in the third person, as in "sells", beside those of the definition "habit".
_VERBS = frozenset(
    ["bank", "belong", "coach", "grow", "help", "listen", "read", "sell", "volunteer", "watch"]
)
# "Retired since 2017", "between jobs"; what other languages call it stays a noun's value.
_IS_EMPLOYED = re.compile(
    r"(?:(?:semi-)?retired|self[- ]employed|unemployed|between jobs|freelanc\w+|on \w+)\b.*", re.IGNORECASE
)
_DRINKS = ("coffee", "tea")
# "Your tea is with milk"
_TAKEN = re.compile(r"(?:with|without)\b", re.IGNORECASE)
_IS_HABIT = re.compile(r"(?:smoke|vape|journal|meditate|bite my nails)\b")
# Traits that are nouns: "night owl", "Geordie", unlike "stubborn".
_IS_SOMEBODY = re.compile(
    r".*\b(?:owl|bird|person|introvert|extrovert|child|lefty|insomniac|m[ou]ms?|dad|(?:grand|great-grand)?\w*(?:mother|father)"
    r"|grand(?:ma|pa|ad|dad)|parent|twin|triplet|widow|widower)|[A-Z][\w ]*",
)
# A name of a group that has an article: "the Bach choir", unlike "Rotary".
_GROUP = re.compile(
    r".*\b(?:choir|band|orchestra|club|society|association|guild|union|party|team|church|congregation|army"
    r"|council|league|federation|group|trust|chorus)",
    re.IGNORECASE,
)
# Other names of these, which people choose.
_SAME = {"allergies": "allergy", "languages": "language", "dislike": "dislikes", "like": "likes"}
# Values that are no nouns: "take the bus to Ulm every Monday".
_LABELS = ("routine",)
# Keys that go on with their value: "retired since 2017", "married on 4 May".
_GOES_ON = re.compile(r"\w+_(?:since|until)|(?:\w+_)?[a-z]+ed_(?:in|on|at)")
_COUNTED = ("children", "siblings", "pets", "grandchildren")
# Conditions that people are, others they have: "left-handed", "three months pregnant".
_IS_SO = re.compile(
    r"(?:\w+ )*?(?:[\w-]+[- ](?:handed|blind|sighted|deaf|intolerant|footed|eyed)|deaf|blind|hard of hearing"
    r"|dyslexic|dyspraxic|autistic|diabetic|asthmatic|epileptic|coeliac|celiac|an?emic|bipolar|narcoleptic"
    r"|ambidextrous|pregnant|neurodivergent|immunocompromised|(?:tetra|para|quadri)plegic|transgender|mute|disabled"
    r"|(?:in)?sterile|infertile|menopausal|overweight|underweight|synesthetic|teetotal)"
    r"(?: in (?:one|my|the|both) [\w ]+)?",
    re.IGNORECASE,
)
_IS_ONE = re.compile(
    r"(?:.+ )?(?:user|lefty|[\w-]+-hander|insomniac|amputee|survivor|haemophiliac|hemophiliac)", re.IGNORECASE
)
# Things that are told with an article: "a rusty Berlingo".
_VEHICLES = (
    "car", "van", "bike", "bicycle", "motorbike", "motorcycle", "scooter", "truck", "camper", "campervan",
)  # fmt: skip
_DETERMINED = re.compile(
    r"(?:an?|the|my|our|his|her|their|no|not|some|one|two|three|four|\d{1,2})\b", re.IGNORECASE
)
# Roles of which a body has only one, and those that need no article.
_ONLY_ONE = re.compile(r"(?:lead|principal|first|head|chief|main|only) ", re.IGNORECASE)
_OFFICE = re.compile(
    r"(?:(?:vice|deputy|honorary|club|team)[ -])*(?:chair\w*|president|secretary|treasurer|captain|skipper"
    r"|leader)\b",
    re.IGNORECASE,
)
# "small bakery in Gdynia", "nurse", and neither "marathons" nor "Crumb & Co" nor "accounting".
# "I work in a hospice" gives a place where others give a job.
_WORKPLACE = re.compile(
    r"(?:an? )?(?P<noun>(?:[a-z-]+ ){0,2}(?:shop|school|hospital|bakery|bar|pub|caf[eé]|restaurant"
    r"|factory|warehouse|library|lab|nursery|kindergarten|nursing home|care home|hospice|prison|church|cinema"
    r"|vineyard|dairy|shipyard|canteen|morgue|call cent(?:re|er)|garage|bank|museum|hotel|supermarket"
    r"|pharmacy|bookshop|university|college|clinic|zoo|theatre))"
)
_IS_ONE_THING = re.compile(
    r"(?!(?:an?|the|my|our|two|three)\b)(?:[a-z][\w'-]* )*[a-z][\w'-]*(?<!s)(?<!ing)"
    r"(?: (?:in|on|at|of|near|for|called|with)\b|$)"
)
_MINE = re.compile(r"\b(?:my|our)\b", re.IGNORECASE)
# What is known of others: of one, and of several.
_OF_OTHERS = {
    "name": ("is called", "are called"),
    "location": ("lives in", "live in"),
    "allergy": ("is allergic to", "are allergic to"),
}
_NUMBER = re.compile(r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|no|\d+)\b", re.IGNORECASE)
# One boss, bus or lens is not several.
_MANY = re.compile(
    r"(?:[^sui]s(?<!lens)(?<!gas)(?<!alias)(?<!atlas)(?<!canvas)(?<!christmas)(?<!bias)(?<!news)(?<!series)"
    r"(?<!maths)|children|people)$",
    re.IGNORECASE,
)
# "Mateo is allergic to cashews"
_CLAUSE = re.compile(r"^[A-Z][\w' -]{0,30} (?:is|are|has|have|likes?|lives?) ")
_YES_OR_NO = ("yes", "no", "true", "false")

# Questions that a model writes about its user.
_ABOUT_YOU = re.compile(
    r"(what|which|who|when|where|why|how)( [^?]+?)? (does|is|was|has) the user (.+)", re.IGNORECASE
)
_OF_YOURS = re.compile(
    r"(?:what|who|when|where) (?:is|are) the user['\u2019]s (.+?)( called| named)?", re.IGNORECASE
)
_YOU = {"does": "you", "is": "you are", "was": "you were", "has": "you have"}
_THE_USERS = re.compile(r"\bthe user['\u2019]s\b", re.IGNORECASE)
# What takes place on a day.
_EVENTS = frozenset(
    ("wedding", "exam", "interview", "appointment", "operation", "flight", "party", "concert", "meeting")
)
_THE_USER = re.compile(r"\bthe user\b", re.IGNORECASE)


def sentence(clause: str) -> str:
    """Return a clause with a capital letter."""
    return clause[:1].upper() + clause[1:]


def fact_clause(key: str, value: str) -> str:
    """Return what a fact says: "you live in Ulm", "your cats are called Tom and Jerry"."""
    return " ".join(filter(None, _parts(key, value)))


def ended_clause(key: str, value: str) -> str:
    """Return that a fact holds no longer: "you no longer live in Ulm"."""
    if known := _ended(key, value):
        return known
    subject, verb, rest = _parts(key, value)
    if not verb:
        return f"no longer {rest} ({subject.rstrip(':')})" if subject else f"no longer: {rest}"
    first, _, more = verb.partition(" ")
    verb = f"{first} no longer {more}" if first in ("is", "are") else f"no longer {verb}"
    return f"{subject} {verb.rstrip()} {rest}"


def _ended(key: str, value: str) -> str:
    """Return that somebody is gone, or a thing; "" for other facts."""
    who = key.removesuffix("_name").replace("_", " ")
    if key in _VEHICLES:
        thing = value if _DETERMINED.match(value) else f"{_article(value)} {value}"
        return f"you no longer have {thing}"
    if key == f"{who.replace(' ', '_')}_name" and definition("animal").fullmatch(who):
        return f"you no longer have {who if _MANY.search(who) else f'a {who}'} called {value}"
    return ""


def past_clause(key: str, value: str) -> str:
    """Return what a fact said that holds no longer: "you lived in Ulm"."""
    subject, verb, rest = _parts(key, value)
    first, _, more = verb.partition(" ")
    if first:
        regular = f"{first}d" if first.endswith("e") else f"{first}ed"
        verb = f"{_PAST.get(first, regular)} {more}".rstrip()
    return " ".join(filter(None, (subject, verb, rest)))


def is_clause(value: str) -> bool:
    """Return whether the value of a fact is a sentence about somebody: "Mateo is allergic to cashews"."""
    return _CLAUSE.search(value) is not None


def _parts(key: str, value: str) -> tuple[str, str, str]:
    """Return subject, verb and rest of what a fact says; without a verb, it is no sentence."""
    key, value = _SAME.get(key, key), value.strip()
    who, _, what = key.rpartition("_")
    if _GOES_ON.fullmatch(key):
        return "", "", f"{_owned(key)} {value}"
    if what == "condition" and (not who or relations_among(content_words(who))):
        return _conditions(who.replace("_", " "), value)
    if key == "community_role":
        return "you", "are", _listed([_role(one) for one in items_of(key, value)])
    if key == "job" and (place := _WORKPLACE.fullmatch(value)):
        return "you", "work in", f"{_article(place['noun'])} {place['noun']}"
    if key == "job" and _IS_ONE_THING.match(value):
        return "you", "work as", _role(value)
    if key in _VEHICLES and not _DETERMINED.match(value) and not value.endswith("s"):
        return f"your {key}", "is", f"{_article(value)} {value}"
    if told := _of_you(key, value):
        return "you", *told
    # Of the names of people, there is no number: "your children are Mia, Ben".
    is_named = key != "pets" and value[:1].isupper() and not _NUMBER.match(value)
    if key in _COUNTED and not is_named:
        return "you", "have", _counted(key, value)
    if is_clause(value):
        return "", "", value
    if value.casefold() in _YES_OR_NO or key in _LABELS:
        return f"{_owned(key)}:", "", value
    if what in _OF_OTHERS and who and (what == "name" or relations_among(content_words(who))):
        one, many = _OF_OTHERS[what]
        who = who.replace("_", " ")
        return f"your {who}", many if _MANY.search(who) else one, value
    if what == "age" and _NUMBER.match(value):
        return _age(who, value)
    be = "are" if _MANY.search(key) else "is"
    is_dated = what in _EVENTS and definition("day").match(value) is not None
    return f"your {_owned(key)}", f"{be} on" if is_dated else be, value


def _of_you(key: str, value: str) -> tuple[str, str] | None:
    """Return verb and rest of what a person is or does, for keys that are no nouns: "keep", "bees"."""
    if key in _OWN:
        # An instruction begins as a sentence does: "Always use metric units".
        value = value[:1].lower() + value[1:] if key == "instructions" else value
        if key == "runs" and _IS_ONE_THING.match(value):
            value = f"{_article(value)} {value}"
        if key == "employer" and _WORKPLACE.fullmatch(value) and not _DETERMINED.match(value):
            value = f"{_article(value)} {value}"
        return _OWN[key], value
    if key in ("trait", "marital_status") and value.isascii():
        is_noun = _IS_SOMEBODY.fullmatch(value) is not None
        return "are", f"{_article(value)} {value}" if is_noun and not _DETERMINED.match(value) else value
    if key == "employment" and _IS_EMPLOYED.fullmatch(value):
        return "are", value
    if key == "habit" and _IS_HABIT.match(value):
        return _MINE.sub("your", value), ""
    if key == "aid":
        return "use", f"{_article(value)} {value}" if _IS_ONE_THING.match(value) else value
    if key in _DRINKS and _TAKEN.match(value):
        return f"take your {key}", value
    if key == "member_of":
        groups = [_with_article(one) for one in items_of(key, value)]
        return "are a member of", _listed(groups)
    if key == "hobby" and _MINE.search(value) and definition("habit").match(value):
        verb, _, rest = value.partition(" ")
        return verb, _MINE.sub("your", rest)
    return _done(key, value)


def _done(key: str, value: str) -> tuple[str, str] | None:
    """Return verb and rest of what a person does by a key that is a verb: "volunteer at", "the hospice"."""
    verb = _verb_of(key)
    if not verb:
        return None
    is_lower = value == value.casefold()
    # "The hospice", but no "the jazz".
    is_at_one = verb.endswith((" at", " for", " with")) and is_lower and _IS_ONE_THING.match(value)
    return verb, f"the {value}" if is_at_one else value


def _with_article(group: str) -> str:
    """Return what somebody is a member of: "a choir in Leeds", "the Bach choir", "Rotary"."""
    if _IS_ONE_THING.match(group):
        return f"{_article(group)} {group}"
    return f"the {group}" if _GROUP.fullmatch(group) and not _DETERMINED.match(group) else group


def _verb_of(key: str) -> str:
    """Return the verb of a key in the third person, "volunteer at" of volunteers_at, "" for other keys."""
    first, *others = key.split("_")
    ending = "es" if first.endswith(("ches", "shes", "sses", "xes", "oes")) else "s"
    base = first.removesuffix(ending)
    is_verb = base in _VERBS or definition("habit").fullmatch(base) is not None
    return " ".join([base, *others]) if base != first and is_verb else ""


def _age(who: str, value: str) -> tuple[str, str, str]:
    years = value if "year" in value else f"{value} years old"
    if not who:
        return "you", "are", years
    is_relation = relations_among(content_words(who))
    be = "are" if is_relation and _MANY.search(who) else "is"
    return f"your {who.replace('_', ' ')}" if is_relation else who.title(), be, years


def _counted(key: str, value: str) -> str:
    """Return counted things as they are told: "two cats and a tortoise", "2 children"."""
    items = items_of(key, value, apart=True) or [value]
    told = []
    for item in items:
        number = _NUMBER.match(item)
        if number is None:
            told.append(item if _MANY.search(item) else f"{_article(item)} {item}")
        else:
            told.append(item if number.end() < len(item) else f"{item} {key}")
    if len(told) > 1 and is_total(items[0]):
        return f"{told[0]}, among them {_listed(told[1:])}"
    return _listed(told)


def _conditions(who: str, value: str) -> tuple[str, str, str]:
    """Return what a person is and has: "you are left-handed and have asthma", "your son is deaf"."""
    # A condition may have an "and" of its own, as in "irritable bowel syndrome and pain".
    items = items_of("condition", value)
    so = [item for item in items if _IS_SO.fullmatch(item) or _IS_ONE.fullmatch(item)]
    has = [item for item in items if item not in so]
    subject = f"your {who}" if who else "you"
    be, have = ("is", "has") if who and not _MANY.search(who) else ("are", "have")
    if not so:
        return subject, have, _listed(has) if has else value
    told = _listed([item if _IS_SO.fullmatch(item) else f"{_article(item)} {item}" for item in so])
    return subject, be, f"{told} and {have} {_listed(has)}" if has else told


def _role(value: str) -> str:
    """Return a role with its article: "the lead singer in a band", "captain of your team"."""
    value = _MINE.sub("your", value)
    if _ONLY_ONE.match(value):
        return f"the {value}"
    return value if _OFFICE.match(value) else f"{_article(value)} {value}"


def _listed(items: list[str]) -> str:
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def _owned(key: str) -> str:
    """Return the words of a key: "brother's job" of brother_job, "twin sons" of twin_sons."""
    words = key.split("_")
    for end in range(len(words), 0, -1):
        stems = content_words(" ".join(words[:end]))
        if stems and relation_of(stems[-1]):
            owner = " ".join(words[:end])
            rest = "" if end == len(words) else "' " if owner.endswith("s") else "'s "
            return f"{owner}{rest}{' '.join(words[end:])}"
    return " ".join(words)


def _article(noun: str) -> str:
    return "an" if noun[:1].casefold() in "aeiou" else "a"


# ---- what was learned


def asked_for(question: str) -> str:
    """Return what a question about the user asks for; "" for other questions.

    >>> asked_for("Which tea does the user like?")
    'which tea you like'
    """
    text = " ".join(question.split()).rstrip(" ?")
    if about := _ABOUT_YOU.fullmatch(text):
        word, what, verb, rest = about.groups()
        return f"{word.lower()}{what or ''} {_YOU[verb.lower()]} {_yours(rest)}"
    if not (owned := _OF_YOURS.fullmatch(text)):
        return ""
    thing, called = owned.groups()
    return f"what your {_yours(thing)} is{called}" if called else f"your {_yours(thing)}"


def _yours(text: str) -> str:
    return _THE_USER.sub("you", _THE_USERS.sub("your", text))


def learned_clause(item: LearnedItem) -> str:
    """Return what was learned or proposed: "you live in Paris", "which tea you like: Lapsang"."""
    if item.kind == "remembered":
        asked = asked_for(item.key)
        return f"{asked}: {item.value}" if asked else f"{item.key} {item.value}".strip()
    if item.kind == "ended" or not item.value:
        return ended_clause(item.key, item.before or item.value)
    return fact_clause(item.key, item.value)


def former_clause(item: LearnedItem) -> str:
    """Return what was known before it: "you live in Köln"; "" for nothing."""
    return "" if item.kind == "remembered" or not item.before else fact_clause(item.key, item.before)
