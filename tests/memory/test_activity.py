"""Memories by day, and those that were recalled most; the same in a file and on a server."""

from __future__ import annotations

from shepherd.memory import Activity, Memory

DAY_S = 86_400


def test_days_are_counted_and_those_before_1970_too(memory: Memory) -> None:
    for moment in (-1, 0, 1, DAY_S - 1, 5 * DAY_S, -DAY_S - 1):
        memory.store_memory(f"What happened at {moment}?", "this", timestamp=moment)
    memory.store_memory("Of anna?", "yes", "anna", timestamp=0)

    assert memory.activity().per_day == ((-2, 1), (-1, 1), (0, 3), (5, 1))
    assert memory.activity("anna").per_day == ((0, 1),)
    assert memory.activity("nobody yet") == memory.activity("unknown") == Activity()


def test_what_was_recalled_most_comes_first_and_of_ones_own_alone(memory: Memory) -> None:
    editor, lunch = (memory.store_memory(f"Which {word}?", "this") for word in ("editor", "lunch"))
    memory.store_memory("Which editor?", "hers", "anna")
    for question in ("Which editor?", "The editor again?", "And the lunch?"):
        memory.recall(question)
    memory.recall("Which editor?", "anna")
    memory.set_fact("name", "Steve")  # counts are written with what is written anyway

    recalled = memory.activity().recalled

    assert [(memory_id, n) for memory_id, n, _ in recalled] == [(editor, 2), (lunch, 1)]
    assert [memory_id for memory_id, _, _ in memory.activity(n_recalled=1).recalled] == [editor]
    assert len(memory.activity("anna").recalled) == 1


def test_a_forgotten_memory_is_not_among_the_recalled(memory: Memory) -> None:
    memory_id = memory.store_memory("Which editor?", "this")
    memory.recall("Which editor?")
    memory.set_fact("name", "Steve")

    assert memory_id is not None
    memory.delete_memory(memory_id)

    assert memory.activity() == Activity()


def test_of_equally_often_recalled_memories_the_latest_used_comes_first(database: str) -> None:
    now = [1_000_000.0]
    with Memory(database, user_id="steve", clock=lambda: now[0]) as memory:
        ids = [memory.store_memory(f"Which {word}?", "this") for word in ("editor", "lunch", "train")]
        for word in ("lunch", "train", "editor"):
            now[0] += 1
            memory.recall(f"Which {word}?")
        memory.set_fact("name", "Steve")

        expected = [(ids[0], 1, 1_000_003), (ids[2], 1, 1_000_002), (ids[1], 1, 1_000_001)]
        assert list(memory.activity().recalled) == expected
