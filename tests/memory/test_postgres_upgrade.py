"""A database of format 6 keeps every row when it is upgraded, and refuses servers that know no newer one."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from shepherd.errors import StoreError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.postgres import schema
from shepherd.memory.schema import USER_VERSION
from tests.postgres import Server

FORMAT_6 = (Path(__file__).parent / "postgres_format_6.sql").read_text()
# Of each table: its name, columns with types and defaults, and its constraints and indexes.
LAYOUT = """SELECT c.relname::text, a.attname::text, a.atttypid::regtype::text, a.attnotnull,
        pg_get_expr(d.adbin, d.adrelid), NULL::text
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
    UNION ALL SELECT conrelid::regclass::text, conname::text, NULL, NULL, NULL, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
    UNION ALL SELECT tgrelid::regclass::text, pg_get_triggerdef(t.oid), NULL, NULL, NULL, NULL
        FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
        WHERE c.relnamespace = current_schema()::regnamespace AND NOT tgisinternal
    UNION ALL SELECT tablename::text, indexname::text, NULL, NULL, NULL, indexdef
    FROM pg_indexes WHERE schemaname = current_schema()"""


def layout(server: Server, name: str) -> set[tuple[object, ...]]:
    """The tables of a schema, with its name taken out."""
    return {
        tuple(str(value).replace(f"{name}.", "") for value in row) for row in server.execute(LAYOUT, name)
    }


def rows(server: Server, name: str) -> dict[str, list[str]]:
    """The rows of each table but `meta` and `writes`, as texts, without the columns that are new."""
    found = {}
    for table in set(schema.TABLES) - {"meta", "writes"}:
        of_table = server.execute(f"SELECT to_jsonb(t) - 'tenant' FROM {table} t", name)
        # Negative ids are marks of versions, which are new.
        found[table] = sorted(str(row) for (row,) in of_table if not str(row.get("id")).startswith("-"))
    return found


@pytest.fixture
def old(postgres_server: Server) -> str:
    """A schema with the tables and rows of format 6."""
    name = postgres_server.new_schema()
    postgres_server.execute(f"CREATE SCHEMA {name}")
    postgres_server.execute(FORMAT_6, name)
    return name


def test_an_upgraded_database_is_as_a_new_one_with_every_row(postgres_server: Server, old: str) -> None:
    before = rows(postgres_server, old)
    new = postgres_server.new_schema()
    Memory(postgres_server.url(new)).close()

    with Memory(postgres_server.url(old), user_id="anna") as memory:
        assert rows(postgres_server, old) == before
        assert memory.check().problems == ()
        assert [result.answer for result in memory.search("editor")] == ["Anna uses Helix, and Helix alone"]
        memory.store_memory("Which tea?", "Green")
        assert [result.answer for result in memory.search("tea")] == ["Green"]
        found = Knowledge(memory.transactions, user_id="anna").search("tomatoes")
        assert [chunk.text for chunk in found] == ["The garden of Anna has tomatoes and beans."]

    assert layout(postgres_server, old) == layout(postgres_server, new)
    unmarked = (
        "SELECT number FROM {0} t WHERE version > 0 AND NOT EXISTS"
        " (SELECT 1 FROM {1}_changes c WHERE tenant = number AND c.version = t.version AND id < 0)"
    )
    for sums, stem in (("tenants", "context"), ("knowledge_sums", "chunk")):
        assert postgres_server.execute(unmarked.format(sums, stem), old) == []
    assert (USER_VERSION,) in postgres_server.execute(
        "SELECT value FROM meta WHERE key = 'user_version'", old
    )


def test_vectors_of_deleted_chunks_still_go_with_them(postgres_server: Server, old: str) -> None:
    # As format 6 made it, but without pgvector's type, which is not everywhere.
    postgres_server.execute(
        "CREATE TABLE chunk_vectors(id BIGINT PRIMARY KEY REFERENCES chunks(id) ON DELETE CASCADE)", old
    )
    postgres_server.execute("INSERT INTO chunk_vectors SELECT id FROM chunks", old)
    left = "SELECT id FROM chunks WHERE NOT (user_id = 'anna' AND node_id = 1) ORDER BY id"
    expected = postgres_server.execute(left, old)

    with Memory(postgres_server.url(old), user_id="anna") as memory:
        assert Knowledge(memory.transactions, user_id="anna").delete_node(1)

    assert postgres_server.execute("SELECT id FROM chunk_vectors ORDER BY id", old) == expected


def test_a_failed_upgrade_leaves_all_tables_as_they_were(
    postgres_server: Server, old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = layout(postgres_server, old), rows(postgres_server, old)
    broken = {**schema._OWN_UPGRADES, 7: (*schema._OWN_UPGRADES[7], "UPDATE no_such_table SET x = 1")}
    with monkeypatch.context() as patched:
        patched.setattr(schema, "_OWN_UPGRADES", broken)
        with pytest.raises(StoreError, match="a table is missing"):
            Memory(postgres_server.url(old))

    assert (layout(postgres_server, old), rows(postgres_server, old)) == before
    Memory(postgres_server.url(old)).close()


@pytest.mark.parametrize(
    "statement",
    [
        # Format 6: of every write, of a new memory, and of a new chunk.
        "INSERT INTO writes(key) VALUES(gen_random_uuid())",
        "INSERT INTO context_terms(id, timestamp, doc_len, usual, terms) VALUES(1, 1, 1, 16, '{t1_x}')",
        "INSERT INTO chunk_terms(id, doc_len, terms) VALUES(1, 1, '{t1_x}')",
    ],
)
def test_an_older_server_that_still_runs_is_told_why_it_cannot_write(
    postgres_server: Server, old: str, statement: str
) -> None:
    Memory(postgres_server.url(old)).close()

    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="update this one, and start it"):
        postgres_server.execute(statement, old)


def test_this_server_is_told_so_once_a_newer_one_has_upgraded(postgres_server: Server) -> None:
    name = postgres_server.new_schema()
    with Memory(postgres_server.url(name)) as memory:
        memory.set_fact("name", "Steve")
        postgres_server.execute(
            "ALTER TABLE writes DROP CONSTRAINT writes_format,"
            f" ADD CONSTRAINT writes_format CHECK (format > {USER_VERSION}) NOT VALID",
            name,
        )

        with pytest.raises(StoreError, match="a newer Shepherd has upgraded this database") as caught:
            memory.set_fact("name", "Stefan")

        assert caught.value.hint == "update this Shepherd, and start it again"
        assert memory.get_fact("name") == "Steve"


def test_an_edit_of_tables_with_newer_keys_is_refused_with_the_reason(postgres_server: Server) -> None:
    name = postgres_server.new_schema()
    with Memory(postgres_server.url(name), user_id="anna") as memory:
        stored = memory.store_memory("Which tea?", "Green")
        assert stored is not None
        postgres_server.execute(
            "ALTER TABLE context_terms DROP CONSTRAINT context_terms_pkey,"
            " ADD PRIMARY KEY(tenant, id, doc_len)",
            name,
        )

        with pytest.raises(StoreError, match="probably because a newer Shepherd has upgraded them") as caught:
            memory.edit_memory(stored, answer="Black")

        assert caught.value.hint == "update this Shepherd, and start it again"
        assert [result.answer for result in memory.search("tea")] == ["Green"]
