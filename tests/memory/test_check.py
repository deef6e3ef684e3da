"""Damage of every kind is found and named; what can be made again from the rows is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd._native.store import Connection
from shepherd.memory import Memory
from shepherd.types import Message
from tests.examples import examples
from tests.postgres import Server


@pytest.fixture
def filled(memory: Memory) -> Memory:
    for n in range(20):
        memory.store_memory(f"question {n}?", f"answer number {n}", timestamp=1000 + n)
    memory.store_memory("of anna?", "answer: yes", "anna")
    memory.store_memory("ab", "c")
    memory.store_memory("a", "bc")
    memory.recall("question 3")
    memory.append_message(memory.start_session(), Message("user", "hello"))
    return memory


def harm(path: Path, *statements: str) -> None:
    with Connection(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def damage(database: str, engine: str, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Runs a statement on the database of `memory`, past the memory."""
    if engine == "sqlite":
        return lambda statement: harm(Path(database), statement)
    server: Server = request.getfixturevalue("postgres_server")
    schema = database.rpartition("schema=")[2]
    return lambda statement: server.execute(statement, schema) and None


OWN = "(SELECT min(id) + 3 FROM context)"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (f"UPDATE context SET assistant_response = 'answer changed 3' WHERE id = {OWN}", "with other words"),
        (
            f"UPDATE context SET assistant_response = 'much longer than it was' WHERE id = {OWN}",
            "with other words",
        ),
        (f"UPDATE context SET doc_len = 77 WHERE id = {OWN}", "with other words"),
        (f"UPDATE context SET content_hash = 'x' WHERE id = {OWN}", "hash of another text"),
        (f"UPDATE context SET user_id = 'bob' WHERE id = {OWN}", "under another user's number"),
        (
            "UPDATE context SET id = id + 54975581388800 WHERE user_message = 'of anna?'",
            "under another user's number",
        ),
        ("UPDATE tenants SET next_sequence = 2", "a number for a memory that is in use"),
        ("INSERT INTO recalls VALUES(99, 1, 1)", "to no memory"),
    ],
)
def test_damage_is_found_and_mended(
    filled: Memory, damage: Callable[[str], None], statement: str, problem: str
) -> None:
    damage(statement)

    found = filled.check()
    assert any(problem in text for text in found.problems), found.problems

    mended = filled.check(repair=True)
    assert mended.ok
    assert filled.check().problems == ()
    n_all = sum(filled.count_memories(user) for user in ("steve", "anna", "bob"))
    n_found = sum(
        len(filled.search("question answer number changed ab bc c a much longer of", 99, user))
        for user in ("steve", "anna", "bob")
    )
    assert n_all == n_found == 23
    assert filled.store_memory("new", "one") is not None


def test_row_that_is_filed_under_a_stranger_comes_to_its_own_user(
    filled: Memory, damage: Callable[[str], None]
) -> None:
    damage(f"UPDATE context SET user_id = 'bob' WHERE id = {OWN}")

    filled.check(repair=True)

    assert [record.question for record in filled.list_memories("bob")] == ["question 3?"]
    assert filled.count_memories() == 21
    assert [r.question for r in filled.search("question 3", 1, "bob")] == ["question 3?"]


@pytest.mark.parametrize("value", ["CAST(user_message AS BLOB)", "x'fe00ff63'"])
def test_bytes_in_the_place_of_a_text_become_one(tmp_path: Path, value: str) -> None:
    """SQLite keeps any type in any column; PostgreSQL does not."""
    with Memory(tmp_path / "memory.db") as memory:
        for user in ("steve", "anna"):
            for i in range(9):
                memory.store_memory(f"question {i} of {user}?", f"answer {i}", user_id=user)
        harm(tmp_path / "memory.db", f"UPDATE context SET user_message = {value} WHERE id = {OWN}")

        assert "1 memory holds bytes where text belongs" in memory.check().problems
        assert len(memory.search("question", 20, "anna")) == 9
        assert memory.check(repair=True).ok

        assert memory.check().problems == ()
        assert memory.count_memories("steve") == 9
        assert all(isinstance(record.question, str) for record in memory.list_memories("steve"))
        assert len(memory.search("answer", 20, "steve")) == 9


def test_text_that_another_row_has_already_is_kept_once(
    filled: Memory, damage: Callable[[str], None]
) -> None:
    same = "SET user_message = 'question 5?', assistant_response = 'answer number 5'"
    damage(f"UPDATE context {same} WHERE id = {OWN}")

    filled.check(repair=True)

    assert filled.check().problems == ()
    assert filled.count_memories() == 21


# A quarter of the memories leaves the index of words.
MISSING = "DELETE FROM context_terms WHERE id % 4 = 1"
MISSING_IN_A_FILE = (
    "INSERT INTO context_fts(context_fts, rowid, user_message, assistant_response)"
    " SELECT 'delete', id, '', '' FROM context WHERE id % 4 = 1"
)
HARMS = st.lists(
    st.sampled_from(
        [
            "DELETE FROM context WHERE id % 3 = 0",
            MISSING,
            "UPDATE context SET user_message = 'swapped' || id WHERE id % 5 = 2",
            "UPDATE context SET user_id = 'bob' WHERE id % 6 = 3",
            "UPDATE context SET content_hash = id WHERE id % 7 = 0",
            "UPDATE tenants SET n = n + 1, next_sequence = 1",
            "DELETE FROM tenants WHERE user_id = 'anna'",
            "DELETE FROM sessions",
            "DELETE FROM meta WHERE key = 'tokenizer_version'",
        ]
    ),
    unique=True,
)


def assert_mended(database: str, damage: Callable[[str], object], harms: list[str]) -> None:
    with Memory(database, user_id="steve") as memory:
        for user in ("steve", "anna"):
            for n in range(12):
                memory.store_memory(f"question {n}?", f"answer number {n}", user)
        for statement in harms:
            damage(statement)

        mended = memory.check(repair=True)

        assert mended.ok, mended
        assert memory.check().problems == ()


@settings(max_examples=examples(10))
@given(HARMS)
def test_any_mixture_of_damage_is_mended(tmp_path_factory: pytest.TempPathFactory, harms: list[str]) -> None:
    path = tmp_path_factory.mktemp("check") / "memory.db"

    assert_mended(
        str(path),
        lambda statement: harm(path, statement),
        [MISSING_IN_A_FILE if statement is MISSING else statement for statement in harms],
    )


@settings(max_examples=examples(10))
@given(HARMS)
def test_any_mixture_of_damage_is_mended_on_a_server(postgres_server: Server, harms: list[str]) -> None:
    schema = postgres_server.new_schema()

    assert_mended(
        postgres_server.url(schema),
        lambda statement: postgres_server.execute(statement, schema),
        harms,
    )
