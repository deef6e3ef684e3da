"""From what was read to nodes and edges: each known by its origin, so that a second time changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from shepherd.knowledge import dimensions, edges, nodes
from shepherd.knowledge.chunks import Shelf
from shepherd.knowledge.knowledge import Knowledge
from shepherd.knowledge.nodes import NewNode
from shepherd.knowledge.records import EDGE_TYPES, SOURCES, Dimension
from shepherd.transactions import Connection

__all__ = ["IncomingEdge", "State", "fingerprint", "put", "put_dimensions", "put_edges", "put_nodes"]

State = Literal["added", "changed", "unchanged"]

# Nodes of one transaction: what an interruption takes back, and what another writer waits for.
_BATCH = 50


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
    """What tells whether an incoming node is as it was the last time."""
    fields = {name: value for name, value in asdict(new).items() if name not in ("origin", "content_hash")}
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=list).encode()).hexdigest()


def put(knowledge: Knowledge, new: NewNode) -> tuple[int, State]:
    """Stores a document under its origin: what is known and was read from the same bytes stays as it is."""

    def store(connection: Connection, shelf: Shelf) -> tuple[int, State]:
        return _put_one(connection, shelf, new, knowledge.now())

    return knowledge.transaction(store, 3 * len(new.source_text) + 2048, texts=_new_texts(knowledge, [new]))


def put_nodes(
    knowledge: Knowledge, incoming: Iterable[tuple[str, NewNode]], *, by_time: bool = False
) -> Iterator[tuple[str, int, State]]:
    """Stores nodes of another program, some at a time; for each its key, its id, and what became of it.

    A known node is changed when it was read from something else than the last time; `by_time`: when it is
    newer.
    """
    waiting = iter(incoming)
    while batch := list(islice(waiting, _BATCH)):

        def store(
            connection: Connection, shelf: Shelf, batch: Sequence[tuple[str, NewNode]] = batch
        ) -> list[tuple[str, int, State]]:
            now = knowledge.now()
            return [(key, *_put_one(connection, shelf, new, now, by_time=by_time)) for key, new in batch]

        yield from knowledge.transaction(
            store,
            sum(3 * len(new.source_text) + 2048 for _, new in batch),
            texts=_new_texts(knowledge, [new for _, new in batch]),
        )


def _new_texts(knowledge: Knowledge, incoming: Sequence[NewNode]) -> list[str]:
    """The parts of those that are new or were read from something else the last time."""

    def unknown(connection: Connection) -> list[NewNode]:
        found = [(nodes.by_origin(connection, knowledge.user_id, new.origin), new) for new in incoming]
        return [new for known, new in found if known is None or known[1] != new.content_hash]

    found: list[NewNode] = []
    return [text for new in knowledge.look(unknown, found) for text in nodes.texts_of(new)]


def _put_one(
    connection: Connection, shelf: Shelf, new: NewNode, now: int, *, by_time: bool = False
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
    # A file knows its text; a person may have changed the rest. Another program's node is all of it.
    if new.updated_at is not None:
        names = ("title", "kind", "description", "notes", "link", "event_date", "dimensions")
        values |= {name: getattr(new, name) for name in names}
    nodes.change(connection, shelf, node_id, values, now, content=new.content_hash)
    return node_id, "changed"


def put_dimensions(knowledge: Knowledge, incoming: Iterable[Dimension]) -> None:
    """Makes those that are not there, with what they say; others stay as they are."""

    def store(connection: Connection, shelf: Shelf) -> None:
        known = {dimension.name for dimension in dimensions.all_of(connection, shelf.user_id)}
        for dimension in incoming:
            name = dimensions.cleaned(dimension.name)
            if name in known:
                continue
            dimensions.ensure(connection, shelf.user_id, name)
            dimensions.change(
                connection,
                shelf.user_id,
                name,
                description=dimension.description,
                icon=dimension.icon,
                is_priority=dimension.is_priority,
            )

    knowledge.transaction(store)


def put_edges(
    knowledge: Knowledge,
    incoming: Iterable[IncomingEdge],
    ids: Mapping[str, int],
    progress: Callable[[int], None],
) -> int:
    """Stores edges between nodes that are there, some at a time; how many were new."""
    waiting = iter(incoming)
    n_new = done = 0
    while batch := list(islice(waiting, 10 * _BATCH)):

        def store(connection: Connection, shelf: Shelf, batch: Sequence[IncomingEdge] = batch) -> int:
            return sum(_put_edge(connection, shelf, edge, ids) for edge in batch)

        n_new += knowledge.transaction(store, 256 * len(batch))
        done += len(batch)
        progress(done)
    return n_new


def _put_edge(connection: Connection, shelf: Shelf, edge: IncomingEdge, ids: Mapping[str, int]) -> bool:
    ends = ids.get(edge.from_key), ids.get(edge.to_key)
    if None in ends or ends[0] == ends[1]:
        return False
    return edges.add(
        connection,
        shelf.user_id,
        shelf.number,
        ids[edge.from_key],
        ids[edge.to_key],
        type=edge.type if edge.type in EDGE_TYPES else "related_to",
        explanation=edge.explanation,
        confidence=max(min(1.0, edge.confidence), 0.0),  # in this order NaN becomes 1
        source=edge.source if edge.source in SOURCES else "agent",
        now=edge.created_at,
    )[1]
