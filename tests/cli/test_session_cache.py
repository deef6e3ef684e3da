"""--session-cache: a chat that is started again reads nothing twice; files that do not fit cost a warning."""

from __future__ import annotations

import json

REQUEST = json.dumps({"prompt": "My dog is called Rex"}) + "\n"


def stats(done):
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return next(line["stats"] for line in lines if "stats" in line)


def test_a_second_start_reads_what_is_new_only(shepherd, model, tmp_path):
    options = ("chat", "-m", model, "--json", "--nomemory", "--session-cache", tmp_path / "session")
    first = stats(shepherd(*options, input=REQUEST))

    second = shepherd(*options, input=REQUEST)

    assert first["reused_tokens"] == 0
    # One token is always decoded, for what comes after it.
    assert stats(second)["decoded_tokens"] == 1
    assert second.stderr == ""


def test_a_damaged_file_is_said_and_written_anew(shepherd, model, tmp_path):
    path = tmp_path / "session"
    options = ("-m", model, "-e", "hello", "--nomemory", "--session-cache", path)
    shepherd(*options)
    path.write_bytes(path.read_bytes()[:-5])

    damaged, repaired = shepherd(*options), shepherd(*options)

    assert damaged.returncode == 0
    assert "is damaged" in damaged.stderr
    assert repaired.stderr == ""


def test_a_file_that_is_none_is_left_alone(shepherd, model, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")

    done = shepherd("-m", model, "-e", "hello", "--nomemory", "--session-cache", path)

    assert done.returncode == 0
    assert "not a session cache" in done.stderr
    assert path.read_text() == "my notes"
