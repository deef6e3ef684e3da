"""The number of a memory finds the same memory again, for its user alone, in files, on servers and blind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from shepherd.errors import UsageError
from shepherd.memory import Memory
from shepherd.memory.postgres.store import PostgresStore
from shepherd.sequences import (
    LARGEST_SEQUENCE,
    errors_in_sequences,
    in_sequences,
    sequence_of,
    stored_id,
    with_sequence,
)
from tests.examples import examples
from tests.memory.blind import known_key
from tests.postgres import Server

USERS = ("anna", "ben", "chloe/phone", "half \udc80 of a pair")
# A user adds a memory, forgets the newest, forgets all, or takes over what another user has.
ACTIONS = st.tuples(
    st.sampled_from(["add", "add", "forget", "forget all", "claim"]),
    st.sampled_from(USERS),
    st.sampled_from(USERS),
)


@pytest.fixture
def engines(postgres_server: Server) -> Iterator[list[Memory]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder, "memory.db")) as in_a_file,
        Memory(postgres_server.url(postgres_server.new_schema())) as on_a_server,
        known_key(Path(folder)),
        Memory(postgres_server.url(postgres_server.new_schema()), blind=True) as blind,
    ):
        yield [in_a_file, on_a_server, blind]


def act(memory: Memory, number: int, action: str, user: str, other: str) -> None:
    if action == "add":
        memory.store_memory(f"{user} said {number}", "", user)
    elif action == "forget":
        memory.delete_memories([one.id for one in memory.list_memories(user, limit=1)], user)
    elif action == "forget all":
        memory.delete_user(user)
    elif user != other and not is_blind(memory):  # a blind memory refuses it
        memory.claim(other, user)


def is_blind(memory: Memory) -> bool:
    return isinstance(memory._store, PostgresStore) and memory._store.is_blind


@settings(
    max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(ACTIONS, max_size=10))
@example([("add", "anna", "anna"), ("add", "ben", "ben"), ("claim", "ben", "anna"), ("add", "ben", "ben")])
@example([("add", "anna", "anna"), ("claim", "ben", "anna"), ("add", "anna", "ben"), ("add", "ben", "ben")])
@example([("add", "anna", "anna"), ("forget", "anna", "anna"), ("add", "anna", "anna")])
def test_a_number_finds_its_memory_again_for_its_user_alone(engines, actions):
    for memory in engines:
        for user in USERS:
            memory.delete_user(user)
        noted: dict[tuple[str, int], str] = {}
        for number, (action, user, other) in enumerate(actions):
            act(memory, number, action, user, other)
            if action == "forget all":  # the user who adds something afterwards is a new one
                noted = {key: text for key, text in noted.items() if key[0] != user}
            for one in USERS:
                for record in memory.list_memories(one):
                    shown = with_sequence(record)
                    assert 0 < shown.id <= LARGEST_SEQUENCE
                    assert stored_id(memory.transactions, one, shown.id) == record.id
                    assert stored_id(memory.transactions, one, record.id) == record.id
                    # A number that was noted once never means another memory.
                    assert noted.setdefault((one, shown.id), record.question) == record.question
                    for stranger in set(USERS) - {one}:
                        assert memory.get_memory(record.id, stranger) is None
                        theirs = memory.get_memory(
                            stored_id(memory.transactions, stranger, shown.id), stranger
                        )
                        assert theirs is None or theirs.id != record.id


def test_nobody_has_a_memory_of_a_number_that_was_not_given(engines):
    for memory in engines:
        memory.store_memory("question", "answer", "anna")
        for user in ("anna", "nobody yet"):
            for number in (0, 2, LARGEST_SEQUENCE, LARGEST_SEQUENCE + 1, 1 << 63, -1):
                memory_id = stored_id(memory.transactions, user, number)
                assert memory.get_memory(memory_id, user) is None
                assert memory.delete_memories([memory_id], user) == []


def test_errors_name_memories_by_their_numbers(engines):
    for memory in engines:
        memory.store_memory("first", "answer", "anna")
        one = memory.store_memory("question", "answer", "ben")
        other = memory.store_memory("another", "answer", "ben")
        said = f"memory {sequence_of(other)}: memory {sequence_of(one)} already says exactly this"
        with pytest.raises(UsageError, match=f"^{said}$") as caught, errors_in_sequences():
            memory.edit_memory(other, question="question", user_id="ben")
        assert caught.value.hint == "delete one of the two"


def test_only_ids_of_the_database_become_numbers_in_a_text():
    assert in_sequences(f"chunk:{7 << 40 | 3}") == "chunk:3"
    assert in_sequences("turn:1784000001:0 and entity:999999999999") == (
        "turn:1784000001:0 and entity:999999999999"
    )
