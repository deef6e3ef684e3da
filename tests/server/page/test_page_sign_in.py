"""Who may see the page's contents: whoever the server's identity rules let in, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Error, Route, expect

from shepherd.config import Config, default_user_id
from shepherd.memory import Memory
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.processes import ServerProcess
from tests.server.running import Running


@pytest.fixture
def own_memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id=default_user_id()) as memory:
        yield memory


@pytest.fixture
def keys(own_memory) -> dict[str, str]:
    for user in ("anna", "anna/dog", "bob"):
        own_memory.set_fact("whose", f"this is {user}'s", user)
    return {owner: own_memory.keys.create(owner, ["memory"])[0] for owner in ("anna", "bob")}


@pytest.fixture
def closed(own_memory, keys) -> Iterator[Running]:
    with Running(create_app(AppState(Config(), own_memory, True, needs_key=True))) as running:
        yield running


@pytest.fixture
def open_to_all(own_memory) -> Iterator[Running]:
    with Running(create_app(AppState(Config(), own_memory, True))) as running:
        yield running


def test_without_a_key_there_is_a_field_for_it_and_nothing_else(closed, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")

    expect(page.get_by_label("Your API key")).to_be_focused()
    expect(page.locator("#nav a")).to_have_count(0)
    assert "this is" not in page.content()


def test_a_key_opens_its_owners_memory_and_is_in_no_address_and_no_cookie(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Your API key").press_sequentially(keys["anna"])
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")
    page.reload()
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    assert not any(keys["anna"] in url for url in asked)
    assert page.context.cookies() == []
    assert keys["anna"] not in page.content()
    other = page.context.new_page()
    other.goto(f"{closed.url}/#/facts")
    expect(other.get_by_label("Your API key")).to_be_visible()


def test_a_wrong_key_is_said_to_be_wrong(closed, visit):
    page = visit(closed.url).page
    page.goto(closed.url)

    page.get_by_label("Your API key").fill("shepherd_" + "0" * 64)
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("alert")).to_contain_text("The server does not know this key.")


def test_a_revoked_key_is_asked_for_again(closed, keys, own_memory, visit):
    page = visit(closed.url).page
    page.goto(closed.url)
    page.get_by_label("Your API key").fill(keys["bob"])
    page.keyboard.press("Enter")
    expect(page.locator("#nav a").first).to_be_visible()

    for record in own_memory.keys.list():
        own_memory.keys.revoke(record.id)
    # The page may have noticed by itself, and have no links any more.
    page.evaluate("location.hash = '#/facts'")

    expect(page.locator("h1")).to_have_text("Sign in again")
    page.evaluate("location.hash = '#/why'")
    page.wait_for_timeout(200)
    expect(page.locator("h1")).to_have_text("Sign in again")
    assert page.evaluate("sessionStorage.getItem('shepherd.key')") is None


def test_signing_out_takes_the_key_away(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")

    page.get_by_role("button", name="Sign out").press("Enter")

    expect(page.get_by_label("Your API key")).to_be_focused()
    assert page.evaluate("sessionStorage.length") == 0
    assert "this is" not in page.content()


def test_a_users_of_an_owner_are_chosen_and_another_owner_is_not_reached(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")

    page.get_by_role("button", name="Memory of anna").press("Enter")
    expect(page.get_by_label("User")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".view-facts h1")).to_be_visible()
    expect(page.get_by_role("button", name="Memory of anna")).to_be_focused()
    for user, facts in (
        ("dog", ["this is anna/dog's"]),
        ("bob", []),
        ("../bob", []),
        ("", ["this is anna's"]),
    ):
        page.get_by_role("button", name="Memory of anna").press("Enter")
        page.get_by_label("User").fill(user)
        page.keyboard.press("Enter")
        expect(page.locator(".view-facts h1")).to_be_visible()
        page.wait_for_selector("main:not([aria-busy])")
        assert page.locator(".row-main .value").all_inner_texts() == facts


def test_without_keys_the_memory_of_the_terminal_is_shown(open_to_all, own_memory, visit):
    own_memory.set_fact("whose", "the terminal's", default_user_id())
    page = visit(open_to_all.url).page

    page.goto(f"{open_to_all.url}/#/facts")

    expect(page.locator(".row-main .value")).to_have_text("the terminal's")
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


def test_a_key_that_may_only_chat_is_told_which_one_may_look(closed, own_memory, visit):
    key, _ = own_memory.keys.create("anna", ["chat"])
    page = visit(closed.url).page
    page.goto(closed.url)

    page.get_by_label("Your API key").fill(key)
    page.keyboard.press("Enter")

    expect(page.get_by_role("alert")).to_contain_text("shepherd apikey create")


def test_who_signs_in_where_there_were_no_keys_sees_his_own_memory(open_to_all, own_memory, visit):
    page = visit(open_to_all.url).page
    page.goto(f"{open_to_all.url}/#/facts")
    expect(page.get_by_role("button", name="Memory of")).to_contain_text(default_user_id())
    expect(page.locator("main:not([aria-busy]) h1")).to_have_text("Facts")

    own_memory.set_fact("whose", "this is anna's", "anna")
    key, _ = own_memory.keys.create("anna", ["memory"])
    page.get_by_role("link", name="Why").click()
    page.get_by_label("Your API key").fill(key)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Memory of")).to_have_text("Memory of anna")
    page.get_by_role("link", name="Facts").click()

    expect(page.locator(".row-main .value")).to_have_text("this is anna's")


def test_a_name_that_nobody_can_have_is_asked_for_once(open_to_all, visit):
    page = visit(open_to_all.url, "x" * 300).page
    page.goto(open_to_all.url)
    expect(page.get_by_role("alert")).to_contain_text("256 characters")

    page.get_by_role("button", name="Try again").click()

    expect(page.get_by_role("button", name="Memory of")).to_contain_text(default_user_id())


def test_a_key_with_letters_that_no_key_has_is_said_to_be_wrong(closed, visit):
    page = visit(closed.url).page
    page.goto(closed.url)

    page.get_by_label("Your API key").fill("shepherd_" + "0" * 20 + "\u2026")
    page.get_by_role("button", name="Sign in").click()

    expect(page.get_by_role("alert")).to_contain_text("The server does not know this key. Copy all of it")


def test_a_key_asks_for_no_figures_that_it_may_not_see(closed, keys, visit):
    page = visit(closed.url).page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{closed.url}/#/statistics")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")

    expect(page.locator("main:not([aria-busy]) h1")).to_have_text("Statistics")
    assert f"{closed.url}/v1/memory/stats" in asked
    assert f"{closed.url}/metrics" not in asked


def test_who_stays_signed_in_is_so_in_every_tab_until_one_of_them_signs_out(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    expect(page.get_by_label("Stay signed in on this device")).not_to_be_checked()
    page.get_by_label("Stay signed in on this device").check()
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    other = page.context.new_page()
    other.goto(f"{closed.url}/#/facts")
    expect(other.locator(".row-main .value")).to_have_text("this is anna's")
    other.get_by_role("button", name="Sign out").press("Enter")

    for tab in (other, page):
        expect(tab.get_by_label("Your API key")).to_be_visible()
        assert "this is" not in tab.content()
        assert tab.evaluate("localStorage.length + sessionStorage.length") == 0


def test_a_key_that_is_revoked_stays_on_no_device(closed, keys, own_memory, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.get_by_label("Stay signed in on this device").check()
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    for record in own_memory.keys.list():
        own_memory.keys.revoke(record.id)
    page.reload()

    expect(page.locator("h1")).to_have_text("Sign in again")
    assert page.evaluate("localStorage.length") == 0


def test_a_tab_does_not_go_over_to_the_key_of_who_signs_in_in_another_one(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    other = page.context.new_page()
    other.goto(f"{closed.url}/#/facts")
    other.get_by_label("Your API key").fill(keys["bob"])
    other.get_by_label("Stay signed in on this device").check()
    other.keyboard.press("Enter")
    expect(other.locator(".row-main .value")).to_have_text("this is bob's")
    page.reload()

    expect(page.locator(".row-main .value")).to_have_text("this is anna's")


def test_a_link_with_a_key_says_whose_memory_it_opens_and_leaves_the_address_at_once(closed, keys, visit):
    page = visit(closed.url).page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{closed.url}/#key={keys['anna']}")

    expect(page.locator("h1")).to_have_text("Sign in with this link?")
    expect(page.locator("form")).to_contain_text("the memory of anna,")
    assert page.url == f"{closed.url}/"
    assert page.evaluate("[localStorage.length, sessionStorage.length]") == [0, 0]
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Memory of anna")).to_be_visible()

    page.go_back()
    page.go_forward()
    assert page.url == f"{closed.url}/"
    assert not any(keys["anna"] in url for url in asked)


def test_a_link_changes_who_is_signed_in_only_if_that_is_wanted(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    page.evaluate(f"location.hash = '#key={keys['bob']}'")
    expect(page.locator("form")).to_contain_text("the memory of bob,")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("button", name="Memory of anna")).to_be_visible()
    page.evaluate(f"location.hash = '#key={keys['bob']}'")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("button", name="Memory of bob")).to_be_visible()

    page.evaluate("location.hash = '#/facts'")
    expect(page.locator(".row-main .value")).to_have_text("this is bob's")


def test_a_link_with_an_unknown_key_signs_nobody_out(closed, keys, visit):
    page = visit(closed.url).page
    page.goto(f"{closed.url}/#/facts")
    page.get_by_label("Your API key").fill(keys["anna"])
    page.keyboard.press("Enter")
    expect(page.locator(".row-main .value")).to_have_text("this is anna's")

    page.goto(f"{closed.url}/#key={keys['anna'][:20]}")

    expect(page.locator(".notice")).to_contain_text("doesn't know the key in this link")
    expect(page.get_by_role("button", name="Memory of anna")).to_be_visible()
    assert page.url == f"{closed.url}/"


def test_nothing_that_is_under_way_goes_on_in_the_memory_of_another_user(open_to_all, own_memory, visit):
    for user in ("anna", "bert"):
        for n in range(3):
            own_memory.set_fact(f"fact {n}", user, user)
    visited = visit(open_to_all.url, "anna")
    page = visited.page
    visited.open("facts")
    deleting: list[Route] = []
    asking: list[Route] = []
    of_bert = re.compile(r"/v1/memory/user\?user=bert")

    def hold(route: Route) -> None:
        (deleting if route.request.method == "DELETE" else asking).append(route)

    page.route(re.compile("/v1/facts/"), hold)
    page.route(of_bert, hold)

    page.get_by_label("Select all that are shown").check()
    with page.expect_request(lambda request: request.method == "DELETE"):
        page.get_by_role("button", name="Forget", exact=True).click()
    page.get_by_role("button", name="Memory of anna").click()
    page.get_by_label("User").fill("bert")
    with page.expect_request(lambda request: "user=bert" in request.url):
        page.keyboard.press("Enter")
    with suppress(Error):  # the page that asked for it is gone
        deleting[0].fulfill(json={"key": "fact 0", "deleted": True})
    page.wait_for_timeout(200)
    page.unroute(of_bert)
    asking[-1].continue_()
    expect(page.get_by_role("button", name="Memory of bert")).to_be_visible()
    expect(page.locator(".item")).to_have_count(3)

    assert ["user=anna" in route.request.url for route in deleting] == [True]


def test_a_user_is_found_by_a_name_with_blanks_around_it(open_to_all, own_memory, visit):
    own_memory.set_fact("whose", "this is anna's", "anna")
    page = visit(open_to_all.url).page
    page.goto(f"{open_to_all.url}/#/facts")

    page.get_by_role("button", name=re.compile("Memory of")).click()
    page.get_by_label("User").fill(" anna ")
    page.keyboard.press("Enter")

    expect(page.locator(".row-main .value")).to_have_text("this is anna's")
    expect(page.get_by_role("button", name="Memory of anna")).to_be_visible()


def test_what_was_typed_and_not_sent_is_not_shown_to_who_signs_in_next(serve, visit):
    # A server whose first key is made while it runs asks for keys when it starts again.
    server = serve()
    with Memory(server.database) as memory:
        keys = [memory.keys.create(owner, ["memory", "chat"])[0] for owner in ("anna", "bob")]
    server.stop()
    with ServerProcess(server.home) as closed:
        page = visit(closed.url).page
        page.goto(f"{closed.url}/#/chat")
        for key in keys:
            page.get_by_label("Your API key").fill(key)
            page.keyboard.press("Enter")
            expect(page.locator("main:not([aria-busy]) textarea[name=message]")).to_have_value("")
            page.locator("textarea[name=message]").fill("a secret of anna's")
            page.get_by_role("button", name="Sign out").click()
