"""A real engine on tiny models and a real memory, wired as the frontends wire them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.prompt import Summarizer
from shepherd.turn.components import ModelAccess
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
        names = {field.name for field in dataclasses.fields(ModelAccess)}
        access = {name: options.pop(name) for name in names & options.keys()}
        user_id = options.pop("user_id", "steve")
        access = ModelAccess(**{"model": options.pop("engine", engine), "memory": memory, **access})
        config = Config(**{"temperature": 0.0, "context_entities": False, **options})
        return Assistant(access, config=config, user_id=user_id)

    return make
