"""Resolution of the spots of a text to entities: by name, by role, by recency and agreement; and new
entities.

Confidence is 1 by name, less by a part of it, a description or a pronoun, and less again where another entity
fits as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from shepherd.entities.facts_in_text import note_facts
from shepherd.entities.lexicon import (
    ENDINGS,
    GIVEN_NAMES,
    HONORIFICS,
    KINDS,
    PERSON_WORDS,
    PERSONAL_VERBS,
    PLACES,
    ROLES,
    family_of,
    gender_of_name,
    go_together,
)
from shepherd.entities.mentions import Spot, find_spots
from shepherd.entities.names import ALIAS, PART, Entry, is_short_for, key_of
from shepherd.entities.pronouns import RIVALRY, Focus
from shepherd.entities.records import USER, USER_NAME, Entity, EntityType, Gender, Known, Resolved, Speaker
from shepherd.entities.state import Gazetteer, State

__all__ = ["Reading"]

_BY_NAME = (1.0, 0.95, 0.8)  # canonical, alias, part
_BY_ROLE, _BY_ROLE_ALONE, _BY_KIND = 0.9, 0.75, 0.6
_NEW_NAME, _NEW_DESCRIPTION = 0.5, 0.5

_IS_CALLED = re.compile(
    r"\s*(?:['\u2019]s\s+name\s+is|(?:,\s*)?(?:who\s+)?(?:is|was)\s+(?:called|named)|(?:,\s*)?(?:called|named))\s+",
    re.IGNORECASE,
)
_IS = re.compile(r"(?:['\u2019]s|\s+is|\s+was)\s+", re.IGNORECASE)
_ALSO = re.compile(
    r"\s*[,(]?\s*(?:also\s+known\s+as|a\.?k\.?a\.?|goes\s+by|nicknamed|also\s+called)\s+[\"\u201c']?",
    re.IGNORECASE,
)
_NEAR_PLACE = re.compile(r"\b(?:in|from|to|near|around|visit(?:ed|ing)?|via)\s+$", re.IGNORECASE)
_NEAR_EMPLOYER = re.compile(
    r"\b(?:works?|worked|working|job|intern(?:ed|s)?)\s+(?:at|for)\s+$|\bjoin(?:ed|s|ing)?\s+$", re.IGNORECASE
)
_GOES_TO = re.compile(
    r"\b(?:live|move|fly|travel|drive|trip|flight|based|born)\w*\s+(?:in|to|from)\s+$", re.IGNORECASE
)


class Reading:
    """Resolution of one text against a state, which it changes."""

    def __init__(self, state: State, known: Gazetteer) -> None:
        self._state = state
        self._known = known
        self._text = ""
        self._spots: list[Spot] = []
        self._found: list[Resolved] = []
        # Sentence and entity of each mention so far in this text.
        self._mentioned: list[tuple[int, int]] = []
        self._focus = Focus(state, self._mentioned)
        # Entities that a description beside a name identified, by the start of the name.
        self._named: dict[int, int] = {}

    def read(self, text: str, speaker: Speaker) -> tuple[Resolved, ...]:
        """Return what the text refers to, in order; counts mentions and adds new entities."""
        self._text = text
        self._spots = find_spots(text, self._state.names, self._known.names)
        for i, spot in enumerate(self._spots):
            if speaker == "assistant" and not self._counts_in_answer(spot):
                continue
            for entity_id, confidence in self._entities_of(i, spot):
                self._take(spot, entity_id, confidence)
        found = tuple(one for one in self._found if one.entity_id in self._state.entities)
        if speaker == "user":
            note_facts(text, self._spots, found, self._state)
        return found

    def _take(self, spot: Spot, entity_id: int, confidence: float) -> None:
        self._state.mention(entity_id, spot.text)
        self._mentioned.append((spot.sentence, entity_id))
        self._found.append(Resolved(entity_id, spot.start, spot.end, confidence, spot.kind))

    def _counts_in_answer(self, spot: Spot) -> bool:
        # Headings and lists capitalise words: of new names, only the clear ones count.
        if spot.kind != "name":
            return False
        first = key_of(spot.text)[:1]
        is_plain_name = not spot.is_first and len(key_of(spot.text)) > 1
        return bool(spot.entries or spot.known or is_plain_name or (first and first[0] in GIVEN_NAMES))

    def _entities_of(self, i: int, spot: Spot) -> list[tuple[int, float]]:
        if spot.kind == "pronoun":
            return self._focus.by_pronoun(spot)
        if spot.is_plural:
            owner = self._owner(i, spot, None)
            related = [] if owner is None else self._state.related(f"{spot.role} of", owner)
            return [(one.id, _BY_ROLE) for one in related]
        found = self._by_name(spot, i) if spot.kind == "name" else self._by_description(i, spot)
        if found is not None and spot.nickname and not self._state.names.find(spot.nickname):
            self._state.alias(found[0], spot.nickname)
        return [] if found is None else [found]

    # ---- names

    def _by_name(
        self, spot: Spot, i: int = 0, *, label: str = "", owner: int | None = None
    ) -> tuple[int, float] | None:
        """Return the named entity; with `label` ("sister of") one that can have it to the owner, or a new
        one.
        """
        words = key_of(spot.text)
        if not words:
            return None
        named = self._named.get(spot.start, USER)
        if named in self._state.entities and not label:
            return named, _BY_NAME[0]
        other = self._also_called(i, spot)
        if other is not None:
            self._state.alias(other, spot.text)
            return other, _BY_NAME[ALIAS]
        if spot.known and (not spot.entries or len(spot.known[0].words) > len(spot.entries[0].words)):
            found = self._of_known(spot, words, label, owner)
            if found is not None:
                return found
        entries = [entry for entry in spot.entries if entry.id in self._state.entities]
        if spot.text[:1].isupper() or not entries:  # also names that this text added
            entries = self._state.names.find(spot.text) or entries
        if not entries and spot.is_first:  # "Poor Anna" at the beginning of a sentence
            rest = self._state.names.find(spot.text.partition(" ")[2])
            if rest:
                return self._best(rest)
        exact = [entry for entry in entries if len(entry.words) == len(words)]
        if label and owner is not None:
            exact = self._in_role(exact, label, owner)
        if exact:
            return self._best(exact)
        longer = [entry for entry in entries if self._may_be_called(entry.id, words, label, owner)]
        if longer:
            entity_id = longer[0].id
            self._state.rename(entity_id, spot.text)
            self._state.characterise(entity_id, "person", gender_of_name(spot.text))
            return entity_id, _BY_NAME[PART]
        return self._new_name(spot), _NEW_NAME

    def _also_called(self, i: int, spot: Spot) -> int | None:
        """Return the entity of which this is another name: Robert, also known as Bob."""
        before = self._spots[i - 1] if i else None
        if before is None or spot.entries or before.kind != "name" or not self._found:
            return None
        is_resolved = self._found[-1].start == before.start
        return (
            self._found[-1].entity_id
            if is_resolved and _ALSO.fullmatch(self._text[before.end : spot.start])
            else None
        )

    def _best(self, entries: Sequence[tuple[object, int, int]]) -> tuple[int, float]:
        ranked = sorted(entries, key=lambda entry: (entry[2], -self._state.entities[entry[1]].place))
        _, entity_id, rank = ranked[0]
        has_rival = len(ranked) > 1 and ranked[1][2] == rank
        return entity_id, _BY_NAME[rank] * (RIVALRY if has_rival else 1.0)

    def _in_role(self, entries: Sequence[Entry], label: str, owner: int) -> list[Entry]:
        """Return the entries that have the relation to the owner; if none has, those that can."""
        fitting = [one for one in entries if _may_also_be(self._state.entities[one.id], label, owner)]
        sure = [one for one in fitting if _has_relation(self._state.entities[one.id], label, owner)]
        return sure or fitting

    def _may_be_called(
        self, entity_id: int, words: tuple[str, ...], label: str = "", owner: int | None = None
    ) -> bool:
        """Return whether "Anna Smith" can be the entity Anna; a relative only where the text says whose."""
        entity = self._state.entities[entity_id]
        called = key_of(entity.name)
        is_person = entity.type == "person" or (entity.type == "unknown" and words[0] in GIVEN_NAMES)
        if not (is_person and len(called) == 1 and words[0] == called[0] and len(words) <= 3):
            return False
        if owner is not None and not _may_also_be(entity, label, owner):
            return False
        is_kin = any(family_of(one.label) for one in entity.relations)
        return not is_kin or (owner is not None and _has_relation(entity, label, owner))

    def _of_known(
        self, spot: Spot, words: tuple[str, ...], label: str, owner: int | None
    ) -> tuple[int, float] | None:
        places = [
            entry for entry in spot.known if _is_known_as(self._known.known[entry.id], entry, words, label)
        ]
        if label and owner == USER:
            # Of two Annas, prefer the one known to have the relation.
            relations = {entry: self._known.known[entry.id].relation for entry in places}
            sure = [entry for entry in places if relations[entry] == label]
            places = sure or [entry for entry in places if go_together(relations[entry], label)]
        if not places:
            return None
        entry, one = places[0], self._known.known[places[0].id]
        others = [self._known.known[other.id] for other in places if other.rank == entry.rank]
        has_rival = not all(go_together(one.relation, other.relation) for other in others)
        return self._introduced(one), _BY_NAME[entry.rank] * (RIVALRY if has_rival else 1.0)

    def _introduced(self, known: Known) -> int:
        """Return the entity of a known name, added if necessary."""
        there = self._state.names.find(known.name)
        if family_of(known.relation):  # with another surname it is somebody else
            there = [
                entry
                for entry in there
                if entry.rank != PART or _has_relation(self._state.entities[entry.id], known.relation, USER)
            ]
        if known.relation:
            there = self._in_role(there, known.relation, USER)
        if there:
            if known.relation:
                self._state.relate(there[0].id, known.relation, USER, of_fact=True)
            return there[0].id
        entity = self._state.add(
            known.name,
            known.type,
            known.gender,
            node_id=known.node_id,
            description=known.description,
        )
        for alias in known.aliases:
            self._state.alias(entity.id, alias)
        for attribute in known.attributes:
            self._state.note(
                entity.id, attribute.name, attribute.value, attribute.confidence, attribute.private or None
            )
        if known.relation:
            self._state.relate(entity.id, known.relation, USER, of_fact=True)
        return entity.id

    def _new_name(self, spot: Spot) -> int:
        kind = self._type_of(spot)
        gender: Gender = ""
        name = spot.text
        if kind == "person":
            first, _, rest = name.partition(" ")
            title = first.casefold().rstrip(".")
            gender = HONORIFICS.get(title, "") if rest else ""
            gender = gender or gender_of_name(rest if title in HONORIFICS and rest else name)
        return self._state.add(name, kind, gender).id

    def _type_of(self, spot: Spot) -> EntityType:
        words = key_of(spot.text)
        before = self._text[max(spot.start - 40, 0) : spot.start]
        if len(words) > 1 and words[-1] in ENDINGS:
            return ENDINGS[words[-1]]
        if words[0] in HONORIFICS and len(words) > 1:
            return "person"
        if len(words) == 1 and words[0] in PLACES:
            return "location"
        if _NEAR_EMPLOYER.search(before):
            return "organization"
        if words[0] in GIVEN_NAMES and len(words) <= 3:
            return "person"
        if _GOES_TO.search(before):
            return "location"
        after = re.match(r"\s+(\w+)", self._text[spot.end : spot.end + 30])
        is_actor = after is not None and after[1] in PERSONAL_VERBS
        return "person" if is_actor and not _NEAR_PLACE.search(before) else "unknown"

    # ---- descriptions

    def _by_description(self, i: int, spot: Spot) -> tuple[int, float] | None:
        label = f"{spot.role} of"
        named = self._named_by(i, spot, label)
        owner = self._owner(i, spot, named[0] if named else None)
        if named is not None:
            entity_id, is_surely = named
            if owner is not None:
                for unnamed in [one for one in self._state.related(label, owner) if not one.is_named]:
                    if unnamed.id != entity_id:
                        self._merge(entity_id, unnamed.id)
                self._state.relate(entity_id, label, owner)
            elif spot.role in ROLES:
                self._state.note(entity_id, "title", spot.role, 0.8)
            self._characterise(entity_id, spot.role)
            return entity_id, 1.0 if is_surely else _BY_ROLE
        if owner is not None:
            candidates = self._state.related(label, owner)
            if candidates:
                return candidates[0].id, _BY_ROLE * (RIVALRY if len(candidates) > 1 else 1.0)
            known = self._known.related(label) if owner == USER else None
            if known is not None:
                return self._introduced(known), _BY_ROLE
            return self._new_description(spot, owner), _NEW_DESCRIPTION
        if spot.owner != "the":
            return None
        candidates = [one for one in self._focus.recent() if self._has_role(one, spot.role)]
        if candidates:
            return candidates[0].id, _BY_ROLE_ALONE * (RIVALRY if len(candidates) > 1 else 1.0)
        if spot.role in KINDS:
            candidates = [one for one in self._focus.recent() if self._is_a(one, spot.role)]
            if candidates:
                return candidates[0].id, _BY_KIND * (RIVALRY if len(candidates) > 1 else 1.0)
            return None
        return self._new_description(spot, None), _NEW_DESCRIPTION

    def _owner(self, i: int, spot: Spot, owned: int | None) -> int | None:
        """Return whose sister it is: USER, an entity other than `owned`, or None."""
        if spot.owner in ("my", "our"):
            return USER
        if spot.owner == "the":
            return None
        if spot.owner == "":
            before = self._spots[i - 1] if i else None
            if before is None or not self._mentioned or not before.is_possessive:
                return None
            return self._mentioned[-1][1]
        for entity_id, confidence in self._focus.by_pronoun(spot, except_id=owned)[:1]:
            end = spot.start + len(spot.owner)
            pronoun = replace(spot, kind="pronoun", text=self._text[spot.start : end], end=end)
            self._take(pronoun, entity_id, confidence)
            return entity_id
        return None

    def _named_by(self, i: int, spot: Spot, label: str) -> tuple[int, bool] | None:
        """Return the entity whose name stands beside a description: my sister Anna; Anna is my sister."""
        after = self._spots[i + 1] if i + 1 < len(self._spots) else None
        if after is not None and after.kind == "name" and after.sentence == spot.sentence:
            between = self._text[spot.end : after.start]
            is_given = key_of(after.text)[:1] and key_of(after.text)[0] in GIVEN_NAMES
            says = (
                between == " "
                or _IS_CALLED.fullmatch(between)
                or (is_given and not after.is_possessive and _IS.fullmatch(between))
                or (between == ", " and self._text[after.end : after.end + 1] in (",", ".", ""))
            )
            if says and not (between == " " and spot.is_possessive):
                owner = self._owner(i, spot, None) if spot.owner in ("my", "our", "") else None
                found = self._by_name(after, label=label, owner=owner)
                if found is not None and self._may_have_role(found[0], spot.role):
                    self._named[after.start] = found[0]
                    return found[0], True
        if self._found and i:
            before = self._spots[i - 1]
            between = self._text[before.end : spot.start]
            is_resolved = self._found[-1].start == before.start and before.sentence == spot.sentence
            # "Anna's my boss" says who Anna is, "Anna's boss" does not.
            can_be_is = bool(spot.owner) or not before.is_possessive
            is_stated = between == ", " or (can_be_is and _IS.fullmatch(between) is not None)
            if before.kind != "description" and is_resolved and is_stated:
                entity_id = self._found[-1].entity_id
                is_closed = between != ", " or self._text[spot.end : spot.end + 1] in (",", ".", "", "!", "?")
                if is_closed and self._may_have_role(entity_id, spot.role):
                    return entity_id, True
        return None

    def _may_have_role(self, entity_id: int, role: str) -> bool:
        entity = self._state.entities[entity_id]
        if role in ROLES:
            return entity.type in ("person", "unknown")
        return entity.type == "unknown" or KINDS[role] in ("unknown", entity.type) or entity.type == "person"

    def _new_description(self, spot: Spot, owner: int | None) -> int:
        if owner is None:
            name = f"the {spot.role}"
        else:
            whose = USER_NAME if owner == USER else self._state.entities[owner].name
            name = f"{whose}'s {spot.role}"
        entity = self._state.add(name, is_named=False)
        if owner is not None:
            self._state.relate(entity.id, f"{spot.role} of", owner)
        self._characterise(entity.id, spot.role)
        return entity.id

    def _characterise(self, entity_id: int, role: str) -> None:
        if role in ROLES:
            self._state.characterise(entity_id, "person", ROLES[role])
        elif role in KINDS:
            self._state.characterise(entity_id, KINDS[role], PERSON_WORDS.get(role, ""))

    def _merge(self, kept_id: int, gone_id: int) -> None:
        self._state.merge(kept_id, gone_id)
        self._mentioned[:] = [(n, kept_id if one == gone_id else one) for n, one in self._mentioned]

    @staticmethod
    def _has_role(entity: Entity, role: str) -> bool:
        title = entity.attribute("title")
        return (
            any(relation.label.split(" ", 1)[0] == role for relation in entity.relations)
            or (title is not None and role in title.value.casefold().split())
            or (not entity.is_named and entity.name.rsplit(" ", 1)[-1] == role)
        )

    @staticmethod
    def _is_a(entity: Entity, kind: str) -> bool:
        if kind in PERSON_WORDS:
            return entity.type == "person" and PERSON_WORDS[kind] in (entity.gender, "")
        return entity.type == KINDS[kind] and entity.type not in ("unknown", "object")


def _is_known_as(known: Known, entry: Entry, words: tuple[str, ...], label: str) -> bool:
    """Return whether "Anna Smith" can be the known Anna; a relative only where the text says whose."""
    if len(entry.words) == len(words) or is_short_for(words, entry.words):
        return True
    is_person = known.type == "person" and len(entry.words) == 1 and len(words) <= 3
    return is_person and (not family_of(known.relation) or known.relation == label)


def _has_relation(entity: Entity, label: str, owner: int) -> bool:
    """Return whether an entity has the relation `label` ("sister of") to the owner."""
    return any(one.label == label and one.target == owner for one in entity.relations)


def _may_also_be(entity: Entity, label: str, owner: int) -> bool:
    """Return whether an entity's relations to the owner allow `label`: a sister is not the boss."""
    theirs = [one.label for one in entity.relations if one.target == owner]
    return label in theirs or all(go_together(known, label) for known in theirs)
