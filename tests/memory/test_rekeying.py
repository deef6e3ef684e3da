"""Another key for a blind memory: everything as before, for the new key alone, whatever interrupts it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.encryption import MemoryKey, use_settings
from shepherd.encryption.blinding import PREFIX
from shepherd.encryption.unlocking import forget_all
from shepherd.errors import StoreError, StoreKeyError
from shepherd.memory import Memory, hot
from shepherd.memory.postgres.blind_columns import COLUMNS, REFUSED, WITH_TEXTS
from shepherd.memory.postgres.rekeying import rekey
from tests import programs
from tests.memory.blind import known_key, rows_of
from tests.memory.canaries import USER, Canaries
from tests.memory.histories import NOW, found
from tests.memory.test_blind import FIRST, fill, known, make_older
from tests.postgres import Server

NEW_KEY = "cd" * 32
SALT = b"another salt now"
NEW = MemoryKey(bytes.fromhex(NEW_KEY), SALT)


@pytest.fixture(autouse=True)
def key(tmp_path: Path) -> Iterator[Path]:
    with known_key(tmp_path) as file:
        yield file


@pytest.fixture
def schema(postgres_server: Server) -> str:
    return postgres_server.new_schema()


@pytest.fixture
def url(postgres_server: Server, schema: str) -> str:
    return postgres_server.url(schema)


def opened(url: str) -> Memory:
    return Memory(url, user_id=USER, blind=True, clock=lambda: NOW)


def use_new_key(folder: Path) -> None:
    forget_all()
    (folder / "new.key").write_text(NEW_KEY)
    use_settings("", str(folder / "new.key"))


def contents(memory: Memory) -> list[object]:
    """Everything of two users, with what is computed from it."""
    return [
        *(known(memory, user) for user in (USER, "anna")),
        *(found(memory, "iron anchor number town", user) for user in (USER, "anna")),
        memory.ledger.find(["a request", "another"], USER),
        memory.extraction.jobs(USER),
        [(item.id, item.statement, item.state) for item in memory.learned(user_id=USER)],
        memory.list_sessions(user_id=USER),
    ]


def filled(url: str) -> list[object]:
    with opened(url) as memory:
        for user in (USER, "anna"):
            fill(memory, user)
        return contents(memory)


@pytest.mark.parametrize("version", [FIRST, FIRST + 1, FIRST + 2])
def test_everything_is_as_before_and_only_the_new_key_opens_it(
    postgres_server: Server, schema: str, url: str, tmp_path: Path, version: int
) -> None:
    Memory(url, blind=True).close()
    make_older(postgres_server, schema, version)
    before = filled(url)
    stored = rows_of(postgres_server, schema)

    rekey(url, NEW)

    forget_all()
    with pytest.raises(StoreKeyError, match="is not its key"):
        Memory(url, blind=True)
    use_new_key(tmp_path)
    with opened(url) as memory:
        assert memory.check().problems == ()
        assert contents(memory) == before
        memory.set_fact("city", "Porto")
        assert memory.get_fact("city") == "Porto"
    # Texts, and arrays of words.
    values = {part for part in stored.split() if part.startswith((PREFIX.encode(), b"{")) and len(part) > 16}
    assert len(values) > 50
    rows = rows_of(postgres_server, schema)
    assert [part for part in values if part in rows] == []
    [(number,)] = postgres_server.execute("SELECT value FROM meta WHERE key = 'application_id'", schema)
    assert number == FIRST + 2
    # Each user has a new key, and so had each in a memory of the third version.
    keys = dict(postgres_server.execute("SELECT user_id, encode(wrapped, 'hex') FROM user_keys", schema))
    assert sorted(keys) == ["anna", USER]
    assert not any(key.encode() in stored for key in keys.values())


def test_every_column_with_a_text_is_written_again() -> None:
    computed = {
        ("context", "label"),
        ("context", "pairs"),
        ("context_terms", "terms"),
        ("context_terms", "repeated"),
    }
    hidden = {
        (table, name)
        for table, columns in COLUMNS.items()
        for name, kind in columns.items()
        if kind.is_hidden and table not in REFUSED
    }
    assert {(table.name, name) for table in WITH_TEXTS for name in table.texts} == hidden - computed


def test_all_words_of_all_features_are_found_with_the_new_key(
    postgres_server: Server, schema: str, url: str, tmp_path: Path
) -> None:
    with Memory(url, user_id=USER, blind=True, keeps_secrets=True) as memory:
        canaries = Canaries(memory, seed=917)
        canaries.store_memories()
        canaries.store_facts()
        canaries.store_conversation()
        asked = [word for word in canaries.given if memory.tables_with([word])]
    assert len(asked) > 20

    rekey(url, NEW)

    use_new_key(tmp_path)
    with opened(url) as memory:
        assert all(memory.tables_with([word]) for word in asked)
    rows = rows_of(postgres_server, schema)
    assert not any(word.encode() in rows for word in asked)


def test_a_program_that_has_the_old_key_stores_nothing_and_is_told(
    postgres_server: Server, schema: str, url: str
) -> None:
    filled(url)
    with opened(url) as memory:
        assert memory.get_fact("city")
        rekey(url, NEW)
        rows = rows_of(postgres_server, schema)
        for change in (
            lambda: memory.set_fact("boat", "red"),
            lambda: memory.store_memory("Which sextant?", "The brass one"),
            lambda: memory.import_memories([{"question": f"q {n}", "answer": "a"} for n in range(80)]),
            lambda: memory.start_session(name="new"),
            lambda: memory.clear_fact("city"),
        ):
            with pytest.raises(StoreError, match=r"key was changed in the meantime|text was changed"):
                change()
        with pytest.raises(StoreError, match="key was changed in the meantime"):
            memory.get_all_facts()
    assert rows_of(postgres_server, schema) == rows


@pytest.mark.parametrize(
    "harm",
    [
        # A text of another user must not become a genuine one.
        "UPDATE context c SET user_message = o.user_message FROM context o WHERE o.user_id <> c.user_id",
        "UPDATE facts f SET value = o.value FROM facts o WHERE o.user_id = f.user_id AND o.key <> f.key",
        "UPDATE messages SET session_id = 'gone'",
    ],
)
def test_a_memory_that_was_changed_keeps_its_key(
    postgres_server: Server, schema: str, url: str, harm: str
) -> None:
    filled(url)
    postgres_server.execute(harm, schema)
    rows = rows_of(postgres_server, schema)

    with pytest.raises(StoreError):
        rekey(url, NEW)

    assert rows_of(postgres_server, schema) == rows


def test_saved_indexes_of_the_old_key_do_no_harm(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)
    with opened(url) as memory:
        for n in range(60):
            memory.store_memory(f"Which wombat is {n}?", "numbat")
        expected = memory.search("wombat 7")
    rekey(url, NEW)
    use_new_key(tmp_path)
    with opened(url) as memory:
        assert memory.search("wombat 7") == expected


_CHILD = """
import sys
from shepherd.encryption import MemoryKey, use_settings
from shepherd.memory.postgres.rekeying import rekey
use_settings("", sys.argv[2])
print("begins", flush=True)
rekey(sys.argv[1], MemoryKey(bytes.fromhex(sys.argv[3]), bytes.fromhex(sys.argv[4])))
"""


def test_a_kill_at_any_moment_leaves_the_old_or_the_new_memory(url: str, tmp_path: Path, key: Path) -> None:
    before = filled(url)
    generator = random.Random(31)
    now, n_changed, took = key, 0, 0.0
    # The first one is not killed, and shows how long it takes; the second one is killed as it begins.
    for share in (None, 0.0, *(generator.uniform(0, 1.2) for _ in range(KILLS))):
        text = generator.randbytes(32).hex()
        new = tmp_path / f"{text[:8]}.key"
        new.write_text(text)
        child = programs.Popen(
            [sys.executable, "-c", _CHILD, url, str(now), text, generator.randbytes(16).hex()],
            stdout=subprocess.PIPE,
            env=programs.in_utf8(),
        )
        assert child.stdout is not None
        child.stdout.readline()
        began = time.monotonic()
        if share is not None:
            time.sleep(share * took)
            os.kill(child.pid, signal.SIGKILL)
        child.wait()
        took = took or time.monotonic() - began
        child.stdout.close()
        forget_all()
        use_settings("", str(now))
        try:
            Memory(url, blind=True).close()
        except StoreKeyError:
            now, n_changed = new, n_changed + 1
            use_settings("", str(now))
        with opened(url) as memory:
            assert memory.check().problems == ()
            assert contents(memory) == before
    assert 1 <= n_changed <= KILLS + 1


KILLS = 8
