"""A local assistant that remembers. `Memory` works alone; `Assistant` adds a model. Both can be awaited, too.

Importing this package loads neither llama.cpp nor any frontend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shepherd.aio import AsyncAssistant, AsyncMemory
    from shepherd.assistant import Assistant
    from shepherd.memory import Memory

__all__ = ["Assistant", "AsyncAssistant", "AsyncMemory", "Memory", "__version__"]

__version__ = "0.1.0"

_HOME = {
    "Assistant": "shepherd.assistant",
    "AsyncAssistant": "shepherd.aio",
    "AsyncMemory": "shepherd.aio",
    "Memory": "shepherd.memory",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that `import shepherd` stays cheap."""
    if name not in _HOME:
        raise AttributeError(f"module 'shepherd' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOME[name]), name)
