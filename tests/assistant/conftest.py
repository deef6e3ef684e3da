"""A real engine on tiny models and a real memory, wired as the frontends wire them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import models
from shepherd.assistant import Assistant
from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory

SAID = ["Noted:", " thank", " you", " kindly."]
ANSWER = "".join(SAID)


@pytest.fixture(scope="session")
def scripted_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "scripted.gguf"
    models.scripted(path, SAID)
    return path


@pytest.fixture(scope="session")
def endless_path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("models") / "endless.gguf"
    models.llama(path, ascii_only=True, n_ctx=1 << 16)
    return path


@pytest.fixture(scope="module")
def engine(scripted_path) -> Iterator[Engine]:
    """Says ANSWER to everything."""
    with Engine(scripted_path, settings=EngineSettings(n_threads=1)) as engine:
        yield engine


@pytest.fixture(scope="module")
def endless_engine(endless_path) -> Iterator[Engine]:
    """Says printable nonsense until it is stopped."""
    with Engine(endless_path, settings=EngineSettings(n_ctx=8192, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def new_assistant(engine, memory) -> Callable[..., Assistant]:
    """Makes an assistant of user steve; keywords are settings, or parts of it."""

    def make(**options) -> Assistant:
        parts = {"engine": engine, "memory": memory, "user_id": "steve", "writes_memory": True}
        parts |= {name: options.pop(name) for name in parts.keys() & options.keys()}
        return Assistant(config=Config(temperature=0.0, **options), **parts)

    return make
