"""Answers put together without a model: facts, quotations, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby

from shepherd.prompt.questions import Question
from shepherd.turn.quotation import Quote
from shepherd.types import Fact

__all__ = ["Found", "joined"]

# What answers a question: a sentence, facts or a quotation; the question itself where nothing is known.
Found = str | tuple[Fact, ...] | Quote | Question

_UNKNOWN = "I don't know that."
_MINE = re.compile(r"what(?:['\u2019]s| is| are) my (?P<thing>[^?,]+?)[\s?]*", re.IGNORECASE)
_I = re.compile(r"\b(?:i|me|my|we|our)\b", re.IGNORECASE)


def joined(found: Sequence[Found]) -> str:
    """Return one answer of what was found for each question; what is not known comes last."""
    known = [one for one in dict.fromkeys(found) if not isinstance(one, Question)]
    sentences: list[str] = []
    has_quoted = False
    for kind, group in groupby(known, _kind):
        same = list(group)
        if isinstance(same[0], Quote):
            sentences.append(
                _quoted([one for one in same if isinstance(one, Quote)], is_first=not has_quoted)
            )
            has_quoted = True
        elif kind == "facts":
            facts = {fact.key: fact.value for one in same if isinstance(one, tuple) for fact in one}
            shown = ", ".join(f"{key} = {value}" for key, value in facts.items())
            sentences.append(f"I know this about you: {shown}.")
        else:
            sentences += [one for one in same if isinstance(one, str)]
    if not sentences:
        return _UNKNOWN
    open_ones = [one for one in found if isinstance(one, Question)]
    return " ".join([*sentences, *([_not_known(open_ones)] if open_ones else [])])


def _kind(one: Found) -> str:
    if isinstance(one, Quote):
        return f"{one.kind}:{one.title}"
    return "facts" if isinstance(one, tuple) else "sentence"


def _quoted(quotes: Sequence[Quote], *, is_first: bool) -> str:
    """Return quotations of one source; the first of an answer says if they may answer something else."""
    sentences = " and ".join(f'"{one.sentence}"' for one in quotes)
    if quotes[0].kind == "document":
        said = f'your document "{quotes[0].title}" says: {" ".join(one.sentence for one in quotes)}'
    elif quotes[0].kind == "stored":
        said = f"I have this stored: {sentences}"
    else:
        said = f"you told me earlier: {sentences}"
    is_doubtful = is_first and not all(one.is_sure for one in quotes)
    return f"I don't know, but {said}" if is_doubtful else f"{said[0].upper()}{said[1:]}"


def _not_known(questions: Sequence[Question]) -> str:
    """Return a sentence about questions that stay open: "I don't know your shoe size."."""
    things, asked = [], []
    for question in questions:
        mine = _MINE.fullmatch(question.text)
        if mine and not _I.search(mine["thing"]):
            things.append(f"your {mine['thing']}")
        else:
            asked.append(f'"{question.text[:1].upper()}{question.text[1:]}"')
    if not asked:
        return f"I don't know {' or '.join(things)}."
    things.append(f"the answer to {' or '.join(asked)}")
    return f"I don't know {' or '.join(things)}"
