"""The memory behind PgBouncer in transaction mode: each transaction may get another of a few connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from shepherd.errors import StoreError
from shepherd.memory import Memory
from shepherd.memory.postgres import wire
from shepherd.memory.postgres.database import Database
from tests.memory.blind import known_key
from tests.pgbouncer import Pooler
from tests.postgres import NoServerError, Server

USERS = ("anna", "bob", "carol")


@pytest.fixture(scope="module")
def pooler(postgres_server: Server) -> Iterator[Pooler]:
    try:
        opened = Pooler(postgres_server)
    except NoServerError as error:
        pytest.skip(f"no PgBouncer: {error}")
    yield opened
    opened.close()


def use(address: str, n: int = 8, *, blind: bool = False) -> None:
    """Does what a conversation does, several users at once, and more of them than there are connections."""
    errors: list[BaseException] = []

    def talk(memory: Memory, user: str) -> None:
        try:
            for number in range(n):
                memory.store_memory(f"Which dog is number {number}?", f"{user}'s Rex {number}", user)
                memory.set_fact("dogs", str(number), user)
                found = memory.recall(f"dog number {number}", user)
                assert f"{user}'s Rex {number}" in found.tail
                assert f"dogs={number}" in found.tail
        except BaseException as error:
            errors.append(error)

    with Memory(address, blind=blind) as memory:
        threads = [threading.Thread(target=talk, args=(memory, user)) for user in USERS]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        memory.import_memories([{"question": f"line {i}?", "answer": f"text {i}"} for i in range(80)], "dora")
        assert memory.search("line 79", 1, "dora")[0].answer == "text 79"
        assert memory.check().problems == ()


def test_schemas_share_the_connections_and_leave_nothing_on_them(
    postgres_server: Server, pooler: Pooler
) -> None:
    one, other = postgres_server.new_schema(), postgres_server.new_schema()
    errors: list[BaseException] = []

    def use_other() -> None:
        try:
            use(pooler.url(other))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=use_other)
    thread.start()
    use(pooler.url(one))
    thread.join()

    assert errors == []
    counts = "SELECT user_id, n FROM tenants ORDER BY user_id"
    expected = [*((user, 8) for user in USERS), ("dora", 80)]
    assert postgres_server.execute(counts, one) == postgres_server.execute(counts, other) == expected
    left = "SELECT current_setting('search_path'), current_setting('statement_timeout'), count(name)"
    for _ in range(4):
        with psycopg.connect(pooler.url(), autocommit=True, prepare_threshold=None) as client:
            # Its own ones are of no harm.
            ours = "FROM pg_prepared_statements WHERE name NOT LIKE 'PGBOUNCER%'"
            assert client.execute(f"{left} {ours}").fetchall() == [('"$user", public', "0", 0)]


def test_a_blind_memory_shares_the_connections_with_a_readable_one(
    postgres_server: Server, pooler: Pooler, tmp_path: Path
) -> None:
    blind, readable = postgres_server.new_schema(), postgres_server.new_schema()
    errors: list[BaseException] = []

    def use_readable() -> None:
        try:
            use(pooler.url(readable))
        except BaseException as error:
            errors.append(error)

    with known_key(tmp_path):
        thread = threading.Thread(target=use_readable)
        thread.start()
        use(pooler.url(blind), blind=True)
        thread.join()

    assert errors == []
    texts = "SELECT count(*) FROM context WHERE user_message LIKE '%dog%' OR assistant_response LIKE '%Rex%'"
    expected = len(USERS) * 8
    assert [postgres_server.execute(texts, schema) for schema in (blind, readable)] == [[(0,)], [(expected,)]]


def test_statements_have_the_settings_of_a_session(postgres_server: Server, pooler: Pooler) -> None:
    settings = "SELECT current_schema(), current_setting('lock_timeout'), current_setting('jit')"
    schema = postgres_server.new_schema()
    with Memory(pooler.url(schema)) as memory:
        memory.set_fact("name", "Anna")
    database = Database(pooler.url(schema), patience_s=7)
    found = [
        database.look(settings, ()),
        database.read(lambda one: one.execute(settings)),
        database.write("anna", lambda one: one.execute(settings)),
    ]
    with database.reading() as connection:
        found.append(connection.execute(settings))
    database.close()

    assert found == [[(schema, "7s", "off")]] * 4


def test_statements_stay_prepared_if_the_pooler_prepares_them_where_they_are_used(pooler: Pooler) -> None:
    database = Database(pooler.url(), patience_s=7)
    with database.reading() as connection:  # the next one gets another connection
        connection.execute("SELECT 1")
        found = [database.look("SELECT ?::int + 1", (n,)) for n in range(3)]
    for raw in database._idle:
        assert raw.keeps_prepared == pooler.keeps_prepared
        assert bool(raw.prepared) == pooler.keeps_prepared
    for n in range(wire._MOST_PREPARED + 20):
        assert database.look(f"SELECT {n}", ()) == [(n,)]
    n_prepared = max(len(raw.prepared) for raw in database._idle)
    database.close()

    assert found == [[(1,)], [(2,)], [(3,)]]
    assert n_prepared == (wire._MOST_PREPARED if pooler.keeps_prepared else 0)


def test_options_in_an_address_are_refused_with_a_remedy(pooler: Pooler) -> None:
    with pytest.raises(StoreError, match="the pooler refuses a part of this address") as refused:
        Memory(f"{pooler.url()}&options=-c%20statement_timeout%3D5000")

    assert "remove options=" in refused.value.hint


def test_an_old_libpq_sends_one_statement_after_the_other(
    postgres_server: Server, pooler: Pooler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "_has_pipelines", lambda: False)

    use(pooler.url(postgres_server.new_schema()), n=2)


def test_a_restart_of_the_pooler_is_not_noticed(postgres_server: Server, pooler: Pooler) -> None:
    with Memory(pooler.url(postgres_server.new_schema())) as memory:
        memory.store_memory("Which dog?", "Rex")
        pooler.stop()
        pooler.start()
        assert [result.answer for result in memory.search("dog")] == ["Rex"]

        postgres_server.stop(at_once=True)
        postgres_server.start()
        memory.store_memory("Which cat?", "Tom")
        assert [result.answer for result in memory.search("cat")] == ["Tom"]


def test_a_memory_is_opened_once_the_server_behind_the_pooler_is_back(
    postgres_server: Server, pooler: Pooler
) -> None:
    address = pooler.url(postgres_server.new_schema())
    # Its log-in fails, as behind HAProxy without a leader.
    with psycopg.connect(postgres_server.url(database="template1"), autocommit=True) as other:
        other.execute("ALTER DATABASE postgres ALLOW_CONNECTIONS false")
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'")
        back = threading.Timer(0.3, other.execute, ["ALTER DATABASE postgres ALLOW_CONNECTIONS true"])
        log, before = pooler.folder / "log", (pooler.folder / "log").stat().st_size
        first = psycopg.connect(pooler.url())
        try:
            # The first client makes the pooler find that out, which then refuses others.
            first.pgconn.send_query(b"SELECT 1")
            deadline = time.monotonic() + 20
            while b"login failed" not in log.read_bytes()[before:] and time.monotonic() < deadline:
                time.sleep(0.01)
            with pytest.raises(StoreError, match="the pooler has no connection to its server"):
                Memory(f"{address}&failover_timeout=0")
        finally:
            first.close()
            back.start()
        with Memory(f"{address}&failover_timeout=30") as memory:
            memory.store_memory("Which dog?", "Rex")
            assert [result.answer for result in memory.search("dog")] == ["Rex"]
        back.join()


def test_without_a_pooler_statements_stay_prepared(postgres_server: Server) -> None:
    with Memory(postgres_server.url(postgres_server.new_schema())) as memory:
        memory.set_fact("name", "Anna")
        [raw] = memory._store._database._idle
        assert raw.local is None
        assert len(raw.prepared) > 3
