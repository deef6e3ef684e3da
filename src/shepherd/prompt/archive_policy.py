"""Whether a message tells something that is worth keeping, or only asks, greets and agrees."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.prompt.summary import QUESTION_MARKS
from shepherd.types import Message

__all__ = ["is_statement", "is_worth_a_memory"]


_SMALL_TALK = (
    "alright awesome bye cheers cool fine good goodbye great hello hey hi hm hmm morning evening night nice"
    " no ok okay perfect sorry sure thanks thank uh um welcome well wow yeah yep yes"
    " hallo danke guten tag morgen abend bonjour bonsoir salut merci hola buenos días gracias ciao grazie olá"
    " 你好 您好 请问 谢谢 こんにちは ありがとう"
)
# A text of nothing but stop words has them as its keywords, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in STOP_WORDS), keywords(_SMALL_TALK, 256))

# Not the points of v2.31, example.com or ?page=1.
_SENTENCE_END = re.compile(
    r"(?<=[.!?;…\u061f])\s+|(?<=[.!?;…\u061f][\"')\]*_\u201d\u2019])\s+|(?<=[\u3002\uff01\uff1f])|\n\s*"
)
# A full stop behind one of these ends no sentence, nor does one behind a letter or the number of a list.
_SHORTENED = re.compile(r"(?:\b(?:dr|mr|mrs|ms|prof|st|vs|etc|approx|nr|[^\W\d_])|^\s*\d{1,3})\.$", re.I)
_LONGEST_SHORTENED = 8
_CLOSING = " \t\n!.\"')]*_\u201d\u2019\u300d\u300f\uff09"
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
    """Whether a message tells something: in a sentence that is no question more than filler and greetings."""
    return any(
        not _asks(sentence) and any(word not in _FILLER for word in keywords(sentence))
        for sentence in _sentences(text)
    )


def _asks(sentence: str) -> bool:
    return sentence.rstrip(_CLOSING).endswith(QUESTION_MARKS)


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for end in _SENTENCE_END.finditer(text):
        if _goes_on(text, begin, end):
            continue
        yield text[begin : end.start()]
        begin = end.end()
    yield text[begin:]


def _goes_on(text: str, begin: int, end: re.Match[str]) -> bool:
    """Whether what may be its end is none: behind `Dr.`, or where the next line begins in lower case."""
    last = text[max(begin, end.start() - _LONGEST_SHORTENED) : end.start()]
    if last.endswith("."):
        return "\n" not in end[0] and _SHORTENED.search(last) is not None
    is_line = end[0].count("\n") == 1 and not last.endswith(("!", ";", "…", *QUESTION_MARKS))
    return is_line and text[end.end() : end.end() + 1].islower()


def is_worth_a_memory(user: Message, answer: str) -> bool:
    """Whether an exchange that leaves the window says anything that memory does not have.

    One question that was answered in short does not: out of its own message, memory's part included; not at
    all; or about the one who asks. What a model says of him it has from him, and its mistakes would be found
    instead of what he told when he asks again.
    """
    only_asks = any(map(_asks, _sentences(user.raw))) and not is_statement(user.raw)
    if not only_asks or len(answer) > _LONGEST_SHORT:
        return True
    if _ABOUT_ONESELF.search(user.raw) or _KNOWS_NOTHING.search(answer):
        return False
    return not frozenset(keywords(answer)) <= frozenset(keywords(user.sent, _MOST_WORDS))
