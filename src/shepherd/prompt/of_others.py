"""Questions that are about somebody else than the user, though a fact of the user's has their words."""

from __future__ import annotations

import re
from collections.abc import Collection

from shepherd.prompt.concepts import are_related, are_same, content_words, relations_among
from shepherd.prompt.fact_kinds import CALENDAR
from shepherd.prompt.fact_profiles import Profile

__all__ = ["MINE", "is_of_a_work", "is_of_somebody_else", "is_of_user", "relations_around"]

MINE = re.compile(r"\b(?:i|i'm|im|i've|my|me|mine|we|we're|our|ours|us)\b", re.IGNORECASE)
_TELL_ME = re.compile(r"\b(?:tell|give|show|send|remind|let) (?:me|us)\b", re.IGNORECASE)
# Whose something is, or who does something: not "they", who may be anybody.
_HIS = re.compile(
    r"\b(?:his|her|their)\s+\w"
    r"|\b(?:is|are|was|does|do|did|has|have|can|will|should)\s+s?he\b|\bs?he(?:'s)?\s+\w",
    re.IGNORECASE,
)
# "my boss has a cat", "Tom's cat"; but "I have a cat"
_OTHERS_HAVE = re.compile(
    r"\b(?:(?:his|her|their|your)|\w+['\u2019]s|(?:has|owns|keeps|['\u2019]s)(?: got)? an?)\s+(?P<whom>\w+)",
    re.IGNORECASE,
)
# "… in Doctor Who", "… in The Office"
_WORK = re.compile(
    r"(?<=\w )(?:in|from)"
    r" (?P<title>[A-Z][\w'\u2019-]*(?: (?:(?:of|the|and|to) )*[A-Z][\w'\u2019-]*)*)"
)


def relations_around(context: str) -> frozenset[str]:
    """Return the kinds of people and animals in what stands around a question, but not those of others."""
    of_others = [found["whom"] for found in _OTHERS_HAVE.finditer(context)]
    return relations_among(content_words(context)) - relations_among(content_words(" ".join(of_others)))


def is_of_user(text: str) -> bool:
    """Return whether a question names the user: "my dentist", but not "tell me his number"."""
    return MINE.search(_TELL_ME.sub("", text)) is not None


def is_of_somebody_else(one: Profile, text: str, words: Collection[str], around: Collection[str]) -> bool:
    """Return whether "his" or "she" stands for nobody whom a fact without a relation is about.

    `words` are the stems of the question, `around` those beside it. "My boss has toothache. What's the name
    of his dentist?" does not ask for the user's, and "My landlord rang. What's his number?" only for the
    landlord's.
    """
    if not _HIS.search(text) or is_of_user(text):
        return False
    owners = [key for key in one.attributes if not any(are_related(word, key) for word in words)]
    return not any(are_same(word, key) for word in around for key in owners)


def is_of_a_work(one: Profile, text: str) -> bool:
    """Return whether a question is about a film, a book or another place: "the doctor in Doctor Who"."""
    found = _WORK.search(CALENDAR.sub("", text))
    title = content_words(found["title"]) if found else []
    return bool(title) and not is_of_user(text) and one.value.isdisjoint(title)
