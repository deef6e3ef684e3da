"""One answer: -e, stdin, exit codes, and what goes to which stream."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from tests import programs
from tests.cli.conftest import NEEDS_DEV_FULL

ANSWER = "Hello, I am a shepherd. Café is open today!"


def test_the_answer_alone_is_on_stdout(shepherd, model):
    done = shepherd("-m", model, "-e", "My dog is called Rex")

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ANSWER}\n", "")


def test_stdin_is_the_message(shepherd, model):
    shepherd("config", "set", "memory_extraction", "false")
    done = shepherd("chat", "-m", model, input="My dog is called Rex\n")

    assert done.stdout == f"{ANSWER}\n"
    assert "\tMy dog is called Rex\t" in shepherd("memory", "list").stdout


def test_stdin_beside_a_prompt_is_attached_to_it(shepherd, model):
    done = shepherd("-m", model, "-e", "remember this", "--show-context", input="line one\nline two\n")

    assert (
        done.stderr == "[prompt+context] remember this\n\n[attached: stdin]\n```\nline one\nline two\n```\n"
    )


def test_nothing_is_learned_from_stdin_beside_a_prompt(shepherd):
    """The bundled model learns from messages; the pipe would be two facts."""
    done = shepherd("-e", "What is this text about?", input="My dog is called Rex. I live in Rome.\n")

    assert done.returncode == 0
    stored = shepherd("facts", "list").stdout + shepherd("memory", "list").stdout
    assert "Rex" not in stored
    assert "Rome" not in stored


def test_the_model_can_be_configured(shepherd, model):
    shepherd("config", "set", "model", str(model))

    assert shepherd("-e", "hello").stdout == f"{ANSWER}\n"


def test_what_was_told_is_appended_to_a_later_question(shepherd, model):
    shepherd("config", "set", "memory_extraction", "false")  # what is learned at the end depends on the time
    shepherd("-m", model, "-e", "My favourite editor is Helix")
    shepherd("facts", "set", "name", "Steve")

    done = shepherd("-m", model, "-e", "which editor do I like?", "--show-context")

    assert done.stdout == f"{ANSWER}\n"
    assert done.stderr == (
        "[prompt+context] which editor do I like?\n\n[facts: name=Steve]\n"
        f"[context: User: My favourite editor is Helix\nAssistant: {ANSWER}]\n"
    )


def test_nothing_is_read_or_written_with_nomemory(shepherd, model, home):
    shepherd("facts", "set", "name", "Steve")

    done = shepherd("-m", model, "-e", "My favourite editor is Helix", "--nomemory", "--show-context")

    assert done.stderr == ""
    assert shepherd("memory", "list").stdout == ""


def test_nomemory_does_not_even_make_the_database(shepherd, model, home):
    shepherd("-m", model, "-e", "hello", "--nomemory")

    assert not home.database.exists()


def test_users_have_memories_of_their_own(shepherd, model):
    shepherd("-m", model, "-e", "Helix crashed twice while I wrote the budget", "--user", "mary")

    assert shepherd("memory", "list").stdout == ""
    assert "Helix" in shepherd("memory", "list", "--user", "mary").stdout


def test_the_database_can_be_named(shepherd, model, home, tmp_path):
    shepherd(
        "-m",
        model,
        "-e",
        "Helix crashed twice while I wrote the budget",
        "--memory-db",
        tmp_path / "other.db",
    )

    assert not home.database.exists()
    assert "Helix" in shepherd("memory", "list", "--memory-db", tmp_path / "other.db").stdout


def test_a_conversation_is_continued_by_the_next_process(shepherd, model):
    shepherd("-m", model, "-e", "one", "--json")
    first = shepherd("-m", model, "-e", "two", "--continue", "--json")
    second = shepherd("-m", model, "-e", "three", "--continue", "--json")

    assert '"messages": 2' in first.stdout.splitlines()[0]
    assert '"messages": 4' in second.stdout.splitlines()[0]


def test_only_another_question_continues_a_question_asked_alone(shepherd, model):
    talk = json.dumps({"prompt": "a conversation"}) + "\n"
    shepherd("-m", model, "--json", input=talk)
    shepherd("-m", model, "-e", "alone")

    conversation = shepherd("-m", model, "--json", "--continue", input="")
    built = shepherd("context", "build", "-m", model, "--continue", "and now?")
    question = shepherd("-m", model, "-e", "and then?", "--continue", "--json")
    both = shepherd("context", "build", "-m", model, "--continue", "and now?")

    assert '"messages": 2' in conversation.stdout.splitlines()[0]
    assert "alone" not in built.stdout
    assert "a conversation" in built.stdout
    assert '"messages": 2' in question.stdout.splitlines()[0]
    # Two that belong together are a conversation.
    assert "alone" in both.stdout
    assert "and then?" in both.stdout


def test_continuing_nothing_is_a_warning_and_a_new_conversation(shepherd, model):
    done = shepherd("-m", model, "-e", "hello", "--continue")

    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert "there is no conversation to continue" in done.stderr


def test_a_prompt_longer_than_the_window_is_wrong_use_with_the_numbers(shepherd, model):
    done = shepherd("-m", model, "-e", "many words " * 5_000)

    assert (done.returncode, done.stdout) == (2, "")
    assert "4,096" in done.stderr or "4096" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_message_of_ten_megabytes_is_refused(shepherd, model):
    done = shepherd("-m", model, input="x" * 10_000_000)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("shepherd: error: ")


def test_nul_bytes_are_part_of_the_message(shepherd, model):
    done = shepherd("-m", model, input=b"My dog\0is called Rex")

    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert "My dog\0is called Rex" in shepherd("memory", "list").stdout


def test_a_file_that_is_no_model_is_named(shepherd, tmp_path):
    (tmp_path / "model.gguf").write_text("this is not a model, and long enough to be one")

    done = shepherd("-m", tmp_path / "model.gguf", "-e", "hello")

    assert (done.returncode, done.stdout) == (1, "")
    assert "GGUF" in done.stderr


def test_a_truncated_model_is_named(shepherd, model, tmp_path):
    (tmp_path / "cut.gguf").write_bytes(model.read_bytes()[:50_000])

    done = shepherd("-m", tmp_path / "cut.gguf", "-e", "hello")

    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path / 'cut.gguf'}" in done.stderr


def test_a_folder_as_database_stops_before_the_model_is_loaded(shepherd, model, tmp_path):
    done = shepherd("-m", model, "-e", "hello", "--memory-db", tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert f"{tmp_path}: this is a folder" in done.stderr
    assert "--nomemory" in done.stderr


def test_the_database_of_another_program_is_refused_and_left_alone(shepherd, model, tmp_path):
    foreign = tmp_path / "places.sqlite"
    make = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript('CREATE TABLE moz_places(a)')"
    subprocess.run([sys.executable, "-c", make, foreign], check=True)
    before = foreign.read_bytes()

    done = shepherd("-m", model, "-e", "hello", "--memory-db", foreign)

    assert (done.returncode, done.stdout) == (1, "")
    assert str(foreign) in done.stderr
    assert foreign.read_bytes() == before


IMPATIENT = """
from shepherd.cli.main import run
from shepherd.memory import Memory
Memory.__init__.__kwdefaults__["busy_timeout_s"] = 0.2
run()
"""


def test_a_locked_database_costs_a_warning_and_not_the_answer(shepherd, model, home):
    shepherd("facts", "set", "name", "Steve")
    hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None);"
    hold += "c.execute('BEGIN IMMEDIATE'); print('locked', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", hold, home.database]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        other.stdout.readline()
        done = programs.run(
            [sys.executable, "-c", IMPATIENT, "-m", str(model), "-e", "My favourite editor is Helix"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            env=home.environment,
            check=False,
        )
        other.communicate()

    assert (done.returncode, done.stdout) == (0, f"{ANSWER}\n")
    assert done.stderr.startswith("warning: ")
    assert str(home.database) in done.stderr


@NEEDS_DEV_FULL
def test_a_full_disk_behind_stdout_is_a_failure(home, model):
    done = subprocess.run(
        f"{sys.executable} -m shepherd -m {model} -e hello > /dev/full",
        shell=True, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", env=home.environment,
        check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr == "shepherd: error: No space left on device\n"


def test_a_reader_that_has_had_enough_ends_the_answer_quietly(home, endless_model):
    done = subprocess.run(
        f"{sys.executable} -m shepherd -m {endless_model} -e hello --max-tokens 0 --ctx 65536 | head -c 20",
        shell=True, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", env=home.environment,
        check=False, timeout=60,
    )  # fmt: skip

    assert len(done.stdout) == 20
    assert done.stderr == ""


def test_ctrl_c_ends_a_single_answer_with_130_and_keeps_what_was_said(home, endless_model):
    command = [
        sys.executable,
        "-m",
        "shepherd",
        "-m",
        endless_model,
        "-e",
        "hello",
        "--max-tokens",
        "0",
        "--ctx",
        "65536",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env=home.environment) as process:  # fmt: skip
        begun = process.stdout.read(20)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)

    assert process.returncode == 130
    assert (begun + rest).endswith(b"\n")
    assert b"Traceback" not in err


def test_the_bundled_model_is_introduced_once_a_day(shepherd, home):
    introduction = "The bundled demo model answers: it can remember and recall, and nothing more."

    assert introduction not in shepherd("--json", "-e", "hello").stderr
    assert shepherd("-e", "hello").stderr.count(introduction) == 1
    assert introduction not in shepherd("what is my name?").stderr

    (home.path / ".local" / "state" / "shepherd" / "demo-model").write_text("2026-01-01")
    assert introduction in shepherd("-e", "hello").stderr
