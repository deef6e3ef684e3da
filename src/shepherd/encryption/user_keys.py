"""The keys of the users of a blind memory: random, and wrapped with the memory's key.

    a stored key     AES-SIV of 32 random bytes; the user's id is authenticated along with them

Whoever has the memory's key can't read what a user has in an older backup once the user's key is gone.

A process keeps the keys that it has used. A transaction sees these through TransactionKeys, which knows the
keys that it has created or destroyed itself, and those that have to be compared with the stored ones.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Literal, Protocol

from shepherd.encryption.blinding import BlindError, UserCipher, aes_siv, check_not_wiped
from shepherd.encryption.key import MemoryKey
from shepherd.lru_cache import LRUCache

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

__all__ = ["Ciphers", "KeptKeys", "KeyWrap", "NewKeys", "TransactionKeys", "UnknownKeyError"]

_SECRET_BYTES = 32
_MOST_CIPHERS = 1024
_By = Literal["user", "tag", "number"]


class UnknownKeyError(Exception):
    """This process doesn't know a user's key: that of a user, of texts with a tag, or of a user's number."""

    def __init__(self, by: _By, value: str | bytes | int) -> None:
        super().__init__()
        self.by, self.value = by, value


class Ciphers(Protocol):
    """The ciphers of the users of one memory.

    Raises UnknownKeyError for a key that has to be looked up first. `are_kept`: users have keys of their own.
    """

    @property
    def are_kept(self) -> bool:
        """True if each user has a key of its own, and nothing is nobody's."""

    def of_user(self, user_id: str) -> UserCipher:
        """Return the cipher of a user."""

    def of_tag(self, tag: bytes) -> UserCipher:
        """Return the cipher whose texts begin with a tag."""

    def of_number(self, number: int) -> UserCipher:
        """Return the cipher of the words and labels of the user with this number."""

    def of_nobody(self) -> UserCipher:
        """Return the cipher of what is no single user's."""

    def note_used(self, cipher: UserCipher) -> None:
        """Note that a value was made to be sent."""


class KeyWrap:
    """Makes random keys of users and their stored values, with the key of one memory. Thread-safe."""

    def __init__(self, key: MemoryKey) -> None:
        self._key = key
        self._new_wrapping, self._invalid = aes_siv()

    def new(self, user_id: str) -> UserCipher:
        """Return a user's new cipher, with its stored key."""
        secret = secrets.token_bytes(_SECRET_BYTES)
        wrapped = self._wrapping().encrypt(secret, _context(user_id))
        return UserCipher(self._key, secret, user_id=user_id, wrapped=wrapped)

    def temporary(self, user_id: str) -> UserCipher:
        """Return a cipher that nothing is stored with: what it makes is found nowhere."""
        return UserCipher(self._key, secrets.token_bytes(_SECRET_BYTES), user_id=user_id)

    def opened(self, user_id: str, wrapped: bytes) -> UserCipher:
        """Return the cipher of a stored key. Raises BlindError if it isn't this user's, or was changed."""
        try:
            secret = self._wrapping().decrypt(wrapped, _context(user_id))
        except (self._invalid, ValueError) as error:
            raise BlindError from error
        return UserCipher(self._key, secret, user_id=user_id, wrapped=wrapped)

    def _wrapping(self) -> AESSIV:
        check_not_wiped(self._key)
        return self._new_wrapping(
            hashlib.blake2b(key=self._key.blind, digest_size=64, person=b"users' keys").digest()
        )


class KeptKeys:
    """The keys of users that a process has used last. Thread-safe."""

    def __init__(self, key: MemoryKey) -> None:
        self.wrap = KeyWrap(key)
        self._by_user: LRUCache[str | bytes | int, UserCipher] = LRUCache(_MOST_CIPHERS)
        self._by_tag: LRUCache[str | bytes | int, UserCipher] = LRUCache(_MOST_CIPHERS)
        self._by_number: LRUCache[str | bytes | int, UserCipher] = LRUCache(_MOST_CIPHERS)
        self._caches = {"user": self._by_user, "tag": self._by_tag, "number": self._by_number}

    def find(self, by: _By, value: str | bytes | int) -> UserCipher | None:
        """Return a cipher that is known."""
        cipher = self._caches[by].get(value)
        return None if cipher is None or cipher.is_dropped else cipher

    def put(self, cipher: UserCipher, number: int | None = None) -> None:
        """Keep a cipher whose key is stored."""
        known = self._by_user.get(cipher.user_id)
        if known is not None and known.wrapped == cipher.wrapped:
            cipher = known
        elif known is not None:
            self.drop(cipher.user_id)
        self._by_user.put(cipher.user_id, cipher)
        self._by_tag.put(cipher.tag, cipher)
        if number is not None:
            self._by_number.put(number, cipher)

    def drop(self, user_id: str) -> None:
        """Forget the cipher of a user, whose key was destroyed."""
        cipher = self._by_user.get(user_id)
        if cipher is not None:
            cipher.is_dropped = True
            self._by_user.remove(user_id)
            self._by_tag.remove(cipher.tag)


class _OfUsers:
    """What Ciphers of users with keys of their own have in common."""

    are_kept = True

    def of_nobody(self) -> UserCipher:
        """Raise ValueError: everything is somebody's."""
        raise ValueError("a text of nobody")


class TransactionKeys(_OfUsers):
    """The keys as one transaction sees them. Not thread-safe."""

    def __init__(self, kept: KeptKeys) -> None:
        self.kept = kept
        self._found: dict[tuple[str, str | bytes | int], UserCipher] = {}
        self._stored: set[str] = set()
        self.created: list[UserCipher] = []
        self.destroyed: set[str] = set()
        self.used: dict[str, UserCipher] = {}
        """The ciphers of values that were sent, which are of no use if the stored keys are others."""
        self.unchecked: list[UserCipher] = []
        """Those of them that aren't known to be of the stored keys."""

    def of_user(self, user_id: str) -> UserCipher:
        """Return the cipher of a user."""
        # Nearly always this one, for each text.
        return self.used.get(user_id) or self._of("user", user_id)

    def of_tag(self, tag: bytes) -> UserCipher:
        """Return the cipher whose texts begin with a tag."""
        return self._of("tag", tag)

    def of_number(self, number: int) -> UserCipher:
        """Return the cipher of the user with this number."""
        return self._of("number", number)

    def note_used(self, cipher: UserCipher) -> None:
        """Note that a value was made to be sent."""
        if cipher.user_id not in self.used:
            self.used[cipher.user_id] = cipher
            if cipher.user_id not in self._stored:
                self.unchecked.append(cipher)

    def add(self, cipher: UserCipher, number: int | None = None) -> None:
        """Add a stored key that was looked up, or a temporary one."""
        self._note(cipher, number)
        self._stored.add(cipher.user_id)
        if cipher.wrapped and cipher.user_id not in self.destroyed:
            self.kept.put(cipher, number)

    def create(self, user_id: str) -> UserCipher:
        """Return the cipher of a new key, which is to be stored in this transaction."""
        cipher = self.kept.wrap.new(user_id)
        self._note(cipher, None)
        self.created.append(cipher)
        return cipher

    def destroy(self, user_id: str) -> None:
        """Note that the user's key is deleted in this transaction."""
        self.destroyed.add(user_id)
        self.created = [one for one in self.created if one.user_id != user_id]
        self._found = {place: one for place, one in self._found.items() if one.user_id != user_id}
        self.used.pop(user_id, None)
        self._stored.discard(user_id)
        self.unchecked = [one for one in self.unchecked if one.user_id != user_id]

    def publish(self) -> None:
        """Let the process know what was created and destroyed; the transaction is committed."""
        for user_id in self.destroyed:
            self.kept.drop(user_id)
        for cipher in self.created:
            self.kept.put(cipher)

    def drop_used(self) -> bool:
        """Forget the keys that were used, since a stored one is another; return whether there were any."""
        for user_id in self.used:
            self.kept.drop(user_id)
        return bool(self.used)

    def found(self) -> list[UserCipher]:
        """Return the ciphers that the transaction has used for anything."""
        return list(self._found.values())

    def _note(self, cipher: UserCipher, number: int | None) -> None:
        self._found["user", cipher.user_id] = self._found["tag", cipher.tag] = cipher
        if number is not None:
            self._found["number", number] = cipher

    def _of(self, by: _By, value: str | bytes | int) -> UserCipher:
        cipher = self._found.get((by, value))
        if cipher is None:
            cipher = self.kept.find(by, value)
            if cipher is None or cipher.user_id in self.destroyed:
                raise UnknownKeyError(by, value)
            # The process may drop it before the transaction ends.
            self._found[by, value] = cipher
        return cipher


class NewKeys(_OfUsers):
    """Keys of all users of a memory that is written again, each made when it is first asked for."""

    def __init__(self, key: MemoryKey, users: dict[int, str]) -> None:
        self._wrap = KeyWrap(key)
        self._users = users
        self.by_user: dict[str, UserCipher] = {}
        self._by_tag: dict[bytes, UserCipher] = {}

    def of_user(self, user_id: str) -> UserCipher:
        """Return the cipher of a user."""
        cipher = self.by_user.get(user_id)
        if cipher is None:
            cipher = self.by_user[user_id] = self._wrap.new(user_id)
            self._by_tag[cipher.tag] = cipher
        return cipher

    def of_tag(self, tag: bytes) -> UserCipher:
        """Return the cipher whose texts begin with a tag."""
        if tag not in self._by_tag:
            raise BlindError
        return self._by_tag[tag]

    def of_number(self, number: int) -> UserCipher:
        """Return the cipher of the user with this number."""
        return self.of_user(self._users[number])

    def note_used(self, cipher: UserCipher) -> None:
        """Do nothing: the keys are stored at the end."""


def _context(user_id: str) -> list[bytes]:
    return [b"key of a user", user_id.encode("utf-8", "surrogateescape")]
