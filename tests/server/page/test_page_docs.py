"""The reference of the API at /docs: readable without scripts, wide and narrow, light and dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.server.page.test_page_accessibility import NARROW, WIDE, findings

CHAT = "post_v1_chat_completions"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_routes_are_read_without_scripts_in_any_window(size, scheme, mini, visit):
    opened = visit(mini.url, viewport=size, color_scheme=scheme, java_script_enabled=False)
    page = opened.page
    page.goto(f"{mini.url}/docs")
    route = page.locator("details", has=page.locator(f"#{CHAT}"))

    expect(route.get_by_text("temperature", exact=True)).to_be_hidden()
    route.locator("summary").press("Enter")
    expect(route.get_by_text("temperature", exact=True)).to_be_visible()
    route.get_by_role("link", name="ChatMessage").first.click()

    expect(page.locator("#schema-ChatMessage")).to_be_in_viewport()
    title = page.locator("#schema-ChatMessage").bounding_box()
    assert title is not None
    assert title["x"] + title["width"] <= size["width"]


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide", "narrow"])
def test_axe_finds_nothing_in_the_reference(size, scheme, mini, visit):
    page = visit(mini.url, viewport=size, color_scheme=scheme).page
    page.goto(f"{mini.url}/docs#{CHAT}")
    expect(page.locator(f"#{CHAT}")).to_be_visible()  # a link to a route opens it

    assert findings(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]


def test_the_page_links_to_the_reference_which_has_its_colours(steve):
    page = steve.page
    page.emulate_media(color_scheme="light")
    steve.open("facts")
    page.evaluate("localStorage.setItem('shepherd.theme', 'dark')")

    page.get_by_role("link", name="API reference").click()

    expect(page.get_by_role("heading", name="API", exact=True)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_role("link", name="Shepherd").click()
    page.wait_for_selector("main h1")
