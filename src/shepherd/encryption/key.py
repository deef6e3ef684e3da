"""The key of an encrypted memory, in memory that is not swapped out, dumped or inherited.

    text of a person, a file or a command
        64 hex digits             the master key itself
        anything else             the master key by Argon2id, with the database's salt
    master key, salt
        BLAKE2b "database"        32 bytes: AEGIS-256 or ChaCha20-Poly1305 of the database's pages
        BLAKE2b "files"           32 bytes: the files beside it, see sealing.py
        BLAKE2b "blind"           32 bytes: texts and words on a server, see blinding.py
        BLAKE2b "check"           8 bytes in the key file, which tell a wrong key from a damaged database

The salt is the first 16 bytes of the database file, new with every encryption; on a server it is in `meta`.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import re
import secrets
from dataclasses import dataclass

from shepherd._native.store import BEST_CIPHER
from shepherd.errors import UsageError
from shepherd.installation import install_extra

__all__ = ["SALT_BYTES", "USUAL_COST", "Argon2", "MemoryKey", "master_key", "new_master_text", "new_salt"]

SALT_BYTES = 16
_KEY_BYTES = 32
_CHECK_BYTES = 8
# Costs of a forged file must not fill the memory.
_MOST_KIB, _MOST_PASSES, _MOST_LANES = 4 << 20, 1000, 64
_LEAST_KIB_PER_LANE = 8  # RFC 9106, 3.1
_RAW = re.compile(r"[0-9a-fA-F]{64}")

_MADV_DONTDUMP, _MADV_WIPEONFORK = 16, 18
_PR_SET_DUMPABLE = 4


@dataclass(frozen=True, slots=True)
class Argon2:
    """Cost of Argon2id: the second choice of RFC 9106, 0.1 to 0.5 s."""

    memory_kib: int = 64 << 10
    passes: int = 3
    lanes: int = 4

    @classmethod
    def of(cls, value: object) -> Argon2:
        """Return the cost in a file; raises ValueError for one that is damaged, or could fill the memory."""
        names = ["memory_kib", "passes", "lanes"]
        if not isinstance(value, dict) or value.keys() != set(names):
            raise ValueError("not a cost of Argon2id")
        if not all(type(value[name]) is int for name in names):
            raise ValueError("not a cost of Argon2id")
        cost = cls(**value)
        if not 1 <= cost.passes <= _MOST_PASSES or not 1 <= cost.lanes <= _MOST_LANES:
            raise ValueError("a cost of Argon2id out of bounds")
        if not _LEAST_KIB_PER_LANE * cost.lanes <= cost.memory_kib <= _MOST_KIB:
            raise ValueError("a cost of Argon2id out of bounds")
        return cost


USUAL_COST = Argon2()


class MemoryKey:
    """The keys of one memory. They are wiped with `wipe`, or when nobody holds the object any more."""

    def __init__(self, master: bytes, salt: bytes, cipher: int = BEST_CIPHER) -> None:
        self.salt, self.cipher = salt, cipher
        # Private: a forked process finds zeros.
        flags = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
        self._page = mmap.mmap(-1, mmap.PAGESIZE, **flags)
        self.is_locked = _protect(self._page)
        database, files, blind = (
            _derived(master, salt, purpose) for purpose in (b"database", b"files", b"blind")
        )
        whole = database + salt + bytes([cipher]) + files + blind
        self._page[: len(whole)] = whole
        self.check = _derived(master, salt, b"check")[:_CHECK_BYTES].hex()

    @property
    def database(self) -> memoryview:
        """The key that a connection takes: 32 bytes, the salt, the cipher. A view of the locked memory."""
        return memoryview(self._page)[: _KEY_BYTES + SALT_BYTES + 1]

    @property
    def files(self) -> memoryview:
        """The key of sealed files. A view of the locked memory."""
        start = _KEY_BYTES + SALT_BYTES + 1
        return memoryview(self._page)[start : start + _KEY_BYTES]

    @property
    def blind(self) -> memoryview:
        """The key of what a server stores. A view of the locked memory."""
        start = 2 * _KEY_BYTES + SALT_BYTES + 1
        return memoryview(self._page)[start : start + _KEY_BYTES]

    @property
    def is_wiped(self) -> bool:
        """True after `wipe`, and in a process that was forked from the one with the key."""
        return not any(self._page[:_KEY_BYTES])

    def wipe(self) -> None:
        """Overwrite the keys; the object is of no use afterwards."""
        self._page[:] = bytes(mmap.PAGESIZE)

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, ValueError, TypeError):
            self.wipe()


def new_salt() -> bytes:
    """Return a random salt."""
    return secrets.token_bytes(SALT_BYTES)


def new_master_text() -> str:
    """Return a random master key as text."""
    return secrets.token_hex(_KEY_BYTES)


def master_key(text: str, salt: bytes, cost: Argon2) -> bytes:
    """Return the master key that a text stands for; raises UsageError without the package that derives it."""
    if _RAW.fullmatch(text):
        return bytes.fromhex(text)
    try:
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
    except ImportError as error:
        raise needs_package() from error
    kdf = Argon2id(
        salt=salt, length=_KEY_BYTES, iterations=cost.passes, lanes=cost.lanes, memory_cost=cost.memory_kib
    )
    return kdf.derive(text.encode("utf-8", "surrogateescape"))


def needs_package() -> UsageError:
    """Return the error for the missing extra."""
    return UsageError("an encrypted memory needs cryptography 45 or later", hint=install_extra("encryption"))


def _derived(master: bytes, salt: bytes, purpose: bytes) -> bytes:
    return hashlib.blake2b(
        key=master, digest_size=_KEY_BYTES, salt=salt, person=b"shepherd" + purpose
    ).digest()


def _protect(page: mmap.mmap) -> bool:
    """Keep a page out of swap space, core dumps and child processes; return whether it is locked.

    The whole process leaves no core dump any more, since copies of the key are in SQLite's memory, too.
    """
    for advice in (_MADV_DONTDUMP, _MADV_WIPEONFORK):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            page.madvise(advice)
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "prctl") and os.uname().sysname == "Linux":
            libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
        first = ctypes.c_char.from_buffer(page)
        return bool(libc.mlock(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(mmap.PAGESIZE)) == 0)
    except (ImportError, OSError, AttributeError):
        return False
