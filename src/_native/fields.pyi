"""Fields of objects whose class has slots, read without looking their names up."""

from collections.abc import Sequence
from typing import Any, final

__all__ = ["FieldReader"]

@final
class FieldReader:
    """Reads some fields, at most 16, of the objects of a class, such as a dataclass with `slots=True`.

    Raises TypeError if a field is not a slot, and later for an object of another class. Thread-safe.
    """

    def __init__(self, kind: type, *names: str) -> None: ...
    def values(self, objects: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return a tuple with the fields of each object."""
    def begin_with(self, objects: Sequence[object], values: Sequence[tuple[Any, ...]]) -> bool:
        """Return whether the first objects have these fields. Cost: O(values), some 20 ns each."""
