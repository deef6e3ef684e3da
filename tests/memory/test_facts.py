"""Facts: newest value, old ones in the history, keys that are spelled differently."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.memory import FactChange, Memory
from shepherd.types import Fact


def test_fact_is_set_and_read(memory: Memory) -> None:
    memory.set_fact("name", "Steve")

    assert memory.get_fact("name") == "Steve"
    assert memory.get_fact("location") is None


def test_newer_value_replaces_the_older_one(database: str) -> None:
    now = [100.0]
    with Memory(database, clock=lambda: now[0]) as memory:
        memory.set_fact("location", "Texas")
        now[0] = 200
        memory.set_fact("location", "Lisbon", source="model")

        assert memory.get_all_facts() == [Fact("location", "Lisbon", 100, 200)]
        assert memory.fact_history("location") == [
            FactChange("location", "Texas", "user", 100),
            FactChange("location", "Lisbon", "model", 200),
        ]


def test_same_value_again_changes_nothing(database: str) -> None:
    now = [100.0]
    with Memory(database, clock=lambda: now[0]) as memory:
        memory.set_fact("name", "Steve")
        now[0] = 200
        memory.set_fact("name", "Steve")

        assert memory.get_all_facts() == [Fact("name", "Steve", 100, 100)]
        assert len(memory.fact_history()) == 1


@pytest.mark.parametrize(
    "asked", ["favorite_color", "favoriteColor", "FAVORITE-COLOR", "Favorite color", "favorite.color"]
)
def test_fact_is_found_whatever_the_spelling_of_its_key(memory: Memory, asked: str) -> None:
    memory.set_fact("favoriteColor", "blue")

    assert memory.get_fact(asked) == "blue"


def test_exact_key_comes_first(memory: Memory) -> None:
    memory.import_memories(
        [
            {"type": "fact", "key": "a_b", "value": "under", "updated_at": 10},
        ]
    )
    memory.set_fact("a-c", "other")

    assert memory.get_fact("a_b") == "under"
    assert memory.get_fact("a-c") == "other"


def test_setting_another_spelling_replaces_the_fact(memory: Memory) -> None:
    memory.set_fact("favoriteColor", "blue")
    memory.set_fact("favorite_color", "green")

    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("favoriteColor", "green")]
    assert len(memory.fact_history("favorite-color")) == 2


def test_keys_of_separators_are_not_one(memory: Memory) -> None:
    memory.set_fact("-", "minus")
    memory.set_fact("_", "under")

    assert (memory.get_fact("-"), memory.get_fact("_"), memory.get_fact(".")) == ("minus", "under", None)


def test_cleared_fact_is_gone_and_remembered_in_the_history(memory: Memory) -> None:
    memory.set_fact("favoriteColor", "blue")

    assert memory.clear_fact("favorite_color")

    assert memory.get_fact("favoriteColor") is None
    assert [change.value for change in memory.fact_history("favoriteColor")] == ["blue", None]
    assert not memory.clear_fact("favorite_color")


def test_facts_come_in_key_order(memory: Memory) -> None:
    for key in ["name", "Zip", "location", "äge", "age"]:
        memory.set_fact(key, "x")

    assert [fact.key for fact in memory.get_all_facts()] == ["Zip", "age", "location", "name", "äge"]


def test_facts_belong_to_their_user(memory: Memory) -> None:
    memory.set_fact("name", "Steve")
    memory.set_fact("name", "Anna", "anna")

    assert memory.get_fact("name") == "Steve"
    assert memory.get_fact("name", "anna") == "Anna"
    assert memory.clear_fact("name", "anna")
    assert memory.get_fact("name") == "Steve"
    assert memory.fact_history(user_id="nobody") == []


@pytest.mark.parametrize(("key", "value"), [("", "x"), (" ", "x"), ("name", ""), ("name", " \n")])
def test_fact_without_key_or_value_is_refused(memory: Memory, key: str, value: str) -> None:
    with pytest.raises(UsageError, match="key and a value"):
        memory.set_fact(key, value)


def test_undecodable_facts_are_stored_with_replacement_characters(memory: Memory) -> None:
    memory.set_fact("k\udcff", "v\udcff")

    assert memory.get_fact("k\udcff") == "v\ufffd"
