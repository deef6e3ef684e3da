"""Another server takes over: clients wait for it, and neither lose nor double what they store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from shepherd.errors import StoreError
from shepherd.memory import Memory
from tests.pgbouncer import Pooler
from tests.postgres import NoServerError, Server

N_STORED = 60


@pytest.fixture(scope="module")
def postgres_server(empty_postgres_server: Server) -> Server:
    return empty_postgres_server


@pytest.fixture
def standby(postgres_server: Server) -> Iterator[Server]:
    """A standby of the tests' server, which stands alone again afterwards."""
    server = Server(postgres_server)
    yield server
    server.close()
    postgres_server.stop()
    postgres_server.start()
    postgres_server.execute("ALTER SYSTEM RESET ALL")
    postgres_server.execute("SELECT pg_reload_conf()")


def store_while(address: str, take_over: Callable[[], None]) -> None:
    """Stores memories in two threads while another server takes over; each must be there once."""
    stored: list[int | None] = []
    errors: list[BaseException] = []

    def write(memory: Memory, user: str) -> None:
        try:
            for n in range(N_STORED):
                stored.append(memory.store_memory(f"question {n}?", f"answer {n}", user))
                assert memory.search(f"answer {n}", 1, user)
        except BaseException as error:
            errors.append(error)

    with Memory(address, relevance_threshold=0) as memory:
        threads = [threading.Thread(target=write, args=(memory, user)) for user in ("anna", "bob")]
        for thread in threads:
            thread.start()
        while len(stored) < N_STORED // 2 and any(thread.is_alive() for thread in threads):
            threads[0].join(0.01)
        take_over()
        for thread in threads:
            thread.join()

    assert errors == []
    with Memory(address) as memory:
        there = [one.id for user in ("anna", "bob") for one in memory.list_memories(user, limit=1000)]
        assert sorted(there) == sorted(stored)
        assert memory.check().problems == ()
    assert len(set(there)) == 2 * N_STORED


def test_the_next_host_takes_over_when_the_first_is_lost(postgres_server: Server, standby: Server) -> None:
    # The one that cannot be written comes first.
    hosts = f"host={standby.folder},{postgres_server.folder}"
    address = f"postgresql://postgres@/postgres?{hosts}&schema={postgres_server.new_schema()}"

    def take_over() -> None:
        postgres_server.stop(at_once=True)
        with Memory(address, read_only=True) as memory:
            assert memory.count_memories("anna") > 0
        with pytest.raises(StoreError, match="none of these servers can be written"):
            Memory(f"{address}&failover_timeout=0")
        standby.execute("SELECT pg_promote()")

    store_while(address, take_over)


def test_a_server_that_cannot_be_written_for_a_while_is_waited_for(postgres_server: Server) -> None:
    try:
        pooler = Pooler(postgres_server)
    except NoServerError as error:
        pytest.skip(f"no PgBouncer: {error}")

    def take_over() -> None:
        # The pooler's clients stay connected.
        postgres_server.stop(at_once=True)
        (postgres_server.folder / "data" / "standby.signal").touch()
        postgres_server.start()
        threading.Event().wait(0.2)
        postgres_server.execute("SELECT pg_promote()")

    try:
        address = f"{pooler.url(postgres_server.new_schema())}&failover_timeout=30"
        store_while(address, take_over)
    finally:
        pooler.close()
