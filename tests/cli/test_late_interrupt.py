"""A Ctrl-C that comes when the answer that it was to stop has just ended."""

from __future__ import annotations

import io
import signal

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from shepherd.assistant import Assistant
from shepherd.cli.conversation import Conversation
from shepherd.cli.editor import Editor
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
