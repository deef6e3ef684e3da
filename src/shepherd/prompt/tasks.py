"""Tasks that a message sets: work on a text, an invention, a reminder."""

from __future__ import annotations

import re
from functools import cache

from shepherd.claims.judge import plain_facts
from shepherd.claims.wordings import alternatives
from shepherd.escaping import without_blocks
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.requests import is_bare_request
from shepherd.sentences import split_sentences

__all__ = ["asks_for_reminder", "is_task"]

# A longer message contains the text to work on, and begins with the instruction.
_LONGEST_READ = 2_000  # characters
_CLAUSE_END = re.compile(r"[,;:!?\u2013\u2014()\n]+\s*|\.\s+|\s-\s|\s(?:and|so|but)\s", re.IGNORECASE)
# Not "remind me to whom I lent it", which asks, nor "set off an alarm", which tells.
_REMINDER = re.compile(
    r"\W*(?:(?:please|pls|now|then|and|so|hi|hey|hello|ok(?:ay)?|shepherd|also|just"
    r"|(?:can|could|would|will) you|i (?:want|need) you to|i'd like you to|don't forget to)\b\W*)*"
    r"(?:remind (?:me|us)(?: please| again)?"
    r"(?: to (?!who|what|which|my\b|our\b|the\b)| (?:tomorrow|tonight|later)\b(?!')| (?:every|next) "
    r"| (?:at|in|on|by|after|before) (?!what|which|who|my\b|our\b|the\b))"
    r"|wake (?:me|us)\b"
    r"|(?:set|start|create|add|make)(?: me| us| up)?(?: an?| the| another)?(?: [\w-]+){0,3}?"
    r" (?:timer|alarm|reminder)s?\b)",
    re.IGNORECASE,
)

# Verbs of requests for what is stored, or about how to answer, which are no tasks.
_NO_TASK = r"(?:answer|be|describe|give|list|re(?:peat|ply|spond)|say|show|spell|tell)"


def asks_for_reminder(text: str) -> bool:
    """Return whether a message wants a reminder, an alarm or a timer, whatever it tells besides."""
    return any(map(_REMINDER.match, _CLAUSE_END.split(_beginning(text))))


def is_task(text: str) -> bool:
    """Return whether a message states nothing, and wants work on a text or something made up.

    "Summarise this" and "translate my name into Japanese" do; "correct" may agree, and "be brief" is about
    other answers.
    """
    text = _beginning(text)
    if is_statement(text) or is_bare_request(text) or plain_facts(text):
        return False
    return any(map(_task().match, split_sentences(text, clauses=True)))


def _beginning(text: str) -> str:
    return without_blocks(text)[:_LONGEST_READ].replace("\u2019", "'")


@cache
def _task() -> re.Pattern[str]:
    """Return the pattern of a sentence that begins with a task, and has an object or can do without."""
    tasks = "|".join(map(alternatives, ("work on a text", "invention")))
    return re.compile(
        rf"\W*(?:{alternatives('polite')}[,!]?\s+)*(?!{_NO_TASK}\b)"
        rf"(?:(?:{tasks}|explain)\s+\w|(?:summari[sz]e|translate|proofread|paraphrase|rephrase|rewrite)\b)",
        re.IGNORECASE,
    )
