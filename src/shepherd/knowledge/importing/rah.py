"""Reader of RA-H's database: nodes, edges and dimensions, of any of its generations.

A node's notes were in `content`, later in `notes`; its source text is in `chunk`. The meaning of an edge is
in `context`, a JSON object, or in older databases in `explanation`. Chunks are cut anew, by our rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from shepherd._native.store import SQLiteError
from shepherd.errors import DocumentError
from shepherd.escaping import storable
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Dimension
from shepherd.knowledge.transfer import IncomingEdge, fingerprint
from shepherd.sqlite_reader import SQLiteReader

__all__ = ["RaHDatabase"]

_SOURCES = {"user": "user", "ai_similarity": "similarity", "similarity": "similarity", "mcp": "mcp"}
_COLUMNS = (
    *("title", "content", "notes", "description", "chunk", "link", "type", "event_date", "metadata"),
    *("created_at", "updated_at"),
)


class RaHDatabase(SQLiteReader):
    """An open RA-H database; DocumentError for another one."""

    def __init__(self, path: str, now: int) -> None:
        self._now = now
        super().__init__(path)

    def check(self) -> None:
        """Raise DocumentError where the tables are not RA-H's."""
        if {"id", "title"} <= self.columns("nodes") and {"from_node_id", "to_node_id"} <= self.columns(
            "edges"
        ):
            return
        raise DocumentError(
            f"{self.path}: this database is not one of RA-H",
            hint="shepherd memory import reads llm's logs.db",
        )

    def failure(self, error: SQLiteError) -> DocumentError:
        """Return the error of a database that cannot be read."""
        return DocumentError(
            f"{self.path}: the database cannot be read (SQLite code {error.code})",
            hint="is it damaged, or in use?",
        )

    def dimensions(self) -> list[Dimension]:
        """Return the tags with their descriptions."""
        if "name" not in self.columns("dimensions"):
            return []
        return [
            Dimension(_text(name), _text(description), _text(icon), bool(priority))
            for _, name, description, icon, priority in self.rows(
                "dimensions", ("name", "description", "icon", "is_priority")
            )
            if _text(name).strip()
        ]

    def nodes(self) -> Iterator[tuple[str, NewNode]]:
        """Yield (key, node) of each node, in the order of their ids."""
        for row in self.rows("nodes", _COLUMNS, "id"):
            yield str(row[0]), self._node(dict(zip(("id", *_COLUMNS), row, strict=True)))

    def edges(self) -> Iterator[IncomingEdge]:
        """Yield all edges, in the order of their ids."""
        names = ("from_node_id", "to_node_id", "source", "created_at", "context", "explanation")
        for _, from_id, to_id, source, created_at, context, explanation in self.rows("edges", names, "id"):
            meaning = _object(context)
            confidence = meaning.get("confidence")
            via = "mcp" if meaning.get("created_via") == "mcp" else _text(source)
            yield IncomingEdge(
                str(from_id),
                str(to_id),
                _text(meaning.get("type")),
                _first(meaning.get("explanation"), explanation, "connected in RA-H"),
                float(confidence) if isinstance(confidence, (int, float)) else 1.0,
                _SOURCES.get(via, "agent"),
                _moment(created_at, self._now),
            )

    def _node(self, found: dict[str, Any]) -> NewNode:
        created_at = _moment(found["created_at"], self._now)
        # Without the file's path: a copy of the database has the same nodes.
        key = f"ra-h\0{found['id']}\0{_text(found['created_at'])}"
        node = NewNode(
            title=_text(found.get("title")).strip() or f"node {found['id']}",
            kind=_text(found.get("type")),
            description=_text(found.get("description")),
            notes=_first(found.get("notes"), found.get("content")),
            source_text=_text(found.get("chunk")),
            link=_text(found.get("link")),
            event_date=_text(found.get("event_date"))[:10],
            metadata={**_object(found.get("metadata")), "ra_h_id": found["id"]},
            dimensions=self._tags(found["id"]),
            origin=hashlib.sha256(key.encode()).hexdigest(),
            created_at=created_at,
            updated_at=_moment(found["updated_at"], created_at),
        )
        return replace(node, content_hash=fingerprint(node))

    def _tags(self, node_id: int) -> tuple[str, ...]:
        if "dimension" not in self.columns("node_dimensions"):
            return ()
        rows = self.connection.execute(
            "SELECT dimension FROM node_dimensions WHERE node_id = ? ORDER BY dimension", (node_id,)
        )
        return tuple(_text(name) for (name,) in rows if _text(name).strip())


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else "" if value is None else str(value)


def _first(*values: object) -> str:
    """Return the text of the first value that is not blank, else ""."""
    return next((_text(value) for value in values if _text(value).strip()), "")


def _object(written: object) -> dict[str, Any]:
    try:
        found = json.loads(written) if isinstance(written, str) else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _moment(written: object, otherwise: int) -> int:
    if isinstance(written, (int, float)):
        return int(written / 1000 if written > 1e11 else written)
    try:
        when = datetime.fromisoformat(_text(written).replace("Z", "+00:00"))
    except ValueError:
        return otherwise
    return int((when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp())
