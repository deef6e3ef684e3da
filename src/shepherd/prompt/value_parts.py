"""Parts of values that a question asks for: a surname, the postcode of an address, an age."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timezone

from shepherd.prompt.addresses import postcode_in, town_in
from shepherd.prompt.concepts import content_words
from shepherd.prompt.fact_profiles import profile_of
from shepherd.prompt.phrases import in_question
from shepherd.types import Fact

__all__ = ["PartOfFact", "key_of", "parts_asked_for"]


@dataclass(frozen=True, slots=True)
class PartOfFact(Fact):
    """A part of the value of another fact, as a fact of its own; `whole` is the key of that one."""

    whole: str = field(default="", compare=False)


# ---- names

_TITLES = re.compile(
    r"^(?:(?:dr|mr|mrs|ms|miss|mx|prof|professor|sir|dame|rev|fr|sr)\b\.?\s+)+", re.IGNORECASE
)
_PARTICLES = r"(?:(?:de|da|di|du|del|dos|le|la|van|von|vom|zu|der|den|ter|ten|al|el|bin|ibn|st)\s+)*"
# More than two names may be a second first name or a second surname: such a name is told as a whole.
_FULL_NAME = re.compile(
    rf"(?P<first>[A-ZÀ-Þ][\w'\u2019-]*\.?)\s+(?P<last>{_PARTICLES}[A-ZÀ-Þ][\w'\u2019-]+)", re.IGNORECASE
)
_NAME_KEYS = ("name", "full_name", "real_name", "whole_name", "legal_name")

# ---- addresses

_ADDRESS = frozenset(content_words("address residence home"))
_AT = re.compile(r"[\w.+-]+@(?P<domain>[\w-]+(?:\.[\w-]+)+)")

# ---- ages

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<{}>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_BORN_ON = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?\s+{_MONTH.format('m1')},?\s+(?P<y1>(?:19|20)\d\d)"
    rf"|{_MONTH.format('m2')}\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<y2>(?:19|20)\d\d)"
    r"|(?P<y3>(?:19|20)\d\d)-(?P<m3>\d\d)-(?P<d3>\d\d))\b",
    re.IGNORECASE,
)
_BIRTH = frozenset(content_words("birthday birth born dob birthdate"))


def key_of(fact: Fact) -> str:
    """Return the key under which a fact is stored, for a part that of the whole."""
    return fact.whole if isinstance(fact, PartOfFact) else fact.key


def parts_asked_for(question: str, facts: Sequence[Fact]) -> list[PartOfFact]:
    """Return the parts of values that a question names; none that a fact of its own tells."""
    text = in_question(question)
    keys = {fact.key for fact in facts}
    found = []
    for asked, parts in _PARTS:
        if asked.search(text):
            found += [part for fact in facts for part in parts(fact) if part.key not in keys]
    return found


def _part(fact: Fact, key: str, value: str) -> PartOfFact:
    return PartOfFact(key, value, fact.created_at, fact.updated_at, fact.valid_from, whole=fact.key)


def _full_name(fact: Fact) -> tuple[str, re.Match[str]] | None:
    """Return whose name a fact has, "" for the user's and "wife_" for hers, and the name in two parts."""
    name = _FULL_NAME.fullmatch(_TITLES.sub("", fact.value.strip()))
    if name is None or not name["first"][0].isupper():
        return None
    if fact.key in _NAME_KEYS:
        return "", name
    who = re.sub(r"_(?:full_)?name$", "", fact.key)
    return (f"{who}_", name) if profile_of(fact).is_bare else None


def _surname(fact: Fact) -> Iterator[PartOfFact]:
    if found := _full_name(fact):
        yield _part(fact, f"{found[0]}surname", found[1]["last"])


def _first_name(fact: Fact) -> Iterator[PartOfFact]:
    if found := _full_name(fact):
        yield _part(fact, f"{found[0]}first_name", found[1]["first"])


def _initials(fact: Fact) -> Iterator[PartOfFact]:
    if found := _full_name(fact):
        letters = (word[0] for word in re.split(r"[\s-]+", found[1][0]) if word[0].isupper())
        yield _part(fact, f"{found[0]}initials", "".join(f"{letter}." for letter in letters))


def _postcode(fact: Fact) -> Iterator[PartOfFact]:
    if _is_address(fact) and (code := postcode_in(fact.value)):
        yield _part(fact, "postcode", code)


def _town(fact: Fact) -> Iterator[PartOfFact]:
    if _is_address(fact) and (town := town_in(fact.value)):
        yield _part(fact, "town", town)


def _is_address(fact: Fact) -> bool:
    one = profile_of(fact)
    return not one.relations and set(one.key) <= _ADDRESS and bool(one.key)


def _domain(fact: Fact) -> Iterator[PartOfFact]:
    if address := _AT.search(fact.value):
        yield _part(fact, f"{fact.key}_domain", address["domain"])


def _age(fact: Fact) -> Iterator[PartOfFact]:
    """Yield the age that a date of birth tells; a birthday without a year tells none."""
    one = profile_of(fact)
    born = _BORN_ON.search(fact.value)
    if born is None or _BIRTH.isdisjoint(one.key):
        return
    who = re.sub(r"_?(?:date_of_birth|birth_?(?:day|date)?|dob|born(?:_on)?)$", "", fact.key)
    years = _years_since(born)
    if years is not None and (not who or one.relations):
        yield _part(fact, f"{who}_age" if who else "age", str(years))


def _years_since(born: re.Match[str]) -> int | None:
    month = born["m1"] or born["m2"]
    number = _MONTHS.index(month.casefold()) + 1 if month else int(born["m3"])
    try:
        then = date(
            int(born["y1"] or born["y2"] or born["y3"]), number, int(born["d1"] or born["d2"] or born["d3"])
        )
    except ValueError:
        return None
    today = datetime.now(timezone.utc).astimezone().date()
    years = today.year - then.year - ((today.month, today.day) < (then.month, then.day))
    return years if years >= 0 else None


_PARTS: tuple[tuple[re.Pattern[str], Callable[[Fact], Iterator[PartOfFact]]], ...] = (
    (re.compile(r"\bsurname\b", re.IGNORECASE), _surname),
    (re.compile(r"\b(?:first|given|christian) name\b|\bforename\b", re.IGNORECASE), _first_name),
    (re.compile(r"\binitials\b", re.IGNORECASE), _initials),
    (re.compile(r"\bpostcode\b", re.IGNORECASE), _postcode),
    (re.compile(r"\b(?:town|city|village)\b", re.IGNORECASE), _town),
    (re.compile(r"\bdomain\b", re.IGNORECASE), _domain),
    (re.compile(r"\bhow old\b|\bage\b", re.IGNORECASE), _age),
)
