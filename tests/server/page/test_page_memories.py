"""Memories on the page: found, changed, pinned, forgotten and brought back, by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Route, expect

from shepherd.config import Config
from shepherd.memory import Memory, Turn
from shepherd.sequences import sequence_of
from shepherd.server.app import create_app
from shepherd.server.state import AppState
from tests.server.page.conftest import Visit
from tests.server.running import Running


def rows(steve: Visit) -> Locator:
    return steve.page.locator(".item")


def opened(steve: Visit, text: str) -> Locator:
    """Open the line that has this text; its card."""
    row = rows(steve).filter(has_text=text).first
    row.locator(".row-main").press("Enter")
    return row.locator(".memory")


def status(steve: Visit) -> Locator:
    return steve.page.locator(".rows-head .summary")


def lunches(memory: Memory, user: str, n: int) -> None:
    """More memories, all older than the others."""
    entry = {"type": "memory", "answer": "Soup again.", "source": "import"}
    memory.import_memories([{**entry, "question": f"Lunch {i}?", "timestamp": i} for i in range(n)], user)


def test_the_newest_are_shown_and_more_when_asked_for(steve, memory):
    lunches(memory, steve.user, 60)
    steve.open("memories")

    expect(rows(steve)).to_have_count(100)
    steve.page.get_by_role("button", name="Show more").click()

    expect(rows(steve)).to_have_count(130)
    expect(steve.page.get_by_role("button", name="Show more")).to_have_count(0)
    expect(status(steve)).to_have_text("130 memories, the newest first")
    expect(rows(steve).nth(100).locator(".row-main")).to_be_focused()


def test_a_screen_has_many_lines(mini, memory, visit):
    page = visit(mini.url, "with many", viewport={"width": 1440, "height": 900})
    lunches(memory, "with many", 60)
    page.open("memories")

    whole = "all => all.filter(one => one.getBoundingClientRect().bottom <= innerHeight).length"
    assert rows(page).evaluate_all(whole) >= 22


def test_a_search_leaves_out_what_was_only_said_near_a_match(steve, memory):
    session = memory.start_session(steve.user)
    for question in ("Good morning", "My boiler leaks."):
        memory.archive_turn(Turn(question, "I see.", 1_795_000_000, session), steve.user)
    steve.open("memories")
    steve.page.get_by_role("searchbox", name="Search your memories").fill("boiler leaks")

    expect(status(steve)).to_have_text("1 memory matches, the best first")


def test_a_search_finds_as_one_types_and_says_how_well_it_fits(steve):
    steve.open("memories")

    steve.page.get_by_role("searchbox").press_sequentially("which editor")

    first = rows(steve).first
    expect(first).to_contain_text("Helix, since the spring")
    expect(first.locator(".relevance")).to_contain_text("match")
    assert "editor" not in steve.page.url


def test_choices_narrow_the_list_and_the_search(steve, memory):
    memory.recall("Which editor do I use?", steve.user)
    memory.set_fact("name", "Steve", steve.user)  # counts are written with what is written anyway
    lunches(memory, steve.user, 3)
    page = steve.page
    steve.open("memories")

    page.get_by_label("Source", exact=True).select_option("imported")
    expect(status(steve)).to_have_text("3 memories, the newest first")
    page.get_by_label("Order", exact=True).select_option("Oldest first")
    expect(rows(steve).first).to_contain_text("Lunch 0?")
    page.get_by_label("Source", exact=True).select_option("All sources")
    page.get_by_label("Date", exact=True).select_option("Over a year ago")
    expect(status(steve)).to_have_text("3 memories, the oldest first")
    page.get_by_label("Date", exact=True).select_option("Any time")
    page.get_by_label("Pinned", exact=True).select_option("Pinned")
    expect(rows(steve)).to_have_count(1)
    expect(rows(steve)).to_contain_text("allergic")
    page.get_by_label("Pinned", exact=True).select_option("Pinned or not")
    page.get_by_label("Recalled", exact=True).select_option("Never recalled")
    page.get_by_role("searchbox").fill("which editor")
    expect(page.get_by_text("No memory contains these words.")).to_be_visible()
    page.get_by_label("Recalled", exact=True).select_option("Recalled or not")
    expect(rows(steve).first).to_contain_text("Helix")


def test_keys_walk_select_and_open(steve, memory):
    steve.open("memories")
    page = steve.page
    first, second, third = (rows(steve).nth(n) for n in range(3))
    page.locator("main").focus()

    page.keyboard.press("j")
    expect(first.locator(".row-main")).to_be_focused()
    page.keyboard.press("x")
    page.keyboard.press("Shift+J")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    expect(second.locator(".row-main")).to_be_focused()
    expect(status(steve)).to_have_text("2 memories selected")
    page.keyboard.press("Enter")
    expect(second.locator(".memory")).to_be_visible()
    page.keyboard.press("Escape")
    expect(second.locator(".memory")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(status(steve)).to_have_text("70 memories, the newest first")
    page.keyboard.press("j")
    expect(third.locator(".row-main")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("jx?")
    expect(page.get_by_role("searchbox")).to_have_value("jx?")


def test_the_list_of_keys_switches_letters_off(steve):
    steve.open("memories")
    page = steve.page
    page.locator("main").focus()

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("Search this view")
    dialog.get_by_label("Use single letters").press("Space")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.locator("main").focus()
    page.keyboard.press("j")
    page.keyboard.press("?")
    expect(dialog).to_have_count(0)
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("button", name="Keyboard").press("Enter")
    expect(dialog.get_by_label("Use single letters")).not_to_be_checked()
    page.set_viewport_size({"width": 1280, "height": 500})  # the list scrolls, and Close stays
    expect(dialog.get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
    expect(dialog.get_by_text("Stop the answer")).not_to_be_in_viewport()


def test_several_are_pinned_and_forgotten_at_once_and_all_come_back(steve, memory):
    steve.open("memories")
    page = steve.page
    boxes = rows(steve).get_by_role("checkbox")
    boxes.nth(0).check()
    boxes.nth(3).click(modifiers=["Shift"])
    expect(status(steve)).to_have_text("4 memories selected")
    boxes.nth(1).uncheck()
    before = memory.list_memories(steve.user, limit=4)
    chosen = [before[n] for n in (0, 2, 3)]

    page.get_by_role("button", name="Pin", exact=True).press("Enter")
    expect(page.locator("#notices")).to_contain_text("3 memories pinned.")
    expect(rows(steve).first.locator(".pin")).to_be_visible()
    pinned = [record.pinned for record in memory.list_memories(steve.user, limit=4)]
    for n in (0, 2, 3):
        boxes.nth(n).check()
    page.get_by_role("button", name="Forget", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Undo")).to_be_focused()
    expect(status(steve)).to_have_text("67 memories, the newest first")
    gone = [memory.get_memory(record.id, steve.user) for record in chosen]
    page.keyboard.press("Enter")
    expect(status(steve)).to_have_text("70 memories, the newest first")

    assert pinned == [True, False, True, True]
    assert gone == [None] * 3
    ids = rows(steve).evaluate_all("rows => rows.slice(0, 4).map((row) => Number(row.dataset.id))")
    assert ids == [sequence_of(record.id) for record in before]


def test_all_that_are_shown_can_be_selected(steve, memory):
    steve.open("memories")
    steve.page.get_by_label("Pinned", exact=True).select_option("Not pinned")
    expect(status(steve)).to_have_text("69 memories, the newest first")

    steve.page.get_by_role("checkbox", name="Select all").check()
    steve.page.get_by_role("button", name="Forget", exact=True).click()
    expect(status(steve)).to_have_text("")

    assert [record.pinned for record in memory.list_memories(steve.user)] == [True]


def test_words_that_nothing_has_are_said_to_have_no_memory(steve):
    steve.open("memories")

    steve.page.get_by_role("searchbox").fill("xylophone")

    expect(steve.page.get_by_text("No memory contains these words.")).to_be_visible()


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
    expect(rows(steve)).to_have_count(1)

    opened(steve, "allergic").get_by_role("button", name="Forget").press("Enter")
    expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()
    expect(rows(steve)).to_have_count(0)
    while_gone = memory.search("allergic", 1, steve.user)
    steve.page.keyboard.press("Enter")
    expect(rows(steve)).to_have_count(1)
    expect(rows(steve).locator(".row-main")).to_be_focused()
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

    expect(rows(steve).first).to_contain_text("Lapsang")
    assert memory.search("which tea", 1, steve.user)[0].answer == "Lapsang"


def test_a_memory_without_words_is_refused_in_words(steve):
    steve.open("memories")

    steve.page.get_by_role("button", name="Add a memory").click()
    steve.page.get_by_role("button", name="Remember it").click()

    expect(steve.page.locator("#notices")).to_contain_text("a memory needs a question or an answer")


def test_who_has_nothing_is_told_what_to_do(mini, visit):
    newcomer = visit(mini.url, "a newcomer")

    for view, advice in (
        ("memories", "No memories yet."),
        ("facts", "No facts yet."),
        ("knowledge", "No knowledge yet."),
        ("why", "No conversations yet."),
        ("learned", "Nothing has been learned yet."),
        ("statistics", "No memories yet."),
    ):
        newcomer.open(view)
        expect(newcomer.page.get_by_text(advice)).to_be_visible()
        step = newcomer.page.locator(".empty").get_by_role("link", name="Start a conversation")
        expect(step).to_have_count(0 if view == "knowledge" else 1)
    step.click()
    expect(newcomer.page.get_by_role("textbox", name="Message", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", [390, 1024, 1280])
def test_a_long_question_leaves_room_for_its_answer(width, mini, memory, visit):
    page = visit(mini.url, f"a reader at {width}", viewport={"width": width, "height": 844})
    question = f"How do I {'really ' * 30}descale a kettle?"
    memory.import_memories([{"type": "memory", "question": question, "answer": "With vinegar."}], page.user)
    memory.store_memory("", "An answer without a question", page.user)
    page.open("memories")

    answer = page.page.get_by_text("With vinegar.")
    room = answer.evaluate("one => [one.scrollWidth <= one.clientWidth, one.clientWidth]")
    row = page.page.locator(".item", has_text="With vinegar.").bounding_box()
    text = page.page.locator(".item .row-text").first.bounding_box()
    box = answer.bounding_box()

    assert room[0]
    assert room[1] > 60
    assert box["x"] + box["width"] <= row["x"] + row["width"]
    assert text["width"] > row["width"] / 2
    expect(page.page.get_by_text("An answer without a question")).to_be_visible()


def test_a_memory_whose_number_javascript_cannot_hold_is_still_the_one_that_is_changed(mini, memory, visit):
    far = "of the ten thousandth user"

    def skip(connection) -> None:
        connection.execute("INSERT INTO tenants(number, user_id) VALUES(?, ?)", (10_001, far))

    memory.transactions.write(far, skip)
    ids = [memory.store_memory(f"Which number {n}?", f"It is {n}.", far) for n in range(4)]
    page = visit(mini.url, far)
    page.open("memories")

    opened(page, "Which number 2?").get_by_role("button", name="Forget").click()
    expect(rows(page)).to_have_count(3)

    assert max(filter(None, ids)) > 1 << 53
    assert [record.answer for record in memory.list_memories(far)] == ["It is 3.", "It is 1.", "It is 0."]


def test_a_server_that_takes_long_is_waited_for_in_words(steve):
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    steve.open("memories")
    steve.page.route("**/v1/facts?*", hold)
    steve.page.get_by_role("link", name="Facts").click()

    steve.page.wait_for_function(
        """() => {
            const view = document.querySelector(".view-facts");
            if (!view) return false;
            const style = getComputedStyle(view, "::after");
            return /Loading/.test(style.content) && style.opacity === "1";
        }"""
    )
    held[0].continue_()
    expect(steve.page.locator(".item")).to_have_count(3)


def test_a_server_that_is_gone_is_said_in_words(memory, visit):
    with Running(create_app(AppState(Config(), memory, True))) as server:
        page = visit(server.url, "steve")
        page.open("memories")

    page.page.get_by_role("link", name="Facts").click()

    expect(page.page.get_by_role("alert")).to_contain_text("The server does not answer.")
    expect(page.page.get_by_role("button", name="Try again")).to_be_visible()


def test_what_was_forgotten_makes_no_gap_before_the_next_ones(steve, memory):
    lunches(memory, steve.user, 50)
    steve.open("memories")
    newest = [str(sequence_of(record.id)) for record in memory.list_memories(steve.user, limit=120)]

    for left in (119, 118, 117):
        rows(steve).first.locator(".row-main").press("Enter")
        rows(steve).first.get_by_role("button", name="Forget").press("Enter")
        expect(status(steve)).to_contain_text(f"{left} memories")
        expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()
    memory.store_memory("What came in meanwhile?", "A memory of another program.", steve.user)
    steve.page.get_by_role("button", name="Show more").click()
    expect(rows(steve)).to_have_count(117)

    shown = rows(steve).evaluate_all("cards => cards.map((card) => card.dataset.id)")
    assert sorted(shown) == sorted(newest[3:])


def test_undo_counts_a_memory_again(steve):
    steve.open("memories")

    rows(steve).first.locator(".row-main").press("Enter")
    rows(steve).first.get_by_role("button", name="Forget").press("Enter")
    expect(status(steve)).to_contain_text("69 memories")
    steve.page.get_by_role("button", name="Undo").press("Enter")

    expect(status(steve)).to_contain_text("70 memories")


def test_a_search_that_finds_more_than_it_shows_says_so(steve, memory):
    lunches(memory, steve.user, 60)
    steve.open("memories")

    steve.page.get_by_role("searchbox").fill("soup lunch")

    expect(status(steve)).to_contain_text("The best 100 matches")


def test_a_search_leaves_alone_what_is_being_written(steve):
    steve.open("memories")
    opened(steve, "Bruno").get_by_role("button", name="Edit").click()
    steve.page.get_by_label("Answer").fill("He is called Rex now.")

    steve.page.get_by_role("searchbox").fill("allergic")
    expect(status(steve)).to_contain_text("1 memory matches")

    expect(steve.page.get_by_label("Answer")).to_have_value("He is called Rex now.")
    expect(rows(steve)).to_have_count(2)


def test_what_can_be_done_to_the_selected_stays_in_sight_and_says_how_many_there_are(steve, memory):
    lunches(memory, steve.user, 60)
    steve.open("memories")
    steve.page.get_by_role("checkbox", name="Select all that are shown").check()

    expect(status(steve)).to_have_text("All 100 memories shown are selected (130 in total)")
    rows(steve).last.scroll_into_view_if_needed()
    expect(status(steve)).to_be_in_viewport()
    expect(steve.page.get_by_role("button", name="Unpin")).to_be_in_viewport()
    steve.page.get_by_role("button", name="Clear").press("Enter")
    rows(steve).first.get_by_role("checkbox").check()
    expect(status(steve)).to_have_text("1 memory selected")


def test_escape_leads_from_an_empty_search_to_the_first_memory(steve):
    steve.open("memories")
    page = steve.page
    page.keyboard.press("/")
    page.keyboard.type("soup 40")
    expect(rows(steve).locator(".relevance").first).to_be_visible()
    found = rows(steve).first.get_attribute("data-id")
    page.keyboard.press("Escape")  # clears it, as browsers do
    expect(rows(steve)).to_have_count(70)
    page.keyboard.press("Escape")

    expect(rows(steve).first.locator(".row-main")).to_be_focused()
    assert rows(steve).first.get_attribute("data-id") != found
    page.keyboard.press("j")
    expect(rows(steve).nth(1).locator(".row-main")).to_be_focused()


def test_the_relevance_of_what_was_found_is_not_cut_off(mini, memory, visit, steve):
    page = visit(mini.url, steve.user, viewport={"width": 1440, "height": 900})
    page.open("memories")
    page.page.get_by_role("searchbox").fill("soup")
    cells = page.page.locator(".row-main .recalls")
    expect(cells.locator(".relevance").first).to_be_visible()

    assert cells.evaluate_all("all => all.filter(one => one.scrollWidth > one.clientWidth).length") == 0


def test_filters_can_be_reached_after_a_window_was_widened(mini, visit, steve):
    page = visit(mini.url, steve.user, viewport={"width": 390, "height": 800})
    page.open("memories")
    expect(page.page.get_by_label("Source")).to_be_hidden()
    page.page.set_viewport_size({"width": 1440, "height": 900})

    expect(page.page.get_by_label("Source")).to_be_visible()


def forget_rows(steve: Visit, *texts: str) -> None:
    """Select the lines that have these texts, and forget them."""
    for text in texts:
        rows(steve).filter(has_text=text).first.get_by_role("checkbox").check()
    steve.page.get_by_role("button", name="Forget", exact=True).press("Enter")
    expect(steve.page.get_by_role("button", name="Undo")).to_be_focused()


def forget_others(steve: Visit, memory: Memory) -> None:
    """Forget so many other memories that the server can restore none that was forgotten before."""
    lunches(memory, steve.user, 200)
    others = memory.list_memories(steve.user, limit=200, order="oldest")
    ids = [sequence_of(record.id) for record in others]
    told = {"action": "delete", "ids": ids}
    steve.page.request.post(f"{steve.url}/v1/memory/batch", params={"user": steve.user}, data=told)


def test_undo_restores_all_but_a_memory_that_was_said_again_and_says_so(steve, memory):
    steve.open("memories")

    forget_rows(steve, "on day 1?", "on day 2?", "on day 3?")
    memory.store_memory("What was for lunch on day 2?", "Soup number 2.", steve.user)
    steve.page.keyboard.press("Enter")
    expect(steve.page.locator("#notices")).to_contain_text("2 of 3 memories restored.")
    expect(status(steve)).to_have_text("70 memories, the newest first")

    assert memory.count_memories(steve.user) == 70
    assert rows(steve).filter(has_text="on day 2?").count() == 1


def test_undo_shows_no_memory_that_the_server_has_not_restored(steve, memory):
    steve.open("memories")
    page = steve.page

    forget_rows(steve, "on day 1?", "on day 2?")
    forget_others(steve, memory)
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("can't be undone any more")
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    expect(status(steve)).to_have_text("68 memories, the newest first")
    page.get_by_role("button", name="Close", exact=True).click()
    opened(steve, "on day 3?").get_by_role("button", name="Forget").press("Enter")
    forget_others(steve, memory)
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#notices")).to_contain_text("can't be undone any more")

    assert memory.count_memories(steve.user) == 67


def test_an_undo_that_fails_can_be_tried_again_also_after_another_message(steve, memory):
    steve.open("memories")
    page = steve.page
    undo = page.get_by_role("button", name="Undo")

    opened(steve, "on day 1?").get_by_role("button", name="Forget").press("Enter")
    page.context.set_offline(True)
    undo.press("Enter")
    expect(page.locator(".notice")).to_contain_text("The server does not answer.")
    page.context.set_offline(False)
    opened(steve, "on day 3?").get_by_role("button", name="Pin").press("Enter")
    expect(page.locator("#notices")).to_contain_text("Pinned: it is never deleted")
    undo.press("Enter")
    expect(status(steve)).to_have_text("70 memories, the newest first")
    expect(undo).to_have_count(0)

    assert memory.count_memories(steve.user) == 70


def test_the_last_200_of_many_forgotten_memories_come_back(steve, memory):
    lunches(memory, steve.user, 140)
    steve.open("memories")
    page = steve.page
    for n in (200, 210):
        page.get_by_role("button", name="Show more").click()
        expect(rows(steve)).to_have_count(n)

    page.get_by_label("Select all that are shown").check()
    page.get_by_role("button", name="Forget", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Forget").click()
    expect(page.locator("#notices")).to_contain_text("Forgotten: 210 memories. Undo restores the last 200.")
    gone = memory.count_memories(steve.user)
    page.get_by_role("button", name="Undo").press("Enter")
    expect(status(steve)).to_have_text("200 memories, the newest first")

    assert (gone, memory.count_memories(steve.user)) == (0, 200)
