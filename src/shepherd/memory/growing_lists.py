"""Values of facts that are lists: what joins them, also when it is learned late, and what a change adds."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shepherd.claims.counts import COUNTED
from shepherd.claims.keys import LISTS, canonical_key, items_of, joined_items, joined_values
from shepherd.types import Fact

__all__ = [
    "ListChange",
    "gained",
    "has_only_grown",
    "has_same_items",
    "joined_late",
    "without",
]

# A value, None if it was cleared; the source, and the time of the change.
ListChange = tuple[str | None, str, int]


def has_only_grown(key: str, changes: Sequence[ListChange], known: Fact, told_at: int, *, by: str) -> bool:
    """Return whether all changes of a list since `told_at` are additions by a source, and there are some.

    Only then can an item that is told first and learned last join it: nothing that was removed comes back.
    """
    older = [value for value, _, changed_at in changes if changed_at <= told_at]
    newer = changes[len(older) :]
    # An import changes a fact without its history.
    if not newer or (newer[-1][0], newer[-1][2]) != (known.value, known.updated_at):
        return False
    before = (older[-1] if older else None) or ""
    for value, source, _ in newer:
        if source != by or value is None or not has_same_items(key, joined_values(key, before, value), value):
            return False
        before = value
    return True


def has_same_items(key: str, value: str, other: str) -> bool:
    """Return whether two values of a list have the same items: "nuts and cats", "cats, nuts"."""
    return _folded_items(key, value) == _folded_items(key, other)


def joined_late(key: str, known: str, told: str) -> str:
    """Return a list with what was told before it; of two numbers of the same things, it has the later one."""
    if key not in COUNTED:
        return joined_values(key, known, told)
    merged = items_of(key, joined_values(key, told, known), apart=True)
    places = {item.casefold(): place for place, item in enumerate(items_of(key, known, apart=True))}
    return joined_items(key, sorted(merged, key=lambda item: places.get(item.casefold(), len(places))))


def gained(key: str, before: str, value: str) -> frozenset[str]:
    """Return what a change of a fact has added, folded: items of a list, else the value; "" adds nothing."""
    name = _list_name(key)
    if name:
        return frozenset(_folded_items(name, value) - _folded_items(name, before))
    return frozenset((_folded(value),) if value and _folded(value) != _folded(before) else ())


def without(key: str, value: str, refused: Collection[str]) -> str:
    """Return the value of any fact without what is refused, folded; "" if nothing is left."""
    name = _list_name(key)
    if not name:
        return "" if _folded(value) in refused else value
    left = []
    for item in items_of(name, value):
        parts = items_of(name, item, apart=True)
        kept = [part for part in parts if _folded(part) not in refused]
        left += [item] if kept == parts else kept
    return value if left == items_of(name, value) else joined_items(name, left)


def _list_name(key: str) -> str:
    """Return the common key of a list, "" for another key."""
    common = canonical_key(key)
    return common.name if common is not None and common.name in LISTS else ""


def _folded_items(key: str, value: str) -> set[str]:
    return {_folded(item) for item in items_of(key, value, apart=True)}


def _folded(value: str) -> str:
    return " ".join(value.casefold().split())
