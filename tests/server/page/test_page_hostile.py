"""What somebody wrote is text: it runs nothing, turns no line around and pushes nothing off the page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from shepherd.knowledge import Knowledge
from tests.server.page.stored import conversation

SCRIPT = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'><svg onload='stolen = 1'>"
HANDLER = "\"><a href='javascript:window.stolen = 1'>click</a>{{7*7}}${window.stolen = 1}"
BIDI = "\u202eevil\u2066 \u200f\u202d right to left"
LONG_WORD = "x" * 5000
MANY_LINES = "\n".join(f"line {n}" for n in range(400))
ZALGO = "Z" + "\u0335\u0327\u0318\u0303" * 200
HOSTILE = [SCRIPT, HANDLER, BIDI, LONG_WORD, MANY_LINES, ZALGO, "\u0000\u0007\u001b[31m", "\U0001f411" * 300]


@pytest.fixture
def hostile(mini, memory, visit):
    """A page of a user all of whose data are hostile."""
    user = "a hostile user"
    if not memory.count_memories(user):
        knowledge = Knowledge(memory.transactions, user)
        before = None
        for n, text in enumerate(HOSTILE):
            memory.store_memory(f"{text} remember {n}", f"{text} this", user, source=text[:50])
            memory.set_fact(f"{text[:200]} {n}", text, user, source=text[:50])
            node = knowledge.add_node(
                text[:900] or "none", kind=text[:50], notes=text, source_text=text, link=f"javascript:{n}//"
            )
            if before is not None:
                knowledge.connect(before, node.id, text or "none")
            before = node.id
        conversation(memory, user, f"What did I remember? {SCRIPT} {BIDI}", "nothing")
    return visit(mini.url, user, viewport={"width": 400, "height": 800})


@pytest.mark.parametrize("view", ["chat", "memories", "facts", "knowledge", "why", "learned", "statistics"])
def test_hostile_texts_are_shown_as_they_are_and_do_nothing(view, hostile):
    hostile.open(view)
    page = hostile.page
    if view == "chat":
        page.locator(".talk a").first.dispatch_event("click")  # hidden where the screen is narrow
        expect(page.locator(".turn-pair")).to_be_visible()
    if view == "why":
        page.locator(".view-why a.stretch").click()
        expect(page.locator(".turn")).to_be_visible()
    if view == "knowledge":
        page.get_by_role("button", name="List").click()
    for summary in page.locator("main summary").all():
        if summary.is_visible():
            summary.click()

    assert page.evaluate("window.stolen") is None
    assert (
        page.locator(
            "main script, main img, main [onerror], main [onload], main a[href^='javascript']"
        ).count()
        == 0
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "something sticks out"
    if view in ("chat", "memories", "facts", "why", "knowledge"):
        assert "<script>window.stolen" in page.locator("main").inner_text()


def test_a_node_with_a_link_that_would_run_has_none(hostile):
    hostile.open("knowledge")
    hostile.page.get_by_role("button", name="List").click()

    hostile.page.locator(".item .row-main").first.click()

    expect(hostile.page.locator(".panel")).to_be_visible()
    assert hostile.page.locator(".panel a").count() == 0
    assert hostile.page.evaluate("window.stolen") is None


def test_a_text_that_turns_its_line_leaves_the_words_beside_it_as_they_are(hostile):
    hostile.open("memories")
    card = hostile.page.locator(".item", has_text="remember 2")
    card.locator(".row-main").click()

    styles = card.locator(".words").evaluate_all("all => all.map(one => getComputedStyle(one).unicodeBidi)")

    assert set(styles) <= {"isolate", "plaintext"}
    assert "entered by hand" in card.inner_text() or "ago" in card.inner_text() or "now" in card.inner_text()


def test_a_long_text_is_shortened_until_it_is_asked_for(hostile):
    hostile.open("memories")
    row = hostile.page.locator(".item", has_text="remember 4")
    closed = row.bounding_box()
    row.locator(".row-main").click()
    card = row.locator(".memory")

    short = card.locator(".answer").bounding_box()
    card.get_by_role("button", name="Show all").last.press("Enter")
    expect(card.get_by_role("button", name="Show less")).to_be_visible()
    long = card.locator(".answer").bounding_box()

    assert short is not None
    assert long is not None
    assert closed is not None
    assert closed["height"] < 80
    assert short["height"] < 250
    assert long["height"] > 5000


def test_even_a_script_that_got_into_the_page_would_not_run(hostile):
    # The policy is the second wall: markup that a mistake in a view would make of a text.
    hostile.open("memories")

    refused = hostile.page.evaluate(
        """() => {
            try {
                document.querySelector("main").innerHTML = "<b>text</b>";
                return "";
            } catch (error) {
                return error.name;
            }
        }"""
    )

    assert refused == "TypeError"
    hostile.problems.clear()  # the browser reports it
