"""Select the part of an extraction to store: no secrets, nothing invented, nothing that is known already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from shepherd._native.text import STOP_WORDS, terms
from shepherd.extraction.answer import Extracted
from shepherd.memory import Memory

__all__ = ["is_secret", "select"]

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

# A value alone does not show that it is a password; its key or question does. Words, not parts of words.
_NAMES = re.compile(
    r"\b(?:pass ?(?:word|phrase|code|wort)s?|passwd|pwd|kennwort|contrase\w+|mot de passe|pin|puk|otp|totp"
    r"|(?:api|access|private|secret|signing|encryption|ssh|recovery|licen[cs]e|auth\w*)"
    r" (?:key|token|code|phrase)s?"
    r"|(?:client|shared|app) secret|secret|token|credentials?|seed phrase|mnemonic|cvv|cvc|ssn"
    r"|social security number|(?:credit |debit )?card number)\b"
)


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


def is_secret(name: str, value: str) -> bool:
    """Whether a fact or memory, `name` its key or question, holds something that must not be stored."""
    # Not at the top: its patterns take 10 ms to compile, and a conversation begins without them.
    from shepherd.secret_detection import find_secrets

    words = re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower()
    return bool(_NAMES.search(words) or any(map(find_secrets, (name, value, f"{name}: {value}"))))


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
