"""Finding the key of a blind memory on a server, in the places where keys of encrypted files are.

The salt and the first bytes of a hash of the key are in the database. Asked in this order: the command or the
file of the settings, the system's keyring, the person at the terminal.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from shepherd import system_keyring
from shepherd.encryption import unlocking
from shepherd.encryption.key import USUAL_COST, MemoryKey, master_key, new_master_text, new_salt
from shepherd.encryption.key_file import Source
from shepherd.errors import StoreKeyError
from shepherd.paths import from_home

__all__ = ["check_of", "forget_new", "new_key", "new_server_key", "unlock_server"]

_TRIES = 3
_IN_WORDS = {"command": "the output of memory_key_command", "file": "the key in memory_key_file"}
_SOURCES = "set memory_key_command or memory_key_file, unlock the keyring, or run the command at a terminal"


def check_of(key: MemoryKey) -> int:
    """Return the number, of 64 bits with a sign, by which the key is recognized."""
    return int.from_bytes(bytes.fromhex(key.check), "big", signed=True)


def new_server_key(shown: str) -> MemoryKey:
    """Return a key with a new salt for the memory at the address `shown`; raises StoreKeyError without any.

    A random one goes into the keyring; `forget_new` takes it out again.
    """
    return new_key(shown)[0]


def new_key(shown: str) -> tuple[MemoryKey, Source, str]:
    """Like `new_server_key`, but also return the key's source and its file's path ("" if there is none)."""
    salt = new_salt()
    for source, place, text in _given():
        return _remembered(text, salt), source, place
    if system_keyring.is_usable():
        text = new_master_text()
        system_keyring.store(unlocking.keyring_name(salt), text, instead="set memory_key_file")
        return _remembered(text, salt), "keyring", ""
    text = _new_passphrase(shown)
    if not text:
        raise StoreKeyError(f"{shown}: a blind memory needs a key, and there is none", hint=_SOURCES)
    return _remembered(text, salt), "passphrase", ""


def forget_new(key: MemoryKey) -> None:
    """Take a key out of the keyring that was not used after all."""
    with contextlib.suppress(Exception):
        system_keyring.forget(unlocking.keyring_name(key.salt))


def unlock_server(shown: str, salt: bytes, check: int) -> MemoryKey:
    """Return the key of the memory at the address `shown`; raises StoreKeyError that says what is missing."""
    known = unlocking.known(salt)
    if known is not None and check_of(known) == check:
        return known
    tried = []
    for place, text in _texts(shown, salt):
        for spelling in unlocking.spellings(text):
            key = MemoryKey(master_key(spelling, salt, USUAL_COST), salt)
            if check_of(key) == check:
                unlocking.remember(key)
                return key
        tried.append(place)
    if not tried:
        raise StoreKeyError(f"{shown}: the memory is blind, and its key is missing", hint=_SOURCES)
    places = " and ".join(dict.fromkeys(tried))
    raise StoreKeyError(
        f"{shown}: the memory is blind, and {places} is not its key",
        hint="use the key that the memory was made with: nothing can replace it",
    )


def _remembered(text: str, salt: bytes) -> MemoryKey:
    key = MemoryKey(master_key(text, salt, USUAL_COST), salt)
    unlocking.remember(key)
    return key


def _given() -> Iterator[tuple[Source, str, str]]:
    """Yield the keys that the settings name, each after where it comes from and the path of its file."""
    settings = unlocking.settings_in_use()
    if settings.command:
        yield "command", "", unlocking.text_of_command(settings.command)
    if settings.file:
        path = from_home(settings.file, "memory_key_file").absolute()
        yield "file", str(path), unlocking.text_of_file(path)


def _texts(shown: str, salt: bytes) -> Iterator[tuple[str, str]]:
    for source, _, text in _given():
        yield _IN_WORDS[source], text
    if text := system_keyring.lookup(unlocking.keyring_name(salt)):
        yield "the key in the keyring", text
    again = ""
    for _ in range(_TRIES):
        typed = unlocking.ask(f"{again}Passphrase of {shown}: ")
        if not typed:
            return
        yield "what you typed", typed
        again = "That is not the passphrase. "


def _new_passphrase(shown: str) -> str:
    text = unlocking.ask(f"New passphrase of {shown}: ")
    if not text:
        return ""
    if len(text) < unlocking.LEAST_CHARS:
        raise StoreKeyError(
            f"the passphrase is shorter than {unlocking.LEAST_CHARS} characters",
            hint="use four words or more",
        )
    if unlocking.ask("Repeat the passphrase: ") != text:
        raise StoreKeyError("the two passphrases differ; nothing was changed", hint="run the command again")
    return text
