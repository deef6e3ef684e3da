"""The caller's own knowledge over HTTP: nodes, edges, dimensions, the focus, search; and files of all kinds.

As with memories, `?user=` names one of the key owner's users, and what belongs to others is not found.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict
from pathlib import PurePath
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import Field

from shepherd.encryption import scratch_folder
from shepherd.errors import ShepherdError
from shepherd.knowledge import Knowledge, Node, attached_block
from shepherd.knowledge.importing import import_upload, read_upload
from shepherd.knowledge.transfer import records
from shepherd.sequences import sequence_of
from shepherd.server.description import JSON_LINES, described
from shepherd.server.errors import error_of, missing, problem_of
from shepherd.server.http import StrictBody, event
from shepherd.server.resources import Limit, Offset, Search, Text, checked
from shepherd.server.state import OwnMemory
from shepherd.server.streaming import blocking

__all__ = ["UPLOADS", "files", "router"]

_log = logging.getLogger(__name__)

router = APIRouter(prefix="/v1/knowledge")
# Files, whose names are parameters and whose bytes are the body.
files = APIRouter(prefix="/v1")
UPLOADS = frozenset({"/v1/documents", "/v1/memory/import", "/v1/knowledge/import"})

_MOST_NAMED = 1000
_Names = Annotated[list[str], Field(max_length=_MOST_NAMED)]
# A document; the server's limit of a request's size holds as well.
_Document = Annotated[str, Field(max_length=1 << 26)]


class NewNode(StrictBody):
    """A node to add."""

    title: Text
    kind: Text = ""
    description: Text = ""
    notes: Text = ""
    source_text: _Document = ""
    link: Text = ""
    event_date: Text = ""
    metadata: dict[str, Any] | None = None
    dimensions: _Names = Field(default_factory=list)


class NodeChange(StrictBody):
    """New values of a node's fields; others stay."""

    title: Text | None = None
    kind: Text | None = None
    description: Text | None = None
    notes: Text | None = None
    append_notes: Text | None = None
    source_text: _Document | None = None
    link: Text | None = None
    event_date: Text | None = None
    metadata: dict[str, Any] | None = None
    dimensions: _Names | None = None


class NewEdge(StrictBody):
    """An edge to add, from one node to the other."""

    from_node_id: int
    to_node_id: int
    explanation: Text
    type: str = "related_to"
    confidence: float = Field(default=1.0, ge=0, le=1)


class Focus(StrictBody):
    """Nodes that are put before every message."""

    node_ids: list[int] = Field(max_length=_MOST_NAMED)


def _read(own: OwnMemory) -> Knowledge:
    return Knowledge(own.memory.transactions, own.user)


def _write(own: OwnMemory) -> Knowledge:
    return Knowledge(own.writable.transactions, own.user)


# ---- nodes


@router.get("/nodes")
@described("NodeList")
def list_nodes(
    own: OwnMemory,
    kind: str | None = None,
    dimension: str | None = None,
    limit: Limit = 50,
    offset: Offset = 0,
) -> dict[str, Any]:
    """List nodes, the latest changed first."""
    knowledge = _read(own)
    found = knowledge.list_nodes(kind=kind, dimension=dimension, limit=limit, offset=offset)
    total = knowledge.count_nodes(kind=kind, dimension=dimension)
    return {"data": [asdict(node) for node in found], "total": total}


@router.post("/nodes", status_code=201)
@described("StoredNode")
def add_node(own: OwnMemory, new: NewNode) -> dict[str, Any]:
    """Add a node; its text is divided into chunks that a search finds.

    Secrets, such as passwords and codes, are masked with `•`; `secrets` is their number.
    """
    knowledge, values = _write(own), new.model_dump()
    node = knowledge.add_node(**values)
    return {**asdict(node), "secrets": knowledge.count_secrets(values, is_new=True)}


@router.get("/nodes/{node_id}")
@described("NodeWithEdges", 404)
def show_node(own: OwnMemory, node_id: int) -> dict[str, Any]:
    """Return a node with its text and its latest edges; `n_edges` is the number of all."""
    knowledge = _read(own)
    node = _node(knowledge, node_id, with_text=True)
    return {**asdict(node), "edges": [asdict(edge) for edge in knowledge.list_edges(node_id)]}


@router.patch("/nodes/{node_id}")
@described("StoredNode", 404)
def change_node(own: OwnMemory, node_id: int, change: NodeChange) -> dict[str, Any]:
    """Change fields of a node; `secrets` is the number of secrets in the request that were masked."""
    knowledge, values = _write(own), change.model_dump(exclude_none=True)
    if not knowledge.update_node(checked(node_id), **values):
        raise missing("node")
    return {**asdict(_node(knowledge, node_id)), "secrets": knowledge.count_secrets(values)}


@router.delete("/nodes/{node_id}")
@described("DeletedNumber", 404)
def delete_node(own: OwnMemory, node_id: int) -> dict[str, Any]:
    """Delete a node with its edges and chunks."""
    if not _write(own).delete_node(checked(node_id)):
        raise missing("node")
    return {"id": node_id, "deleted": True}


# ---- edges, dimensions, hubs, focus


@router.get("/edges")
@described("EdgeList", 404)
def list_edges(own: OwnMemory, node: int | None = None, limit: Limit = 100) -> dict[str, Any]:
    """List the edges of a node, or all, the newest first."""
    found = _read(own).list_edges(None if node is None else checked(node), limit=limit)
    return {"data": [asdict(edge) for edge in found]}


@router.post("/edges", status_code=201)
@described("Edge", 404)
def connect(own: OwnMemory, new: NewEdge) -> dict[str, Any]:
    """Connect two nodes; return an existing edge of that type unchanged."""
    knowledge = _write(own)
    for node_id in (new.from_node_id, new.to_node_id):
        _node(knowledge, node_id)
    return asdict(knowledge.connect(**new.model_dump()))


@router.delete("/edges/{edge_id}")
@described("DeletedNumber", 404)
def delete_edge(own: OwnMemory, edge_id: int) -> dict[str, Any]:
    """Delete an edge."""
    if not _write(own).delete_edge(checked(edge_id)):
        raise missing("edge")
    return {"id": edge_id, "deleted": True}


@router.get("/dimensions")
@described("DimensionList")
def list_dimensions(own: OwnMemory) -> dict[str, Any]:
    """List the tags, priority ones first."""
    return {"data": [asdict(dimension) for dimension in _read(own).list_dimensions()]}


@router.get("/hubs")
@described("HubList")
def list_hubs(own: OwnMemory, limit: Limit = 10) -> dict[str, Any]:
    """List the nodes with the most edges."""
    return {"data": [asdict(hub) for hub in _read(own).hubs(limit)]}


@router.get("/focus")
@described("FocusedNodes")
def show_focus(own: OwnMemory) -> dict[str, Any]:
    """List the nodes in focus, the primary one first."""
    return {"data": [asdict(focused.node) for focused in _read(own).focused()]}


@router.put("/focus")
@described("FocusedNodes", 404)
def set_focus(own: OwnMemory, focus: Focus) -> dict[str, Any]:
    """Set the nodes in focus."""
    chosen = _write(own).focus([checked(node_id) for node_id in focus.node_ids])
    return {"data": [asdict(node) for node in chosen]}


@router.post("/search")
@described("FoundChunks")
def search(own: OwnMemory, wanted: Search) -> dict[str, Any]:
    """Return the chunks that match the words of the query, best first."""
    found = _read(own).search(wanted.query, wanted.max_results, min_relevance=wanted.threshold)
    return {"data": [{**asdict(result), "id": sequence_of(result.id)} for result in found]}


def _node(knowledge: Knowledge, node_id: int, *, with_text: bool = False) -> Node:
    node = knowledge.get_node(checked(node_id), with_text=with_text)
    if node is None:
        raise missing("node")
    return node


# ---- files

_Name = Annotated[str, Query(min_length=1, max_length=500)]
_Format = Literal["auto", "shepherd", "chatgpt", "mem0", "mcp", "llm"]
_Progress = Callable[[int, int], None]
_MOST_PROBLEMS = 10


@files.post("/documents")
@described("DocumentText", takes_file=True)
async def read_document(request: Request, name: _Name) -> dict[str, Any]:
    """Return the text of a document (text, Markdown, HTML, PDF); nothing is stored.

    `block` is what the model reads where the document goes with a message.
    """
    data = await request.body()
    limit = request.app.state.shepherd.config.knowledge_max_mb
    document = await blocking(lambda: read_upload(data, name, limit << 20), is_large=True)
    return {
        "name": name,
        "title": document.title,
        "kind": document.kind,
        "text": document.text,
        "block": attached_block(name, document.text),
    }


@files.post("/memory/import")
@described("ImportedMemories", events="ImportEvent", streams_with="progress", takes_file=True)
async def import_memories(
    own: OwnMemory, request: Request, name: _Name = "upload", format: _Format = "auto", progress: bool = False
) -> Response:
    """Import memories and facts from an export of Shepherd, ChatGPT, mem0, MCP memory or llm.

    With `progress`, the answer is a stream of events: `progress` with what is done, then `result` or `error`.
    """
    memory, data = own.writable, await request.body()

    def work(tell: _Progress) -> dict[str, Any]:
        with scratch_folder() as folder:
            # A ZIP archive or a database must be a file. Not every name of a file elsewhere can be one here.
            path = folder / "upload"
            path.write_bytes(data)
            try:
                return asdict(memory.import_file(path, own.user, format=format, progress=tell))
            except ShepherdError as error:
                shown = PurePath(name).name or path.name
                error.args = (str(error).replace(str(path), shown), *error.args[1:])
                raise

    return await _imported(request, work, progress)


@files.post("/knowledge/import")
@described("ImportedKnowledge", events="ImportEvent", streams_with="progress", takes_file=True)
async def import_knowledge(own: OwnMemory, request: Request, name: _Name, progress: bool = False) -> Response:
    """Import a document (text, Markdown, HTML, PDF), an export of knowledge, or MCP's memory.jsonl, as nodes.

    With `progress`, the answer is a stream of events, as that of an import of memories.
    """
    knowledge, data = _write(own), await request.body()
    limit = request.app.state.shepherd.config.knowledge_max_mb

    def work(tell: _Progress) -> dict[str, Any]:
        states: Counter[str] = Counter()
        nodes: list[int] = []
        problems: list[str] = []
        n_secrets = 0
        for outcome in import_upload(
            knowledge, data, name, limit << 20, lambda done, total, _: tell(done, total)
        ):
            states[outcome.state] += 1
            nodes.append(outcome.node_id)
            n_secrets += outcome.secrets
            if outcome.reason:
                problems.append(outcome.reason)
        counts = {state: states[state] for state in ("added", "changed", "unchanged", "failed")}
        return {
            **counts,
            "secrets": n_secrets,
            "nodes": nodes[:_MOST_NAMED],
            "problems": problems[:_MOST_PROBLEMS],
        }

    return await _imported(request, work, progress)


@files.get("/knowledge/export")
@described(media_type=JSON_LINES)
def export_knowledge(own: OwnMemory) -> StreamingResponse:
    """Return all knowledge of the user as JSON lines, which `shepherd knowledge import` reads."""
    entries = records(_read(own))
    lines = (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)
    return StreamingResponse(lines, media_type="application/jsonl")


async def _imported(
    request: Request, work: Callable[[_Progress], dict[str, Any]], has_progress: bool
) -> Response:
    """Return the result of an import, or a stream of its progress that ends with the result."""
    if not has_progress:
        return JSONResponse(await blocking(lambda: work(lambda done, total: None)))
    loop = asyncio.get_running_loop()
    told: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()

    def tell(done: int, total: int) -> None:
        loop.call_soon_threadsafe(told.put_nowait, (done, total))

    async def events() -> AsyncGenerator[bytes, None]:
        working = asyncio.ensure_future(blocking(lambda: work(tell)))
        working.add_done_callback(lambda _: told.put_nowait(None))
        while (amount := await told.get()) is not None:
            yield event({"progress": {"done": amount[0], "total": amount[1]}})
        try:
            yield event({"result": working.result()})
        except Exception as error:
            # The status is sent already: a stream that just broke off would look like a lost connection.
            if not isinstance(error, ShepherdError):
                _log.exception("an import failed")
            yield event(error_of(problem_of(error), request.url.path))
        yield event("[DONE]")

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})
