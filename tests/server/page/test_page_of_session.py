"""`shepherd serve --session` shows the memory of its conversation too, under the same rules."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from shepherd.config import default_user_id
from shepherd.memory import Memory
from tests.server.processes import ServerProcess


@pytest.fixture
def session(tmp_path, scripted_model) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--session", "-m", str(scripted_model)) as server:
        yield server


def test_what_was_said_in_the_conversation_is_seen_and_changed_on_the_page(session, visit):
    user = default_user_id()
    with Memory(session.database) as memory:
        memory.store_memory("Which editor does the user prefer?", "Helix", user)
        memory.set_fact("name", "Steve", user)
    told = httpx.post(f"{session.url}/request", json={"prompt": "Which editor do I use?"}, trust_env=False)
    assert told.is_success

    page = visit(session.url)
    page.open("memories")
    expect(page.page.locator("main")).to_contain_text("Helix")
    page.open("why")
    page.page.locator(".view-why a.stretch").first.click()
    expect(page.page.locator(".turn").first).to_contain_text("Which editor do I use?")
    page.open("statistics")
    expect(page.page.get_by_role("heading", name="This server")).to_be_visible()
    page.open("facts")
    page.page.locator('.item[data-id="name"] .row-main').press("Enter")
    page.page.locator(".fact").get_by_role("button", name="Forget").press("Enter")
    expect(page.page.locator('.item[data-id="name"]')).to_have_count(0)

    with Memory(session.database) as memory:
        assert memory.get_fact("name", user) is None


def test_page_of_a_conversation_asks_for_a_key_of_its_own_scope(session, visit):
    with Memory(session.database) as memory:
        memory.set_fact("whose", "this is anna's", "anna")
        key, _ = memory.keys.create("anna", ["memory"])
        chatting, _ = memory.keys.create("anna", ["chat"])

    def status(secret: str, path: str) -> int:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        return httpx.get(session.url + path, headers=headers, trust_env=False).status_code

    assert [status(secret, "/v1/facts") for secret in ("", chatting, key)] == [401, 403, 200]
    assert [status(secret, "/") for secret in ("", chatting, key)] == [200, 200, 200]
    page = visit(session.url).page
    page.goto(f"{session.url}/#/facts")
    page.get_by_label("Your API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")
