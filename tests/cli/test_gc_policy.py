"""Where a conversation looks for garbage, and that the process is left as it was found."""

from __future__ import annotations

import gc
import weakref

import pytest

from shepherd.commands.gc_policy import GCPolicy


class Circle:
    """Refers to itself: counting references does not free it."""

    def __init__(self) -> None:
        self.itself = self


pytestmark = pytest.mark.usefixtures("unfrozen")


def test_what_the_start_made_is_never_looked_at_again():
    there = [object()]

    with GCPolicy() as gc_policy:
        before = gc.is_tracked(there) and not gc.get_freeze_count()
        gc_policy.freeze()

        assert before
        assert gc.get_freeze_count() > 10_000
        assert not any(one is there for one in gc.get_objects())


def test_a_sweep_collects_what_came_since():
    with GCPolicy() as gc_policy:
        gc_policy.freeze()
        circle = weakref.ref(Circle())

        gc_policy.collect()

    assert circle() is None


def test_nothing_is_searched_for_while_the_program_starts():
    with GCPolicy():
        before = [generation["collections"] for generation in gc.get_stats()]
        made = [[] for _ in range(50_000)]

        assert [generation["collections"] for generation in gc.get_stats()] == before
        assert made


@pytest.mark.parametrize("has_started", [True, False])
def test_the_process_is_as_before_when_the_conversation_ends(has_started):
    thresholds = gc.get_threshold()

    with GCPolicy() as gc_policy:
        if has_started:
            gc_policy.freeze()
            gc_policy.freeze()

    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
