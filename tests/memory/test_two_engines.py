"""The same data gives the same results on both engines: ids, order and scores, bit for bit."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shepherd.memory import Memory
from shepherd.memory.postgres.store import PostgresStore
from tests.examples import examples
from tests.memory.histories import DAY, NOW, apply, changes_of, found, sentences
from tests.postgres import Server


@pytest.fixture
def pair(postgres_server: Server) -> Iterator[tuple[Memory, Memory]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder, "memory.db"), clock=lambda: NOW) as in_a_file,
        Memory(postgres_server.url(postgres_server.new_schema()), clock=lambda: NOW) as on_a_server,
    ):
        yield in_a_file, on_a_server


def assert_found_alike(pair: tuple[Memory, Memory], query: str, user: str) -> object:
    """What both engines find; the server's also without a hot index."""
    in_a_file, on_a_server = pair
    store = on_a_server._store
    assert isinstance(store, PostgresStore)
    expected = found(in_a_file, query, user)
    assert store._recall.wait()
    assert found(on_a_server, query, user) == expected
    store._recall._slots.clear()
    assert found(on_a_server, query, user) == expected
    return expected


# Tenants get their numbers as they come, so each example continues with both databases.
_examples = iter(range(1 << 30))


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(changes_of("anna", "bob"), min_size=1, max_size=12), st.lists(sentences, min_size=1, max_size=4)
)
@example(
    # A turn without a word that repeats: those of the question count more than the assistant's.
    [
        ("store", "anna", "dog", "cats", NOW, "", "turn"),
        ("store", "anna", "dog guitar", "coffee", NOW, "", "user"),
    ],
    ["dog cats"],
)
def test_any_history_leads_to_the_same_results(
    pair: tuple[Memory, Memory], history: list[tuple[object, ...]], queries: list[str]
) -> None:
    suffix = str(next(_examples))
    for change in history:
        results = [apply(memory, change, suffix) for memory in pair]
        assert results[0] == results[1]

    for user in (f"anna{suffix}", f"bob{suffix}"):
        assert pair[0].list_memories(user) == pair[1].list_memories(user)
        assert list(pair[0].export_memories(user)) == list(pair[1].export_memories(user))
        for query in queries:
            assert_found_alike(pair, query, user)


def test_conversations_of_thousands_of_memories_are_ranked_the_same(pair: tuple[Memory, Memory]) -> None:
    chance = random.Random(7)
    # A few words in nearly every memory, many in one or two, as in language.
    words = [f"{chance.choice('bcdfghklmnprst')}{chance.choice('aeiou')}{n:x}" for n in range(3000)]
    weights = [1 / (n + 1) for n in range(len(words))]
    lines = [
        {
            "question": " ".join(chance.choices(words, weights, k=chance.randint(3, 25))),
            "answer": " ".join(chance.choices(words, weights, k=chance.randint(3, 40))),
            "timestamp": NOW - chance.randrange(700 * DAY),
            "session": f"session {n // 20}",
        }
        for n in range(2500)
    ]
    for memory in pair:
        assert memory.import_memories(lines).skipped == 0

    # Up to more keywords than are ranked by.
    queries = [" ".join(chance.choices(words, weights, k=k)) for k in (1, 2, 3, 5, 8, 13, 30, 60) * 3]
    for query in queries:
        assert_found_alike(pair, query, "local")
    assert any(found(pair[0], query, "local")[1] for query in queries)
