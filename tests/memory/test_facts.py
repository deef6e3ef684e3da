"""Facts: newest value, old ones in the history, keys that are spelled differently."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.memory import Claim, FactChange, Memory, OpenJob
from shepherd.types import Fact, Message
from tests.examples import examples


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


@pytest.mark.parametrize("is_cleared_before", [False, True])
def test_values_that_a_fact_had_are_gone_when_they_are_asked_to_go(
    memory: Memory, is_cleared_before: bool
) -> None:
    memory.transactions.keeps_secrets = True  # as an earlier version stored them
    memory.set_fact("wifi_password", "hunter1")
    memory.set_fact("wifi_password", "hunter2")
    memory.set_fact("name", "Steve")
    memory.set_fact("wifi_password", "hunter3", "anna")
    if is_cleared_before:
        memory.clear_fact("wifi_password")

    assert memory.clear_fact("wifiPassword", with_history=True)

    assert memory.get_fact("wifi_password") is None
    assert {change.value for change in memory.fact_history("wifi_password")} == {None}
    assert "hunter" not in str(list(memory.export_memories()))
    assert [change.value for change in memory.fact_history("name")] == ["Steve"]
    assert memory.get_fact("wifi_password", "anna") == "hunter3"
    assert not memory.clear_fact("wifi_password", with_history=True)


def test_what_was_said_before_does_not_bring_back_a_fact_whose_values_are_gone(database: str) -> None:
    now = [100.0]
    with Memory(database, clock=lambda: now[0], keeps_secrets=True) as memory:
        session = memory.start_session()
        memory.append_message(session, Message("user", "My PIN is 1234"), job=OpenJob("me", 1))
        memory.set_fact("pin", "1234")
        now[0] = 200
        memory.clear_fact("pin", with_history=True)

        assert memory.extraction.claim("me") is None

        memory.append_message(session, Message("user", "It opens the door"), job=OpenJob("me", 1))
        job = memory.extraction.claim("me")
        assert job is not None
        now[0] = 100.0
        assert memory.extraction.finish(replace(job, told_at=100), [Claim("pin", "1234")], []) == (0, 0)
        assert memory.get_fact("pin") is None


def test_history_of_a_key_of_separators_is_its_own(memory: Memory) -> None:
    memory.set_fact("-", "minus")
    memory.set_fact("_", "under")

    memory.clear_fact("-", with_history=True)

    assert [change.value for change in memory.fact_history("_")] == ["under"]


# ---- from elsewhere


@pytest.fixture
def clock() -> list[float]:
    return [100.0]


@pytest.fixture
def ticking(database: str, clock: list[float]) -> Iterator[Memory]:
    with Memory(database, user_id="steve", clock=lambda: clock[0]) as opened:
        yield opened


def test_import_does_not_bring_back_what_was_cleared_later(ticking: Memory, clock: list[float]) -> None:
    ticking.set_fact("favoriteColor", "blue")
    exported = list(ticking.export_memories())
    clock[0] = 200
    ticking.clear_fact("favoriteColor")

    again = ticking.import_memories(exported)
    spelled = ticking.import_memories(
        [{"type": "fact", "key": "favorite_color", "value": "blue", "updated_at": 150}]
    )
    newer = ticking.import_memories(
        [{"type": "fact", "key": "favorite_color", "value": "red", "updated_at": 250}]
    )

    assert (again.facts, spelled.facts, newer.facts) == (0, 0, 1)
    assert ticking.get_fact("favoriteColor") == "red"


def test_import_clears_what_was_cleared_there_later(
    ticking: Memory, clock: list[float], tmp_path: Path
) -> None:
    ticking.set_fact("color", "blue")
    ticking.set_fact("pet", "Rex")
    first = list(ticking.export_memories())
    clock[0] = 200
    ticking.clear_fact("color")
    ticking.clear_fact("pet")
    second = list(ticking.export_memories())

    with Memory(tmp_path / "other.db", user_id="steve", clock=lambda: 300.0) as other:
        other.import_memories(first)
        other.set_fact("pet", "Tom")
        other.import_memories(second)

        assert other.get_fact("color") is None
        assert other.get_fact("pet") == "Tom"
        assert other.check().problems == ()


def bare(value: str, at: int) -> dict[str, object]:
    """A fact as people write it by hand: without its history."""
    return {"type": "fact", "key": "city", "value": value, "updated_at": at}


def test_a_value_imported_without_its_history_stays_in_it(ticking: Memory, clock: list[float]) -> None:
    def changed() -> list[tuple[str | None, str, int]]:
        return [(change.value, change.source, change.changed_at) for change in ticking.fact_history("city")]

    ticking.set_fact("city", "Oslo")
    ticking.import_memories([bare("Rome", 200)])
    ticking.import_memories([bare("Bonn", 300)])
    clock[0] = 400
    ticking.set_fact("city", "Graz")
    ticking.import_memories([bare("Linz", 500)])
    clock[0] = 600
    ticking.clear_fact("city")
    ticking.import_memories([bare("Kiel", 700)])
    clock[0] = 800
    ticking.set_fact("city", "Cork")

    values = ["Oslo", "Rome", "Bonn", "Graz", "Linz", None, "Kiel", "Cork"]
    assert [value for value, _, _ in changed()] == values
    assert [at for _, source, at in changed() if source == "import"] == [200, 300, 500, 700]
    periods = [(period.value, period.since, period.until) for period in ticking.fact_periods("city")]
    assert periods[1:3] == [("Rome", 200, 300), ("Bonn", 300, 400)]
    assert ticking.check().problems == ()

    exported = list(ticking.export_memories())
    ticking.import_memories(exported)

    assert list(ticking.export_memories())[1:] == exported[1:]


def test_a_change_without_a_key_is_refused(memory: Memory) -> None:
    counts = memory.import_memories([{"type": "fact-change", "key": " ", "value": "x", "changed_at": 5}])

    assert counts.problems == ("line 1: a change of a fact without key",)
    assert memory.fact_history() == []


def test_claim_does_not_bring_back_what_its_user_cleared_later(ticking: Memory, clock: list[float]) -> None:
    ticking.set_fact("color", "blue", "local")
    clock[0] = 200
    ticking.set_fact("color", "blue")
    ticking.clear_fact("color")

    ticking.claim("local")

    assert ticking.get_fact("color") is None


_KEYS = st.sampled_from(["color", "Color", "pet", "-", "_"])
_CHANGES = st.lists(
    st.tuples(_KEYS, st.one_of(st.none(), st.sampled_from("abc")), st.integers(0, 2)), max_size=12
)


@settings(max_examples=examples(30))
@given(_CHANGES)
def test_import_into_an_empty_database_always_restores_everything(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str | None, int]]
) -> None:
    folder = tmp_path_factory.mktemp("facts")
    now = [100.0]
    with Memory(folder / "one.db", user_id="steve", clock=lambda: now[0]) as memory:
        for key, value, pause_s in changes:
            now[0] += pause_s
            if value is None:
                memory.clear_fact(key)
            else:
                memory.set_fact(key, value)
        exported = list(memory.export_memories())

    with Memory(folder / "two.db", user_id="steve", clock=lambda: now[0]) as other:
        other.import_memories(exported)

        assert list(other.export_memories())[1:] == exported[1:]


def test_blanks_around_a_key_are_no_part_of_it(memory: Memory) -> None:
    memory.set_fact(" name\n", " Steve ")

    assert [(fact.key, fact.value) for fact in memory.get_all_facts()] == [("name", " Steve ")]
    assert memory.get_fact("\tname") == " Steve "


def test_a_value_that_was_corrected_at_once_is_in_the_history_and_held_at_no_time(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve", clock=lambda: 1_000) as memory:
        for value in ("Berlin", "Austin", "Rome"):
            memory.set_fact("city", value)
        memory.set_fact("city", "Oslo", since=500)

        held = [period.value for period in memory.fact_periods("city")]
        recorded = [(p.value, p.since, p.until) for p in memory.fact_periods("city", corrected=True)]

        assert held == ["Oslo"]
        assert recorded == [
            ("Berlin", 1_000, 1_000),
            ("Austin", 1_000, 1_000),
            ("Rome", 1_000, 1_000),
            ("Oslo", 500, None),
        ]
        assert [fact.value for fact in memory.facts_at(1_000)] == ["Oslo"]
