"""Searches of a replica: no older than allowed, with everything that the process itself has stored."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from shepherd.errors import StoreError
from shepherd.memory import Memory
from shepherd.memory.postgres import commits
from shepherd.memory.postgres import replica as replicas
from shepherd.memory.postgres.commits import POSITION, without_header
from shepherd.memory.postgres.store import PostgresStore
from tests.postgres import Server

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def postgres_server(empty_postgres_server: Server) -> Server:
    return empty_postgres_server


@pytest.fixture(scope="module")
def standby(postgres_server: Server) -> Iterator[Server]:
    """A standby of the tests' server, which does not wait for it."""
    server = Server(postgres_server)
    postgres_server.execute("ALTER SYSTEM RESET ALL")
    # A primary that was away is found again at once.
    server.execute("ALTER SYSTEM SET wal_retrieve_retry_interval = '50ms'")
    for one in (postgres_server, server):
        one.execute("SELECT pg_reload_conf()")
    yield server
    server.close()


@pytest.fixture
def address(postgres_server: Server, standby: Server) -> Iterator[Callable[[int], str]]:
    """The address of an empty schema by the staleness that is allowed."""
    url = postgres_server.url(postgres_server.new_schema())
    yield lambda age_s: f"{url}&failover_timeout=0&max_staleness={age_s}&replicas={standby.folder}"
    if not standby.execute("SELECT pg_is_wal_replay_paused()")[0][0]:
        return
    standby.execute("SELECT pg_wal_replay_resume()")


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def asked(memory: Memory) -> replicas.Replica:
    store = memory._store
    assert isinstance(store, PostgresStore)
    assert store._replica is not None
    return store._replica


def catch_up(primary: Server, standby: Server, memory: Memory) -> None:
    """Waits until the standby shows what is committed, and the memory knows that."""
    [(place,)] = primary.execute("SELECT pg_current_wal_insert_lsn()::text")
    wait_until(lambda: standby.execute(f"SELECT pg_last_wal_replay_lsn() >= '{place}'") == [(True,)])
    asked(memory).ask_primary()


def answers(memory: Memory, words: str = "editor") -> list[str]:
    return [result.answer for result in memory.search(words, 5)]


def test_searches_go_on_while_the_primary_is_away(
    postgres_server: Server, standby: Server, address: Callable[[int], str]
) -> None:
    with Memory(address(60), user_id="anna") as memory, Memory(address(60), user_id="bob") as other:
        memory.store_memory("Which editor?", "Helix")
        memory.set_fact("name", "Anna")
        other.store_memory("Which editor?", "Emacs")
        other.store_memory("Which tea?", "Green")
        catch_up(postgres_server, standby, memory)
        asked(other).ask_primary()
        answers(memory)
        store = memory._store
        assert isinstance(store, PostgresStore)
        wait_until(lambda: store._recall.n_users == 1)  # answers by the index

        postgres_server.stop(at_once=True)
        try:
            assert answers(memory) == ["Helix"]
            recalled = memory.recall("my editor")
            assert [fact.value for fact in recalled.facts] == ["Anna"]
            assert [one.answer for one in recalled.results] == ["Helix"]
            assert answers(other) == ["Emacs"]  # by the tables: nothing was asked before
            with pytest.raises(StoreError, match=r"cannot be reached|lost"):
                memory.store_memory("Which tea?", "Black")
        finally:
            postgres_server.start()

        memory.store_memory("Which tea?", "White")
        assert answers(memory, "tea") == ["White"]


def test_a_process_sees_its_own_changes_before_the_replica_does(
    postgres_server: Server, standby: Server, address: Callable[[int], str]
) -> None:
    with Memory(address(60), user_id="anna") as memory, Memory(address(60), user_id="anna") as other:
        memory.store_memory("Which editor?", "Helix")
        catch_up(postgres_server, standby, memory)
        catch_up(postgres_server, standby, other)
        standby.execute("SELECT pg_wal_replay_pause()")

        memory.store_memory("Which editor for notes?", "Vim")
        memory.set_fact("name", "Anna")

        assert sorted(answers(memory)) == ["Helix", "Vim"]
        assert [fact.value for fact in memory.recall("my editor").facts] == ["Anna"]
        assert answers(other) == ["Helix"]  # of a minute ago, as it may

        standby.execute("SELECT pg_wal_replay_resume()")
        catch_up(postgres_server, standby, memory)
        assert sorted(answers(other)) == ["Helix", "Vim"]


@pytest.mark.parametrize(("giver", "taker"), [("anna", "bob"), ("bob", "anna")])
def test_a_process_sees_what_it_has_given_to_another_user(
    postgres_server: Server, standby: Server, address: Callable[[int], str], giver: str, taker: str
) -> None:
    with Memory(address(60), user_id=taker) as memory:
        memory.store_memory("Which editor?", "Helix", giver)
        memory.store_memory("Which tea?", "Green")
        catch_up(postgres_server, standby, memory)
        standby.execute("SELECT pg_wal_replay_pause()")

        assert memory.claim(giver).memories == 1

        assert answers(memory) == ["Helix"]
        assert memory.search("editor", user_id=giver) == []


def test_a_replica_that_is_too_far_behind_is_not_asked(
    postgres_server: Server, standby: Server, address: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Memory(address(60), user_id="anna") as memory, Memory(address(60), user_id="anna") as other:
        memory.store_memory("Which tea?", "Green")
        catch_up(postgres_server, standby, other)
        standby.execute("SELECT pg_wal_replay_pause()")
        memory.store_memory("Which editor?", "Helix")
        assert answers(other) == []

        since = time.monotonic()
        monkeypatch.setattr(replicas, "monotonic", lambda: time.monotonic() + 60.0)
        asked(other).ask_primary()

        assert answers(other) == ["Helix"]
        # Until then the log grew while nobody knew how long it was.
        assert not any(at < since for at, _ in asked(other)._known)


def test_a_replica_that_does_not_answer_is_left_alone(
    postgres_server: Server, standby: Server, address: Callable[[int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_ANSWER_S", 0.1)
    with Memory(address(60), user_id="anna") as memory:
        memory.store_memory("Which editor?", "Helix")
        catch_up(postgres_server, standby, memory)
        assert answers(memory) == ["Helix"]
        backends = "SELECT pid FROM pg_stat_activity WHERE application_name = 'shepherd'"
        stopped = [pid for (pid,) in standby.execute(backends)]
        assert stopped

        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert answers(memory) == ["Helix"]
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)


def test_an_idle_standby_at_the_end_of_a_page_of_the_log_is_current(
    postgres_server: Server, standby: Server, address: Callable[[int], str]
) -> None:
    with Memory(address(60), user_id="anna") as memory:
        memory.store_memory("Which editor?", "Helix")
        postgres_server.execute("SELECT pg_switch_wal()")
        [(end,)] = postgres_server.execute(POSITION)
        wait_until(lambda: standby.execute(POSITION)[0][0] >= without_header(end))

        asked(memory).ask_primary()

        assert standby.execute(POSITION)[0][0] < end
        asked(memory).accept(without_header(end), 0)


@pytest.mark.parametrize(
    ("place", "end"),
    [
        (8192 + 24, 8192),
        (8192 + 23, 8192 + 23),
        (8192 + 40, 8192 + 40),
        ((1 << 20) + 40, 1 << 20),
        ((1 << 20) + 24, 1 << 20),
        ((1 << 20) + 48, (1 << 20) + 48),
    ],
)
def test_headers_of_the_log_are_not_counted(place: int, end: int) -> None:
    assert without_header(place) == end


def test_changes_that_every_state_has_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "_MANY_WRITERS", 3)
    written = commits.Written(kept_s=0.0)
    for writer in ("anna", "bob", "carol", "dan"):
        written.note(writer, 8000)
        time.sleep(0.001)

    assert [written.of(writer) for writer in ("anna", "bob", "carol", "dan")] == [0, 0, 0, 8000]
