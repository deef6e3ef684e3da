"""The line editor, without a program around it: keys come from a pipe."""

from __future__ import annotations

import io
import os
import pty
import select
import sys

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_input, create_pipe_input
from prompt_toolkit.output import DummyOutput

from shepherd.cli.chat import _confirm
from shepherd.cli.editor import Editor
from shepherd.commands.screen import Screen


def test_what_is_written_of_a_message_is_told_as_it_changes_and_commands_are_not():
    written = []
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        screen = Screen(io.StringIO(), io.StringIO())
        editor = Editor(screen, (None, None), [], keys=keys, on_writing=written.append)
        keys.send_text("/help\r")
        assert editor.read() == "/help"
        assert written == []

        keys.send_text("hey\r")
        assert editor.read() == "hey"
    assert written == ["h", "he", "hey"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Recording(DummyOutput):
    def __init__(self) -> None:
        self.written = ""

    def write_raw(self, data: str) -> None:
        self.written += data


def test_news_of_the_moment_before_the_prompt_is_shown_above_it():
    shown = Recording()
    with create_pipe_input() as keys, create_app_session(input=keys, output=shown):
        editor = Editor(Screen(Terminal(), Terminal()), (None, None), [], keys=keys)
        editor.news = lambda: ["learned: you live in Oslo"]
        editor.say_news()  # nothing is read yet
        assert shown.written == ""

        keys.send_text("hey\r")
        editor.read()

    assert "learned: you live in Oslo" in shown.written


def test_what_is_typed_before_a_question_does_not_answer_it(monkeypatch):
    master, slave = pty.openpty()

    class Answering(Terminal):
        def write(self, text: str) -> int:
            if text.endswith("[y/N] "):
                os.write(master, b"y\n")
            return super().write(text)

    with os.fdopen(slave, "r") as stdin, create_app_session(input=create_input(stdin), output=DummyOutput()):
        monkeypatch.setattr(sys, "stdin", stdin)
        os.write(master, b"no, and then\n")
        assert select.select([stdin], [], [], 60)[0]

        assert _confirm(Screen(Terminal(), Answering()), "put", {"thing": "rope"})

        assert Editor(Screen(Terminal(), Terminal()), (None, None), []).read() == "no, and then"
    os.close(master)
