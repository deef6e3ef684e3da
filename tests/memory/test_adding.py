"""Memories stored many at once lie in the tables as if they had been stored one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.memory.memories import count, delete
from shepherd.memory.postgres.store import PostgresStore
from shepherd.memory.postgres.terms import _LEAST_COPIED
from shepherd.memory.records import NewMemory
from shepherd.memory.sqlite import SQLiteStore
from shepherd.memory.store import UserRows
from tests.examples import examples
from tests.postgres import Server

NOW = 1_700_000_000
# "ab" + "c" and "a" + "bc" have the same hash: texts, one after the other.
PARTS = ["a", "b", "ab", "c", "bc", "abc", "", "über", "Anna: how are you?", "x\0y"]

memories = st.builds(
    NewMemory,
    question=st.sampled_from(PARTS),
    answer=st.sampled_from(PARTS),
    timestamp=st.integers(NOW, NOW + 7200),
    source=st.sampled_from(["user", "turn"]),
    session=st.sampled_from(["", "", "s1"]),
    pinned=st.booleans(),
)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[SQLiteStore, SQLiteStore]]:
    stores = SQLiteStore(str(tmp_path / "one.db")), SQLiteStore(str(tmp_path / "many.db"))
    yield stores
    for store in stores:
        store.close()


def tables_of(store: SQLiteStore) -> list[list[tuple[Any, ...]]]:
    with store._database.read() as connection:
        return [
            connection.execute("SELECT * FROM context ORDER BY id"),
            connection.execute("SELECT * FROM tenants ORDER BY number"),
            connection.execute("SELECT id, sz FROM context_fts_docsize ORDER BY id"),
        ]


_examples = iter(range(1 << 30))


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(memories, max_size=60), st.lists(memories, max_size=40))
def test_many_at_once_are_stored_as_one_by_one(
    pair: tuple[SQLiteStore, SQLiteStore], first: list[NewMemory], second: list[NewMemory]
) -> None:
    user = f"user {next(_examples)}"
    one, many = pair
    for new in (first, second):
        singly = [stored for memory in new for stored in one.add_memories(user, [memory])]
        assert many.add_memories(user, new) == singly
        if singly:  # what comes after a gap begins a conversation of its own
            for store in pair:
                rows = UserRows(store, user, lambda: NOW)
                assert rows.change_memories(None, 0, delete, [singly[-1][0]], store.terms) == 1

    assert tables_of(one) == tables_of(many)


def test_failure_in_the_middle_stores_nothing(pair: tuple[SQLiteStore, SQLiteStore]) -> None:
    store = pair[0]
    new = [NewMemory(f"question {n}", "", NOW, "user", "") for n in range(40)]
    new[35] = NewMemory("question \ud800", "", NOW, "user", "")

    with pytest.raises(UnicodeError):
        store.add_memories("anna", new)

    assert UserRows(store, "anna", lambda: NOW).read_memories(None, 0, count) == 0
    assert [is_new for _, is_new in store.add_memories("anna", new[:35])] == [True] * 35


# What COPY and arrays of PostgreSQL give a meaning of their own.
ODD = [
    "\\",
    "\\N",
    "\\.",
    "\t",
    "\n",
    "\r\n",
    '"',
    "{}",
    ",",
    "null",
    "x\0y",
    "\U0010fffe0",
    "c++",
    "dog",
    "dog",
    "",
]
odd_texts = st.lists(st.sampled_from(ODD), max_size=6).map(" ".join)
odd_memories = st.builds(
    NewMemory,
    question=odd_texts,
    answer=odd_texts,
    timestamp=st.integers(NOW, NOW + 7200),
    source=st.sampled_from(["user", "turn", "a\tb"]),
    session=st.sampled_from(["", "\\N"]),
    pinned=st.booleans(),
)


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(odd_memories, min_size=2 * _LEAST_COPIED, max_size=3 * _LEAST_COPIED))
def test_copied_rows_are_those_of_single_inserts(postgres_server: Server, new: list[NewMemory]) -> None:
    found = []
    for at_once in (1, len(new)):
        schema = postgres_server.new_schema()
        store = PostgresStore(postgres_server.url(schema))
        numbered = [replace(one, question=f"{one.question}{n}") for n, one in enumerate(new)]
        for start in range(0, len(new), at_once):
            store.add_memories("steve", numbered[start : start + at_once])
        assert store.check(False).problems == ()
        found.append(
            [
                postgres_server.execute(f"SELECT * FROM {table} ORDER BY 1", schema)
                for table in ("context", "context_terms", "tenants")
            ]
        )
        store.close()
        postgres_server.execute(f"DROP SCHEMA {schema} CASCADE")

    assert found[0] == found[1]
