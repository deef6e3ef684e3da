"""Ctrl-C a moment before an answer begins, and a moment after its end."""

from __future__ import annotations

import io
import signal

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from shepherd.assistant import Assistant
from shepherd.cli import INTERRUPTED
from shepherd.cli.conversation import Conversation, show_turn
from shepherd.cli.editor import Editor
from shepherd.cli.main import main
from shepherd.commands.screen import Screen
from shepherd.commands.slash import COMMANDS
from shepherd.config import Config
from shepherd.inference import Engine
from shepherd.memory import Memory
from shepherd.turn.components import ModelAccess


def test_ctrl_c_before_the_prompt_is_back_does_not_end_the_conversation(plain_model, tmp_path, monkeypatch):
    err = io.StringIO()
    with (
        Memory(tmp_path / "memory.db", user_id="steve") as memory,
        Engine(plain_model) as engine,
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
    ):
        screen = Screen(io.StringIO(), err)
        editor = Editor(screen, (None, None), COMMANDS, keys=keys)
        assistant = Assistant(ModelAccess(engine, memory), config=Config(), user_id="steve")
        conversation = Conversation(assistant, screen, editor=editor)
        monkeypatch.setattr(memory, "take_news", lambda user: signal.raise_signal(signal.SIGINT))
        keys.send_text("/quit\r")

        assert conversation.run(0) == 0

    assert "interrupted" in err.getvalue()


class Interrupted(Assistant):
    """Is asked just when Ctrl-C is pressed."""

    def ask(self, *said, **options):
        signal.raise_signal(signal.SIGINT)
        yield from super().ask(*said, **options)


def test_ctrl_c_before_the_answer_has_begun_stops_it(endless_model):
    with Engine(endless_model) as engine:
        assistant = Interrupted(ModelAccess(engine), config=Config(max_tokens=500), user_id="steve")
        finished = show_turn(assistant, "hello", Screen(io.StringIO(), io.StringIO()))

    assert finished.stats.finish_reason == "cancelled"


def test_a_second_ctrl_c_while_the_first_ends_the_command_changes_nothing(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shepherd.cli.main._dispatch", interrupted)
    monkeypatch.setattr(Screen, "note", lambda *_: signal.raise_signal(signal.SIGINT))

    assert main(["facts", "list"]) == INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
