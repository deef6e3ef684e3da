"""A fact that was cleared by mistake is restored as it was, with the memories that lost its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.errors import UsageError
from shepherd.memory import Memory
from tests.memory.blind import known_key
from tests.memory.test_forgotten_sentences import WALNUTS, archive, learn_allergy, remembered
from tests.memory.test_learned import START, Teller
from tests.postgres import Server

REST = "The meeting with Tove was moved to Friday."


@pytest.fixture
def teller(database: str) -> Iterator[Teller]:
    teller = Teller(database)
    with teller.memory:
        yield teller


def state(memory: Memory) -> tuple[object, ...]:
    """All that may differ after a fact was cleared and restored."""
    return (
        memory.get_all_facts(),
        memory.fact_history(),
        memory.fact_periods(corrected=True),
        memory.list_memories(),
        memory.learned(),
        memory.search("walnuts"),
    )


@pytest.mark.parametrize("said", [WALNUTS, f"{WALNUTS} {REST}"])
def test_a_cleared_fact_is_restored_as_it_was(teller: Teller, said: str) -> None:
    learn_allergy(teller, said)
    teller.now += 86_400
    before = state(teller.memory)

    assert teller.memory.clear_fact("allergy")
    cleared = state(teller.memory)
    restored = teller.memory.restore_fact("Allergy")

    assert cleared != before
    assert (restored and restored.value, state(teller.memory)) == ("walnuts", before)
    assert teller.memory.check().ok
    assert teller.memory.restore_fact("allergy") is None


def test_a_blind_memory_restores_a_cleared_fact(postgres_server: Server, tmp_path: Path) -> None:
    url = postgres_server.url(postgres_server.new_schema())
    with known_key(tmp_path), Memory(url, user_id="steve", blind=True, clock=lambda: START) as memory:
        teller = Teller("", memory)
        learn_allergy(teller, f"{WALNUTS} {REST}")
        before = state(memory)

        assert memory.clear_fact("allergy")
        assert remembered(teller) == [(REST, "")]
        assert memory.restore_fact("allergy") is not None

        assert state(memory) == before


def test_a_fact_that_was_set_again_keeps_its_new_value(teller: Teller) -> None:
    learn_allergy(teller)
    teller.memory.clear_fact("allergy")
    teller.memory.set_fact("allergy", "nuts")

    with pytest.raises(UsageError, match="set again"):
        teller.memory.restore_fact("allergy")

    assert teller.facts() == {"allergy": "nuts"}
    assert remembered(teller) == []


def test_a_memory_that_was_changed_since_stays_as_it_is(teller: Teller) -> None:
    learn_allergy(teller, f"{WALNUTS} {REST}")
    [record] = teller.memory.list_memories()
    teller.memory.clear_fact("allergy")
    teller.memory.edit_memory(record.id, question="The meeting with Tove is on Monday.")

    assert teller.memory.restore_fact("allergy") is not None
    assert remembered(teller) == [("The meeting with Tove is on Monday.", "")]


def test_a_memory_that_was_said_again_is_not_doubled(teller: Teller) -> None:
    learn_allergy(teller)
    teller.memory.clear_fact("allergy")
    archive(teller, WALNUTS, "Walnuts, noted.")

    assert teller.memory.restore_fact("allergy") is not None
    assert remembered(teller) == [(WALNUTS, "Walnuts, noted.")]


def test_a_fact_that_another_process_cleared_again_is_not_restored(teller: Teller, database: str) -> None:
    learn_allergy(teller)
    teller.memory.clear_fact("allergy")
    with Memory(database, user_id="steve") as other:
        other.set_fact("allergy", "nuts")
        other.clear_fact("allergy")

    assert teller.memory.restore_fact("allergy") is None
    assert teller.facts() == {}


@pytest.mark.parametrize("other", ["history", "user", "anna"])
def test_what_is_forgotten_for_good_is_not_restored(teller: Teller, other: str) -> None:
    learn_allergy(teller)
    teller.memory.clear_fact("allergy")

    if other == "history":
        teller.memory.clear_fact("allergy", with_history=True)
    elif other == "user":
        teller.memory.delete_user()

    assert teller.memory.restore_fact("allergy", "anna" if other == "anna" else None) is None
    assert (teller.facts(), remembered(teller)) == ({}, [])
