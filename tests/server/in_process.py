"""A server before an engine of this process, on loopback."""

from __future__ import annotations

from typing import Any

from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.memory import Memory
from shepherd.providers import ProviderSettings
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.retrieval_api import Embeddings
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests.server.running import Running

__all__ = ["running"]


def running(
    engine: Engine,
    *,
    memory: Memory | None = None,
    embeddings: Embeddings | None = None,
    **settings: Any,
) -> Running:
    """Greedy, with memory only if there is one."""
    config = Config(temperature=0.0, **settings)
    models = Models(ProviderSettings("local", "llamacpp"), name="tiny", engine=engine)
    conversations = Conversations(models, memory=memory, config=config)
    return Running(
        create_app(ServerState(config, memory, memory is not None, conversations, embeddings=embeddings))
    )
