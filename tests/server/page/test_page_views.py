"""Facts with their past, the graph, why something was said, what is learned, and figures; by keyboard too."""

from __future__ import annotations

import re
import time

import httpx
import pytest
from playwright.sync_api import Route, expect

from shepherd.commands.screen import age_in_words
from shepherd.knowledge import Knowledge
from shepherd.knowledge.importing import import_from
from shepherd.types import Message
from tests.server.page.stored import DAY_S, conversation

# ---- facts


def row(steve, key: str):
    return steve.page.locator(f'.item[data-id="{key}"]')


def opened(steve, key: str):
    """Open the line of a fact; its card."""
    row(steve, key).locator(".row-main").press("Enter")
    return row(steve, key).locator(".fact")


def test_a_fact_shows_what_it_was(steve):
    steve.open("facts")
    expect(row(steve, "location").locator(".row-main")).to_contain_text("Austin")
    expect(row(steve, "location").locator(".source")).to_have_text("you · 1 earlier")
    location = opened(steve, "location")

    expect(location.locator(".value")).to_have_text("Austin")
    location.get_by_text("1 earlier value").press("Enter")

    expect(location.locator(".timeline")).to_contain_text("Dallas")


def test_an_earlier_value_is_used_again(steve, memory):
    steve.open("facts")
    location = opened(steve, "location")
    location.get_by_text("1 earlier value").press("Enter")

    location.get_by_role("button", name="Use again: Dallas").press("Enter")

    expect(row(steve, "location").locator(".row-main")).to_contain_text("Dallas")
    expect(row(steve, "location")).to_contain_text("2 earlier values")
    expect(row(steve, "location").locator(".row-main")).to_be_focused()
    assert memory.get_fact("location", steve.user) == "Dallas"


def test_a_life_of_values_is_drawn_in_their_order(steve, memory):
    now = time.time()
    for days, city in ((300, "Oslo"), (200, "Bergen"), (100, "Bodø")):
        memory.set_fact("home", city, steve.user, since=now - days * DAY_S)
    steve.open("facts")
    drawn = opened(steve, "home").get_by_role("img")

    says = drawn.get_attribute("aria-label") or ""
    places = [says.index(city) for city in ("Oslo", "Bergen", "Bodø")]
    widths = drawn.locator("rect").evaluate_all("all => all.map((one) => one.width.baseVal.value)")

    assert places == sorted(places)
    assert max(widths) - min(widths) < 3  # a hundred days each
    assert drawn.locator("text").all_text_contents()[:3] == ["Oslo", "Bergen", "Bodø"]


def test_the_keyboard_changes_a_fact_and_its_history_grows(steve, memory):
    steve.open("facts")

    opened(steve, "location").get_by_role("button", name="Edit").press("Enter")
    steve.page.keyboard.press("Control+A")
    steve.page.keyboard.type("Marfa")
    steve.page.get_by_role("button", name="Save").press("Enter")

    expect(row(steve, "location")).to_contain_text("2 earlier values")
    assert memory.get_fact("location", steve.user) == "Marfa"
    expect(row(steve, "location").get_by_role("button", name="Edit")).to_be_focused()


def test_a_forgotten_fact_comes_back_by_undo_and_later_from_the_list_of_those_that_are_gone(steve, memory):
    steve.open("facts")

    opened(steve, "name").get_by_role("button", name="Forget").press("Enter")
    expect(row(steve, "name")).to_have_count(0)
    gone = memory.get_fact("name", steve.user)
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(row(steve, "name")).to_have_count(1)
    expect(row(steve, "name").locator(".row-main")).to_be_focused()
    steve.page.get_by_text("1 forgotten fact").press("Enter")
    steve.page.get_by_role("button", name="Restore it").press("Enter")
    expect(row(steve, "city")).to_have_count(1)

    assert gone is None
    assert (memory.get_fact("name", steve.user), memory.get_fact("city", steve.user)) == ("Steve", "Paris")


def test_several_facts_are_forgotten_and_come_back(steve, memory):
    steve.open("facts")
    for key in ("name", "location"):
        row(steve, key).get_by_role("checkbox").check()

    steve.page.get_by_role("button", name="Forget", exact=True).press("Enter")
    expect(steve.page.locator(".item")).to_have_count(1)
    gone = memory.get_all_facts(steve.user)
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator(".item")).to_have_count(3)

    assert [fact.key for fact in gone] == ["allergies"]
    assert memory.get_fact("name", steve.user) == "Steve"


def test_names_of_facts_are_words(steve, memory):
    memory.set_fact("favourite_tea", "Lapsang", steve.user)
    steve.open("facts")

    expect(row(steve, "favourite_tea").locator(".key")).to_have_text("favourite tea")
    steve.page.get_by_role("button", name="Add a fact").press("Enter")
    steve.page.get_by_role("textbox", name="Name").fill("favourite tea")
    steve.page.get_by_role("textbox", name="Value").fill("Assam")
    steve.page.get_by_role("button", name="Save").press("Enter")

    expect(row(steve, "favourite_tea").locator(".value")).to_have_text("Assam")
    assert memory.get_fact("favourite_tea", steve.user) == "Assam"


def test_facts_are_searched_narrowed_and_sorted(steve, memory):
    memory.set_fact("favourite_café", "Größenwahn", steve.user)
    steve.open("facts")
    page = steve.page
    keys = "rows => rows.map((row) => row.dataset.id)"

    page.locator("main").focus()
    page.keyboard.press("/")
    page.keyboard.type("CAFE grossenwahn")
    expect(page.get_by_text("No fact matches.")).to_be_visible()  # ß is no ss
    page.get_by_role("searchbox").fill("CAFE größenwahn")
    expect(page.locator(".item")).to_have_count(1)
    page.get_by_role("searchbox").fill("")
    page.get_by_label("Source", exact=True).select_option("learned")
    expect(page.locator(".item")).to_have_count(1)
    learned = page.locator(".item").evaluate_all(keys)
    page.get_by_label("Source", exact=True).select_option("All sources")
    page.get_by_label("Order", exact=True).select_option("Last changed first")
    expect(page.locator(".item")).to_have_count(4)

    assert learned == ["allergies"]
    shown = sorted(page.locator(".item").evaluate_all(keys))
    assert shown == ["allergies", "favourite_café", "location", "name"]


def test_what_is_being_written_outlives_what_is_done_to_other_facts(steve, memory):
    steve.open("facts")
    opened(steve, "location").get_by_role("button", name="Edit").click()
    steve.page.get_by_label("Value").fill("Marfa, since")

    opened(steve, "allergies").get_by_role("button", name="Forget").click()
    expect(steve.page.locator(".item")).to_have_count(2)
    expect(steve.page.get_by_label("Value")).to_have_value("Marfa, since")
    steve.page.get_by_role("button", name="Save").click()

    expect(row(steve, "location").locator(".fact .value")).to_have_text("Marfa, since")
    assert memory.get_fact("location", steve.user) == "Marfa, since"


def test_a_fact_is_added_under_any_name(steve, memory):
    steve.open("facts")

    steve.page.get_by_role("button", name="Add a fact").press("Enter")
    steve.page.keyboard.type("colour/of the #1 car?")
    steve.page.get_by_label("Value").fill("blue")
    steve.page.get_by_role("button", name="Save").press("Enter")

    expect(steve.page.locator(".item", has_text="colour/of the #1 car?")).to_contain_text("blue")
    assert memory.get_fact("colour/of the #1 car?", steve.user) == "blue"


# ---- knowledge


def test_the_graph_is_walked_by_arrow_keys_and_a_node_opened_and_closed(steve):
    steve.open("knowledge")
    expect(steve.page.locator(".node")).to_have_count(12)
    first = steve.page.locator('.node[tabindex="0"]')
    first.focus()
    before = first.get_attribute("data-id")

    walked = set()
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"):
        steve.page.keyboard.press(key)
        walked.add(steve.page.locator(".node:focus").get_attribute("data-id"))
    name = (steve.page.locator(".node:focus").get_attribute("aria-label") or "").split(",")[0]
    steve.page.keyboard.press("Enter")
    expect(steve.page.locator("#node-title")).to_have_text(name)
    expect(steve.page.locator("#node-title")).to_be_focused()
    steve.page.keyboard.press("Escape")

    expect(steve.page.locator(".panel")).to_have_count(0)
    assert walked - {before}
    assert steve.page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(name)


# Whether the hint in an empty field has room: browsers tell nothing of it, so it is measured as a text.
HINT_FITS = """(field) => {
    const style = getComputedStyle(field);
    const pen = document.createElement("canvas").getContext("2d");
    pen.font = style.font;
    const clear = 1.25 * parseFloat(style.fontSize);  // the place of the button that empties the field
    const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - clear;
    return pen.measureText(field.placeholder).width <= room;
}"""


def test_the_list_says_what_the_graph_shows_and_leads_from_node_to_node(steve):
    steve.open("knowledge")

    steve.page.get_by_role("button", name="List").press("Enter")
    expect(steve.page.locator(".item")).to_have_count(12)
    kinds = steve.page.get_by_label("Kind", exact=True)
    kinds.evaluate("kinds => kinds.append(new Option('document'))")  # as after an import
    assert steve.page.get_by_role("searchbox").evaluate(HINT_FITS)
    steve.page.locator(".item", has_text="Old windows").locator(".row-main").press("Enter")
    steve.page.locator(".panel").get_by_role("button", name="Lockhart house", exact=True).press("Enter")

    expect(steve.page.locator("#node-title")).to_have_text("Lockhart house")
    expect(steve.page.locator(".panel")).to_contain_text("taken out there")
    expect(steve.page.locator(".item .when").first).to_be_in_viewport(ratio=1)
    # A title as long as that of a document may be.
    steve.page.locator("#node-title").evaluate("title => title.append(' of the family'.repeat(5))")
    title, close = (steve.page.locator(f".panel > .row > {one}").bounding_box() for one in ("h2", "button"))
    assert title is not None
    assert close is not None
    assert title["y"] - 8 <= close["y"] < title["y"] + 8  # beside the title, not under it
    steve.page.keyboard.press("Escape")
    expect(steve.page.locator(".item", has_text="Lockhart house").locator(".row-main")).to_be_focused()


def test_a_file_in_the_knowledge_has_a_title_and_a_name_and_its_path_when_asked(
    visit, mini, memory, tmp_path
):
    user = "the owner of a boat"
    for name, text in (("my boat manual.md", "# Boat\n\nA bilge pump."), ("rope.txt", "A rope.")):
        (tmp_path / name).write_text(text)
    list(import_from(Knowledge(memory.transactions, user), str(tmp_path)))
    page = visit(mini.url, user)
    page.open("knowledge")
    page.page.get_by_role("button", name="List").press("Enter")

    rows = page.page.locator(".row-text")
    expect(rows.filter(has_text="rope")).to_have_text("rope")  # the title is the name of the file
    expect(rows.filter(has_text="Boat")).to_have_text("Boat my boat manual.md")
    page.page.locator(".item", has_text="Boat").locator(".row-main").press("Enter")
    panel = page.page.locator(".panel")
    expect(panel).not_to_contain_text("file://")
    file = panel.get_by_text("File: my boat manual.md")
    path = panel.get_by_text(str(tmp_path / "my boat manual.md"))
    expect(path).not_to_be_visible()
    file.press("Enter")
    expect(path).to_be_visible()


def test_nodes_are_narrowed_put_in_focus_and_removed_together(steve, memory):
    knowledge = Knowledge(memory.transactions, steve.user)
    steve.open("knowledge")
    page = steve.page
    page.get_by_role("button", name="List").click()
    items = page.locator(".item")

    page.get_by_label("Kind", exact=True).select_option("plant")
    expect(items).to_have_count(2)
    page.get_by_label("Kind", exact=True).select_option("All kinds")
    page.get_by_label("Order", exact=True).select_option("Most connected first")
    expect(items.first).to_contain_text("Greenhouse")
    page.get_by_label("Order", exact=True).select_option("By title")
    expect(items.first).to_contain_text("Automatic watering")
    page.get_by_label("Focus", exact=True).select_option("In focus")
    expect(items).to_have_count(1)
    page.get_by_label("Focus", exact=True).select_option("In focus or not")
    for title in ("Ducks", "Compost"):
        items.filter(has_text=title).get_by_role("checkbox").check()
    page.get_by_role("button", name="Put in focus").press("Enter")
    expect(page.locator(".item.pinned")).to_have_count(3)
    focused = [one.node.title for one in knowledge.focused()]
    for title in ("Ducks", "Compost"):
        items.filter(has_text=title).get_by_role("checkbox").check()
    page.get_by_role("button", name="Remove", exact=True).press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")
    expect(items).to_have_count(10)

    assert sorted(focused) == ["Compost", "Ducks", "Greenhouse"]
    assert knowledge.count_nodes() == 10


LABELS = """() => {
    const texts = [...document.querySelectorAll(".graph text")].map((one) => [one, getComputedStyle(one)]);
    return texts.filter(([one, style]) => style.display !== "none").map(([one, style]) => {
        const { x, y, width, height } = one.getBoundingClientRect();
        return { x, y, width, height, size: parseFloat(style.fontSize) * one.getScreenCTM().a };
    });
}"""


def overlaps(labels: list[dict[str, float]]) -> int:
    """How many pairs of labels cover each other by more than a pixel, line by line."""
    return sum(
        min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"]) > 1
        and min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"]) > 4
        for n, a in enumerate(labels)
        for b in labels[:n]
    )


def test_labels_of_a_large_graph_are_readable_and_apart_at_every_zoom(mini, memory, visit):
    user = "a cartographer"
    knowledge = Knowledge(memory.transactions, user)
    ids = [knowledge.add_node(f"A node of number {n}", kind=f"kind {n % 11}").id for n in range(60)]
    for n in range(1, 60):
        knowledge.connect(ids[n], ids[n * n % 7 if n > 7 else 0], "leads there", type="part_of")
    page = visit(mini.url, user)
    page.open("knowledge")
    shown = []
    for key in ("Home", "+", "+", "+", "-"):
        page.page.locator('.node[tabindex="0"]').press(key)
        shown.append(page.page.evaluate(LABELS))

    # The chosen node's name is shown wherever it is.
    for number in (2, 30):
        page.page.locator(f'.node[data-id="{ids[number]}"]').press("Enter")
        page.page.locator(f'.node[data-id="{ids[number]}"].chosen').wait_for()
        page.page.mouse.move(0, 0)
        shown.append(page.page.evaluate(LABELS))

    assert [overlaps(labels) for labels in shown] == [0] * 7
    assert min(label["size"] for labels in shown for label in labels) >= 10.9
    assert len(shown[0]) >= 20
    expect(page.page.locator(".edge-name:not(.crowded)").first).to_have_text("is part of")
    expect(page.page.locator(".kinds li")).to_have_count(8)
    expect(page.page.locator(".kinds li").last).to_have_text("others")
    colours = "all => new Set(all.map((one) => getComputedStyle(one).fill)).size"
    assert page.page.locator(".node circle").evaluate_all(colours) == 8


def test_nodes_are_dragged_by_pointer_and_moved_by_keys(steve):
    steve.open("knowledge")
    page = steve.page
    node = page.locator(".node", has_text="Greenhouse")
    ends = "all => all.map((one) => one.outerHTML)"
    place = "one => { const { x, y } = one.querySelector('circle').getBoundingClientRect(); return [x, y]; }"
    before, [x, y] = page.locator(".edge").evaluate_all(ends), node.evaluate(place)

    page.mouse.move(x + 6, y + 6)
    page.mouse.down()
    page.mouse.move(x + 86, y + 46, steps=4)
    page.mouse.up()
    dragged = node.evaluate(place)
    expect(page.locator(".panel")).to_have_count(0)
    node.focus()
    page.keyboard.press("Shift+ArrowDown")
    moved = node.evaluate(place)
    page.get_by_role("button", name="List").click()
    page.get_by_role("button", name="Graph").click()

    assert [round(dragged[0] - x), round(dragged[1] - y)] == [80, 40]
    assert moved[0] == dragged[0]
    assert moved[1] > dragged[1]
    after = page.locator(".edge").evaluate_all(ends)
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 6
    page.locator(".node", has_text="Greenhouse").locator("circle").click()
    expect(page.locator("#node-title")).to_have_text("Greenhouse")


def test_a_node_with_many_connections_says_how_many(mini, memory, visit):
    knowledge = Knowledge(memory.transactions, "a weaver")
    hub = knowledge.add_node("Hub").id
    for n in range(105):
        knowledge.connect(knowledge.add_node(f"Spoke {n}").id, hub, "leads to it")
    page = visit(mini.url, "a weaver")

    page.open(f"knowledge/{hub}")
    expect(page.page.locator(".panel")).to_contain_text("105 connections")
    expect(page.page.locator(".panel")).to_contain_text("The newest 100 of 105 are shown.")
    page.page.get_by_role("button", name="Remove").press("Enter")

    expect(page.page.get_by_role("dialog")).to_contain_text("105 connections")


def test_a_node_is_found_changed_connected_disconnected_and_removed(steve, memory):
    knowledge = Knowledge(memory.transactions, steve.user)
    [duck] = knowledge.find_nodes("slugs", 1)
    steve.open("knowledge")
    steve.page.get_by_role("searchbox").fill("slugs")
    steve.page.keyboard.press("Enter")
    steve.page.get_by_role("region", name="Found").get_by_role("button", name="Ducks").press("Enter")

    steve.page.get_by_role("button", name="Edit").press("Enter")
    steve.page.get_by_label("Title").fill("Geese")
    steve.page.get_by_role("button", name="Save").press("Enter")
    expect(steve.page.locator("#node-title")).to_have_text("Geese")
    steve.page.get_by_text("Connect it with another node").press("Enter")
    steve.page.get_by_label("Other node").select_option(label="Greenhouse")
    steve.page.get_by_label("How they are connected").fill("walk through it")
    steve.page.get_by_role("button", name="Connect", exact=True).press("Enter")
    expect(steve.page.locator(".panel")).to_contain_text("2 connections")
    steve.page.get_by_role("button", name="Disconnect Greenhouse").press("Enter")
    expect(steve.page.locator(".panel")).to_contain_text("1 connection")
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator(".panel")).to_contain_text("2 connections")
    connected = {edge.explanation for edge in knowledge.list_edges(duck.id)}
    steve.page.get_by_role("button", name="Remove").press("Enter")
    expect(steve.page.get_by_role("dialog")).to_contain_text("2 connections")
    steve.page.keyboard.press("Escape")
    still = knowledge.get_node(duck.id)
    steve.page.get_by_role("button", name="Remove").press("Enter")
    steve.page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")

    expect(steve.page.locator(".node")).to_have_count(11)
    assert still is not None
    assert still.title == "Geese"
    assert connected == {"scratch in it", "walk through it"}
    assert knowledge.get_node(duck.id) is None


def test_a_node_is_added_and_put_into_focus(steve, memory):
    steve.open("knowledge")

    steve.page.get_by_role("button", name="Add a node").press("Enter")
    steve.page.keyboard.type("Bee hotel")
    steve.page.get_by_role("button", name="Save").press("Enter")
    expect(steve.page.locator("#node-title")).to_have_text("Bee hotel")
    steve.page.get_by_role("button", name="Put in focus").press("Enter")
    expect(steve.page.get_by_role("button", name="Remove from focus")).to_be_visible()
    expect(steve.page.locator(".panel")).to_contain_text("in focus, added to every message")

    focused = Knowledge(memory.transactions, steve.user).focused()
    assert [one.node.title for one in focused] == ["Greenhouse", "Bee hotel"]


def test_a_code_in_a_note_is_replaced_by_dots_and_the_page_says_so(steve, memory):
    steve.open("knowledge")
    steve.page.get_by_role("button", name="Add a node").press("Enter")
    steve.page.get_by_role("textbox", name="Title").fill("Alarm")
    steve.page.get_by_role("textbox", name="Notes").fill("The alarm code is 4471.")
    steve.page.get_by_role("button", name="Save").press("Enter")
    notice = steve.page.locator("#notices")

    expect(notice).to_contain_text("Saved, but a secret in it")
    notice.get_by_role("button", name="Close").press("Enter")
    steve.page.get_by_role("button", name="Edit").press("Enter")
    steve.page.get_by_role("textbox", name="Notes").fill("Its PIN is 8812.")
    steve.page.get_by_role("button", name="Save").press("Enter")
    expect(notice).to_contain_text("Saved, but a secret in it")
    [node] = [one for one in Knowledge(memory.transactions, steve.user).list_nodes() if one.title == "Alarm"]
    assert node.notes == "Its PIN is \u2022\u2022\u2022\u2022."


# ---- why, learning, statistics


def test_a_conversation_says_what_was_put_beside_each_message_and_leads_to_it(steve):
    steve.open("why")
    steve.page.locator(".view-why a.stretch").last.press("Enter")
    turn = steve.page.locator(".turn", has_text="Which editor do I use?")

    expect(turn.locator(".facts")).to_contain_text("location")
    expect(turn.locator(".found > li").first).to_contain_text("score")
    expect(turn.locator(".found > li", has_text="Helix")).to_contain_text("from a conversation")
    turn.get_by_text("Exactly as the model read it").press("Enter")
    expect(turn.locator("pre")).to_contain_text("[facts: ")
    turn.locator(".found > li", has_text="Helix").get_by_role("link").press("Enter")

    expect(steve.page.locator("h1")).to_have_text("One memory")
    expect(steve.page.locator(".memory")).to_contain_text("Helix")


def test_conversations_are_listed_by_their_titles(steve):
    steve.open("why")

    expect(steve.page.locator(".view-why a.stretch")).to_have_text(
        ["What should I cook for my sister?", "Which editor do I use?"]
    )
    steve.page.keyboard.press("/")
    steve.page.keyboard.type("EDITOR")
    expect(steve.page.locator(".view-why a.stretch")).to_have_text(["Which editor do I use?"])
    steve.page.keyboard.type(" of nobody")
    expect(steve.page.locator(".view-why")).to_contain_text("No conversation contains these words.")
    steve.page.get_by_role("searchbox").fill("helix")
    steve.page.get_by_role("link", name="Which editor do I use?").press("Enter")
    steve.page.get_by_role("link", name="Open the conversation").press("Enter")
    expect(steve.page.locator(".bubble")).to_contain_text("Which editor do I use?")


def test_a_turn_says_what_its_prompt_was_made_of(steve):
    steve.open("why")
    steve.page.locator(".view-why a.stretch").last.press("Enter")

    steve.page.get_by_text("Turn 1").press("Enter")
    parts = steve.page.locator(".traced")

    expect(parts.get_by_role("img")).to_have_attribute(
        "aria-label",
        "Room for each part, in tokens. system: 320, history: 1,200, query: 12, facts: 24, reserve: 1,024",
    )
    expect(parts.get_by_text("The window has 4,096 tokens.")).to_be_visible()
    expect(parts.get_by_role("table", name="Turns")).to_contain_text("Which editor do I use?")
    expect(parts.get_by_role("row", name="facts / location")).to_contain_text("Austin")
    expect(parts.get_by_role("table", name="Omitted, and why")).to_contain_text("no room")


def test_a_conversation_shows_what_its_window_was_used_for(mini, memory, visit):
    memory.set_fact("location", "Austin", "a spender")
    mini.ask("Where do I live?", "a spender")
    session = memory.list_sessions("a spender")[0].id
    page = visit(mini.url, "a spender")
    page.open(f"why/{session}")
    window = page.page.get_by_role("region", name="Use of the window, turn by turn", exact=True)
    tokens = page.page.get_by_role("region", name="Tokens read, turn by turn", exact=True)

    for plot in (window, tokens):
        plot.get_by_text("As a table").press("Enter")
    usage = httpx.get(
        f"{mini.url}/v1/trace/{session}/usage", params={"user": "a spender"}, trust_env=False
    ).json()["data"][0]

    expect(window.get_by_role("columnheader").nth(1)).to_have_text("instructions")
    assert int(window.get_by_role("cell").first.inner_text()) == usage["room"]["system"] > 0
    assert [int(cell) for cell in tokens.get_by_role("cell").all_inner_texts()] == [
        usage["usage"]["reused"],
        usage["usage"]["decoded"],
    ]
    assert usage["usage"]["decoded"] > 0
    assert window.locator("rect").count() >= 3
    expect(page.page.get_by_role("region", name="Time of a recall, turn by turn", exact=True)).to_be_visible()


def test_facts_are_folded_where_they_are_those_of_the_message_before(steve, memory):
    session = conversation(memory, steve.user, "Which editor do I use?", "You use Helix.")
    for location in ("", "Lisbon"):
        if location:
            memory.set_fact("location", location, steve.user)
        injection = memory.recall("Which editor do I use?", steve.user)
        memory.append_message(
            session, Message("user", "And now?", f"And now?{injection.tail}", injection), steve.user
        )
    steve.open(f"why/{session}")
    turns = steve.page.locator(".turn")

    expect(turns.nth(0).get_by_role("heading", name="Facts")).to_be_visible()
    expect(turns.nth(1).get_by_role("heading", name="Facts")).to_have_count(0)
    expect(turns.nth(1).get_by_text("Austin", exact=True)).to_be_hidden()
    turns.nth(1).get_by_text("facts as for the message before").press("Enter")
    expect(turns.nth(1).get_by_text("Austin", exact=True)).to_be_visible()
    expect(turns.nth(2).get_by_role("heading", name="Facts")).to_be_visible()


def test_a_fact_that_is_called_like_a_number_keeps_its_name(steve, memory):
    memory.set_fact("2024", "the year of the greenhouse", steve.user)
    conversation(memory, steve.user, "When did I build it?", "In that year.")
    steve.open("why")
    steve.page.locator(".view-why a.stretch").first.press("Enter")

    steve.page.get_by_text("Turn 1").press("Enter")

    row = steve.page.locator(".traced").get_by_role("row", name="facts / 2024")
    expect(row).to_contain_text("the year of the greenhouse")


def test_all_conversations_are_shown_when_they_are_asked_for(mini, memory, visit):
    user = "a talker"
    for n in range(103):
        session = memory.start_session(user, "a-model")
        memory.append_message(session, Message("user", f"message {n}"), user)
    page = visit(mini.url, user)
    page.open("why")
    expect(page.page.get_by_role("status").first).to_have_text("103 conversations, the latest first")
    links = page.page.locator(".view-why a.stretch")
    expect(links).to_have_count(100)

    page.page.get_by_role("button", name="Show more").click()

    expect(links).to_have_count(103)
    expect(page.page.get_by_role("button", name="Show more")).to_have_count(0)
    assert len(set(links.evaluate_all("links => links.map((link) => link.hash)"))) == 103


def test_an_answer_of_the_server_can_be_asked_about(mini, memory, visit):
    memory.store_memory("Which editor does the user prefer?", "Helix", "an asker")
    mini.ask("Which editor do I use?", "an asker")
    page = visit(mini.url, "an asker")

    page.open("why")
    page.page.locator(".view-why a.stretch").click()

    expect(page.page.locator(".turn")).to_contain_text("Which editor do I use?")
    expect(page.page.locator(".found")).to_contain_text("Helix")


def test_what_waits_to_be_learned_is_dropped_when_that_is_wanted(steve, memory):
    steve.open("learning")
    expect(steve.page.locator(".job")).to_have_count(2)

    steve.page.get_by_role("button", name="Learn nothing from it").first.press("Enter")
    expect(steve.page.get_by_role("button", name="Cancel")).to_be_focused()
    steve.page.keyboard.press("Enter")
    kept = len(memory.extraction.jobs(steve.user))
    steve.page.get_by_role("button", name="Learn nothing from it").first.press("Enter")
    steve.page.get_by_role("button", name="Learn nothing", exact=True).press("Enter")

    expect(steve.page.locator(".job")).to_have_count(1)
    assert kept == 2


def test_figures_and_plots_have_their_numbers_as_tables(steve):
    steve.open("statistics")
    plot = steve.page.get_by_role("region", name="Memories per 30 days", exact=True)

    expect(steve.page.locator(".tile", has_text="Memories")).to_contain_text("70")
    plot.get_by_text("As a table").press("Enter")

    numbers = [int(cell) for cell in plot.locator("td").all_inner_texts()]
    assert sum(numbers) == 70
    assert "70 memories between" in (plot.get_by_role("img").get_attribute("aria-label") or "")


# Days, and around a year and a half, after which rounding would say "2 years".
AGES = [0.0001, 0.02, 0.9, 1.9, 6.5, 13.9, 29, 45.8, 364, 366, 519, 554, 729, 731, 4000]


def test_ages_are_those_of_the_terminal(steve):
    steve.open("statistics")
    told = steve.page.evaluate(
        """async (ages) => {
            const { ago } = await import("/page/format.js");
            return ages.map((days) => ago(Date.now() / 1000 - days * 86400));
        }""",
        AGES,
    )

    assert told == [age_in_words(days) for days in AGES]
    assert told[10:12] == ["1 year ago", "1 year ago"]


def test_a_setting_says_what_its_values_do_and_not_its_label_again(steve):
    steve.open("statistics")
    card = steve.page.get_by_role("region", name="Settings", exact=True)

    expect(card.locator(".field", has_text="Randomness of answers").locator(".hint")).to_have_text(
        re.compile(r"^0: always the likeliest token; .+\. Setting temperature; default: ")
    )
    hint = card.locator(".field", has_text="Minimum relevance of a memory").locator(".hint")
    expect(hint).to_have_text(re.compile("^Setting rag_relevance_threshold; default: "))


def test_settings_are_applied_and_a_bad_value_is_refused_in_words(mini, steve):
    steve.open("statistics")
    page = steve.page
    most = page.get_by_label("Maximum number of memories added to a message")
    before = most.input_value()

    def stored() -> dict[str, object]:
        told = httpx.get(f"{mini.url}/v1/settings", trust_env=False).json()["data"]
        return {one["name"]: one["value"] for one in told}

    most.fill("many")
    most.press("Enter")
    expect(page.locator("#notices")).to_contain_text("expected a whole number")
    most.fill("7")
    most.press("Enter")
    expect(page.locator("#notices")).to_contain_text("Applied to all messages")
    applied = stored()["rag_max_results"]
    most.fill(before)
    page.get_by_role("button", name="Apply").press("Enter")
    expect(page.locator(".settings [aria-disabled]")).to_have_count(0)
    expect(most).to_have_value(before)

    assert applied == 7
    assert stored()["rag_max_results"] == int(before)


@pytest.mark.parametrize("view", ["memories", "facts", "knowledge", "why", "learned", "statistics"])
def test_every_view_is_reached_by_the_tab_key_and_shows_where_one_is(view, steve):
    steve.open("memories" if view != "memories" else "facts")
    link = steve.page.locator(f"#nav [data-view={view}]")

    for _ in range(10):
        if link.evaluate("link => link === document.activeElement"):
            break
        steve.page.keyboard.press("Tab")
    steve.page.keyboard.press("Enter")

    expect(link).to_have_attribute("aria-current", "page")
    expect(steve.page.locator("main")).to_be_focused()


def test_a_view_that_has_loaded_leaves_the_focus_to_whoever_has_gone_on(steve):
    page, held = steve.page, []

    def hold(route: Route) -> None:
        held.append(route)

    steve.open("memories")
    page.route("**/v1/facts*", hold, times=1)
    page.get_by_role("link", name="Facts").click()
    expect(page.locator("main")).to_have_attribute("aria-busy", "true")
    colours = page.get_by_role("button", name="Colours")
    colours.focus()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(page.locator("main")).not_to_have_attribute("aria-busy", "true")
    expect(page.locator("main h1")).to_have_text("Facts")

    expect(colours).to_be_focused()
