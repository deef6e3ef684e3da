"""`shepherd demo`, as a newcomer sees it: two real processes, the built-in model, nothing prepared."""

import io
import json
import sys

import pexpect

from tests import programs

ASKED_FOR_CURSOR = "\x1b[6n"


def test_the_second_process_answers_from_what_the_first_was_told(shepherd, home):
    done = shepherd("demo", "--fast")

    shown = done.stdout + done.stderr
    assert done.returncode == 0, shown
    assert "You prefer VS Code with vim keybindings." in done.stdout
    assert "You live in Texas." in done.stdout
    assert "Appended to your last message" in done.stdout
    assert "reused" in done.stdout
    # At the next prompt, or at the end of the process.
    assert "learned: your name is Steve · " in done.stderr
    # No command could show it later, and the facts below are Steve's.
    assert "trace tree" not in shown
    assert "The memory of this demo has been deleted." in done.stderr
    assert not home.database.exists()
    assert not home.history.exists()


def test_the_lines_are_typed_at_the_real_prompt_of_a_terminal(home):
    child = programs.spawn(
        sys.executable,
        ["-m", "shepherd", "demo", "--fast"],
        env=home.environment,
        encoding="utf-8",
        timeout=120,
    )

    shown = io.StringIO()
    child.logfile_read = shown
    child.expect_exact("empty memory")
    child.expect_exact("Nice to meet you, Steve.")
    child.expect_exact("2 of 2: a new process")
    child.expect_exact("You prefer VS Code with vim keybindings.")
    child.expect(pexpect.EOF)
    assert ASKED_FOR_CURSOR not in shown.getvalue()  # the answer would come as a line of the user's
    child.close()
    assert child.exitstatus == 0
    assert not home.database.exists()


def test_as_json_lines_it_is_the_same_conversations(shepherd):
    done = shepherd("demo", "--json")

    assert "learned name" not in done.stderr
    answers = [
        event["answer"]
        for line in done.stdout.splitlines()
        if (event := json.loads(line)).get("event") == "finished"
    ]
    assert answers[-2:] == ["You prefer VS Code with vim keybindings.", "You live in Texas."]
