"""Models that run elsewhere: OpenAI-compatible servers, Anthropic, Gemini, Ollama, another Shepherd.

It knows messages, protocols, keys and what a token costs; nothing of memory, of frontends or of llama.cpp.
Importing it loads no client library; the first request does. What speaks with a server is loaded when a
remote model is opened: most conversations have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shepherd.providers.protocol import ChatModel, Reply
from shepherd.providers.settings import KINDS, LOCAL, Kind, ProviderSettings, ProviderTable

if TYPE_CHECKING:
    from shepherd.providers.remote import RemoteModel, open_remote

__all__ = [
    "KINDS",
    "LOCAL",
    "ChatModel",
    "Kind",
    "ProviderSettings",
    "ProviderTable",
    "RemoteModel",
    "Reply",
    "open_remote",
]


def __getattr__(name: str) -> Any:
    """Import the remote models on first use."""
    if name not in ("RemoteModel", "open_remote"):
        raise AttributeError(f"module 'shepherd.providers' has no attribute {name!r}")
    from shepherd.providers import remote

    return getattr(remote, name)
