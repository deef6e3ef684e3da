"""What the screen does first, and what waits until nobody is waiting."""

from __future__ import annotations

import gc
import weakref

from shepherd.commands.gc_policy import Garbage
from shepherd.tui import app as application


class Circle:
    """Refers to itself: counting references does not free it."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_searched_for_when_nobody_types(perform, scripted_model, monkeypatch):
    monkeypatch.setattr(application, "_QUIET_S", 0.05)

    async def play(stage):
        await stage.ready()
        circle = weakref.ref(Circle())

        await stage.pilot.press("a")
        await stage.until(lambda: circle() is None, "the sweep")

    with Garbage() as garbage:
        perform(play, scripted_model, garbage=garbage)

    assert gc.get_freeze_count() == 0
