"""Every view, narrow and wide, light and dark: axe finds nothing, and all can be reached."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.server.page.stored import conversation

WIDE = {"width": 1280, "height": 860}
NARROW = {"width": 400, "height": 800}


def findings(page) -> list[tuple[str, str, list[str]]]:
    # Of what is right, axe would compute a path for each of thousands of elements.
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [(one["id"], one["help"], [node["html"][:150] for node in one["nodes"][:3]]) for one in found]


def shown(page, view: str) -> None:
    """What a person may open in a view."""
    if view == "chat":
        page.locator(".talk a").first.dispatch_event("click")  # hidden where the screen is narrow
        page.wait_for_selector(".turn-pair")
        page.get_by_role("button", name="Edit").last.click()
    if view == "why":
        page.locator(".view-why a.stretch").first.click()
        page.wait_for_selector(".turn")
    if view == "memories":
        page.get_by_role("button", name="Add a memory").click()
        page.locator(".item .row-main").nth(1).click()
        page.locator(".item .row-main").first.click()
        page.locator(".item").first.get_by_role("button", name="Edit").click()
        page.locator(".item input").nth(2).check()
    if view == "facts":
        page.get_by_role("button", name="Add a fact").click()
        page.locator('.item[data-id="location"] .row-main').click()
    if view == "knowledge":
        page.locator(".node").first.press("Enter")
        page.wait_for_selector(".panel")
        page.get_by_text("Connect it with another node").click()
    for summary in page.locator("main summary:visible").all():
        if not summary.evaluate("one => one.parentElement.open"):
            summary.click()


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_axe_finds_nothing_in_any_view(size, scheme, mini, steve, visit):
    page = visit(mini.url, steve.user, viewport=size, color_scheme=scheme)
    found = {}
    for view in ("chat", "memories", "facts", "knowledge", "why", "learned", "statistics"):
        page.open(view)
        shown(page.page, view)
        found[view] = findings(page.page)

    assert found == {view: [] for view in found}


def test_axe_finds_nothing_in_questions_and_lists(steve):
    steve.open("learning")
    steve.page.get_by_role("button", name="Learn nothing from it").first.click()
    question = findings(steve.page)
    steve.page.keyboard.press("Escape")
    steve.open("knowledge")
    steve.page.get_by_role("button", name="List").click()
    steve.page.locator(".item input").first.check()
    listed = findings(steve.page)
    steve.page.get_by_role("button", name="Memory of").click()
    whose = findings(steve.page)
    steve.page.get_by_role("button", name="Keyboard").click()
    keys = findings(steve.page)

    assert (question, listed, whose, keys) == ([], [], [], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_at_all_in_a_conversation(scheme, mini, memory, steve, visit):
    text = "# Title\n\n**Bold** `code` [link](https://example.org)\n\n> quoted\n\n"
    text += "```python\nprint(1)\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. one\n   - two"
    session = conversation(memory, steve.user, "Which editor do I use?", text)
    page = visit(mini.url, steve.user, viewport={"width": 1440, "height": 900}, color_scheme=scheme)
    page.open(f"chat/{session}")
    page.page.locator(".recalled > summary").click()
    page.page.get_by_role("textbox", name="Message", exact=True).fill("I live in Lyon.")
    page.page.keyboard.press("Enter")
    expect(page.page.get_by_role("list", name="What was learned")).to_be_visible()

    conversed = Axe().run(page.page).response["violations"]
    page.open("chat")
    empty = Axe().run(page.page).response["violations"]

    assert [(one["id"], [node["html"][:150] for node in one["nodes"][:3]]) for one in conversed + empty] == []


@pytest.mark.parametrize("view", ["chat", "memories", "facts", "knowledge", "why", "learned", "statistics"])
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
