"""An encrypted memory: it works as a plain one, and says what is wrong when it cannot be opened."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shepherd._native.store import HAS_CIPHERS
from shepherd.encryption import KeyEntry, MemoryKey, new_salt, set_asker, use_settings
from shepherd.encryption.key import Argon2, master_key
from shepherd.encryption.key_file import key_file_of
from shepherd.encryption.unlocking import forget_all
from shepherd.errors import (
    ForeignDatabaseError,
    StoreCorruptError,
    StoreError,
    StoreKeyError,
    StoreLockedError,
    UsageError,
)
from shepherd.memory import Memory, hot
from shepherd.memory.conversion import convert, database_to_convert
from shepherd.memory.restore import check_backup, restore
from tests.keyrings import keyring_in_memory
from tests.memory.canaries import files_with

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

PASSPHRASE = "correct horse battery"
CANARY = "canary4711"
CHEAP = Argon2(memory_kib=64, passes=1, lanes=1)


@pytest.fixture(autouse=True)
def no_key_is_known() -> Iterator[None]:
    yield
    set_asker(None)
    use_settings("", "")
    forget_all()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory with a memory, a fact and a conversation, in a folder of its own."""
    path = tmp_path / "data" / "memory.db"
    with Memory(path, user_id="steve") as memory:
        memory.store_memory(f"Which bird is {CANARY}?", "a finch")
        memory.set_fact("bird", CANARY)
    return path


def encrypt(path: Path, passphrase: str | None = PASSPHRASE) -> bool:
    """Encrypt with a passphrase, or decrypt; no key is known afterwards."""
    file, old = database_to_convert(path)
    new = entry = None
    if passphrase is not None:
        salt = new_salt()
        new = MemoryKey(master_key(passphrase, salt, CHEAP), salt)
        entry = KeyEntry(salt, "passphrase", new.check, "", CHEAP)
    is_gone = convert(file, old, new, entry)
    forget_all()
    return is_gone


def answer(*passphrases: str) -> list[str]:
    """Let these be typed in turn; returns the questions that are asked."""
    asked: list[str] = []
    waiting = list(passphrases)

    def ask(question: str) -> str | None:
        asked.append(question)
        return waiting.pop(0) if waiting else None

    set_asker(ask)
    return asked


def contents(path: Path) -> tuple[list[str], list[str]]:
    with Memory(path, user_id="steve") as memory:
        assert memory.check().problems == ()
        return [fact.value for fact in memory.get_all_facts()], [
            result.question for result in memory.search("finch bird")
        ]


def found_in(folder: Path) -> set[str]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {file.name for file in files if CANARY.encode() in file.read_bytes()}


# ---- as a plain memory


def test_memory_is_the_same_after_every_conversion(path: Path) -> None:
    before = contents(path)
    assert "memory.db" in found_in(path.parent)

    encrypt(path)
    assert found_in(path.parent) == set()
    asked = answer(PASSPHRASE, "another passphrase")
    assert contents(path) == before
    assert len(asked) == 1  # once per process

    encrypt(path, "another passphrase")
    assert contents(path) == before

    encrypt(path, None)
    assert contents(path) == before
    assert sorted(os.listdir(path.parent)) == ["memory.db"]
    assert path.read_bytes().startswith(b"SQLite format 3\0")


def test_nothing_can_be_read_while_the_memory_is_used(path: Path) -> None:
    encrypt(path)
    answer(PASSPHRASE)

    with Memory(path, user_id="steve") as memory:
        assert memory.stats().is_encrypted
        for i in range(50):
            memory.store_memory(f"{CANARY} {i}", f"a bird with the number {i} {CANARY}")
        assert os.path.getsize(f"{path}-wal") > 0
        assert found_in(path.parent) == set()
    assert found_in(path.parent) == set()


_KILLED = """
import os, signal, sys
from pathlib import Path
from shepherd.encryption import use_settings
from shepherd.memory import hot
from shepherd.memory.vectors import VectorSettings
from tests.memory.test_forgetting import filled
from tests.memory.vectors.conftest import Meanings

hot._LEAST_SAVED = 1
use_settings("", sys.argv[2])
canaries = filled(Path(sys.argv[1]), VectorSettings(Meanings))
assert canaries.memory.settle_vectors()
vector = "SELECT vector FROM context_vectors WHERE vector IS NOT NULL LIMIT 1"
[(found,)] = canaries.memory.transactions.read(lambda connection: connection.execute(vector))
canaries.store_facts()
print(found.hex(), *canaries.given, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_200_words_of_every_feature_are_in_no_file_of_a_killed_process(
    path: Path, tmp_path: Path, is_encrypted: bool
) -> None:
    key = tmp_path / "key"
    key.write_text("ab" * 32)
    if is_encrypted:
        encrypt(path, "ab" * 32)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(path), str(key)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    vector, *given = done.stdout.split()

    # The log is there, and a saved index each of memories and of chunks.
    assert os.path.getsize(f"{path}-wal") > 0
    assert len(list(Path(f"{path}-hot").iterdir())) == 2
    data = b"".join(file.read_bytes() for file in path.parent.rglob("*") if file.is_file())
    assert (bytes.fromhex(vector)[:64] in data) is not is_encrypted
    # The first two were edited, and so forgotten.
    assert files_with(path.parent, given).keys() == (set() if is_encrypted else set(given[2:]))


def test_saved_index_is_sealed_and_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot, "_LEAST_SAVED", 1)
    built: list[int] = []
    original: Callable[..., Any] = hot.hot_rows.build

    def build(read: Any, tables: Any, tenant: int) -> Any:
        built.append(tenant)
        return original(read, tables, tenant)

    monkeypatch.setattr(hot.hot_rows, "build", build)

    def search() -> bytes:
        with Memory(path, user_id="steve") as memory:
            for _ in range(200):
                memory.search("finch")
                if memory.stats().hot_users:
                    break
                time.sleep(0.01)
        return Path(f"{path}-hot", "1").read_bytes()

    assert CANARY.encode() in search()
    encrypt(path)
    assert not Path(f"{path}-hot").exists()
    answer(PASSPHRASE)
    sealed = search()
    assert sealed.startswith(b"SHPSEAL1")
    assert CANARY.encode() not in sealed
    assert built == [1, 1]

    search()
    assert built == [1, 1]  # loaded

    Path(f"{path}-hot", "1").write_bytes(sealed[:-1])
    search()
    assert built == [1, 1, 1]  # damaged, and built again


def test_backup_is_encrypted_and_restored(path: Path, tmp_path: Path) -> None:
    encrypt(path)
    answer(PASSPHRASE)
    before = contents(path)
    with Memory(path, user_id="steve") as memory:
        memory.backup(tmp_path / "copy.db")
        memory.set_fact("bird", "robin")
    assert found_in(tmp_path) == set()

    check_backup(tmp_path / "copy.db")
    kept = restore(tmp_path / "copy.db", path)

    assert contents(path) == before
    assert contents(Path(kept))[0] == ["robin"]


def test_memory_whose_key_is_lost_can_be_replaced_by_a_backup(path: Path, tmp_path: Path) -> None:
    with Memory(path, user_id="steve") as memory:
        memory.backup(tmp_path / "copy.db")
    before = contents(path)
    encrypt(path)

    answer(PASSPHRASE)
    with Memory(path):
        forget_all()
        with pytest.raises(StoreLockedError):
            restore(tmp_path / "copy.db", path)
    forget_all()
    set_asker(None)
    restore(tmp_path / "copy.db", path)

    assert contents(path) == before


def test_link_to_a_database_stays_a_link(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(path)

    encrypt(link)

    answer(PASSPHRASE)
    assert contents(link)[0] == [CANARY]
    assert link.is_symlink()
    assert found_in(tmp_path) == set()


# ---- what is overwritten


def test_bytes_until_now_are_overwritten(path: Path) -> None:
    with path.open("rb") as old:  # its inode stays while it is open
        assert encrypt(path)
        assert set(old.read()) == {0}


def test_hard_link_is_left_alone_and_reported(path: Path, tmp_path: Path) -> None:
    os.link(path, tmp_path / "same.db")
    before = contents(path)

    assert not encrypt(path)

    assert contents(tmp_path / "same.db") == before
    answer(PASSPHRASE)
    assert contents(path) == before


# ---- what can be wrong


def test_wrong_passphrase_is_asked_for_again_and_changes_nothing(path: Path) -> None:
    encrypt(path)
    before = path.read_bytes()
    asked = answer("wrong", "wrong again", "still wrong", PASSPHRASE)

    with pytest.raises(StoreKeyError, match="what you typed is not its key") as caught:
        Memory(path)
    assert "try again with the right passphrase" in caught.value.hint
    assert len(asked) == 3
    assert "That is not the passphrase" in asked[1]
    assert path.read_bytes() == before

    assert contents(path)[0] == [CANARY]


def test_missing_key_says_what_a_server_lacks(path: Path) -> None:
    encrypt(path)

    with pytest.raises(StoreKeyError, match="is encrypted, and its key is missing") as caught:
        Memory(path)

    assert "memory_key_command or memory_key_file" in caught.value.hint
    assert "terminal" in caught.value.hint


def test_key_comes_from_a_command_or_a_file_of_the_settings(path: Path, tmp_path: Path) -> None:
    encrypt(path)
    (tmp_path / "key").write_text(f"{PASSPHRASE}\n")

    use_settings(f"cat '{tmp_path}/key'", "")
    assert contents(path)[0] == [CANARY]
    forget_all()
    use_settings("", str(tmp_path / "key"))
    assert contents(path)[0] == [CANARY]
    forget_all()
    (tmp_path / "key").write_text("another\n")
    with pytest.raises(StoreKeyError, match="the key in memory_key_file is not its key"):
        Memory(path)


def test_key_in_the_keyring_is_found(path: Path) -> None:
    from shepherd import system_keyring
    from shepherd.encryption.unlocking import keyring_name

    with keyring_in_memory():
        file, _ = database_to_convert(path)
        salt, text = new_salt(), "ab" * 32
        system_keyring.store(keyring_name(salt), text, instead="")
        key = MemoryKey(master_key(text, salt, CHEAP), salt)
        convert(file, None, key, KeyEntry(salt, "keyring", key.check))

        assert contents(path)[0] == [CANARY]
        forget_all()
        system_keyring.forget(keyring_name(salt))
        with pytest.raises(StoreKeyError, match="its key is missing") as caught:
            Memory(path)
        assert "keyring" in caught.value.hint


def test_key_file_can_be_lost_if_the_passphrase_is_known(path: Path) -> None:
    file, _ = database_to_convert(path)
    salt = new_salt()
    key = MemoryKey(master_key(PASSPHRASE, salt, Argon2()), salt)
    convert(file, None, key, KeyEntry(salt, "passphrase", key.check))
    forget_all()
    key_file_of(file).unlink()

    answer("wrong", PASSPHRASE)
    assert contents(path)[0] == [CANARY]


def test_key_that_another_process_rotated_is_asked_for(path: Path) -> None:
    encrypt(path)
    answer(PASSPHRASE, "the new one")
    with Memory(path, user_id="steve"):
        pass
    program = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from tests.memory.test_encryption import *\n"
        "answer(PASSPHRASE); encrypt(Path(sys.argv[1]), 'the new one')\n"
    )
    root = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", program, str(path), root], check=True)

    assert contents(path)[0] == [CANARY]


def test_key_file_of_another_encryption_is_named(path: Path) -> None:
    encrypt(path)
    old = path.read_bytes()
    answer(PASSPHRASE)
    encrypt(path, "the new one")
    path.write_bytes(old)  # the database of an older backup, without its key file

    set_asker(None)
    with pytest.raises(StoreKeyError) as caught:
        Memory(path)
    assert "do not belong together" in caught.value.hint


@pytest.mark.parametrize("place", [3, 17, 30, 3000])
def test_damaged_header_is_told_from_a_wrong_key(path: Path, place: int) -> None:
    encrypt(path)
    whole = bytearray(path.read_bytes())
    whole[place] ^= 0xFF
    path.write_bytes(whole)
    answer(PASSPHRASE, PASSPHRASE, PASSPHRASE)

    with pytest.raises(StoreError) as caught:
        Memory(path)

    assert not isinstance(caught.value, ForeignDatabaseError)
    # The salt is a part of the key: without the right one, the passphrase fits nothing.
    assert isinstance(caught.value, StoreKeyError if place < 16 else StoreCorruptError)
    assert "backup" in caught.value.hint
    assert path.read_bytes() == whole


def read_all(path: Path) -> None:
    with Memory(path, user_id="steve") as memory:
        list(memory.export_memories())


@pytest.mark.parametrize("size", [10, 100, 4096, -4096])
def test_truncated_file_is_reported(path: Path, size: int) -> None:
    encrypt(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:size])
    answer(PASSPHRASE)

    with pytest.raises(StoreCorruptError) as caught:
        read_all(path)

    assert "backup" in caught.value.hint
    path.write_bytes(whole)
    assert contents(path)[0] == [CANARY]


def test_memory_in_use_is_not_converted(path: Path) -> None:
    with Memory(path), pytest.raises(StoreLockedError, match="this process has it open"):
        encrypt(path)
    program = (
        "import sys; from shepherd.memory import Memory\n"
        "memory = Memory(sys.argv[1]); print(1, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StoreLockedError, match="another program has the memory open") as caught:
            encrypt(path)
        other.communicate(b"\n")

    assert "quit every chat" in caught.value.hint
    assert sorted(os.listdir(path.parent)) == ["memory.db"]
    assert encrypt(path)


def test_full_disk_changes_nothing(path: Path) -> None:
    before = contents(path)
    limited = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[2])\n"
        "from pathlib import Path\n"
        "from tests.memory.test_encryption import *\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: encrypt(Path(sys.argv[1]))\n"
        "except StoreError as error: print(type(error).__name__)\n"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", limited, str(path), root], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "StoreFullError"
    assert sorted(os.listdir(path.parent)) == ["memory.db"]
    assert contents(path) == before


def test_databases_of_others_are_not_encrypted(tmp_path: Path) -> None:
    from shepherd._native.store import Connection

    with Connection(tmp_path / "other.db") as other:
        other.script("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    before = (tmp_path / "other.db").read_bytes()
    (tmp_path / "empty.db").touch()

    for name in ("other.db", "empty.db", "missing.db", "."):
        with pytest.raises((StoreError, UsageError)):
            database_to_convert(tmp_path / name)

    assert (tmp_path / "other.db").read_bytes() == before


def test_encrypted_database_of_another_program_is_refused(tmp_path: Path) -> None:
    from shepherd._native.store import Connection

    salt = new_salt()
    key = MemoryKey(master_key(PASSPHRASE, salt, Argon2()), salt)
    with Connection(tmp_path / "other.db", key=key.database) as other:
        other.script("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    before = (tmp_path / "other.db").read_bytes()
    answer(PASSPHRASE)

    with pytest.raises(ForeignDatabaseError):
        Memory(tmp_path / "other.db")

    assert (tmp_path / "other.db").read_bytes() == before


def test_what_a_killed_conversion_left_is_no_obstacle(path: Path) -> None:
    left = path.with_name(f"{path.name}.converting")
    left.write_bytes(b"half a copy")

    encrypt(path)

    assert not left.exists()
    assert not path.read_bytes().startswith(b"SQLite format 3")


@pytest.mark.parametrize("is_missing", [True, False])
def test_a_lost_encrypted_database_is_not_replaced_by_a_plain_one(path: Path, is_missing: bool) -> None:
    encrypt(path)
    path.unlink()
    if not is_missing:
        path.touch()

    for options in ({}, {"read_only": True}, {"blind": True}):
        with pytest.raises(StoreCorruptError, match="empty" if not is_missing else "missing") as caught:
            Memory(path, user_id="steve", **options)
        assert f"delete {key_file_of(str(path))}" in caught.value.hint
    assert path.exists() is not is_missing
    key_file_of(str(path)).unlink()
    Memory(path, user_id="steve").close()


def test_a_backup_leaves_the_file_of_somebody_else_that_has_the_name_of_its_key_file(
    path: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "copy.db-key"
    mine.write_text("my own key\n")
    with Memory(path, user_id="steve") as memory:
        memory.backup(tmp_path / "copy.db")
    assert mine.read_text() == "my own key\n"
    (tmp_path / "copy.db").unlink()
    encrypt(path)
    answer(PASSPHRASE)

    with (
        Memory(path, user_id="steve") as memory,
        pytest.raises(UsageError, match="Shepherd needs this name, and has not written this file"),
    ):
        memory.backup(tmp_path / "copy.db")

    assert mine.read_text() == "my own key\n"
    assert not (tmp_path / "copy.db").exists()


def test_a_conversion_begins_only_if_its_key_stays_where_it_is(path: Path, tmp_path: Path) -> None:
    file, old = database_to_convert(path)
    key = MemoryKey(master_key("first words", b"s" * 16, CHEAP), b"s" * 16)
    (tmp_path / "key").write_text("other words")
    with pytest.raises(UsageError, match="the key in this file has changed meanwhile"):
        convert(file, old, key, KeyEntry(b"s" * 16, "file", key.check, str(tmp_path / "key"), CHEAP))

    key_file = key_file_of(file)
    assert not key_file.exists()
    key_file.write_text("first words")
    with pytest.raises(UsageError, match="Shepherd needs this name"):
        convert(file, old, key, KeyEntry(b"s" * 16, "file", key.check, str(key_file), CHEAP))
    assert key_file.read_text() == "first words"
    with Memory(path, user_id="steve") as memory:
        assert memory.get_fact("bird") == CANARY


def test_a_forked_process_finds_the_key_again(path: Path, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from shepherd.encryption import set_asker\n"
        "from shepherd.memory import Memory\n"
        "set_asker(lambda question: sys.argv[2])\n"
        "closed = Memory(sys.argv[1], user_id='steve'); closed.close()\n"
        "left_open = Memory(sys.argv[1], user_id='steve')\n"
        "if os.fork() == 0:\n"
        "    with Memory(sys.argv[1], user_id='steve') as memory:\n"
        "        print(memory.get_fact('bird'), flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    encrypt(path)

    done = subprocess.run(
        [sys.executable, "-c", program, str(path), PASSPHRASE], capture_output=True, text=True, check=False
    )

    assert (done.stdout, done.stderr) == (f"{CANARY}\n", "")


def test_a_passphrase_can_be_typed_with_accents_apart(path: Path) -> None:
    encrypt(path, "gr\u00f6\u00dfe of it")
    answer("gro\u0308\u00dfe of it")

    with Memory(path, user_id="steve") as memory:
        assert memory.get_fact("bird") == CANARY
