"""What audit points at, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd._native.store import Connection
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.audit import NEVER_RECALLED_S, NearDuplicates
from shepherd.memory.audit_of_knowledge import PART
from tests.postgres import IN_A_FILE

NOW = 1_700_000_000


def found(memory: Memory) -> list[tuple[str, tuple[int, ...], str]]:
    return [(finding.kind, finding.ids, finding.detail) for finding in memory.audit()]


def stored(memory: Memory, question: str, answer: str, timestamp: float = NOW, user_id: str = "steve") -> int:
    memory_id = memory.store_memory(question, answer, user_id, timestamp=timestamp)
    assert memory_id is not None
    return memory_id


# ---- near-duplicates


def test_nearly_the_same_words_are_near_duplicates(memory: Memory) -> None:
    first = stored(memory, "What does Anna like?", "climbing granite walls near Innsbruck in autumn mornings")
    second = stored(
        memory, "Anna likes what?", "Climbing granite walls near Innsbruck, autumn mornings, coffee"
    )
    stored(memory, "What does Bob like?", "watching football in Bremen")

    assert found(memory) == [("near-duplicate", (first, second), "")]


def alike_by_hand(sets: Iterable[frozenset[str]]) -> list[tuple[int, ...]]:
    """The twin: every pair compared."""
    listed = list(enumerate(sets))
    groups = [{number} for number, words in listed if words]
    for (a, x), (b, y) in combinations([(n, words) for n, words in listed if words], 2):
        if 5 * len(x & y) >= 4 * len(x | y):
            one = next(group for group in groups if a in group)
            other = next(group for group in groups if b in group)
            if one is not other:
                one |= other
                groups.remove(other)
    return sorted(tuple(sorted(group)) for group in groups if len(group) > 1)


@given(st.lists(st.frozensets(st.sampled_from("abcdefghijkl"), max_size=12), max_size=25))
def test_groups_are_those_of_comparing_every_pair(sets: list[frozenset[str]]) -> None:
    near = NearDuplicates()
    for number, words in enumerate(sets):
        near.add(number, words)

    assert near.groups() == alike_by_hand(sets)


# ---- echoes


def test_answer_with_the_words_of_the_question_is_an_echo(memory: Memory) -> None:
    echo = stored(memory, "I like jazz from New Orleans.", "You like New Orleans jazz!")
    stored(memory, "Tea?", "Tea.  Green, please.")
    stored(memory, "What is it, tea?", "It is tea.")

    assert [finding[:2] for finding in found(memory)] == [("echo", (echo,))]


# ---- empty ones


def test_memory_is_empty_only_without_a_word_that_a_search_finds(memory: Memory) -> None:
    statement = stored(memory, "I paint in watercolours.", "")
    stored(memory, "", "Plays the cello")
    empty = stored(memory, "???", "…")

    assert [result.id for result in memory.search("watercolours", user_id="steve")] == [statement]
    assert [finding[:2] for finding in found(memory)] == [("empty", (empty,))]


# ---- secrets


def test_secrets_are_found_in_memories_and_facts(memory: Memory) -> None:
    memory.transactions.keeps_secrets = True  # as an earlier version stored them
    wifi = stored(
        memory, "What is the wifi password?", "The password is Fritz7390, my card 4012 8888 8888 1881."
    )
    stored(memory, "Is the password policy strict?", "Yes, the password is required to be long.")
    memory.set_fact("router_password", "swordfish")
    memory.set_fact("name", "Steve")

    assert found(memory) == [
        ("secret", (), "password in the fact 'router_password'"),
        ("secret", (wifi,), "card-number, password"),
    ]


def test_secrets_are_found_in_values_that_a_fact_had_until_those_go(memory: Memory) -> None:
    memory.transactions.keeps_secrets = True  # as an earlier version stored them
    memory.set_fact("router_password", "swordfish")
    memory.set_fact("router_password", "marlin99")
    memory.set_fact("wifi_password", "swordfish")
    memory.clear_fact("wifi_password")

    before = found(memory)
    memory.clear_fact("router_password", with_history=True)
    memory.clear_fact("wifi_password", with_history=True)

    assert before == [
        ("secret", (), "password in the fact 'router_password'"),
        ("secret", (), "password in the history of the fact 'wifi_password'"),
    ]
    assert found(memory) == []


def test_secrets_are_found_in_knowledge_wherever_they_stand_in_it(memory: Memory) -> None:
    memory.transactions.keeps_secrets = True  # as an earlier version stored them
    knowledge = Knowledge(memory.transactions, "steve")
    other = Knowledge(memory.transactions, "anna")
    other.add_node("Hers", source_text="The door code is 4471.")
    filler = "Nothing of this is worth a word. "
    # In the second part of a text that is read in parts, and where the parts meet.
    end = filler * (PART // len(filler) + 400) + "password: Fritz7390"
    middle = filler * (PART // len(filler) + 1) + "password: Fritz7390 "
    at_the_seam = middle[len(middle) - PART - 12 :] + filler
    texts = ("The course code is CS101.", end, at_the_seam)
    nodes = [knowledge.add_node(f"Text {n}", source_text=text) for n, text in enumerate(texts)]
    noted = knowledge.add_node("The PIN is 4711", notes="card 4012 8888 8888 1881", metadata={"pin": 4711})
    edge = knowledge.connect(nodes[0].id, noted.id, "the gate opens with 9051")
    knowledge.set_dimension("home", description="the wifi password is Fritz7390")

    assert found(memory) == sorted(
        [
            ("secret", (), f"password in node {nodes[1].id} of the knowledge, 'Text 1'"),
            ("secret", (), f"password in node {nodes[2].id} of the knowledge, 'Text 2'"),
            ("secret", (), f"card-number, password in node {noted.id} of the knowledge, 'The PIN is ••••'"),
            ("secret", (), f"password in edge {edge.id} of the knowledge"),
            ("secret", (), "password in the dimension 'home' of the knowledge"),
        ]
    )


# ---- never recalled


def count_since(path: Path, since: int) -> None:
    """As if counting had begun then."""
    with Connection(str(path)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'recalls_counted_since'", (since,))


def never_recalled(memory: Memory) -> tuple[int, ...]:
    return next((ids for kind, ids, _ in found(memory) if kind == "never-recalled"), ())


@IN_A_FILE
def test_old_memories_that_no_message_needed_are_told(memory: Memory, path: Path) -> None:
    old = NOW - NEVER_RECALLED_S - 10
    count_since(path, old)
    dog = stored(memory, "Which dog?", "Rex", old)
    cat = stored(memory, "Which cat?", "Tom", old)
    bird = stored(memory, "Which bird?", "Tweety", old)
    stored(memory, "Which fish?", "Nemo")
    stored(memory, "Which horse?", "Fury", old, "anna")
    memory.pin_memory(bird)
    assert never_recalled(memory) == (dog, cat)

    assert "Rex" in memory.recall("the dog").tail
    # What waits to be written counts, and is written at the end.
    assert never_recalled(memory) == (cat,)
    memory.close()

    with Memory(path, user_id="steve", clock=lambda: NOW) as again:
        assert never_recalled(again) == (cat,)
        # Looking is not using.
        again.search("cat")
        assert never_recalled(again) == (cat,)


@IN_A_FILE
def test_memory_that_was_not_recalled_for_ninety_days_is_unused(memory: Memory, path: Path) -> None:
    count_since(path, NOW - 100 * 86_400)
    older = stored(memory, "Which dog?", "Rex", NOW - 90 * 86_400 - 1)
    stored(memory, "Which cat?", "Tom", NOW - 90 * 86_400)

    assert never_recalled(memory) == (older,)


@IN_A_FILE
def test_nothing_is_called_unused_before_it_was_counted_for_long(memory: Memory, path: Path) -> None:
    stored(memory, "Which dog?", "Rex", NOW - 10 * NEVER_RECALLED_S)
    count_since(path, NOW - NEVER_RECALLED_S + 10)

    assert never_recalled(memory) == ()


@IN_A_FILE
def test_counts_go_along_with_the_next_write_and_add_up(memory: Memory, path: Path) -> None:
    dog = stored(memory, "Which dog?", "Rex")
    rows = "SELECT id, n, last FROM recalls"

    with Connection(str(path), read_only=True) as reader:
        memory.recall("dog")
        memory.recall("dog")
        assert reader.execute(rows) == []
        memory.set_fact("name", "Steve")
        assert reader.execute(rows) == [(dog, 2, NOW)]
        memory.recall("dog")
        stored(memory, "Which city?", "Oslo")
        assert reader.execute(rows) == [(dog, 3, NOW)]

        # A memory that is gone takes its count along, also one that still waits.
        memory.recall("dog")
        memory.delete_memory(dog)
        memory.set_fact("name", "Stefan")
        assert reader.execute(rows) == []


@IN_A_FILE
def test_recall_itself_writes_nothing(memory: Memory, path: Path) -> None:
    stored(memory, "Which dog?", "Rex")
    log = path.with_name("memory.db-wal")
    before = (path.stat().st_mtime_ns, log.stat().st_size)

    for _ in range(50):
        memory.recall("dog")

    assert (path.stat().st_mtime_ns, log.stat().st_size) == before


@IN_A_FILE
def test_recall_of_a_database_that_cannot_be_written_works_and_ends_well(memory: Memory, path: Path) -> None:
    stored(memory, "Which dog?", "Rex")

    with Memory(path, user_id="steve", read_only=True, clock=lambda: NOW) as reader:
        assert "Rex" in reader.recall("dog").tail


def test_what_a_message_used_is_not_unused(database: str) -> None:
    later = [float(NOW)]
    with Memory(database, user_id="steve", clock=lambda: later[0]) as memory:
        dog, cat = stored(memory, "Which dog?", "Rex"), stored(memory, "Which cat?", "Tom")
        memory.recall("dog")
        memory.set_fact("name", "Steve")
        memory.recall("dog")

    # A clock far ahead: counting began when the database was made, which was today.
    later[0] = 10_000_000_000.0
    with Memory(database, user_id="steve", clock=lambda: later[0]) as again:
        assert never_recalled(again) == (cat,)
        again.delete_memory(dog)
        assert never_recalled(again) == (cat,)


@pytest.mark.parametrize("source", ["mem0", "mcp", "chatgpt"])
def test_many_statements_about_one_thing_are_no_duplicates(memory: Memory, source: str) -> None:
    for answer in ("likes hiking in autumn", "was born in Oslo"):
        memory.store_memory("About me", answer, source=source)

    assert found(memory) == []
