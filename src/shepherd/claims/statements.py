"""Assertions: what a message states about its writer, in so many words, as of now.

A sentence counts only if it is a statement in the first person that a frame begins. Questions, wishes,
suppositions, negations, the past, reported speech and other people's affairs state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from shepherd.claims.material import GAP, own_words
from shepherd.claims.wordings import Frame, alternatives, frames, rule
from shepherd.sentences import is_question, split_sentences

__all__ = ["Assertion", "assertions", "stating_sentences"]

# Longer messages are pasted material; what somebody says of themselves is short.
_LONGEST_MESSAGE = 4000
_LONGEST_SENTENCE = 400
# Words of a question that only asks for a yes: "isn't it?"
_LONGEST_TAG = 3
_EDGE = " \t\r\n\"'\u201c\u201d\u2018\u2019.,;:!?()[]{}*_~-\u2013\u2014"
_FIRST_PERSON = re.compile(r"(?:i|i'm|i've|we|we're)\b", re.IGNORECASE)
# Kinds whose wording has a negation of its own: "I don't eat meat".
_NEGATIVE = ("avoids", "dislikes")


@dataclass(frozen=True, slots=True)
class Assertion:
    """Something that the user states. `value` is the text that may hold the value of a fact.

    `topic` names the relation ("sister"), "" where the kind says it all. `ends`: it holds no longer.
    `changes`: the wording says that it is new. `is_weak`: it may mean something else ("I'm Steve").
    """

    kind: str
    topic: str
    value: str
    sentence: str
    changes: bool = False
    ends: bool = False
    is_weak: bool = False


def assertions(message: str) -> list[Assertion]:
    """Return what a message states about its writer, in its order; time is linear in the message."""
    if len(message) > _LONGEST_MESSAGE:
        return []
    found: list[Assertion] = []
    for sentence, asks in _sentences(own_words(message)):
        found += _stated(sentence, asks)
    return found


def stating_sentences(message: str) -> list[str]:
    """Return the sentences of the user's own words without questions, wishes, reports and negations."""
    if len(message) > _LONGEST_MESSAGE:
        return []
    return [
        sentence
        for sentence, asks in _sentences(own_words(message))
        if not asks
        and not rule("questions", begins=True).match(sentence)
        and not _is_unsure(sentence)
        and not rule("negations").search(sentence)
    ]


def _sentences(text: str) -> Iterator[tuple[str, bool]]:
    """Yield sentences, and whether each is marked as a question."""
    for piece in text.split(GAP):
        for sentence in split_sentences(piece):
            if len(sentence) <= _LONGEST_SENTENCE:
                yield sentence, is_question(sentence)


def _stated(sentence: str, asks: bool) -> list[Assertion]:
    found: list[Assertion] = []
    # Whether the clause before had the user as its subject: "I live in Ulm and work at …".
    inherits = has_begun = False
    end = 0
    for match in _clauses().finditer(sentence):
        before, end = sentence[:end], match.end()
        text = match["clause"].strip(_EDGE)
        filler = _fillers().match(text)
        text = text[filler.end() if filler else 0 :].lstrip(_EDGE)
        if not text:
            continue
        if rule("questions", begins=True).match(text):
            # "I am 34, is it too late?" states something, "I am 34, am I?" does not.
            return found if len(text.split()) > _LONGEST_TAG else []
        # Behind a wish, a report or a colon stands what is not meant, or said by somebody else.
        if _is_unsure(before) or (has_begun and before.rstrip().endswith(":")):
            break
        has_begun = True
        if inherits and rule("elliptic", begins=True).match(text):
            text = f"I {text}"
        inherits = _FIRST_PERSON.match(text) is not None
        found += _of_clause(text, sentence)
    return [] if asks else found


def _is_unsure(text: str) -> bool:
    return any(rule(name).search(text) for name in ("unreal", "reported"))


@cache
def _fillers() -> re.Pattern[str]:
    return re.compile(rf"(?:\W*(?<!\w){alternatives('fillers')}(?!\w)\W*)*", re.IGNORECASE)


@cache
def _clauses() -> re.Pattern[str]:
    """Return the pattern of a clause: up to a mark or a conjunction behind which a subject follows."""
    conjunction = alternatives("conjunctions")
    split = (
        rf"(?:\s*[;:\u2013\u2014()]\s*|\s+-\s+|\s*,\s*(?:{conjunction}\s+)?|\s+{conjunction}\s+)"
        rf"(?={alternatives('subjects')}(?!\w))"
    )
    return re.compile(rf"(?P<clause>(?:(?!{split}).)+)(?:{split})?", re.IGNORECASE | re.DOTALL)


def _of_clause(text: str, sentence: str) -> Iterator[Assertion]:
    matches = [(frame, match) for frame in frames() if (match := frame.pattern.match(text))]
    ends = [pair for pair in matches if pair[0].ends]
    states = [pair for pair in matches if not pair[0].ends]
    # "I moved from Bonn to Ulm" is no mere end.
    if any(frame.changes for frame, _ in states):
        ends = []
    found = _asserted_by(ends, text, sentence) or _asserted_by(states, text, sentence)
    # "My age is 40" has a frame of its own, and is no attribute of any name.
    plain = [assertion for assertion in found if assertion.kind != "attribute"]
    first = {assertion.kind: assertion for assertion in reversed(plain or found)}
    yield from reversed(first.values())


def _asserted_by(matches: Iterable[tuple[Frame, re.Match[str]]], text: str, sentence: str) -> list[Assertion]:
    found = (_asserted(frame, match, text, sentence) for frame, match in matches)
    return [assertion for assertion in found if assertion is not None]


def _asserted(frame: Frame, match: re.Match[str], text: str, sentence: str) -> Assertion | None:
    """Return what the frame finds in the clause; None where the clause takes it back or does not mean it."""
    lead, rest = match[0], text[match.end() :]
    stop = frame.stops.search(rest)
    value = (rest[: stop.start()] if stop else rest).strip(_EDGE)
    if not value or _is_unsure(lead) or _is_unsure(value):
        return None
    after = rest[rest.find(value) + len(value) :]
    if rule("unreal", begins=True).match(after) or rule("denied", begins=True).match(after):
        return None
    is_over = rule("over").search(text) is not None
    if frame.ends:
        # "I'm not a lawyer" ends nothing: nobody said that it was so.
        if rule("only not").search(lead) and not is_over:
            return None
        value = rule("over").sub("", value).strip(_EDGE)
    elif (
        is_over
        or rule("past").search(rest)
        or rule("undone").search(value)
        or rule("negations").search(value)
    ) or (rule("negations").search(lead) and frame.kind not in _NEGATIVE):
        return None
    topic = (match.groupdict().get("topic") or "").casefold()
    changes = frame.changes or rule("changes").search(text) is not None
    return (
        Assertion(frame.kind, topic, value, sentence, changes, frame.ends, frame.is_weak) if value else None
    )
