"""Values for a server that must not read them: texts as authenticated ciphertext, words as keyed hashes.

    a text       U+E0B1, then base64 of
                     8 bytes     tag of the user's key
                     16 bytes    random, unless equal texts are to be found
                     the rest    AES-SIV (RFC 5297) with 512-bit keys, of which each user has one of their own
    bytes        the same without base64, after E0 B1
    a word       base64 of 12 bytes of keyed BLAKE2b; the word comes with its user's number
    a number     another one of 1 to 2^31 - 1, by a permutation with a key

Each user has a random key for these, see user_keys.py. In memories of the first two formats, which had none,
the keys are derived from the memory's key.

The kind of a text and the columns that identify its row are authenticated along with it, so it can't be moved
to a column of another kind, to another row or to another user without being noticed. Empty texts and NULL
stay what they are.
"""

from __future__ import annotations

import binascii
import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from shepherd.encryption.key import MemoryKey, needs_package
from shepherd.errors import StoreKeyError
from shepherd.lru_cache import LRUCache

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

__all__ = ["PREFIX", "BlindError", "DerivedKeys", "Row", "UserCipher", "aes_siv", "size_of", "tag_of"]

Row = Sequence[int | str | None]
"""The values that identify a row. None is for values of the first format, which aren't bound to a row."""

PREFIX = "\ue0b1"
_BYTES_PREFIX = b"\xe0\xb1"
_TAG_BYTES, _NONCE_BYTES, _SIV_BYTES = 8, 16, 16
# Characters of base64 that begin with a tag.
_TAG_CHARS = 12
_WORD_BYTES = 12
_MOST_CIPHERS = 1024
_MOST_NUMBERS = 1 << 14
_ROUNDS = 8
_LARGEST = (1 << 31) - 1


class BlindError(Exception):
    """A stored value was not made with this key for this user and kind, or was changed since."""


class UserCipher:
    """Makes stored values of one user's texts and words and back. Thread-safe.

    `kind` names what a text is, and `row` where it stands: those of one kind and row can be compared with one
    another. `secret`: the user's key; `key` is the memory's. `wrapped`: the user's key as it is stored, empty
    if it isn't.
    """

    def __init__(
        self,
        key: MemoryKey,
        secret: bytes | memoryview,
        tag: bytes | None = None,
        *,
        user_id: str = "",
        wrapped: bytes = b"",
    ) -> None:
        self._key, self._secret = key, secret
        self.user_id, self.wrapped = user_id, wrapped
        self.is_dropped = False
        """True once the user's key is known to be another one, or none."""
        self._texts: AESSIV | None = None
        # Per instance: with another key, the same number is another one.
        self._other_number = lru_cache(_MOST_NUMBERS)(self._permuted)
        self.tag = self._derived(b"tag", b"", _TAG_BYTES) if tag is None else tag

    # ---- texts and bytes

    def text(self, text: str, kind: str, row: Row | None, *, is_random: bool) -> str:
        """Return the stored value of a text.

        Without `is_random`, equal texts of one kind and row have equal values.
        """
        if not text:
            return text
        sealed = self._sealed(text.encode(), kind, row, is_random)
        return PREFIX + binascii.b2a_base64(sealed, newline=False).decode()

    def data(self, data: bytes, kind: str, row: Row | None) -> bytes:
        """Return the stored value of bytes; equal ones have different values."""
        return _BYTES_PREFIX + self._sealed(data, kind, row, True) if data else data

    def text_of(self, stored: str, kind: str, row: Row | None, *, is_random: bool) -> str:
        """Return the text of a stored value. Raises BlindError."""
        try:
            # Other characters between those of base64 are ignored: what is left is authenticated.
            sealed = binascii.a2b_base64(stored[len(PREFIX) :])
            return self._opened(sealed, kind, row, is_random).decode()
        except ValueError as error:
            raise BlindError from error

    def data_of(self, stored: bytes, kind: str, row: Row | None) -> bytes:
        """Return the bytes of a stored value. Raises BlindError."""
        if not stored.startswith(_BYTES_PREFIX):
            raise BlindError
        return self._opened(stored[len(_BYTES_PREFIX) :], kind, row, True)

    def _sealed(self, data: bytes, kind: str, row: Row | None, is_random: bool) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES) if is_random else b""
        return self.tag + nonce + self._cipher().encrypt(data, _context(kind, row, nonce))

    def _opened(self, sealed: bytes, kind: str, row: Row | None, is_random: bool) -> bytes:
        start = _TAG_BYTES + (_NONCE_BYTES if is_random else 0)
        if len(sealed) <= start + _SIV_BYTES or sealed[:_TAG_BYTES] != self.tag:
            raise BlindError
        try:
            return self._cipher().decrypt(sealed[start:], _context(kind, row, sealed[_TAG_BYTES:start]))
        except aes_siv()[1] as error:
            raise BlindError from error

    def _cipher(self) -> AESSIV:
        if self._texts is None:
            self._texts = aes_siv()[0](self._derived(b"text", self.tag, 64))
        return self._texts

    # ---- words and numbers

    def words(self, words: Sequence[str]) -> list[str]:
        """Return the hashes of words, each of which has its user's number in it, in their order."""
        key, hashed = self._secret_in_use(), hashlib.blake2b
        digests = [
            hashed(word.encode(), key=key, digest_size=_WORD_BYTES, person=b"word").digest() for word in words
        ]
        # An array of PostgreSQL takes these characters without quotes.
        return [urlsafe_b64encode(digest).decode() for digest in digests]

    def number(self, number: int) -> int:
        """Return the stored number for one of 1 to 2^31 - 1; any other one stays."""
        return self._other_number(number, False) if 0 < number <= _LARGEST else number

    def number_of(self, stored: int) -> int:
        """Return the number that was stored."""
        return self._other_number(stored, True) if 0 < stored <= _LARGEST else stored

    def _permuted(self, number: int, backwards: bool) -> int:
        """Permute 1 to 2^31 - 1: a Feistel network over 32 bits, repeated until it is back in that range."""
        rounds = range(_ROUNDS)[::-1] if backwards else range(_ROUNDS)
        while True:
            left, right = number >> 16, number & 0xFFFF
            for place in rounds:
                if backwards:
                    left, right = right ^ self._mixed(place, left), left
                else:
                    left, right = right, left ^ self._mixed(place, right)
            number = left << 16 | right
            if 0 < number <= _LARGEST:
                return number

    def _mixed(self, place: int, half: int) -> int:
        return int.from_bytes(self._derived(b"number", bytes([place, half >> 8, half & 0xFF]), 2), "big")

    def _derived(self, purpose: bytes, data: bytes, size: int) -> bytes:
        return _derived(self._secret_in_use(), purpose, data, size)

    def _secret_in_use(self) -> bytes | memoryview:
        check_not_wiped(self._key)
        return self._secret


class DerivedKeys:
    """The ciphers of a memory whose users have no keys of their own. Thread-safe.

    Whoever has the memory's key can read a user's texts in a backup for ever.
    """

    are_kept = False

    def __init__(self, key: MemoryKey) -> None:
        aes_siv()
        self._key = key
        self._by_tag: LRUCache[bytes, UserCipher] = LRUCache(_MOST_CIPHERS)
        self._tag = lru_cache(_MOST_CIPHERS)(self._new_tag)
        # Of texts of nobody, and of words and numbers of all users.
        self._nobody = UserCipher(key, key.blind, bytes(_TAG_BYTES))

    def of_user(self, user_id: str) -> UserCipher:
        """Return the cipher of a user."""
        return self.of_tag(self._tag(user_id))

    def of_tag(self, tag: bytes) -> UserCipher:
        """Return the cipher whose texts begin with a tag."""
        cipher = self._by_tag.get(tag)
        if cipher is None:
            cipher = UserCipher(self._key, self._key.blind, tag)
            self._by_tag.put(tag, cipher)
        return cipher

    def of_number(self, number: int) -> UserCipher:
        """Return the cipher of the words and labels of the user with this number."""
        return self._nobody

    def of_nobody(self) -> UserCipher:
        """Return the cipher of what is no single user's."""
        return self._nobody

    def note_used(self, cipher: UserCipher) -> None:
        """Do nothing: these keys don't change."""

    def _new_tag(self, user_id: str) -> bytes:
        check_not_wiped(self._key)
        return _derived(self._key.blind, b"user", user_id.encode(), _TAG_BYTES)


def tag_of(stored: str | bytes) -> bytes:
    """Return the tag of a stored text, or of stored bytes. Raises BlindError."""
    if isinstance(stored, bytes):
        return stored[len(_BYTES_PREFIX) :][:_TAG_BYTES]
    try:
        return binascii.a2b_base64(stored[len(PREFIX) :][:_TAG_CHARS])[:_TAG_BYTES]
    except ValueError as error:
        raise BlindError from error


def size_of(n_bytes: int, *, is_random: bool) -> int:
    """Return the bytes of the stored value of a text that has so many in UTF-8."""
    if not n_bytes:
        return 0
    sealed = _TAG_BYTES + (_NONCE_BYTES if is_random else 0) + _SIV_BYTES + n_bytes
    return len(PREFIX.encode()) + 4 * ((sealed + 2) // 3)


def check_not_wiped(key: MemoryKey) -> None:
    """Raise StoreKeyError once the key is wiped, since anybody knows that one.

    A forked process finds it wiped.
    """
    if key.is_wiped:
        raise StoreKeyError(
            "the key of the memory was wiped in this process",
            hint="open the memory in the process that uses it, not in the one that forks it",
        )


def _derived(key: bytes | memoryview, purpose: bytes, data: bytes, size: int) -> bytes:
    return hashlib.blake2b(data, key=key, digest_size=size, person=purpose).digest()


@cache
def aes_siv() -> tuple[type[AESSIV], type[Exception]]:
    """Return the cipher and its error; raises UsageError without the package."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
    except ImportError as error:
        raise needs_package() from error
    return AESSIV, InvalidTag


def _context(kind: str, row: Row | None, nonce: bytes) -> list[bytes]:
    """Return what is authenticated along with a text."""
    parts = [kind.encode()]
    if row is not None:
        # No kind is called "row": values of the first version cannot be taken for these.
        parts = [b"row", *parts, *(f"{type(value).__name__} {value}".encode() for value in row)]
    # RFC 5297, 3: a nonce is the last of what is authenticated.
    return [*parts, nonce] if nonce else parts
