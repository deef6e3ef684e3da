"""Answers put together without a model: facts, quotations, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby

from shepherd.escaping import PIPED, shorten
from shepherd.installation import program_from_anywhere
from shepherd.prompt.near_facts import NearFact
from shepherd.prompt.questions import Question
from shepherd.turn.fact_sentences import fact_clause, is_clause, sentence
from shepherd.turn.quotation import Quote
from shepherd.types import Fact

__all__ = ["Found", "joined"]

# What answers a question: a sentence, facts, one that may be meant, or a quotation; the question itself where
# nothing is known.
Found = str | tuple[Fact, ...] | NearFact | Quote | Question

_UNKNOWN = "I don't know that."
_MOST_SENTENCES = 8
_LONGEST_ASKED = 80  # characters of a question that was asked once
_COVER = "\u2022\u2022"
_COVERED = " Codes and passwords are masked when a document is imported; your own file still shows them."
_COVERED_IN_MEMORY = (
    " Anything that could be a code or a password is masked in memory. If this is neither, store it with"
    " `{program} facts set KEY VALUE`."
)
_MINE = re.compile(r"what(?:['\u2019]s| is| are) my (?P<thing>[^?,]+?)[\s?]*", re.IGNORECASE)
_PERSONAL = re.compile(r"\b(?:i|me|my|we|us|our|you|your)\b", re.IGNORECASE)
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
            sentences.append(_told(facts))
        elif kind == "near":
            sentences.append(_perhaps([one.fact for one in same if isinstance(one, NearFact)]))
        else:
            sentences += [one for one in same if isinstance(one, str)]
    if not sentences:
        return _UNKNOWN
    open_ones = [one for one in found if isinstance(one, Question)]
    return " ".join([*sentences, *([_not_known(open_ones)] if open_ones else [])])


def _kind(one: Found) -> str:
    if isinstance(one, Quote):
        return f"{one.kind}:{one.title}"
    if isinstance(one, NearFact):
        return "near"
    return "facts" if isinstance(one, tuple) else "sentence"


def _told(facts: Mapping[str, str]) -> str:
    """Return facts in sentences; many of them as a list."""
    if len(facts) > _MOST_SENTENCES:
        listed = "; ".join(f"{key.replace('_', ' ')}: {value}" for key, value in facts.items())
        return f"I know this about you: {listed}."
    return " ".join(f"{_sentence(key, value.strip())}" for key, value in facts.items())


def _sentence(key: str, value: str) -> str:
    """Return what a fact says: "You live in Ulm."."""
    said = f"You told me: {value}" if is_clause(value) else sentence(fact_clause(key, value))
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _perhaps(facts: Sequence[Fact]) -> str:
    """Return facts that may be what is asked for, as they are stored."""
    listed = "; ".join(f"{fact.key.replace('_', ' ')}: {fact.value.strip()}" for fact in facts)
    return f"I don't know for sure, but I have this stored: {listed.removesuffix('.')}."


def _quoted(quotes: Sequence[Quote], *, is_first: bool) -> str:
    """Return quotations of one source; the first of an answer says if they may answer something else."""
    once = list(dict.fromkeys(one.sentence for one in quotes if not one.later))
    both = dict.fromkeys(f'"{one.sentence}", and later: "{one.later}"' for one in quotes if one.later)
    sentences = " and ".join((*(f'"{sentence}"' for sentence in once), *both))
    if quotes[0].kind == "document":
        title = quotes[0].title
        named = "the text that you piped in" if title == PIPED else f'your document "{title}"'
        # "I" and "you" of a document are perhaps somebody else.
        is_personal = _PERSONAL.search(" ".join(once))
        said = f"{named} says: {sentences if is_personal else ' '.join(once)}"
    elif quotes[0].kind == "answered":
        asked = shorten(quotes[0].title, _LONGEST_ASKED)
        said = f'when you asked another assistant "{asked}", it answered: {sentences}'
    elif quotes[0].kind == "stored":
        said = f"I have this stored: {sentences}"
    else:
        said = f"you told me earlier: {sentences}"
    if _COVER in said:
        is_ended = said.endswith((".", "!", '."', '!"'))
        why = _COVERED
        if quotes[0].kind != "document":
            why = _COVERED_IN_MEMORY.format(program=program_from_anywhere())
        said = f"{said if is_ended else f'{said}.'}{why}"
    is_doubtful = is_first and not all(one.is_sure for one in quotes)
    return f"I don't know for sure, but {said}" if is_doubtful else f"{said[0].upper()}{said[1:]}"


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
