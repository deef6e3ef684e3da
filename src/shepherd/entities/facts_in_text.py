"""What a text says of the entities it names: relations between two, and a few attributes, by plain patterns.

Only statements in so many words; nothing is inferred, and questions state nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from shepherd.entities.mentions import Spot
from shepherd.entities.records import EntityType, Resolved
from shepherd.entities.state import State

__all__ = ["note_facts"]

# Of a pronoun: what "it" is said to be is mostly said of something else.
_LEAST_CONFIDENCE = 0.6
# Between two entities: what the first is to the second, and what both are then.
_STATEMENTS: tuple[tuple[str, str, EntityType, EntityType], ...] = (
    (r"(?:now\s+|still\s+)?work(?:s|ed|ing)?\s+(?:at|for)", "works at", "person", "organization"),
    (r"(?:is|was)\s+(?:a|an|the)\s+[\w\s-]{2,30}\s+(?:at|for)", "works at", "person", "organization"),
    (r"(?:now\s+|still\s+)?(?:lives?|lived)\s+in", "lives in", "person", "location"),
    (r"(?:has\s+)?moved\s+to", "lives in", "person", "location"),
    (r"(?:is|was)\s+(?:based|located)\s+in", "located in", "unknown", "location"),
    (r"(?:is|was|comes?)\s+from", "from", "unknown", "location"),
    (r"(?:is|was|got)\s+married\s+to", "married to", "person", "person"),
    (r"married", "married to", "person", "person"),
    (r"reports?\s+to", "reports to", "person", "person"),
    (r"(?:manages|leads|runs)", "leads", "person", "unknown"),
    (r"founded", "founded", "person", "organization"),
    (r"owns", "owns", "unknown", "unknown"),
    (r"stud(?:ies|ied)\s+at", "studies at", "person", "organization"),
    (r"teaches\s+at", "teaches at", "person", "organization"),
    (r"(?:wrote|is\s+the\s+author\s+of)", "author of", "person", "unknown"),
    (r"(?:is|are)\s+(?:a\s+)?part\s+of", "part of", "unknown", "unknown"),
    (r"knows", "knows", "person", "person"),
)
_BETWEEN = tuple(
    (re.compile(rf"\s*,?\s*(?:who\s+|which\s+)?{pattern}\s+(?:the\s+)?", re.IGNORECASE), label, first, second)
    for pattern, label, first, second in _STATEMENTS
)
_LABELLED_VALUE = re.compile(
    r"(?:['\u2019]s|['\u2019])?\s+((?:work\s+|private\s+|new\s+)?e-?mail(?:\s+address)?|(?:phone|mobile)(?:\s+number)?|birthday"
    r"|address|department|job\s+title|title|job|hobby|favou?rite\s+\w+)\s+(?:is|was|:)\s+",
    re.IGNORECASE,
)
_SHORT_NAMES = {"mobile": "phone", "job": "title", "e-mail": "email"}
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PHONE = re.compile(r"\+?\d[\d\s()/-]{4,18}\d")
_VALUE = re.compile(r"[^.;!?\n]{1,80}")
_IS_A = re.compile(
    r"(?:\s*,\s*|\s+(?:is|was|works\s+as)\s+)(?:a|an)\s+([a-z][\w]*(?:[ -][a-z]\w*){0,3}?)"
    r"(?=\s*(?:[,.;!\n]|\Z)|\s+(?:at|in|for|from|who|and|with|but|of|that)\b)"
)
_AGE = re.compile(r"\s+(?:is|turned)\s+(\d{1,3})(?:\s+years\s+old)?(?=\s*(?:[,.;!\n]|\Z|and\b))")


def note_facts(text: str, spots: Sequence[Spot], found: Sequence[Resolved], state: State) -> None:
    """Notes what the text says of what was resolved in it."""
    sure = [
        one
        for one in found
        if one.entity_id in state.entities and (one.by != "pronoun" or one.confidence >= _LEAST_CONFIDENCE)
    ]
    owners = {spot.start: spot for spot in spots}
    for first, second in pairwise(sure):
        _note_relation(text, first, second, state)
    for one in sure:
        if _is_asked(text, one.end):
            continue
        _note_value(text, one, owners, state)
        _note_kind(text, one, state)


def _note_relation(text: str, first: Resolved, second: Resolved, state: State) -> None:
    between = text[first.end : second.start]
    if len(between) > 60 or _is_asked(text, first.end):
        return
    for pattern, label, first_type, second_type in _BETWEEN:
        if pattern.fullmatch(between):
            if not (_may_be(state, first, first_type) and _may_be(state, second, second_type)):
                return
            state.characterise(first.entity_id, first_type)
            state.characterise(second.entity_id, second_type)
            state.relate(first.entity_id, label, second.entity_id)
            if label == "lives in":
                state.note(first.entity_id, "location", state.entities[second.entity_id].name, 0.9)
            return


def _may_be(state: State, one: Resolved, kind: EntityType) -> bool:
    known = state.entities[one.entity_id].type
    return "unknown" in (kind, known) or known == kind


def _note_value(text: str, one: Resolved, spots: dict[int, Spot], state: State) -> None:
    """`Anna's email is …`, `her phone number is …`."""
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
    shape = {"email": _EMAIL, "phone": _PHONE}.get(name, _VALUE)
    value = shape.match(text, match.end())
    if value is not None:
        state.note(one.entity_id, name, value[0])


def _note_kind(text: str, one: Resolved, state: State) -> None:
    """`Anna is a dentist`, `Anna is 34`, `Acme, a software company`."""
    entity = state.entities[one.entity_id]
    age = _AGE.match(text, one.end)
    if age is not None and entity.type == "person":
        state.note(one.entity_id, "age", age[1])
    match = _IS_A.match(text, one.end)
    if match is None:
        return
    if entity.type == "person":
        state.note(one.entity_id, "title", match[1], 0.9)
    elif not entity.description:
        state.describe(one.entity_id, match[1])


def _is_asked(text: str, start: int) -> bool:
    """Whether the sentence that goes on at `start` is a question."""
    end = re.compile(r"[.!?\n]").search(text, start)
    return end is not None and end[0] == "?"
