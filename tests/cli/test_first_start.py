"""The first start at a terminal: one question, once, and what becomes of its answer."""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pexpect
import pytest

from shepherd.cli.first_start import served_models
from shepherd.inference.load_check import available_bytes
from tests.hub import LoopbackHub

CTRL_D = "\x04"
QUESTION = r"Number \(Enter: \d\) "
# Before the prompt is drawn, the terminal takes Ctrl-D for the end of a line that is being typed.
PROMPT = r"(?s)Ctrl-D quits.*> "
SIZES = {"0.6B": "Q8_0", "1.7B": "Q8_0", "4B": "Q4_K_M", "8B": "Q4_K_M", "14B": "Q4_K_M"}


@pytest.fixture
def hub(scripted_model) -> Iterator[LoopbackHub]:
    """Has a tiny model under each of the names that are offered."""
    with LoopbackHub() as served:
        for size, quant in SIZES.items():
            served.add(f"Qwen/Qwen3-{size}-GGUF", f"Qwen3-{size}-{quant}.gguf", scripted_model.read_bytes())
        yield served


@pytest.fixture
def first(home, hub) -> Iterator[Callable[..., pexpect.spawn]]:
    """Starts `shepherd` in a terminal, as somebody who has never started it."""
    children = []

    def start(*arguments: str, **variables: str) -> pexpect.spawn:
        own = {"HF_ENDPOINT": hub.endpoint, "HF_HOME": str(home.path / "hf"), "PROMPT_TOOLKIT_NO_CPR": "1"}
        child = pexpect.spawn(
            sys.executable,
            ["-m", "shepherd", *arguments],
            env={**home.environment, **own, "OLLAMA_HOST": ":1", **variables},
            dimensions=(40, 120),
            encoding="utf-8",
            timeout=60,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


@pytest.fixture
def ollama() -> Iterator[int]:
    """Answers as Ollama does, on a port of its own."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            names = ["nomic-embed-text:latest", "llama3.2:3b", "big:1t-cloud", "bad\x1b[2J", 7]
            body = json.dumps({"object": "list", "data": [{"id": name} for name in names]}).encode()
            self.send_response(200 if self.path == "/v1/models" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def config_of(home) -> dict[str, object]:
    return json.loads(home.config.read_text()) if home.config.exists() else {}


def test_enter_keeps_the_demo_model_and_nobody_is_asked_again(first, home):
    child = first()
    child.expect(QUESTION)
    child.send("77\r")
    child.expect("Type a number from 1 to")
    child.send("\r")
    child.expect(PROMPT)
    child.send(CTRL_D)
    child.expect(pexpect.EOF)
    assert config_of(home) == {}

    child = first()
    child.expect(PROMPT)
    assert "Number" not in child.before


def test_chosen_model_is_downloaded_saved_and_used(first, home):
    child = first()
    child.expect(QUESTION)
    fitting = re.findall(r"(\d)  (hf:\S+)", child.before)
    room = available_bytes()
    if room is None or room > 5_000_000_000:
        assert "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M" in dict(fitting).values()
    number, name = fitting[-1]
    child.send(f"{number}\r")
    child.expect(re.escape(f"Saved: model = {name}"))
    child.expect(PROMPT)

    assert "bundled demo model answers" not in child.before
    assert config_of(home)["model"] == name


def test_download_that_fails_leaves_the_demo_model(first, home, hub):
    hub.fail("/api/models", status=404, times=9)
    child = first()
    child.expect(QUESTION)
    child.send("1\r")
    child.expect("The demo model answers for now")
    child.expect(PROMPT)

    assert "model" not in config_of(home)


def test_model_of_a_running_ollama_is_offered_with_the_memory(first, home, ollama):
    child = first(OLLAMA_HOST=f"127.0.0.1:{ollama}")
    child.expect(QUESTION)
    shown = child.before
    assert re.search(r"1  llama3\.2:3b +from Ollama on this machine", shown)
    assert "embed" not in shown
    assert "cloud" not in shown
    child.send("1\r")
    child.expect("Saved: provider = ollama")
    child.expect(PROMPT)

    saved = config_of(home)
    assert saved["provider"] == "ollama"
    assert saved["providers"]["ollama"] == {
        "kind": "ollama",
        "model": "llama3.2:3b",
        "base_url": f"http://127.0.0.1:{ollama}/v1",
        "memory": True,
    }


def test_server_that_hangs_or_says_something_else_is_no_choice(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{silent.getsockname()[1]}")
        assert "ollama" not in {model.provider for model in served_models()}


@pytest.mark.parametrize("arguments", [["-e", "hello"], ["-m", "shepherd-mini"], ["--json"]])
def test_nobody_is_asked_who_wants_one_answer_or_named_a_model(first, home, arguments):
    child = first(*arguments)
    child.expect(r"(?i)help|Ctrl-D|ready")

    assert "Number" not in child.before
    assert not home.asked.exists()


def test_nobody_is_asked_without_a_terminal(shepherd, home):
    done = shepherd(input="hello")

    assert done.returncode == 0
    assert "Number" not in done.stderr
    assert not home.asked.exists()
