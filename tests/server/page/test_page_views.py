"""Facts with their past, the graph, why something was said, what is learned, and figures; by keyboard too."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from shepherd.knowledge import Knowledge
from shepherd.types import Message
from tests.server.page.stored import conversation

# ---- facts


def test_a_fact_shows_what_it_was(steve):
    steve.open("facts")
    location = steve.page.locator(".fact", has_text="location")

    expect(location.locator(".value")).to_have_text("Austin")
    location.get_by_text("1 earlier value").press("Enter")

    expect(location.locator(".timeline")).to_contain_text("Dallas")


def test_the_keyboard_changes_a_fact_and_its_history_grows(steve, memory):
    steve.open("facts")

    steve.page.locator(".fact", has_text="location").get_by_role("button", name="Edit").press("Enter")
    steve.page.keyboard.press("Control+A")
    steve.page.keyboard.type("Marfa")
    steve.page.get_by_role("button", name="Save").press("Enter")

    expect(steve.page.locator(".fact", has_text="location")).to_contain_text("2 earlier values")
    assert memory.get_fact("location", steve.user) == "Marfa"


def test_a_forgotten_fact_comes_back_by_undo_and_later_from_the_list_of_those_that_are_gone(steve, memory):
    steve.open("facts")

    steve.page.locator(".fact", has_text="name").get_by_role("button", name="Forget").press("Enter")
    expect(steve.page.locator(".fact", has_text="name")).to_have_count(0)
    gone = memory.get_fact("name", steve.user)
    steve.page.get_by_role("button", name="Undo").press("Enter")
    expect(steve.page.locator(".fact", has_text="name")).to_have_count(1)
    steve.page.get_by_text("1 forgotten fact").press("Enter")
    steve.page.get_by_role("button", name="Know it again").press("Enter")
    expect(steve.page.locator(".fact", has_text="city")).to_have_count(1)

    assert gone is None
    assert (memory.get_fact("name", steve.user), memory.get_fact("city", steve.user)) == ("Steve", "Paris")


def test_what_is_being_written_outlives_what_is_done_to_other_facts(steve, memory):
    steve.open("facts")
    steve.page.locator(".fact", has_text="location").get_by_role("button", name="Edit").click()
    steve.page.get_by_label("Value").fill("Marfa, since")

    steve.page.locator(".fact", has_text="allergies").get_by_role("button", name="Forget").click()
    expect(steve.page.locator(".fact")).to_have_count(2)
    expect(steve.page.get_by_label("Value")).to_have_value("Marfa, since")
    steve.page.get_by_role("button", name="Save").click()

    expect(steve.page.locator(".fact", has_text="location").locator(".value")).to_have_text("Marfa, since")
    assert memory.get_fact("location", steve.user) == "Marfa, since"


def test_a_fact_is_added_under_any_name(steve, memory):
    steve.open("facts")

    steve.page.get_by_role("button", name="Add a fact").press("Enter")
    steve.page.keyboard.type("colour/of the #1 car?")
    steve.page.get_by_label("Value").fill("blue")
    steve.page.get_by_role("button", name="Keep it").press("Enter")

    expect(steve.page.locator(".fact", has_text="colour/of the #1 car?")).to_contain_text("blue")
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


def test_the_list_says_what_the_graph_shows_and_leads_from_node_to_node(steve):
    steve.open("knowledge")

    steve.page.get_by_role("button", name="List").press("Enter")
    expect(steve.page.get_by_role("row")).to_have_count(13)
    steve.page.get_by_role("button", name="Old windows").press("Enter")
    steve.page.locator(".panel").get_by_role("button", name="Lockhart house", exact=True).press("Enter")

    expect(steve.page.locator("#node-title")).to_have_text("Lockhart house")
    expect(steve.page.locator(".panel")).to_contain_text("taken out there")


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
    steve.page.get_by_label("In which way").fill("walk through it")
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
    steve.page.get_by_role("button", name="Keep it").press("Enter")
    expect(steve.page.locator("#node-title")).to_have_text("Bee hotel")
    steve.page.get_by_role("button", name="In focus", exact=True).press("Enter")
    expect(steve.page.get_by_role("button", name="In focus", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )

    focused = Knowledge(memory.transactions, steve.user).focused()
    assert [one.node.title for one in focused] == ["Greenhouse", "Bee hotel"]


# ---- why, learning, statistics


def test_a_conversation_says_what_was_put_beside_each_message_and_leads_to_it(steve):
    steve.open("why")
    steve.page.get_by_role("link", name="Conversation of").last.press("Enter")
    turn = steve.page.locator(".turn", has_text="Which editor do I use?")

    expect(turn.locator(".facts")).to_contain_text("location")
    expect(turn.locator(".found > li").first).to_contain_text("score")
    expect(turn.locator(".found > li", has_text="Helix")).to_contain_text("from a conversation")
    turn.get_by_text("Exactly as the model read it").press("Enter")
    expect(turn.locator("pre")).to_contain_text("[facts: ")
    turn.locator(".found > li", has_text="Helix").get_by_role("link").press("Enter")

    expect(steve.page.locator("h1")).to_have_text("One memory")
    expect(steve.page.locator(".memory")).to_contain_text("Helix")


def test_a_turn_says_what_its_prompt_was_made_of(steve):
    steve.open("why")
    steve.page.get_by_role("link", name="Conversation of").last.press("Enter")

    steve.page.get_by_text("Turn 1").press("Enter")
    parts = steve.page.locator(".traced")

    expect(parts.get_by_role("img")).to_have_attribute(
        "aria-label",
        "Room for each part, in tokens. system: 320, history: 1,200, query: 12, facts: 24, reserve: 1,024",
    )
    expect(parts.get_by_text("The window has 4,096 tokens.")).to_be_visible()
    expect(parts.get_by_role("table", name="Turns")).to_contain_text("Which editor do I use?")
    expect(parts.get_by_role("row", name="facts / location")).to_contain_text("Austin")
    expect(parts.get_by_role("table", name="Left out, and why")).to_contain_text("no room")


def test_a_fact_that_is_called_like_a_number_keeps_its_name(steve, memory):
    memory.set_fact("2024", "the year of the greenhouse", steve.user)
    conversation(memory, steve.user, "When did I build it?", "In that year.")
    steve.open("why")
    steve.page.get_by_role("link", name="Conversation of").first.press("Enter")

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
    links = page.page.get_by_role("link", name="Conversation of")
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
    page.page.get_by_role("link", name="Conversation of").click()

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
    plot = steve.page.get_by_role("region", name="Memories per 30 days").first

    expect(steve.page.locator(".tile", has_text="Memories")).to_contain_text("70")
    plot.get_by_text("As a table").press("Enter")

    numbers = [int(cell) for cell in plot.locator("td").all_inner_texts()]
    assert sum(numbers) == 70
    assert "70 memories between" in (plot.get_by_role("img").get_attribute("aria-label") or "")


@pytest.mark.parametrize("view", ["memories", "facts", "knowledge", "why", "learning", "statistics"])
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
