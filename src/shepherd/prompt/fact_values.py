"""Values of facts that tell more than their keys: one of two, a whole name, what somebody does not eat."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shepherd.prompt.concepts import are_same, content_words, is_kind_of, relation_of
from shepherd.prompt.fact_profiles import NUMERALS, Profile

__all__ = [
    "agrees",
    "alternatives_in",
    "goes_on",
    "is_activity",
    "is_another",
    "is_beyond",
    "is_diet",
    "is_number",
    "is_study",
    "whole",
    "without_animals",
]

# "my second supervisor" is not the supervisor.
_QUALIFIER = re.compile(
    r"\b(first(?! (?:child|son|daughter|class|language|tongue|thing|aid|school))|1st|second"
    r"|2nd|third|3rd|fourth|4th|fifth|5th|deputy|backup|back-up|reserve|substitute|stand-in)\b"
    r"(?= (?!(?:name|half|hand|of|time)\b)[a-z])",
    re.IGNORECASE,
)
_ORDINALS = {"1st": "first", "2nd": "second", "3rd": "third", "4th": "fourth", "5th": "fifth"}
_SURNAME = re.compile(r"\b(?:surname|(?:last|family|second) name)\b", re.IGNORECASE)
_TWO_NAMES = re.compile(
    r"[A-ZÀ-Þ][\w.'\u2019-]*\s+(?:(?:de|da|van|von|der|den|la|al|bin)\s+)*[A-ZÀ-Þ][\w'\u2019-]+"
)
_DOSE = re.compile(r"\b(?:dose|dosage)\b", re.IGNORECASE)
_EITHER_OR = re.compile(
    r"(?<![\w-])-*(\w[\w-]*),? or (?:(?:an?|the|is it|are they)\s+)?([\w-]+)\b", re.IGNORECASE
)
_YES_OR_NO = re.compile(r"\W*(?:and |so )?(?:is|are|am|do|does|did|have|has)\b", re.IGNORECASE)
_OPPOSITES = tuple(
    frozenset(content_words(words))
    for words in (
        "petrol diesel electric hybrid",
        "manual automatic",
        "married single divorced widowed engaged",
        "vegan vegetarian pescatarian omnivore",
    )
)
_ENDS_WITH = re.compile(r"\b(in|of|on|about|for|at)\W*$", re.IGNORECASE)
_FEW_BETWEEN = r"(?:\W+\w+){0,2}?\W+"
# What a diet may leave out, and diets that do.
_FROM_ANIMALS = frozenset(
    content_words("meat beef pork bacon ham lamb chicken fish dairy cheese milk egg eggs gluten")
)
_DIET = re.compile(
    r"vegan|veg(?:etari|gie)|pescat|halal|kosher|plant|meat|dairy|gluten|omnivor", re.IGNORECASE
)
_HOBBY = tuple(content_words("hobby"))
# What people do for one.
_DOING = frozenset(content_words("build make play practise collect spend enjoy do"))
_STUDIES = frozenset(content_words("study studying degree course subject"))
_TAUGHT = frozenset(content_words("subject teach taught"))
_TEACHER = re.compile(
    r"\b(?!\w*-time\b)[a-z]+ (?:teacher|lecturer|professor|tutor)\b"
    r"|\b(?:teacher|lecturer|professor) (?:of|in) \w",
    re.IGNORECASE,
)
_STUDENT = re.compile(r"\bstudent (?:of|in) \w|\w+ student\b", re.IGNORECASE)
_I_EAT = re.compile(
    r"\b(?:i|we) (?:\w+ )?eat\b|\banimals? (?:do|did|am|are) (?:i|we) (?!have\b|own\b|keep\b|feed\b)",
    re.IGNORECASE,
)
_SHORT = re.compile(
    r"\W*(?!(?:my|our|your|the|a|an)\b)(\w[\w'\u2019-]*(?: [\w'\u2019-]+){0,3}),? (?:pls|plz|please)\W*",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(?:is|are|was|do|does|tell|give|show|remind|say|help|stop|go|can|could|what|who|where|when|which|how|yes|no|thanks"
    r"|make|write|list|read|repeat|forget|remember|continue|try|explain|translate|summari[sz]e|draw|play|call|send|open)\b",
    re.IGNORECASE,
)
_FOR = re.compile(
    r"\b(?:take|do|use|need|have|get|eat|pay|wear|paid) for (?:my|our|the) ([\w-]+)", re.IGNORECASE
)
_MONTH = re.compile(r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b", re.IGNORECASE)
# Of which nobody is two: the youngest is not the eldest.
_APART = tuple(
    frozenset(group.split())
    for group in (
        "eldest youngest",
        "sister brother",
        "son daughter",
        "boy girl",
        "mother father",
        "wife husband girlfriend boyfriend",
        "godparent godchild",
        "grandmother grandfather",
        "grandson granddaughter",
        "dog cat horse bird rabbit hamster snake tortoise fish hen goat sheep cow ferret donkey pig duck"
        " lizard",
    )
)
# Relatives and their counterparts, which have one word for both.
_SEXES = (
    ("godson", "goddaughter"),
    ("godfather", "godmother"),
    ("stepson", "stepdaughter"),
    ("stepfather stepdad", "stepmother stepmum stepmom"),
    ("grandson", "granddaughter"),
    ("grandfather grandpa grandad granddad", "grandmother grandma granny nan nana gran"),
    ("uncle", "aunt auntie"),
    ("nephew", "niece"),
)
_OF_ANOTHER_SEX = tuple(
    (frozenset(one.split()), frozenset(other.split())) for pair in _SEXES for one, other in (pair, pair[::-1])
)
_NAME_OF = re.compile(r"^\W*(?:the )?names? of(?= (?:my|our|the)\b)", re.IGNORECASE)
_NUMBERED = re.compile(
    rf"\b(my|our|the) (?:{NUMERALS}|\d{{1,2}})(?= ([a-z]+)|\W*$)",
    re.IGNORECASE,
)
_VERBS = frozenset(("is", "are", "was", "lives", "live", "works", "work", "has", "does"))


def agrees(text: str, key: str, value: str) -> bool:
    """Return whether a fact has what a question asks of a name or a dose, and tells of the same one.

    A first name alone is no surname, and the supervisor is not the second supervisor.
    """
    words = set(re.findall(r"[^\W_]+", f"{key} {value}".replace("-", "").casefold()))
    asked = (_ORDINALS.get(one.casefold(), one.casefold()) for one in _QUALIFIER.findall(text))
    told = {_ORDINALS.get(word, word) for word in words}
    if any(one.replace("-", "") not in told for one in asked):
        return False
    in_text = set(re.findall(r"[a-z]+", text.casefold().replace("-", "")))
    if any(one & in_text and other & words and not one & words for one, other in _OF_ANOTHER_SEX):
        return False
    if _SURNAME.search(text) and not words & {"surname", "last", "family"} and not _TWO_NAMES.search(value):
        return False
    return not _DOSE.search(text) or any(map(str.isdigit, value))


def alternatives_in(text: str) -> frozenset[str]:
    """Return the stems of "petrol or diesel" in a question, or those of "diesel" in "Is it a diesel?"."""
    found = {word for pair in _EITHER_OR.findall(text) for one in pair for word in content_words(one)}
    if _YES_OR_NO.match(text):
        words = set(content_words(text))
        found = found.union(*(group for group in _OPPOSITES if words & group))
    return frozenset(found)


def goes_on(text: str, value: str) -> bool:
    """Return whether a value tells in what, or of what: "PhD student in soil biology" for "my PhD in"."""
    ends = _ENDS_WITH.search(text)
    words = re.findall(r"\w+", text)
    return ends is not None and any(
        re.search(rf"\b{re.escape(word)}{_FEW_BETWEEN}{ends[1]} \w", value, re.IGNORECASE)
        for word in words[:-1]
        if content_words(word)
    )


def is_another(relation: str, told: frozenset[str]) -> bool:
    """Return whether others are told of than this relation: a brother where the sister is asked for."""
    return relation not in told and any(relation in group and not group.isdisjoint(told) for group in _APART)


def is_beyond(one: Profile, text: str) -> bool:
    """Return whether something for a thing is asked for: "What do I take for my allergy?".

    "Which pill do I take for my blood pressure?" names the pill of blood_pressure_pill itself.
    """
    found = _FOR.search(text)
    if found is None:
        return False
    words, others = content_words(found[1]), content_words(text[: found.start()])
    rest = [key for key in one.attributes if not any(are_same(word, key) for word in words)]
    is_named = any(are_same(word, key) for word in others for key in rest)
    return len(rest) < len(one.attributes) and not is_named


def is_number(value: str) -> bool:
    """Return whether a value is a number in the main, with a name or a sign: "P44", "Yusuf, 07700 900417"."""
    digits = sum(map(str.isdigit, value))
    return digits > 1 and digits > sum(map(str.isalpha, value)) and not _MONTH.search(value)


def is_diet(word: str, one: Profile) -> bool:
    """Return whether a fact about the diet tells whether somebody eats this."""
    is_about_food = any(are_same(key, "diet") for key in one.attributes)
    return is_about_food and word in _FROM_ANIMALS and _DIET.search(one.fact.value) is not None


def is_activity(word: str, one: Profile) -> bool:
    """Return whether a word only says that somebody follows a hobby: "engines that I build"."""
    return word in _DOING and any(are_same(key, hobby) for key in one.attributes for hobby in _HOBBY)


def is_study(word: str, value: str) -> bool:
    """Return whether a value tells what somebody studies or teaches: "PhD student in biology"."""
    return (word in _STUDIES and _STUDENT.search(value) is not None) or (
        word in _TAUGHT and _TEACHER.search(value) is not None
    )


def without_animals(relations: frozenset[str], text: str) -> frozenset[str]:
    """Return relations without the animals that somebody eats or studies: "Do I eat fish?" asks of no pet."""
    if not _I_EAT.search(text):
        return relations
    return frozenset(one for one in relations if not is_kind_of(one, "pet"))


def whole(text: str) -> str:
    """Return a question that is cut short as a whole one, and without the number of children.

    It is "my boss's name" for "boss's name pls", and "the youngest of my kids" for "… of my three kids".
    """
    short = _SHORT.fullmatch(text)
    if short and not _VERB.search(short[1]):
        text = f"my {short[1]}"
    return _without_numbers(_NAME_OF.sub("what is the name of", text))


def _without_numbers(text: str) -> str:
    """Return a text with "my kids" for "my three kids", and "… of my children" for "… of my three"."""
    return _NUMBERED.sub(_unnumbered, text)


def _unnumbered(found: re.Match[str]) -> str:
    word = found[2] or ""
    if found[1].casefold() != "the" and (not word or word.casefold() in _VERBS):
        return f"{found[1]} children"
    return found[1] if _names_somebody(content_words(word)) else found[0]


def _names_somebody(words: Iterable[str]) -> bool:
    return any((relation := relation_of(word)) and not is_kind_of(relation, "pet") for word in words)
