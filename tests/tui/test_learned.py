"""What is learned, on the whole screen: the line in the conversation, and the list of all of it."""

from __future__ import annotations

from tests.learned import propose, remember
from tests.tui.test_conversation import ANSWER


def test_what_is_learned_is_one_line_and_undone_by_its_command(perform, memory, monkeypatch):
    monkeypatch.setenv("SHEPHERD_THREADS", "1")
    monkeypatch.setenv("SHEPHERD_TEMPERATURE", "0")

    async def play(stage):
        await stage.say("My name is Steve.")
        await stage.say("hello")
        await stage.shows("learned: your name is Steve")
        [item] = memory.learned()
        assert f"/undo {item.id}" in stage.text()
        await stage.say(f"/undo {item.id}")
        await stage.shows('undone: "your name is Steve" is forgotten')

    perform(play)

    assert memory.get_fact("name") is None


def test_what_was_learned_before_is_shown_once_and_not_within_an_answer(perform, scripted_model, memory):
    remember(memory, "steve")

    async def first(stage):
        await stage.shows("learned: you live in Paris (before: Köln)")
        await stage.say("hello")
        await stage.shows(ANSWER)
        assert stage.text().count("learned: you live in Paris") == 1

    async def second(stage):
        await stage.say("hello")
        assert "learned: you live" not in stage.text()

    perform(first, scripted_model)
    perform(second, scripted_model)


def test_what_is_learned_while_nothing_is_typed_appears_by_itself(perform, scripted_model, memory):
    async def play(stage):
        await stage.ready()
        own = stage.app.chat_state.memory
        remember(own, "steve")
        await stage.shows("learned: you live in Paris (before: Köln)")

    perform(play, scripted_model)


def test_all_of_it_is_listed_and_decided_with_keys(perform, scripted_model, memory):
    remember(memory, "steve")
    propose(memory, "steve")

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f7")
        await stage.shows("1 proposal to decide on")
        assert "you live in Berlin (you set: Texas)" in stage.options("#learned")[0]
        assert "I live in Berlin." in stage.options("#learned")[0]
        await stage.pilot.press("a")
        await stage.shows("Learned from your words")
        await stage.shows("accepted: you live in Berlin")
        assert memory.get_fact("location") == "Berlin"
        await stage.pilot.press("u")
        await stage.shows("undone: you live in Texas, as before")
        await stage.pilot.press("enter")
        await stage.shows("“I live in Berlin.”")
        await stage.pilot.press("escape")
        await stage.pilot.press("r")
        await stage.shows("there is nothing to reject here")
        await stage.pilot.press("escape")
        await stage.until(lambda: len(stage.app.screen_stack) == 1, "the conversation")

    perform(play, scripted_model)

    assert memory.get_fact("location") == "Texas"


def test_a_proposal_is_accepted_at_the_prompt(perform, scripted_model, memory):
    propose(memory, "steve")

    async def play(stage):
        await stage.shows("you said that you live in Berlin, but you set Texas yourself")
        await stage.say("/accept")
        await stage.shows("accepted: you live in Berlin")
        await stage.say("/learned")
        await stage.shows('"I live in Berlin."')

    perform(play, scripted_model)

    assert memory.get_fact("location") == "Berlin"


def test_without_memory_there_is_nothing_to_list(perform, scripted_model):
    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f7")
        await stage.shows("this conversation has no memory")

    perform(play, scripted_model, memory=False)


def test_what_was_changed_since_is_marked_in_the_list(perform, scripted_model, memory):
    remember(memory, "steve")
    memory.set_fact("location", "Rome", "steve")

    async def play(stage):
        await stage.ready()
        await stage.pilot.press("f7")
        await stage.shows("Learned from your words")
        await stage.until(lambda: stage.options("#learned"), "the list")
        [changed] = [one for one in stage.options("#learned") if "you live in Paris" in one]
        assert changed.endswith("changed since")

    perform(play, scripted_model)
