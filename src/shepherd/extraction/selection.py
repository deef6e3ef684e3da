"""What of an extraction is worth storing: no secrets, nothing invented, nothing that is known already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shepherd._native.text import STOP_WORDS, terms
from shepherd.extraction.answer import Extracted
from shepherd.extraction.secrets import is_secret
from shepherd.memory import Memory

__all__ = ["select"]

# Memories that are looked at for one that says the same.
_COMPARED = 8

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Stop words that turn what is said into something else. Those of other languages, nicht and pas, are terms.
_TELLING = {
    **{
        word: word
        for word in (
            "against", "all", "down", "few", "from", "in", "most", "neither", "no", "nor", "nothing", "off",
            "on", "only", "out", "over", "some", "up", "without", "yes",
        )
    },
    **dict.fromkeys(("yeah", "yep"), "yes"),
    # don't, can't: a stop word without its apostrophe
    **{word: "not" for word in STOP_WORDS if word.endswith("nt") and word != "want"},
    **dict.fromkeys(("cannot", "never", "not"), "not"),
}  # fmt: skip


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
    """Whether a memory says the same, but for case, endings, and small words that change nothing."""
    said = _said(question, answer)
    found = memory.search(f"{question} {answer}", _COMPARED, user_id)
    others = [(result.question, result.answer) for result in found]
    return any(_said(*other) == said for other in [*others, *new])


def _said(question: str, answer: str) -> tuple[list[str], list[str], list[str]]:
    """What two memories that say the same have in common: terms in their order, and the stop words that tell.

    The order, since Tom may owe Anna money or Anna Tom. A text of stop words alone has them as its terms.
    """
    words = _WORD.findall(f"{question} {answer}".casefold().replace("\u2019", "'"))
    plain = (word.replace("'", "") for word in words)
    return terms(question), terms(answer), [_TELLING[word] for word in plain if word in _TELLING]
