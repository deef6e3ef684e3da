"""Whom a conversation is about: heard in every turn, told in the tail, kept and taken back with it."""

from __future__ import annotations

import pytest

from shepherd.trace import Traces


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
