"""Whether what was extracted is a secret: by its text, and by what it is called."""

from __future__ import annotations

import re

__all__ = ["is_secret"]

# A value alone does not show that it is a password; its key or question does. Words, not parts of words.
_NAMES = re.compile(
    r"\b(?:pass ?(?:word|phrase|code|wort)s?|passwd|pwd|kennwort|contrase\w+|mot de passe|pin|puk|otp|totp"
    r"|(?:api|access|private|secret|signing|encryption|ssh|recovery|licen[cs]e|auth\w*)"
    r" (?:key|token|code|phrase)s?"
    r"|(?:client|shared|app) secret|secret|token|credentials?|seed phrase|mnemonic|cvv|cvc|ssn"
    r"|social security number|(?:credit |debit )?card number)\b"
)


def is_secret(name: str, value: str) -> bool:
    """Whether a fact or memory, `name` its key or question, holds something that must not be stored."""
    # Not at the top: its patterns take 10 ms to compile, and a conversation begins without them.
    from shepherd.secret_detection import find_secrets

    words = re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower()
    return bool(_NAMES.search(words) or any(map(find_secrets, (name, value, f"{name}: {value}"))))
