"""Files on the page: attached to a message, imported by drop and by button, and saved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from shepherd.knowledge import Knowledge
from tests.server.page.test_page_chat import chat, field, over, say  # noqa: F401

EXPORT = "\n".join(
    json.dumps({"type": "memory", "question": f"Which {n}?", "answer": "this", "timestamp": n})
    for n in range(3)
)


def dropped(page: Page, selector: str, *files: tuple[str, str]) -> None:
    """Drop files on an element, as a person does from a folder."""
    page.evaluate(
        "([selector, files]) => {"
        " const data = new DataTransfer();"
        " for (const [name, text] of files) data.items.add(new File([text], name));"
        " const place = document.querySelector(selector);"
        " for (const kind of ['dragenter', 'dragover', 'drop'])"
        "  place.dispatchEvent(new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: data }));"
        "}",
        [selector, files],
    )


def test_dropped_documents_go_with_the_message_and_with_its_repetition(chat, memory):  # noqa: F811
    page = chat.page
    dropped(
        page, ".composer", ("sheep.html", "<title>x</title><p>They graze <b>at night</b>."), ("b.txt", "Two")
    )
    chips = page.locator(".composer .chip")
    expect(chips).to_have_count(2)
    expect(page.locator(".composer [aria-busy=true]")).to_have_count(0)
    page.get_by_role("button", name="Remove b.txt").press("Enter")
    expect(chips).to_have_count(1)
    expect(field(page)).to_be_focused()
    say(page, "I live in Paris. What is it about?")

    expect(chips).to_have_count(0)
    expect(page.locator(".asked-row .chip")).to_contain_text("sheep.html")
    [session] = memory.list_sessions(chat.user)
    asked, _ = memory.load_session(session.id, chat.user)
    say(page, "And now?")
    page.reload()
    expect(page.locator(".turn-pair")).to_have_count(2)
    expect(page.locator(".asked-row .chip")).to_contain_text("sheep.html")
    page.locator(".turn-pair").first.get_by_role("button", name="Ask again").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator(".turn-pair")).to_have_count(1)
    over(page)
    again, _ = memory.load_session(session.id, chat.user)

    assert asked.raw == again.raw == "I live in Paris. What is it about?"
    assert "They graze at night." in asked.composed
    assert again.composed == asked.composed
    assert "Two" not in asked.composed


def test_a_file_that_is_no_document_says_so(chat):  # noqa: F811
    dropped(chat.page, ".composer", ("photo.jpg", "\0\1\2" * 50))

    expect(chat.page.locator("#notices")).to_contain_text("photo.jpg: ")
    expect(chat.page.locator(".composer .chip")).to_have_count(0)


def test_files_are_imported_to_where_they_belong(steve, memory):
    steve.open("memories")
    page = steve.page
    dropped(page, ".view-memories", ("memory.jsonl", EXPORT), ("slugs.md", "# Slugs"), ("a.zip", "PK\3\4 no"))
    rows = page.locator(".imports > li")
    expect(page.get_by_role("heading", name="2 of 3 files imported")).to_be_visible()

    expect(rows.nth(0)).to_contain_text("3 memories and 0 facts imported")
    expect(rows.nth(1)).to_contain_text("1 node added")
    expect(rows.nth(2).locator(".problem")).to_contain_text("a.zip: ")
    expect(page.locator(".rows-head .summary")).to_have_text("73 memories, the newest first")
    assert [(one["id"]) for one in Axe().run(page).response["violations"]] == []
    page.get_by_role("region", name="Import").get_by_role("button", name="Close").press("Enter")
    expect(rows).to_have_count(0)
    assert memory.count_memories(steve.user) == 73
    assert Knowledge(memory.transactions, steve.user).count_nodes() == 13


def test_documents_are_chosen_with_the_keyboard_and_join_the_graph(steve, tmp_path):
    (tmp_path / "bees.txt").write_text("Bees.")
    steve.open("knowledge")

    with steve.page.expect_file_chooser() as chooser:
        steve.page.get_by_role("button", name="Import").press("Enter")
    chooser.value.set_files(tmp_path / "bees.txt")

    expect(steve.page.locator(".imports")).to_contain_text("1 node added")
    expect(steve.page.locator(".node")).to_have_count(13)


@pytest.mark.parametrize("view", ["memories", "knowledge"])
def test_an_export_is_saved_and_comes_back(view, steve, memory, mini, visit):
    steve.open(view)
    with steve.page.expect_download() as download:
        steve.page.get_by_role("button", name="Export").press("Enter")
    path = Path(download.value.path())
    name = download.value.suggested_filename
    other = visit(mini.url, f"{steve.user} again")
    other.open("memories")

    dropped(other.page, ".view-memories", (name, path.read_text()))
    expect(other.page.get_by_role("heading", name="Import complete")).to_be_visible()

    assert name.endswith(".jsonl")
    if view == "memories":
        assert memory.count_memories(other.user) == memory.count_memories(steve.user)
    else:
        assert Knowledge(memory.transactions, other.user).count_nodes() == 12


@contextmanager
def cut_short(url: str, path: str) -> Iterator[str]:
    """Pass requests on to a server, and end the answer to those for `path` after its first bytes."""

    class Passing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = httpx.get(url + self.path, trust_env=False)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["content-type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content[: 10 if self.path.startswith(path) else None])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_export_that_breaks_off_says_that_the_connection_was_lost(mini, steve, visit):
    with cut_short(mini.url, "/v1/memory/export") as url:
        page = visit(url, steve.user)
        page.open("memories")
        page.page.get_by_role("button", name="Export").click()

        expect(page.page.locator(".notice")).to_contain_text("The answer was interrupted")


def test_files_can_be_dropped_anywhere_in_the_window(steve, memory):
    steve.open("memories")
    page = steve.page
    dropped(page, "#nav", ("slugs.md", "# Slugs"))

    expect(page.get_by_role("heading", name="Import complete")).to_be_visible()
    expect(page.locator(".dropping")).to_have_count(0)
    link = page.locator(".imports").get_by_role("link", name="Show in Knowledge")
    link.press("Enter")
    expect(page.locator("#node-title")).to_have_text("Slugs")
    assert Knowledge(memory.transactions, steve.user).count_nodes() == 13


def test_no_view_lets_the_browser_open_a_dropped_file(steve):
    page = steve.page
    for view in ("facts", "statistics", "chat", "memories", "knowledge"):
        steve.open(view)
        is_caught = page.evaluate(
            "() => ['dragover', 'drop'].map((kind) => {"
            " const dataTransfer = new DataTransfer();"
            " if (kind === 'dragover') dataTransfer.items.add(new File(['x'], 'x.txt'));"
            " return !document.getElementById('nav').dispatchEvent("
            "  new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer }));"
            "})"
        )
        assert is_caught == [True, False]  # a drop without a file is the browser's own


def test_an_import_of_nothing_does_not_look_like_success(steve, tmp_path):
    steve.open("memories")
    page = steve.page
    dropped(page, "main", ("song.mp3", "ID3\n" * 9), ("bad.pdf", "%PDF-1.4 broken"), ("memory.jsonl", EXPORT))
    rows = page.locator(".imports > li")

    expect(page.get_by_role("heading", name="1 of 3 files imported")).to_be_visible()
    expect(rows.nth(0).locator(".problem")).to_contain_text("Nothing was imported")
    expect(rows.nth(1).locator(".problem")).to_contain_text("bad.pdf: the PDF cannot be read")
    expect(rows.nth(1)).not_to_contain_text("Error")
    expect(rows.locator("progress:visible")).to_have_count(1)
    dropped(page, "main", ("song.mp3", "ID3\n" * 9))
    expect(page.get_by_role("heading", name="Nothing was imported")).to_be_visible()


def test_what_was_stored_before_is_not_counted_as_imported(steve):
    steve.open("memories")
    page = steve.page
    dropped(page, "main", ("memory.jsonl", EXPORT))
    expect(page.get_by_role("heading", name="Import complete")).to_be_visible()

    dropped(page, "main", ("memory.jsonl", EXPORT), ("slugs.md", "# Slugs"), ("bad.pdf", "%PDF-1.4 broken"))
    expect(page.get_by_role("heading", name="1 of 3 files imported, 1 already stored")).to_be_visible()
    dropped(page, "main", ("memory.jsonl", EXPORT))
    expect(page.get_by_role("heading", name="Everything was already stored")).to_be_visible()


def test_a_picture_is_no_import_and_says_where_it_belongs(steve, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff\xe0" * 9)
    steve.open("knowledge")
    with steve.page.expect_file_chooser() as chooser:
        steve.page.get_by_role("button", name="Import").press("Enter")
    chooser.value.set_files(tmp_path / "photo.jpg")

    expect(steve.page.locator(".imports .problem")).to_contain_text("attach them to a message in the chat")


def test_a_source_can_be_chosen_as_soon_as_it_is_imported(steve):
    steve.open("memories")
    page = steve.page
    lines = '{"type": "memory", "question": "Q", "answer": "A", "source": "chatgpt"}'
    dropped(page, "main", ("memory.jsonl", lines))

    expect(page.get_by_role("heading", name="Import complete")).to_be_visible()
    expect(page.get_by_label("Source").locator("option")).to_contain_text(["All sources", "ChatGPT"])


def test_a_document_with_a_code_says_that_it_was_masked(steve):
    steve.open("knowledge")
    dropped(steve.page, "main", ("alarm.md", "# Alarm\n\nThe alarm code is 4471."))

    expect(steve.page.locator(".imports")).to_contain_text("1 secret in the text replaced by dots")


def test_a_document_that_is_too_large_is_named_with_what_to_do(chat):  # noqa: F811
    page = chat.page
    dropped(page, "main", ("contract.md", "Whereas the parties agree. " * 3000))
    expect(page.locator(".composer [aria-busy=true]")).to_have_count(0)
    say(page, "What is agreed?")

    problem = page.locator(".turn-pair .problem")
    expect(problem).to_contain_text("With “contract.md”, the message is too long for this model.")
    expect(problem).to_contain_text("Import the document under Knowledge")


def test_what_was_recalled_is_opened_in_sight(chat):  # noqa: F811
    page = chat.page
    page.set_viewport_size({"width": 1280, "height": 420})
    for text in ("I live in Paris.", "My dog is called Rex.", "Where do I live?"):
        say(page, text)
        over(page)
    recalled = page.locator(".turn-pair").last.locator("details.recalled")
    page.evaluate("() => scrollTo(0, document.documentElement.scrollHeight)")
    recalled.evaluate("one => { one.open = true; }")  # a click of Playwright's would scroll first

    expect(recalled.locator(".lines")).to_be_visible()
    page.wait_for_function(
        "() => { const found = [...document.querySelectorAll('details.recalled')].at(-1);"
        " return found.getBoundingClientRect().bottom"
        "  <= document.querySelector('.composer-box').getBoundingClientRect().top; }"
    )
