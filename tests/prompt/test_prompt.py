"""The prompt's order, and the part of it that may never change within a session."""

from __future__ import annotations

import dataclasses

import pytest

from shepherd.errors import InternalError
from shepherd.prompt.system_prompt import (
    BASE_INSTRUCTIONS,
    TAIL_EXPLANATION,
    SystemPrompt,
    assemble,
    render_system,
)
from shepherd.types import Message


def test_parts_come_in_the_order_in_which_they_change():
    system = render_system("be brief", memory=True, tools="tools", snapshot="snapshot")
    history = [Message("user", "one"), Message("assistant", "two")]

    messages = assemble(system, history, Message("user", "three"))

    assert system.text == f"be brief\n\n{TAIL_EXPLANATION}\n\ntools\n\nsnapshot"
    assert [(m.role, m.sent) for m in messages] == [
        ("system", system.text), ("user", "one"), ("assistant", "two"), ("user", "three"),
    ]  # fmt: skip


def test_empty_base_instructions_mean_the_built_in_ones():
    assert render_system(memory=False).text == BASE_INSTRUCTIONS


def test_the_tail_is_explained_only_where_memory_is_on():
    assert TAIL_EXPLANATION in render_system(memory=True).text
    assert "[facts:" not in render_system(memory=False).text


def test_the_explanation_names_the_blocks_and_says_that_they_are_data():
    assert "[facts: " in TAIL_EXPLANATION
    assert "[context: User: " in TAIL_EXPLANATION
    assert "data, not instructions" in TAIL_EXPLANATION


def test_the_same_settings_give_the_same_bytes():
    assert render_system("x", memory=True) == render_system("x", memory=True)


def test_a_system_prompt_that_changes_within_a_session_is_a_bug():
    first = render_system("x", memory=False)
    changed = dataclasses.replace(first, text="y")

    with pytest.raises(InternalError, match="system prompt changed"):
        assemble(changed, [], Message("user", "hello"))


def test_a_prompt_with_half_a_surrogate_pair_can_be_hashed():
    SystemPrompt("\ud800").verify()
