"""The LangGraph store does what the one that LangGraph itself publishes does."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from shepherd.adapters.langgraph import ShepherdStore
from shepherd.memory import Memory

LABELS = st.sampled_from(["a", "b", "a-", "é", "*", " "])
PATHS = st.lists(LABELS.filter(lambda label: label != "*"), min_size=1, max_size=3).map(tuple)
VALUES = st.dictionaries(
    st.sampled_from(["x", "y"]), st.integers(-3, 3) | st.sampled_from(["p", "q"]), max_size=2
)
KEYS = st.sampled_from(["k", "..", ""])
OPS = st.one_of(
    st.tuples(PATHS, KEYS, VALUES | st.none()).map(lambda parts: PutOp(*parts)),
    st.tuples(PATHS, KEYS).map(lambda parts: GetOp(*parts)),
    st.tuples(PATHS | st.just(()), st.none() | VALUES, st.just(1000)).map(lambda parts: SearchOp(*parts)),
)
CONDITIONS = st.builds(
    MatchCondition,
    st.sampled_from(["prefix", "suffix"]),
    st.lists(LABELS, min_size=1, max_size=2).map(tuple),
)
LISTS = st.tuples(
    st.lists(CONDITIONS, max_size=2).map(tuple),
    st.none() | st.integers(1, 3),
    st.integers(1, 4),
    st.integers(0, 2),
).map(lambda parts: ListNamespacesOp(*parts))


def plain(result):
    """What of a result both stores must agree about."""
    if isinstance(result, list) and result and hasattr(result[0], "value"):
        return sorted((item.namespace, item.key, sorted(item.value.items())) for item in result)
    if hasattr(result, "value"):
        return result.namespace, result.key, result.value
    return result


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    """A memory and as many users of it as are asked for."""
    with Memory(tmp_path_factory.mktemp("users") / "memory.db") as memory:
        yield memory, count()


@given(batches=st.lists(st.lists(OPS, max_size=4), max_size=6))
def test_does_what_the_store_of_langgraph_does(users, batches):
    memory, numbers = users
    ours, theirs = ShepherdStore(memory, user_id=f"user {next(numbers)}"), InMemoryStore()

    for batch in batches:
        got, expected = ours.batch(batch), theirs.batch(batch)
        assert list(map(plain, got)) == list(map(plain, expected))


@given(paths=st.sets(PATHS, max_size=8), op=LISTS)
def test_lists_the_namespaces_that_the_store_of_langgraph_lists(users, paths, op):
    memory, numbers = users
    ours, theirs = ShepherdStore(memory, user_id=f"user {next(numbers)}"), InMemoryStore()
    for store in (ours, theirs):
        store.batch([PutOp(path, "k", {"n": 1}) for path in paths])

    assert ours.batch([op]) == theirs.batch([op])
