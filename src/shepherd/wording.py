"""Numbers in sentences, and words in texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from shepherd._native.text import keywords

__all__ = ["as_written", "counted", "inflected", "joined_hints", "mentions"]

_WORD = re.compile(r"\w+(?:['\u2019.+#-]+\w+)*[+#]*")
# Search terms come from the beginning of a text.
_MOST_CHARS = 20_000
_FORMS = re.compile(r"\[([^|\]]*)\|([^\]]*)\]")


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return the number with its noun: `1 memory`, `2 memories`, `1,234 facts`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def joined_hints(first: str, second: str) -> str:
    """Return two pieces of advice as one hint; the first may be "" or a question ("did you mean …?")."""
    if not first:
        return second
    return f"{first}{' ' if first.endswith('?') else '; '}{second}"


def inflected(number: int, words: str) -> str:
    """Return a sentence with the number at {}, and of each [singular|plural] the form that it needs.

    >>> inflected(1, "{} [memory belongs|memories belong] to nobody")
    '1 memory belongs to nobody'
    """
    return _FORMS.sub(lambda forms: forms[1 if number == 1 else 2], words).replace("{}", f"{number:,}")


def mentions(values: Iterable[str]) -> Callable[[str], object] | None:
    """Return a search for any of the values as whole words, whatever their case; None without any."""
    words = [re.escape(value.strip()) for value in values if value.strip()]
    if not words:
        return None
    return re.compile(rf"(?<!\w)(?:{'|'.join(words)})(?!\w)", re.IGNORECASE).search


def as_written(terms: Sequence[str], text: str) -> list[str]:
    """Return for each search term the first word of the text that it comes from, or else the term.

    >>> as_written(["ide", "hous"], "Which IDEs are in my house?")
    ['IDEs', 'house']
    """
    words: dict[str, str] = {}
    for word in _WORD.findall(text[:_MOST_CHARS]):
        for term in keywords(word):
            words.setdefault(term, word)
    return list(dict.fromkeys(words.get(term, term) for term in terms))
