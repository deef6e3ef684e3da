"""What the functions over facts, memories and sessions need of a database: one door for SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Connection", "Value"]

Value = int | float | str | bytes | None


class Connection(Protocol):
    """A connection inside a transaction, of either engine.

    The SQL is what SQLite and PostgreSQL have in common, with `?` for a parameter or `?1` for a repeated one.
    """

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """All rows of the result."""
