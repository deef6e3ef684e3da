"""Secrets in the keyring of the system: Secret Service, Keychain, Windows' credentials."""

from __future__ import annotations

import contextlib
from importlib.util import find_spec

from shepherd.errors import UsageError
from shepherd.installation import install_extra

__all__ = ["forget", "is_usable", "lookup", "store"]

_SERVICE = "shepherd"


def lookup(name: str) -> str:
    """Return the secret of that name, "" without one, and for a keyring that cannot be opened."""
    if find_spec("keyring") is None:
        return ""
    import keyring

    try:
        return keyring.get_password(_SERVICE, name) or ""
    except Exception:  # no backend on a server, a locked one: as if it were empty
        return ""


def store(name: str, value: str, *, instead: str) -> None:
    """Put a secret into the keyring; UsageError if it cannot take it, with `instead` as the way out."""
    if find_spec("keyring") is None:
        raise UsageError(
            "there is no client for the keyring", hint=f"{install_extra('keyring')}, or {instead}"
        )
    import keyring

    try:
        keyring.set_password(_SERVICE, name, value)
    except Exception as error:  # every backend has errors of its own
        raise UsageError(f"the keyring refused it: {type(error).__name__}", hint=instead) from None


def forget(name: str) -> None:
    """Delete a secret, if it is there."""
    if not lookup(name):
        return
    import keyring

    with contextlib.suppress(Exception):
        keyring.delete_password(_SERVICE, name)


def is_usable() -> bool:
    """Return whether the keyring keeps secrets; asks it, which can open a window of the system."""
    if find_spec("keyring") is None:
        return False
    import keyring

    try:
        return float(keyring.get_keyring().priority) > 0
    except Exception:
        return False
