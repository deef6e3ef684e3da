"""Tools of the model, and the one place where their calls are checked and run.

This package knows memory and knowledge, not models, templates or screens. A call cannot choose the user.
"""

from __future__ import annotations

from shepherd.tools.builtin import (
    LEARNED_TOOLS,
    MEMORY_TOOLS,
    conversation_tools,
    decide,
    knowledge_tools,
    learned_tools,
    memory_tools,
)
from shepherd.tools.entity_graph import (
    GRAPH_READS,
    GRAPH_WRITES,
    entity_tools,
    graph_output,
    graph_text,
    whole_graph,
)
from shepherd.tools.mcp_servers import Confirm, ServerSpec, chosen_servers, opened_servers, read_servers
from shepherd.tools.toolbox import AssistantTool, Toolbox, ToolResult

__all__ = [
    "GRAPH_READS",
    "GRAPH_WRITES",
    "LEARNED_TOOLS",
    "MEMORY_TOOLS",
    "AssistantTool",
    "Confirm",
    "ServerSpec",
    "ToolResult",
    "Toolbox",
    "chosen_servers",
    "conversation_tools",
    "decide",
    "entity_tools",
    "graph_output",
    "graph_text",
    "knowledge_tools",
    "learned_tools",
    "memory_tools",
    "opened_servers",
    "read_servers",
    "whole_graph",
]
