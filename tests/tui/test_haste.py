"""What the screen does first, and what waits until nobody is waiting."""

from __future__ import annotations

import gc
import weakref

from shepherd.commands.gc_policy import GCPolicy
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

    with GCPolicy() as gc_policy:
        perform(play, scripted_model, gc_policy=gc_policy)

    assert gc.get_freeze_count() == 0
