"""Records of knowledge. Times are unix seconds, ids the user's own numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "EDGE_TYPES",
    "SOURCES",
    "ChunkResult",
    "Dimension",
    "Edge",
    "Hub",
    "Node",
    "Outcome",
    "Part",
]

# Meanings of an edge, read from its first node to its second.
EDGE_TYPES = (
    "created_by",
    "features",
    "part_of",
    "source_of",
    "extends",
    "supports",
    "contradicts",
    "related_to",
)
# Authors of an edge.
SOURCES = ("user", "agent", "mcp", "similarity")

Part = Literal["text", "card"]


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `source_text` is empty unless it was requested; `text_length` is its length in characters.

    `index_state`: none (no text), chunked, embedded, or failed, with `index_error`.
    """

    id: int
    title: str
    kind: str = ""
    description: str = ""
    notes: str = ""
    link: str = ""
    event_date: str = ""
    dimensions: tuple[str, ...] = ()
    n_edges: int = 0
    text_length: int = 0
    index_state: str = "none"
    index_error: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    content_hash: str = ""
    created_at: int = 0
    updated_at: int = 0
    touched_at: int = 0
    source_text: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge from one node to another, with the titles of both."""

    id: int
    from_node_id: int
    to_node_id: int
    type: str
    explanation: str
    confidence: float
    source: str
    created_at: int
    from_title: str = ""
    to_title: str = ""


@dataclass(frozen=True, slots=True)
class Dimension:
    """A tag of `n_nodes` nodes."""

    name: str
    description: str = ""
    icon: str = ""
    is_priority: bool = False
    n_nodes: int = 0


@dataclass(frozen=True, slots=True)
class Hub:
    """A node with many edges at either end."""

    id: int
    title: str
    n_edges: int


@dataclass(frozen=True, slots=True)
class ChunkResult:
    """A chunk that a search found. `text` is `[start_char:end_char]` of the node's `part`.

    Results are ranked by `score`; `relevance` is 0..1. `date` is the node's event date or empty.
    """

    id: int
    node_id: int
    title: str
    part: Part
    idx: int
    start_char: int
    end_char: int
    text: str
    score: float
    relevance: float
    date: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of one imported node or document: added, changed, unchanged, empty, failed, gone or skipped.

    `reason` says why, or what could not be read of one that was added or changed. gone: a node is there, its
    file is not any more. skipped: a folder has it, and it is of another kind. `secrets` in its texts, such as
    passwords and keys, were covered, in these `secret_lines` of a document.
    """

    name: str
    state: Literal["added", "changed", "unchanged", "empty", "failed", "gone", "skipped"]
    node_id: int = 0
    reason: str = ""
    secrets: int = 0
    secret_lines: tuple[int, ...] = ()
