"""Tables that docs/how-to/partition.sql has divided by user give the same results as a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.postgres.store import PostgresStore
from tests.examples import examples
from tests.memory.histories import NOW, apply, changes_of, sentences
from tests.memory.test_postgres_tables import TABLES, UNDIVIDED
from tests.memory.test_postgres_upgrade import FORMAT_6, rows
from tests.memory.test_two_engines import assert_found_alike
from tests.postgres import Server

PARTITION = (Path(__file__).parents[2] / "docs/how-to/partition.sql").read_text()
# Constraints, indexes, triggers and rights of the tables, without those of partitions.
BESIDE = """SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = current_schema()::regnamespace AND conparentid = 0 AND contype <> 'n'
        AND conrelid NOT IN (SELECT inhrelid FROM pg_inherits)
    UNION ALL SELECT t.relname::text, i.relname::text, pg_get_indexdef(i.oid)
        FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
        WHERE t.relnamespace = current_schema()::regnamespace AND NOT t.relispartition
    UNION ALL SELECT tgrelid::regclass::text, tgname::text, pg_get_triggerdef(t.oid)
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND NOT tgisinternal AND tgparentid = 0
    UNION ALL SELECT relname::text, relowner::regrole::text, array_to_string(relacl, ' ')
        FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND NOT relispartition"""


def partition(server: Server, name: str, role: str = "postgres") -> None:
    """Runs the file as psql does with --single-transaction."""
    with psycopg.connect(server.url()) as connection:
        connection.execute("SELECT set_config('search_path', %s, true)", [name])
        connection.execute(f"SET LOCAL ROLE {role}")  # type: ignore[arg-type]
        connection.execute(PARTITION)  # type: ignore[arg-type]


def beside(server: Server, name: str) -> set[tuple[str, ...]]:
    """What BESIDE finds; the definitions of indexes say ONLY where there are partitions."""
    return {tuple(str(value).replace(" ONLY ", " ") for value in row) for row in server.execute(BESIDE, name)}


@pytest.fixture
def filled(postgres_server: Server) -> str:
    """A schema with rows in nearly every table, not divided yet."""
    name = postgres_server.new_schema()
    postgres_server.execute(f"CREATE SCHEMA {name}")
    postgres_server.execute(FORMAT_6, name)
    Memory(postgres_server.url(name)).close()
    return name


def test_every_table_but_those_of_all_users_is_divided(postgres_server: Server, filled: str) -> None:
    role = f"reader_{filled}"
    postgres_server.execute(f"CREATE ROLE {role}")
    postgres_server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {filled} TO {role}")
    before = rows(postgres_server, filled), beside(postgres_server, filled)

    partition(postgres_server, filled)

    assert rows(postgres_server, filled) == before[0]
    assert beside(postgres_server, filled) ^ before[1] == set()
    whole = postgres_server.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
        " AND relkind = 'r' AND NOT relispartition",
        filled,
    )
    assert {table for (table,) in whole} == UNDIVIDED
    tables = postgres_server.execute(TABLES, filled)
    partition(postgres_server, filled)
    assert postgres_server.execute(TABLES, filled) == tables


def test_a_divided_memory_is_used_as_any_other(postgres_server: Server, filled: str) -> None:
    url = postgres_server.url(filled)
    partition(postgres_server, filled)

    with Memory(url, user_id="anna") as memory:
        store = memory._store
        assert isinstance(store, PostgresStore)
        knowledge = Knowledge(memory.transactions, user_id="anna")
        # Or the server would plan each question for itself, which takes longer than the search.
        assert store._database.look("SHOW plan_cache_mode", ()) == [("force_generic_plan",)]
        assert memory.check().problems == ()
        assert memory.stats().file_bytes > 500_000
        assert memory.tables_with(["Helix"])["context"] == 2
        memory.set_fact("name", "Hannah")
        [editor] = memory.search("editor")
        assert memory.edit_memory(editor.id, answer="Vim")
        assert memory.pin_memory(editor.id, True)
        assert [found.answer for found in memory.search("vim")] == ["Vim"]
        assert knowledge.delete_node(1)
        assert knowledge.search("tomatoes") == []
        counts = memory.claim("ben")
        assert counts.memories == 3
        assert counts.facts
        assert {found.answer for found in memory.search("city Berlin")} >= {"Ben lives in Berlin"}
        assert memory.list_memories("ben") == []
        assert memory.delete_user("anna")
        assert memory.check().problems == ()


def test_only_the_owner_of_the_tables_divides_them(postgres_server: Server, filled: str) -> None:
    role = f"other_{filled}"
    postgres_server.execute(f"CREATE ROLE {role}")
    postgres_server.execute(f"GRANT ALL ON SCHEMA {filled} TO {role}")
    postgres_server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {filled} TO {role}")
    before = beside(postgres_server, filled)

    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="must be owner"):
        partition(postgres_server, filled, role)

    assert beside(postgres_server, filled) == before


@pytest.fixture(scope="module")
def pair(postgres_server: Server) -> Iterator[tuple[Memory, Memory]]:
    """A memory in a file, and one in divided tables."""
    url = postgres_server.url(name := postgres_server.new_schema())
    Memory(url).close()
    partition(postgres_server, name)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(Path(folder, "memory.db"), clock=lambda: NOW) as in_a_file,
        Memory(url, clock=lambda: NOW) as divided,
    ):
        yield in_a_file, divided


# Tenants get their numbers as they come, so each example continues with both databases.
_examples = iter(range(1 << 30))


@settings(max_examples=examples(8), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(changes_of("anna", "bob"), min_size=1, max_size=12), st.lists(sentences, min_size=1, max_size=4)
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
