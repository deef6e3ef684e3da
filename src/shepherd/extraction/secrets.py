"""What is never stored, whoever said it: keys, tokens, passwords, card numbers, private keys.

By shape, so it errs to the careful side: a fact that only looks like a key is lost, and can be set by hand.
"""

from __future__ import annotations

import math
import re
from collections import Counter

__all__ = ["is_secret"]

# What something is called that is a secret, in a key or a question: words, not parts of words.
_NAMES = re.compile(
    r"\b(?:pass ?(?:word|phrase|code|wort)s?|passwd|pwd|kennwort|contrase\w+|mot de passe|pin|puk|otp|totp"
    r"|(?:api|access|private|secret|signing|encryption|ssh|recovery|licen[cs]e|auth\w*)"
    r" (?:key|token|code|phrase)s?"
    r"|(?:client|shared|app) secret|secret|token|credentials?|seed phrase|mnemonic|cvv|cvc|ssn"
    r"|social security number|(?:credit |debit )?card number)\b"
)
_PATTERNS = re.compile(
    r"""-----BEGIN\ [A-Z ]*PRIVATE\ KEY
      | \b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}           # OpenAI, Anthropic, Stripe
      | \bgh[pousr]_[A-Za-z0-9]{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
      | \bxox[abeoprs]-[\w-]{10,} | \bxapp-[\w-]{10,}   # Slack
      | \b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b         # AWS
      | \bAIza[\w-]{30,} | \bya29\.[\w-]{20,}           # Google
      | \bhf_[A-Za-z0-9]{20,} | \bnpm_[A-Za-z0-9]{20,} | \bpypi-[\w-]{20,} | \bSG\.[\w-]{16,}\.[\w-]{16,}
      | \beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*            # a JSON web token
      | \b[a-z][a-z0-9+.-]*://[^\s/:@]+:[^\s/@]+@       # a password inside a URL
      | \b[Bb]earer\ +[\w.~+/-]{12,}
      | \b[0-9a-fA-F]{32,}\b""",
    re.VERBOSE,
)
_TOLD = re.compile(
    r"\b(?:password|passphrase|passcode|passwd|pwd|pin(?: code)?|api[ _-]?key|secret(?: key)?|token)"
    r"\s*(?:is|was|=|:)\s*\S",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
# Digits that may be grouped; what follows a plus sign is a phone number.
_CARD = re.compile(r"(?<![+\w])(?:\d[ -]?){12,18}\d(?!\w)")
_LEAST_BITS = 3.5


def is_secret(name: str, value: str) -> bool:
    """Whether a fact or memory, `name` its key or question, holds something that must not be stored."""
    words = re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower()
    if _NAMES.search(words):
        return True
    return any(
        _PATTERNS.search(text)
        or _TOLD.search(text)
        or any(map(_is_card, _CARD.findall(text)))
        or any(map(_looks_random, _WORD.findall(text)))
        for text in (name, value)
    )


def _is_card(text: str) -> bool:
    """Luhn's checksum (ISO/IEC 7812-1, annex B), and a first digit that card issuers have."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = (sum(divmod(2 * digit, 10)) for digit in digits[-2::-2])
    return digits[0] in range(2, 7) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _looks_random(word: str) -> bool:
    """A long word of capitals, small letters and digits that repeats little: bits per character."""
    kinds = (str.isupper, str.islower, str.isdigit)
    if not all(any(kind(c) for c in word) for kind in kinds):
        return False
    n = len(word)
    return -sum(k / n * math.log2(k / n) for k in Counter(word).values()) >= _LEAST_BITS
