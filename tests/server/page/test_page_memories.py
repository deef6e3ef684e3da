"""Memories on the page: found, changed, pinned, forgotten and brought back, by mouse and by keyboard."""

from __future__ import annotations

from playwright.sync_api import expect

from shepherd.config import Config
from shepherd.server.app import create_app
from shepherd.server.public_ids import sequence_of
from shepherd.server.state import AppState
from tests.server.running import Running


def test_the_newest_are_shown_and_more_when_asked_for(steve):
    steve.open("memories")

    expect(steve.page.locator(".memory")).to_have_count(50)
    steve.page.get_by_role("button", name="Show more").click()

    expect(steve.page.locator(".memory")).to_have_count(70)
    expect(steve.page.get_by_role("button", name="Show more")).to_have_count(0)
    expect(steve.page.get_by_role("status").first).to_contain_text("70 memories, the newest first")


def test_a_search_finds_as_one_types_and_says_how_well_it_fits(steve):
    steve.open("memories")

    steve.page.get_by_role("searchbox").press_sequentially("which editor")

    first = steve.page.locator(".memory").first
    expect(first).to_contain_text("Helix, since the spring")
    expect(first.locator(".relevance")).to_contain_text("fits")
    assert "editor" not in steve.page.url


def test_words_that_nothing_has_are_said_to_have_no_memory(steve):
    steve.open("memories")

    steve.page.get_by_role("searchbox").fill("xylophone")

    expect(steve.page.get_by_text("No memory has these words.")).to_be_visible()


def test_the_keyboard_alone_edits_a_memory(steve, memory):
    steve.open(f"memories/{sequence_of(memory.search('moka', 1, steve.user)[0].id)}")
    steve.page.get_by_role("button", name="Edit").focus()
    steve.page.keyboard.press("Enter")
    steve.page.keyboard.press("Tab")  # from the question to the answer
    steve.page.keyboard.press("Control+A")
    steve.page.keyboard.type("White, with oat milk.")
    steve.page.keyboard.press("Tab")
    steve.page.keyboard.press("Enter")

    expect(steve.page.locator(".memory .answer")).to_have_text("White, with oat milk.")
    assert memory.search("oat milk", 1, steve.user)[0].answer == "White, with oat milk."
    expect(steve.page.get_by_role("button", name="Edit")).to_be_focused()


def test_escape_leaves_a_memory_as_it_was(steve, memory):
    steve.open(f"memories/{sequence_of(memory.search('moka', 1, steve.user)[0].id)}")
    steve.page.get_by_role("button", name="Edit").press("Enter")
    steve.page.keyboard.type("Never mind. ")
    steve.page.keyboard.press("Escape")

    expect(steve.page.locator(".memory .answer")).to_contain_text("Black, from a moka pot")
    expect(steve.page.get_by_role("button", name="Edit")).to_be_focused()


def test_a_memory_is_pinned_and_unpinned(steve, memory):
    found = memory.search("moka", 1, steve.user)[0]
    steve.open(f"memories/{sequence_of(found.id)}")

    steve.page.get_by_role("button", name="Pin").click()
    expect(steve.page.get_by_role("button", name="Unpin")).to_be_focused()
    pinned = memory.get_memory(found.id, steve.user)
    steve.page.keyboard.press("Space")
    expect(steve.page.locator(".memory .mark")).to_have_count(0)

    assert pinned is not None
    assert pinned.pinned
    unpinned = memory.get_memory(found.id, steve.user)
    assert unpinned is not None
    assert not unpinned.pinned


def test_a_forgotten_memory_is_gone_and_undo_brings_it_back_as_it_was(steve, memory):
    steve.open("memories")
    before = memory.search("allergic", 1, steve.user)[0]
    steve.page.get_by_role("searchbox").fill("allergic")
    expect(steve.page.locator(".memory")).to_have_count(1)

    steve.page.get_by_role("button", name="Forget").press("Enter")
    expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()
    while_gone = memory.search("allergic", 1, steve.user)
    steve.page.keyboard.press("Enter")
    expect(steve.page.locator(".memory")).to_have_count(1)
    expect(steve.page.get_by_role("button", name="Forget")).to_be_focused()
    after = memory.search("allergic", 1, steve.user)[0]

    assert while_gone == []
    assert before.pinned
    assert (after.question, after.answer, after.timestamp, after.pinned) == (
        before.question,
        before.answer,
        before.timestamp,
        before.pinned,
    )


def test_a_memory_is_added(steve, memory):
    steve.open("memories")

    steve.page.get_by_role("button", name="Add a memory").press("Enter")
    steve.page.get_by_label("Question").fill("Which tea?")
    steve.page.get_by_label("Answer").fill("Lapsang")
    steve.page.get_by_role("button", name="Remember it").press("Enter")

    expect(steve.page.locator(".memory").first).to_contain_text("Lapsang")
    assert memory.search("which tea", 1, steve.user)[0].answer == "Lapsang"


def test_a_memory_without_words_is_refused_in_words(steve):
    steve.open("memories")

    steve.page.get_by_role("button", name="Add a memory").click()
    steve.page.get_by_role("button", name="Remember it").click()

    expect(steve.page.locator("#notices")).to_contain_text("a memory needs a question or an answer")


def test_who_has_nothing_is_told_what_to_do(mini, visit):
    newcomer = visit(mini.url, "a newcomer")

    for view, advice in (
        ("memories", "Nothing is remembered yet."),
        ("facts", "No facts yet."),
        ("knowledge", "No knowledge yet."),
        ("why", "No conversations yet."),
        ("learning", "Nothing waits to be learned."),
        ("statistics", "No memories yet."),
    ):
        newcomer.open(view)
        expect(newcomer.page.get_by_text(advice)).to_be_visible()


def test_a_memory_whose_number_javascript_cannot_hold_is_still_the_one_that_is_changed(mini, memory, visit):
    far = "of the ten thousandth user"

    def skip(connection) -> None:
        connection.execute("INSERT INTO tenants(number, user_id) VALUES(?, ?)", (10_001, far))

    memory.transactions.write(far, skip)
    ids = [memory.store_memory(f"Which number {n}?", f"It is {n}.", far) for n in range(4)]
    page = visit(mini.url, far)
    page.open("memories")

    page.page.locator(".memory", has_text="Which number 2?").get_by_role("button", name="Forget").click()
    expect(page.page.locator(".memory")).to_have_count(3)

    assert max(filter(None, ids)) > 1 << 53
    assert [record.answer for record in memory.list_memories(far)] == ["It is 3.", "It is 1.", "It is 0."]


def test_a_server_that_is_gone_is_said_in_words(memory, visit):
    with Running(create_app(AppState(Config(), memory, True))) as server:
        page = visit(server.url, "steve")
        page.open("memories")

    page.page.get_by_role("link", name="Facts").click()

    expect(page.page.get_by_role("alert")).to_contain_text("The server does not answer.")
    expect(page.page.get_by_role("button", name="Try again")).to_be_visible()


def test_what_was_forgotten_makes_no_gap_before_the_next_ones(steve, memory):
    steve.open("memories")
    newest = [str(sequence_of(record.id)) for record in memory.list_memories(steve.user, limit=100)]

    for left in (69, 68, 67):
        steve.page.locator(".memory").first.get_by_role("button", name="Forget").press("Enter")
        expect(steve.page.get_by_role("status").first).to_contain_text(f"{left} memories")
        expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()
    memory.store_memory("What came in meanwhile?", "A memory of another program.", steve.user)
    steve.page.get_by_role("button", name="Show more").click()
    expect(steve.page.locator(".memory")).to_have_count(67)

    shown = steve.page.locator(".memory").evaluate_all("cards => cards.map((card) => card.dataset.id)")
    assert sorted(shown) == sorted(newest[3:])


def test_undo_counts_a_memory_again(steve):
    steve.open("memories")

    steve.page.locator(".memory").first.get_by_role("button", name="Forget").press("Enter")
    expect(steve.page.get_by_role("status").first).to_contain_text("69 memories")
    steve.page.get_by_role("button", name="Undo").press("Enter")

    expect(steve.page.get_by_role("status").first).to_contain_text("70 memories")


def test_a_search_that_finds_more_than_it_shows_says_so(steve):
    steve.open("memories")

    steve.page.get_by_role("searchbox").fill("soup lunch")

    expect(steve.page.get_by_role("status").first).to_contain_text("The best 50 that fit")


def test_a_search_leaves_alone_what_is_being_written(steve):
    steve.open("memories")
    card = steve.page.locator(".memory", has_text="Bruno")
    card.get_by_role("button", name="Edit").click()
    steve.page.get_by_label("Answer").fill("He is called Rex now.")

    steve.page.get_by_role("searchbox").fill("allergic")
    expect(steve.page.get_by_role("status").first).to_contain_text("1 memory fits")

    expect(steve.page.get_by_label("Answer")).to_have_value("He is called Rex now.")
    expect(steve.page.locator(".memory")).to_have_count(2)
