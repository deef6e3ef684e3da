"""A local assistant that remembers.

`Memory` works alone, `Knowledge` adds documents, and `Assistant` adds a model and gives its turns as events.
`Session` is an assistant as in the chat: it opens providers, and learns.
`AsyncMemory` and `AsyncAssistant` are the same for asyncio.

Importing this package loads neither llama.cpp nor any frontend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shepherd.aio import AsyncAssistant, AsyncMemory
    from shepherd.assistant import Assistant
    from shepherd.chat_session import Session
    from shepherd.config import Config
    from shepherd.errors import ShepherdError
    from shepherd.inference import Engine, EngineSettings
    from shepherd.knowledge import Knowledge
    from shepherd.memory import Memory
    from shepherd.tools import ToolResult
    from shepherd.turn import Delta, Finished, Recalled, Warned
    from shepherd.types import Thought, ToolCall

__all__ = [
    "Assistant",
    "AsyncAssistant",
    "AsyncMemory",
    "Config",
    "Delta",
    "Engine",
    "EngineSettings",
    "Finished",
    "Knowledge",
    "Memory",
    "Recalled",
    "Session",
    "ShepherdError",
    "Thought",
    "ToolCall",
    "ToolResult",
    "Warned",
    "__version__",
]

__version__ = "0.1.0"

_HOME = {
    "Assistant": "assistant",
    "AsyncAssistant": "aio",
    "AsyncMemory": "aio",
    "Config": "config",
    "Delta": "turn",
    "Engine": "inference",
    "EngineSettings": "inference",
    "Finished": "turn",
    "Knowledge": "knowledge",
    "Memory": "memory",
    "Recalled": "turn",
    "Session": "chat_session",
    "ShepherdError": "errors",
    "Thought": "types",
    "ToolCall": "types",
    "ToolResult": "tools",
    "Warned": "turn",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import shepherd` stays cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'shepherd' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"shepherd.{_HOME[name]}"), name)
