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

from shepherd.cli.first_start import FullModel, _asked, _downloads, _names, _ollama_port, served_models
from shepherd.inference.load_check import available_bytes
from tests import programs
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
        child = programs.spawn(
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


class Answers:
    """A terminal whose user types these lines."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.notes = list(lines), []

    def ask(self, question: str) -> str:
        self.notes.append(question)
        return self.lines.pop(0)

    def note(self, text: str = "") -> None:
        self.notes.append(text)


CHOICES = [
    FullModel("llama3.2:3b", server="Ollama", provider="ollama", kind="ollama", port=1),
    FullModel("Qwen/Qwen3-4B-GGUF", 2500, 4000),
]


@pytest.mark.parametrize(
    ("lines", "place"),
    [(["1"], 0), (["2"], 1), (["3"], None), ([""], None), (["0", "4", "-1", "x", "2"], 1)],
)
def test_only_a_number_of_the_list_is_a_choice(lines, place):
    screen = Answers(*lines)

    assert _asked(CHOICES, screen) == (None if place is None else CHOICES[place])
    assert screen.lines == []
    assert screen.notes.count("Type a number from 1 to 3.") == len(lines) - 1
    assert f"  1  {'llama3.2:3b':40}  from Ollama on this machine" in screen.notes
    assert f"  2  {'Qwen/Qwen3-4B-GGUF':40}  downloads 2.5 GB" in screen.notes
    assert "  3  none: stay with the demo model" in screen.notes


@pytest.mark.parametrize(
    ("available", "sizes"),
    [(None, ["4B", "8B", "14B"]), (10**15, ["4B", "8B", "14B"]), (0, [])],
)
def test_the_largest_models_that_fit_are_offered(available, sizes, monkeypatch):
    monkeypatch.setattr("shepherd.inference.load_check.available_bytes", lambda: available)

    assert [re.search(r"Qwen3-([0-9.]+B)", one.name)[1] for one in _downloads()] == sizes
    for one in _downloads():
        monkeypatch.setattr(
            "shepherd.inference.load_check.available_bytes", lambda one=one: one.memory_mb * 10**6
        )
        assert _downloads()[-1] == one


@pytest.mark.parametrize(
    ("named", "port"),
    [("", 7), ("host", 7), ("host:9", 9), (":9", 9), (":0", 7), (":65535", 65535), (":65536", 7)],
)
def test_ollamas_port_is_that_of_its_variable(named, port, monkeypatch):
    monkeypatch.setenv("OLLAMA_HOST", named)

    assert _ollama_port(7) == port


@pytest.mark.parametrize(
    ("answer", "names"),
    [
        (b'HTTP/1.1 200 OK\r\nA: b\r\n\r\n{"data": [{"id": "a"}, {"id": ""}, {"id": 3}]}', ["a"]),
        (b'HTTP/1.1 404 Not Found\r\n\r\n{"data": [{"id": "a"}]}', []),
        (b'HTTP/1.1 200 OK\r\n\r\n{"data": [{}]}', []),
        (b'HTTP/1.1 200 OK\r\n\r\n{"models": []}', []),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", []),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", []),
        (b"", []),
    ],
)
def test_models_are_those_of_a_list_as_openai_has_it(answer, names):
    assert _names(answer) == names
