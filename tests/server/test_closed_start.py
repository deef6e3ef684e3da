"""A server that cannot look up its keys serves nobody: not without its memory, and not with --nomemory."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from shepherd._native.store import Connection
from shepherd.memory import Memory
from tests import programs
from tests.server.processes import ServerProcess, inherited

MODES = pytest.mark.parametrize("mode", [(), ("--session",)], ids=["requests", "session"])


@pytest.fixture
def home(tmp_path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def database(home) -> Path:
    path = home / ".local" / "share" / "shepherd" / "memory.db"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def key(database) -> str:
    with Memory(database) as memory:
        return memory.keys.create("anna", ["chat", "memory"])[0]


@pytest.fixture
def locked(database, key) -> Iterator[None]:
    with closing(Connection(database)) as other:
        # Against readers, too: in a WAL those of an ordinary transaction go on.
        other.script("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        yield


def refused_start(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = {**inherited(), "HOME": str(home), "SHEPHERD_SERVER_PORT": "0", **settings}
    return programs.run(
        [sys.executable, "-m", "shepherd", "serve", *arguments],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip


def statuses(server: ServerProcess, mode: tuple[str, ...], key: str) -> tuple[int, int]:
    """Of one who shows no key, and of one who shows this."""
    path = "/session" if mode else "/v1/models"
    with server.http() as stranger, server.http(Authorization=f"Bearer {key}") as owner:
        return stranger.get(path).status_code, owner.get(path).status_code


# With memory and without: each waits five seconds for the lock, all at once.
@pytest.mark.usefixtures("locked")
def test_a_database_that_is_locked_ends_the_start(home, database):
    starts = [(*memory, *mode) for memory in ((), ("--nomemory",)) for mode in ((), ("--session",))]
    with ThreadPoolExecutor(len(starts)) as pool:
        ended = list(pool.map(lambda arguments: refused_start(home, *arguments), starts))

    for arguments, done in zip(starts, ended, strict=True):
        assert done.returncode == 1, (arguments, done.stderr)
        assert str(database) in done.stderr, arguments
        assert "lock" in done.stderr, arguments
        assert "Traceback" not in done.stderr, arguments
        assert "listening" not in done.stdout, arguments


@MODES
def test_a_database_that_cannot_be_read_ends_the_start_without_memory_too(home, database, mode):
    database.write_bytes(b"not a database" * 1000)

    done = refused_start(home, "--nomemory", *mode)

    assert done.returncode == 1, done.stderr
    assert str(database) in done.stderr


@MODES
def test_a_server_without_memory_asks_for_the_keys_of_its_database(home, key, mode):
    with ServerProcess(home, "--nomemory", *mode, SHEPHERD_USER_ID="anna") as server:
        found = statuses(server, mode, key)
        with server.http(Authorization=f"Bearer {key}") as owner:
            memory = owner.get("/v1/facts").json()["error"]["code"]
        with server.http() as anybody:
            health = anybody.get("/health")

    assert found == (401, 200)
    assert memory == "no_memory"
    assert (health.status_code, health.json()["memory"]) == (200, "off")


def test_without_memory_no_database_is_made(home, database):
    with ServerProcess(home, "--nomemory") as server, server.http() as anybody:
        assert anybody.get("/v1/models").status_code == 200

    assert not database.exists()


@MODES
def test_a_database_that_can_only_be_read_is_served_to_its_keys(home, database, key, mode):
    database.chmod(stat.S_IREAD)
    database.parent.chmod(stat.S_IREAD | stat.S_IEXEC)
    try:
        with ServerProcess(home, *mode, SHEPHERD_USER_ID="anna") as server:
            found = statuses(server, mode, key)
    finally:
        database.parent.chmod(stat.S_IRWXU)

    assert found == (401, 200)


def test_a_name_for_others_without_any_key_is_warned_about(home, database, key):
    with ServerProcess(home, SHEPHERD_SERVER_HOSTS="shepherd.example.org") as server:
        with_a_key = server.log
    with ServerProcess(home.with_name("new"), SHEPHERD_SERVER_HOSTS="shepherd.example.org") as server:
        without = server.log

    assert "no API key" not in with_a_key
    assert "warning: there is no API key" in without
    assert "shepherd.example.org" in without
