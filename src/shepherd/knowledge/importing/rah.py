"""An RA-H database, read with our own SQLite: nodes, edges and dimensions, of any of its generations.

A node's own notes were in `content`, later in `notes`; its source text is in `chunk`. An edge says what it
means in `context`, a JSON object, or in older ones in `explanation`. Chunks are cut anew, by our rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from types import TracebackType
from typing import Any

from shepherd._native.store import Connection, SQLiteError
from shepherd.errors import DocumentError
from shepherd.escaping import storable
from shepherd.knowledge.incoming import IncomingEdge, fingerprint
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import Dimension

__all__ = ["RaHDatabase"]

_PAGE = 100
_SOURCES = {"user": "user", "ai_similarity": "similarity", "similarity": "similarity", "mcp": "mcp"}
_OWN = ("id", "title", "content", "notes", "description", "chunk", "link", "type", "event_date", "metadata")


class RaHDatabase:
    """The database at `path`; DocumentError when it is another one. A context manager."""

    def __init__(self, path: str, now: int) -> None:
        self._path = path
        self._now = now
        try:
            self._connection = Connection(path, read_only=True, create=False)
        except SQLiteError as error:
            raise self._failure(error) from error
        try:
            self._nodes = self._columns("nodes")
            self._edges = self._columns("edges")
            if not {"id", "title"} <= self._nodes or not {"from_node_id", "to_node_id"} <= self._edges:
                raise DocumentError(
                    f"{path}: this database is not one of RA-H",
                    hint="shepherd memory import reads llm's logs.db",
                )
        except BaseException as error:
            self._connection.close()
            if isinstance(error, SQLiteError):
                raise self._failure(error) from error
            raise

    def __enter__(self) -> RaHDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        if isinstance(error, SQLiteError):
            raise self._failure(error) from error

    def count(self) -> tuple[int, int]:
        """How many nodes and edges there are."""
        [(n_nodes,)] = self._connection.execute("SELECT count(*) FROM nodes")
        [(n_edges,)] = self._connection.execute("SELECT count(*) FROM edges")
        return n_nodes, n_edges

    def dimensions(self) -> list[Dimension]:
        """Tags with what they say."""
        columns = self._columns("dimensions")
        if "name" not in columns:
            return []
        wanted = [
            name if name in columns else "NULL" for name in ("name", "description", "icon", "is_priority")
        ]
        rows = self._connection.execute(f"SELECT {', '.join(wanted)} FROM dimensions")
        return [
            Dimension(_text(name), _text(description), _text(icon), bool(priority))
            for name, description, icon, priority in rows
            if _text(name).strip()
        ]

    def nodes(self) -> Iterator[tuple[str, NewNode]]:
        """(key, node) of each, in the order they were made."""
        names = [*(name for name in _OWN if name in self._nodes), "created_at", "updated_at"]
        wanted = [name if name in self._nodes else f"NULL AS {name}" for name in names]
        after = -(1 << 62)
        while rows := self._connection.execute(
            f"SELECT {', '.join(wanted)} FROM nodes WHERE id > ? ORDER BY id LIMIT {_PAGE}", (after,)
        ):
            after = rows[-1][0]
            for row in rows:
                yield str(row[0]), self._node(dict(zip(names, row, strict=True)))

    def edges(self) -> Iterator[IncomingEdge]:
        """All of them, in the order they were made."""
        wanted = [
            name if name in self._edges else "NULL"
            for name in ("id", "from_node_id", "to_node_id", "source", "created_at", "context", "explanation")
        ]
        after = -(1 << 62)
        while rows := self._connection.execute(
            f"SELECT {', '.join(wanted)} FROM edges WHERE id > ? ORDER BY id LIMIT {_PAGE}", (after,)
        ):
            after = rows[-1][0]
            for _, from_id, to_id, source, created_at, context, explanation in rows:
                told = _object(context)
                confidence = told.get("confidence")
                via = "mcp" if told.get("created_via") == "mcp" else _text(source)
                yield IncomingEdge(
                    str(from_id),
                    str(to_id),
                    _text(told.get("type")),
                    _first(told.get("explanation"), explanation, "connected in RA-H"),
                    float(confidence) if isinstance(confidence, (int, float)) else 1.0,
                    _SOURCES.get(via, "agent"),
                    _moment(created_at, self._now),
                )

    def _node(self, found: dict[str, Any]) -> NewNode:
        created_at = _moment(found["created_at"], self._now)
        # Not by the file's path: a copy of the database has the same nodes.
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
        if "dimension" not in self._columns("node_dimensions"):
            return ()
        rows = self._connection.execute(
            "SELECT dimension FROM node_dimensions WHERE node_id = ? ORDER BY dimension", (node_id,)
        )
        return tuple(_text(name) for (name,) in rows if _text(name).strip())

    def _columns(self, table: str) -> set[str]:
        return {
            name for (name,) in self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        }

    def _failure(self, error: SQLiteError) -> DocumentError:
        return DocumentError(
            f"{self._path}: the database cannot be read (SQLite code {error.code})",
            hint="is it damaged, or in use?",
        )


def _text(value: object) -> str:
    return storable(value) if isinstance(value, str) else "" if value is None else str(value)


def _first(*values: object) -> str:
    """The first of them that says something, else ""."""
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
