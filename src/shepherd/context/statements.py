"""Whether a message tells something that is worth keeping, or only asks, greets and agrees."""

from __future__ import annotations

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.context.summary import QUESTION_MARKS

__all__ = ["is_statement"]

_SMALL_TALK = (
    "bye", "cheers", "fine", "good", "goodbye", "great", "hello", "hey", "hi", "morning", "evening", "night",
    "nice", "no", "ok", "okay", "sorry", "sure", "thanks", "thank", "welcome", "yeah", "yep", "yes",
)  # fmt: skip
# A text of nothing but stop words has them as its keywords, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in (*STOP_WORDS, *_SMALL_TALK)))


def is_statement(text: str) -> bool:
    """Whether a message tells something: it is no question, and has more than filler and greetings."""
    return not text.rstrip().endswith(QUESTION_MARKS) and any(word not in _FILLER for word in keywords(text))
