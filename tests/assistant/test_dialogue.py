"""Whom a conversation is about: heard in every turn, told in the tail, kept and taken back with it."""

from __future__ import annotations

from contextlib import closing

import pytest

from shepherd.assistant import Assistant
from shepherd.canary import WordSearch
from shepherd.entities import EntityReader
from shepherd.entities.lexicon import FEMALE_NAMES, PLACES
from shepherd.inference import Engine, EngineSettings
from shepherd.inference.models import resolve
from shepherd.trace import Traces
from shepherd.turn.components import ModelAccess
from tests import models
from tests.inference.engines import exact_settings


@pytest.fixture
def assistant(new_assistant):
    return new_assistant(context_entities=True, archive_turns=False)


def ask(assistant, text):
    *_, finished = assistant.ask(text)
    return finished


def names(finished):
    return [part.about["title"] for part in finished.plan.of("entities")]


def test_who_is_spoken_of_is_told_with_what_is_known(assistant):
    ask(assistant, "My sister Anna works at Acme.")

    finished = ask(assistant, "Where does she work?")

    assert "Anna" in names(finished)
    tail = assistant.history[2].sent.removeprefix(assistant.history[2].raw)
    assert tail.startswith("\n\n=== ENTITIES ===\n• Anna (Person)")
    assert "works at Acme" in tail
    assert finished.plan.budget["entities"] > 0


def test_without_settings_a_model_is_told_of_entities_unless_it_came_with_shepherd(engine, memory):
    other = Assistant(engine, memory, user_id="steve")
    ask(other, "My sister Anna works at Acme.")
    assert "Anna" in names(ask(other, "Where does she work?"))

    with Engine(resolve(""), settings=EngineSettings(n_threads=1)) as own:
        other.switch(ModelAccess(own, memory))
        assert not other.snapshot.blocks
        assert names(ask(other, "Where does Anna work?")) == []

        other.switch(ModelAccess(engine, memory))
        assert other.snapshot.blocks
        assert "Anna" in names(ask(other, "Where does Anna work?"))
        assert other.config.context_entities == "auto"


def test_somebody_who_was_only_mentioned_by_a_role_is_not_told(assistant):
    assert names(ask(assistant, "Which editor do I like?")) == []
    assert names(ask(assistant, "And which one does my editor like?")) == []


def test_an_abandoned_turn_was_never_heard(assistant):
    events = assistant.ask("My sister Anna works at Acme.")
    next(events)
    events.close()

    assert names(ask(assistant, "Where does she work?")) == []


def test_undo_takes_back_whom_the_turn_was_about(assistant):
    ask(assistant, "My sister Anna works at Acme.")
    assistant.undo()

    assert names(ask(assistant, "Where does she work?")) == []


@pytest.mark.parametrize("asks_before", [False, True])
def test_undo_after_continuing_takes_back_whom_the_turn_was_about(
    assistant, new_assistant, memory, asks_before
):
    ask(assistant, "My brother Peter works at Initech.")
    ask(assistant, "My sister Anna works at Acme.")
    other = new_assistant(context_entities=True, archive_turns=False)
    other.resume()
    if asks_before:
        ask(other, "Where does Zoe live?")
        other.undo()

    other.undo()

    third = new_assistant(context_entities=True, archive_turns=False)
    third.resume()
    for one in (other, third):
        assert names(ask(one, "Where does Anna work, and where does Peter?")) == ["Peter"]
        one.undo()
    assert Traces(memory.transactions, "steve").last_turn(other.session_id) == 0
    assert other.undo() == "My brother Peter works at Initech."
    assert Traces(memory.transactions, "steve").last_turn(other.session_id) is None


def test_whom_the_rest_of_an_edited_conversation_is_about_is_read_again(assistant, new_assistant, memory):
    ask(assistant, "My brother Peter works at Initech.")
    ask(assistant, "My sister Anna works at Acme.")
    memory.delete_messages(assistant.session_id, 3)
    other = new_assistant(context_entities=True, archive_turns=False)

    other.resume()

    assert names(ask(other, "Where does Anna work, and where does Peter?")) == ["Peter"]


@pytest.mark.parametrize("forgetful", [False, True])
def test_undo_after_a_switch_takes_back_whom_the_turn_was_about(assistant, engine, memory, forgetful):
    ask(assistant, "My brother Peter works at Initech.")
    ask(assistant, "My sister Anna works at Acme.")
    assistant.switch(ModelAccess(engine, memory, forgetful=forgetful))

    assistant.undo()

    assert Traces(memory.transactions, "steve").last_turn(assistant.session_id) == 0
    assistant.switch(ModelAccess(engine, memory))
    assert names(ask(assistant, "Where does Anna work, and where does Peter?")) == ["Peter"]


def test_names_of_a_turn_that_is_undone_after_continuing_are_in_no_file(assistant, new_assistant, tmp_path):
    word = "Quixlemont"
    ask(assistant, "Tell me something.")
    ask(assistant, f"My friend {word} lives in {word}ville.")
    other = new_assistant(context_entities=True, archive_turns=False)
    other.resume()

    other.undo()

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if WordSearch(word).in_file(path)] == []


def test_undo_of_a_conversation_without_entities_adds_none(new_assistant, memory):
    ask(new_assistant(), "My brother Peter works at Initech.")
    other = new_assistant(context_entities=True, archive_turns=False)
    other.resume()
    ask(other, "My sister Anna works at Acme.")
    third = new_assistant()
    third.resume()

    third.undo()
    third.undo()

    found = memory.transactions.read(
        lambda connection: connection.execute("SELECT id FROM session_entities WHERE id > 0")
    )
    assert found == []


def test_a_new_conversation_is_about_nobody_and_a_continued_one_about_the_same(assistant, new_assistant):
    ask(assistant, "My sister Anna works at Acme.")
    other = new_assistant(context_entities=True, archive_turns=False)
    other.resume()

    assert "Anna" in names(ask(other, "Where does she work?"))
    assistant.clear()
    assert names(ask(assistant, "Where does she work?")) == []


def test_a_private_turn_is_not_heard(assistant):
    assistant.private = True
    ask(assistant, "My sister Anna works at Acme.")
    assistant.private = False

    assert names(ask(assistant, "Where does she work?")) == []


def test_each_turn_is_traced_for_its_user_alone(assistant, memory):
    memory.set_fact("name", "Steve")
    finished = ask(assistant, "My sister Anna works at Acme.")
    root = f"/context/{assistant.session_id}/000000"

    traces = Traces(memory.transactions, "steve")
    assert traces.get(f"{root}/budget/total") == assistant.engine.window_tokens
    assert traces.get(f"{root}/assembled/total_tokens") == finished.plan.total_tokens
    assert traces.get(f"{root}/tail/facts/name") == "Steve"
    assert traces.get(f"{root}/assembled/full_prompt") is None
    assert Traces(memory.transactions, "mallory").below(root) == []


def test_trace_counts_the_turns_that_were_shown_verbatim(assistant, memory):
    for n in range(3):
        ask(assistant, f"This is turn {n}.")

    traces = Traces(memory.transactions, "steve")
    found = traces.matching(f"/context/{assistant.session_id}/*/history/verbatim_count")
    assert [count for _, count in found] == [0, 1, 2]
    turns = traces.below(f"/context/{assistant.session_id}/000002/history/turns")
    assert [value for path, value in turns if path.endswith("/speaker")] == ["user", "assistant"] * 2


def test_undo_takes_the_trace_back_and_private_turns_have_none(assistant, memory):
    ask(assistant, "one")
    ask(assistant, "two")
    assistant.undo()
    assistant.private = True
    ask(assistant, "three")

    traces = Traces(memory.transactions, "steve")
    assert traces.last_turn(assistant.session_id) == 0


def test_one_prompt_of_a_conversation_changes_nothing(assistant, memory):
    memory.set_fact("name", "Steve")
    ask(assistant, "My sister Anna works at Acme.")
    before = assistant.history

    made = assistant.inject_context("Where does Anna work?", max_tokens=2000)

    assert made.text.endswith("[USER]\nWhere does Anna work?")
    assert "[facts: name=Steve]" in made.text
    assert "User: My sister Anna works at Acme." in made.text
    assert "• Anna (Person)" in made.text
    assert assistant.history == before
    assert assistant.inject_context("Where does Anna work?", max_tokens=2000).text == made.text


GERMAN = "Meine Schwester Anna arbeitet bei Initech in Wien."
FOUND = (
    '{"entities": [{"name": "Anna", "type": "person", "attributes": {"location": "Wien"},'
    ' "relations": [{"relation": "sister of", "target": "user"}]}]}'
)


@pytest.fixture
def reader(tmp_path):
    """Reads with a model that says FOUND to everything."""
    path = tmp_path / "finder.gguf"
    models.scripted(path, [FOUND[i : i + 37] for i in range(0, len(FOUND), 37)])
    with closing(EntityReader(lambda: Engine(path, settings=exact_settings(n_ctx=2048)))) as reader:
        yield reader


def test_what_a_model_reads_in_a_message_is_known_by_the_next_one(new_assistant, reader):
    assistant = new_assistant(context_entities=True, archive_turns=False, reader=reader)
    ask(assistant, GERMAN)
    assert reader.wait(60)

    ask(assistant, "Wer ist Anna?")

    tail = assistant.history[2].sent
    assert "• Anna (Person)\n  location: Wien\n  Related: sister of the user" in tail


def test_what_a_model_read_in_a_turn_that_is_taken_back_is_not_learned(new_assistant, reader):
    assistant = new_assistant(context_entities=True, archive_turns=False, reader=reader)
    ask(assistant, GERMAN)
    assistant.undo()
    assert reader.wait(60)

    assert names(ask(assistant, "Wer ist Anna?")) == []


def test_more_than_ten_people_are_shown_and_places_without_anything_to_tell_are_not(assistant):
    people = [name.capitalize() for name in sorted(FEMALE_NAMES)[:14]]
    cities = [name.capitalize() for name in sorted(PLACES)[20:34]]
    for name, city in zip(people, cities, strict=True):
        ask(assistant, f"My friend {name} lives in {city}.")

    finished = ask(assistant, "Tell me about all my friends")

    assert set(names(finished)) == set(people)
