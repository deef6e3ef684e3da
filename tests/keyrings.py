"""A keyring of the system for tests, through keyring's own interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["keyring_in_memory"]


@contextmanager
def keyring_in_memory() -> Iterator[dict[str, str]]:
    """Let the system have a keyring for the length of the block; gives its secrets, by their names."""
    from keyring import get_keyring, set_keyring
    from keyring.backend import KeyringBackend

    # Before there is the class below: at its first call, get_keyring chooses among all classes. It would
    # choose this one, and the tests that follow would have it as the keyring of the system.
    before = get_keyring()
    kept: dict[str, str] = {}

    class InMemory(KeyringBackend):
        priority = 1  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            return kept.get(username)

        def set_password(self, service: str, username: str, password: str) -> None:
            kept[username] = password

        def delete_password(self, service: str, username: str) -> None:
            del kept[username]

    set_keyring(InMemory())
    try:
        yield kept
    finally:
        set_keyring(before)
