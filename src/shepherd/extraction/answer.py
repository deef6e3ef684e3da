"""Answers of an extraction model: a call that can be cancelled, the JSON schema, and the part to store."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from shepherd._native.text import STOP_WORDS, terms
from shepherd.claims.corrections import corrected_facts
from shepherd.claims.endings import KNOWN, may_end
from shepherd.claims.judge import Verdict, is_borne_out, learned
from shepherd.claims.keys import LISTS, items_of, joined_items
from shepherd.claims.known_endings import ended_facts, opposite_items
from shepherd.claims.statements import Assertion, stating_sentences
from shepherd.errors import ModelError
from shepherd.extraction.request import LONGEST_KEY, LONGEST_VALUE
from shepherd.memory import Claim, EndedValue, Memory
from shepherd.memory.periods import without_time
from shepherd.memory.redundant_turns import is_echo
from shepherd.types import Fact

__all__ = [
    "ANSWER_SCHEMA",
    "Cancellation",
    "CancelledError",
    "Extracted",
    "Extractor",
    "UnavailableError",
    "UnusableAnswerError",
    "is_secret",
    "parse_answer",
    "select",
]


class UnavailableError(ModelError):
    """The model cannot be had now: unreachable, overloaded, out of memory. `retry_after_s` if it said so."""

    def __init__(self, message: str, *, hint: str = "", retry_after_s: float = 0.0) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class CancelledError(Exception):
    """The call was stopped; nothing is known about its answer."""


class Cancellation:
    """Stops the call under way, from any thread, and for good."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._stop: Callable[[], object] | None = None

    @property
    def is_set(self) -> bool:
        """Return whether it was stopped."""
        return self._cancelled

    def set(self) -> None:
        """Stop what is under way, and everything that begins later."""
        with self._lock:
            self._cancelled = True
            stop = self._stop
        if stop is not None:
            stop()

    def attach(self, stop: Callable[[], object] | None) -> None:
        """Name what ends the call that now begins (None: it is over). Raises CancelledError when too late."""
        with self._lock:
            self._stop = stop
            if stop is not None and self._cancelled:
                raise CancelledError


class Extractor(Protocol):
    """Something that answers the extraction request."""

    # A model of a few megabytes finds values and makes up questions for them: its memories are dropped.
    facts_only: bool

    def answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        """Return the raw answers, one for each part that the lines had to be cut into.

        Raises UnavailableError for what may pass, another ShepherdError for what will not, CancelledError.
        """

    def release(self) -> None:
        """Free what it holds for now; an answer in progress ends with UnavailableError."""

    def close(self) -> None:
        """Free what it holds. May be called twice."""


_TEXT = {"type": "string"}
ANSWER_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "facts": {"type": "object", "additionalProperties": _TEXT},
        "context": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"q": _TEXT, "a": _TEXT},
                "required": ["q", "a"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["facts", "context"],
    "additionalProperties": False,
}

_THOUGHTS = ("<think>", "</think>")
# The example in the request, repeated.
_EXAMPLE_FACT, _EXAMPLE_ITEM = ("key", "value"), ("question", "answer")


class UnusableAnswerError(ModelError):
    """An answer that holds no object of the asked form."""


@dataclass(slots=True)
class Extracted:
    """Facts and memories read from an answer. `dropped` counts the entries of another shape."""

    facts: dict[str, str] = field(default_factory=dict)
    context: list[tuple[str, str]] = field(default_factory=list)
    dropped: int = 0

    def __iadd__(self, other: Extracted) -> Extracted:
        self.facts |= other.facts
        self.context += other.context
        self.dropped += other.dropped
        return self


def parse_answer(text: str) -> Extracted:
    """Facts, and pairs of question and answer; thoughts, code fences and prose around the object are ignored.

    NONE is nothing. Raises UnusableAnswerError when there is no such object.
    """
    after_thoughts = text.rpartition(_THOUGHTS[1])[2]
    if re.fullmatch(r"[\W_]*none[\W_]*", after_thoughts, re.IGNORECASE):
        return Extracted()
    answer = _first_object(after_thoughts)
    # The mark may be part of a value. An object inside thoughts is no answer.
    if answer is None and not text.lstrip().startswith(_THOUGHTS[0]):
        answer = _first_object(text)
    if answer is None:
        raise UnusableAnswerError("the answer holds no object with facts and context")
    extracted = Extracted()
    _take_facts(extracted, answer.get("facts", {}))
    _take_context(extracted, answer.get("context", []))
    return extracted


def _first_object(text: str) -> dict[str, Any] | None:
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            value, _ = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and ("facts" in value or "context" in value):
            return value
        position = text.find("{", position + 1)
    return None


def _take_facts(extracted: Extracted, facts: object) -> None:
    if not isinstance(facts, dict):
        extracted.dropped += facts is not None
        return
    for name, value in facts.items():
        key, text = "_".join(str(name).split()), _text(value)
        if not key or not text or len(key) > LONGEST_KEY or (key, text) == _EXAMPLE_FACT:
            extracted.dropped += 1
        else:
            extracted.facts[key] = text


def _take_context(extracted: Extracted, context: object) -> None:
    if not isinstance(context, list):
        extracted.dropped += context is not None
        return
    for item in context:
        pair = (_text(item.get("q")), _text(item.get("a"))) if isinstance(item, dict) else ("", "")
        if not all(pair) or pair == _EXAMPLE_ITEM:
            extracted.dropped += 1
        else:
            extracted.context.append(pair)


def _text(value: object) -> str:
    """Return the value as text; "" for what is none, empty, or too long to be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return json.dumps(value) if math.isfinite(value) else ""
    text = value.strip() if isinstance(value, str) else ""
    return text if len(text) <= LONGEST_VALUE else ""


# Memories compared with a new one.
_COMPARED = 8

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
# Stop words that change the meaning. Those of other languages, such as nicht and pas, are terms.
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


@dataclass(slots=True)
class Selected:
    """The part of an answer that may be stored, and what the lines themselves state.

    `claims` are in the order in which they were stated. `sources` has the sentence and the line of each
    memory of `context`, "" and -1 where it is not known. `dropped` counts claims not accepted.
    """

    claims: list[Claim | EndedValue] = field(default_factory=list)
    context: list[tuple[str, str]] = field(default_factory=list)
    sources: list[tuple[str, int]] = field(default_factory=list)
    dropped: int = 0

    @property
    def facts(self) -> dict[str, str]:
        """The facts that were stated last, by key."""
        return {claim.key: claim.value for claim in self.claims if isinstance(claim, Claim)}


def select(
    extracted: Extracted,
    lines: Iterable[str],
    memory: Memory,
    user_id: str,
    *,
    facts_only: bool,
    secrets: bool,
) -> Selected:
    """Return what is stored of an answer: facts and memories that the user's own words bear out.

    Memories need lines that state something; with `facts_only` there are none, and the turn itself is
    remembered. `secrets` lets keys, passwords and the like through.
    """
    lines = list(lines)
    hidden = [] if secrets else _secrets_of(lines)
    kept = Selected()
    known = [*memory.get_all_facts(user_id)]
    for number, line in enumerate(lines):
        verdicts, ended = learned(extracted.facts, [line])
        corrected = {one.key: one for one in corrected_facts(line, known)}
        # "I moved from Bosch to Siemens" is one change, and no end before it.
        moved = {one.key for one in corrected.values() if one.changes}
        left = {_folded(fact.value) for fact in known if fact.key in moved}
        kept.claims += [
            EndedValue(without_time(end.value), end.kind, _evidence(end, line, secrets), number)
            for end in ended
            if _folded(end.value) not in left
        ]
        kept.claims += [
            EndedValue(
                over.value,
                KNOWN,
                over.sentence if secrets or not _shows_secret(over.sentence) else "",
                number,
                over.key,
            )
            for over in ended_facts(line, known)
            if over.key not in moved
            and not any(
                may_end(end.kind, over.key) and _folded(end.value) == _folded(over.value) for end in ended
            )
        ]
        for verdict in _not_over(verdicts, line):
            correction = corrected.get(verdict.key)
            if correction is not None and correction.says_more_than(verdict.value):
                continue
            corrected.pop(verdict.key, None)
            if secrets or not (is_secret(verdict.key, verdict.value) or _tells(verdict.value, hidden)):
                evidence = _evidence(verdict.assertion, line, secrets)
                value = without_time(verdict.value)
                kept.claims += [
                    EndedValue(item, KNOWN, evidence, number, key)
                    for key, item in opposite_items(verdict.key, value, verdict.assertion.sentence, known)
                ]
                kept.claims.append(Claim(verdict.key, value, evidence, number, verdict.changes))
                # A later line may end it.
                known.append(Fact(verdict.key, value, 0, 0))
        for one in corrected.values():
            if secrets or not (is_secret(one.key, one.value) or _tells(one.value, hidden)):
                said = one.sentence if secrets or not _shows_secret(one.sentence) else ""
                kept.claims.append(Claim(one.key, one.value, said, number, one.changes))
                known.append(Fact(one.key, one.value, 0, 0))
    values = {_folded(claim.value) for claim in kept.claims if isinstance(claim, Claim)}
    unused = sum(not any(_folded(value) in known for known in values) for value in extracted.facts.values())
    kept.dropped = extracted.dropped + unused
    is_meant = not facts_only and any(map(stating_sentences, lines))
    for question, answer in extracted.context:
        told = is_secret(question, answer) or _tells(question, hidden) or _tells(answer, hidden)
        is_safe = secrets or not told
        is_new = not (
            _echoes(question, answer, kept.facts)
            or _is_known(memory, user_id, question, answer, kept.context)
        )
        if is_meant and is_safe and is_new:
            kept.context.append((question, answer))
            kept.sources.append(_source(answer, lines, secrets))
        else:
            kept.dropped += 1
    return kept


_NEW_ONE = re.compile(
    r"\b(?:(?:my|our) new|(?:mein|unser)\w* neue\w*|(?:mon|ma|notre) nouve\w+|(?:mi|nuestr[oa]) nuev[oa])\b",
    re.IGNORECASE,
)


def _not_over(verdicts: Iterable[Verdict], line: str) -> Iterator[Verdict]:
    """Yield what a line does not say itself to be over: "I joined Bosch in 2019 and left in May"."""
    for verdict in verdicts:
        # "My new boss is called Ute" tells that another one is over.
        told = verdict.assertion.sentence
        rest = line.replace(told, " ") if _NEW_ONE.search(told) else line
        over = {one.value for one in ended_facts(rest, [Fact(verdict.key, verdict.value, 0, 0)])}
        if not over:
            yield verdict
        elif verdict.key in LISTS:
            items = items_of(verdict.key, verdict.value, apart=True)
            left = [item for item in items if item not in over]
            if left:
                yield replace(verdict, value=joined_items(verdict.key, left))


def _secrets_of(lines: Iterable[str]) -> list[str]:
    """Return the secrets in lines: without the words around it, a model's memory does not look like one.

    What may be a code is one of them, since nobody has asked to keep it.
    """
    from shepherd.secret_detection import find_secrets
    from shepherd.secret_detection.unexplained import find_unexplained

    return [
        line[found.start : found.end].casefold()
        for line in lines
        for found in (*find_secrets(line), *find_unexplained(line))
    ]


def _shows_secret(sentence: str) -> bool:
    """Return whether a sentence has a secret, or a value that may be a code."""
    from shepherd.secret_detection.unexplained import find_unexplained

    return is_secret("", sentence) or bool(find_unexplained(sentence))


def _tells(text: str, hidden: Iterable[str]) -> bool:
    """Return whether a text has one of the secrets in it, or is a part of one."""
    folded = text.casefold().strip()
    return any(secret in folded or folded in secret for secret in hidden)


def _evidence(assertion: Assertion, line: str, secrets: bool) -> str:
    """Return the sentence of an assertion as the line has it; "" if another part of it is a secret."""
    sentence = assertion.sentence if assertion.sentence in line else assertion.sentence.replace("'", "\u2019")
    sentence = sentence if sentence in line else assertion.sentence
    return sentence if secrets or not _shows_secret(sentence) else ""


def _source(answer: str, lines: Sequence[str], secrets: bool) -> tuple[str, int]:
    """Return the sentence and the line that a memory came from; "" and -1 where several may be meant."""
    for number, line in reversed(list(enumerate(lines))):
        for sentence in stating_sentences(line):
            if is_borne_out(answer, [sentence]):
                return ("" if not secrets and _shows_secret(sentence) else sentence), number
    return "", 0 if len(lines) == 1 else -1


def is_secret(name: str, value: str) -> bool:
    """Return whether a fact or memory holds a secret. `name` is its key or question."""
    # Not at the top: its patterns take 10 ms to compile, and a conversation begins without them.
    from shepherd import secret_detection

    return secret_detection.is_secret(name, value)


def _echoes(question: str, answer: str, facts: Mapping[str, str]) -> bool:
    """Return whether a memory only says again what one of the facts says: "What is my name?", "Steve"."""
    asked = question.replace("?", "")
    return any(
        is_echo(answer, [fact]) and is_echo(f"{asked} {value}", [fact])
        for key, value in facts.items()
        for fact in [Fact(key, value, 0, 0)]
    )


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_known(
    memory: Memory, user_id: str, question: str, answer: str, new: Sequence[tuple[str, str]]
) -> bool:
    """Return whether a memory says the same, but for case, endings, and small words that change nothing."""
    said = _said(question, answer)
    found = memory.search(f"{question} {answer}", _COMPARED, user_id)
    others = [(result.question, result.answer) for result in found]
    return any(_said(*other) == said for other in [*others, *new])


def _said(question: str, answer: str) -> tuple[list[str], list[str], list[str]]:
    """Return what makes two memories equal: their terms in order, and the stop words that change the meaning.

    The order, since Tom may owe Anna money or Anna Tom. A text of stop words alone has them as its terms.
    """
    words = _WORD.findall(f"{question} {answer}".casefold().replace("\u2019", "'"))
    plain = (word.replace("'", "") for word in words)
    return terms(question), terms(answer), [_TELLING[word] for word in plain if word in _TELLING]
