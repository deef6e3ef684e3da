"""What the screen lists: memories of this turn and all others, facts, knowledge; what is done to them."""

from __future__ import annotations

import pytest
from textual.widgets import Input, OptionList

from shepherd.commands.screen import printable
from shepherd.knowledge import Knowledge


@pytest.fixture
def knowledge(memory):
    """Three nodes, two of them connected."""
    knowledge = Knowledge(memory.transactions, "steve")
    rag = knowledge.add_node(
        "How RAG works", kind="paper", notes="Read it again", source_text="Retrieval first."
    )
    bm25 = knowledge.add_node("About BM25", kind="note", dimensions=["search"])
    knowledge.add_node("Sheep", kind="animal")
    knowledge.connect(rag.id, bm25.id, explanation="ranks by it")
    return knowledge


def test_what_was_remembered_is_changed_and_forgotten_where_it_is_listed(perform, scripted_model, memory):
    memory.set_fact("location", "Texas")
    memory.set_fact("name", "Steve")
    memory.store_memory("Which IDE does the user like?", "VS Code")

    async def play(stage):
        await stage.say("Which IDE do I like?")
        remembered = stage.app.screen.query_one("#remembered", OptionList)
        assert [
            "location" in stage.options("#remembered")[0],
            "score" in stage.options("#remembered")[2],
        ] == [True] * 2
        remembered.focus()
        await stage.pilot.press("home", "f")
        await stage.shows("Forget 'location = Texas'?")
        await stage.pilot.press("y")
        await stage.shows("forgotten")
        await stage.pilot.press("down", "e")
        await stage.shows("value")
        await stage.pilot.press("n", "ctrl+s")
        await stage.until(lambda: memory.get_fact("name") == "Steven", "the change")
        await stage.pilot.press("down", "p")
        await stage.until(lambda: memory.list_memories()[0].pinned, "the pin")
        await stage.pilot.press("enter")
        await stage.shows("esc closes")
        assert "entered by hand" in stage.text()

    perform(play, scripted_model)

    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("name", "Steven")]


def test_a_memory_and_errors_about_it_have_numbers(perform, scripted_model, memory):
    memory.store_memory("Which boat?", "A ketch", "anna")
    memory.store_memory("Which dog?", "Rex", timestamp=1000)
    memory.store_memory("Which cat?", "Rex", timestamp=2000)

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows("2 memories")
        assert "id 2 \N{MIDDLE DOT} " in stage.options("#memories")[0]
        await stage.pilot.press("home", "e")
        await stage.shows("memory 2")
        await stage.pilot.press("end", *["backspace"] * 4, *"dog?", "ctrl+s")
        await stage.shows("memory 2: memory 1 already says exactly this")

    perform(play, scripted_model)

    assert memory.list_memories()[0].question == "Which cat?"


def test_a_key_in_brackets_is_the_title_that_it_is(perform, scripted_model, memory):
    keys = {"x[/foo]", "[@click=app.quit]x[/]", "[red]", "two\nlines", "[", "\x1b[2J"}
    for key in keys:
        memory.set_fact(key, "value")
    titles = set()

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows(f"{len(keys)} facts")
        stage.app.screen.query_one("#facts").focus()
        await stage.pilot.press("home")
        for _ in keys:
            await stage.pilot.press("e")
            await stage.until(lambda: len(stage.app.screen_stack) == 3, "the dialog")
            title = stage.app.screen.query_one(".dialog")._border_title
            assert title.spans == []
            titles.add(title.plain)
            await stage.shows(title.plain)
            await stage.pilot.press("escape")
            await stage.until(lambda: len(stage.app.screen_stack) == 2, "the list")
            await stage.pilot.press("f")
            await stage.until(lambda: len(stage.app.screen_stack) == 3, "the question")
            await stage.shows("Forget")
            await stage.pilot.press("escape")
            await stage.until(lambda: len(stage.app.screen_stack) == 2, "the list")
            await stage.pilot.press("down")

    perform(play, scripted_model)

    assert titles == {printable(" ".join(key.split())) for key in keys}


def test_a_question_before_forgetting_can_be_declined(perform, scripted_model, memory):
    memory.set_fact("name", "Steve")

    async def play(stage):
        await stage.say("Who am I?")
        stage.app.screen.query_one("#remembered").focus()
        await stage.pilot.press("home", "delete")
        await stage.shows("Forget")
        await stage.pilot.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1, "the conversation")

    perform(play, scripted_model)

    assert memory.get_fact("name") == "Steve"


def test_all_memories_and_facts_are_searched_and_forgotten(perform, scripted_model, memory):
    memory.set_fact("name", "Steve")
    memory.set_fact("editor", "Helix")
    memory.store_memory("Which dog?", "Rex the terrier")
    memory.store_memory("Which car?", "A blue one")

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows("2 memories")
        assert ["Which car?" in stage.options("#memories")[0], len(stage.options("#facts"))] == [True, 2]
        await stage.pilot.press("slash")
        stage.app.screen.query_one(Input).insert("dog", 0)
        await stage.shows("1 of 2 memories found")
        await stage.pilot.press("enter", "home", "f")
        await stage.shows("Forget 'Which dog?'?")
        await stage.pilot.press("y")
        await stage.shows("0 of 1 memory found")
        await stage.pilot.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1, "the conversation")

    perform(play, scripted_model)

    assert [record.question for record in memory.list_memories()] == ["Which car?"]


def test_memories_and_facts_are_added(perform, scripted_model, memory):
    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.shows("No memories yet; a adds one.")
        await stage.pilot.press("a")
        await stage.shows("Add a memory")
        await stage.pilot.press("q", "tab", "a", "ctrl+s")
        await stage.shows("1 memory")
        await stage.pilot.press("n")
        await stage.shows("Add a fact")
        await stage.pilot.press("k", "tab", "v", "ctrl+s")
        await stage.shows("k = v")

    perform(play, scripted_model)

    assert [(record.question, record.answer) for record in memory.list_memories()] == [("q", "a")]
    assert memory.get_fact("k") == "v"


def test_knowledge_is_read_followed_and_put_into_focus(perform, scripted_model, knowledge):
    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f4")
        await stage.shows("3 nodes")
        stage.app.screen.query_one(Input).insert("retrieval", 0)
        await stage.shows("1 of 3 nodes")
        await stage.shows("Retrieval first.")
        assert "Read it again" in stage.text()
        await stage.pilot.press("f")
        stage.app.screen.query_one("#edges").focus()
        await stage.pilot.press("home", "enter")
        await stage.shows("#search")
        assert "ranks by it" in stage.text()
        stage.app.screen.query_one("#nodes").focus()
        await stage.pilot.press("f")
        await stage.until(knowledge.focused, "the focus")
        assert knowledge.focused()[0].node.title == "About BM25"
        await stage.pilot.press("x")
        await stage.until(lambda: not knowledge.focused(), "no focus")

    perform(play, scripted_model)


def test_without_memory_there_is_nothing_to_list(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        for key in ("f3", "f4"):
            await stage.pilot.press(key)
            await stage.shows("this conversation has no memory")
        assert "memory off" in stage.text()
        stage.app.chat_state = None  # as until the model is loaded
        for key in ("f3", "f4", "f5", "f7"):
            await stage.pilot.press(key)
        assert len(stage.app.screen_stack) == 1

    perform(play, scripted_model, memory=False)


def test_the_provider_is_chosen_from_a_list(perform, scripted_model):
    async def play(stage):
        await stage.say("hello")
        await stage.pilot.press("f5")
        await stage.shows("Choose a provider")
        assert stage.options("OptionList") == ["* local"]
        await stage.pilot.press("home", "enter")
        await stage.shows("local answers from now on: shepherd-mini")

    perform(play, scripted_model)


def test_the_line_of_keys_ends_with_a_whole_key_at_every_width(perform, memory):
    memory.set_fact("name", "Steve")

    def line(stage):
        return stage.text().rstrip().splitlines()[-1].strip()

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f3")
        await stage.until(lambda: "1 Help" in line(stage), "help in the line of keys")
        narrow = line(stage)
        await stage.pilot.resize_terminal(140, 30)
        await stage.until(lambda: "f6 Private" in line(stage), "the other views in the line of keys")

        # What works in every view makes room for what this one is for.
        assert narrow.endswith("n New fact f1 Help f2 Panel")
        assert line(stage).endswith("f1 Help f2 Panel f4 Knowledge f5 Provider f6 Private")

    perform(play, size=(80, 30))
