"""One's own knowledge over HTTP: nodes, edges, dimensions, what is in focus, and search.

As with memories, `?user=` names one of the key owner's users, and what is somebody else's is not found.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from shepherd.knowledge import Knowledge, Node
from shepherd.server.resources import LONGEST_TEXT, Body, Limit, Offset, OwnMemory, checked, missing

__all__ = ["router"]

router = APIRouter(prefix="/v1/knowledge")

# A document; the server's own limit of a request is beside it.
_LONGEST_SOURCE = 1 << 26
_MOST_NAMED = 1000


class NewNode(Body):
    """A node to add."""

    title: str = Field(max_length=LONGEST_TEXT)
    kind: str = Field(default="", max_length=LONGEST_TEXT)
    description: str = Field(default="", max_length=LONGEST_TEXT)
    notes: str = Field(default="", max_length=LONGEST_TEXT)
    source_text: str = Field(default="", max_length=_LONGEST_SOURCE)
    link: str = Field(default="", max_length=LONGEST_TEXT)
    event_date: str = Field(default="", max_length=LONGEST_TEXT)
    metadata: dict[str, Any] | None = None
    dimensions: list[str] = Field(default_factory=list, max_length=_MOST_NAMED)


class NodeChange(Body):
    """What is to be different about a node; what is not named stays."""

    title: str | None = Field(default=None, max_length=LONGEST_TEXT)
    kind: str | None = Field(default=None, max_length=LONGEST_TEXT)
    description: str | None = Field(default=None, max_length=LONGEST_TEXT)
    notes: str | None = Field(default=None, max_length=LONGEST_TEXT)
    append_notes: str | None = Field(default=None, max_length=LONGEST_TEXT)
    source_text: str | None = Field(default=None, max_length=_LONGEST_SOURCE)
    link: str | None = Field(default=None, max_length=LONGEST_TEXT)
    event_date: str | None = Field(default=None, max_length=LONGEST_TEXT)
    metadata: dict[str, Any] | None = None
    dimensions: list[str] | None = Field(default=None, max_length=_MOST_NAMED)


class NewEdge(Body):
    """An edge to add; it reads from the one node to the other."""

    from_node_id: int
    to_node_id: int
    explanation: str = Field(max_length=LONGEST_TEXT)
    type: str = "related_to"
    confidence: float = Field(default=1.0, ge=0, le=1)


class KnowledgeSearch(Body):
    """What to look for."""

    query: str = Field(max_length=LONGEST_TEXT)
    max_results: int = Field(default=10, ge=1, le=100)
    threshold: float = Field(default=0.0, ge=0, le=1)


class Focus(Body):
    """The nodes that every message is to have before it."""

    node_ids: list[int] = Field(max_length=_MOST_NAMED)


def _read(own: OwnMemory) -> Knowledge:
    return Knowledge(own.memory.transactions, own.user)


def _write(own: OwnMemory) -> Knowledge:
    return Knowledge(own.writable.transactions, own.user)


# ---- nodes


@router.get("/nodes")
def list_nodes(
    own: OwnMemory,
    kind: str | None = None,
    dimension: str | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """The latest changed first."""
    knowledge = _read(own)
    found = knowledge.list_nodes(kind=kind, dimension=dimension, limit=limit, offset=offset)
    total = knowledge.count_nodes(kind=kind, dimension=dimension)
    return {"data": [asdict(node) for node in found], "total": total}


@router.post("/nodes", status_code=201)
def add_node(own: OwnMemory, new: NewNode) -> dict[str, Any]:
    """Adds a node; its text is cut into chunks that a search finds."""
    return asdict(_write(own).add_node(**new.model_dump()))


@router.get("/nodes/{node_id}")
def show_node(own: OwnMemory, node_id: int) -> dict[str, Any]:
    """A node with its text and its latest edges; `n_edges` is how many it has."""
    knowledge = _read(own)
    node = _node(knowledge, node_id, with_text=True)
    return {**asdict(node), "edges": [asdict(edge) for edge in knowledge.list_edges(node_id)]}


@router.patch("/nodes/{node_id}")
def change_node(own: OwnMemory, node_id: int, change: NodeChange) -> dict[str, Any]:
    """Gives a node new values of its fields."""
    knowledge = _write(own)
    if not knowledge.update_node(checked(node_id), **change.model_dump(exclude_none=True)):
        raise missing("node")
    return asdict(_node(knowledge, node_id))


@router.delete("/nodes/{node_id}")
def delete_node(own: OwnMemory, node_id: int) -> dict[str, Any]:
    """Removes a node with its edges and chunks."""
    if not _write(own).delete_node(checked(node_id)):
        raise missing("node")
    return {"id": node_id, "deleted": True}


# ---- edges, dimensions, hubs, focus


@router.get("/edges")
def list_edges(own: OwnMemory, node: int | None = None, limit: Limit = 100) -> dict[str, Any]:
    """Edges at either end of a node, or all, the newest first."""
    found = _read(own).list_edges(None if node is None else checked(node), limit=limit)
    return {"data": [asdict(edge) for edge in found]}


@router.post("/edges", status_code=201)
def connect(own: OwnMemory, new: NewEdge) -> dict[str, Any]:
    """Connects two nodes; an edge of that type that is there already comes back as it is."""
    knowledge = _write(own)
    for node_id in (new.from_node_id, new.to_node_id):
        _node(knowledge, node_id)
    return asdict(knowledge.connect(**new.model_dump()))


@router.delete("/edges/{edge_id}")
def delete_edge(own: OwnMemory, edge_id: int) -> dict[str, Any]:
    """Removes an edge."""
    if not _write(own).delete_edge(checked(edge_id)):
        raise missing("edge")
    return {"id": edge_id, "deleted": True}


@router.get("/dimensions")
def list_dimensions(own: OwnMemory) -> dict[str, Any]:
    """The tags, priority ones first."""
    return {"data": [asdict(dimension) for dimension in _read(own).list_dimensions()]}


@router.get("/hubs")
def list_hubs(own: OwnMemory, limit: Limit = 10) -> dict[str, Any]:
    """The nodes with the most edges."""
    return {"data": [asdict(hub) for hub in _read(own).hubs(limit)]}


@router.get("/focus")
def show_focus(own: OwnMemory) -> dict[str, Any]:
    """The nodes in focus, the primary one first."""
    return {"data": [asdict(focused.node) for focused in _read(own).focused()]}


@router.put("/focus")
def set_focus(own: OwnMemory, focus: Focus) -> dict[str, Any]:
    """Makes these nodes the ones in focus, and no others."""
    chosen = _write(own).focus([checked(node_id) for node_id in focus.node_ids])
    return {"data": [asdict(node) for node in chosen]}


@router.post("/search")
def search(own: OwnMemory, wanted: KnowledgeSearch) -> dict[str, Any]:
    """The chunks that fit the words of the query, best first."""
    found = _read(own).search(wanted.query, wanted.max_results, min_relevance=wanted.threshold)
    return {"data": [asdict(result) for result in found]}


def _node(knowledge: Knowledge, node_id: int, *, with_text: bool = False) -> Node:
    node = knowledge.get_node(checked(node_id), with_text=with_text)
    if node is None:
        raise missing("node")
    return node
