"""Fifty turns while everything changes: the prefix stays, and what is new is all that is read."""

from __future__ import annotations

import pytest

from shepherd.assistant import Warned
from shepherd.inference import Engine, EngineSettings
from shepherd.turn.components import ModelAccess


@pytest.fixture(scope="module")
def wide_engine(scripted_model):
    """A window in which fifty turns have room."""
    with Engine(scripted_model, settings=EngineSettings(n_ctx=32768, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def assistant(new_assistant, wide_engine, memory):
    from shepherd.knowledge import Knowledge

    knowledge = Knowledge(memory.transactions, "steve")
    sheep = knowledge.add_node("Sheep", source_text="Sheep eat grass on the northern hills.")
    hills = knowledge.add_node("Hills")
    knowledge.connect(sheep.id, hills.id, "sheep live on hills")
    return new_assistant(
        engine=wide_engine,
        injection_retention="keep",
        auto_context_enabled=True,
        knowledge_tools=False,
        answer_style="friendly",
        answer_instructions="Mention the weather.",
    )


def change_something(number, memory, knowledge):
    """A fact, a node with a text, an edge, a title, the focus: something else in each turn."""
    if number % 5 == 0:
        memory.set_fact("mood", f"mood {number}")
    elif number % 5 == 1:
        knowledge.add_node(f"Meadow {number}", source_text=f"Meadow {number} has flowers and bees.")
    elif number % 5 == 2:
        nodes = knowledge.list_nodes(limit=2)
        knowledge.connect(nodes[0].id, nodes[1].id, "one lies beside the other")
    elif number % 5 == 3:
        knowledge.focus([node.id for node in knowledge.list_nodes(limit=1 + number % 3)])
    else:
        knowledge.update_node(1, title=f"Sheep, seen {number} times")


def test_fifty_turns_read_each_token_once_while_facts_nodes_edges_and_focus_change(assistant, memory):
    knowledge = assistant.knowledge
    first = assistant.system_prompt.text
    held, shown = 0, set()

    for number in range(50):
        change_something(number, memory, knowledge)
        *events, finished = assistant.ask(f"Which meadow with flowers have sheep seen on day {number}?")
        stats = finished.stats
        assert not stats.evicted_turns
        assert assistant.system_prompt.text == first
        # Each token once, but for the one that ended the answer, which the template writes again.
        assert stats.decoded_tokens <= stats.prompt_tokens - held
        held = stats.prompt_tokens + stats.generated_tokens - 1
        shown |= {share.category for share in finished.plan.shares if share.used}
        assert not [event for event in events if isinstance(event, Warned)]

    assert {"system", "history", "memory", "knowledge", "focus", "query"} <= shown
    assert "=== BACKGROUND CONTEXT ===" in first
    assert "Mention the weather." in first


def test_a_refresh_takes_the_snapshot_anew(assistant, memory):
    first = assistant.system_prompt.text
    assistant.knowledge.update_node(1, title="Rams")
    *_, finished = assistant.ask("hello there")
    assert assistant.system_prompt.text == first
    assert 'Background context has changed: [NODE:1:"Rams"]' in finished.injection.tail
    *_, finished = assistant.ask("hello again")
    assert "Background context has changed" not in finished.injection.tail  # it was told

    assistant.refresh_context()

    assert '[NODE:1:"Rams"]' in assistant.system_prompt.text
    *_, finished = assistant.ask("hello once more")
    assert "Background context has changed" not in finished.injection.tail


def test_a_passage_that_stands_before_the_model_is_not_shown_again(assistant):
    *_, first = assistant.ask("Where do sheep eat grass?")
    *_, second = assistant.ask("And sheep, where do they eat grass?")

    assert len(first.plan.of("knowledge")) == 1
    assert second.plan.of("knowledge") == ()
    assert [left.reason for left in second.plan.left_out] == ["shown before"]


def test_the_tail_has_memory_first_then_knowledge_then_focus(assistant, memory):
    memory.set_fact("name", "Steve")
    assistant.knowledge.focus([2])

    *_, finished = assistant.ask("Where do sheep eat grass?")

    message = assistant.history[0]
    facts, rest = message.sent.removeprefix(message.raw).split("\n\n=== KNOWLEDGE ===\n\n")
    assert facts == "\n\n[facts: name=Steve]"
    passage, focus = rest.split("\n\n=== FOCUSED NODES ===\n\n")
    assert passage == "Source: Sheep\n```\nSheep eat grass on the northern hills.\n```"
    assert focus.startswith('### Primary: [NODE:2:"Hills"]')
    assert message.raw == "Where do sheep eat grass?"
    assert finished.plan.budget["knowledge"] > 0


def test_a_private_turn_reads_no_knowledge(assistant):
    assistant.private = True

    *_, finished = assistant.ask("Where do sheep eat grass?")

    assert finished.injection.tail == ""
    assert finished.plan.budget["knowledge"] == 0


def test_a_provider_without_memory_is_shown_no_knowledge(assistant, wide_engine):
    assistant.switch(ModelAccess(wide_engine, assistant.memory, forgetful=True))

    *_, finished = assistant.ask("Where do sheep eat grass?")

    assert finished.injection.tail == ""
    assert "BACKGROUND" not in assistant.system_prompt.text
    assert assistant.knowledge is None


def test_the_budget_of_the_plan_is_what_the_engine_reads(assistant, memory):
    memory.set_fact("name", "Steve")
    assistant.ask("Where do sheep eat grass?")
    for number in range(3):
        *_, finished = assistant.ask(f"Where do sheep eat grass on day {number}?")

    planned, read = finished.plan.total_tokens, finished.stats.prompt_tokens
    assert abs(planned - read) <= 0.05 * read + 16


def test_knowledge_that_cannot_be_read_costs_its_block_and_not_the_turn(new_assistant, tmp_path):
    from shepherd.memory import Memory

    memory = Memory(tmp_path / "other.db", user_id="steve")
    assistant = new_assistant(memory=memory, auto_context_enabled=True)
    memory.close()

    *events, finished = assistant.ask("Where do sheep eat grass?")

    assert finished.answer
    told = [event.message for event in events if isinstance(event, Warned)]
    assert any(text.startswith("knowledge failed") for text in told)
