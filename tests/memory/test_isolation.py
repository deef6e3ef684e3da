"""Nothing that a user sees changes by what another one stores, edits or deletes: both engines, both tiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.memory import Memory
from tests.examples import examples
from tests.memory.histories import NOW, Change, apply, changes_of, seen, sentences

# Each example continues with the same database, whose users get more.
_examples = iter(range(1 << 30))

of_anna = st.lists(changes_of("anna"), min_size=1, max_size=10)
of_others = st.lists(changes_of("bob", "anna b", "carol"), min_size=1, max_size=12)


@pytest.fixture
def openings(database: str) -> Iterator[list[Memory]]:
    """One with hot indexes, one whose questions are all answered by the tables; a server has only those."""
    with (
        Memory(database, clock=lambda: NOW) as hot,
        Memory(database, clock=lambda: NOW, recall_cache_mb=0) as cold,
    ):
        yield [hot, cold]


def wait_for_hot_indexes(memory: Memory) -> None:
    store: Any = memory._store
    if hasattr(store, "_recall"):
        assert store._recall.wait()


@settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(of_anna, of_others, st.lists(sentences, min_size=1, max_size=3))
def test_no_result_depends_on_what_others_store(
    openings: list[Memory], mine: list[Change], others: list[Change], queries: list[str]
) -> None:
    suffix = f" {next(_examples)}"
    anna = f"anna{suffix}"
    for change in mine:
        apply(openings[0], change, suffix)
    cold = [seen(memory, anna, queries) for memory in openings]
    wait_for_hot_indexes(openings[0])
    before = [seen(memory, anna, queries) for memory in openings]
    assert before == cold

    for change in others:
        apply(openings[0], change, suffix)
        openings[0].search(queries[0], 3, f"{change[1]}{suffix}")
    wait_for_hot_indexes(openings[0])

    assert [seen(memory, anna, queries) for memory in openings] == before
