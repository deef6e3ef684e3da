"""The key of a memory: how it is derived, where it lies, and where it must not be."""

from __future__ import annotations

import ctypes
import json
import os
import re
import resource
import sys
import tempfile
from pathlib import Path

import pytest

from shepherd._native.store import CHACHA20
from shepherd.encryption import KeyEntry, MemoryKey, unlocking
from shepherd.encryption.key import USUAL_COST, Argon2, master_key
from shepherd.encryption.key_file import key_file_of, read_entries, write_entries
from shepherd.encryption.unlocking import looks_encrypted, scratch_folder, text_of_command, text_of_file
from shepherd.errors import UsageError

SALT, OTHER_SALT = b"s" * 16, b"t" * 16
PR_GET_DUMPABLE = 3
CHEAP = Argon2(memory_kib=64, passes=1, lanes=1)
# The test vector of RFC 9106, 5.3, has a secret and associated data; this one is of the reference program:
# argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32 <<< password, without the line end.
VECTOR = bytes.fromhex("09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7")
# BLAKE2b of no data with the key a…a, the salt s…s and "shepherd" with the purpose as personalization.
DATABASE = bytes.fromhex("70b1cac75cd5aa4c9976d5a0fb713ead794ed5588c8cdfc87b65c7e78fa3779c")
FILES = bytes.fromhex("bfc4ec1c4c83a508992226f134a71a41e25fa7c05c3872e9b3eadc4a96d2b518")
CHECK = "72ddcb5826b63af6"


def test_passphrase_is_stretched_by_argon2id() -> None:
    assert master_key("password", b"somesalt", Argon2(65536, 2, 1)) == VECTOR


def test_a_memory_whose_key_file_is_lost_needs_the_same_cost_forever() -> None:
    # Argon2id with 3 passes over 64 MiB in 4 lanes.
    assert master_key("password", SALT, USUAL_COST).hex() == (
        "21a97cf6284deef49292466e39d7d3b0a6842655b5a801f88b9b84ccefc56864"
    )


def test_derived_keys_stay_the_same_so_that_memories_can_be_opened() -> None:
    key = MemoryKey(b"a" * 32, SALT, CHACHA20)

    assert bytes(key.database) == DATABASE + SALT + bytes([CHACHA20])
    assert (bytes(key.files), key.check) == (FILES, CHECK)


def test_key_of_64_digits_is_taken_as_it_is() -> None:
    assert master_key("0F" * 32, SALT, CHEAP) == b"\x0f" * 32
    assert master_key("0F" * 31, SALT, CHEAP) != b"\x0f" * 31


def test_every_key_that_is_derived_differs() -> None:
    keys = [MemoryKey(master, salt) for master in (b"a" * 32, b"b" * 32) for salt in (SALT, OTHER_SALT)]

    derived = [bytes(part) for key in keys for part in (key.database[:32], key.files)]
    assert len({*derived, *(bytes.fromhex(key.check) for key in keys)}) == 12
    assert bytes(keys[0].database[32:48]) == SALT
    assert keys[0].check == MemoryKey(b"a" * 32, SALT).check


def flags_of_page(key: MemoryKey) -> set[str]:
    """The kernel's flags of the page with a key, as /proc/PID/smaps names them."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(key._page))
    is_here = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_here = int(match[1], 16) <= address < int(match[2], 16)
        elif is_here and line.startswith("VmFlags:"):
            return set(line.split()[1:])
    return set()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and madvise of Linux")
def test_key_is_locked_and_not_dumped_or_inherited() -> None:
    key = MemoryKey(b"a" * 32, SALT)

    # RLIMIT_MEMLOCK can be 0, and locks of other keys count as well.
    locked = re.search(r"^VmLck:\s*(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert locked is not None
    assert key.is_locked is (int(locked[1]) >= 4)
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    assert {"dd", "wf"} <= flags_of_page(key)  # not dumped, wiped in a forked process
    child = os.fork()
    if child == 0:
        os._exit(0 if bytes(key.files) == bytes(32) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert bytes(key.files) != bytes(32)


def test_wiped_key_is_gone() -> None:
    key = MemoryKey(b"a" * 32, SALT)

    key.wipe()

    assert bytes(key.database) + bytes(key.files) == bytes(81)


def test_key_file_holds_all_but_the_key(tmp_path: Path) -> None:
    database = str(tmp_path / "memory.db")
    key = MemoryKey(master_key("correct horse", SALT, CHEAP), SALT)
    entry = KeyEntry(SALT, "passphrase", key.check, "", CHEAP)

    write_entries(database, [entry, KeyEntry(OTHER_SALT, "file", "aa", "/run/key")])

    assert read_entries(database)[SALT] == entry
    assert read_entries(database)[OTHER_SALT].place == "/run/key"
    text = key_file_of(database).read_bytes()
    assert key_file_of(database).stat().st_mode & 0o777 == 0o600
    for secret in (b"correct horse", bytes(key.files), bytes(key.files).hex().encode()):
        assert secret not in text
    write_entries(database, [])
    assert not key_file_of(database).exists()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"keys": 1}', b'{"keys": [{}]}'])
def test_damaged_key_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    key_file_of(str(tmp_path / "memory.db")).write_bytes(content)

    assert read_entries(str(tmp_path / "memory.db")) == {}


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        ({}, True),
        ({"cost": {"memory_kib": 4 << 20, "passes": 1000, "lanes": 64}}, True),
        ({"cost": {"memory_kib": (4 << 20) + 1, "passes": 3, "lanes": 4}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 1001, "lanes": 4}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 3, "lanes": 65}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 3.5, "lanes": 4}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 3}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 0, "lanes": 4}}, False),
        ({"cost": {"memory_kib": 1 << 16, "passes": 3, "lanes": 0}}, False),
        ({"cost": {"memory_kib": 31, "passes": 3, "lanes": 4}}, False),
        ({"cost": {"memory_kib": -5, "passes": 3, "lanes": 4}}, False),
        ({"source": "file", "place": ""}, False),
        ({"cost": 3}, False),
        ({"salt": "73" * 15}, False),
        ({"salt": "salt"}, False),
        ({"source": "elsewhere"}, False),
    ],
)
def test_forged_entry_of_a_key_file_is_not_followed(
    tmp_path: Path, change: dict[str, object], is_read: bool
) -> None:
    database = str(tmp_path / "memory.db")
    write_entries(database, [KeyEntry(SALT, "passphrase", "aa")])
    entry = json.loads(key_file_of(database).read_bytes())["keys"][0]

    key_file_of(database).write_text(json.dumps({"version": 1, "keys": [{**entry, **change}]}))

    assert (SALT in read_entries(database)) is is_read


@pytest.mark.parametrize(
    ("head", "is_encrypted"),
    [
        (b"x" * 16 + bytes([16, 0, 2, 2, 32, 64, 32, 32]), True),
        (b"x" * 16 + bytes([0, 1, 1, 1, 64, 64, 32, 32]), True),
        (b"SQLite format 3\0" + bytes([16, 0, 2, 2, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 1, 2, 2, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 0, 2, 2, 0, 64, 32, 32]), False),
        (b"x" * 16 + bytes([2, 0, 2, 2, 32, 64, 32, 32]), True),
        (b"x" * 16 + bytes([16, 0, 0, 2, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 0, 2, 3, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 0, 2, 2, 32, 64, 32, 20]), False),
        (b"x" * 16 + bytes([16, 0, 2, 2, 32, 64, 32]), False),
        (b"", False),
    ],
)
def test_encrypted_database_is_told_by_its_beginning(head: bytes, is_encrypted: bool) -> None:
    assert looks_encrypted(head) is is_encrypted


def test_key_comes_from_a_command_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("correct horse\n")

    assert text_of_file(tmp_path / "key") == "correct horse"
    assert text_of_command(f"cat '{tmp_path}/key'") == "correct horse"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        *(
            ("echo secret; exit 3", "exit code 3"),
            ("true", "prints nothing"),
            ("printf 'a\\nsecret'", "one line"),
        ),
        ("echo secret; sleep 10", "no answer"),
    ],
)
def test_failing_command_is_reported_without_its_output(
    monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    monkeypatch.setattr(unlocking, "_COMMAND_S", 0.1 if "sleep" in command else 60)

    with pytest.raises(UsageError, match=message) as caught:
        text_of_command(command)

    assert "secret" not in f"{caught.value} {caught.value.hint}"


def test_key_file_that_cannot_be_read_names_the_setting(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"{tmp_path}/key: .*: No such file") as caught:
        text_of_file(tmp_path / "key")

    assert "memory_key_file" in caught.value.hint


def test_while_a_key_is_known_scratch_files_stay_in_main_memory() -> None:
    key = MemoryKey(b"a" * 32, SALT)
    with scratch_folder() as usual:
        assert usual.parent == Path(tempfile.gettempdir())
        assert not unlocking.is_in_use()
    unlocking.remember(key)

    with scratch_folder() as folder:
        assert folder.parent == Path("/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir())

    assert not folder.exists()
    unlocking.forget_all()
    assert not unlocking.is_in_use()
    assert bytes(key.files) == bytes(32)
