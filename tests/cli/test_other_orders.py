"""Command lines in other words and orders than the help's: modes as options, names first, plain questions."""

from __future__ import annotations

import json

import pytest

from shepherd.cli.main import parser_of


def test_a_question_in_quotes_is_answered(shepherd, model):
    asked = shepherd("what is my name?", "-m", model)

    assert (asked.returncode, asked.stdout) == (0, "Hello, I am a shepherd. Café is open today!\n")


def test_a_question_without_quotes_says_how_to_ask_it(shepherd):
    done = shepherd("what", "is", "my", "name?")

    assert done.returncode == 2
    assert "there is no command 'what'" in done.stderr
    assert 'in quotes: shepherd "…"' in done.stderr
    assert "did you mean" not in done.stderr  # chat


def test_a_single_unknown_word_lists_the_commands(shepherd):
    assert "commands: chat, tui" in shepherd("frobnicate").stderr
    assert "did you mean memory" in shepherd("memroy", "list").stderr


@pytest.mark.parametrize(
    ("flag", "command"),
    [
        ("--apiserver", "serve"),
        ("--server", "serve"),
        ("--cliserver", "serve"),
        ("--tui", "tui"),
    ],
)
def test_a_mode_can_be_an_option(shepherd, flag, command):
    assert shepherd(flag, "--help").stdout.startswith(f"usage: shepherd {command} ")
    assert shepherd("--verbose", flag, "--help").stdout.startswith(f"usage: shepherd {command} ")


def test_cliserver_serves_a_session(shepherd):
    done = shepherd("--cliserver", "-m", "/none.gguf", "--port", "0")

    assert done.returncode == 2
    assert "/none.gguf: there is no such file" in done.stderr


def test_modes_are_not_in_the_help(shepherd):
    assert "apiserver" not in shepherd("--help").stdout + shepherd("serve", "--help").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("--user", "anna", "facts", "get", "name"),
        ("--user=anna", "--json", "facts", "get", "name"),
        ("facts", "--user", "anna", "get", "name"),
        ("--json", "facts", "--user=anna", "get", "name"),
        ("--user", "anna", "facts", "get", "--", "name"),
    ],
)
def test_options_of_all_commands_can_come_before_the_command_and_its_action(shepherd, words):
    shepherd("facts", "set", "name", "Anna", "--user", "anna")
    shepherd("facts", "set", "name", "Steve")

    done = shepherd(*words)

    expected = '{"key": "name", "value": "Anna"}' if "--json" in words else "Anna"
    assert (done.returncode, done.stdout) == (0, f"{expected}\n"), done.stderr


def test_an_option_that_the_command_does_not_have_is_an_error_in_front_too(shepherd):
    done = shepherd("--user", "anna", "model", "list")

    assert done.returncode == 2
    assert "unrecognized arguments: --user anna" in done.stderr


def test_options_before_a_question_belong_to_the_chat(shepherd, model):
    asked = shepherd("--user", "memory", "-m", model, "what is my name?")

    assert (asked.returncode, asked.stdout) == (0, "Hello, I am a shepherd. Café is open today!\n")


def test_a_provider_can_be_named_before_the_action(shepherd):
    shepherd("provider", "add", "far", "openai", "--model", "m")

    done = shepherd("provider", "far", "set", "memory", "true")

    assert (done.returncode, done.stderr) == (0, "far: memory is set\n")
    assert json.loads(shepherd("provider", "far", "show", "--json").stdout)["memory"] is True


def test_config_with_a_key_gets_it_and_with_a_value_sets_it(shepherd):
    assert shepherd("config", "top_k", "7").stderr == "top_k = 7\n"
    assert shepherd("config", "top_k").stdout == "7\n"
    assert json.loads(shepherd("config", "top_k", "--json").stdout) == 7
    assert shepherd("config", "gpu_layers", "-1").stderr == "gpu_layers = -1\n"


def test_config_with_an_unknown_key_names_the_nearest(shepherd):
    done = shepherd("config", "topk", "7")

    assert done.returncode == 2
    assert 'there is no setting "topk"' in done.stderr
    assert "top_k" in done.stderr


def test_config_with_a_misspelt_action_names_the_one_that_was_meant(shepherd):
    assert "did you mean show?" in shepherd("config", "shwo").stderr


@pytest.mark.parametrize(
    ("words", "conversation", "question"),
    [
        ([], None, None),
        (["--continue"], "", None),
        (["--continue", "3fa1b2c4"], "3fa1b2c4", None),
        (["--continue", "and what now?"], "", "and what now?"),
        (["and what now?", "--continue", "3fa1b2c4"], "3fa1b2c4", "and what now?"),
        (["--continue=trip to Lisbon", "and what now?"], "trip to Lisbon", "and what now?"),
        (["--continue", "trip to Lisbon", "-e", "and what now?"], "trip to Lisbon", "and what now?"),
        (["-e", "and what now?", "--continue", "trip to Lisbon"], "trip to Lisbon", "and what now?"),
        (["--continue", "3fa1b2c4", "--prompt=and now?"], "3fa1b2c4", "and now?"),
    ],
)
def test_behind_continue_a_word_is_a_name_and_what_has_blanks_a_question(words, conversation, question):
    parsed = parser_of("chat").parse_args(words)

    assert (parsed.resume, parsed.prompt) == (conversation, question)
