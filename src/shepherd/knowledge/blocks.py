"""Text of the blocks that a model sees: hubs, focused nodes, chunks.

Stored text is data: a title cannot close its marker, a chunk cannot close its fence, and neither can pose as
another block, a role or a special token of the model (see shepherd.escaping).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from shepherd.escaping import ATTACHED, escape_fact_key, escape_text, without_openings
from shepherd.knowledge.records import ChunkResult, Hub, Node
from shepherd.types import FocusedNode

__all__ = [
    "Focused",
    "attached_block",
    "background_block",
    "chunk_block",
    "focus_block",
    "focused_in",
    "marker",
    "workflow_block",
]

PREVIEW_WORDS = 25
MAX_TITLE = 200
MAX_LINK = 500
MAX_DESCRIPTION = 300
MAX_LINE = 2000
MAX_DIMENSION = 60
MAX_PREVIEW = 400

_QUOTE_TWIN = {ord('"'): "\uff02"}
_EQUALS_TWIN = "\uff1d"
_BLOCK_OPENER = re.compile(r"^\s*={3,}")
_BACKTICKS = re.compile("`+")
# A line of a node in the block of those in focus; their previews are behind it, or on lines of their own.
_FOCUSED = re.compile(r'^(?:### Primary: |- )\[NODE:(\d+):"(.*?)"\]', re.MULTILINE)
_STATES = {
    "none": "not chunked",
    "chunked": "chunked",
    "embedded": "chunked (embeddings available)",
    "failed": "failed",
}


class Focused(NamedTuple):
    """A node that the user has open, and the beginning of its content."""

    node: Node
    beginning: str


def marker(node_id: int, title: str) -> str:
    """Return `[NODE:4523:"How RAG systems work"]`; the first `"]` ends it, whatever the title is."""
    return f'[NODE:{node_id}:"{escape_text(title, MAX_TITLE).translate(_QUOTE_TWIN)}"]'


def background_block(hubs: Sequence[Hub]) -> str:
    """Return the block of the most-connected nodes; "" for none. It depends on the nodes alone."""
    if not hubs:
        return ""
    nodes = "node" if len(hubs) == 1 else "nodes"
    lines = [f"{marker(hub.id, hub.title)} (edges: {hub.n_edges})" for hub in hubs]
    return (
        "=== BACKGROUND CONTEXT ===\n"
        f"Top {len(hubs)} most-connected {nodes} (important knowledge hubs)."
        " Use query_nodes/get_nodes_by_id if relevant.\n\n" + "\n".join(lines)
    )


def workflow_block(workflows: Sequence[tuple[int, str, str]]) -> str:
    """Return the block of workflows, by id, title and description; "" for none."""
    if not workflows:
        return ""
    lines = [
        f"{marker(node_id, title)} {escape_fact_key(description, MAX_DESCRIPTION)}".rstrip()
        for node_id, title, description in workflows
    ]
    return (
        "=== WORKFLOWS ===\n"
        "Procedures of the user. When a request calls for one, read its steps with get_nodes_by_id and follow"
        " them.\n\n" + "\n".join(lines)
    )


def focus_block(focused: Sequence[Focused]) -> str:
    """Return the block of the open nodes, the first as the primary one; "" for none."""
    if not focused:
        return ""
    primary, *others = focused
    lines = ["=== FOCUSED NODES ===", "", f"### Primary: {marker(primary.node.id, primary.node.title)}"]
    if preview := _preview(primary):
        lines.append(f"Preview: {preview}")
    if primary.node.link:
        lines.append(f"Link: {escape_text(primary.node.link, MAX_LINK)}")
    if primary.node.dimensions:
        names = (escape_fact_key(name, MAX_DIMENSION) for name in primary.node.dimensions)
        lines.append(f"Dimensions: {', '.join(names)}")
    lines.append(f"Chunk status: {_STATES.get(primary.node.index_state, 'not chunked')}")
    if others:
        lines += ["", "### Also Open:"]
        for other in others:
            preview = _preview(other)
            lines.append(f"- {marker(other.node.id, other.node.title)}{f' ({preview})' if preview else ''}")
    return "\n".join(lines)


def focused_in(block: str) -> list[FocusedNode]:
    """Return the nodes that a block of `focus_block` shows, with their titles as they are shown there."""
    return [FocusedNode(int(number), title) for number, title in _FOCUSED.findall(block)]


def chunk_block(chunk: ChunkResult) -> str:
    """Return `Source: Title (YYYY-MM-DD)`, then the chunk between two fences that do not occur in it."""
    dated = f" ({escape_text(chunk.date, 10)})" if chunk.date else ""
    return f"Source: {escape_text(chunk.title, MAX_TITLE)}{dated}\n{_fenced(_content(chunk.text))}"


def attached_block(name: str, text: str) -> str:
    """Return `[attached: name]`, then the text between two fences that do not occur in it.

    The user has chosen the document, and may ask for each character of it: only what would open a block of
    memory is changed.
    """
    return f"{ATTACHED}{escape_text(name, MAX_TITLE)}]\n{_fenced(without_openings(text).strip(chr(10)))}"


def _fenced(content: str) -> str:
    longest = max((len(run) for run in _BACKTICKS.findall(content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{content}\n{fence}"


def _preview(focused: Focused) -> str:
    words = focused.beginning.split(maxsplit=PREVIEW_WORDS)
    cut = "..." if len(words) > PREVIEW_WORDS else ""
    text = escape_text(" ".join(words[:PREVIEW_WORDS]), MAX_PREVIEW)
    return f"{text}{cut}" if text else ""


def _content(text: str) -> str:
    """Return the lines of a chunk, each escaped by itself, with their indentation and single blank lines."""
    lines: list[str] = []
    for line in text.expandtabs(4).splitlines():
        escaped = escape_text(line, MAX_LINE)
        if _BLOCK_OPENER.match(escaped):
            escaped = escaped.replace("=", _EQUALS_TWIN)
        if escaped:
            lines.append(" " * (len(line) - len(line.lstrip(" "))) + escaped)
        elif lines and lines[-1]:
            lines.append("")
    return "\n".join(lines).strip("\n")
