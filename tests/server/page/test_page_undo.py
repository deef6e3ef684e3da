"""Facts that are forgotten on the page come back as they were, also where something else changes them."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Locator, Route, expect

from shepherd.memory import Claim, Memory, Turn
from tests.learned import learn
from tests.server.page.conftest import Visit

DOG = "My dog is called Rex."


def line(steve: Visit, key: str) -> Locator:
    return steve.page.locator(f'.item[data-id="{key}"]')


def forget(steve: Visit, key: str) -> Locator:
    """Forget a fact; return the button that undoes it."""
    line(steve, key).locator(".row-main").press("Enter")
    line(steve, key).get_by_role("button", name="Forget").press("Enter")
    return steve.page.get_by_role("button", name="Undo")


def forget_all(steve: Visit) -> None:
    steve.page.get_by_label("Select all that are shown").check()
    steve.page.get_by_role("button", name="Forget", exact=True).press("Enter")


def notices(steve: Visit) -> Locator:
    return steve.page.locator("#notices")


def test_undo_restores_a_learned_fact_with_its_source_and_its_sentence(steve: Visit, memory: Memory) -> None:
    [item] = learn(memory, steve.user, DOG, Claim("dog_name", "Rex", DOG, 0))
    memory.archive_turn(Turn(DOG, "Nice to meet Rex.", int(time.time()), item.session), steve.user)

    def state() -> tuple[object, ...]:
        return memory.fact_history(None, steve.user), memory.list_memories(steve.user, limit=100)

    before = state()
    steve.open("facts")

    undo = forget(steve, "dog_name")
    expect(undo).to_be_focused()
    gone = state()
    undo.press("Enter")
    expect(line(steve, "dog_name")).to_contain_text("learned")

    assert len(gone[1]) == len(before[1]) - 1  # type: ignore[arg-type]
    assert state() == before


def test_undo_leaves_a_newer_value_and_says_so(steve: Visit, memory: Memory) -> None:
    steve.open("facts")

    undo = forget(steve, "name")
    expect(undo).to_be_focused()
    memory.set_fact("name", "Stephen", steve.user)
    undo.press("Enter")

    expect(notices(steve)).to_contain_text("It was changed meanwhile, so the new value stays.")
    expect(undo).to_have_count(0)
    notices(steve).get_by_role("button", name="Close").press("Enter")
    expect(line(steve, "name")).to_contain_text("Stephen")
    assert memory.get_fact("name", steve.user) == "Stephen"


def test_a_fact_that_was_forgotten_elsewhere_does_not_stop_the_others(steve: Visit, memory: Memory) -> None:
    steve.open("facts")
    memory.clear_fact("location", steve.user)

    forget_all(steve)
    expect(notices(steve)).to_have_text(re.compile("^Forgotten: 2 facts"))
    expect(steve.page.locator(".item")).to_have_count(0)
    gone = memory.get_all_facts(steve.user)
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator(".item")).to_have_count(2)

    assert gone == []
    assert [fact.key for fact in memory.get_all_facts(steve.user)] == ["allergies", "name"]


def test_what_was_forgotten_before_an_error_can_be_undone(steve: Visit, memory: Memory) -> None:
    def fail(route: Route) -> None:
        route.abort() if route.request.method == "DELETE" else route.continue_()

    steve.page.route(re.compile("/v1/facts/location"), fail)
    steve.open("facts")

    forget_all(steve)
    expect(notices(steve)).to_contain_text("Forgotten: “allergies”")
    expect(notices(steve)).to_contain_text("The server does not answer.")
    expect(steve.page.locator(".item")).to_have_count(2)
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator(".item")).to_have_count(3)

    assert len(memory.get_all_facts(steve.user)) == 3
