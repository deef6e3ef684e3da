"""`shepherd provider`, -p and /provider as their users meet them; what never gets out."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator

import pytest

from shepherd.config.file import ConfigFile
from shepherd.providers import ProviderTable
from tests import programs
from tests.cli.test_terminal import CTRL_C, start
from tests.providers.upstream import Upstream, breaks_off, hangs, refuses, running, says, usage

KEY = "sk-live-abcdef-0123456789-wxyz"


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running(says("From ", "afar.", counts=usage(100, 4, cached=60))) as server:
        yield server


@pytest.fixture
def work(home, upstream) -> Upstream:
    """A provider at the server on loopback, with a key in the file."""
    table = ProviderTable(ConfigFile(home.config))
    values = {"kind": "openai", "model": "m", "base_url": f"{upstream.url}/v1", "retries": 0, "api_key": KEY}
    table.add("work", values)
    return upstream


def test_answer_of_a_provider_is_on_stdout_alone(shepherd, work):
    done = shepherd("-p", "work", "-e", "hello")

    assert (done.returncode, done.stdout, done.stderr) == (0, "From afar.\n", "")
    assert work.asked[-1].key == KEY


def test_the_chosen_provider_answers_without_being_named(shepherd, work):
    shepherd("provider", "use", "work")

    assert shepherd("-e", "hello").stdout == "From afar.\n"


def test_the_model_of_this_run_is_the_providers(shepherd, work):
    shepherd("-p", "work", "-m", "other", "-e", "hello")

    assert work.asked[-1].body["model"] == "other"


def test_a_model_file_is_run_here_whatever_provider_is_chosen(shepherd, work, model):
    shepherd("provider", "use", "work")

    assert shepherd("-m", model, "-e", "hello").stdout.startswith("Hello, I am")
    assert work.asked == []


def test_no_database_is_made_for_a_remote_provider(shepherd, work, home):
    shepherd("-p", "work", "-e", "My dog is called Rex")

    assert not home.database.exists()


def test_memory_of_a_provider_can_be_switched_on(shepherd, work):
    shepherd("provider", "set", "work", "memory", "true")
    shepherd("facts", "set", "name", "Steve")

    shepherd("-p", "work", "-e", "what is my name?")

    assert work.asked[-1].said == "what is my name?\n\n[facts: name=Steve]"


def test_json_lines_tell_usage_and_thoughts(shepherd, work):
    work.script[:] = [says({"reasoning": "Hm."}, "Four.", counts=usage(100, 4, cached=60))]

    done = shepherd("-p", "work", "--json", "-e", "2 + 2?")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["event"] for e in events] == ["ready", "recalled", "thought", "delta", "finished"]
    assert (events[0]["model"], events[0]["memory"]) == ("m", False)
    assert events[2]["text"] == "Hm."
    assert (events[4]["answer"], events[4]["stats"]["reused_tokens"]) == ("Four.", 60)


@pytest.mark.parametrize(
    ("fault", "code", "told", "hint"),
    [
        (refuses(401), 1, "the API key is not accepted", "shepherd provider set work api_key"),
        (refuses(404), 1, "no such model or address", "the model is m"),
        (refuses(500), 1, "the server failed", "try again"),
        (breaks_off("Fr"), 1, "broke off", "send the message again"),
        (
            refuses(400, {"message": "x", "code": "context_length_exceeded"}),
            2,
            "too long",
            "start a new conversation",
        ),
    ],
    ids=["401", "404", "500", "cut", "overflow"],
)
def test_a_failure_is_one_line_with_its_remedy(shepherd, work, fault, code, told, hint):
    work.script[:] = [fault]

    done = shepherd("-p", "work", "-e", "hello")

    assert done.returncode == code
    assert told in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_pause_before_another_attempt_is_shown_with_its_reason(shepherd, home, work):
    shepherd("provider", "set", "work", "retries", "1")
    work.script[:] = [refuses(429, Retry_After="15"), says("Hello.")]
    chat = start(home, "-p", "work")
    chat.prompt()

    chat.type("hi")

    chat.expect(r"trying again in 1\d s: provider work \S+ answers 429: too many requests")
    chat.type(CTRL_C, enter=False)
    chat.expect("stopped")
    chat.prompt()
    chat.type("hi")  # which the script answers
    chat.expect("Hello")
    chat.child.close(force=True)


def test_ctrl_c_ends_the_answer_of_a_provider(shepherd, home, work):
    import signal

    work.script[:] = [hangs(["From "])]
    command = [sys.executable, "-m", "shepherd", "-p", "work", "-e", "hello"]
    process = programs.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.environment,
    )

    begun = process.stdout.read(5)
    process.send_signal(signal.SIGINT)
    rest, err = process.communicate(timeout=60)

    assert (begun, rest, err) == (b"From ", b"\n", b"")
    assert process.returncode == 130
    assert work.left.wait(10)


# ---- the command


def test_list_shows_who_answers_and_where_keys_come_from(shepherd, work):
    shepherd("provider", "use", "work")

    rows = [line.split("\t") for line in shepherd("provider", "list").stdout.splitlines()]

    assert rows == [
        ["", "local", "llamacpp", "", "on", ""],
        ["*", "work", "openai", "m", "off", "from config.json"],
    ]


def test_next_goes_round(shepherd, work):
    shepherd("provider", "add", "claude", "anthropic")
    chosen = []
    for _ in range(4):
        chosen.append(json.loads(shepherd("provider", "next", "--json").stdout)["name"])

    assert chosen == ["work", "claude", "local", "work"]


def test_show_tells_everything_but_the_key(shepherd, work):
    shown = json.loads(shepherd("provider", "show", "work", "--json").stdout)

    assert shown["base_url"] == f"{work.url}/v1"
    assert (shown["key"], shown["uses_memory"], shown["retries"]) == ("from config.json", False, 0)


def test_set_with_nothing_goes_back_to_the_default(shepherd, work, home):
    shepherd("provider", "set", "work", "retries", "")

    assert "retries" not in json.loads(home.config.read_text())["providers"]["work"]


def test_add_and_set_make_a_provider_that_answers(shepherd, upstream):
    url = f"{upstream.url}/v1"

    added = shepherd("provider", "add", "own", "openai", "--model", "m", "--base-url", url, "--json")
    keyed = shepherd("provider", "set", "own", "api_key", input=f"{KEY}\n")

    assert json.loads(added.stdout)["key"] == "none"
    assert (keyed.returncode, keyed.stdout, keyed.stderr) == (0, "", "own: api_key is set\n")
    assert shepherd("-p", "own", "-e", "hello").stdout == "From afar.\n"
    assert upstream.asked[-1].key == KEY


def test_test_asks_for_one_word(shepherd, work):
    done = shepherd("provider", "test", "work")

    assert done.returncode == 0
    assert "read 100 tokens, wrote 4" in done.stdout
    assert work.asked[-1].body["max_tokens"] == 16


def test_an_answer_is_no_longer_than_was_asked_for(shepherd, work):
    shepherd("provider", "set", "work", "max_tokens", "4096")

    shepherd("-p", "work", "-e", "hello")
    shepherd("-p", "work", "--max-tokens", "16", "-e", "hello")
    shepherd("provider", "test", "work")

    assert [asked.body["max_tokens"] for asked in work.asked[-3:]] == [4096, 16, 16]


def test_remove_forgets_the_key_too(shepherd, work, home):
    shepherd("provider", "use", "work")

    shepherd("provider", "remove", "work")

    assert json.loads(home.config.read_text()) == {"providers": {}}


def test_the_file_with_the_key_is_the_users_alone(work, home):
    assert stat.S_IMODE(home.config.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["add", "work", "openai"], "provider 'work' already exists"),
        (["add", "a b", "openai"], "cannot be called"),
        (["add", "x", "telepathy"], "invalid choice"),
        (["use", "wrok"], "there is no provider"),
        (["set", "work", "modell", "x"], "no field"),
        (["set", "work", "window"], "error: 'window' needs a value"),
        (["set", "work", "api_key", "sk-123456789"], "does not belong on the command line"),
        (["remove", "local"], "cannot be removed"),
        (["test", "local"], "is in this process"),
        (["show", "nobody"], "there is no provider"),
    ],
)
def test_a_mistake_is_wrong_use_with_its_remedy(shepherd, work, arguments, told):
    done = shepherd("provider", *arguments)

    lines = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(lines)) == (2, "", 2)
    assert told in lines[0]
    assert "sk-123456789" not in done.stderr


# ---- the key never gets out

COMMANDS = [
    ["provider", "list"],
    ["provider", "list", "--json"],
    ["provider", "show", "work"],
    ["provider", "show", "work", "--json"],
    ["provider", "set", "work", "window", "900", "--json"],
    ["provider", "set", "work", "window", "no"],
    ["provider", "use", "work", "--json"],
    ["provider", "next", "--json"],
    ["provider", "test", "work", "-v"],
    ["provider", "test", "work", "--json", "-v"],
    ["-p", "work", "-e", "hello", "-v"],
    ["-p", "work", "-e", "hello", "--json", "-v"],
    ["config", "show"],
    ["config", "show", "--json", "--explain"],
    ["config", "get", "provider"],
    ["config", "set", "provider", "work", "--json"],
    ["doctor"],
    ["doctor", "--json"],
    ["provider", "remove", "work", "--json"],
]
ECHO = {"message": f"{KEY} is wrong", "code": KEY, "type": KEY, "param": KEY}


@pytest.mark.parametrize("place", ["file", "environment"])
@pytest.mark.parametrize(
    "step",
    [says("ok"), refuses(401, ECHO), refuses(400, ECHO), refuses(404, ECHO), refuses(429, ECHO)],
    ids=["good", "401", "400", "404", "429"],
)
def test_no_command_shows_the_key_whatever_the_server_says(work, home, step, place, monkeypatch, capsys):
    from shepherd.cli.main import main

    for name in ("HOME", "SHEPHERD_USER_ID"):
        monkeypatch.setenv(name, home.environment[name])
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "SHEPHERD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    if place == "environment":
        monkeypatch.setenv("WORK_KEY", KEY)
        main(["provider", "set", "work", "api_key", ""])
        main(["provider", "set", "work", "key_env", "WORK_KEY"])
    work.script[:] = [step]
    monkeypatch.setattr("sys.stdin", None)

    shown = ""
    for command in COMMANDS:
        main(command)
        out, err = capsys.readouterr()
        shown += out + err

    assert all(asked.key == KEY for asked in work.asked)
    assert len(work.asked) >= 4
    assert KEY not in shown
    logs = [path for path in home.path.rglob("*") if path.is_file() and path != home.config]
    assert not any(KEY.encode() in path.read_bytes() for path in logs)


def test_broken_providers_are_repaired_by_the_commands_that_the_warnings_name(shepherd, home):
    home.config.parent.mkdir(parents=True)
    c = {"kind": "openai", "timeout": "x", "model": 4, "api_key": 5}
    broken = {"a": 5, "b": {"kind": "zzz"}, "c": c}
    home.config.write_text(json.dumps({"providers": broken, "provider": "a"}))

    done = shepherd("provider", "set", "c", "api_key", "")
    assert done.returncode == 0
    assert done.stderr.startswith("c: api_key is set\nwarning: provider c: model is not valid; expected ")
    for _ in range(4):
        [*_, hint] = shepherd("provider", "list").stderr.splitlines()
        words = hint.partition(";")[0].replace("VALUE", "8").split()
        shepherd(*words[1:])

    assert json.loads(home.config.read_text()) == {
        "providers": {"c": {"kind": "openai", "timeout": 8.0, "model": "8"}}
    }


def test_a_provider_that_cannot_answer_yet_is_pointed_out(shepherd):
    shepherd("provider", "add", "claude", "anthropic")
    both = shepherd("provider", "use", "claude").stderr
    assert "claude has no model" in both
    assert "claude has no API key" in both
    shepherd("provider", "set", "claude", "model", "claude-sonnet-4-5")
    assert "key" in shepherd("provider", "use", "claude").stderr
    assert "warning" not in shepherd("provider", "use", "claude", ANTHROPIC_API_KEY="k").stderr
