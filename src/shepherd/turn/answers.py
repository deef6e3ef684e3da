"""Answers put together without a model: facts, quotations, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from shepherd.prompt.concepts import content_words, relation_of, relations_among
from shepherd.prompt.questions import Question
from shepherd.turn.quotation import Quote
from shepherd.types import Fact

__all__ = ["Found", "joined"]

# What answers a question: a sentence, facts or a quotation; the question itself where nothing is known.
Found = str | tuple[Fact, ...] | Quote | Question

_UNKNOWN = "I don't know that."
# How facts are told; others as "Your KEY is VALUE".
_OWN = {
    "location": "You live in",
    "origin": "You are from",
    "employer": "You work at",
    "allergy": "You are allergic to",
    "language": "You speak",
    "learning": "You are learning",
    "likes": "You like",
    "dislikes": "You dislike",
    "prefers": "You prefer",
    "avoids": "You avoid",
    "uses": "You use",
    "plays": "You play",
    "instructions": "You want me to",
}
_COUNTED = ("children", "siblings", "pets")
# What is known of others: of one, and of several.
_OF_OTHERS = {
    "name": ("is called", "are called"),
    "location": ("lives in", "live in"),
    "allergy": ("is allergic to", "are allergic to"),
}
_PLURALS = ("s", "children")
_NUMBER = re.compile(r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|no|\d+)\b", re.IGNORECASE)
_MANY = re.compile(r"(?:[^sui]s|children|people)$", re.IGNORECASE)
# "Mateo is allergic to cashews"
_CLAUSE = re.compile(r"^[A-Z][\w' -]{0,30} (?:is|are|has|have|likes?|lives?) ")
_MOST_SENTENCES = 8
_MINE = re.compile(r"what(?:['\u2019]s| is| are) my (?P<thing>[^?,]+?)[\s?]*", re.IGNORECASE)
_I = re.compile(r"\b(?:i|me|my|we|our)\b", re.IGNORECASE)


def joined(found: Sequence[Found]) -> str:
    """Return one answer of what was found for each question; what is not known comes last."""
    known = [one for one in dict.fromkeys(found) if not isinstance(one, Question)]
    sentences: list[str] = []
    has_quoted = False
    for kind, group in groupby(known, _kind):
        same = list(group)
        if isinstance(same[0], Quote):
            sentences.append(
                _quoted([one for one in same if isinstance(one, Quote)], is_first=not has_quoted)
            )
            has_quoted = True
        elif kind == "facts":
            facts = {fact.key: fact.value for one in same if isinstance(one, tuple) for fact in one}
            sentences.append(_told(facts))
        else:
            sentences += [one for one in same if isinstance(one, str)]
    if not sentences:
        return _UNKNOWN
    open_ones = [one for one in found if isinstance(one, Question)]
    return " ".join([*sentences, *([_not_known(open_ones)] if open_ones else [])])


def _kind(one: Found) -> str:
    if isinstance(one, Quote):
        return f"{one.kind}:{one.title}"
    return "facts" if isinstance(one, tuple) else "sentence"


def _told(facts: Mapping[str, str]) -> str:
    """Return facts in sentences; many of them as a list."""
    if len(facts) > _MOST_SENTENCES:
        return f"I know this about you: {', '.join(f'{key} = {value}' for key, value in facts.items())}."
    return " ".join(f"{_sentence(key, value.strip())}" for key, value in facts.items())


def _sentence(key: str, value: str) -> str:
    """Return what a fact says: "You live in Ulm.", "Your cats are called Tom and Jerry."."""
    who, _, what = key.rpartition("_")
    if key in _OWN:
        # An instruction begins as a sentence does: "Always use metric units".
        value = value[:1].lower() + value[1:] if key == "instructions" else value
        said = f"{_OWN[key]} {value}"
    elif key in _COUNTED:
        is_counted = _NUMBER.match(value) is not None
        said = f"You have {value if is_counted else f'{_article(value)} {value}'}"
    elif _CLAUSE.search(value):
        said = f"You told me: {value}"
    elif what in _OF_OTHERS and who and (what == "name" or relations_among(content_words(who))):
        one, many = _OF_OTHERS[what]
        who = who.replace("_", " ")
        said = f"Your {who} {many if who.endswith(_PLURALS) else one} {value}"
    elif what == "age" and _NUMBER.match(value):
        whom = (
            f"Your {who.replace('_', ' ')} is" if relations_among(content_words(who)) else f"{who.title()} is"
        )
        said = f"{whom if who else 'You are'} {value if 'year' in value else f'{value} years old'}"
    else:
        said = f"Your {_owned(key)} {'are' if _MANY.search(key) else 'is'} {value}"
    return said if said.endswith((".", "!", "?")) else f"{said}."


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


def _quoted(quotes: Sequence[Quote], *, is_first: bool) -> str:
    """Return quotations of one source; the first of an answer says if they may answer something else."""
    once = list(dict.fromkeys(one.sentence for one in quotes))
    sentences = " and ".join(f'"{sentence}"' for sentence in once)
    if quotes[0].kind == "document":
        said = f'your document "{quotes[0].title}" says: {" ".join(once)}'
    elif quotes[0].kind == "stored":
        said = f"I have this stored: {sentences}"
    else:
        said = f"you told me earlier: {sentences}"
    is_doubtful = is_first and not all(one.is_sure for one in quotes)
    return f"I don't know for sure, but {said}" if is_doubtful else f"{said[0].upper()}{said[1:]}"


def _not_known(questions: Sequence[Question]) -> str:
    """Return a sentence about questions that stay open: "I don't know your shoe size."."""
    things, asked = [], []
    for question in questions:
        mine = _MINE.fullmatch(question.text)
        if mine and not _I.search(mine["thing"]):
            things.append(f"your {mine['thing']}")
        else:
            asked.append(f'"{question.text[:1].upper()}{question.text[1:]}"')
    if not asked:
        return f"I don't know {' or '.join(things)}."
    things.append(f"the answer to {' or '.join(asked)}")
    return f"I don't know {' or '.join(things)}"
