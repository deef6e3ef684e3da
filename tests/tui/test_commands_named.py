"""Commands that the screens name can be run where PATH does not have the program."""

from __future__ import annotations

import os
import re

from shepherd.commands.screen import Screen
from shepherd.knowledge import Knowledge


def test_the_view_of_knowledge_names_a_program_that_is_there(perform, scripted_model, memory, monkeypatch):
    Knowledge(memory.transactions, "steve").add_node("Herons", source_text="They stand. " * 1000)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    screen = Screen()
    screen.names_program = True

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f4")
        await stage.shows("Herons")
        await stage.shows("They stand.")
        await stage.pilot.press("enter", "enter", "end")
        await stage.shows("more characters: ")
        named = re.search(r"more characters: (\S+) knowledge show", stage.text())
        assert named is not None
        assert os.access(named[1], os.X_OK)

    perform(play, scripted_model, size=(200, 40), runnable=screen.runnable)
