"""What each tool does to what is stored, as MCP's annotations say it.

Clients ask their users before they let a tool destroy something.
"""

from __future__ import annotations

from mcp_types import ToolAnnotations

__all__ = ["hints_of"]

_READS = frozenset(
    (
        "search_memory", "get_fact",
        "query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions", "get_context",
    )
)  # fmt: skip
# Nothing that was there is lost: set_fact keeps the older values.
_ADDS = frozenset(("store_memory", "set_fact", "create_node", "create_edge", "create_dimension"))
# Twice is once.
_REPEATABLE = frozenset(("clear_memory", "set_fact", "clear_fact", "delete_dimension"))


def hints_of(name: str) -> ToolAnnotations:
    """The annotations of a tool; one that is not known here is said to destroy."""
    reads = name in _READS
    return ToolAnnotations(
        title=name.replace("_", " ").capitalize(),
        read_only_hint=reads,
        destructive_hint=not reads and name not in _ADDS,
        idempotent_hint=reads or name in _REPEATABLE,
        open_world_hint=False,
    )
