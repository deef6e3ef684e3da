"""Limits of a value within which iterations of a loop that have read it would be the same again."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any

from jinja2.runtime import Macro, Undefined

from shepherd.inference.template_views import ConversationView, SelectedMessages

__all__ = ["Limits", "is_same", "is_settled", "told"]

_SCALARS = frozenset((str, int, float, bool, type(None)))


class Limits:
    """Limits of one value for iterations to be the same: above, below and unlike some numbers, or equal.

    Each limit is there with the first iteration that needs it. Later ones are narrower.
    """

    __slots__ = ("_above", "_above_at", "_below", "_below_at", "_exact", "_others")

    def __init__(self) -> None:
        self._above, self._above_at = array("q"), array("q")
        self._below, self._below_at = array("q"), array("q")  # negative, so that they ascend
        self._others: dict[int, int] = {}
        self._exact: tuple[Any, int] | None = None

    def equals(self, value: Any, k: int) -> None:
        """Note that iteration `k` has read the value itself."""
        if self._exact is None:
            self._exact = (told(value), k)

    def compared(self, operator: str, other: int, outcome: bool, k: int) -> None:
        """Note that iteration `k` has compared the value with a number."""
        if operator in ("ne", "lteq", "lt"):
            operator = {"ne": "eq", "lteq": "gt", "lt": "gteq"}[operator]
            outcome = not outcome
        if operator == "eq":
            if outcome:
                self._narrow(self._above, self._above_at, other - 1, k)
                self._narrow(self._below, self._below_at, -other - 1, k)
            else:
                self._others.setdefault(other, k)
            return
        bound = other if operator == "gt" else other - 1
        if outcome:
            self._narrow(self._above, self._above_at, bound, k)
        else:
            self._narrow(self._below, self._below_at, -bound - 1, k)

    @staticmethod
    def _narrow(bounds: array[int], at: array[int], bound: int, k: int) -> None:
        if not bounds or bound > bounds[-1]:
            bounds.append(bound)
            at.append(k)

    def first_broken(self, value: Any, most: int) -> int:
        """Return the first iteration that this value could change; `most` if none before that."""
        found = most
        if self._exact is not None and not is_same(self._exact[0], told(value)):
            found = min(found, self._exact[1])
        if type(value) is not int:
            firsts = (*self._above_at[:1], *self._below_at[:1], *self._others.values())
            return min(found, *firsts) if firsts else found
        for bounds, at, number in (
            (self._above, self._above_at, value),
            (self._below, self._below_at, -value),
        ):
            # A bound that is not below the number is broken.
            i = bisect_left(bounds, number)
            if i < len(bounds):
                found = min(found, at[i])
        return min(found, self._others.get(value, found))

    def forget(self, k: int) -> None:
        """Drop what was noted by iterations from `k` on."""
        for bounds, at in ((self._above, self._above_at), (self._below, self._below_at)):
            i = bisect_left(at, k)
            del bounds[i:], at[i:]
        while self._others and next(reversed(self._others.values())) >= k:
            self._others.popitem()
        if self._exact is not None and self._exact[1] >= k:
            self._exact = None


def told(value: Any) -> Any:
    """Return what a value that a loop reads is known by."""
    kind = value.__class__
    if kind in _SCALARS:
        return value
    if kind is ConversationView:
        return ("view", value.start, value.stop)
    if kind is SelectedMessages:
        return ("selected", value.number)  # what is read of it is recorded
    if kind is Macro:
        return ("macro", value._func.__code__, value._func.__defaults__)
    if isinstance(value, Undefined):
        return ("undefined", kind, value._undefined_name)
    if kind in (list, tuple, dict) and _is_plain(value):
        return _Plain(value)
    return ("object", _Only(value))


class _Plain:
    """A list or dict of plain values, compared by what it would be written as."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Plain):
            return False
        return self.value is other.value or repr(self.value) == repr(other.value)

    __hash__ = None  # type: ignore[assignment]


class _Only:
    """An object that equals only itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Only) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


def is_same(a: Any, b: Any) -> bool:
    """Return whether values that `told` returned are the same to a template."""
    # 1, 1.0 and True are equal and are written in three ways; 0.0 and -0.0 in two.
    return a.__class__ is b.__class__ and bool(a == b) and (a.__class__ is not float or repr(a) == repr(b))


def _is_plain(value: Any) -> bool:
    waiting = [value]
    for one in waiting:  # grows meanwhile
        kind = one.__class__
        if kind is dict:
            waiting += one
            waiting += one.values()
        elif kind is list or kind is tuple:
            waiting += one
        elif kind not in _SCALARS:
            return False
    return True


def is_settled(value: Any) -> bool:
    """Return whether a value is undefined, text, a number or made of these, which nothing changes later."""
    if value.__class__ in (list, tuple, dict):
        return _is_plain(value)
    return value.__class__ in _SCALARS or isinstance(value, Undefined)
