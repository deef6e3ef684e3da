"""Databases of older versions: upgraded in place when they are opened, with every row, or left untouched."""

from __future__ import annotations

import pytest

from shepherd._native.store import Connection
from shepherd._native.text import terms
from shepherd.errors import ShepherdError, StoreError
from shepherd.memory import FactPeriod, Memory, Turn
from shepherd.memory.postgres.database import Database as Server
from shepherd.memory.schema import UPGRADES, USER_VERSION
from tests.memory.conftest import NOW
from tests.postgres import ON_A_SERVER

# What version 7 made of the keys of a server, taken back.
TO_VERSION_6_ON_A_SERVER = (
    *(
        f"ALTER TABLE {name} DROP COLUMN tenant, ADD PRIMARY KEY(id)"
        for name in ("context_terms", "chunk_terms")
    ),
    *(
        f"ALTER TABLE {name} DROP CONSTRAINT {name}_pkey, ADD PRIMARY KEY(id)"
        for name in ("context", "chunks", "learned", "fact_history", "extraction_jobs")
    ),
    "DROP INDEX context_id",
    "ALTER TABLE writes DROP COLUMN format",
)
# What version 6 added, taken away again.
TO_VERSION_5_ON_A_SERVER = (*TO_VERSION_6_ON_A_SERVER, "ALTER TABLE context DROP COLUMN pairs")
TO_VERSION_5 = (
    "DROP INDEX context_docs",
    "ALTER TABLE context DROP COLUMN pairs",
    "CREATE INDEX context_docs ON context(id, timestamp, doc_len, thread, label, asks)",
)
# What version 2 added, taken away again; its index of words was of another version, too.
TO_VERSION_1 = (
    "UPDATE meta SET value = 3 WHERE key = 'tokenizer_version'",
    "DROP TABLE learned",
    "ALTER TABLE sessions DROP COLUMN title",
    "ALTER TABLE facts DROP COLUMN valid_from",
    *(
        f"ALTER TABLE fact_history DROP COLUMN {name}"
        for name in ("valid_from", "statement", "session_id", "message_id")
    ),
)

TO_VERSION_1_ON_A_SERVER = (
    "ALTER TABLE context_terms DROP COLUMN usual",
    "DROP TABLE context_changes",
    "DROP TABLE chunk_changes",
)


def make_older(database: str) -> None:
    """Make a database of version 1 from one of today."""
    if "://" in database:
        server = Server(database)

        def work(connection):
            for statement in (*TO_VERSION_5_ON_A_SERVER, *TO_VERSION_1, *TO_VERSION_1_ON_A_SERVER):
                connection.run(statement)
            connection.execute("UPDATE meta SET value = 1 WHERE key = 'user_version'")

        server.write_locked("schema", work)
        server.close()
        return
    with Connection(database) as connection:
        for statement in (*TO_VERSION_5, *TO_VERSION_1, "PRAGMA user_version = 1"):
            connection.execute(statement)


def columns(database: str) -> dict[str, set[str]]:
    """Columns of each table that the upgrade changes or makes."""
    tables = ("context", "facts", "fact_history", "learned", "sessions")
    tables += ("context_terms", "context_changes", "chunk_changes")
    if "://" in database:
        server = Server(database)
        found = server.read(
            lambda connection: connection.execute(
                "SELECT table_name::text, column_name::text || ' ' || data_type::text || is_nullable::text"
                " FROM information_schema.columns WHERE table_schema = ?",
                (server.schema,),
            )
        )
        server.close()
        return {table: {column for other, column in found if other == table} for table in tables}
    with Connection(database, read_only=True) as connection:
        return {
            table: {
                str(row)
                for row in connection.execute(
                    'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?)', (table,)
                )
            }
            for table in tables
        }


def fill(database: str) -> None:
    with Memory(database, user_id="steve", clock=lambda: NOW) as memory:
        memory.set_fact("name", "Steve")
        memory.set_fact("name", "Stefan")
        memory.store_memory("Which editor?", "Helix")
        memory.start_session()


def test_an_older_database_keeps_every_row(database: str) -> None:
    fill(database)
    new = columns(database)
    make_older(database)

    with Memory(database, user_id="steve", clock=lambda: NOW + 10) as memory:
        assert memory.get_fact("name") == "Stefan"
        assert [change.value for change in memory.fact_history()] == ["Steve", "Stefan"]
        assert memory.fact_periods("name")[-1] == FactPeriod(
            "name", "Stefan", int(NOW), None, "user", "", int(NOW)
        )
        assert memory.get_all_facts()[0].valid_from == int(NOW)
        assert [record.answer for record in memory.list_memories()] == ["Helix"]
        assert memory.learned() == []
        assert memory.check().problems == ()
        memory.set_fact("location", "Texas", source="tool")
        assert [item.kind for item in memory.learned()] == ["learned"]
    assert columns(database) == new


def test_an_older_database_is_not_changed_by_a_reader(database: str) -> None:
    fill(database)
    make_older(database)

    with pytest.raises(StoreError, match="an older Shepherd's database") as caught:
        Memory(database, read_only=True)

    assert caught.value.hint == "open it once for writing"
    assert not columns(database)["learned"]


def test_a_failed_upgrade_leaves_the_database_as_it_was(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database)
    make_older(database)
    before = columns(database)
    broken = {**UPGRADES, USER_VERSION: (*UPGRADES[USER_VERSION], "UPDATE no_such_table SET x = 1")}
    with monkeypatch.context() as patched:
        patched.setattr("shepherd.memory.schema.UPGRADES", broken)
        patched.setattr("shepherd.memory.postgres.schema.UPGRADES", broken)
        with pytest.raises(ShepherdError):
            Memory(database)

    assert columns(database) == before
    with Memory(database, user_id="steve") as memory:
        assert memory.get_fact("name") == "Stefan"


TO_VERSION_3 = (
    "DROP INDEX learned_number",
    "ALTER TABLE learned DROP COLUMN number",
    "DELETE FROM meta WHERE key LIKE 'learned_last/%'",
    # Numbers counted all items of all users.
    "UPDATE meta SET value = 3 WHERE key = 'learned_shown/steve'",
)


def test_items_of_an_older_database_are_numbered_by_user(database: str) -> None:
    with Memory(database, user_id="steve") as memory:
        for user, n in (("steve", 1), ("mary", 1), ("steve", 2), ("mary", 2), ("steve", 3)):
            memory.set_fact(f"key{n}", "x", user, source="tool")
            if (user, n) == ("steve", 2):
                memory.take_news()
    if "://" in database:
        server = Server(database)
        to_3 = (
            *TO_VERSION_5_ON_A_SERVER,
            *TO_VERSION_3,
            "UPDATE meta SET value = 3 WHERE key = 'user_version'",
        )
        server.write_locked("schema", lambda one: [one.run(sql) for sql in to_3] and None)
        server.close()
    else:
        with Connection(database) as connection:
            connection.script(";".join((*TO_VERSION_5, *TO_VERSION_3, "PRAGMA user_version = 3")))

    with Memory(database, user_id="steve") as memory:
        numbered = [(3, "key3"), (2, "key2"), (1, "key1")]
        assert [(item.id, item.key) for item in memory.learned()] == numbered
        assert [(item.id, item.key) for item in memory.learned(user_id="mary")] == numbered[1:]
        assert [item.key for item in memory.take_news()] == ["key3"]
        memory.set_fact("key4", "x", "mary", source="tool")
        assert memory.learned(1, user_id="mary")[0].id == 3


def test_memories_of_version_5_are_found_by_words_side_by_side(database: str) -> None:
    """The pairs of words that stand side by side came with version 6."""
    told = ["The red roof has a new gutter and the house a door", "The house got a red door and a new roof"]
    with Memory(database, user_id="steve", clock=lambda: NOW) as memory:
        for text in (*told, *(f"Bridge {n} is long" for n in range(9))):
            memory.archive_turn(Turn(text, "Noted."))
        before = [(found.question, found.score) for found in memory.search("red roof", 2)]
    if "://" in database:
        server = Server(database)
        to_5 = (*TO_VERSION_5_ON_A_SERVER, "UPDATE meta SET value = 5 WHERE key = 'user_version'")
        server.write_locked("schema", lambda one: [one.run(sql) for sql in to_5] and None)
        server.close()
    else:
        with Connection(database) as connection:
            connection.script(";".join((*TO_VERSION_5, "PRAGMA user_version = 5")))

    with Memory(database, user_id="steve", clock=lambda: NOW) as memory:
        assert [(found.question, found.score) for found in memory.search("red roof", 2)] == before
        assert memory.check().problems == ()
    assert [question for question, _ in before] == told


@ON_A_SERVER
def test_a_server_without_lists_of_changes_gets_them(database: str) -> None:
    """As version 2 had it before hot indexes over a server."""
    fill(database)
    new = columns(database)
    server = Server(database)
    server.write_locked(
        "schema", lambda one: [one.run(f"DROP TABLE {name}_changes") for name in ("context", "chunk")]
    )
    server.close()
    with pytest.raises(StoreError, match="an older Shepherd's database"):
        Memory(database, read_only=True)

    with Memory(database, user_id="steve") as memory:
        assert memory.clear_memory("Which editor?") == 1
    assert columns(database) == new


TALK = (
    ("My dog Rex barks all night, what can I do?", "A dog barks when it is bored. Walk the dog; see a vet."),
    ("It was the neighbour's cat.", "Then keep the curtains closed, so that your dog does not see that cat."),
    ("Remind me to buy food for Rex", ""),
)
OF_TABLES = {
    "context": "SELECT id, doc_len, label, asks, thread FROM context ORDER BY id",
    "tenants": "SELECT number, n, total_length FROM tenants ORDER BY number",
    "terms": "SELECT id, doc_len, usual, terms, repeated, counts FROM context_terms ORDER BY id",
}


def rows(database: str) -> dict[str, list[tuple[object, ...]]]:
    """The rows that ranking reads, by table."""
    if "://" not in database:
        with Connection(database, read_only=True) as connection:
            return {name: connection.execute(OF_TABLES[name]) for name in ("context", "tenants")}
    server = Server(database)
    found = server.read(lambda one: {name: one.execute(sql) for name, sql in OF_TABLES.items()})
    server.close()
    return found


def count_as_before(database: str) -> None:
    """Count the words of an assistant as those of a person, as tokenizer version 3 did."""
    with Memory(database, user_id="steve") as memory:
        lengths = {
            one.id: len(terms(one.question)) + len(terms(one.answer)) for one in memory.list_memories()
        }
    statements = [
        *(f"UPDATE context SET doc_len = {n}, asks = asks & 3 WHERE id = {i}" for i, n in lengths.items()),
        f"UPDATE tenants SET total_length = {sum(lengths.values())}",
    ]
    if "://" not in database:
        with Connection(database) as connection:
            connection.script(";".join(statements))
        return
    server = Server(database)
    server.write_locked("schema", lambda one: [one.run(sql) for sql in statements] and None)
    server.close()


def test_memories_of_an_older_database_are_counted_as_new_ones(database: str) -> None:
    with Memory(database, user_id="steve", clock=lambda: NOW) as memory:
        for number, (question, answer) in enumerate(TALK):
            memory.archive_turn(Turn(question, answer, NOW - 60 + number, "s"))
        memory.store_memory("Who is Rex?", "the dog of Anna")
        found = memory.search("what does the dog of the neighbour see")
    before = rows(database)
    count_as_before(database)
    assert rows(database)["tenants"] != before["tenants"]
    make_older(database)

    with Memory(database, user_id="steve", clock=lambda: NOW) as memory:
        assert memory.search("what does the dog of the neighbour see") == found
        assert memory.check().problems == ()
    assert rows(database) == before
