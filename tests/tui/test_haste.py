"""What the screen does first, and what waits until nobody is waiting."""

from __future__ import annotations

import gc
import time
import weakref

from shepherd.commands.gc_policy import GCPolicy
from shepherd.config import Config
from shepherd.tui import app as application
from shepherd.tui.app import ShepherdApp
from shepherd.tui.conversation import SessionOptions


class Circle:
    """Refers to itself: counting references does not free it."""

    def __init__(self) -> None:
        self.itself = self


def test_garbage_is_searched_for_when_nobody_types(perform, scripted_model, monkeypatch, unfrozen):
    monkeypatch.setattr(application, "_QUIET_S", 0.05)

    async def play(stage):
        await stage.ready()
        circle = weakref.ref(Circle())

        await stage.pilot.press("a")
        await stage.until(lambda: circle() is None, "the sweep")

    with GCPolicy() as gc_policy:
        perform(play, scripted_model, gc_policy=gc_policy)

    assert gc.get_freeze_count() == 0


def test_garbage_waits_for_an_end_of_typing_and_answers_and_is_looked_for_once(home):
    class Counting(GCPolicy):
        n = 0

        def collect(self) -> None:
            self.n += 1

    policy = Counting()
    app = ShepherdApp(SessionOptions(Config()), policy)
    counts = []
    for touched_s_ago, is_answering in ((0, False), (99, True), (99, False), (99, False)):
        app._touched_at, app.is_answering = time.monotonic() - touched_s_ago, is_answering
        app._collect_garbage()
        counts.append(policy.n)

    assert counts == [0, 0, 1, 1]
