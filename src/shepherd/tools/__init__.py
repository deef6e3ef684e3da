"""What the model may do by itself: tools, and the one place where their calls are checked and carried out.

It knows memory and knowledge; nothing of models, templates or screens. Whose memory it is, a call cannot say.
"""

from __future__ import annotations

from shepherd.tools.builtin import MEMORY_TOOLS, conversation_tools, knowledge_tools, memory_tools
from shepherd.tools.mcp_servers import Confirm, ServerSpec, chosen_servers, opened_servers, read_servers
from shepherd.tools.toolbox import AssistantTool, Toolbox, ToolResult

__all__ = [
    "MEMORY_TOOLS",
    "AssistantTool",
    "Confirm",
    "ServerSpec",
    "ToolResult",
    "Toolbox",
    "chosen_servers",
    "conversation_tools",
    "knowledge_tools",
    "memory_tools",
    "opened_servers",
    "read_servers",
]
