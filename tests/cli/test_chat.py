"""What the plain chat decides before a model is opened: its message, settings, templates and remarks."""

from __future__ import annotations

import io
import os
import time
from argparse import Namespace
from pathlib import Path

import pytest

from shepherd.cli import chat
from shepherd.commands.screen import Screen
from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.memory import Claim, Memory
from shepherd.paths import demo_model_file
from shepherd.types import Message
from tests.learned import LIVED, learn


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    return tmp_path


class Stdin(io.TextIOWrapper):
    """Standard input: a pipe with these bytes, or a terminal."""

    def __init__(self, data: bytes, *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def parsed(*words: str) -> Namespace:
    return chat.build_parser().parse_args(list(words))


def told(error: ShepherdError) -> str:
    return f"{error} | {error.hint}"


NOTHING = 'nothing was asked | ask with -e "a question", or pipe a message to stdin'


@pytest.mark.parametrize(
    ("prompt", "piped", "flags", "message"),
    [
        ("hi", None, {}, ("hi", "")),
        ("hi", b"a letter\r\n", {}, ("hi", "a letter")),
        (None, b"hi\n", {}, ("hi", "")),
        ("", b"hi\n\n", {}, ("hi\n", "")),
        (None, b"a letter\n", {"in_template": True}, ("", "a letter")),
        (None, None, {}, None),
        (None, None, {"is_needed": False}, ("", "")),
        ("hi", b"a letter", {"is_read": True}, ("hi", "")),
    ],
)
def test_a_message_is_typed_or_piped(monkeypatch, prompt, piped, flags, message):
    monkeypatch.setattr("sys.stdin", Stdin(piped or b"", is_terminal=piped is None))
    flags = {"is_read": False, "in_template": False, "is_needed": True, **flags}

    assert chat._message(prompt, **flags) == message


@pytest.mark.parametrize(
    ("prompt", "piped", "flags", "words"),
    [
        (None, b" \n", {}, NOTHING),
        (" ", b"", {}, NOTHING),
        (None, b"a letter", {"is_read": True}, NOTHING),
        ("a\udcff", b"", {}, "-e: character 1 is not valid text | use UTF-8"),
        (None, b"ab\xff", {}, "stdin: byte 2 of 3 bytes is not UTF-8 | convert it first: iconv -f latin1 -t"
                              " utf-8"),
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(monkeypatch, prompt, piped, flags, words):
    monkeypatch.setattr("sys.stdin", Stdin(piped))
    flags = {"is_read": False, "in_template": False, "is_needed": True, **flags}

    with pytest.raises(UsageError) as caught:
        chat._message(prompt, **flags)
    assert told(caught.value) == words


def test_without_stdin_only_a_typed_message_is_one(monkeypatch):
    monkeypatch.setattr("sys.stdin", None)
    flags = {"is_read": False, "in_template": False, "is_needed": True}

    assert chat._message("hi", **flags) == ("hi", "")
    with pytest.raises(UsageError, match="nothing was asked"):
        chat._message(None, **flags)


@pytest.mark.parametrize(
    ("words", "changes", "model"),
    [
        ((), {}, ""),
        (("--memtools",), {"memory_tools": True}, ""),
        (("--norag",), {"rag_context_injection": False}, ""),
        (("-m", "big"), {"model": "big"}, "big"),
        (("-m", "hf:a/b"), {"model": "hf:a/b", "provider": ""}, "hf:a/b"),
        (("-m", "x.gguf"), {"model": "x.gguf", "provider": ""}, "x.gguf"),
        (("-m", "x.gguf", "-p", "far"), {"model": "x.gguf", "provider": "far"}, "x.gguf"),
    ],
)
def test_options_are_settings_and_a_local_file_means_this_machine(monkeypatch, words, changes, model):
    monkeypatch.setenv("SHEPHERD_PROVIDER", "near")

    config, named = chat.conversation_settings(parsed(*words))

    expected = {"provider": "near", "memory_tools": False, "rag_context_injection": "auto", "model": "",
                **changes}  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected
    assert named == model


def test_the_bundled_model_is_introduced_once_a_day():
    file = demo_model_file()
    assert chat.is_first_today()
    assert file.read_text("utf-8") == time.strftime("%Y-%m-%d")
    assert not chat.is_first_today()
    file.write_text("2020-01-01", "utf-8")
    assert chat.is_first_today()
    file.write_bytes(b"\xff")
    assert chat.is_first_today()
    file.unlink()
    file.parent.chmod(0o700)
    assert file.parent.stat().st_mode & 0o077 == 0
    file.mkdir()  # it cannot be written
    assert chat.is_first_today()
    assert chat.is_first_today()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "a note\n"),
        ({"memory_tools": True}, "the bundled demo model calls no tools"),
        ({"mcp_servers": "*"}, "the bundled demo model calls no tools"),
    ],
)
def test_the_bundled_model_is_introduced_by_its_limits(settings, words):
    for count in (1, 2):
        screen = Screen(io.StringIO(), io.StringIO())
        chat._introduce_the_built_in_model(Config(**settings), "a note", screen)
        said = screen.err.getvalue()
        if settings:  # each time: the user asked for what it cannot do
            assert words in said
            assert "a full model does: shepherd -m " in said
        else:
            assert said == (words if count == 1 else "")


def test_what_was_learned_is_told_at_the_end_once():
    with Memory(user_id="steve") as memory:
        [item] = learn(memory, "steve", LIVED, Claim("location", "Köln", LIVED, 0))
        for said in (
            f"learned: you live in Köln \N{MIDDLE DOT} shepherd memory learned --undo {item.id}\n",
            "",
        ):
            screen = Screen(io.StringIO(), io.StringIO())
            chat.show_news_at_end(screen, memory, "steve")
            assert screen.err.getvalue() == said
    chat.show_news_at_end(screen, memory, "steve")  # it is closed: the next start tells it
    assert screen.err.getvalue() == ""


def test_the_conversation_to_continue_is_found_before_a_model():
    config = Config(user_id="steve")
    with Memory(user_id="steve") as memory:
        session = memory.start_session("steve", "tiny")
        memory.append_message(session, Message("user", "about boats"), "steve")
        memory.append_message(session, Message("assistant", "Nice."), "steve")

    for words, found in (((), None), (("--continue",), ""), (("--continue", "boats"), session)):
        assert chat.conversation_to_continue(parsed(*words), config) == found
    assert chat.conversation_to_continue(parsed("--continue", "dogs", "--nomemory"), config) == "dogs"
    with pytest.raises(ShepherdError) as caught:
        chat.conversation_to_continue(parsed("--continue", "dogs"), config)
    assert told(caught.value) == (
        "there is no conversation 'dogs'"
        " | shepherd conversations list --all shows all conversations; to ask a question in the last one, use"
        ' shepherd --continue -e "…"'
    )


def test_templates_set_what_no_option_does(home):
    folder = home / ".config" / "shepherd" / "templates"
    folder.mkdir(parents=True)
    (folder / "one.md").write_text(
        "---\nsystem: You are $role.\nmodel: big\nprovider: far\n---\nSum up: $input", "utf-8"
    )
    (folder / "two.md").write_text("---\nsystem: Be short.\nmodel: small\n---\nSay hello", "utf-8")

    with pytest.raises(UsageError) as caught:
        chat._use_templates(parsed("--param", "a", "b"))
    assert told(caught.value) == "--param needs a template | -t NAME; shepherd template list names them"
    assert chat._use_templates(parsed()) == ([], True)

    arguments = parsed("-t", "one", "--param", "role", "a poet")
    texts, needs_message = chat._use_templates(arguments)
    assert (len(texts), needs_message) == (1, True)
    assert texts[0].template.startswith("Sum up: ")
    assert arguments.setting_system_prompt == "You are a poet."
    assert (arguments.setting_model, arguments.setting_provider) == ("big", "far")

    arguments = parsed("-t", "one", "-t", "two", "--param", "role", "a poet", "-p", "near")
    texts, needs_message = chat._use_templates(arguments)
    assert (len(texts), needs_message) == (2, False)
    assert arguments.setting_system_prompt == "You are a poet.\n\nBe short."
    assert (arguments.setting_model, arguments.setting_provider) == ("small", "near")


def test_a_call_of_a_tool_is_confirmed_after_its_arguments():
    asked: list[str] = []

    class Answering(Screen):
        def agrees(self, question: str) -> bool:
            asked.append(question)
            return len(asked) == 1

    screen = Answering(io.StringIO(), io.StringIO())

    assert chat._confirm(screen, "put", {"thing": "rope"})
    assert not chat._confirm(screen, "jam\x1b", {})
    assert asked == [
        '{\n  "thing": "rope"\n}\nput can change something. Allow it?',
        "jam\ufffd can change something. Allow it?",
    ]
