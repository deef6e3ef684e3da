"""The connection to a server breaks during a commit: a write is stored once, and nothing is reported."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from shepherd.errors import StoreError
from shepherd.memory.postgres import PostgresStore, commits
from shepherd.memory.postgres.database import Connection
from shepherd.memory.records import NewMemory
from tests.postgres import Server
from tests.postgres_proxy import BreakingProxy, Moment

REX = NewMemory("Which dog?", "Rex", 1_700_000_000, "user")
# A commit that takes a while, as one that waits for a standby.
SLOW = """CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.3); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON context DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION wait()"""


@pytest.fixture(scope="module")
def proxy(postgres_server: Server) -> Iterator[BreakingProxy]:
    opened = BreakingProxy(postgres_server)
    yield opened
    opened.close()


@pytest.fixture
def schema(postgres_server: Server) -> str:
    return postgres_server.new_schema()


@pytest.fixture
def store(proxy: BreakingProxy, schema: str) -> Iterator[PostgresStore]:
    proxy.is_open = True
    opened = PostgresStore(proxy.url(schema), busy_timeout_s=2)
    yield opened
    opened.close()


def write(store: PostgresStore, proxy: BreakingProxy, moment: Moment, *, stays_away: bool = False) -> int:
    """Stores a memory while the connection breaks at its commit; returns how often it was tried."""
    tries = 0

    def work(connection: Connection) -> list[tuple[int, bool]]:
        nonlocal tries
        tries += 1
        stored = store.terms.add(connection, "steve", [REX])
        connection.execute("UPDATE tenants SET edits = edits + 1")
        if tries == 1:
            proxy.lose(moment, stays_away=stays_away)
        return stored

    assert [is_new for _, is_new in store.write("steve", work)] == [True]
    return tries


@pytest.mark.parametrize(("moment", "tries"), [("before", 2), ("during", 1), ("after", 1)])
def test_a_commit_without_an_answer_is_looked_up(
    postgres_server: Server,
    store: PostgresStore,
    proxy: BreakingProxy,
    schema: str,
    moment: Moment,
    tries: int,
) -> None:
    if moment == "during":
        postgres_server.execute(SLOW, schema)

    assert write(store, proxy, moment) == tries

    assert postgres_server.execute("SELECT user_id, n, edits FROM tenants", schema) == [("steve", 1, 1)]
    assert store.check(False).problems == ()


@pytest.mark.parametrize(("moment", "tries"), [("before", 2), ("after", 1)])
def test_it_is_looked_up_again_if_the_look_up_gets_no_answer_either(
    postgres_server: Server,
    store: PostgresStore,
    proxy: BreakingProxy,
    schema: str,
    monkeypatch: pytest.MonkeyPatch,
    moment: Moment,
    tries: int,
) -> None:
    has_arrived = commits.Write.has_arrived
    n_lost = 0

    def lost_once(write: commits.Write, connection: Connection) -> bool:
        nonlocal n_lost
        if write.is_in_doubt and not n_lost:
            n_lost += 1
            proxy.lose("before")
        return has_arrived(write, connection)

    monkeypatch.setattr(commits.Write, "has_arrived", lost_once)

    assert write(store, proxy, moment) == tries

    assert n_lost == 1
    assert postgres_server.execute("SELECT user_id, n, edits FROM tenants", schema) == [("steve", 1, 1)]


def test_a_server_that_is_lost_after_the_commit_is_no_failure_of_the_write(
    store: PostgresStore, proxy: BreakingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store._database._outage_s = 0.2
    keep = store._limit.keep

    def lost(*arguments: Any) -> None:
        proxy.lose("before", stays_away=True)
        keep(*arguments)

    monkeypatch.setattr(store._limit, "keep", lost)

    [(memory_id, is_new)] = store.add_memories("steve", [REX])

    assert is_new
    proxy.is_open = True
    assert store.read(lambda one: one.execute("SELECT id FROM context")) == [(memory_id,)]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_it_is_reported_only_if_the_server_stays_away(
    postgres_server: Server, store: PostgresStore, proxy: BreakingProxy, schema: str, moment: Moment
) -> None:
    store._database._outage_s = 0.2

    with pytest.raises(StoreError, match="may or may not be stored"):
        write(store, proxy, moment, stays_away=True)

    stored = postgres_server.execute("SELECT count(*) FROM context", schema)
    assert stored == [(1 if moment == "after" else 0,)]


def test_only_a_change_leaves_a_key_and_old_keys_are_deleted(
    postgres_server: Server, store: PostgresStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def n_keys() -> int:
        [(n,)] = postgres_server.execute("SELECT count(*) FROM writes", schema)
        return int(n)

    before = n_keys()
    store.write("steve", lambda one: one.execute("UPDATE facts SET value = '' WHERE key = 'none'"))
    store.write("steve", lambda one: one.execute("SELECT count(*) FROM facts"))
    assert n_keys() == before
    store.add_memories("steve", [REX])
    assert n_keys() == before + 1

    postgres_server.execute(f"UPDATE writes SET written_at = written_at - {commits._KEPT_S + 1}", schema)
    postgres_server.execute("INSERT INTO writes(key, format) SELECT gen_random_uuid(), 99", schema)
    monkeypatch.setattr(store._database._cleaning, "_next", 0.0)
    store.add_memories("steve", [NewMemory("Which cat?", "Tom", 1_700_000_000, "user")])
    assert n_keys() == 2


def test_keys_are_cleaned_at_most_once_in_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [5000.0]
    monkeypatch.setattr(commits, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    cleaning = commits.Cleaning()

    cleaned = []
    for seconds in (0, 599, 1, 1, 598, 1, 1300, 0):
        clock[0] += seconds
        cleaned.append(bool(cleaning.due()))

    assert cleaned == [False, False, True, False, False, True, True, False]
