"""Chat on the page: send, stream, stop, edit, what was recalled and learned; and all conversations."""

from __future__ import annotations

import itertools
import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from shepherd.knowledge import Knowledge
from shepherd.memory import Claim, Memory
from shepherd.types import Message, ToolCall
from tests.learned import learn
from tests.providers.upstream import says
from tests.server.page.stored import conversation
from tests.server.test_memory import wait_for

_numbers = itertools.count(1)


@pytest.fixture
def chat(mini, memory, visit):
    """The chat of a new user."""
    shown = visit(mini.url, f"chatter {next(_numbers)}")
    shown.open("chat")
    return shown


def field(page: Page):
    return page.get_by_role("textbox", name="Message", exact=True)


def say(page: Page, text: str) -> None:
    """Send a message by the keyboard, and wait until its answer is complete."""
    n = page.locator(".turn-pair").count()
    field(page).fill(text)
    page.keyboard.press("Enter")
    expect(page.locator(".turn-pair")).to_have_count(n + 1)
    over(page)


def over(page: Page) -> None:
    """Wait until no answer is in progress."""
    expect(page.locator(".turn-pair").last.get_by_role("button", name="Ask again")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_visible()


def stored(memory, user: str) -> list[list[tuple[str, str]]]:
    """All conversations, the latest first."""
    return [
        [(message.role, message.raw) for message in memory.load_session(one.id, user)]
        for one in memory.list_sessions(user)
    ]


def test_chat_is_the_first_view_and_the_keyboard_is_in_its_field(mini, visit):
    page = visit(mini.url, "somebody new").page
    page.goto(mini.url)

    expect(page.locator("#nav a[aria-current]")).to_have_text("Chat")
    expect(field(page)).to_be_focused()
    expect(page.locator(".chat-list")).to_contain_text("Your conversations appear here.")


def test_a_conversation_is_stored_and_is_there_after_a_reload(chat, memory):
    page = chat.page
    say(page, "My name is Rob.")
    answer = page.locator(".prose").inner_text()
    say(page, "What is my name?")

    page.reload()
    expect(page.locator(".turn-pair")).to_have_count(2)

    expect(page.locator(".bubble").first).to_contain_text("My name is Rob.")
    expect(page.locator(".prose").first).to_have_text(answer)
    [messages] = stored(memory, chat.user)
    assert [role for role, _ in messages] == ["user", "assistant"] * 2
    expect(page.locator(".talk")).to_have_count(1)
    expect(page.locator(".talk a[aria-current]")).to_have_text("My name is Rob.")
    expect(page.locator("main h1")).to_have_text("My name is Rob.")


def test_the_conversation_is_read_while_the_next_message_is_written(chat, memory):
    page = chat.page
    say(page, "My name is Rob.")
    with page.expect_response("**/v1/chat/read_ahead*") as answered:
        field(page).press_sequentially("What is my")

    told = answered.value.request.post_data_json
    assert answered.value.json() == {"reading": True}
    assert [message["content"] for message in told["messages"]][::2] == ["My name is Rob.", "What is my"]
    assert told["memory"]
    # Nothing is stored of what was not sent.
    field(page).fill("")
    assert [[role for role, _ in talk] for talk in stored(memory, chat.user)] == [["user", "assistant"]]


def test_an_answer_appears_while_it_is_written_and_stops(endless, visit):
    chat = visit(endless.url, "somebody")
    chat.open("chat")
    page = chat.page
    field(page).fill("Hello")
    page.keyboard.press("Enter")
    expect(page.locator(".prose > *").first).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_hidden()

    page.get_by_role("button", name="Stop", exact=True).click()
    over(page)

    expect(page.locator(".reply-foot")).to_contain_text("stopped")
    text = httpx.get(f"{endless.url}/v1/conversations", params={"user": "somebody"}, trust_env=False).json()
    assert text["total"] == 1
    page.reload()
    expect(page.locator(".prose > *").first).to_be_visible()


def test_an_answer_in_a_conversation_that_was_deleted_elsewhere_says_so(endless, visit):
    chat = visit(endless.url, "deleting")
    chat.open("chat")
    page = chat.page
    field(page).fill("Hello")
    page.keyboard.press("Enter")
    expect(page.locator(".prose > *").first).to_be_visible()
    name = page.url.rpartition("/")[2]
    httpx.delete(f"{endless.url}/v1/conversations/{name}", params={"user": "deleting"}, trust_env=False)
    over(page)

    foot = page.locator(".reply-foot")
    expect(foot).to_contain_text("the conversation was deleted meanwhile: nothing of it was stored")
    expect(foot).not_to_contain_text("maximum length")


def test_an_answer_goes_on_while_another_view_is_shown(endless, visit):
    chat = visit(endless.url, "wanderer")
    chat.open("chat")
    page = chat.page
    field(page).fill("Hello")
    page.keyboard.press("Enter")
    expect(page.locator(".prose > *").first).to_be_visible()

    page.get_by_role("link", name="Facts").click()
    expect(page.locator("main h1")).to_have_text("Facts")
    page.go_back()
    expect(page.locator(".turn-pair")).to_have_count(1)
    page.get_by_role("button", name="Stop", exact=True).press("Enter")
    over(page)
    expect(page.locator(".prose > *").first).to_be_visible()
    field(page).fill("Again")
    page.keyboard.press("Enter")
    expect(page.locator(".prose").last.locator("> *").first).to_be_visible()
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".turn-pair")).to_have_count(0)
    page.locator(".talk a").click()
    expect(page.locator(".turn-pair")).to_have_count(2)
    page.get_by_role("button", name="Stop", exact=True).press("Enter")
    over(page)


# Each answer is complete at once, and its stream waits for a last event.
HELD_STREAMS = """() => {
    const real = window.fetch;
    window.streams = [];
    window.fetch = (path, options) => {
        if (!path.includes("/v1/chat/completions")) return real(path, options);
        const body = new ReadableStream({ start: (stream) => {
            const encoder = new TextEncoder();
            const write = (event) => stream.enqueue(encoder.encode(`data: ${JSON.stringify(event)}\\n\\n`));
            write({ choices: [{ delta: { content: "Hi" } }] });
            write({ choices: [{ delta: {}, finish_reason: "stop" }], session: "stored" });
            streams.push((event) => { write(event); stream.close(); });
        } });
        return Promise.resolve(new Response(body, { headers: { "content-type": "text/event-stream" } }));
    };
}"""

LEARNED = {
    "id": "1",
    "kind": "learned",
    "state": "new",
    "statement": "I live in Paris.",
    "sentence": "you live in Paris",
    "undoable": True,
}


def test_what_a_later_stream_tells_is_shown_although_an_earlier_one_has_ended(chat):
    page = chat.page
    page.evaluate(HELD_STREAMS)
    say(page, "Hello")
    say(page, "I live in Paris.")
    page.evaluate("streams[0]({ choices: [], learned: [] })")
    page.get_by_role("link", name="Facts").click()
    expect(page.locator("main h1")).to_have_text("Facts")
    page.go_back()
    expect(page.locator(".turn-pair")).to_have_count(2)

    page.evaluate("item => streams[1]({ choices: [], learned: [item] })", LEARNED)

    expect(page.locator(".turn-pair").last.get_by_role("list", name="What was learned")).to_be_visible()


def test_what_was_recalled_is_folded_under_the_answer_and_can_be_forgotten(chat, memory):
    page = chat.page
    dog = "My dog is called Bruno."
    learn(memory, chat.user, dog, Claim("dog_name", "Bruno", dog, 0))
    memory.store_memory("Which editor does the user prefer?", "Helix <b>always</b>", chat.user)
    say(page, "Which editor do I prefer?")
    recalled = page.locator(".recalled")

    expect(recalled.locator("summary").first).to_contain_text("Recalled 1 fact, 1 memory")
    expect(recalled.locator(".value")).to_be_hidden()
    recalled.locator("summary").first.press("Enter")
    expect(recalled.locator(".line").last).to_have_text("dog name: BrunoEditForget")
    expect(recalled.locator(".line").first).to_contain_text("Helix <b>always</b>")
    recalled.get_by_role("button", name="Pin").press("Enter")
    expect(recalled.get_by_role("button", name="Unpin")).to_be_visible()
    assert memory.search("editor", 1, chat.user)[0].pinned
    recalled.get_by_role("button", name="Forget").first.press("Enter")
    expect(recalled.locator(".line.over")).to_have_count(1)
    gone = memory.search("editor", 1, chat.user)
    page.keyboard.press("Enter")  # on "Undo"
    expect(recalled.locator(".line.over")).to_have_count(0)
    assert gone == []
    assert memory.search("editor", 1, chat.user)[0].pinned
    recalled.get_by_role("button", name="Forget").last.press("Enter")
    expect(recalled.locator(".line.over")).to_have_count(1)
    assert memory.get_fact("dog_name", chat.user) is None
    page.keyboard.press("Enter")  # on "Undo"
    expect(recalled.locator(".line.over")).to_have_count(0)
    # Not as if the user had set it, which nothing they say could change any more.
    assert memory.get_fact("dog_name", chat.user) == "Bruno"
    assert memory.facts_set_by_user(chat.user) == []


def test_what_was_learned_is_shown_and_undone(chat, memory):
    page = chat.page
    say(page, "I live in Paris.")
    learned = page.get_by_role("list", name="What was learned").get_by_role("listitem")

    expect(learned).to_contain_text("Learned: You live in Paris")
    before = memory.get_fact("location", chat.user)
    learned.get_by_role("button", name="Undo").press("Enter")

    expect(learned.locator(".mark")).to_have_text("undone")
    expect(learned.get_by_role("button")).to_have_count(0)
    assert (before, memory.get_fact("location", chat.user)) == ("Paris", None)
    page.reload()
    expect(learned.locator(".mark")).to_have_text("undone")


def test_what_was_learned_is_shown_once_below_the_message_that_said_it(chat, memory):
    page = chat.page
    said = "I live in Paris."
    say(page, "Hello")
    name = page.evaluate("location.hash.split('/').at(-1)")
    [[(_, hello), (_, answer)]] = stored(memory, chat.user)
    messages = [("user", hello), ("assistant", answer), ("user", said)]
    body = {"messages": [{"role": role, "content": text} for role, text in messages], "session": name}
    elsewhere = {**body, "model": "default", "user": chat.user, "max_tokens": 8}
    httpx.post(f"{chat.url}/v1/chat/completions", json=elsewhere, timeout=90, trust_env=False)
    wait_for(lambda: memory.learned(1, user_id=chat.user), "what was learned")
    page.reload()
    learned = page.locator(".turn-pair", has_text=said).locator(".news .line")
    expect(learned).to_have_text("Learned: You live in ParisUndo")
    learn(memory, chat.user, said, Claim("drink", "tea", said, 0))
    say(page, "What can you do?")

    expect(learned).to_have_count(2)
    expect(page.locator(".news .line")).to_have_count(2)


@pytest.mark.parametrize(("decision", "expected"), [("Accept", "Berlin"), ("Reject", "Texas")])
def test_a_contradiction_is_decided_under_the_answer(decision, expected, chat, memory):
    page = chat.page
    memory.set_fact("location", "Texas", chat.user)
    say(page, "I live in Berlin.")
    proposal = page.get_by_role("list", name="What was learned").get_by_role("listitem")

    expect(proposal).to_contain_text(
        "“You live in Berlin” would replace “You live in Texas”, which you set yourself."
    )
    proposal.get_by_role("button", name=decision).press("Enter")

    expect(proposal.locator(".mark")).to_have_text(f"{decision.lower()}ed")
    assert memory.get_fact("location", chat.user) == expected


def test_an_edited_message_replaces_itself_and_what_followed(chat, memory):
    page = chat.page
    say(page, "Hello")
    say(page, "I live in Paris.")
    expect(page.get_by_text("You live in Paris", exact=True)).to_be_visible()
    say(page, "What can you do?")

    page.get_by_role("button", name="Edit You: I live in Paris.").press("Enter")
    edited = page.get_by_role("textbox", name="Your message")
    expect(edited).to_be_focused()
    edited.press("Control+A")
    page.keyboard.type("I live")
    edited.press("Shift+Enter")
    page.keyboard.type("in Rome.")
    expect(edited).to_have_value("I live\nin Rome.")
    edited.fill("I live in Rome.")
    edited.press("Enter")  # as in the field for a new message
    expect(page.locator(".turn-pair")).to_have_count(2)
    expect(page.get_by_text("You live in Rome", exact=True)).to_be_visible()

    [messages] = stored(memory, chat.user)
    assert [text for role, text in messages if role == "user"] == ["Hello", "I live in Rome."]
    assert memory.get_fact("location", chat.user) == "Rome"
    assert [change.value for change in memory.fact_history("location", chat.user)] == ["Rome"]


def test_what_was_said_on_another_device_is_shown_before_it_would_be_replaced(chat, memory):
    page = chat.page
    say(page, "I live in Paris.")
    name = page.evaluate("location.hash.split('/').at(-1)")
    [[_, (_, answer)]] = stored(memory, chat.user)
    said = [("user", "I live in Paris."), ("assistant", answer), ("user", "My dog is called Rex.")]
    messages = [{"role": role, "content": text} for role, text in said]
    elsewhere = {"messages": messages, "session": name, "user": chat.user, "max_tokens": 8}
    httpx.post(f"{chat.url}/v1/chat/completions", json=elsewhere, timeout=90, trust_env=False)
    before = stored(memory, chat.user)

    page.get_by_role("button", name="Edit You: I live in Paris.").press("Enter")
    edited = page.get_by_role("textbox", name="Your message")
    edited.fill("I live in Rome.")
    edited.press("Enter")

    expect(page.locator(".turn-pair")).to_have_count(2)
    expect(page.locator("#notices")).to_contain_text("was changed in another tab or on another device")
    # Now it says what else is replaced, and what was typed is there.
    expect(edited).to_have_value("I live in Rome.")
    expect(page.locator(".edit-message")).to_contain_text("This message and all after it are replaced")
    assert stored(memory, chat.user) == before
    edited.press("Enter")
    expect(page.locator(".turn-pair")).to_have_count(1)
    over(page)
    [messages] = stored(memory, chat.user)
    assert [text for role, text in messages if role == "user"] == ["I live in Rome."]


def test_a_message_without_an_answer_is_stored_once_and_says_that_there_is_none(through_busy, busy, visit):
    user = "unanswered"
    busy.script[:] = [says("Hi."), says(), says(), says("Rex.")]
    chat = visit(through_busy.url, user)
    chat.open("chat")
    page = chat.page
    say(page, "Hello")
    say(page, "My dog is called Rex.")
    expect(page.locator(".reply-foot").last).to_contain_text("the model gave no answer")

    page.locator(".turn-pair").last.evaluate("one => one.classList.add('former')")
    page.get_by_role("button", name="Ask again").last.press("Enter")
    expect(page.locator(".turn-pair.former")).to_have_count(0)
    over(page)
    say(page, "What is my dog called?")

    with Memory(through_busy.database) as memory:
        [messages] = stored(memory, user)
    assert messages == [
        *[("user", "Hello"), ("assistant", "Hi."), ("user", "My dog is called Rex.")],
        *[("user", "What is my dog called?"), ("assistant", "Rex.")],
    ]


def test_passages_of_documents_are_shown_among_what_was_recalled(chat, memory):
    page = chat.page
    memory.set_fact("dog_name", "Bruno", chat.user)
    knowledge = Knowledge(memory.transactions, chat.user)
    text = "The Kestrel pump needs four litres of hydraulic oil."
    node = knowledge.add_node("Manual of the Kestrel pump", source_text=text).id
    say(page, "How much oil does the Kestrel pump need?")
    recalled = page.locator(".recalled")

    expect(recalled.locator("summary").first).to_contain_text("Recalled 1 fact, 1 passage")
    recalled.locator("summary").first.press("Enter")
    passage = recalled.locator(".line").first
    expect(passage).to_contain_text(text)
    expect(passage.locator(".relevance")).to_contain_text("% match")
    passage.get_by_role("link", name="Open “Manual of the Kestrel pump”").press("Enter")
    expect(page.locator("#node-title")).to_have_text("Manual of the Kestrel pump")
    [session] = memory.list_sessions(chat.user)
    chat.open(f"why/{session.id}")

    passages = page.locator(".turn .block", has_text="Passages of documents")
    expect(passages).to_contain_text(text)
    expect(passages.get_by_role("link")).to_have_attribute("href", f"#/knowledge/{node}")


def test_nodes_in_focus_are_shown_among_what_was_recalled(chat, memory):
    page = chat.page
    knowledge = Knowledge(memory.transactions, chat.user)
    nodes = [knowledge.add_node(title).id for title in ("The garden plan", "Bees")]
    knowledge.focus(nodes)
    say(page, "What comes next?")
    recalled = page.locator(".recalled")

    expect(recalled.locator("summary").first).to_contain_text("Recalled 2 nodes in focus")
    recalled.locator("summary").first.press("Enter")
    expect(recalled.locator(".line .asked")).to_have_text(["The garden plan", "Bees"])
    recalled.get_by_role("link", name="Open “Bees”").press("Enter")
    expect(page.locator("#node-title")).to_have_text("Bees")
    [session] = memory.list_sessions(chat.user)
    chat.open(f"why/{session.id}")

    links = page.locator(".turn .block", has_text="Nodes in focus").get_by_role("link")
    expect(links).to_have_text(["The garden plan", "Bees"])
    expect(links.last).to_have_attribute("href", f"#/knowledge/{nodes[1]}")


def test_asking_again_stores_one_answer(chat, memory):
    page = chat.page
    say(page, "Hello")

    page.locator(".turn-pair").evaluate("one => one.classList.add('former')")
    page.get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator(".turn-pair.former")).to_have_count(0)
    over(page)

    assert [[role for role, _ in messages] for messages in stored(memory, chat.user)] == [
        ["user", "assistant"]
    ]


def test_what_is_learned_after_the_answer_leaves_its_buttons_in_place(chat):
    page = chat.page
    page.evaluate(HELD_STREAMS)
    say(page, "I live in Paris.")
    page.get_by_role("button", name="Ask again").focus()

    page.evaluate("item => streams[0]({ choices: [], learned: [item] })", LEARNED)

    expect(page.get_by_role("list", name="What was learned")).to_be_visible()
    expect(page.get_by_role("button", name="Ask again")).to_be_focused()


def test_asking_an_earlier_message_again_asks_first(chat, memory):
    page = chat.page
    say(page, "Hello")
    say(page, "What can you do?")
    first = page.locator(".turn-pair").first.get_by_role("button", name="Ask again")

    first.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    [kept] = stored(memory, chat.user)
    first.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    # Pressed again before the browser has told that the dialog is closed.
    n_open = page.evaluate(
        """async () => {
            document.querySelector("dialog button").click();
            for (let i = 0; i < 20; i++) await null;
            document.querySelector(".reply-foot button:last-of-type").click();
            return document.querySelectorAll("dialog[open]").length;
        }"""
    )
    page.get_by_role("dialog").get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator(".turn-pair")).to_have_count(1)
    over(page)

    assert n_open == 1
    assert len(kept) == 4
    assert [[role for role, _ in messages] for messages in stored(memory, chat.user)] == [
        ["user", "assistant"]
    ]


def test_a_message_with_memory_off_leaves_nothing(chat, memory):
    page = chat.page
    memory.set_fact("dog_name", "Bruno", chat.user)
    page.get_by_role("button", name="Memory on").press("Enter")
    expect(page.get_by_role("button", name="Memory off for this message")).to_have_attribute(
        "aria-pressed", "true"
    )
    switch = page.locator(".memory-switch")
    height = switch.bounding_box()["height"]
    page.set_viewport_size({"width": 390, "height": 844})  # fewer words there, in one line
    assert switch.bounding_box()["height"] <= height
    expect(switch).to_have_accessible_name("Memory off for this message")
    page.set_viewport_size({"width": 1280, "height": 860})
    say(page, "I live in Paris. What is my dog called?")

    expect(page.locator(".reply-foot")).to_contain_text("memory was off")
    expect(page.locator(".recalled")).to_have_count(0)
    expect(page.get_by_role("button", name="Memory on")).to_be_visible()
    assert memory.list_sessions(chat.user) == []
    assert memory.get_fact("location", chat.user) is None
    say(page, "Hello")
    assert [
        [text for role, text in messages if role == "user"] for messages in stored(memory, chat.user)
    ] == [["Hello"]]


def test_thoughts_and_calls_of_tools_are_folded(chat, memory):
    session = memory.start_session(chat.user)
    call = ToolCall("1", "search_memory", '{"query": "dog"}')
    for message in (
        Message("user", "What is my dog called?"),
        Message("assistant", "", thought="I should look it up.", tool_calls=(call,)),
        Message("tool", "Bruno, a collie", tool_call_id="1"),
        Message("assistant", "Your dog is called Bruno."),
    ):
        memory.append_message(session, message, chat.user)
    chat.open(f"chat/{session}")
    page = chat.page

    expect(page.locator(".turn-pair")).to_have_count(1)
    expect(page.locator(".prose")).to_have_text("Your dog is called Bruno.")
    expect(page.get_by_text("I should look it up.")).to_be_hidden()
    page.get_by_text("Thoughts").press("Enter")
    expect(page.get_by_text("I should look it up.")).to_be_visible()
    page.get_by_text("Used search_memory").press("Enter")
    expect(page.get_by_text("Bruno, a collie")).to_be_visible()


def test_documents_that_came_with_a_message_are_folded_and_stay_in_the_conversation(chat, memory):
    session = memory.start_session(chat.user)
    asked = Message("user", "What is it about?")
    asked.composed = asked.sent = "The document: sheep.\n\nWhat is it about?"
    memory.append_message(session, asked, chat.user)
    memory.append_message(session, Message("assistant", "Sheep."), chat.user)
    chat.open(f"chat/{session}")
    page = chat.page

    expect(page.locator(".bubble")).to_have_text("You: What is it about?")
    expect(page.get_by_text("The document: sheep.")).to_be_hidden()
    with page.expect_request("**/v1/chat/completions") as request:
        say(page, "Hello")

    contents = [message["content"] for message in request.value.post_data_json["messages"]]
    assert contents == [asked.composed, "Sheep.", "Hello"]


def test_conversations_are_searched_chosen_and_deleted(chat, memory):
    for question in ("How do I prune tomatoes?", "Merge two lists", "What about bread?"):
        conversation(memory, chat.user, question, f"About: {question}")
    chat.page.reload()
    page = chat.page
    expect(page.locator(".talk")).to_have_count(3)

    page.get_by_role("searchbox", name="Search conversations").fill("about: how")
    expect(page.locator(".talk")).to_have_count(1)
    page.get_by_role("link", name="How do I prune tomatoes?").press("Enter")
    expect(page.locator(".prose")).to_have_text("About: How do I prune tomatoes?")
    page.get_by_role("searchbox", name="Search conversations").fill("")
    expect(page.locator(".talk")).to_have_count(3)
    page.get_by_role("button", name="Delete How do I prune tomatoes?").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Delete").press("Enter")
    expect(page.locator(".talk")).to_have_count(2)

    expect(page.locator("main h1")).to_have_text("New conversation")
    assert len(memory.list_sessions(chat.user)) == 2


@pytest.mark.parametrize("view", ["chat", "why"])
def test_single_questions_are_shown_when_they_are_asked_for(chat, memory, view):
    conversation(memory, chat.user, "How do I prune tomatoes?", "In the morning.")
    for question in ("Is it raining?", "What is 2 + 2?"):
        alone = memory.start_session(chat.user, "a-model", is_one_off=True)
        memory.append_message(alone, Message("user", question), chat.user)
    page = chat.page
    chat.open(view)
    page.reload()
    titles = page.locator(".talk > a, .talk-row > a")
    expect(titles).to_have_text(["How do I prune tomatoes?"])

    page.get_by_role("button", name="Show 2 single questions").press("Enter")

    expect(titles).to_have_text(["What is 2 + 2?", "Is it raining?", "How do I prune tomatoes?"])
    expect(page.get_by_role("button", name="Hide single questions")).to_be_focused()
    page.get_by_role("button", name="Hide single questions").press("Enter")
    expect(titles).to_have_text(["How do I prune tomatoes?"])
    page.get_by_role("searchbox", name="Search conversations").fill("raining")
    expect(titles).to_have_text(["Is it raining?"])


def test_a_conversation_is_renamed_in_the_list(chat, memory):
    session = conversation(memory, chat.user, "How do I prune tomatoes?", "In the morning.")
    chat.open(f"chat/{session}")
    page = chat.page

    page.get_by_role("button", name="Rename How do I prune tomatoes?").press("Enter")
    title = page.get_by_role("textbox", name="Title of the conversation")
    expect(title).to_be_focused()
    title.press("Escape")
    expect(page.get_by_role("button", name="Rename How do I prune tomatoes?")).to_be_focused()
    page.keyboard.press("Enter")
    title.fill("Größe der Beete")
    with page.expect_response("**/v1/conversations?*"):  # the list is loaded meanwhile
        say(page, "Hello")
    title.press("Enter")
    expect(page.locator("main h1")).to_have_text("Größe der Beete")
    expect(page.get_by_role("button", name="Rename Größe der Beete")).to_be_focused()
    page.reload()
    page.get_by_role("searchbox", name="Search conversations").fill("GROSSE")
    expect(page.locator(".talk a")).to_have_text("Größe der Beete")

    expect(page.locator("main h1")).to_have_text("Größe der Beete")
    assert memory.list_sessions(chat.user)[0].title == "Größe der Beete"


@pytest.mark.parametrize("button", ["Edit", "Ask again"])
def test_a_refused_edit_or_repetition_loses_nothing(button, chat, memory):
    page = chat.page
    say(page, "I live in Paris.")
    expect(page.get_by_text("You live in Paris", exact=True)).to_be_visible()
    say(page, "Hello")
    before = stored(memory, chat.user)
    page.route("**/v1/chat/completions", lambda route: route.abort())
    first = page.locator(".turn-pair").first

    if button == "Edit":
        page.get_by_role("button", name="Edit You: I live in Paris.").press("Enter")
        page.get_by_role("textbox", name="Your message").fill("I live in Rome.")
        page.get_by_role("form", name="Edit your message").get_by_role("button", name="Save and ask").press(
            "Enter"
        )
    else:
        first.get_by_role("button", name="Ask again").press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator("#notices")).to_contain_text("The server does not answer.")

    expect(page.locator(".turn-pair")).to_have_count(2)
    assert stored(memory, chat.user) == before
    assert memory.get_fact("location", chat.user) == "Paris"
    if button == "Edit":
        expect(page.get_by_role("textbox", name="Your message")).to_have_value("I live in Rome.")
        page.unroute("**/v1/chat/completions")
        page.get_by_role("form", name="Edit your message").get_by_role("button", name="Save and ask").press(
            "Enter"
        )
        expect(page.locator(".turn-pair")).to_have_count(1)
        expect(page.get_by_text("You live in Rome", exact=True)).to_be_visible()
        assert memory.get_fact("location", chat.user) == "Rome"


def test_a_model_is_chosen_where_there_are_several_that_chat(mini, chat):
    page = chat.page
    listed = httpx.get(f"{mini.url}/v1/models", trust_env=False).json()
    expect(page.locator(".composer .model")).to_have_text(listed["data"][0]["id"])
    assert len(listed["data"]) == 2  # the other one is for embeddings
    expect(page.get_by_label("Model")).to_have_count(0)
    more = {**listed, "data": [*listed["data"], {**listed["data"][0], "id": "another"}]}
    page.route("**/v1/models*", lambda route: route.fulfill(json=more))
    page.reload()

    page.get_by_label("Model").select_option("another")
    with page.expect_request("**/v1/chat/completions") as request:
        say(page, "Hello")

    assert request.value.post_data_json["model"] == "another"


def test_code_is_copied_as_it_is(chat, memory):
    session = conversation(memory, chat.user, "Write code", "Here:\n\n```python\nif a:\n    b = '<b>'\n```")
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.open(f"chat/{session}")

    chat.page.get_by_role("button", name="Copy", exact=True).press("Enter")
    expect(chat.page.locator("#notices")).to_contain_text("Copied.")

    assert chat.page.evaluate("navigator.clipboard.readText()") == "if a:\n    b = '<b>'"


def test_an_edit_is_not_discarded_by_another_question(chat):
    page = chat.page
    say(page, "I live in Paris.")
    page.get_by_role("button", name="Edit You: I live in Paris.").press("Enter")
    edited = page.get_by_role("textbox", name="Your message")
    edited.fill("I live in Rome.")

    page.get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator("#notices")).to_contain_text("Save or cancel your edit first.")
    expect(edited).to_be_focused()
    field(page).fill("Hello")
    page.get_by_role("button", name="Send").press("Enter")
    expect(edited).to_be_focused()
    expect(field(page)).to_have_value("Hello")

    edited.press("Enter")
    expect(page.get_by_text("You live in Rome", exact=True)).to_be_visible()
    expect(page.locator(".turn-pair")).to_have_count(1)


def test_times_are_written_as_in_the_terminal_in_any_browser(mini, visit):
    chat = visit(mini.url, "american", locale="en-US")
    chat.open("chat")
    say(chat.page, "Hello")

    expect(chat.page.locator(".asked-foot time")).to_have_text(
        re.compile(r"^\d{1,2} [A-Z][a-z]{2,3} \d{4}, \d\d:\d\d$")
    )


def test_a_refused_message_says_why_and_can_be_sent_again(endless, visit):
    chat = visit(endless.url, "refused")
    chat.open("chat")
    page = chat.page
    field(page).fill("word " * 40_000)
    page.keyboard.press("Enter")
    over(page)

    expect(page.get_by_role("alert")).to_contain_text("The server says:")
    page.get_by_role("button", name="Edit").last.press("Enter")
    page.get_by_role("textbox", name="Your message").fill("Hello")
    page.get_by_role("form", name="Edit your message").get_by_role("button", name="Save and ask").press(
        "Enter"
    )
    expect(page.locator(".prose > *").first).to_be_visible()
    page.get_by_role("button", name="Stop", exact=True).click()
    over(page)
    expect(page.get_by_role("alert")).to_have_count(0)


HALF = 'data: {"choices": [{"index": 0, "delta": {"content": "Half of"}}]}\n\n'


def broken(page: Page, text: str) -> None:
    """Send a message whose answer breaks off, as when the server is killed: it has stored nothing."""
    page.route(
        "**/v1/chat/completions", lambda route: route.fulfill(content_type="text/event-stream", body=HALF)
    )
    field(page).fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").last).to_contain_text("The answer was interrupted")
    page.unroute("**/v1/chat/completions")


def test_a_message_whose_answer_broke_off_is_still_there_and_can_be_asked_again(chat, memory):
    page = chat.page
    broken(page, "I live in Paris.")
    expect(page.locator("#notices")).to_be_empty()
    page.get_by_role("link", name="Facts").click()
    expect(page.locator("main h1")).to_have_text("Facts")
    page.go_back()

    expect(page.locator(".prose")).to_have_text("Half of")
    page.get_by_role("button", name="Ask again").press("Enter")
    expect(page.get_by_role("list", name="What was learned")).to_be_visible()

    expect(page.get_by_role("alert")).to_have_count(0)
    [[(_, asked), (_, answer)]] = stored(memory, chat.user)
    assert asked == "I live in Paris."
    assert not answer.startswith("Half of")


def test_after_an_answer_that_broke_off_the_right_message_is_replaced(chat, memory):
    page = chat.page
    say(page, "Hello")
    broken(page, "I live in Paris.")
    say(page, "What can you do?")

    page.locator(".turn-pair").last.evaluate("one => one.classList.add('former')")
    page.get_by_role("button", name="Ask again").last.press("Enter")
    expect(page.locator(".turn-pair.former")).to_have_count(0)
    over(page)

    [messages] = stored(memory, chat.user)
    assert [text for role, text in messages if role == "user"] == ["Hello", "What can you do?"]


def test_on_a_phone_all_conversations_are_one_touch_away_and_nothing_is_covered(mini, memory, visit):
    phone = visit(mini.url, "somebody on a phone", viewport={"width": 390, "height": 844}, has_touch=True)
    session = conversation(memory, phone.user, "How do I prune tomatoes?", "In the morning.\n\n" * 60)
    conversation(memory, phone.user, "What about bread?", "Rye.")
    phone.open(f"chat/{session}")
    page = phone.page
    again = page.get_by_role("button", name="Ask again")

    model = page.locator(".composer .model").evaluate("one => one.scrollWidth <= one.clientWidth")
    names = page.locator("#nav span").evaluate_all(
        "all => all.map((one) => one.getBoundingClientRect()).map((box) => [box.left, box.right])"
    )
    bottom = again.evaluate("one => one.getBoundingClientRect().bottom")
    top = page.locator(".composer-box").evaluate("one => one.getBoundingClientRect().top")
    page.get_by_role("button", name="Conversations").tap()
    expect(page.get_by_role("link", name="New conversation")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Conversations")).to_be_focused()
    expect(page.get_by_role("link", name="What about bread?")).to_be_hidden()
    page.get_by_role("button", name="Conversations").tap()
    page.get_by_role("link", name="What about bread?").tap()
    expect(page.locator(".prose")).to_have_text("Rye.")

    expect(page.get_by_role("link", name="New conversation")).to_be_hidden()
    assert model
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(names))
    assert bottom < top


def test_a_conversation_that_is_gone_is_no_dead_end(chat):
    chat.page.goto(f"{chat.url}/#/chat/0123456789abcdef")

    expect(chat.page.get_by_role("alert")).to_contain_text("There is no such conversation")
    chat.page.get_by_role("link", name="Chat").click()
    expect(field(chat.page)).to_be_visible()


def test_errors_do_not_cover_the_field_and_go_with_the_next_message(chat):
    page = chat.page
    say(page, "I live in Paris.")
    over(page)
    page.evaluate(
        "() => { const data = new DataTransfer();"
        " for (const name of ['a.exe', 'b.exe']) data.items.add(new File(['\\0\\1\\2'.repeat(50)], name));"
        " document.querySelector('main').dispatchEvent("
        "  new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: data })); }"
    )
    notice = page.locator(".notice.bad")
    expect(notice).to_contain_text("a.exe")
    expect(notice).to_contain_text("b.exe")
    box, composer = notice.bounding_box(), page.locator(".composer").bounding_box()

    assert box["y"] + box["height"] <= composer["y"]
    say(page, "Where do I live?")
    expect(notice).to_have_count(0)


def test_many_errors_fit_a_phone_with_the_button_that_closes_them(steve):
    steve.page.set_viewport_size({"width": 390, "height": 500})
    steve.open("chat")
    files = [
        {"name": f"{i}{'x' * 60}.docx", "mimeType": "application/zip", "buffer": b"PK\3\4\0\0"}
        for i in range(14)
    ]
    steve.page.locator("input[type=file]").first.set_input_files(files)
    notice = steve.page.locator(".notice.bad")

    expect(notice.get_by_role("button", name="Close")).to_be_in_viewport(ratio=1)
    expect(notice.locator("p")).to_have_count(6)
    expect(notice.locator("p").last).to_have_text("and 9 more")
    steve.page.keyboard.press("Escape")
    expect(notice).to_have_count(0)


def test_a_server_that_is_gone_is_said_once_and_no_longer_when_it_is_back(chat):
    page = chat.page
    page.clock.install()
    say(page, "My name is Rob.")
    page.route("**/v1/**", lambda route: route.abort())
    say(page, "What is my name?")
    failed = page.locator(".turn-pair").last

    failed.get_by_role("button", name="Ask again").press("Enter")
    over(page)
    expect(page.locator("main").get_by_text("The server does not answer.")).to_have_count(1)
    expect(page.locator("#notices")).to_be_empty()
    page.locator(".turn-pair").first.get_by_role("button", name="Ask again").press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator("#notices")).to_contain_text("The server does not answer.")
    page.clock.fast_forward(60_000)
    expect(page.locator("#notices")).to_contain_text("The server does not answer.")

    page.unroute("**/v1/**")
    failed.get_by_role("button", name="Ask again").press("Enter")
    expect(page.locator(".prose").last).to_contain_text("Rob")
    over(page)
    page.clock.fast_forward(60_000)
    expect(page.locator("#notices")).to_be_empty()
    expect(page.get_by_text("The server does not answer.")).to_have_count(0)


def test_under_another_name_nobody_is_told_to_run_a_command_and_no_button_is_covered(serve, visit):
    # For the page it is a name as in a home network; the browser finds it on this machine.
    name = "shepherd.localhost"
    server = serve(SHEPHERD_SERVER_HOSTS=name)
    size = {"width": 390, "height": 844}
    phone = visit(server.url.replace("127.0.0.1", name), "away", viewport=size, has_touch=True)
    page = phone.page
    phone.open("chat")
    field(page).fill("Hello")
    page.get_by_role("button", name="Send").click()
    over(page)
    page.route("**/v1/**", lambda route: route.abort())

    page.get_by_role("button", name="Ask again").click()

    expect(page.locator("#notices")).to_contain_text("Check that this device is on the network")
    assert "shepherd serve" not in page.locator("#notices").inner_text()
    for button in (page.get_by_role("button", name="Conversations"), page.get_by_role("link", name="New")):
        button.click(trial=True)


def test_what_was_sent_is_not_in_the_field_of_the_next_new_conversation(steve):
    steve.open("chat")
    field = steve.page.get_by_role("textbox", name="Message", exact=True)
    field.fill("I like tea.")
    steve.open("facts")
    steve.open("chat")
    expect(field).to_have_value("I like tea.")
    field.press("Enter")
    expect(steve.page.locator(".turn-pair")).to_have_count(1)
    expect(steve.page.get_by_role("button", name="Stop")).to_be_hidden()

    steve.page.locator("a.new-chat").first.click()

    expect(steve.page.locator(".turn-pair")).to_have_count(0)
    expect(field).to_have_value("")


def test_a_conversation_without_memory_can_be_left_for_a_new_one(steve):
    """Its address names no conversation, since a reload would not find it."""
    page = steve.page
    steve.open("chat")
    page.locator(".memory-switch").click()
    say(page, "Hello!")
    over(page)
    assert page.evaluate("location.hash") == "#/chat"

    page.locator(".chat-list a.new-chat").click()

    expect(page.locator(".turn-pair")).to_have_count(0)


def test_another_user_sees_neither_the_conversation_nor_the_unsent_message(steve):
    page = steve.page
    steve.open("chat")
    page.locator(".memory-switch").click()
    say(page, "Hello!")
    over(page)
    field(page).fill("not for others")

    page.get_by_role("button", name="Memory of").press("Enter")
    page.get_by_label("User").fill("somebody else")
    page.keyboard.press("Enter")

    expect(page.get_by_role("button", name="Memory of somebody else")).to_be_visible()
    expect(field(page)).to_have_value("")
    expect(page.locator(".turn-pair")).to_have_count(0)
