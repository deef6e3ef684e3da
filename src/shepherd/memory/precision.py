"""Whether a value only says less precisely what is known."""

from __future__ import annotations

import re

__all__ = ["is_less_precise"]

_WORD = re.compile(r"[^\s,()]+")
# A value that lacks one of these words is another job or thing: a manager is no assistant manager.
_CHANGING = re.compile(
    r"acting|almost|apprentice|assistant|associate|co|deputy|former|future|grand|great|half|interim|junior|lead"
    r"|no|non|not|part|retired|semi|senior|step|student|sub|trainee|under|vice"
)
# "York" is another place than "New York".
_PLACES = re.compile(
    r"(?:^|_)(?:location|city|town|hometown|country|birthplace|address|region|state|origin)$"
)


def is_less_precise(key: str, value: str, known: str) -> bool:
    """Return whether `value` has only words of what is known, and means the same with less detail.

    "Volvo" is a "red Volvo V70" and "hospital" may be "Torbay Hospital", but Siemens is another company than
    Siemens Energy, and a manager is no assistant manager.
    """
    words, known_words = _WORD.findall(value), _WORD.findall(known)
    folded, known_folded = ([word.casefold() for word in one] for one in (words, known_words))
    if not words or len(words) >= len(known_words) or not set(folded) <= set(known_folded):
        return False
    if key == "name" or key.endswith("_name"):
        # "I'm Steve" says nothing against Steve Miller.
        return known_folded[0] == folded[0] and all(word[0].isupper() for word in known_words)
    dropped = [word for word, low in zip(known_words, known_folded, strict=True) if low not in folded]
    if _PLACES.search(key) or any(_CHANGING.fullmatch(word.casefold().partition("-")[0]) for word in dropped):
        return False
    if value == value.lower() and known_folded[-len(folded) :] == folded:
        return True
    return all(word == word.lower() or any(char.isdigit() for char in word) for word in dropped)
