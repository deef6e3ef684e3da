"""The line editor, without a program around it: keys come from a pipe."""

from __future__ import annotations

import io

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

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
