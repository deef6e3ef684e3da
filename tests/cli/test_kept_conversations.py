"""A chat that is started again reads nothing twice, however it ended; what is private is not on disk."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from tests import programs

REQUEST = json.dumps({"prompt": f"My dog is called Rex, and he is {'very ' * 30}nice"}) + "\n"
MORE = json.dumps({"prompt": "What is his name?"}) + "\n"


def stats(text: str) -> dict[str, int]:
    lines = [json.loads(line) for line in text.splitlines()]
    found: dict[str, int] = next(line["stats"] for line in lines if "stats" in line)
    return found


def files(home) -> list[Path]:
    return sorted((home.path / ".cache" / "shepherd" / "conversations").glob("*/*.state"))


def test_a_chat_that_was_ended_goes_on(shepherd, home, model):
    first = stats(shepherd("chat", "-m", model, "--json", input=REQUEST).stdout)
    again = shepherd("chat", "-m", model, "--json", "--continue", input=MORE)

    assert stats(again.stdout)["reused_tokens"] == first["prompt_tokens"] + first["generated_tokens"]
    assert again.stderr == ""
    assert len(files(home)) == 1


def test_a_chat_that_was_killed_goes_on(shepherd, home, model):
    command = [sys.executable, "-m", "shepherd", "chat", "-m", model, "--json"]
    child = programs.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home.environment
    )
    child.stdin.write(REQUEST.encode())
    child.stdin.flush()
    said = ""
    while '"stats"' not in said:
        said += child.stdout.readline().decode()
    deadline = time.monotonic() + 30
    while not files(home):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child.kill()
    child.wait()
    child.stdin.close()
    child.stdout.close()
    first = stats(said)

    again = shepherd("chat", "-m", model, "--json", "--continue", input=MORE)

    assert stats(again.stdout)["reused_tokens"] == first["prompt_tokens"] + first["generated_tokens"]


def test_what_is_not_stored_is_not_kept(shepherd, home, model):
    shepherd("chat", "-m", model, "--json", "--nomemory", input=REQUEST)
    shepherd("-m", model, "-e", "hello " * 40, "--user", "unknown")
    assert files(home) == []


def test_forgetting_and_deleting_remove_the_files(shepherd, home, model):
    shepherd("chat", "-m", model, "--json", input=REQUEST)
    assert len(files(home)) == 1
    [talk] = json.loads(shepherd("conversations", "list", "--json").stdout)
    shepherd("conversations", "delete", talk["id"])
    assert files(home) == []

    shepherd("chat", "-m", model, "--json", input=REQUEST)
    assert len(files(home)) == 1
    [memory] = json.loads(shepherd("memory", "list", "--json").stdout)[:1]
    shepherd("memory", "forget", str(memory["id"]))
    assert files(home) == []


def test_it_can_be_turned_off(shepherd, home, model):
    home.environment["SHEPHERD_CACHE_DISK_GB"] = "0"
    shepherd("chat", "-m", model, "--json", input=REQUEST)
    assert files(home) == []
    assert "none is prepared for reuse on disk: cache_disk_gb is 0" in shepherd("doctor", "-m", model).stdout
