"""Recall over damaged tables, and called as it is not meant to be: an error or a finite answer, no crash."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native.store import Connection, Recall, SQLiteError
from tests.native import recall_database as database
from tests.native import twin_rank
from tests.native.recall_database import DAY, NOW, REPLACE_TERMS
from tests.native.twin_rank import Document


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with database.create(tmp_path / "memory.db") as connection:
        yield connection


# ---- damage and misuse


def test_row_of_another_user_under_a_forged_token_is_passed_over(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    [other] = database.add(connection, 2, [(["bravo"], [], NOW)])
    connection.execute(REPLACE_TERMS, (other, "t1_alpha t2_bravo"))

    found = Recall().search(connection, 1, ["alpha"], 9, NOW)

    assert found == twin_rank.search([Document(1 << 40 | 1, (("alpha",), ()), NOW, 1)], ["alpha"], 9, NOW)


@pytest.mark.parametrize("rowid", [1 << 40 | 7, 0, -5, -(2**63), 2**63 - 1, (1 << 40) - 1, (2 << 40) - 1])
def test_index_row_without_a_memory_is_passed_over(connection: Connection, rowid: int) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])
    connection.execute(
        "INSERT INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, '')",
        (rowid, "t1_alpha"),
    )

    found = Recall().search(connection, 1, ["alpha"], 9, NOW)

    assert found == twin_rank.search([Document(1 << 40 | 1, (("alpha",), ()), NOW, 1)], ["alpha"], 9, NOW)


def test_sequences_with_huge_gaps_cost_no_memory_for_the_gaps(connection: Connection) -> None:
    sequences = [1, 2, 2**20, 2**33, 2**39, 2**40 - 2, 2**40 - 1]
    database.add(connection, 5, [(["alpha"], [], NOW)])
    for sequence in sequences[1:]:
        connection.execute("UPDATE tenants SET next_sequence = ? WHERE number = 5", (sequence,))
        database.add(connection, 5, [(["alpha"], [], NOW)])
    recall = Recall()

    found = recall.search(connection, 5, ["alpha"], 9, NOW)

    assert [hit[0] & (2**40 - 1) for hit in found] == sequences[::-1]
    assert recall.memory_bytes < 100_000


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE context SET doc_len = -1000000",
        "UPDATE context SET doc_len = 9223372036854775807",
        "UPDATE context SET timestamp = 'yesterday', doc_len = x'00'",
        "UPDATE context SET timestamp = -9223372036854775808",
        "UPDATE tenants SET n = 0, total_length = 0",
        "UPDATE tenants SET n = -5, total_length = -7",
        "UPDATE tenants SET n = 1, total_length = 9223372036854775807",
        "UPDATE tenants SET version = 'x', edits = -1, n = 'many'",
    ],
)
def test_damaged_numbers_give_finite_scores(connection: Connection, damage: str) -> None:
    database.add(connection, 1, [(["alpha"], ["bravo"], NOW), (["alpha"], [], NOW - DAY)])
    connection.execute(damage)

    found = Recall().search(connection, 1, ["alpha", "bravo"], 9, NOW)

    assert len(found) == 2
    assert all(math.isfinite(number) and number >= 0 for hit in found for number in hit[1:])


def test_database_without_the_tables_is_an_error_until_they_are_there(tmp_path: Path) -> None:
    recall = Recall()
    with Connection(tmp_path / "memory.db") as connection:
        with pytest.raises(SQLiteError, match="no such table: tenants"):
            recall.search(connection, 1, ["alpha"], 3, NOW)
        connection.script(database.SCHEMA)
        database.add(connection, 1, [(["alpha"], [], NOW)])

        assert len(recall.search(connection, 1, ["alpha"], 3, NOW)) == 1


def test_index_that_is_dropped_and_made_again_is_searched(connection: Connection) -> None:
    recall = Recall()
    [id] = database.add(connection, 1, [(["alpha"], [], NOW)])
    assert recall.search(connection, 1, ["alpha"], 3, NOW)
    index = database.SCHEMA[database.SCHEMA.index("CREATE VIRTUAL") :]
    connection.script("DROP TABLE context_fts;" + index)
    assert recall.search(connection, 1, ["alpha"], 3, NOW) == []

    connection.execute("INSERT INTO context_fts (rowid, user_message) VALUES (?, 't1_alpha')", (id,))

    assert [hit[0] for hit in recall.search(connection, 1, ["alpha"], 3, NOW)] == [id]


def test_search_on_a_closed_connection_is_an_error(connection: Connection) -> None:
    recall = Recall()
    database.add(connection, 1, [(["alpha"], [], NOW)])
    recall.search(connection, 1, ["alpha"], 3, NOW)
    connection.close()

    with pytest.raises(SQLiteError, match="closed"):
        recall.search(connection, 1, ["alpha"], 3, NOW)


def test_recall_of_one_database_refuses_another(connection: Connection, tmp_path: Path) -> None:
    recall = Recall()
    recall.search(connection, 1, ["alpha"], 3, NOW)

    with database.create(tmp_path / "other.db") as other, pytest.raises(ValueError, match="one database"):
        recall.search(other, 1, ["alpha"], 3, NOW)


def test_two_databases_in_memory_are_two_databases() -> None:
    with database.create(":memory:") as one, database.create(":memory:") as two:
        recall = Recall()
        recall.search(one, 1, ["alpha"], 3, NOW)

        with pytest.raises(ValueError, match="one database"):
            recall.search(two, 1, ["alpha"], 3, NOW)


@pytest.mark.parametrize(
    "arguments",
    [
        {"tenant": -1},
        {"tenant": 1 << 23},
        {"now": math.nan},
        {"now": math.inf},
        {"k1": -0.1},
        {"k1": math.nan},
        {"b": 1.1},
        {"recency_floor": -0.1},
        {"min_relevance": math.nan},
    ],
)
def test_argument_outside_its_range_is_refused(connection: Connection, arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be|is from 0"):
        Recall().search(connection, **{"tenant": 1, "keywords": ["alpha"], "k": 3, "now": NOW, **arguments})


def test_nothing_asked_finds_nothing(connection: Connection) -> None:
    database.add(connection, 1, [(["alpha"], [], NOW)])

    assert Recall().search(connection, 1, [], 3, NOW) == []
    assert Recall().search(connection, 1, ["alpha"], 0, NOW) == []


def test_forgotten_tenant_takes_no_memory_and_is_found_again(connection: Connection) -> None:
    recall = Recall()
    empty = recall.memory_bytes
    database.add(connection, 1, [(["alpha"], [], NOW)] * 1000)
    before = recall.search(connection, 1, ["alpha"], 3, NOW)
    full = recall.memory_bytes
    assert full - empty >= 20_000

    recall.forget(1)
    recall.forget(77)

    assert recall.memory_bytes < empty + 1000
    assert recall.search(connection, 1, ["alpha"], 3, NOW) == before
