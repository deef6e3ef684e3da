"""Every view, narrow and wide, light and dark: axe finds nothing serious, and all can be reached."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 400, "height": 800}


def serious(page) -> list[tuple[str, str, list[str]]]:
    found = Axe().run(page).response["violations"]
    return [
        (one["id"], one["help"], [node["html"][:150] for node in one["nodes"][:3]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]


def shown(page, view: str) -> None:
    """What a person may open in a view."""
    if view == "why":
        page.get_by_role("link", name="Conversation of").first.click()
        page.wait_for_selector(".turn")
    if view == "memories":
        page.get_by_role("button", name="Add a memory").click()
        page.get_by_role("button", name="Edit").first.click()
    if view == "facts":
        page.get_by_role("button", name="Add a fact").click()
    if view == "knowledge":
        page.locator(".node").first.press("Enter")
        page.wait_for_selector(".panel")
        page.get_by_text("Connect it with another node").click()
    for summary in page.locator("main summary:visible").all():
        if not summary.evaluate("one => one.parentElement.open"):
            summary.click()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_axe_finds_nothing_serious(size, scheme, mini, steve, visit):
    page = visit(mini.url, steve.user, viewport=size, color_scheme=scheme)
    found = {}
    for view in ("memories", "facts", "knowledge", "why", "learning", "statistics"):
        page.open(view)
        shown(page.page, view)
        found[view] = serious(page.page)

    assert found == {view: [] for view in found}


def test_axe_finds_nothing_serious_in_questions_and_lists(steve):
    steve.open("learning")
    steve.page.get_by_role("button", name="Learn nothing from it").first.click()
    question = serious(steve.page)
    steve.page.keyboard.press("Escape")
    steve.open("knowledge")
    steve.page.get_by_role("button", name="List").click()
    listed = serious(steve.page)
    steve.page.get_by_role("button", name="Memory of").click()
    whose = serious(steve.page)

    assert (question, listed, whose) == ([], [], [])


@pytest.mark.parametrize("view", ["memories", "facts", "knowledge", "why", "learning", "statistics"])
def test_nothing_sticks_out_of_a_narrow_screen_and_all_can_be_touched(view, mini, steve, visit):
    page = visit(mini.url, steve.user, viewport={"width": 320, "height": 640})
    page.open(view)

    small = page.page.locator("button:visible, #nav a, input:visible").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect())"
        ".filter(box => box.height < 24 || box.width < 24).length"
    )

    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert small == 0


def test_colours_can_be_chosen_and_are_remembered(mini, steve, visit):
    page = visit(mini.url, steve.user, color_scheme="light")
    page.open("memories")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = page.page.evaluate(colour)

    for _ in range(2):
        page.page.get_by_role("button", name="Colours").press("Enter")
    dark = page.page.evaluate(colour)
    page.page.reload()
    page.page.wait_for_selector("main h1")

    assert light != dark
    assert page.page.evaluate(colour) == dark
