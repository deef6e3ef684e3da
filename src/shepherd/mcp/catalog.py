"""Catalog of an MCP client: the tools over one user's memory and knowledge, their hints, and resources."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from mcp_types import ToolAnnotations

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.tools import Toolbox, ToolResult, knowledge_tools, memory_tools
from shepherd.types import Tool, ToolCall

__all__ = ["Catalog", "Resource", "hints_of"]


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


_log = logging.getLogger(__name__)

_LATEST = 20
_SCHEME = "shepherd://"
_ONE = re.compile(rf"{_SCHEME}(memories|nodes)/([0-9]{{1,18}})")


class Resource(NamedTuple):
    """Something to read; in the URI of a template stands `{id}`."""

    uri: str
    name: str
    description: str


class Catalog:
    """The tools and resources of one user; with `is_read_only`, none that changes something."""

    RESOURCES = (
        Resource(f"{_SCHEME}facts", "facts", "All facts about the user, by key."),
        Resource(f"{_SCHEME}memories", "memories", f"The {_LATEST} memories that were stored last."),
        Resource(f"{_SCHEME}nodes", "nodes", f"The {_LATEST} nodes of the knowledge graph changed last."),
    )
    TEMPLATES = (
        Resource(f"{_SCHEME}memories/{{id}}", "memory", "One memory by its number."),
        Resource(f"{_SCHEME}nodes/{{id}}", "node", "One node of the knowledge graph, with its text."),
    )

    def __init__(self, memory: Memory, user_id: str, *, is_read_only: bool, keeps_secrets: bool) -> None:
        self._memory, self._user_id = memory, user_id
        self._knowledge = Knowledge(memory.transactions, user_id)
        writes = not is_read_only

        def refusal() -> str:
            return ""

        entries = [
            *memory_tools(memory, user_id, refusal=refusal, writes=writes, keeps_secrets=keeps_secrets),
            *knowledge_tools(self._knowledge, refusal=refusal, writes=writes),
        ]
        self._toolbox = Toolbox(
            entry for entry in entries if writes or hints_of(entry.tool.name).read_only_hint
        )

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Of memory and facts, then of knowledge."""
        return self._toolbox.tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry a call out; never raises for what it says, or for what the tool finds."""
        result = self._toolbox.call(ToolCall("", name, _dumped(arguments)))
        if result.error is not None:  # it may name files, which are nothing for a model
            _log.error("%s: %s", name, result.error)
        return result

    def read(self, uri: str) -> str:
        """A resource as JSON; UsageError where there is none."""
        if uri == f"{_SCHEME}facts":
            return _dumped({fact.key: fact.value for fact in self._memory.get_all_facts(self._user_id)})
        if uri == f"{_SCHEME}memories":
            return _dumped(list(map(asdict, self._memory.list_memories(self._user_id, limit=_LATEST))))
        if uri == f"{_SCHEME}nodes":
            return _dumped(list(map(asdict, self._knowledge.list_nodes(limit=_LATEST))))
        found = self._one(uri)
        if found is None:
            known = ", ".join(resource.uri for resource in (*self.RESOURCES, *self.TEMPLATES))
            raise UsageError(f"there is no resource {uri!a}", hint=f"resources: {known}")
        return _dumped(found)

    def _one(self, uri: str) -> object:
        named = _ONE.fullmatch(uri)
        if named is None:
            return None
        if named[1] == "nodes":
            node = self._knowledge.get_node(int(named[2]), with_text=True)
            return None if node is None else asdict(node)
        record = self._memory.get_memory(int(named[2]), self._user_id)
        return None if record is None else asdict(record)


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
