"""Nothing that a user finds by vectors changes by anything that another one stores: both engines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.memory import Memory
from tests.examples import examples
from tests.memory.histories import Change, apply, changes_of, seen, sentences
from tests.postgres import IN_A_FILE, ON_A_SERVER

# Each example continues with the same database, whose users get more.
_examples = iter(range(1 << 30))


@settings(
    max_examples=examples(10),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(changes_of("anna"), min_size=1, max_size=10),
    st.lists(changes_of("bob", "carol"), min_size=1, max_size=10),
    st.lists(sentences, min_size=1, max_size=3),
)
def test_no_result_depends_on_what_others_store(
    open_memory: Callable[..., Memory], mine: list[Change], others: list[Change], queries: list[str]
) -> None:
    suffix = f" {next(_examples)}"
    anna = f"anna{suffix}"
    memory = open_memory()
    for change in mine:
        apply(memory, change, suffix)
    assert memory.settle_vectors()
    before = seen(memory, anna, queries)

    for change in others:
        apply(memory, change, suffix)
        memory.search(queries[0], 3, f"{change[1]}{suffix}")
    assert memory.settle_vectors()

    assert seen(memory, anna, queries) == before
    memory.close()


def scattered(memory: Memory, user: str) -> None:
    """Stores memories with all kinds of cosines, and takes some out in between."""
    rng = np.random.default_rng(3)
    ids: list[Any] = []
    for number in range(60):
        words = " ".join(f"word{n}" for n in rng.integers(40, size=rng.integers(1, 9)))
        ids.append(memory.store_memory(f"thing {number}", words, user))
        if number % 4 == 3:
            assert memory.settle_vectors()
            memory.search("word3", 1, user)
            memory.delete_memory(ids.pop(int(rng.integers(len(ids)))), user)
    assert memory.settle_vectors()


@IN_A_FILE
def test_vectors_pushed_out_of_memory_by_others_give_the_same_bits(
    open_memory: Callable[..., Memory], engine: str
) -> None:
    memory = open_memory()
    table: Any = memory._vectors._table  # type: ignore[union-attr]
    table._held.limit_bytes = 20_000  # one of the two fits
    scattered(memory, "anna")
    questions = [f"word{number} puppy" for number in range(40)]
    before = [memory.search(question, 50, "anna") for question in questions]

    scattered(memory, "bob")
    assert len(table._held) == 1

    assert [memory.search(question, 50, "anna") for question in questions] == before


@ON_A_SERVER
def test_rows_that_lie_elsewhere_on_a_server_give_the_same_bits(
    open_memory: Callable[..., Memory], engine: str
) -> None:
    memory = open_memory()
    scattered(memory, "anna")
    questions = [f"word{number} puppy" for number in range(40)]
    before = [memory.search(question, 50, "anna") for question in questions]

    scattered(memory, "bob")
    store: Any = memory._store
    store._database.write(
        "bob",
        lambda connection: connection.run("UPDATE context_vectors SET change = change WHERE id % 3 = 0"),
    )

    assert [memory.search(question, 50, "anna") for question in questions] == before
