"""Words of a question that only say where or when.

They narrow down the fact that is asked for, but ask for nothing themselves.

"Who supervises my PhD?" asks for the supervisor, and "Which train do I take in the morning?" for the way to
work. Such a word stands behind a preposition, behind a verb, or in a clause with "when" or "if", and the fact
belongs to the same part of life: see `settings.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from shepherd.prompt.concepts import content_words, relation_of
from shepherd.prompt.fact_profiles import Profile

__all__ = ["is_at_another_time", "is_setting", "setting_of", "without_clause"]

_DETERMINER = r"(?:my|our|the|an?|this|that|any)"
# "… in the morning", "… for my doctorate"
_BEHIND = re.compile(
    rf"(?<=\w) (?:in|at|on|for|to|with|by|from|during|into|after|before|through|within)"
    rf" (?:{_DETERMINER} )?"
    r"(?P<words>[\w'\u2019-]+(?: (?!(?:in|at|on|for|to|with|by|from)\b)[\w'\u2019-]+){0,2})",
    re.IGNORECASE,
)
# "Who supervises my PhD?", "What subject am I doing my PhD in?"
_OBJECT = re.compile(
    rf"\b(?:who (?:is |are |was )?(?!(?:is|are|was|do|does|did)\b)\w+"
    rf"|(?:what|which) \w+ (?:do|did|am|are|was|have) (?:i|we) \w+) {_DETERMINER} (?P<words>[\w'\u2019-]+)",
    re.IGNORECASE,
)
_SUBJECT = r"(?:i|i['\u2019]?m|we|he|she|it|they|you|my|our|the|there|somebody|someone|something|nobody)"
_CLAUSE = re.compile(
    rf"(?<=\w),? (?:when(?:ever)?|if|once|while|in case) (?={_SUBJECT}\b)(?P<words>\S.*)", re.IGNORECASE
)
_PARTS_OF_DAY = {
    **dict.fromkeys(content_words("morning mornings breakfast"), "morning"),
    **dict.fromkeys(content_words("evening evenings night nights bedtime"), "evening"),
    **dict.fromkeys(content_words("afternoon afternoons"), "afternoon"),
}
_CLOCK = re.compile(r"\b(?P<hour>[01]?\d|2[0-4])(?:[:.]\d\d)?\s*(?P<half>[ap]\.?m\b)?", re.IGNORECASE)
_NOON, _EVENING = 12, 17  # o'clock


def setting_of(text: str) -> frozenset[str]:
    """Return the stems of the words of a question that say where or when."""
    found = [place["words"] for form in (_BEHIND, _OBJECT, _CLAUSE) for place in form.finditer(text)]
    return frozenset(word for words in found for word in content_words(words) if not relation_of(word))


def without_clause(text: str) -> str:
    """Return a question without its clause: "whom do we call" of "whom do we call when it is blocked"."""
    return _CLAUSE.sub("", text)


def is_setting(word: str, setting: frozenset[str], one: Profile) -> bool:
    """Return whether a word is part of a question's setting, and a fact belongs to that setting."""
    if word not in setting:
        return False
    if part := _PARTS_OF_DAY.get(word):
        told = _parts_of_day(one)
        return part in told or (
            not told and not _settings().get(word, frozenset()).isdisjoint(one.attributes)
        )
    return not _settings().get(word, frozenset()).isdisjoint(one.attributes)


def is_at_another_time(one: Profile, text: str) -> bool:
    """Return whether the key of a fact names another part of the day than a question: evening_pills."""
    asked, told = (_parts_among(words) for words in (content_words(text), one.key))
    return bool(asked and told) and asked.isdisjoint(told)


def _parts_among(words: Iterable[str]) -> set[str]:
    return {_PARTS_OF_DAY[word] for word in words if word in _PARTS_OF_DAY}


def _parts_of_day(one: Profile) -> set[str]:
    """Return the parts of the day that a fact names, by word or by the clock."""
    told = _parts_among((*one.key, *one.value))
    for time in _CLOCK.finditer(one.fact.value):
        if time["half"] or ":" in time[0] or "." in time[0]:
            hour = int(time["hour"]) % _NOON if time["half"] else int(time["hour"])
            hour += _NOON if (time["half"] or "").casefold().startswith("p") else 0
            told.add("morning" if hour < _NOON else "afternoon" if hour < _EVENING else "evening")
    return told


@cache
def _settings() -> Mapping[str, frozenset[str]]:
    """Return, for the stem of each setting, the stems of the words of keys that belong to it."""
    found: dict[str, set[str]] = {}
    for line in Path(__file__).with_name("settings.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            _, words, keys = (part.strip() for part in line.split("|"))
            for stem in content_words(words):
                found.setdefault(stem, set()).update(content_words(keys))
    return {stem: frozenset(keys) for stem, keys in found.items()}
