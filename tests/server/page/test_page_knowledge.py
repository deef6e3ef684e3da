"""Knowledge on the page while answers are late, and while another page changes the same."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from tests.server.page.conftest import Visit


@pytest.fixture
def knowledge(memory: Memory, steve: Visit) -> Knowledge:
    return Knowledge(memory.transactions, steve.user)


def ids(knowledge: Knowledge, *titles: str) -> list[int]:
    found = {node.title: node.id for node in knowledge.list_nodes(limit=100)}
    return [found[title] for title in titles]


def held(page: Page, pattern: str) -> list[Route]:
    """Hold back the requests that match the pattern, until they are continued."""
    routes: list[Route] = []

    def hold(route: Route) -> None:
        routes.append(route)

    page.route(re.compile(pattern), hold)
    return routes


def listed(steve: Visit, title: str) -> Locator:
    return steve.page.locator(".item").filter(has_text=title).first


def show_list(steve: Visit) -> None:
    steve.open("knowledge")
    steve.page.get_by_role("button", name="List").click()


def test_a_late_search_does_not_replace_a_newer_one(steve: Visit) -> None:
    page = steve.page
    late: list[Route] = []

    def hold(route: Route) -> None:
        late.append(route) if "barrel" in (route.request.post_data or "") else route.continue_()

    page.route(re.compile("/v1/knowledge/search"), hold)
    steve.open("knowledge")
    field = page.get_by_role("searchbox")

    field.fill("barrel")
    with page.expect_request(re.compile("/v1/knowledge/search")):
        field.press("Enter")
    field.fill("slugs")
    field.press("Enter")
    found = page.get_by_label("Found")
    expect(found).to_contain_text("They eat slugs.")
    with page.expect_response(re.compile("/v1/knowledge/search")):
        late[0].continue_()
    page.wait_for_timeout(100)

    expect(found).to_contain_text("They eat slugs.")


def test_a_late_node_does_not_replace_a_form_that_is_being_filled_in(
    steve: Visit, knowledge: Knowledge
) -> None:
    page = steve.page
    [late, other] = ids(knowledge, "Compost", "Ducks")
    show_list(steve)
    routes = held(page, f"/v1/knowledge/nodes/{late}\\?")

    with page.expect_request(re.compile(f"/v1/knowledge/nodes/{late}")):
        listed(steve, "Compost").locator(".row-main").click()
    listed(steve, "Ducks").locator(".row-main").click()
    page.locator(".panel").get_by_role("button", name="Edit").click()
    page.get_by_label("Notes").fill("They eat snails, too.")
    with page.expect_response(re.compile(f"/v1/knowledge/nodes/{late}")):
        routes[0].continue_()
    page.wait_for_timeout(100)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".panel h2")).to_have_text("Ducks")

    assert knowledge.get_node(other).notes == "They eat snails, too."  # type: ignore[union-attr]


def test_an_undo_leaves_the_form_that_is_being_filled_in(steve: Visit, knowledge: Knowledge) -> None:
    page = steve.page
    [ducks] = ids(knowledge, "Ducks")
    steve.open(f"knowledge/{ducks}")

    page.get_by_role("button", name="Disconnect Compost").click()
    expect(page.locator(".panel")).to_contain_text("0 connections")
    page.locator(".panel").get_by_role("button", name="Edit").click()
    page.get_by_label("Notes").fill("They eat snails, too.")
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(page.locator(".summary").last).to_contain_text("12 connections")
    page.wait_for_timeout(300)

    expect(page.get_by_label("Notes")).to_have_value("They eat snails, too.")


def test_nodes_that_another_page_puts_in_focus_stay_there(steve: Visit, knowledge: Knowledge) -> None:
    [greenhouse, compost, ducks, order] = ids(knowledge, "Greenhouse", "Compost", "Ducks", "Seed order")
    steve.open(f"knowledge/{compost}")

    knowledge.focus([greenhouse, ducks])
    steve.page.get_by_role("button", name="Put in focus").click()
    expect(steve.page.get_by_role("button", name="Remove from focus")).to_be_visible()
    by_one = [focused.node.id for focused in knowledge.focused()]
    steve.page.get_by_role("button", name="List").click()
    listed(steve, "Compost").get_by_role("checkbox").check()
    knowledge.focus([greenhouse, compost, order])
    steve.page.locator(".bulk").get_by_role("button", name="Remove from focus").click()
    expect(steve.page.locator("#notices")).to_contain_text("No longer in focus.")

    assert by_one == [greenhouse, ducks, compost]
    assert [focused.node.id for focused in knowledge.focused()] == [greenhouse, order]


def test_a_node_that_was_removed_elsewhere_does_not_stop_the_others(
    steve: Visit, knowledge: Knowledge
) -> None:
    show_list(steve)
    knowledge.delete_node(ids(knowledge, "Compost")[0])

    steve.page.get_by_label("Select all that are shown").check()
    steve.page.locator(".bulk").get_by_role("button", name="Remove", exact=True).click()
    steve.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(steve.page.locator("#notices")).to_contain_text("Removed: 11 nodes.")

    assert knowledge.count_nodes() == 0


def test_a_removal_that_fails_halfway_says_how_much_was_done(steve: Visit, knowledge: Knowledge) -> None:
    [compost] = ids(knowledge, "Compost")
    order = [node.id for node in knowledge.list_nodes(limit=100)]
    steve.page.route(
        re.compile(f"/v1/knowledge/nodes/{compost}"),
        lambda route: route.abort() if route.request.method == "DELETE" else route.continue_(),
    )
    show_list(steve)

    steve.page.get_by_label("Select all that are shown").check()
    steve.page.locator(".bulk").get_by_role("button", name="Remove", exact=True).click()
    steve.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    n = order.index(compost)
    expect(steve.page.locator("#notices")).to_contain_text(
        f"Removed: {n} of 12 nodes. The server does not answer."
    )
    expect(steve.page.locator(".item")).to_have_count(12 - n)

    assert knowledge.count_nodes() == 12 - n
