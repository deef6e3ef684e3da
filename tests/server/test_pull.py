"""Ollama's /api/pull with Ollama's client: models come from a hub on loopback, in a real server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import ollama
import pytest

from shepherd.config import Config
from shepherd.inference import Engine, EngineSettings
from shepherd.memory import Memory
from shepherd.providers import ProviderTable
from shepherd.server.app import create_app
from shepherd.server.models import Models
from shepherd.server.state import ServerState
from shepherd.server.turns import Conversations
from tests import models
from tests.hub import LoopbackHub
from tests.server.processes import ServerProcess
from tests.server.running import Running

REPO, FILE = "acme/Tiny-GGUF", "tiny-q8_0.gguf"
NAME = f"hf.co/{REPO}:Q8_0"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("tiny") / FILE
    models.scripted(path, ("Pulled", " it."))
    return path.read_bytes()


@pytest.fixture(scope="module")
def hub(tiny) -> Iterator[LoopbackHub]:
    with LoopbackHub() as hub:
        hub.add(REPO, FILE, tiny)
        hub.add("acme/Broken-GGUF", FILE, tiny, sha256="0" * 64)
        yield hub


@pytest.fixture
def server(hub, serve, tmp_path) -> ServerProcess:
    cache = tmp_path / "hf"
    made = serve(HF_ENDPOINT=hub.endpoint, HF_HOME=str(cache), HF_HUB_DISABLE_XET="1")
    made.cache = cache
    return made


def files_in(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*.gguf"))


def test_a_model_is_pulled_with_its_progress_and_a_second_time_at_once(server, tiny):
    with ollama.Client(server.url, trust_env=False) as client:
        steps = list(client.pull(NAME, stream=True))
        again = client.pull(NAME)
        answer = client.chat(NAME, [{"role": "user", "content": "Hello"}])
        listed = [model.model for model in client.list().models]

    said = [step.status for step in steps]
    about = [step for step in steps if step.digest]
    assert said[0] == "pulling manifest"
    assert said[-3:] == ["verifying sha256 digest", "writing manifest", "success"]
    assert {step.total for step in about} == {len(tiny)}
    assert about[-1].completed == len(tiny)
    assert about[-1].digest.startswith("sha256:")
    assert again.status == "success"
    assert answer.message.content == "Pulled it."
    assert listed == ["shepherd-mini:latest", f"hf:{REPO}:Q8_0"]
    assert files_in(server.cache) == [FILE]


def test_a_pull_that_nobody_waits_for_ends_and_the_next_one_resumes_it(server, hub, tiny):
    hub.fail(f"/{REPO}/{FILE}", stall_after=len(tiny) // 2)
    body = {"model": NAME}
    with server.http() as client, client.stream("POST", "/api/pull", json=body) as answer:
        lines = (json.loads(line) for line in answer.iter_lines())
        next(line for line in lines if line.get("completed"))
    until = time.monotonic() + 30
    while '"/api/pull"' not in server.log and time.monotonic() < until:  # it has noticed
        time.sleep(0.01)
    hub.release()

    with ollama.Client(server.url, trust_env=False) as client:
        steps = list(client.pull(NAME, stream=True))

    first = next(step for step in steps if step.digest)
    assert steps[-1].status == "success"
    assert first.completed > 0
    assert files_in(server.cache) == [FILE]


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("llama3.2", 404, "hf.co/user/repo:quant"),
        ("../../etc/passwd", 404, "hf.co/user/repo:quant"),
        ("hf.co/../etc", 400, "is not the name of a model"),
        ("hf.co/acme/Nothing-GGUF", 502, "acme/Nothing-GGUF"),
        ("hf.co/acme/Tiny-GGUF:Q2_K", 400, "has no model of quantisation Q2_K"),
    ],
)
def test_what_cannot_be_pulled_is_refused_before_the_stream_begins(mini_with_hub, name, status, said):
    for stream in (True, False):
        answer = mini_with_hub.post("/api/pull", json={"model": name, "stream": stream})
        assert (answer.status_code, said in answer.json()["error"]) == (status, True), answer.text


def test_a_failure_in_the_middle_is_the_last_line(mini_with_hub):
    answer = mini_with_hub.post("/api/pull", json={"model": "hf.co/acme/Broken-GGUF"})

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.status_code == 200
    assert "wrong checksum" in lines[-1]["error"]
    assert [line for line in lines if line.get("status") == "success"] == []


@pytest.fixture(scope="module")
def mini_with_hub(serve, hub, tmp_path_factory) -> Iterator[httpx.Client]:
    cache = tmp_path_factory.mktemp("hf")
    server = serve(HF_ENDPOINT=hub.endpoint, HF_HOME=str(cache), HF_TOKEN="t", HF_HUB_DISABLE_XET="1")
    with server.http() as client:
        yield client


@pytest.fixture
def keyed(tmp_path, scripted_model) -> Iterator[tuple[Running, Callable[..., str]]]:
    config = Config()
    with (
        Engine(scripted_model, settings=EngineSettings(n_threads=1)) as engine,
        Memory(tmp_path / "memory.db") as memory,
    ):
        served = Models(ProviderTable().get(""), name="scripted", engine=engine)
        state = ServerState(config, memory, True, Conversations(served, memory=memory, config=config))
        with Running(create_app(state)) as running:
            yield running, lambda *scopes: memory.keys.create("anna", list(scopes))[0]


def test_only_a_key_for_models_may_pull(keyed, hub):
    server, key_of = keyed
    plain, operator = key_of("chat", "memory", "metrics"), key_of("models")
    before = len(hub.requests)

    with server.client(plain) as client:
        refused = client.post("/api/pull", json={"model": NAME})
    with server.client(operator) as client:
        served = client.post("/api/pull", json={"model": "scripted:latest", "stream": False})
        chat = client.post("/api/chat", json={"model": "scripted", "messages": []})
    with server.client() as client:
        nobody = client.post("/api/pull", json={"model": NAME})

    assert (refused.status_code, nobody.status_code, chat.status_code) == (403, 401, 403)
    assert served.json() == {"status": "success"}
    assert len(hub.requests) == before


def test_installed_models_are_served_by_the_names_that_they_are_pulled_by(server, serve, hub):
    with ollama.Client(server.url, trust_env=False) as client:
        client.pull(NAME)
    again = serve(
        "--models", "installed", HF_ENDPOINT=hub.endpoint, HF_HOME=str(server.cache), HF_HUB_DISABLE_XET="1"
    )

    names = [NAME, NAME.lower(), f"hf.co/{REPO}", f"hf.co/{REPO}:latest", f"hf:{REPO}", "tiny-q8_0"]

    with ollama.Client(again.url, trust_env=False) as client:
        listed = [model.model for model in client.list().models]
        said = [client.generate(name, "Hello").response for name in (*listed, *names)]

    assert listed == ["shepherd-mini:latest", f"hf:{REPO}:Q8_0"]
    assert said[1:] == ["Pulled it."] * (1 + len(names))
