"""Pictures on the page: dropped and pasted, shown, sent, and answered about."""

from __future__ import annotations

import base64

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from shepherd.memory import Memory
from tests.server.page.test_page_chat import over, say
from tests.vision_models import png, seeing

# The file's bytes come as base64; `kind` is "drop" or "paste".
_GIVE = """([selector, kind, name, type, data]) => {
  const given = new DataTransfer();
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  given.items.add(new File([bytes], name, { type }));
  const place = document.querySelector(selector);
  const rest = { bubbles: true, cancelable: true };
  if (kind === "drop") place.dispatchEvent(new DragEvent("drop", { ...rest, dataTransfer: given }));
  else place.dispatchEvent(new ClipboardEvent("paste", { ...rest, clipboardData: given }));
}"""


def give(page: Page, kind: str, name: str, data: bytes, media_type: str = "image/png") -> None:
    selector = ".composer textarea"
    page.evaluate(_GIVE, [selector, kind, name, media_type, base64.b64encode(data).decode()])


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    return serve("-m", seeing(tmp_path_factory.mktemp("seeing")))


def test_pictures_go_with_the_message_and_stay_in_the_conversation(server, visit):
    shown = visit(server.url, "painter")
    shown.open("chat")
    page = shown.page
    give(page, "drop", "cat.png", png("blue", 3000))
    chip = page.locator(".composer .chip")
    expect(chip).to_contain_text("cat.png")
    expect(page.locator(".composer [aria-busy=true]")).to_have_count(0)
    expect(chip.get_by_role("img", name="cat.png")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    say(page, "What is it?")

    expect(page.locator(".prose").last).to_have_text("blue")
    expect(page.locator(".asked-row").get_by_role("img", name="cat.png")).to_be_visible()
    say(page, "And what was it?")
    expect(page.locator(".prose").last).to_have_text("blue")
    page.locator(".turn-pair").first.get_by_role("button", name="Ask again").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator(".turn-pair")).to_have_count(1)
    over(page)
    expect(page.locator(".prose").last).to_have_text("blue")

    with Memory(server.database) as memory:
        [one] = memory.list_sessions("painter")
        asked, answer = memory.load_session(one.id, "painter")
    assert (asked.raw, asked.composed, answer.raw) == ("What is it?", "[picture]\nWhat is it?", "blue")
    # After a reload the picture is gone, and the conversation goes on.
    page.reload()
    expect(page.locator(".bubble")).to_contain_text("What is it?")
    say(page, "What is it now?")
    expect(page.locator(".prose").last).to_have_text("nothing")


def test_files_are_pasted_and_a_picture_needs_no_words_and_a_broken_one_says_so(server, visit):
    shown = visit(server.url, "paster")
    shown.open("chat")
    page = shown.page
    give(page, "paste", "broken.png", png("red")[:60])
    expect(page.locator("#notices")).to_contain_text("broken.png: ")
    expect(page.locator(".composer .chip")).to_have_count(0)
    give(page, "paste", "notes.txt", b"Some notes", "text/plain")
    # Not while it is being read: then the chip is drawn again, and the key would go to the old button.
    expect(page.locator(".composer .chip")).to_contain_text("10 characters")
    page.get_by_role("button", name="Remove notes.txt").press("Enter")
    give(page, "paste", "image.png", png("green"))
    expect(page.locator(".composer .chip")).to_contain_text("picture")
    say(page, "")
    expect(page.locator(".prose").last).to_have_text("green")
