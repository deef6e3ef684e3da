"""What a turn changed, so that it can be taken back: copying a thousand entities takes longer than that."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

__all__ = ["Journal", "Recency"]

_MISSING = object()


class Journal:
    """The values that dictionaries had before they were changed, turn by turn. Undoing costs as many."""

    def __init__(self) -> None:
        self._turns: list[tuple[object, list[tuple[dict[Any, Any], Any, Any]]]] = []

    def __len__(self) -> int:
        return len(self._turns)

    def begin(self, mark: object) -> None:
        """What is noted from now on belongs to a new turn; `mark` comes back when that is undone."""
        self._turns.append((mark, []))

    def keep(self, most: int) -> None:
        """Only so many of the last turns can be undone from now on."""
        if len(self._turns) > most:
            del self._turns[: len(self._turns) - most]

    def note(self, changing: dict[Any, Any], key: Any) -> None:
        """That the value of this key is about to change."""
        if self._turns:
            self._turns[-1][1].append((changing, key, changing.get(key, _MISSING)))

    def undo(self) -> tuple[Any, list[tuple[dict[Any, Any], Any]]]:
        """Takes the last turn back; its mark, and which keys have their old values again."""
        mark, changes = self._turns.pop()
        for changed, key, before in reversed(changes):
            if before is _MISSING:
                changed.pop(key, None)
            else:
                changed[key] = before
        return mark, [(changed, key) for changed, key, _ in changes]


class _Placed(Protocol):
    @property
    def place(self) -> int: ...


class Recency:
    """Ids in the order of their last mention, which their `place` counts.

    A mention appends; what it replaces stays behind and is skipped. Entities are the caller's: a place counts
    while the entity of that id still has it.
    """

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self._entries = [] if entries is None else entries

    def copy(self) -> Recency:
        """Another one, with the same entries."""
        return Recency(self._entries.copy())

    def add(self, place: int, entity_id: int) -> None:
        """This one was mentioned last."""
        self._entries.append((place, entity_id))

    def latest(self, entities: Mapping[int, _Placed]) -> Iterator[int]:
        """Ids, the one mentioned last first."""
        for place, entity_id in reversed(self._entries):
            entity = entities.get(entity_id)
            if entity is not None and entity.place == place:
                yield entity_id

    def oldest(self, entities: Mapping[int, _Placed]) -> int:
        """The one that was not mentioned for the longest time; there must be one."""
        for n, (place, entity_id) in enumerate(self._entries):
            entity = entities.get(entity_id)
            if entity is not None and entity.place == place:
                del self._entries[:n]
                return entity_id
        raise LookupError("there is no entity")

    def tidy(self, entities: Mapping[int, _Placed]) -> None:
        """Drops what is skipped, once that is most of it."""
        if len(self._entries) > 4 * len(entities) + 64:
            self._entries = [(place, id) for place, id in self._entries if self._counts(entities, place, id)]

    def restore(self, place: int, entity_id: int) -> None:
        """An entity has this place again."""
        entry = (place, entity_id)
        at = bisect_left(self._entries, entry)
        if self._entries[at : at + 1] != [entry]:
            self._entries.insert(at, entry)

    def forget_from(self, place: int) -> None:
        """Nothing was mentioned at this place or later."""
        del self._entries[bisect_left(self._entries, (place, 0)) :]

    @staticmethod
    def _counts(entities: Mapping[int, _Placed], place: int, entity_id: int) -> bool:
        entity = entities.get(entity_id)
        return entity is not None and entity.place == place
