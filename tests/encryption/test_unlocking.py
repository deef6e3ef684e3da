"""Where a key is looked for, in which order, and what is said where it is missing or another one."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd import system_keyring
from shepherd._native.store import CHACHA20, HAS_CIPHERS
from shepherd.encryption import KeyEntry, MemoryKey, set_asker, unlocking, use_settings
from shepherd.encryption.key import Argon2, master_key
from shepherd.encryption.key_file import Source, write_entries
from shepherd.encryption.unlocking import (
    Settings,
    forget_all,
    is_in_use,
    keyring_name,
    remember,
    settings_in_use,
    text_of_command,
    text_of_file,
    unlock,
)
from shepherd.errors import StoreKeyError, UsageError

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")

SALT = b"s" * 16
HEAD = SALT + bytes([16, 0, 1, 1, 32, 64, 32, 32])
CHEAP = Argon2(memory_kib=64, passes=1, lanes=1)
REKEYED = "; after shepherd encrypt --rekey, only the new key fits"
KEYRING = (
    "its key is in the keyring of the account that encrypted it: unlock that keyring, or restore a backup"
    " with another key"
)
PASSPHRASE = (
    "run the command at a terminal, which asks for the passphrase; for servers and programs without a"
    " terminal, set memory_key_command or memory_key_file"
)
COMMAND = "set memory_key_command to the command that prints the key"


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The keys in the keyring, by their names; nothing else is known."""
    kept: dict[str, str] = {}
    monkeypatch.setattr(system_keyring, "lookup", kept.get)
    yield kept
    set_asker(None)
    use_settings("", "")
    forget_all()


@pytest.fixture
def database(tmp_path: Path) -> Callable[..., str]:
    """Return what notes how a database was encrypted with "right", and gives its path."""

    def note(source: Source, *, place: str = "", salt: bytes = SALT) -> str:
        path = str(tmp_path / "memory.db")
        check = MemoryKey(master_key("right", salt, CHEAP), salt, CHACHA20).check
        write_entries(path, [KeyEntry(salt, source, check, place, CHEAP)])
        return path

    return note


def refusal(path: str) -> tuple[str, str]:
    with pytest.raises(StoreKeyError) as caught:
        unlock(path, HEAD)
    assert not is_in_use()
    return str(caught.value).removeprefix(f"{path}: the memory is encrypted, and "), caught.value.hint


@pytest.mark.parametrize(
    ("source", "place", "hint"),
    [
        ("keyring", "", KEYRING),
        ("passphrase", "", PASSPHRASE),
        ("command", "", COMMAND),
        (
            "file",
            "/media/key.txt",
            "put the key back into /media/key.txt, or set memory_key_file to where it is now",
        ),
    ],
)
def test_a_missing_key_is_where_it_was_put(database, source: Source, place: str, hint: str) -> None:
    assert refusal(database(source, place=place)) == ("its key is missing", hint)


def test_a_key_file_of_another_encryption_is_said_so(database) -> None:
    path = database("keyring", salt=b"t" * 16)

    assert refusal(path)[1] == (
        f"the database and {path}-key do not belong together: put back the two of them from one backup"
    )


def test_all_places_that_have_another_key_are_named(database, tmp_path: Path, keyring) -> None:
    for name in ("set", "noted"):
        (tmp_path / name).write_text("wrong\n")
    assert keyring_name(SALT) == "memory-" + 16 * "73"
    keyring[keyring_name(SALT)] = "wrong"
    use_settings("echo wrong", str(tmp_path / "set"))
    path = database("file", place=str(tmp_path / "noted"))

    says, hint = refusal(path)

    assert says == (
        "the output of memory_key_command and the key in memory_key_file and the key in "
        f"{tmp_path / 'noted'} and the key in the keyring is not its key"
    )
    assert (
        hint
        == f"put the key back into {tmp_path / 'noted'}, or set memory_key_file to where it is now" + REKEYED
    )
    assert refusal(database("keyring"))[1] == KEYRING + REKEYED
    assert refusal(database("command"))[1] == COMMAND + REKEYED
    assert refusal(database("passphrase"))[1] == PASSPHRASE + REKEYED


@pytest.mark.parametrize("where", ["command", "file", "noted", "keyring", "typed"])
def test_the_key_is_found_wherever_it_is_and_known_from_then_on(
    database, tmp_path: Path, keyring, where: str
) -> None:
    for name in ("set", "noted"):
        (tmp_path / name).write_text(
            "right\n" if name == where or (name, where) == ("set", "file") else "wrong"
        )
    use_settings("echo right" if where == "command" else "echo wrong", str(tmp_path / "set"))
    keyring[keyring_name(SALT)] = "right" if where == "keyring" else "wrong"
    path = database("passphrase" if where == "typed" else "file", place=str(tmp_path / "noted"))
    asked: list[str] = []
    set_asker(lambda question: asked.append(question) or "right")

    key = unlock(path, HEAD)

    assert key.check == MemoryKey(master_key("right", SALT, CHEAP), SALT, CHACHA20).check
    assert asked == ([f"Passphrase of {path}: "] if where == "typed" else [])
    use_settings("echo wrong", "")
    assert unlock(path, HEAD) is key
    assert is_in_use()
    forget_all()
    assert not is_in_use()


def test_a_passphrase_can_be_typed_three_times(database) -> None:
    path = database("passphrase")
    asked: list[str] = []
    set_asker(lambda question: asked.append(question) or "wrong")

    says, hint = refusal(path)

    again = f"That is not the passphrase. Passphrase of {path}: "
    assert asked == [f"Passphrase of {path}: ", again, again]
    assert says == "what you typed is not its key"
    assert hint == "try again with the right passphrase: nothing can replace it" + REKEYED
    set_asker(lambda question: None)
    assert refusal(path) == ("its key is missing", PASSPHRASE)
    answers = iter(("wrong", "right"))
    set_asker(lambda question: next(answers))
    assert unlock(path, HEAD) is unlock(path, HEAD)


def test_a_remembered_key_is_used_and_wiped(database) -> None:
    key = MemoryKey(b"a" * 32, SALT, CHACHA20)
    remember(key)

    assert unlock(database("keyring"), HEAD) is key
    forget_all()
    assert bytes(key.files) == bytes(32)


def test_settings_are_those_that_were_given_last() -> None:
    use_settings("print key", "key.txt")

    assert settings_in_use() == Settings("print key", "key.txt")


def test_a_build_without_ciphers_says_how_to_get_them(database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlocking, "HAS_CIPHERS", False)

    says, hint = refusal(database("keyring"))

    assert says == "the SQLite of this Shepherd has no ciphers"
    assert hint.startswith("build it with the bundled SQLite: SHEPHERD_SQLITE=bundled ")


@pytest.mark.parametrize("text", ["", "\n", "one\ntwo\n"])
def test_a_key_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "key").write_text(text)

    with pytest.raises(UsageError, match=r"key: (a key is one line, and there are more$|the file is empty)"):
        text_of_file(tmp_path / "key")
    (tmp_path / "key").write_bytes(b"one\r\n")
    assert text_of_file(tmp_path / "key") == "one"
    (tmp_path / "key").write_bytes(b"x" * 70_000)
    assert len(text_of_file(tmp_path / "key")) == 1 << 16


def test_a_command_that_does_not_answer_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unlocking, "_COMMAND_S", 0.05)
    with pytest.raises(UsageError, match=r"memory_key_command: no answer \(TimeoutExpired\)"):
        text_of_command("exec sleep 30")

    given: list[dict[str, object]] = []
    run = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda *one, **options: given.append(options) or run(*one, **options)
    )
    assert text_of_command("cat; echo key; echo other >&2") == "key"
    assert given[0]["timeout"] == 0.05
    with pytest.raises(UsageError, match="memory_key_command: the command failed with exit code 3"):
        text_of_command("echo key; exit 3")
