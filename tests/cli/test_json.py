"""`shepherd chat --json`: one object per line, in and out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from shepherd.cli.jsonlines import stdout_alone
from shepherd.commands.screen import Screen

ANSWER = "Hello, I am a shepherd. Café is open today!"


def events_of(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def named(events, name):
    return [event for event in events if event["event"] == name]


def test_every_line_is_an_event_and_nothing_else_is_printed(shepherd, model):
    done = shepherd("-m", model, "--json", input='{"prompt": "hello"}\n"and again"\n')

    events = events_of(done)
    assert (done.returncode, done.stderr) == (0, "")
    assert [event["event"] for event in events if event["event"] != "delta"] == [
        "ready", "recalled", "finished", "recalled", "finished",
    ]  # fmt: skip
    assert "".join(event["text"] for event in named(events, "delta")) == ANSWER * 2


def test_finished_has_the_answer_and_what_it_cost(shepherd, model):
    events = events_of(shepherd("-m", model, "--json", input='{"prompt": "one"}\n{"prompt": "two"}\n'))

    first, second = named(events, "finished")
    assert first["answer"] == ANSWER
    assert first["finish_reason"] == "stop"
    assert second["stats"]["reused_tokens"] > 0
    for stats in (first["stats"], second["stats"]):
        assert stats["prompt_tokens"] == stats["reused_tokens"] + stats["decoded_tokens"]


def test_recalled_has_the_parts_and_the_exact_tail(shepherd, model):
    shepherd("facts", "set", "name", "Steve")

    events = events_of(shepherd("-m", model, "--json", "-e", "what is my name?"))

    (recalled,) = named(events, "recalled")
    assert recalled["facts"] == {"name": "Steve"}
    assert recalled["tail"] == "\n\n[facts: name=Steve]"


def test_stdin_beside_a_prompt_is_not_remembered(shepherd, model):
    shepherd("config", "set", "memory_extraction", "false")
    shepherd("-m", model, "--json", "-e", "I wrote this", input="+ a line\n+ another\n")

    (record,) = json.loads(shepherd("memory", "list", "--json").stdout)
    assert record["question"] == "I wrote this"


def test_a_turn_without_memory_neither_reads_nor_writes(shepherd, model):
    shepherd("facts", "set", "name", "Steve")
    line = json.dumps({"prompt": "My favourite editor is Helix", "memory": False})

    events = events_of(shepherd("-m", model, "--json", input=f'{line}\n{{"prompt": "hello?"}}\n'))

    private, normal = named(events, "recalled")
    assert private["tail"] == ""
    assert normal["tail"] == "\n\n[facts: name=Steve]"
    assert shepherd("memory", "list").stdout == ""


def test_a_bad_line_is_an_error_event_and_the_next_one_is_answered(shepherd, model):
    bad = [b"nonsense", b'{"prompt": 5}', b"[1]", b'{"prompt": ""}', b'{"prompt": "\\ud800"}', b"caf\xe9"]
    lines = b"\n".join([*bad, b"", b'{"prompt": "hello"}'])

    done = shepherd("-m", model, "--json", input=lines)

    events = events_of(done)
    assert done.returncode == 2
    assert len(named(events, "error")) == 6
    assert all(event["hint"] and event["exit_code"] == 2 for event in named(events, "error"))
    assert named(events, "finished")[0]["answer"] == ANSWER


def test_an_overflow_is_an_error_event_with_the_numbers(shepherd, model):
    done = shepherd("-m", model, "--json", "-e", "many words " * 5_000)

    (error,) = named(events_of(done), "error")
    assert done.returncode == 2
    assert error["kind"] == "ContextOverflowError"
    assert "start a new conversation" in error["hint"]
    assert "/clear" not in error["hint"]


def test_odd_characters_survive_the_round_trip(shepherd, model):
    text = 'a\0b "quoted" \\ \u202e é 日本 👨\u200d👩\u200d👧 \x1b[31m'

    shepherd("config", "set", "memory_extraction", "false")
    shepherd("-m", model, "--json", input=json.dumps({"prompt": text}) + "\n")

    records = json.loads(shepherd("memory", "list", "--json").stdout)
    assert [record["question"] for record in records] == [text]


def test_a_misspelt_key_is_refused_and_nothing_is_remembered(shepherd, model):
    line = json.dumps({"prompt": "My favourite editor is Helix", "memroy": False})

    done = shepherd("-m", model, "--json", input=f"{line}\n")

    (error,) = named(events_of(done), "error")
    assert done.returncode == 2
    assert "unknown keys" in error["message"]
    assert shepherd("memory", "list").stdout == ""


def test_lines_of_ten_megabytes_are_answered_or_refused_one_by_one(shepherd, model):
    long, broken = json.dumps({"prompt": "word " * 2_000_000}), "[" * 10_000_000

    done = shepherd("-m", model, "--json", input=f'{long}\n{broken}\n{{"prompt": "hello"}}\n')

    events = events_of(done)
    assert [event["kind"] for event in named(events, "error")] == ["ContextOverflowError", "UsageError"]
    assert [event["answer"] for event in named(events, "finished")] == [ANSWER]


def test_what_a_library_prints_goes_to_stderr(home, model):
    program = (
        "import ctypes, sys; from shepherd.cli.main import main; from shepherd.inference import engine\n"
        "libc, loaded = ctypes.CDLL(None), engine.Engine.__init__\n"
        "def noisy(self, *arguments, **options):\n"
        "    libc.puts(b'noise of C'); print('noise of Python'); loaded(self, *arguments, **options)\n"
        "engine.Engine.__init__ = noisy\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "-m", str(model), "--json", "-e", "hello"],
        capture_output=True, encoding="utf-8", check=True,
        env={**home.environment, "SHEPHERD_MEMORY_EXTRACTION": "false"},
    )  # fmt: skip

    assert [event["answer"] for event in named(events_of(done), "finished")] == [ANSWER]
    assert sorted(done.stderr.splitlines()) == ["noise of C", "noise of Python"]


def test_json_is_json_in_any_locale(shepherd, model):
    done = shepherd("-m", model, "--json", "-e", "hello", PYTHONUTF8="0", PYTHONIOENCODING="ascii")

    assert named(events_of(done), "finished")[0]["answer"] == ANSWER


def test_a_line_separator_of_unicode_ends_no_line(shepherd, model):
    prompt = "a\u2028b\u2029c\x85d"
    shepherd("facts", "set", "odd", prompt)

    done = shepherd("-m", model, "--json", "-e", "hello")

    assert named([json.loads(line) for line in done.stdout.splitlines()], "recalled")[0]["facts"] == {
        "odd": prompt
    }


def test_only_what_a_library_prints_meanwhile_goes_to_stderr(tmp_path):
    with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
        screen = Screen(out, err)
        screen.print("before")
        with stdout_alone(screen):
            os.write(out.fileno(), b"of a library\n")
            screen.print("é")
        os.write(out.fileno(), b"by itself\n")
        screen.print("after")

    assert (tmp_path / "out").read_text("utf-8") == "before\né\nby itself\nafter\n"
    assert (tmp_path / "err").read_text("utf-8") == "of a library\n"


@dataclass(frozen=True)
class Found:
    names: frozenset[str]
    path: Path


def test_values_that_json_does_not_have_are_lists_objects_or_texts():
    out = io.StringIO()
    Screen(out).json({"found": Found(frozenset(("one",)), Path("a/b")), "numbers": {2}, "kind": Found})

    found = json.loads(out.getvalue())
    assert found["found"] == {"names": ["one"], "path": "a/b"}
    assert found["numbers"] == [2]
    assert found["kind"].endswith("Found'>")
