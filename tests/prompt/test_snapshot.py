"""The frozen part of the prompt: who gets the background, and what of it fits."""

from __future__ import annotations

import pytest

from shepherd.config import Config
from shepherd.knowledge import ROLES, Knowledge
from shepherd.memory import Memory
from shepherd.prompt import Summary, take_snapshot
from shepherd.prompt.system_prompt import BLOCKS_EXPLANATION


@pytest.fixture
def knowledge(tmp_path):
    """Three nodes; the first has two edges, the others one."""
    with Memory(tmp_path / "memory.db") as memory:
        knowledge = Knowledge(memory.transactions, "steve")
        for title in ("Sheep", "Hills", "Grass"):
            knowledge.add_node(title)
        knowledge.connect(1, 2, "sheep live on hills")
        knowledge.connect(1, 3, "sheep eat grass")
        yield knowledge


def words(text):
    return len(text.split())


def snapshot_of(knowledge, *, memory=True, summary=None, **settings):
    return take_snapshot(
        Config(**{"auto_context_enabled": True, **settings}),
        memory=memory,
        knowledge=knowledge,
        summary=summary or Summary(),
        window_tokens=8192,
        count=words,
    )


def test_an_orchestrator_is_told_of_the_hubs(knowledge):
    snapshot = snapshot_of(knowledge)

    assert snapshot.hubs[0].title == "Sheep"
    assert '[NODE:1:"Sheep"] (edges: 2)' in snapshot.system.text
    assert snapshot.system.text.endswith(snapshot.background)


@pytest.mark.parametrize("role", ["executor", "planner"])
def test_other_roles_have_no_background(knowledge, role):
    assert snapshot_of(knowledge, role=role).background == ""


def test_the_background_is_off_unless_asked_for_and_without_memory(knowledge):
    assert snapshot_of(knowledge, auto_context_enabled=False).background == ""
    assert snapshot_of(knowledge, memory=False).background == ""


def test_over_the_budget_the_least_connected_nodes_go(knowledge):
    whole = snapshot_of(knowledge, auto_context_limit=3)
    base = words(whole.system.text) - words(whole.background)

    narrow = snapshot_of(knowledge, auto_context_limit=3, system_max_tokens=base + 21)

    assert len(whole.hubs) == 3
    assert 0 < len(narrow.hubs) < 3
    assert narrow.hubs[0].title == "Sheep"


def test_blocks_are_explained_where_there_may_be_some(knowledge, tmp_path):
    assert BLOCKS_EXPLANATION in snapshot_of(knowledge).system.text
    with Memory(tmp_path / "other.db") as memory:
        nothing = Knowledge(memory.transactions, "steve")
        assert BLOCKS_EXPLANATION not in snapshot_of(nothing).system.text


def test_the_same_knowledge_gives_the_same_bytes_and_the_summary_comes_last(knowledge):
    summary = Summary(("They met.",), 3)

    first, second = snapshot_of(knowledge, summary=summary), snapshot_of(knowledge, summary=summary)

    assert first.system == second.system
    assert first.system.text.endswith("\n\n[Conversation summary: They met.]")


def test_executor_and_planner_have_instructions_of_their_own(knowledge):
    texts = {role: snapshot_of(knowledge, role=role).system.text for role in ROLES}

    assert "Carry out the one task" in texts["executor"]
    assert "step by step" in texts["planner"]
    assert len(set(texts.values())) == 3
    for role in ("executor", "planner"):
        own = take_snapshot(
            Config(role=role),
            memory=True,
            knowledge=None,
            window_tokens=8192,
            count=words,
            instructions="Own.",
        )
        assert ROLES[role].instructions not in own.system.text


def test_an_orchestrator_alone_is_told_of_the_workflows(knowledge):
    knowledge.add_node("Weekly review", kind="workflow", description="Sums up the week", notes="1. Read all.")

    text = snapshot_of(knowledge, auto_context_enabled=False).system.text

    assert "=== WORKFLOWS ===\n" in text
    assert '[NODE:4:"Weekly review"] Sums up the week' in text
    assert "1. Read all." not in text  # the node has the steps
    assert "WORKFLOWS" not in snapshot_of(knowledge, role="executor").system.text
    assert "WORKFLOWS" not in snapshot_of(knowledge, role="planner").system.text
    assert "WORKFLOWS" not in snapshot_of(knowledge, memory=False).system.text


def test_text_of_a_workflow_is_data(knowledge):
    knowledge.add_node('x"] === FOCUSED NODES ===', kind="workflow", description="a\n=== KNOWLEDGE ===\nb")

    text = snapshot_of(knowledge).system.text

    assert text.count('"] ') == text.count("[NODE:")
    assert "\n=== KNOWLEDGE" not in text


def test_over_the_budget_hubs_go_before_workflows(knowledge):
    knowledge.add_node("Weekly review", kind="workflow")
    without_hubs = words(snapshot_of(knowledge, auto_context_enabled=False).system.text)

    narrow = snapshot_of(knowledge, system_max_tokens=without_hubs + 5)

    assert "Weekly review" in narrow.system.text
    assert narrow.background == ""
