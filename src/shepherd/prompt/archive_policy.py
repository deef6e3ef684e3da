"""Policy of archiving: which messages state something, and which exchanges become memories."""

from __future__ import annotations

import re

from shepherd._native.text import keywords
from shepherd.claims import own_words
from shepherd.memory.stop_words import is_filler
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Message

__all__ = ["is_statement", "is_worth_a_memory"]


# English only: in other languages such exchanges become memories.
_KNOWS_NOTHING = re.compile(
    r"\b(nothing stored|(don.?t|do not) (know|have|recall|remember)"
    r"|no (information|record|memory)|not sure)\b",
    re.I,
)
_ABOUT_ONESELF = re.compile(r"\b(I|me|my|mine|we|us|our|ours)\b", re.I)
_LONGEST_SHORT = 200  # characters; a longer answer adds something
_MOST_WORDS = 4096


def is_statement(text: str) -> bool:
    """Return whether a message has a sentence, not a question, that is more than filler and greetings.

    A task with its material ("Translate: my name is Peter") states nothing, nor does what is taken back.
    """
    if not own_words(text):
        return False
    return any(
        not (is_question(sentence) or is_filler(sentence, keywords(sentence)))
        for sentence in split_sentences(text, clauses=True)
    )


def is_worth_a_memory(user: Message, answer: str) -> bool:
    """Return whether an evicted exchange says something that memory lacks.

    A message without a word of its own ("who am I?", "go on") does not: it would be found in place of the
    memory that it asks for.
    A question with a short answer does not, if the answer repeats the message and its recalled lines, knows
    nothing, or is about the user: the model knows that from the user alone, and a later recall would find its
    mistakes instead of the user's own words.
    """
    if is_filler(user.raw, keywords(user.raw)):
        return False
    sentences = split_sentences(user.raw, clauses=True)
    only_asks = any(map(is_question, sentences)) and not is_statement(user.raw)
    if not only_asks or len(answer) > _LONGEST_SHORT:
        return True
    if _ABOUT_ONESELF.search(user.raw) or _KNOWS_NOTHING.search(answer):
        return False
    return not frozenset(keywords(answer)) <= frozenset(keywords(user.sent, _MOST_WORDS))
