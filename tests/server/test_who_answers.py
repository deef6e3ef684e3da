"""`shepherd serve -m`: which model answers, and that what was meant for this machine does not leave it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd.config.file import ConfigFile
from shepherd.providers import ProviderTable
from tests import programs
from tests.providers.upstream import Upstream, running, says, usage
from tests.server.processes import ServerProcess, inherited


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running(says("From ", "afar.", counts=usage(100, 4))) as server:
        yield server


@pytest.fixture
def home(tmp_path, upstream) -> Path:
    """The home of one who uses a provider on loopback."""
    home = tmp_path / "home"
    table = ProviderTable(ConfigFile(home / ".config" / "shepherd" / "config.json"))
    values = {"kind": "openai", "model": "m", "base_url": f"{upstream.url}/v1", "retries": 0, "api_key": "k"}
    table.add("work", values)
    config = home / ".config" / "shepherd" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "provider": "work"}))
    return home


@pytest.fixture
def serve(home) -> Iterator[Callable[..., ServerProcess]]:
    """Starts servers in that home, and ends them all."""
    started: list[ServerProcess] = []

    def start(*arguments: object) -> ServerProcess:
        started.append(ServerProcess(home, *map(str, arguments)))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def test_the_provider_in_use_answers_where_no_model_is_named(serve, upstream):
    assert serve().ask("hello")["choices"][0]["message"]["content"] == "From afar."
    assert upstream.asked[-1].body["model"] == "m"


def test_a_model_file_is_served_here_whatever_provider_is_in_use(serve, upstream, scripted_model):
    answer = serve("-m", scripted_model).ask("hello")

    assert answer["choices"][0]["message"]["content"].startswith("Hello, I am")
    assert upstream.asked == []


def test_a_model_file_answers_a_shared_session_whatever_provider_is_in_use(serve, upstream, scripted_model):
    with serve("--session", "-m", scripted_model).http() as client:
        answer = client.post("/request", json={"prompt": "hello"}).json()

    assert answer["answer"].startswith("Hello, I am")
    assert upstream.asked == []


@pytest.mark.parametrize("session", [(), ("--session",)])
def test_a_model_file_that_is_not_there_is_an_error_and_not_a_provider(home, upstream, session):
    command = [sys.executable, "-m", "shepherd", "serve", "--port", "0", "-m", "/nowhere/at-all.gguf"]
    done = programs.run(
        [*command, *session],
        env={**inherited(), "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode != 0
    assert done.stdout == ""
    assert "at-all.gguf" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_named_with_a_provider_is_the_providers(serve, upstream):
    serve("-p", "work", "-m", "other").ask("hello")

    assert upstream.asked[-1].body["model"] == "other"


def test_the_model_of_the_command_line_stands_before_that_of_a_local_provider(
    serve, home, upstream, scripted_model
):
    config = home / ".config" / "shepherd" / "config.json"
    ProviderTable(ConfigFile(config)).add("here", {"kind": "llamacpp", "model": "/nowhere/at-all.gguf"})

    answer = serve("-p", "here", "-m", scripted_model).ask("hello")

    assert answer["choices"][0]["message"]["content"].startswith("Hello, I am")
    assert upstream.asked == []
