"""Tables of the original Shepherd in PostgreSQL: what becomes of them when they are opened here."""

from __future__ import annotations

import logging

import pytest

from shepherd.errors import ForeignDatabaseError, ShepherdError, StoreError, StoreMissingError
from shepherd.memory import Memory
from shepherd.memory.memories import content_hash
from tests.postgres import Server

# As the original made them.
CONTEXT = """CREATE TABLE {table} (
    id BIGSERIAL PRIMARY KEY,
    user_message TEXT NOT NULL,
    assistant_response TEXT NOT NULL,
    timestamp BIGINT NOT NULL,
    content_hash CHAR(64) UNIQUE NOT NULL,
    user_id TEXT NOT NULL DEFAULT 'local',
    search_vector TSVECTOR GENERATED ALWAYS AS (
        setweight(to_tsvector('english', user_message), 'A') ||
        setweight(to_tsvector('english', assistant_response), 'B')
    ) STORED
);
CREATE INDEX {table}_search_idx ON {table} USING GIN(search_vector);
CREATE INDEX {table}_timestamp_idx ON {table}(timestamp);
CREATE INDEX {table}_user_id_idx ON {table}(user_id)"""
FACTS = """CREATE TABLE facts (
    user_id TEXT NOT NULL DEFAULT 'local',
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, key)
)"""
TOLD = [
    (1_700_000_200, "steve", "Which editor?", "Helix, since Tuesday."),
    (1_700_000_100, "steve", "What is my dog's name?", "Rex. Café 💡"),
    (1_700_000_300, "anna", "Where do I live?", "In Oslo."),
]


@pytest.fixture
def schema(postgres_server: Server) -> str:
    name = postgres_server.new_schema()
    postgres_server.execute(f"CREATE SCHEMA {name}")
    return name


def fill(server: Server, schema: str, table: str, told) -> None:
    for timestamp, user, question, answer in told:
        texts = ", ".join("'" + text.replace("'", "''") + "'" for text in (question, answer, user))
        server.execute(
            f"INSERT INTO {table}(timestamp, content_hash, user_message, assistant_response, user_id)"
            f" VALUES ({timestamp}, '{content_hash(question, answer)}', {texts})",
            schema,
        )


@pytest.fixture
def original(postgres_server: Server, schema: str) -> str:
    """The address of a schema that the original has used."""
    postgres_server.execute(CONTEXT.format(table="context"), schema)
    postgres_server.execute(FACTS, schema)
    fill(postgres_server, schema, "context", TOLD)
    postgres_server.execute(
        "INSERT INTO facts VALUES ('steve', 'name', 'Steve', 1700000000, 1700000050)", schema
    )
    return postgres_server.url(schema)


def test_everything_is_found_after_it_was_opened_once(original, postgres_server, schema, caplog) -> None:
    with caplog.at_level(logging.WARNING), Memory(original, user_id="steve") as memory:
        assert memory.get_fact("name") == "Steve"
        assert memory.search("Which editor?")[0].answer == "Helix, since Tuesday."
        assert memory.search("dog's name")[0].answer == "Rex. Café 💡"
        assert memory.search("dog's name")[0].timestamp == 1_700_000_100
        assert memory.search("Where do I live?", user_id="anna")[0].answer == "In Oslo."
        assert (memory.count_memories(), memory.check().problems) == (2, ())

    assert "3 memories (0 duplicates skipped), 1 fact" in caplog.text
    assert "kept as context_before_migration and facts_before_migration" in caplog.text
    kept = postgres_server.execute("SELECT count(*) FROM context_before_migration", schema)
    assert (kept, postgres_server.execute("SELECT value FROM facts_before_migration", schema)) == (
        [(3,)],
        [("Steve",)],
    )


def test_opening_twice_changes_nothing(original) -> None:
    for _ in range(2):
        with Memory(original, user_id="steve") as memory:
            memory.set_fact("name", "Stephen")
            assert memory.count_memories() == 2

    with Memory(original, user_id="steve") as memory:
        assert memory.get_fact("name") == "Stephen"


def test_conversations_of_an_earlier_version_come_too_and_each_once(
    original, postgres_server, schema
) -> None:
    postgres_server.execute(CONTEXT.format(table="conversations"), schema)
    fill(
        postgres_server, schema, "conversations", [*TOLD[:1], (1_600_000_000, "steve", "And cats?", "None.")]
    )

    with Memory(original, user_id="steve") as memory:
        assert memory.count_memories() == 3
        assert memory.search("cats")[0].answer == "None."


def test_conversations_alone_are_the_originals(postgres_server, schema) -> None:
    postgres_server.execute(CONTEXT.format(table="conversations"), schema)
    fill(postgres_server, schema, "conversations", TOLD)

    with Memory(postgres_server.url(schema), user_id="steve") as memory:
        assert memory.count_memories() == 2


def test_more_rows_than_a_page_keep_their_order(postgres_server, schema) -> None:
    postgres_server.execute(CONTEXT.format(table="context"), schema)
    postgres_server.execute(
        "INSERT INTO context(timestamp, content_hash, user_message, assistant_response)"
        " SELECT (1700000000 - i) * 1000::bigint, i, 'question ' || i, 'answer ' || i"
        " FROM generate_series(1, 450) i",
        schema,
    )

    with Memory(postgres_server.url(schema), user_id="local") as memory:
        assert memory.count_memories() == 450
        ids = postgres_server.execute("SELECT user_message, timestamp FROM context ORDER BY id", schema)

    assert ids == [(f"question {i}", 1_700_000_000 - i) for i in range(450, 0, -1)]


def test_reading_alone_says_what_it_is_and_changes_nothing(original, postgres_server, schema) -> None:
    with pytest.raises(StoreMissingError, match="an older Shepherd's memory") as caught:
        Memory(original, read_only=True)

    assert caught.value.hint == "open it once for writing"
    assert postgres_server.execute("SELECT count(*) FROM context", schema) == [(3,)]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE context ADD COLUMN mood TEXT",
        "ALTER TABLE facts ADD COLUMN mood TEXT",
        "ALTER TABLE context DROP COLUMN assistant_response CASCADE",
        "ALTER TABLE context ALTER COLUMN timestamp TYPE timestamptz USING to_timestamp(timestamp)",
        "CREATE TABLE messages(id BIGINT)",
    ],
)
def test_tables_that_differ_are_another_programs_and_stay(original, postgres_server, schema, change) -> None:
    postgres_server.execute(change, schema)

    with pytest.raises(ForeignDatabaseError, match="another program"):
        Memory(original)

    assert postgres_server.execute("SELECT count(*) FROM context", schema) == [(3,)]


def test_what_fails_half_way_leaves_all_as_it_was(original, postgres_server, schema) -> None:
    postgres_server.execute("CREATE SEQUENCE tenants", schema)  # its name is taken when ours is made

    with pytest.raises(ShepherdError):
        Memory(original)

    assert postgres_server.execute("SELECT count(*) FROM context", schema) == [(3,)]
    postgres_server.execute("DROP SEQUENCE tenants", schema)
    with Memory(original, user_id="steve") as memory:
        assert memory.count_memories() == 2


def test_role_that_does_not_own_the_tables_is_told_so(original, postgres_server, schema) -> None:
    role = f"guest_{schema}"
    postgres_server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    postgres_server.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {role}")
    postgres_server.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")

    with pytest.raises(StoreError) as caught:
        Memory(postgres_server.url(schema, user=role, password="x"))

    assert "belong to another role" in str(caught.value)
    assert caught.value.hint == "ALTER TABLE context OWNER TO …; ALTER TABLE facts OWNER TO …"
    assert postgres_server.execute("SELECT count(*) FROM context", schema) == [(3,)]


def test_secrets_are_left_out_and_counted(original, postgres_server, schema, caplog) -> None:
    postgres_server.execute(
        "INSERT INTO facts VALUES ('steve', 'wifi_password', 'greenTree19', 1700000000, 1700000050)", schema
    )
    fill(
        postgres_server, schema, "context", [(1_700_000_400, "steve", "My password is Tr0ub4dor&3", "Noted.")]
    )

    with caplog.at_level(logging.WARNING), Memory(original, user_id="steve") as memory:
        assert [fact.key for fact in memory.get_all_facts()] == ["name"]
        assert memory.count_memories() == 2

    assert "2 with passwords, keys or other secrets were skipped" in caplog.text
