"""What of an extraction is worth storing: no secrets, nothing invented, nothing that is known already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shepherd._native.text import keywords
from shepherd.extraction.answer import Extracted
from shepherd.extraction.secrets import is_secret
from shepherd.memory import Memory

__all__ = ["select"]

# Memories that are looked at for one that says the same.
_COMPARED = 8


def select(
    extracted: Extracted,
    lines: Iterable[str],
    memory: Memory,
    user_id: str,
    *,
    copies: bool,
    secrets: bool,
) -> Extracted:
    """The part that may be stored; everything else is counted as dropped.

    With `copies`, a value must occur in the lines. `secrets` lets keys, passwords and the like through.
    """
    said = _folded(" ".join(lines))
    kept = Extracted(dropped=extracted.dropped)
    for key, value in extracted.facts.items():
        if _may_stay(key, value, said, copies=copies, secrets=secrets):
            kept.facts[key] = value
        else:
            kept.dropped += 1
    for question, answer in extracted.context:
        if _may_stay(question, answer, said, copies=copies, secrets=secrets) and not _is_known(
            memory, user_id, question, answer, kept.context
        ):
            kept.context.append((question, answer))
        else:
            kept.dropped += 1
    return kept


def _may_stay(name: str, value: str, said: str, *, copies: bool, secrets: bool) -> bool:
    return (secrets or not is_secret(name, value)) and (not copies or _folded(value) in said)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_known(
    memory: Memory, user_id: str, question: str, answer: str, new: Sequence[tuple[str, str]]
) -> bool:
    """Whether a memory has the same words in question and answer, whatever their order, case and endings."""
    words = _words(question, answer)
    found = memory.search(f"{question} {answer}", _COMPARED, user_id)
    others = [(result.question, result.answer) for result in found]
    return any(_words(*other) == words for other in [*others, *new])


def _words(question: str, answer: str) -> frozenset[str]:
    return frozenset(keywords(f"{question} {answer}", 64))
