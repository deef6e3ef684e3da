"""A real engine on tiny models and a real memory, wired as the frontends wire them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.prompt import Summarizer
from tests import models


@pytest.fixture(scope="module")
def engine(scripted_model) -> Iterator[Engine]:
    """Says "Hello, I am a shepherd. Café is open today!" to everything."""
    with Engine(scripted_model, settings=EngineSettings(n_threads=1)) as engine:
        yield engine


@pytest.fixture(scope="module")
def endless_engine(endless_model) -> Iterator[Engine]:
    """Says printable nonsense until it is stopped."""
    with Engine(endless_model, settings=EngineSettings(n_ctx=8192, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def thinking_engine(tmp_path) -> Iterator[Engine]:
    """Says what it thinks first, and then "Noted."."""
    path = tmp_path / "thinking.gguf"
    models.scripted(path, ["<think>", "Helix", "?", "</think>", "Noted."])
    with Engine(path, settings=EngineSettings(n_threads=1)) as engine:
        yield engine


@pytest.fixture
def summarizer(engine) -> Iterator[Summarizer]:
    """Summarises with the weights of `engine`, in at most 64 tokens."""
    summarizer = Summarizer(lambda: engine.sibling(n_ctx=1024), max_tokens=64)
    yield summarizer
    summarizer.close()


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def new_assistant(engine, memory) -> Callable[..., Assistant]:
    """Makes an assistant of user steve; keywords are settings, or parts of it.

    It is told of people and things with context_entities=True alone.
    """

    def make(**options) -> Assistant:
        parts = {
            "engine": engine,
            "memory": memory,
            "user_id": "steve",
            "writes_memory": True,
            "extraction": None,
            "on_evicted": None,
            "summarizer": None,
            "reader": None,
        }
        parts |= {name: options.pop(name) for name in parts.keys() & options.keys()}
        config = Config(**{"temperature": 0.0, "context_entities": False, **options})
        return Assistant(config=config, **parts)

    return make
