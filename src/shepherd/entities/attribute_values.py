"""Whether words are a value of an attribute: an age, a title, a date, a department, a hobby.

"Anna's birthday is next week" has the form of "Anna's birthday is 3 May". A value is noted only if its words
can be one: what is noted by mistake stands in every later prompt.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from shepherd.claims.roles import is_judged, trade_in
from shepherd.entities.lexicon import (
    DEPARTMENTS,
    HONORIFICS,
    KINDS,
    ROLES,
    SORTS,
    is_occupation,
    singular_role,
)

__all__ = ["age_in", "is_behind_preposition", "is_subject", "sort_in", "title_in", "value_in"]

# A bare whole number: 1.70 m, 5,5 km, 10/10, 18:30, 80%, 3rd and 20 minutes are no ages.
_AGE = re.compile(
    r"\s+(?:is\s+(?:(?:now|already|only|just)\s+)?|(?:has\s+)?(?:just\s+)?(?P<turned>turned)\s+)"
    r"(?P<age>[1-9]\d?|1[01]\d|120)"
    r"(?:\s+years?\s+(?:old\b|of\s+age\b)(?!\s+(?:in|on)\s+(?:th(?:is|at|e)|my|our)\b)"
    r"|(?=\s*(?:\Z|[!;\n]|\.(?!\d|\s+[a-z])|,(?!\s*\d))"
    r"|\s+(?:but|so|now|today|already|and(?!\s+(?:an?\s+(?:half|quarter|bit)\b|\d)))\b)"
    r"|(?(turned)(?=\s+(?:in|on|last|this|yesterday|recently|earlier|a\s+(?:few|couple|week|month))\b)|(?!)))"
)
# What stands before a subject in its clause, besides what says whose or which it is.
_LEADS = re.compile(
    r"(?:(?:and|but|so|because|since|while|that|well|yes|yeah|no|oh|okay|ok|also|actually|today|now|btw|by\s+the\s+way"
    r"|(?:i|we|you|he|she|they)\s+(?:also\s+)?(?:know|knew|hear|heard|remember|mean|mentioned|said|told\s+(?:you|me|us))"
    r"|(?:please\s+)?(?:remember|note)|(?:this|that)\s+is)\b[\s,]*)*",
    re.IGNORECASE,
)
_PREPOSITION = (
    r"(?:of|for|to|with|from|in|at|by|about|near|behind|beside|next|than|like|on|under|without|between|before"
    r"|after)"
)
_BEHIND_PREPOSITION = re.compile(
    rf"\b{_PREPOSITION}\s+(?:(?:my|our|your|his|her|their|the)\s+)?\Z", re.IGNORECASE
)
_WHOSE = re.compile(
    rf"(?:my|our|your|his|her|their|its|the|[\w.-]+(?:\s+[\w.-]+)?['\u2019]s?)\s+"
    rf"(?:(?!{_PREPOSITION}\b)[\w'\u2019-]+\s+){{0,3}}?(?P<role>[\w-]+),?\s*",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"[,;:!?()\n\u2013\u2014]|\.(?=\s)|\b(?:and|but|because|so|while|since|that|as|or|whereas)\b",
    re.IGNORECASE,
)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|turned|likes?|loves?|lives?|works?|plays?|moved|married|met|'s|'m|am)\b",
    re.IGNORECASE,
)
_LONGEST_BEFORE = 200

_FORMER = r"(?:former|ex)\b"
_IS_A = re.compile(
    rf"(?:\s*,\s*|\s+is\s+(?:now\s+|also\s+)?|(?P<works>\s+works\s+as\s+))(?:a|an)\s+(?!{_FORMER}|(?:team|group|pair|couple)\b)"
    r"([a-z][\w]*(?:[ -][a-z]\w*){0,3}?)"
    r"(?!\s+(?:at\s+heart|in\s+the\s+making|in\s+(?:my|our)\s+eyes)\b)"
    r"(?=\s*(?:[,.;!\n]|\Z)|\s+(?:at|in|for|from|who|and|with|but|of|that|now|by\s+(?:trade|profession|training))\b)"
)

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:the\s+)?(?:[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|\.)?"
_YEAR = r"(?:,?\s+(?:of\s+|in\s+)?\d{4}\b)?"
_DATE = re.compile(
    rf"(?:on\s+|in\s+)?((?:{_DAY}\s+(?:of\s+)?{_MONTH}|{_MONTH}\s+{_DAY}(?!\d)){_YEAR}"
    rf"|{_MONTH}(?:\s+\d{{4}}\b)?(?=\s*(?:[,.;!\n]|\Z)|\s+(?:and|but|so)\b)"
    r"|\d{4}-\d\d?-\d\d?|\d\d?[./-]\d\d?(?:[./-](?:\d{4}|\d\d))?(?!\d)"
    r"|(?:christmas|new\s+year['\u2019]?s|boxing|valentine['\u2019]?s|leap)\s+(?:day|eve)\b)",
    re.IGNORECASE,
)
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PHONE = re.compile(
    r"\+?\d[\d\s()/-]{4,18}\d(?![\w.,]*\d|\s*[€$£%]|\s*(?:euro|dollar|pound|buck|franc|year|month|week|day|hour|minute)\w*)"
)
_VALUE = re.compile(r"(?:[^.;!?\n]|\.(?=\w)){1,80}")
# Behind these a sentence says something else.
_GOES_ON = re.compile(
    r"\s*(?:,\s*(?:and|but|so|which|who|because|since|although|(?:i|we|he|she|it|they)\s+\w+)|\s(?:but|because|although|which|since|and\s+(?:i|we|he|she|it|they|his"
    r"|her|my|our|their))\b).*",
    re.IGNORECASE | re.DOTALL,
)
# A street is named or numbered: "12 Elm Street", "Rose Cottage, Bath", neither "still unknown" nor "Wrong I
# think".
_PLACE = re.compile(
    r"(?:(?:c/o|the)\s+)?(?=\d|[^\W\d_a-z])(?:(?=[^\n]*\d)[^\n]*(?<!\w)[A-ZÀ-ÖØ-Þ]\w"
    r"|[^\n]*?(?<!\w)[A-ZÀ-ÖØ-Þ]\w[^\n]*(?<!\w)[A-ZÀ-ÖØ-Þ]\w"
    r"|[^\n]*(?:\b(?:street|st|road|rd|avenue|ave|lane|drive|square|close|way|court|place)\b|straße|strasse|platz|weg\b))"
)
# Words that begin a remark and no value; with a capital they begin a name: Lost, It, Bad Religion.
_REMARK = re.compile(
    r"(?:an?|the\s+(?:same|one|best|worst|reason|only)|not|no|none|never|still|always|often|usually|sometimes|now|just|only|soon|today"
    r"|tomorrow|yesterday|next|last|this|that|in|on|at|to|for|from|with|about|under|over|out|up|down|off|near|here|there|where|what"
    r"|when|how|why|who|if|my|your|his|her|our|their|its|mine|yours|i|we|you|he|she|it|they|me|us|him|them|so|too|very|really|quite|rather|pretty"
    r"|more|less|as|almost|nearly|probably|maybe|perhaps|also|already|again|all|any|some|nothing|something|anything|everything"
    r"|being|getting|going|becoming|coming|taking|making|having|turning|causing|keeping|killing|driving\s+\w+\s+(?:mad|crazy|nuts)"
    r"|known|unknown|wrong|right|correct|incorrect|missing|secret|private|confidential|gone|lost|over|done|due|available"
    r"|hard|easy|difficult|boring|expensive|cheap|fun|funny|great|good|bad|better|best|worse|worst|nice|fine|okay|ok|cool|weird"
    r"|strange|odd|new|old|long|short|big|small|safe|tough|tiring|exhausting|relaxing|exciting|interesting|demanding|rewarding"
    r"|amazing|annoying|challenging|frustrating|disappointing|embarrassing|surprising|confusing|well|ill|sick|dead|empty|full|closed"
    r"|open|shut|stuck|broken|stolen|sold|misspelled|misspelt|hidden|torn|worn|ruined|ready|important|similar|different|unusual|rare|common"
    r"|mess|mystery|joke|disaster|impressive|massive|awful|horrible|terrible|lovely|crazy|silly|stupid|unclear|pending|tbd|tba|n/a)\b"
    r"|(?:(?!family|jelly|lily|butterfly)\w+ly|\w+(?:ful|less|ible|ous|sive|tive)|(?!vegetable)\w{3,}able"
    r"|(?!hundred|sacred)\w{2,}[^\We]ed)(?=\s*\Z|\s+(?:at|in|on|by|for|to|and|from|with|of|than|again|now|right|today)\b)"
    r"|(?i:not|no|n/a|tb[acd]|unknown|none)\b"
)
_RIGHT_NOW = re.compile(
    r"\b(?:right\s+now|at\s+the\s+moment|today|tomorrow|tonight|soon|again|any\s?more|these\s+days|as\s+well|too|unknown|no\s+longer)\s*\Z",
    re.IGNORECASE,
)
_DOING = re.compile(r"\w{2,}ing\b", re.IGNORECASE)
# "Running out": what it does, and not "sparkling water".
_DOING_SO = re.compile(
    r"\w{2,}ing\s+(?:out|off|up|down|low|away|late|over|cold|on|in|at|to|for|with|by|me|him|her|us|them|an?|the|its)\b",
    re.IGNORECASE,
)
_OF_DOING = frozenset(
    ("activity", "hobby", "pastime", "sport", "exercise", "subject", "thing", "chore", "workout", "game")
)
# What does nothing itself: "my favourite food is pudding".
_OF_THINGS = frozenset(
    (
        "food", "drink", "dish", "dessert", "pudding", "meal", "snack", "breakfast", "lunch", "dinner",
        "cake", "season", "colour", "color", "fruit", "vegetable", "cheese", "sauce", "spice", "flavour",
        "flavor", "animal", "bird", "fish", "flower", "tree", "toy",
    )
)  # fmt: skip
_AN = re.compile(r"an?\s+(?=\w)", re.IGNORECASE)


def is_subject(text: str, start: int) -> bool:
    """Return whether the name at `start` begins its clause: not in "Room for Anna is 12"."""
    begin = max(start - _LONGEST_BEFORE, 0)
    before = text[begin:start]
    clause = 0
    for mark in _CLAUSE.finditer(before):
        # "Anna and Bob" is no end of a clause, "Anna is 3 and Bob" is.
        if not mark[0].isalpha() or _FINITE.search(before, clause, mark.start()):
            clause = mark.end()
    said = before[clause:].strip()
    rest = said[lead.end() :] if (lead := _LEADS.match(f"{said} ".lstrip())) else said
    if not rest.strip():
        return True
    whose = _WHOSE.fullmatch(rest.strip())
    role = "" if whose is None else whose["role"].casefold()
    return role in ROLES or role in KINDS or singular_role(role) != ""


def is_behind_preposition(text: str, start: int) -> bool:
    """Return whether a preposition stands before the name at `start`, as in "the parents of Anna"."""
    return _BEHIND_PREPOSITION.search(text[max(start - _LONGEST_BEFORE, 0) : start]) is not None


def age_in(text: str, end: int) -> str:
    """Return the age that stands behind a name that ends at `end`, "" if there is none."""
    match = _AGE.match(text, end)
    return "" if match is None else match["age"]


def title_in(text: str, end: int) -> str:
    """Return what somebody is by work, rank or training, such as "dentist" behind "Anna is a", or ""."""
    match = _IS_A.match(text, end)
    if match is None:
        return ""
    # "A good cook" and "a keen gardener" are no cook and no gardener by trade, "a proud nurse" is a nurse.
    role = trade_in(match[2])
    return role if match["works"] or _is_title(role) else ""


def sort_in(text: str, end: int) -> str:
    """Return what sort of thing something is, such as "software company" behind "Acme is a", or ""."""
    match = _IS_A.match(text, end)
    if match is None or is_judged(match[2]):
        return ""
    sort = trade_in(match[2])
    words = sort.casefold().split()
    known = (words[-1], "-".join(words[-2:]))
    return sort if any(one in SORTS for one in known) or is_occupation(words[-1]) else ""


def value_in(name: str, text: str, start: int) -> str:
    """Return the value of an attribute that begins at `start` of a text, "" if its words are none."""
    if name in ("email", "phone"):
        match = (_EMAIL if name == "email" else _PHONE).match(text, start)
        return "" if match is None else match[0]
    if name == "birthday":
        match = _DATE.match(text, start)
        return "" if match is None else match[1].rstrip(".")
    match = _VALUE.match(text, start)
    if match is None:
        return ""
    value = _GOES_ON.sub("", match[0]).strip()
    is_value = _CHECKS.get(name) or _check_of_favourite(name)
    # "Her favourite animal is a horse"
    said = _AN.sub("", value, count=1) if name.startswith("favorite ") and _AN.match(value) else value
    return value if _REMARK.match(said) is None and is_value(said) else ""


def _is_title(value: str) -> bool:
    """Return whether the head of a noun phrase is an occupation: head of sales, primary school teacher."""
    head = re.split(r"\s+(?:of|for|in|at|to)\s+|\s*,\s*", value, maxsplit=1)[0]
    words = re.findall(r"[\w&-]+", head.casefold())
    if not words or is_judged(value):
        return False
    return is_occupation(words[-1]) or is_occupation(words[-1].rpartition("-")[2]) or words[-1] in HONORIFICS


def _is_department(value: str) -> bool:
    words = [
        word for word in re.findall(r"[\w&]+", value.casefold()) if word not in ("and", "the", "department")
    ]
    return value[:1].isupper() or (
        bool(words) and words[-1] in DEPARTMENTS | {"resources", "service", "services"}
    )


def _is_address(value: str) -> bool:
    return _PLACE.match(value) is not None


def _check_of_favourite(name: str) -> Callable[[str], bool]:
    """Return a check for a hobby or a favourite: "playing chess" is one, "playing right now" is not."""
    noun = name.rsplit(" ", 1)[-1]
    may_be_doing = noun in _OF_DOING

    def is_thing(value: str) -> bool:
        if _RIGHT_NOW.search(value):
            return False
        if noun in _OF_THINGS:
            return _DOING_SO.match(value) is None
        return may_be_doing or not _DOING.match(value) or value[:1].isupper()

    return is_thing


_CHECKS: dict[str, Callable[[str], bool]] = {
    "title": _is_title,
    "department": _is_department,
    "address": _is_address,
}
