"""Models that run elsewhere: OpenAI-compatible servers, Anthropic, Gemini, Ollama, another Shepherd.

It knows messages, protocols, keys and what a token costs; nothing of memory, of frontends or of llama.cpp.
Importing it loads no client library; the first request does.
"""

from __future__ import annotations

from shepherd.providers.kinds import KINDS, Kind
from shepherd.providers.opening import open_remote
from shepherd.providers.protocol import ChatModel, Reply
from shepherd.providers.remote import RemoteModel
from shepherd.providers.settings import LOCAL, ProviderSettings
from shepherd.providers.table import ProviderTable

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
