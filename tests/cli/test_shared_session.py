"""`shepherd serve --session` and its clients: processes of their own, as people start them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests import programs
from tests.cli.test_terminal import CTRL_C, start

ANSWER = "Hello, I am a shepherd. Café is open today!"


def begin(home, model, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A session server that listens, and where."""
    process = programs.Popen(
        [
            *(sys.executable, "-m", "shepherd", "serve", "--session", "--port", "0", "--json"),
            *("-m", str(model), *arguments),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", env=home.environment,
    )  # fmt: skip
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return process, json.loads(line)["url"]


def end(process: subprocess.Popen[str]) -> str:
    """Its log."""
    process.send_signal(signal.SIGTERM)
    return process.communicate(timeout=60)[1]


@pytest.fixture
def url(home, model) -> Iterator[str]:
    process, url = begin(home, model)
    yield url
    log = end(process)
    assert all(json.loads(line)["level"] == "info" for line in log.splitlines())
    assert "shepherd" in log
    assert "Café" not in log


def test_one_answer_of_the_shared_conversation_goes_to_stdout(shepherd, url):
    first = shepherd("--backend", "cli", "--api-base", url, "-e", "hello")
    second = shepherd("--backend", "cli", "--api-base", url, "--json", "-e", "and again")

    events = [json.loads(line) for line in second.stdout.splitlines()]
    assert (first.returncode, first.stdout, first.stderr) == (0, ANSWER + "\n", "")
    assert (events[0]["event"], events[0]["messages"]) == ("connected", 2)
    assert (events[-1]["event"], events[-1]["answer"]) == ("response_complete", ANSWER)
    assert events[-1]["stats"]["reused_tokens"] > 0


@pytest.mark.parametrize("option", ["-a", "-f"])
def test_what_is_attached_does_not_go_to_a_shared_conversation(option, shepherd, tmp_path):
    (tmp_path / "notes.txt").write_text("Some notes.", encoding="utf-8")

    done = shepherd("--backend", "cli", option, str(tmp_path / "notes.txt"), "-e", "hello")

    assert (done.returncode, done.stdout) == (2, "")
    assert "-a, -f and -t do not work with --backend" in done.stderr


def test_what_one_says_at_the_prompt_the_other_sees_above_his(home, url):
    one, other = (start(home, "--backend", "cli", "--api-base", url) for _ in range(2))
    try:
        one.prompt(), other.prompt()
        other.type("/frobnicate")
        other.expect("there is no command /frobnicate here")

        one.type("hello from one")
        one.expect(ANSWER)
        other.expect("(?s)other> .{0,20}hello from one")
        other.expect(ANSWER)
        one.type("/clear")
        one.expect("(?<!client began )a new conversation")
        other.expect("another client began a new conversation")
        one.type("/help")
        one.expect("/quit")
        assert "another client" not in one.child.before
        one.type("/quit")
        other.type("/quit")
        assert (one.end(), other.end()) == (0, 0)
    finally:
        one.child.close(force=True)
        other.child.close(force=True)


def test_a_line_that_is_not_utf_8_is_refused_and_the_conversation_goes_on(home, url):
    client = start(home, "--backend", "cli", "--api-base", url)
    try:
        client.prompt()
        os.write(client.child.fileno(), b"caf\xe9\r")
        client.expect("that line is not UTF-8")
        client.prompt()
        client.type("hello")
        client.expect(ANSWER)
        client.prompt()
        client.type("/quit")
        assert client.end() == 0
    finally:
        client.child.close(force=True)


def test_ctrl_c_ends_the_answer_and_not_the_client(home, endless_model):
    home.environment["SHEPHERD_MAX_TOKENS"] = "0"
    process, url = begin(home, endless_model, "--ctx", "65536")
    client = start(home, "--backend", "cli", "--api-base", url)
    try:
        client.prompt()
        client.type("hello")
        client.expect(r"(?s)hello.{300}")
        client.type(CTRL_C, enter=False)
        client.prompt()
        client.type("/clear")
        client.expect("(?<!client began )a new conversation")
        client.prompt()
        client.type("/quit")
        assert client.end() == 0
    finally:
        client.child.close(force=True)
        end(process)


def test_the_conversation_goes_on_after_a_restart(shepherd, home, model):
    for n_before in (0, 2):
        process, url = begin(home, model)
        asked = shepherd("--backend", "cli", "--api-base", url, "--json", "-e", "hello")
        end(process)
        assert json.loads(asked.stdout.splitlines()[0])["messages"] == n_before


def test_a_key_is_needed_once_there_is_one(shepherd, url):
    key = shepherd("apikey", "create", "--owner", "steve", "--scope", "chat").stdout.strip()
    ask = ("--backend", "cli", "--api-base", url, "-e", "hello")

    without, wrong, right = (
        shepherd(*ask),
        shepherd(*ask, SHEPHERD_API_KEY="no"),
        shepherd(*ask, SHEPHERD_API_KEY=key),
    )

    assert (without.returncode, wrong.returncode, right.stdout) == (1, 1, ANSWER + "\n")
    assert "an API key is needed" in without.stderr
    assert "SHEPHERD_API_KEY" in without.stderr
    assert key not in shepherd("config", "show", SHEPHERD_API_KEY=key).stdout


@pytest.mark.parametrize(
    ("base", "said"),
    [("http://127.0.0.1:1", "no server answers at"), ("ftp://x", "not an address"), ("", "not an address")],
)
def test_a_server_that_cannot_be_had_is_named(shepherd, base, said):
    done = shepherd("--backend", "cli", "--api-base", base, "-e", "hello")

    assert done.returncode in (1, 2)
    assert said in done.stderr


def test_without_a_key_it_listens_on_this_machine_alone(shepherd, model):
    done = shepherd("serve", "--session", "--host", "0.0.0.0", "--port", "0", "-m", model)

    assert done.returncode == 2
    assert "without an API key" in done.stderr
    assert "shepherd apikey create" in done.stderr
