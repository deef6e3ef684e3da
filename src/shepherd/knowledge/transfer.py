"""Import of nodes, edges and dimensions, from other programs and other users; export as JSON lines.

Each node is known by its origin, so a second import of the same changes nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from shepherd.errors import DocumentError
from shepherd.escaping import storable
from shepherd.knowledge import dimensions, edges, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import EDGE_TYPES, SOURCES, Dimension, Outcome
from shepherd.transactions import Connection

if TYPE_CHECKING:
    from shepherd.knowledge.knowledge import Knowledge

__all__ = [
    "IncomingEdge",
    "State",
    "claim",
    "fingerprint",
    "is_export",
    "put",
    "put_graph",
    "read",
    "records",
]

State = Literal["added", "changed", "unchanged"]
_Record = TypeVar("_Record")

# Nodes of one transaction: an interruption loses at most these, and another writer waits for them.
_BATCH = 50
_PAGE = 100
_FORMAT = "shepherd knowledge"
# Columns of an exported line, in its order.
_NODE_TEXTS = ("kind", "description", "notes", "link", "event_date")
_NODE = ("title", *_NODE_TEXTS, "metadata", "content_hash", "created_at", "updated_at", "source_text")
_DIMENSION = ("name", "description", "icon", "is_priority")
_EDGE = "id, from_node_id, to_node_id, type AS edge_type, explanation, confidence, source, created_at"


@dataclass(frozen=True)
class IncomingEdge:
    """An edge between two nodes that are named by the keys of their own program."""

    from_key: str
    to_key: str
    type: str
    explanation: str
    confidence: float
    source: str
    created_at: int


def fingerprint(new: NewNode) -> str:
    """Return a hash of all that an incoming node says, by which an unchanged one is recognised."""
    fields = {name: value for name, value in asdict(new).items() if name not in ("origin", "content_hash")}
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=list).encode()).hexdigest()


# ---- storing


def put(knowledge: Knowledge, new: NewNode) -> tuple[int, State, int, tuple[int, ...]]:
    """Store a document under its origin; one that was read from the same bytes before stays as it is.

    Returns its id, what became of it, the number of secrets that were covered in it, and the lines of its
    text that have them.
    """
    [(_, node_id, state, n_secrets, lines)] = _put_nodes(knowledge, [("", new)])
    return node_id, state, n_secrets, lines


def put_graph(
    knowledge: Knowledge,
    graph_dimensions: Iterable[Dimension],
    graph_nodes: Iterable[tuple[str, NewNode]],
    graph_edges: Iterable[IncomingEdge],
    *,
    total: int,
    progress: Callable[[int, int, str], None],
    by_time: bool = False,
) -> Iterator[Outcome]:
    """Store a graph of (key, node) and edges between these keys; yield the outcome of each node.

    A known node is changed when it was read from something else than the last time; `by_time`: when it is
    newer. `progress` gets the nodes and edges done, `total` and a noun.
    """
    # A list: a transaction can run twice.
    tags = [replace(tag, description=knowledge.covered(tag.description)[0]) for tag in graph_dimensions]
    knowledge.transaction(lambda connection, shelf: _put_dimensions(connection, shelf.user_id, tags))
    ids: dict[str, int] = {}
    for key, node_id, state, n_secrets, _ in _put_nodes(knowledge, graph_nodes, by_time=by_time):
        ids[key] = node_id
        progress(len(ids), total, "nodes")
        yield Outcome(f"node {key}", state, node_id, secrets=n_secrets)
    done = len(ids)
    waiting = iter(graph_edges)
    while taken := list(islice(waiting, 10 * _BATCH)):
        batch = [replace(edge, explanation=knowledge.covered(edge.explanation)[0]) for edge in taken]

        def store(connection: Connection, shelf: Shelf, batch: Sequence[IncomingEdge] = batch) -> None:
            for edge in batch:
                _put_edge(connection, shelf, edge, ids)

        knowledge.transaction(store, 256 * len(batch))
        done += len(batch)
        progress(done, total, "edges")


def _put_nodes(
    knowledge: Knowledge, incoming: Iterable[tuple[str, NewNode]], *, by_time: bool = False
) -> Iterator[tuple[str, int, State, int, tuple[int, ...]]]:
    waiting = iter(incoming)
    while taken := list(islice(waiting, _BATCH)):
        safe = [knowledge.without_secrets(new) for _, new in taken]
        batch = [(key, new) for (key, _), (new, _) in zip(taken, safe, strict=True)]

        def store(
            connection: Connection, shelf: Shelf, batch: Sequence[tuple[str, NewNode]] = batch
        ) -> list[tuple[str, int, State]]:
            now = knowledge.now()
            return [(key, *_put_node(connection, shelf, new, now, by_time=by_time)) for key, new in batch]

        stored = knowledge.transaction(
            store,
            sum(3 * len(new.source_text) + 2048 for _, new in batch),
            texts=_new_texts(knowledge, [new for _, new in batch]),
        )
        for (key, node_id, state), (_, new), (covered, n_secrets) in zip(stored, taken, safe, strict=True):
            lines = _masked_lines(new.source_text, covered.source_text) if n_secrets else ()
            yield key, node_id, state, n_secrets, lines


def _masked_lines(text: str, covered: str) -> tuple[int, ...]:
    from shepherd.secret_detection import masked_lines  # 20 ms, and few documents have secrets

    return masked_lines(text, covered)


def _new_texts(knowledge: Knowledge, incoming: Sequence[NewNode]) -> list[str]:
    """Return the parts of the nodes that are new or were read from something else the last time."""

    def unknown(connection: Connection) -> list[NewNode]:
        found = [(nodes.by_origin(connection, knowledge.user_id, new.origin), new) for new in incoming]
        return [new for known, new in found if known is None or known[1] != new.content_hash]

    found: list[NewNode] = []
    return [text for new in knowledge.look(unknown, found) for text in nodes.texts_of(new)]


def _put_node(
    connection: Connection, shelf: Shelf, new: NewNode, now: int, *, by_time: bool
) -> tuple[int, State]:
    known = nodes.by_origin(connection, shelf.user_id, new.origin)
    if known is None:
        return nodes.add(connection, shelf, new, now), "added"
    node_id, digest = known
    before = nodes.get(connection, shelf.user_id, node_id)
    if before is None or (
        before.updated_at >= (new.updated_at or 0) if by_time else digest == new.content_hash
    ):
        return node_id, "unchanged"
    values: dict[str, Any] = {
        "source_text": new.source_text,
        "metadata": {**before.metadata, **(new.metadata or {})},
    }
    # A document provides its text alone: the user may have changed the rest. Other programs' nodes are whole.
    if new.updated_at is not None:
        values |= {name: getattr(new, name) for name in ("title", *_NODE_TEXTS, "dimensions")}
    nodes.change(connection, shelf, node_id, values, now, content=new.content_hash)
    return node_id, "changed"


def _put_dimensions(connection: Connection, user_id: str, incoming: Iterable[Dimension]) -> None:
    """Add the dimensions that are missing, with their descriptions; others stay as they are."""
    known = {dimension.name for dimension in dimensions.all_of(connection, user_id)}
    for dimension in incoming:
        name = dimensions.cleaned(dimension.name)
        if name not in known:
            dimensions.ensure(connection, user_id, name)
            dimensions.change(
                connection,
                user_id,
                name,
                description=dimension.description,
                icon=dimension.icon,
                is_priority=dimension.is_priority,
            )


def _put_edge(connection: Connection, shelf: Shelf, edge: IncomingEdge, ids: Mapping[str, int]) -> None:
    """Add an edge, unless one of its nodes is missing or both are one."""
    from_id, to_id = ids.get(edge.from_key), ids.get(edge.to_key)
    if from_id is None or to_id is None or from_id == to_id:
        return
    edges.add(
        connection,
        shelf.user_id,
        shelf.number,
        from_id,
        to_id,
        type=edge.type if edge.type in EDGE_TYPES else "related_to",
        explanation=edge.explanation,
        confidence=max(min(1.0, edge.confidence), 0.0),  # in this order NaN becomes 1
        source=edge.source if edge.source in SOURCES else "agent",
        now=edge.created_at,
    )


# ---- from one user to another


def claim(connection: Connection, source: Shelf, target: Shelf, now: int) -> int:
    """Move everything of one user to another; return how many nodes the other did not have before.

    Of what both imported from the same place, the target's stays. In one transaction: at every moment each
    node belongs to exactly one of the two.
    """
    tags = dimensions.all_of(connection, source.user_id)
    _put_dimensions(connection, target.user_id, tags)
    rows = connection.execute("SELECT id, origin FROM nodes WHERE user_id = ? ORDER BY id", (source.user_id,))
    ids: dict[str, int] = {}
    n_new = 0
    for node_id, origin in rows:
        known = nodes.by_origin(connection, target.user_id, origin)
        node = nodes.get(connection, source.user_id, node_id, with_text=known is None)
        if known is None and node is not None:
            fields = {name: getattr(node, name) for name in (*_NODE, "dimensions")}
            ids[str(node_id)] = nodes.add(connection, target, NewNode(**fields, origin=origin), now)
            n_new += 1
        elif known is not None:
            ids[str(node_id)] = known[0]
    for edge in edges.of_node(connection, source.user_id, None, limit=1 << 40):
        ends = str(edge.from_node_id), str(edge.to_node_id)
        moved = IncomingEdge(
            *ends, edge.type, edge.explanation, edge.confidence, edge.source, edge.created_at
        )
        _put_edge(connection, target, moved, ids)
    for node_id, _ in rows:
        nodes.delete(connection, source, node_id)
    for tag in tags:
        dimensions.delete(connection, source.user_id, tag.name)
    return n_new


# ---- JSON lines


def records(knowledge: Knowledge) -> Iterator[dict[str, Any]]:
    """Yield all dimensions, nodes with their text, and edges, in pages: writers are not blocked."""
    yield {"type": "format", "format": _FORMAT, "version": 1}
    for dimension in knowledge.list_dimensions():
        yield {"type": "dimension", **{name: getattr(dimension, name) for name in _DIMENSION}}
    for node_id, origin in _rows(knowledge, "nodes", "id, origin"):
        node = knowledge.get_node(node_id, with_text=True)
        if node is not None:
            fields = {name: getattr(node, name) for name in _NODE}
            tags = list(node.dimensions)
            yield {"type": "node", "id": node_id, **fields, "origin": origin, "dimensions": tags}
    names = _EDGE.replace("type AS ", "").split(", ")  # `type` of a line is the kind of its record
    for row in _rows(knowledge, "edges", _EDGE):
        yield {"type": "edge", **dict(zip(names, row, strict=True))}


def _rows(knowledge: Knowledge, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    after = 0
    while True:

        def page(connection: Connection, after: int = after) -> list[tuple[Any, ...]]:
            return connection.execute(
                f"SELECT {columns} FROM {table} WHERE user_id = ? AND id > ? ORDER BY id LIMIT {_PAGE}",
                (knowledge.user_id, after),
            )

        nothing: list[tuple[Any, ...]] = []
        rows = knowledge.look(page, nothing)
        yield from rows
        if len(rows) < _PAGE:
            return
        after = rows[-1][0]


def is_export(beginning: bytes) -> bool:
    """Return True for a file that begins as `records` does."""
    try:
        head = json.loads(beginning.split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return False
    return isinstance(head, dict) and head.get("format") == _FORMAT


def read(knowledge: Knowledge, path: Path, progress: Callable[[int, int, str], None]) -> Iterator[Outcome]:
    """Import an export; yield the outcome of each node. DocumentError names the line that is damaged."""
    return put_graph(
        knowledge,
        _records_of(path, "dimension", _dimension),
        _records_of(path, "node", lambda line: (str(line["id"]), _node(line))),
        _records_of(path, "edge", _edge),
        total=sum(line.get("type") in ("node", "edge") for line in _records_of(path, "", dict)),
        progress=progress,
        by_time=True,
    )


def _dimension(line: dict[str, Any]) -> Dimension:
    description, icon = (_text(line.get(name, "")) for name in ("description", "icon"))
    return Dimension(_words(line["name"]), description, icon, bool(line.get("is_priority")))


def _node(line: dict[str, Any]) -> NewNode:
    return NewNode(
        title=_words(line["title"]),
        **{name: _text(line[name]) for name in (*_NODE_TEXTS, "source_text", "origin", "content_hash")},
        metadata=dict(line["metadata"]),
        dimensions=tuple(map(_words, line["dimensions"])),
        created_at=_moment(line["created_at"]),
        updated_at=_moment(line["updated_at"]),
    )


def _edge(line: dict[str, Any]) -> IncomingEdge:
    return IncomingEdge(
        str(line["from_node_id"]),
        str(line["to_node_id"]),
        _text(line["edge_type"]),
        _words(line["explanation"]),
        float(line["confidence"]),
        _text(line["source"]),
        _moment(line["created_at"]),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return storable(value)


def _words(value: Any) -> str:
    if not _text(value).strip():
        raise ValueError
    return _text(value)


def _moment(value: Any) -> int:
    if not isinstance(value, int) or not -1 << 53 < value < 1 << 53:
        raise ValueError
    return value


def _records_of(path: Path, type: str, make: Callable[[dict[str, Any]], _Record]) -> Iterator[_Record]:
    """Yield the result of `make` for each line of that type; for every line with ""."""
    with path.open("rb") as file:
        for number, written in enumerate(file, 1):
            try:
                line = json.loads(written)
                if type and line["type"] != type:
                    continue
                record = make(line)
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                raise DocumentError(
                    f"{path}: line {number} is damaged ({error.__class__.__name__})", hint="export it again"
                ) from error
            yield record
