"""The letter A where it looks like an article: "blood type A negative", "seat A 12"."""

from __future__ import annotations

import re

__all__ = ["begins_with_letter"]

# An article has no capital letter within a sentence, unless other words have, too: "My Car Is A Skoda".
_LETTER = re.compile(
    r"A\s+(?:[a-z\d]|[A-Z](?![\w'-]))"
    # "a positive" in a hurry, unlike "a positive attitude"
    r"|[Aa]\s+(?i:(?:rh(?:esus)?\W?\s*)?(?:pos(?:itive)?|neg(?:ative)?|plus|minus))(?=\W*(?:$|[,.;!?)])|\s+(?:and|but|so)\b)"
)


def begins_with_letter(words: str) -> bool:
    """Return whether the words begin with an A that is a letter, which belongs to a value."""
    return _LETTER.match(words) is not None
