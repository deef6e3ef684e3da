"""What differs between two turns: paths that came, went, or have another value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shepherd.trace.paths import Value

__all__ = ["Change", "diff"]


@dataclass(frozen=True, slots=True)
class Change:
    """One path below what was compared; None for the side that does not have it."""

    path: str
    before: Value | None
    after: Value | None


def diff(
    before: Iterable[tuple[str, Value]],
    after: Iterable[tuple[str, Value]],
    *,
    before_root: str = "",
    after_root: str = "",
) -> list[Change]:
    """The changes from one set of paths to another, in the order of the paths; roots are taken off first."""
    old = {path[len(before_root) :].lstrip("/"): value for path, value in before}
    new = {path[len(after_root) :].lstrip("/"): value for path, value in after}
    return [
        Change(path, old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if not _same(old.get(path), new.get(path))
    ]


def _same(one: Value | None, other: Value | None) -> bool:
    # True is not 1, and 1 is not 1.0: a change of the kind is one.
    return type(one) is type(other) and one == other
