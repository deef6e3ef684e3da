"""max_db_size and knowledge, which is never removed: who holds less than it takes loses nothing for it."""

from __future__ import annotations

import random

import pytest

from shepherd.errors import StoreFullError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory, NewMemory

MIB = 1 << 20
WORDS = [f"word{n}" for n in range(3000)]
TEXTS = random.Random(5)


def text(n_words: int) -> str:
    return " ".join(TEXTS.choices(WORDS, k=n_words))


def remember(memory: Memory, user_id: str, n: int) -> None:
    """Stores n memories of about half a kilobyte."""
    for start in range(0, n, 10):
        new = [
            NewMemory(f"question {i} {text(30)}", text(40), 1_000_000 + i) for i in range(start, start + 10)
        ]
        memory._store.add_memories(user_id, new)


def add_until_refused(knowledge: Knowledge, n_words: int = 2000, most: int = 500) -> int:
    """Adds documents until there is no room; how many were stored."""
    for n in range(most):
        try:
            knowledge.add_node(f"document {n}", source_text=text(n_words))
        except StoreFullError:
            return n
    raise AssertionError("never refused")


def is_stored(knowledge: Knowledge, title: str, metadata: dict[str, str]) -> bool:
    try:
        knowledge.add_node(title, metadata=metadata)
    except StoreFullError:
        return False
    return True


def test_documents_of_one_user_cost_no_memories_of_another_who_holds_less(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Memory(database, max_db_size="1M") as memory:
        remember(memory, "bob", 200)
        alice = Knowledge(memory.transactions, "alice")

        n_stored = add_until_refused(alice)
        with pytest.raises(StoreFullError, match="max_db_size") as refused:
            alice.add_node("one more", source_text=text(2000))

        assert memory.count_memories("bob") == 200
        assert alice.count_nodes() == n_stored > 3
        assert 0.8 * MIB < memory.stats("bob").used_bytes <= MIB
        assert memory.check().problems == ()
        assert "max_db_size" in refused.value.hint
        assert caplog.text == ""


def test_memories_of_who_holds_more_make_room_for_knowledge(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        remember(memory, "bob", 1500)
        before = memory.count_memories("bob")
        alice = Knowledge(memory.transactions, "alice")

        for n in range(4):
            alice.add_node(f"short {n}", source_text=text(1500))

        assert alice.count_nodes() == 4
        assert 100 < memory.count_memories("bob") < before
        assert memory.stats("bob").used_bytes <= MIB
        assert memory.check().problems == ()


def test_own_memories_make_room_but_a_document_that_never_fits_costs_none(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        remember(memory, "alice", 1500)
        before = memory.count_memories("alice")
        alice = Knowledge(memory.transactions, "alice")

        with pytest.raises(StoreFullError):
            alice.add_node("huge", source_text=text(60_000))
        after_the_huge_one = memory.count_memories("alice")
        for n in range(4):
            alice.add_node(f"short {n}", source_text=text(1500))

        assert after_the_huge_one == before
        assert alice.count_nodes() == 4
        assert memory.count_memories("alice") < before


def test_values_that_no_word_finds_are_counted_too(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        remember(memory, "bob", 200)
        alice = Knowledge(memory.transactions, "alice")

        refused = [not is_stored(alice, f"item {n}", {"value": "x" * 50_000}) for n in range(40)]

        assert 3 < refused.index(True) < 20
        assert memory.count_memories("bob") == 200
        assert memory.stats("bob").used_bytes <= MIB


def test_full_of_knowledge_nodes_can_be_shortened_and_removed_and_there_is_room_again(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        alice = Knowledge(memory.transactions, "alice")
        add_until_refused(alice)
        [first, second, third] = alice.list_nodes(limit=3)

        assert alice.delete_node(first.id)
        assert alice.delete_node(second.id)
        assert alice.delete_node(third.id)
        alice.add_node("again", source_text=text(1000))

        assert memory.stats("alice").used_bytes <= MIB


def test_full_of_knowledge_its_user_still_speaks_and_others_keep_their_memories(database: str) -> None:
    with Memory(database, max_db_size="1M") as memory:
        remember(memory, "bob", 200)
        add_until_refused(Knowledge(memory.transactions, "alice"), n_words=500)

        remember(memory, "alice", 50)
        kept = memory.count_memories("bob")
        remember(memory, "bob", 50)

        # Alice's turn: her own memories gave. Bob's: the oldest of those who can give, which are his.
        assert kept == 200
        assert 100 < memory.count_memories("bob") <= 250
        assert memory.stats("bob").used_bytes <= MIB
