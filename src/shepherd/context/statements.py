"""Whether a message tells something that is worth keeping, or only asks, greets and agrees."""

from __future__ import annotations

import re

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.context.summary import QUESTION_MARKS
from shepherd.types import Message

__all__ = ["is_statement", "is_worth_a_memory"]

_SMALL_TALK = (
    "bye", "cheers", "fine", "good", "goodbye", "great", "hello", "hey", "hi", "morning", "evening", "night",
    "nice", "no", "ok", "okay", "sorry", "sure", "thanks", "thank", "welcome", "yeah", "yep", "yes",
)  # fmt: skip
# A text of nothing but stop words has them as its keywords, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in (*STOP_WORDS, *_SMALL_TALK)))

_NEXT_SENTENCE = re.compile(r"[.!?;:\n]\s+\w")
# In English; in other languages such exchanges are remembered.
_KNOWS_NOTHING = re.compile(
    r"\b(nothing stored|(don.?t|do not) (know|have|recall|remember)"
    r"|no (information|record|memory)|not sure)\b",
    re.I,
)
_ABOUT_ONESELF = re.compile(r"\b(I|me|my|mine|we|us|our|ours)\b", re.I)
_LONGEST_SHORT = 200  # characters; a longer answer says something else, too
_MOST_WORDS = 4096


def is_statement(text: str) -> bool:
    """Whether a message tells something: it is no question, and has more than filler and greetings."""
    return not text.rstrip().endswith(QUESTION_MARKS) and any(word not in _FILLER for word in keywords(text))


def is_worth_a_memory(user: Message, answer: str) -> bool:
    """Whether an exchange that leaves the window says anything that memory does not have.

    One question that was answered in short does not: out of its own message, memory's part included; not at
    all; or about the one who asks. What a model says of him it has from him, and its mistakes would be found
    instead of what he told when he asks again.
    """
    only_asks = user.raw.rstrip().endswith(QUESTION_MARKS) and not _NEXT_SENTENCE.search(user.raw)
    if not only_asks or len(answer) > _LONGEST_SHORT:
        return True
    if _ABOUT_ONESELF.search(user.raw) or _KNOWS_NOTHING.search(answer):
        return False
    return not frozenset(keywords(answer)) <= frozenset(keywords(user.sent, _MOST_WORDS))
