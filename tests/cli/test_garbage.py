"""Where a conversation looks for garbage, and that the process is left as it was found."""

from __future__ import annotations

import gc
import weakref

import pytest

from shepherd.commands.gc_policy import Garbage


class Circle:
    """Refers to itself: counting references does not free it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def unfrozen():
    """Nothing is kept from the search by others."""
    assert not gc.get_freeze_count()


def test_what_the_start_made_is_never_looked_at_again(unfrozen):
    there = [object()]

    with Garbage() as garbage:
        before = gc.is_tracked(there) and not gc.get_freeze_count()
        garbage.keep()

        assert before
        assert gc.get_freeze_count() > 10_000
        assert not any(one is there for one in gc.get_objects())


def test_a_sweep_collects_what_came_since(unfrozen):
    with Garbage() as garbage:
        garbage.keep()
        circle = weakref.ref(Circle())

        garbage.sweep()

    assert circle() is None


def test_nothing_is_searched_for_while_the_program_starts(unfrozen):
    with Garbage():
        before = [generation["collections"] for generation in gc.get_stats()]
        made = [[] for _ in range(50_000)]

        assert [generation["collections"] for generation in gc.get_stats()] == before
        assert made


@pytest.mark.parametrize("has_started", [True, False])
def test_the_process_is_as_before_when_the_conversation_ends(unfrozen, has_started):
    thresholds = gc.get_threshold()

    with Garbage() as garbage:
        if has_started:
            garbage.keep()
            garbage.keep()

    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
