"""Servers that several files share, each a process with a model of its own; users keep the tests apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.config.file import ConfigFile
from shepherd.providers import ProviderTable
from tests import models
from tests.inference.manners import HERMES
from tests.providers.upstream import Upstream, running, says, usage
from tests.server.processes import ServerProcess

THOUGHT = "Paris it is"
# Markers in two pieces: none of them is a token that the vocabulary has already.
CALLING_SCRIPT = (
    "<thi", "nk>", THOUGHT, "</", "think>", "<tool_", 'call>{"name": "get_', 'weather", "arguments": ',
    '{"city": "Paris"}}', "</tool_call>",
)  # fmt: skip


@pytest.fixture(scope="session")
def serve(tmp_path_factory) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers, each with a home of its own, and ends them all."""
    running: list[ServerProcess] = []

    def start(*arguments: object, **variables: str) -> ServerProcess:
        home = tmp_path_factory.mktemp("server")
        running.append(ServerProcess(home, *map(str, arguments), **variables))
        return running[-1]

    yield start
    for server in running:  # all at once: each takes a second
        server.ask_to_end()
    for server in running:
        server.stop()


@pytest.fixture(scope="session")
def embedding_model(tmp_path_factory) -> Path:
    """A tiny encoder."""
    path = tmp_path_factory.mktemp("embedding") / "tiny-bert.gguf"
    models.bert(path)
    return path


@pytest.fixture(scope="session")
def mini(serve, embedding_model) -> ServerProcess:
    """The model that comes with Shepherd, and a tiny one for embeddings."""
    return serve("--embeddings", embedding_model)


@pytest.fixture(scope="session")
def endless(serve, endless_model) -> ServerProcess:
    """A model that goes on until it is stopped, and says ASCII."""
    return serve("-m", endless_model, "--ctx", "32768", SHEPHERD_MAX_TOKENS="0")


@pytest.fixture(scope="session")
def calling(serve, tmp_path_factory) -> ServerProcess:
    """A model that thinks, and then wants to know the weather in Paris, whatever is said."""
    path = tmp_path_factory.mktemp("calling") / "calling.gguf"
    models.scripted(path, script=CALLING_SCRIPT, template=HERMES)
    return serve("-m", path)


@pytest.fixture(scope="session")
def afar() -> Iterator[Upstream]:
    """A provider on loopback, which has one answer."""
    with running(says("From ", "afar.", counts=usage(100, 4))) as upstream:
        yield upstream


@pytest.fixture(scope="session")
def with_providers(tmp_path_factory, scripted_model, afar) -> Iterator[ServerProcess]:
    """A local model, and providers: one that may not use the memory, one that may, one without its key."""
    home = tmp_path_factory.mktemp("providers")
    table = ProviderTable(ConfigFile(home / ".config" / "shepherd" / "config.json"))
    remote = {"kind": "openai", "model": "big", "base_url": f"{afar.url}/v1", "retries": 0}
    table.add("firm", {**remote, "api_key": "k", "max_tokens": 77})
    table.add("friend", {**remote, "api_key": "k", "memory": True})
    table.add("keyless", {"kind": "anthropic", "model": "claude"})
    with ServerProcess(home, "-m", str(scripted_model), "--providers", "all") as server:
        yield server


@pytest.fixture(scope="session")
def busy() -> Iterator[Upstream]:
    """A provider on loopback, whose script each test sets."""
    with running(says("Hello.")) as upstream:
        yield upstream


@pytest.fixture(scope="session")
def through_busy(tmp_path_factory, busy) -> Iterator[ServerProcess]:
    """A server whose model is that provider's, which it asks twice at most."""
    home = tmp_path_factory.mktemp("busy")
    table = ProviderTable(ConfigFile(home / ".config" / "shepherd" / "config.json"))
    values = {"kind": "openai", "model": "m", "base_url": f"{busy.url}/v1", "api_key": "k", "memory": True}
    table.add("work", {**values, "retries": 1})
    with ServerProcess(home, "-p", "work") as server:
        yield server
