"""Archived turns hold no secret, whoever said it."""

from __future__ import annotations

import pytest

from shepherd.memory import Memory, Turn


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("my password for the bank is Tr0ub4dor&3", "Noted."),
        ("The PIN of my phone is 2580.", "All right."),
        ("Which key did I use?", "You used AKIAIOSFODNN7EXAMPLE for that."),
    ],
)
def test_turn_with_a_secret_is_no_memory(tmp_path, question, answer):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        assert memory.archive_turn(Turn(question, answer, 1_800_000_000, "")) is None
        assert memory.count_memories() == 0


def test_turn_about_passwords_is_a_memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        assert memory.archive_turn(Turn("I changed my password today", "Good idea.", 1_800_000_000, ""))
