"""Finding the key of an encrypted database: once per process, and never where it could be seen.

Asked in this order: the command or the file of the settings, the file that the key file names, the system's
keyring, the person at the terminal. The key goes into locked memory; it is in no setting, variable or log.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from shepherd import system_keyring
from shepherd._native.store import AEGIS, CHACHA20, HAS_CIPHERS, Connection, SQLiteError
from shepherd.encryption.key import SALT_BYTES, MemoryKey, master_key
from shepherd.encryption.key_file import KeyEntry, read_entries
from shepherd.errors import StoreKeyError, UsageError
from shepherd.installation import pip_install
from shepherd.paths import from_home

__all__ = [
    "LEAST_CHARS",
    "Settings",
    "ask",
    "forget_all",
    "is_in_use",
    "keyring_name",
    "known",
    "looks_encrypted",
    "remember",
    "require_ciphers",
    "scratch_folder",
    "set_asker",
    "set_when_made",
    "settings_in_use",
    "spellings",
    "text_of_command",
    "text_of_file",
    "unlock",
    "use_settings",
]

# Bytes 16 to 23 of an encrypted database are its page size, two version numbers, the bytes at the end of a
# page for its nonce and tag, and three constants; sqlite.org/fileformat2.html, 1.3.
_PAGE_SIZES = {1 << shift for shift in range(9, 16)} | {1}
_CONSTANTS = bytes([64, 32, 32])
_CIPHERS = {32: CHACHA20, 64: AEGIS}  # by the bytes at the end of a page
LEAST_CHARS = 8
"""Characters of a new passphrase."""
_TRIES = 3
_COMMAND_S = 60.0
_LONGEST_KEY_BYTES = 1 << 16
_SHARED_MEMORY = "/dev/shm"

Asker = Callable[[str], str | None]
"""Asks the person for a passphrase with this question; None if nobody answers."""


@dataclass(frozen=True, slots=True)
class Settings:
    """memory_key_command and memory_key_file."""

    command: str = ""
    file: str = ""


@dataclass(slots=True)
class _State:
    settings: Settings = Settings()
    ask: Asker | None = None
    when_made: Callable[[str], None] | None = None


_state = _State()
_known: dict[bytes, MemoryKey] = {}
_lock = threading.RLock()


def use_settings(command: str, file: str) -> None:
    """Take the key from a command or a file, if they are not empty."""
    _state.settings = Settings(command, file)


def settings_in_use() -> Settings:
    """Return what use_settings was given last."""
    return _state.settings


def set_asker(ask: Asker | None) -> None:
    """Let this function ask for passphrases; None: nobody can be asked."""
    _state.ask = ask


def ask(question: str) -> str | None:
    """Return what the person types; None if nobody can be asked, or nobody answers."""
    return None if _state.ask is None else _state.ask(question)


def set_when_made(call: Callable[[str], None] | None) -> None:
    """Let this function know the path of a memory that is encrypted from the beginning, once it is made."""
    _state.when_made = call


def tell_made(path: str) -> None:
    """Tell that an encrypted memory was made, before anything opens it."""
    if _state.when_made is not None:
        _state.when_made(path)


def known(salt: bytes) -> MemoryKey | None:
    """Return the key of a salt if this process has it; a forked one has the object without the key."""
    with _lock:
        key = _known.get(salt)
        return None if key is None or key.is_wiped else key


def remember(key: MemoryKey) -> None:
    """Use this key for its database until the process ends."""
    with _lock:
        _known[key.salt] = key


def forget_all() -> None:
    """Wipe all keys of this process. Close every memory before: threads that begin to read need the key."""
    with _lock:
        for key in _known.values():
            key.wipe()
        _known.clear()


def is_in_use() -> bool:
    """Return whether this process has the key of a memory: then no file may show what is said."""
    return bool(_known)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Give a folder for the length of the block: in main memory (Linux) while a memory is encrypted."""
    place = _SHARED_MEMORY if is_in_use() and os.access(_SHARED_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="shepherd-", dir=place) as folder:
        yield Path(folder)


def looks_encrypted(head: bytes) -> bool:
    """Return whether a file that begins with these bytes (24 at least) is an encrypted database."""
    return (
        len(head) >= 24
        and not head.startswith(b"SQLite format 3\0")
        and int.from_bytes(head[16:18], "big") in _PAGE_SIZES
        and head[18] in (1, 2)
        and head[19] in (1, 2)
        and head[20] in _CIPHERS
        and head[21:24] == _CONSTANTS
    )


def require_ciphers(path: str) -> None:
    """Raise StoreKeyError if this build cannot encrypt."""
    if not HAS_CIPHERS:
        raise StoreKeyError(
            f"{path}: the memory is encrypted, and the SQLite of this Shepherd has no ciphers",
            hint=f"build it with the bundled SQLite: SHEPHERD_SQLITE=bundled {pip_install('.')}",
        )


def unlock(path: str, head: bytes) -> MemoryKey:
    """Return the key of the encrypted database at `path`, which begins with `head`.

    Raises StoreKeyError, which says what is missing. No connection to it may be open in this process.
    """
    require_ciphers(path)
    salt = head[:SALT_BYTES]
    with _lock:
        key = known(salt)
        if key is None:
            key = _known[salt] = _Search(path, salt, _CIPHERS[head[20]]).found()
        return key


class _Search:
    """One search for the key of a database."""

    def __init__(self, path: str, salt: bytes, cipher: int) -> None:
        self._path, self._salt, self._cipher = path, salt, cipher
        known = read_entries(path)
        self._is_noted = salt in known
        self._has_others = bool(known) and not self._is_noted
        self._entry = known.get(salt, KeyEntry(salt, "passphrase"))

    def found(self) -> MemoryKey:
        tried = []
        for place, text in self._texts():
            for spelling in spellings(text):
                if key := self._key_of(spelling):
                    return key
            tried.append(place)
        if tried:
            places = " and ".join(dict.fromkeys(tried))
            message = f"{self._path}: the memory is encrypted, and {places} is not its key"
        else:
            message = f"{self._path}: the memory is encrypted, and its key is missing"
        raise StoreKeyError(message, hint=self._hint(bool(tried)))

    def _texts(self) -> Iterator[tuple[str, str]]:
        """Yield where a key may be, and what is there."""
        settings = _state.settings
        if settings.command:
            yield "the output of memory_key_command", text_of_command(settings.command)
        if settings.file:
            yield "the key in memory_key_file", text_of_file(from_home(settings.file, "memory_key_file"))
        if self._entry.source == "file" and Path(self._entry.place).is_file():
            yield f"the key in {self._entry.place}", text_of_file(Path(self._entry.place))
        if text := system_keyring.lookup(keyring_name(self._salt)):
            yield "the key in the keyring", text
        if self._entry.source == "passphrase" and _state.ask is not None:
            yield from self._answers(_state.ask)

    def _answers(self, ask: Asker) -> Iterator[tuple[str, str]]:
        again = ""
        for _ in range(_TRIES):
            text = ask(f"{again}Passphrase of {self._path}: ")
            if not text:
                return
            yield "what you typed", text
            again = "That is not the passphrase. "

    def _key_of(self, text: str) -> MemoryKey | None:
        key = MemoryKey(master_key(text, self._salt, self._entry.cost), self._salt, self._cipher)
        fits = self._entry.fits(key) if self._is_noted else _opens(self._path, key)
        return key if fits else None

    def _hint(self, has_tried: bool) -> str:
        if self._has_others:
            return (
                f"the database and {self._path}-key do not belong together: put back the two of them from one"
                " backup"
            )
        where = {
            "keyring": "its key is in the keyring of the account that encrypted it: unlock that keyring, or"
            " restore a backup with another key",
            "passphrase": "run the command at a terminal, which asks for the passphrase; for servers and"
            " programs without a terminal, set memory_key_command or memory_key_file",
            "file": f"put the key back into {self._entry.place}, or set memory_key_file to where it is now",
            "command": "set memory_key_command to the command that prints the key",
        }[self._entry.source]
        if not has_tried:
            return where
        if self._entry.source == "passphrase" and _state.ask is not None:
            where = "try again with the right passphrase: nothing can replace it"
        return f"{where}; after shepherd encrypt --rekey, only the new key fits"


def _opens(path: str, key: MemoryKey) -> bool:
    try:
        Connection(path, read_only=True, key=key.database).close()
    except SQLiteError as error:
        return (error.code & 0xFF) != 26  # SQLITE_NOTADB; any other failure is not the key's
    return True


def spellings(passphrase: str) -> Iterator[str]:
    """Yield a passphrase as it was typed, and as other systems type it: accents composed, or apart."""
    others = [unicodedata.normalize(form, passphrase) for form in ("NFC", "NFD")]
    yield from dict.fromkeys([passphrase, *others])


def keyring_name(salt: bytes) -> str:
    """Return the name of a database's key in the keyring."""
    return f"memory-{salt.hex()}"


def text_of_file(path: Path, named_by: str = "memory_key_file") -> str:
    """Return the key in a file without the line end; raises UsageError."""
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST_KEY_BYTES)
    except OSError as error:
        raise UsageError(
            f"{path}: the key cannot be read: {error.strerror}",
            hint=f"{named_by} names the file with the key",
        ) from error
    if not data.strip():
        raise UsageError(
            f"{path}: the file is empty, and should have the key",
            hint="put the key back from your copy; if it never had one, delete the file",
        )
    return _one_line(data, str(path))


def text_of_command(command: str, named_by: str = "memory_key_command") -> str:
    """Return what a command prints, without the line end; raises UsageError without any of it."""
    import subprocess  # takes 5 ms, and few memories have a command

    try:
        done = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(
            f"{named_by}: no answer ({type(error).__name__})", hint="run the command yourself to see why"
        ) from None
    if done.returncode:
        raise UsageError(
            f"{named_by}: the command failed with exit code {done.returncode}",
            hint="run the command yourself to see why",
        )
    if not done.stdout.strip():
        raise UsageError(
            f"{named_by}: the command prints nothing", hint="it has to print the key, on one line"
        )
    return _one_line(done.stdout, named_by)


def _one_line(data: bytes, place: str) -> str:
    text = data.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if "\n" in text:
        raise UsageError(f"{place}: a key is one line, and there are more", hint="keep only the key in it")
    return text
