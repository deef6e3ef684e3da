"""Features of a memory's text and place in a conversation: how it ends, its writers, wishes, label, thread.

They are stored with the memory; rescore.c ranks by them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from shepherd._native.rank import ASSISTANT_ANSWER, ASSISTANT_QUESTION, INSTRUCTS, PREFERS, key
from shepherd._native.text import pairs, terms

__all__ = [
    "ABOUT_USER",
    "ASKS_LAST",
    "ASKS_NOT",
    "ASKS_ONLY",
    "TALKS",
    "Neighbour",
    "asks",
    "assistants",
    "label",
    "pairs_of",
    "signs",
    "thread",
    "wishes",
]

ASKS_NOT = 0
ASKS_LAST = 1
ASKS_ONLY = 2

# Question of an imported statement about the user. Its words are stop words, which weigh nothing in a search,
# and "User: About me, Assistant: Likes tea" reads naturally.
ABOUT_USER = "About me"
# Sources of memories whose answer is an assistant's: turns of Shepherd and of other programs.
TALKS = frozenset(("turn", "chatgpt", "llm"))
# Sources of memories that are nobody's words in a talk, whatever label they have.
_NOTES = frozenset(("user", "tool", "extraction"))
# Labels of an assistant in the records of a talk.
_ASSISTANTS = frozenset(
    (
        *("assistant", "ai", "ai assistant", "bot", "chatbot", "shepherd"),
        *("chatgpt", "gpt", "claude", "gemini", "copilot", "llama"),
    )
)

# Seconds up to which memories without a session, stored one after the other, belong together.
PAUSE_S = 1800

# Signs that end a sentence: not the points of v2.31, example.com or ?page=1. Text after the last of them,
# such as a caption, a date or a signature, is ignored.
_FAR_MARKS = "\N{FULLWIDTH QUESTION MARK}\N{ARABIC QUESTION MARK}"
_FAR_ENDS = "\N{FULLWIDTH EXCLAMATION MARK}\N{IDEOGRAPHIC FULL STOP}"
_CLOSING = "\N{RIGHT DOUBLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}"
_END = re.compile(rf"""[?.!…]+(?=[\s"'{_CLOSING})\]*_]|$)|[{_FAR_MARKS}{_FAR_ENDS}]""")
_QUESTION_MARKS = frozenset("?" + _FAR_MARKS)
_TAIL_CHARACTERS = 1000
# Characters of a text that are searched for wishes.
_HEAD_CHARACTERS = 4000
# "Always use metric units", "Please answer in French from now on", "… when I ask about cooking".
_INSTRUCTS = re.compile(
    r"(?:^|\n|[.!?:;]\s)\W{0,4}(?:(?:please|and|also|so|ok(?:ay)?),? ){0,3}"
    r"(?:always|never(?! mind)|whenever|every time)\b"
    r"|\b(?:from now on|going forward|henceforth)\b|\b(?:when(?:ever)?|every time|each time) I ask\b",
    re.IGNORECASE,
)
# Every text with a wish has one of these, in lower case: they are found sooner than the patterns.
_WORDS_OF_WISHES = (
    *("always", "never", "whenever", "every time", "each time", "from now on", "going forward", "henceforth"),
    *("i ask", "prefer", "rather"),
)
# "I prefer vim", "I'd rather walk".
_PREFERS = re.compile(
    r"\bI(?:['\u2019]d| would)?(?: (?:really|much|always|also|still|usually|generally|strongly|definitely))* "
    r"(?:prefer|rather)\b|\bmy preference\b|\ba preference\b",
    re.IGNORECASE,
)
# "Anna: ...", "Dr. Anna Smith: ...", "Address: ...": up to three words.
_LABEL = re.compile(r"\s*([^\W_][\w.'-]*(?: [\w.'-]+){0,2}):\s")


class Neighbour(NamedTuple):
    """The memory stored before, whose sequence is smaller by one."""

    thread: int
    timestamp: int
    session: str


def asks(question: str, answer: str) -> int:
    """Return whether a memory ends with a question: ASKS_NOT, ASKS_LAST after a statement, ASKS_ONLY."""
    asked = _last_sign(question)
    if not answer.strip():
        return ASKS_ONLY if asked else ASKS_NOT
    if not _last_sign(answer):
        return ASKS_NOT
    # "Anna" | "How are you?": the first part only says who speaks.
    return ASKS_ONLY if asked is None else ASKS_LAST


def _last_sign(text: str) -> bool | None:
    """Return whether the last sentence is a question; None without a sign that ends one."""
    signs = _END.findall(text[-_TAIL_CHARACTERS:])
    return not _QUESTION_MARKS.isdisjoint(signs[-1]) if signs else None


def assistants(question: str, answer: str, source: str) -> int:
    """Return which of a memory's texts an assistant wrote: bits ASSISTANT_QUESTION and ASSISTANT_ANSWER."""
    if source in TALKS:
        return ASSISTANT_ANSWER if answer.strip() and question.strip() != ABOUT_USER else 0
    if source in _NOTES:
        return 0
    in_question = ASSISTANT_QUESTION if _is_assistants(question) else 0
    return in_question | (ASSISTANT_ANSWER if _is_assistants(answer) else 0)


def _is_assistants(text: str) -> bool:
    found = _LABEL.match(text)
    return found is not None and found[1].casefold() in _ASSISTANTS


def wishes(text: str) -> int:
    """Return whether a person's text says how answers have to be, or what they prefer: INSTRUCTS, PREFERS."""
    found = _LABEL.match(text)
    own = text[found.end() if found else 0 :][:_HEAD_CHARACTERS]
    lowered = own.lower()
    if not any(word in lowered for word in _WORDS_OF_WISHES):
        return 0
    return (INSTRUCTS if _INSTRUCTS.search(own) else 0) | (PREFERS if _PREFERS.search(own) else 0)


def signs(question: str, answer: str, source: str) -> int:
    """Return the column `asks` of a memory: how it ends, who wrote its texts, and a person's wishes."""
    writers = assistants(question, answer, source)
    found = asks(question, answer) | writers
    if not writers & ASSISTANT_QUESTION:
        found |= wishes(question)
    if not writers & ASSISTANT_ANSWER:
        found |= wishes(answer)
    return found


def pairs_of(question: str, answer: str, signs: int) -> bytes:
    """Return the column `pairs` of a memory: which words stand side by side in what a person wrote."""
    return pairs(
        text for text, bit in ((question, ASSISTANT_QUESTION), (answer, ASSISTANT_ANSWER)) if not signs & bit
    )


def label(question: str, answer: str) -> int:
    """Return the key of the first word before a colon at the beginning, mostly the speaker; 0 without one."""
    found = _LABEL.match(question if question.strip() else answer)
    words = terms(found[1]) if found else []
    return key(words[0]) if words else 0


def thread(sequence: int, timestamp: int, session: str, previous: Neighbour | None) -> int:
    """Return the key of the conversation: positive for a session, negative for memories without one."""
    if session:
        return key(session)
    follows = previous is not None and not previous.session and previous.thread < 0
    if previous is not None and follows and abs(timestamp - previous.timestamp) <= PAUSE_S:
        return previous.thread
    return -(sequence & 0x7FFFFFFF or 1)
