"""Policy of archiving: which messages state something, and which exchanges become memories."""

from __future__ import annotations

import re

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.sentences import is_question, split_sentences
from shepherd.types import Message

__all__ = ["is_statement", "is_worth_a_memory"]


_SMALL_TALK = (
    "alright awesome bye cheers cool fine good goodbye great hello hey hi hm hmm morning evening night nice"
    " no ok okay perfect sorry sure thanks thank uh um welcome well wow yeah yep yes"
    " hallo danke guten tag morgen abend bonjour bonsoir salut merci hola buenos días gracias ciao grazie olá"
    " 你好 您好 请问 谢谢 こんにちは ありがとう"
)
# The keywords of a text that has only stop words are those, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in STOP_WORDS), keywords(_SMALL_TALK, 256))

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
    """Return whether a message has a sentence, not a question, that is more than filler and greetings."""
    return any(
        not is_question(sentence) and any(word not in _FILLER for word in keywords(sentence))
        for sentence in split_sentences(text, clauses=True)
    )


def is_worth_a_memory(user: Message, answer: str) -> bool:
    """Return whether an evicted exchange says something that memory lacks.

    A question with a short answer does not, if the answer repeats the message and its recalled lines, knows
    nothing, or is about the user: the model knows that from the user alone, and a later recall would find its
    mistakes instead of the user's own words.
    """
    sentences = split_sentences(user.raw, clauses=True)
    only_asks = any(map(is_question, sentences)) and not is_statement(user.raw)
    if not only_asks or len(answer) > _LONGEST_SHORT:
        return True
    if _ABOUT_ONESELF.search(user.raw) or _KNOWS_NOTHING.search(answer):
        return False
    return not frozenset(keywords(answer)) <= frozenset(keywords(user.sent, _MOST_WORDS))
