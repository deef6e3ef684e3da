"""Who gets what: one row per role."""

from __future__ import annotations

from typing import NamedTuple

from shepherd.errors import UsageError

__all__ = ["ROLES", "RoleRow", "role_of"]


class RoleRow(NamedTuple):
    """What one role gets. `tools`: names of knowledge tools, or None for all there are."""

    has_background: bool
    has_workflows: bool
    tools: frozenset[str] | None


_READING = frozenset({"query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions"})
_WRITING = frozenset({"create_node", "update_node", "create_edge", "update_edge"})

ROLES = {
    # Talks with the user: everything.
    "orchestrator": RoleRow(has_background=True, has_workflows=True, tools=None),
    # Carries one task out: reads and writes.
    "executor": RoleRow(has_background=False, has_workflows=False, tools=_READING | _WRITING),
    # Thinks a task over: reads, and notes what it found.
    "planner": RoleRow(has_background=False, has_workflows=False, tools=_READING | {"update_node"}),
}


def role_of(name: str) -> RoleRow:
    """The row of a role."""
    if name not in ROLES:
        raise UsageError(f"there is no role {name!a}", hint="roles: " + ", ".join(ROLES))
    return ROLES[name]
