"""Databases of older versions: upgraded in place when they are opened, with every row, or left untouched."""

from __future__ import annotations

import pytest

from shepherd._native.store import Connection
from shepherd.errors import ShepherdError, StoreError
from shepherd.memory import FactPeriod, Memory
from shepherd.memory.postgres.database import Database as Server
from shepherd.memory.schema import UPGRADES, USER_VERSION
from tests.memory.conftest import NOW

# What version 2 added, taken away again.
TO_VERSION_1 = (
    "DROP TABLE learned",
    "ALTER TABLE facts DROP COLUMN valid_from",
    *(
        f"ALTER TABLE fact_history DROP COLUMN {name}"
        for name in ("valid_from", "statement", "session_id", "message_id")
    ),
)


def make_older(database: str) -> None:
    """Make a database of version 1 from one of today."""
    if "://" in database:
        server = Server(database)

        def work(connection):
            for statement in TO_VERSION_1:
                connection.run(statement)
            connection.execute("UPDATE meta SET value = 1 WHERE key = 'user_version'")

        server.write_locked("schema", work)
        server.close()
        return
    with Connection(database) as connection:
        for statement in (*TO_VERSION_1, "PRAGMA user_version = 1"):
            connection.execute(statement)


def columns(database: str) -> dict[str, set[str]]:
    """Columns of each table that the upgrade changes or makes."""
    tables = ("facts", "fact_history", "learned")
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
    broken = {USER_VERSION: (*UPGRADES[USER_VERSION][:-1], "UPDATE no_such_table SET x = 1")}
    with monkeypatch.context() as patched:
        patched.setattr("shepherd.memory.schema.UPGRADES", broken)
        patched.setattr("shepherd.memory.postgres.schema.UPGRADES", broken)
        with pytest.raises(ShepherdError):
            Memory(database)

    assert columns(database) == before
    with Memory(database, user_id="steve") as memory:
        assert memory.get_fact("name") == "Stefan"
