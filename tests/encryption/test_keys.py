"""The key of a memory: how it is derived, where it lies, and where it must not be."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from pathlib import Path

import pytest

from shepherd.encryption import KeyEntry, MemoryKey
from shepherd.encryption.key import Argon2, master_key
from shepherd.encryption.key_file import key_file_of, read_entries, write_entries
from shepherd.encryption.unlocking import looks_encrypted, text_of_command, text_of_file
from shepherd.errors import UsageError

SALT, OTHER_SALT = b"s" * 16, b"t" * 16
PR_GET_DUMPABLE = 3
CHEAP = Argon2(memory_kib=64, passes=1, lanes=1)
# The test vector of RFC 9106, 5.3, has a secret and associated data; this one is of the reference program:
# argon2 somesalt -id -t 2 -k 65536 -p 1 -l 32 <<< password, without the line end.
VECTOR = bytes.fromhex("09316115d5cf24ed5a15a31a3ba326e5cf32edc24702987c02b6566f61913cf7")


def test_passphrase_is_stretched_by_argon2id() -> None:
    assert master_key("password", b"somesalt", Argon2(65536, 2, 1)) == VECTOR


def test_key_of_64_digits_is_taken_as_it_is() -> None:
    assert master_key("0F" * 32, SALT, CHEAP) == b"\x0f" * 32
    assert master_key("0F" * 31, SALT, CHEAP) != b"\x0f" * 31


def test_every_key_that_is_derived_differs() -> None:
    keys = [MemoryKey(master, salt) for master in (b"a" * 32, b"b" * 32) for salt in (SALT, OTHER_SALT)]

    derived = [bytes(part) for key in keys for part in (key.database[:32], key.files)]
    assert len({*derived, *(bytes.fromhex(key.check) for key in keys)}) == 12
    assert bytes(keys[0].database[32:48]) == SALT
    assert keys[0].check == MemoryKey(b"a" * 32, SALT).check


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and madvise of Linux")
def test_key_is_locked_and_not_dumped_or_inherited() -> None:
    key = MemoryKey(b"a" * 32, SALT)

    if key.is_locked:  # RLIMIT_MEMLOCK can be 0
        locked = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmLck" in line)
        assert int(locked.split()[1]) >= 4
    assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    assert ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
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


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b'{"keys": [{}]}', b'{"keys": [{"salt": "00", "source": "file", "cost": {}}]}'),
        b'{"keys": [{"salt": "%s", "source": "passphrase", "check": "", "place": "",'
        b' "cost": {"memory_kib": %d, "passes": 3, "lanes": 4}}]}' % (b"00" * 16, 1 << 40),
    ],
)
def test_damaged_or_forged_key_file_is_as_none(tmp_path: Path, content: bytes) -> None:
    key_file_of(str(tmp_path / "memory.db")).write_bytes(content)

    assert read_entries(str(tmp_path / "memory.db")) == {}


@pytest.mark.parametrize(
    ("head", "is_encrypted"),
    [
        (b"x" * 16 + bytes([16, 0, 2, 2, 32, 64, 32, 32]), True),
        (b"x" * 16 + bytes([0, 1, 1, 1, 64, 64, 32, 32]), True),
        (b"SQLite format 3\0" + bytes([16, 0, 2, 2, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 1, 2, 2, 32, 64, 32, 32]), False),
        (b"x" * 16 + bytes([16, 0, 2, 2, 0, 64, 32, 32]), False),
        (b"x" * 23, False),
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
    [("echo secret; exit 3", "exit code 3"), ("true", "one line"), ("printf 'a\\nsecret'", "one line")],
)
def test_failing_command_is_reported_without_its_output(command: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        text_of_command(command)

    assert "secret" not in f"{caught.value} {caught.value.hint}"
