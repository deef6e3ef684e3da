"""Resolution of pronouns by recency and agreement, within a text and the entities in focus."""

from __future__ import annotations

from collections.abc import Iterator

from shepherd.entities.lexicon import PRONOUNS
from shepherd.entities.mentions import Spot
from shepherd.entities.records import Entity
from shepherd.entities.state import FOCUS_TURNS, State

__all__ = ["RIVALRY", "Focus"]

# Factor of the confidence where another entity fits as well.
RIVALRY = 0.75
_BY_PRONOUN = 0.7
# "It" mostly refers to none of the entities.
_BY_IT = 0.5
_CLOSE_TURNS = 3


class Focus:
    """Entities that can be meant without a name; `mentioned` lists sentence and entity of each mention so
    far.
    """

    def __init__(self, state: State, mentioned: list[tuple[int, int]]) -> None:
        self._state = state
        self._mentioned = mentioned

    def by_pronoun(self, spot: Spot, *, except_id: int | None = None) -> list[tuple[int, float]]:
        """Return the entities meant, with confidence; "they" can mean several. Notes the gender that is
        implied.
        """
        wanted = PRONOUNS.get(spot.owner, "")
        if not wanted:
            return []
        if wanted == "p":
            group = self._latest_group()
            if group:
                return [(entity_id, _BY_PRONOUN) for entity_id in group]
        fitting = [one for one in self._by_recency(spot) if one.id != except_id and _agrees(one, wanted)]
        if wanted in ("n", "p"):
            fitting = [one for one in fitting if self._is_close(one, wanted)]
        if not fitting:
            return []
        chosen = fitting[0]
        has_rival = any(
            one.id != chosen.id and one.last_turn == chosen.last_turn and _agrees_as_well(one, chosen)
            for one in fitting[1:]
        )
        if wanted in ("f", "m") and not has_rival:
            self._state.characterise(
                chosen.id, "person" if chosen.is_named else "unknown", "f" if wanted == "f" else "m"
            )
        confidence = _BY_IT if wanted in ("n", "p") else _BY_PRONOUN
        return [(chosen.id, confidence * (RIVALRY if has_rival else 1.0))]

    def _is_close(self, entity: Entity, wanted: str) -> bool:
        """Return whether "it" or "they" can mean an entity: one of the latest turns that fits the word.

        A name of unknown type, mostly a person, qualifies only in the text that names it.
        """
        if self._state.turn - entity.last_turn > _CLOSE_TURNS:
            return False
        is_here = any(entity.id == entity_id for _, entity_id in self._mentioned)
        if wanted == "p":
            return entity.type == "organization" or (
                is_here and entity.type == "person" and not entity.gender
            )
        return entity.type != "unknown" or bool(entity.node_id) or is_here

    def _by_recency(self, spot: Spot) -> Iterator[Entity]:
        """Yield entities of this text, the latest sentence first and each in order, then those in focus."""
        seen: set[int] = set()
        sentences = sorted({n for n, _ in self._mentioned if n <= spot.sentence}, reverse=True)
        for sentence in sentences:
            for n, entity_id in self._mentioned:
                if n == sentence and entity_id not in seen:
                    seen.add(entity_id)
                    yield self._state.entities[entity_id]
        for entity in self.recent():
            if entity.id not in seen:
                yield entity

    def _latest_group(self) -> list[int]:
        """Return the people of the latest sentence that mentions more than one."""
        for sentence in sorted({n for n, _ in self._mentioned}, reverse=True):
            people = dict.fromkeys(
                entity_id
                for n, entity_id in self._mentioned
                if n == sentence and self._state.entities[entity_id].type in ("person", "unknown")
            )
            if len(people) > 1:
                return list(people)
        turn = self._state.turn - 1
        people = dict.fromkeys(
            one.id for one in self.recent() if one.last_turn == turn and one.type == "person"
        )
        return list(reversed(people)) if len(people) > 1 and not self._mentioned else []

    def recent(self) -> Iterator[Entity]:
        """Yield the entities in focus, the one mentioned last first."""
        for entity in self._state.recent():
            if self._state.turn - entity.last_turn > FOCUS_TURNS:
                return
            yield entity


def _agrees(entity: Entity, wanted: str) -> bool:
    if wanted == "n":
        return entity.type != "person" and not (entity.type == "unknown" and entity.gender)
    if wanted == "p":
        return entity.type in ("person", "organization", "unknown")
    return entity.type in ("person", "unknown") and entity.gender in (wanted, "")


def _agrees_as_well(other: Entity, chosen: Entity) -> bool:
    """Return whether the pronoun fits the other entity as well as the chosen one."""
    sure, other_sure = (one.type != "unknown" and bool(one.gender) for one in (chosen, other))
    return other_sure or not sure
