"""What the functions over facts, memories and sessions need of a database: one door for SQL."""

from __future__ import annotations

from shepherd.transactions import Connection, Value

__all__ = ["Connection", "Value"]
