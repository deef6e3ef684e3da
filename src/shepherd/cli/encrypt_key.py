"""The key of `shepherd encrypt`: chosen by options, settings and the person at the terminal."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from shepherd import system_keyring
from shepherd.cli.passphrases import new_passphrase
from shepherd.config import Config
from shepherd.encryption.key import new_master_text
from shepherd.encryption.key_file import Source, refuse_own_names
from shepherd.encryption.unlocking import LEAST_CHARS, keyring_name, text_of_command, text_of_file
from shepherd.errors import UsageError
from shepherd.paths import default_database, from_home, given_path, new_file

__all__ = ["Chosen", "choose", "drop", "keep"]

_BEFORE_A_PASSPHRASE = (
    "The memory will be encrypted with a passphrase that you choose now. Nobody can read it without that,\n"
    "so use four words or more that you will remember, or write them down."
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A key and where it comes from."""

    source: Source
    text: str
    in_words: str
    advice: str = ""
    place: str = ""
    is_new_file: bool = False  # to be written


def choose(
    arguments: Namespace, config: Config, shown: str, *, is_rekeyed: bool, path: Path | None = None
) -> Chosen:
    """Return the key to encrypt the memory with that is `shown`, at `path` if it is a file.

    Asks for a passphrase.
    """
    database = path or default_database()
    if arguments.key_file:
        return _in_file(given_path(arguments.key_file).absolute(), database, is_rekeyed)
    if arguments.passphrase:
        return _typed(shown)
    if arguments.keyring:
        return _in_keyring()
    if config.memory_key_command:
        text = _long_enough(text_of_command(config.memory_key_command), "memory_key_command")
        return Chosen("command", text, "what memory_key_command prints")
    if config.memory_key_file:
        key_file = from_home(config.memory_key_file, "memory_key_file").absolute()
        return _in_file(key_file, database, is_rekeyed)
    return _in_keyring() if system_keyring.is_usable() else _typed(shown)


def keep(chosen: Chosen, salt: bytes) -> None:
    """Store a key that is new, unless it is in the user's head."""
    if chosen.is_new_file:
        with new_file(chosen.place) as target:
            target.write(f"{chosen.text}\n")
    elif chosen.source == "keyring":
        system_keyring.store(keyring_name(salt), chosen.text, instead="shepherd encrypt --passphrase")


def drop(chosen: Chosen, salt: bytes) -> None:
    """Take a new key back that no memory was encrypted with."""
    if chosen.is_new_file:
        with contextlib.suppress(OSError):
            os.remove(chosen.place)
    elif chosen.source == "keyring":
        system_keyring.forget(keyring_name(salt))


def _in_keyring() -> Chosen:
    return Chosen(
        "keyring",
        new_master_text(),
        "a random key in the keyring of this account",
        "Back up your keyring: the memory and its backups cannot be read without the key.",
    )


def _in_file(path: Path, database: Path, is_rekeyed: bool) -> Chosen:
    refuse_own_names(path, database)
    if path.exists() and is_rekeyed:
        raise UsageError(
            f"{path} already exists, and a new key needs a new file", hint="--key-file names another file"
        )
    is_new = not path.exists()
    return Chosen(
        "file",
        new_master_text() if is_new else _long_enough(text_of_file(path), str(path)),
        f"the key in {path}",
        "Keep a copy of that file elsewhere: the memory and its backups cannot be read without it.",
        str(path),
        is_new,
    )


def _long_enough(text: str, place: str) -> str:
    """Return a key that is somebody's own choice; UsageError if it is shorter than a passphrase may be."""
    if len(text) < LEAST_CHARS:
        raise UsageError(
            f"{place}: the key is shorter than {LEAST_CHARS} characters",
            hint="use four words or more; --key-file with the name of a new file makes a random key",
        )
    return text


def _typed(file: str) -> Chosen:
    text = new_passphrase(
        f"{_BEFORE_A_PASSPHRASE}\nNew passphrase of {file}: ",
        unasked="run this at a terminal, or name a file with --key-file; --keyring uses the keyring",
    )
    return Chosen(
        "passphrase",
        text,
        "a key made of your passphrase",
        "Nothing can replace the passphrase: write it down if you could forget it.",
    )
