"""Numbers in sentences."""

from __future__ import annotations

import re

__all__ = ["counted", "inflected"]

_FORMS = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun: `1 memory`, `2 memories`, `1,234 facts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def inflected(number: int, words: str) -> str:
    """Return a sentence with the number at {}, and of each [singular|plural] the form that it needs.

    >>> inflected(1, "{} [memory belongs|memories belong] to nobody")
    '1 memory belongs to nobody'
    """
    return _FORMS.sub(lambda forms: forms[1 if number == 1 else 2], words).replace("{}", f"{number:,}")
