"""Facts that a text states about its entities: relations and a few attributes, found by plain patterns.

Only explicit statements count; nothing is inferred. Questions and suppositions state nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from shepherd.claims.wordings import rule
from shepherd.entities.attribute_values import (
    age_in,
    is_behind_preposition,
    is_subject,
    sort_in,
    title_in,
    value_in,
)
from shepherd.entities.mentions import Spot
from shepherd.entities.records import EntityType, Resolved
from shepherd.entities.state import State
from shepherd.sentences import is_question, sentence_spans

__all__ = ["note_facts"]

# Of a pronoun: statements about "it" mostly mean something else.
_LEAST_CONFIDENCE = 0.6
_LONGEST_BETWEEN = 60
_NOW = r"(?:now\s+|still\s+|currently\s+)?"
_JOB = r"(?!(?:former|ex)\b)[\w\s-]{2,30}"
# Text between two entities, the relation that it states, and the types that follow.
_STATEMENTS: tuple[tuple[str, str, EntityType, EntityType], ...] = (
    (rf"{_NOW}(?:(?:(?:is|are)\s+)?working|works?)\s+(?:at|for)", "works at", "person", "organization"),
    (r"worked\s+(?:at|for)", "worked at", "person", "organization"),
    (rf"is\s+{_NOW}(?:a|an|the)\s+{_JOB}\s+(?:at|for)", "works at", "person", "organization"),
    (rf"was\s+(?:a|an|the)\s+{_JOB}\s+(?:at|for)", "worked at", "person", "organization"),
    (rf"{_NOW}(?:(?:(?:is|are)\s+)?living|lives?)\s+in", "lives in", "person", "location"),
    (r"lived\s+in", "lived in", "person", "location"),
    (r"(?:(?:has|have)\s+)?(?:just\s+|recently\s+)?moved\s+to", "lives in", "person", "location"),
    (rf"(?:is|are)\s+{_NOW}(?:based|located)\s+in", "located in", "unknown", "location"),
    (r"(?:is|are|was|were|comes?)\s+from", "from", "unknown", "location"),
    (r"(?:is|got)\s+married\s+to", "married to", "person", "person"),
    (r"married", "married to", "person", "person"),
    (r"reports?\s+to", "reports to", "person", "person"),
    (r"(?:manages?|leads?|runs?)", "leads", "person", "unknown"),
    (r"founded", "founded", "person", "organization"),
    (r"owns?", "owns", "unknown", "unknown"),
    (r"(?:(?:is|are)\s+studying|stud(?:ies|y))\s+at", "studies at", "person", "organization"),
    (r"studied\s+at", "studied at", "person", "organization"),
    (r"teach(?:es)?\s+at", "teaches at", "person", "organization"),
    (r"(?:wrote|is\s+the\s+author\s+of)", "author of", "person", "unknown"),
    (r"(?:is|are)\s+(?:a\s+)?part\s+of", "part of", "unknown", "unknown"),
    (r"knows?", "knows", "person", "person"),
)
# Text between two entities that ends a relation.
_NO_MORE = (
    r"(?:(?:is|was|are|does|did|do|has)\s*)?(?:n['\u2019]t|not|no\s+longer|never|stopped|quit|used\s+to)\s+"
    r"(?:currently\s+|be\s+|been\s+)?"
)
_ENDINGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (rf"{_NO_MORE}work(?:s|ing)?\s+(?:at|for)", ("works at",)),
    (rf"{_NO_MORE}(?:a|an|the)\s+{_JOB}\s+(?:at|for)", ("works at",)),
    (rf"{_NO_MORE}liv(?:e|es|ing)\s+in", ("lives in",)),
    (rf"{_NO_MORE}(?:based|located)\s+in", ("located in",)),
    (rf"{_NO_MORE}married\s+to", ("married to",)),
    (rf"{_NO_MORE}report(?:s|ing)?\s+to", ("reports to",)),
    (rf"{_NO_MORE}stud(?:y|ies|ying)\s+at", ("studies at",)),
    (r"was\s+(?:married|engaged)\s+to|divorced|(?:is|was|got)\s+divorced\s+from", ("married to",)),
    (r"was\s+(?:based|located)\s+in", ("located in",)),
    (
        r"(?:has\s+)?(?:just\s+|recently\s+)?(?:left|quit|resigned\s+from|moved\s+(?:away\s+|out\s+)?(?:from|of))",
        ("works at", "lives in", "studies at"),
    ),
)
_AROUND = r"\s*,?\s*(?:who\s+|which\s+)?(?:{})\s+(?:the\s+)?"
_BETWEEN = tuple(
    (re.compile(_AROUND.format(pattern), re.IGNORECASE), label, first, second)
    for pattern, label, first, second in _STATEMENTS
)
_ENDED = tuple((re.compile(_AROUND.format(pattern), re.IGNORECASE), labels) for pattern, labels in _ENDINGS)
_MOVED_FROM = re.compile(r"\s+(?:has\s+)?(?:just\s+|recently\s+)?moved\s+from\s+", re.IGNORECASE)
_JOINED = (" and ", ", ", ", and ", " & ")
_NOT_EVEN = re.compile(r"\b(?:neither|nor|not)\s+\Z", re.IGNORECASE)
_RELATES = re.compile(r"\s*(?:,|who\b|which\b)", re.IGNORECASE)
_SAID_OF_ONE = re.compile(
    rf"\s*(?:,|who\b|which\b|{_NOW}(?:is|was|has|does|isn|wasn|hasn|doesn|[a-z]+s)\b)", re.IGNORECASE
)
_LABELLED_VALUE = re.compile(
    r"(?:['\u2019]s|['\u2019])?\s+((?:work\s+|private\s+|new\s+)?e-?mail(?:\s+address)?|(?:phone|mobile)(?:\s+number)?|birthday"
    r"|address|department|job\s+title|title|job|hobby|favou?rite\s+\w+)(?:\s+is|\s*:)\s+",
    re.IGNORECASE,
)
_SHORT_NAMES = {"mobile": "phone", "job": "title", "e-mail": "email"}


def note_facts(text: str, spots: Sequence[Spot], found: Sequence[Resolved], state: State) -> None:
    """Add what the text states about the entities resolved in it to the state."""
    owners = {spot.start: spot for spot in spots}
    plurals = {spot.start for spot in spots if spot.is_plural}
    sure = [
        one
        for one in found
        if one.entity_id in state.entities
        and one.start not in plurals
        and (one.by != "pronoun" or one.confidence >= _LEAST_CONFIDENCE)
    ]
    if not sure:
        return
    sentences = _Sentences(text)
    for n, (first, second) in enumerate(pairwise(sure)):
        if sentences.states(first.start) and second.start - first.end <= _LONGEST_BETWEEN:
            _note_relation(text, sure, n, state)
    for one in sure:
        if sentences.states(one.start):
            _note_value(text, one, owners, state)
            _note_kind(text, one, state)


class _Sentences:
    """Sentences of a text by position: which are questions, and which only suppose something."""

    def __init__(self, text: str) -> None:
        spans = sentence_spans(text) or [(0, 0)]
        self._starts = [start for start, _ in spans]
        # A question asserts nothing anyway, and the search is the slowest step of a short message.
        self._states = [
            not is_question(text[start:end]) and rule("unreal").search(text, start, end) is None
            for start, end in spans
        ]

    def states(self, start: int) -> bool:
        """Return whether the sentence at `start` asserts something."""
        return self._states[max(bisect_right(self._starts, start) - 1, 0)]


def _note_relation(text: str, sure: Sequence[Resolved], n: int, state: State) -> None:
    """Note what stands between the entities `n` and `n + 1`, of all to whom it applies."""
    first, second = sure[n : n + 2]
    between = text[first.end : second.start]
    for pattern, labels in _ENDED:
        if pattern.fullmatch(between):
            after = sure[n + 2] if n + 2 < len(sure) else None
            is_way = after is not None and _MOVED_FROM.fullmatch(between) is not None
            for subject in _subjects(text, sure, n):
                for label in labels:
                    _end(state, subject, label, second.entity_id)
                if after is not None and is_way and text[second.end : after.start] == " to ":
                    _relate(state, subject, "lives in", after.entity_id, "person", "location")
            return
    for pattern, label, first_type, second_type in _BETWEEN:
        if pattern.fullmatch(between):
            for subject in _subjects(text, sure, n):
                _relate(state, subject, label, second.entity_id, first_type, second_type)
            return


def _subjects(text: str, sure: Sequence[Resolved], n: int) -> list[int]:
    """Return the entities of which something is said behind number `n`: this one, and those joined to it.

    "Anna and Bob live in Ulm" is said of both, "Anna is here and Bob lives in Ulm" of one, and "The parents
    of Bob live in Ulm" of nobody.
    """
    said, begin = text[sure[n].end : sure[n + 1].start], sure[n].start
    joined, has_and = [sure[n].entity_id], False
    if _SAID_OF_ONE.match(said) is None:
        for one in reversed(sure[:n]):
            gap = text[one.end : begin]
            is_name_of_it = gap == " " and one.entity_id == joined[-1]
            # "Anna, Bob and Carl", and not "Because of Anna, Bob"
            if not is_name_of_it and (gap not in _JOINED or not (has_and or gap.strip(" ,"))):
                break
            has_and = has_and or gap.strip(" ,") != ""
            joined.append(one.entity_id)
            begin = one.start
    if is_behind_preposition(text, begin) and not _RELATES.match(said):
        return []
    if _NOT_EVEN.search(text[:begin]):
        return []
    return joined if has_and and is_subject(text, begin) else joined[:1]


def _relate(
    state: State, subject: int, label: str, target: int, subject_type: EntityType, target_type: EntityType
) -> None:
    if not (_may_be(state, subject, subject_type) and _may_be(state, target, target_type)):
        return
    state.characterise(subject, subject_type)
    state.characterise(target, target_type)
    state.relate(subject, label, target)
    if label == "lives in":
        state.note(subject, "location", state.entities[target].name, 0.9)


def _end(state: State, entity_id: int, label: str, target: int) -> None:
    state.unrelate(entity_id, label, target)
    if label == "lives in":
        state.remove_attribute(entity_id, "location", state.entities[target].name)


def _may_be(state: State, entity_id: int, kind: EntityType) -> bool:
    known = state.entities[entity_id].type
    return "unknown" in (kind, known) or known == kind


def _note_value(text: str, one: Resolved, spots: dict[int, Spot], state: State) -> None:
    """Note the value in `Anna's email is …` or `her phone number is …`."""
    spot = spots.get(one.start)
    if spot is None or not (spot.is_possessive or spot.owner in ("her", "his", "their", "its")):
        return
    match = _LABELLED_VALUE.match(text, one.end)
    if match is None:
        return
    words = match[1].casefold().replace("favourite", "favorite").split()
    name = words[-1] if words[0] in ("work", "private", "new") else words[0]
    if words[0] == "favorite" or words[:1] == ["job"]:
        name = " ".join(words) if words[0] == "favorite" else "title"
    elif words[-1] in ("address", "number") and len(words) > 1:
        name = words[-2]
    name = _SHORT_NAMES.get(name, name)
    if value := value_in(name, text, match.end()):
        state.note(one.entity_id, name, value)


def _note_kind(text: str, one: Resolved, state: State) -> None:
    """Note what `Anna is a dentist`, `Anna is 34` and `Acme, a software company` say."""
    entity = state.entities[one.entity_id]
    is_person = entity.type == "person"
    age = age_in(text, one.end) if is_person else ""
    said = title_in(text, one.end) if is_person else "" if entity.description else sort_in(text, one.end)
    if not (age or said):
        return
    # "The man beside Anna, a dentist, is tall" says it of Anna, "The man beside Anna is a dentist" does not.
    if text[one.end :].lstrip()[:1] != "," and not is_subject(text, one.start):
        return
    if age:
        state.note(one.entity_id, "age", age)
    if said and is_person:
        state.note(one.entity_id, "title", said, 0.9)
    elif said:
        state.describe(one.entity_id, said)
