"""Passphrases: asked for at the terminal, and never shown."""

from __future__ import annotations

import getpass
import sys

from shepherd.encryption.unlocking import LEAST_CHARS
from shepherd.errors import UsageError

__all__ = ["ask_passphrase", "known_passphrase", "new_passphrase", "require_length"]


def ask_passphrase(question: str) -> str | None:
    """Ask at the terminal, without showing what is typed; None where there is nobody to ask."""
    if not _is_terminal():
        return None
    try:
        return getpass.getpass(question) or None
    except (EOFError, OSError):
        return None


def known_passphrase(question: str, *, unasked: str) -> str:
    """Return what the user types; raises UsageError, whose hint without a terminal is `unasked`."""
    return _typed(question, unasked, "the passphrase")


def new_passphrase(question: str, *, unasked: str) -> str:
    """Return a passphrase that the user chooses and types twice; raises as known_passphrase does."""
    text = _typed(question, unasked, "four words or more")
    require_length(text)
    if ask_passphrase("Repeat the passphrase: ") != text:
        raise UsageError("the two passphrases differ; nothing was changed", hint="run the command again")
    return text


def require_length(text: str) -> None:
    """Raise UsageError if a new passphrase is too short."""
    if len(text) < LEAST_CHARS:
        raise UsageError(
            f"the passphrase is shorter than {LEAST_CHARS} characters", hint="use four words or more"
        )


def _typed(question: str, unasked: str, what: str) -> str:
    text = ask_passphrase(question)
    if text is None and _is_terminal():
        raise UsageError(
            "the passphrase is empty; nothing was changed", hint=f"run the command again, and type {what}"
        )
    if text is None:
        raise UsageError("a passphrase can only be asked for at a terminal", hint=unasked)
    return text


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()
