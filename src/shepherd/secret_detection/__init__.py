"""Find what must not be remembered: keys, tokens, private keys, card numbers, passwords.

Pure functions over text, meant to be right when they speak: shapes that their makers have published, numbers
whose check digit fits, words that follow "password is" and look like one, and codes near a secret's name. A
secret without a shape and without such a name near it is not found; `unexplained` looks for those in what is
typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from shepherd.secret_detection import codes, command_lines, fields, keys, numbers, passwords
from shepherd.secret_detection.network_names import spans_of_names
from shepherd.secret_detection.vocabulary import (
    COVER,
    NOT_ITSELF,
    PROGRAM_TEXT,
    Secret,
    SecretKind,
    around,
    moved,
    words_of,
)

__all__ = [
    "Secret",
    "SecretKind",
    "find_secrets",
    "holds_secret",
    "is_secret",
    "masked",
    "masked_lines",
    "masked_value",
]


def find_secrets(text: str, *, in_document: bool = False) -> list[Secret]:
    """Return the secrets in `text`, in order, none inside another. Time is linear in the text.

    In speech, a number beside what codes open is taken for a code: a message that isn't remembered costs
    little. In a document, covering a number destroys it, so that a value must be given to what it opens.
    """
    return _without_others(text, list(_candidates(text, in_document)))


def _without_others(text: str, candidates: list[Secret]) -> list[Secret]:
    """Return candidates in order, none inside another, without names of networks and what is covered."""
    named = spans_of_names(text, [(secret.start, secret.end) for secret in candidates])
    found = sorted(
        (
            secret
            for secret in candidates
            if (secret.start, secret.end) not in named and text[secret.start : secret.end].strip(_COVERED)
        ),
        key=lambda secret: (secret.start, -secret.end),
    )
    kept: list[Secret] = []
    for secret in found:
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
        elif secret.end > kept[-1].end:
            # Two rules that see parts of one thing: all of it is the secret.
            kept[-1] = Secret(kept[-1].kind, kept[-1].start, secret.end)
    return kept


def is_secret(name: str, value: str) -> bool:
    """Return whether a fact or memory holds a secret. `name` is its key or question."""
    words = _words_of_name(name)
    tells = _TELLING_NAMES.search(words) or (len(value.split()) == 1 and _VAGUE_NAMES.search(words))
    return bool(tells) or any(map(find_secrets, (name, value, f"{name}: {value}")))


def _words_of_name(name: str) -> str:
    return re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).lower().strip()


def holds_secret(question: str, answer: str) -> bool:
    """Return whether a memory holds a secret; a question about passwords alone is none."""
    # What tells of a secret stands near it, so that of long texts only the ends that meet are read again.
    together = f"{question[-_MEETING:]}: {answer[:_MEETING]}"
    if any(map(find_secrets, (question, answer, together))):
        return True
    return len(answer.split()) == 1 and any(map(str.isdigit, answer)) and is_secret(question, answer)


def masked(text: str, *, in_document: bool = True) -> tuple[str, int]:
    """Return a text of the same length with its secrets covered, and how many there are."""
    found = find_secrets(text, in_document=in_document)
    n_secrets = 0
    # What stands around a covered secret can read differently. Until nothing more is found, an export would
    # lose something when it is imported again.
    for n_passes in range(1, _MOST_PASSES + 1):
        if not found:
            break
        before, text = text, _covered(text, found)
        n_secrets += len(found)
        if n_passes < _MOST_PASSES:
            found = _found_beside(before, text, found, in_document=in_document)
    return text, n_secrets


def _covered(text: str, secrets: list[Secret]) -> str:
    pieces, end = [], 0
    for secret in secrets:
        pieces += [text[end : secret.start], re.sub(r"\S", COVER, text[secret.start : secret.end])]
        end = secret.end
    return "".join([*pieces, text[end:]])


def _found_beside(before: str, text: str, covered: list[Secret], *, in_document: bool) -> list[Secret]:
    """Return what is found in a text since secrets in it were covered, which no rule sees from far away.

    `before` is the text as it was. A part does not show whether the text is a program, nor what belongs to a
    key of many lines: then the whole text is read again.
    """
    parts = _parts(text, [(secret.start - _SEEN, secret.end + _SEEN) for secret in covered])
    is_program = PROGRAM_TEXT.search(before) is not None
    if (
        _BLOCK in text
        or 2 * sum(end - begin for begin, end, _ in parts) > len(text)
        or is_program != (PROGRAM_TEXT.search(text) is not None)
    ):
        return find_secrets(text, in_document=in_document)
    candidates = [
        secret
        for begin, end, zones in parts
        for secret in moved(begin, _candidates(text[begin:end], in_document, is_program=is_program))
        if any(secret.start < last and secret.end > first for first, last in zones)
    ]
    return _without_others(text, candidates)


def _parts(text: str, zones: list[tuple[int, int]]) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Return parts of a text that have what rules read around zones of it, each with its zones."""
    parts: list[tuple[int, int, list[tuple[int, int]]]] = []
    for zone in zones:
        blank = _BLANK.search(text, min(len(text), zone[1] + 2 * _SEEN))
        end = blank.start() if blank else len(text)
        if parts and zone[0] - 2 * _SEEN <= parts[-1][1]:
            begin, _, others = parts.pop()
            parts.append((begin, max(end, zone[1]), [*others, zone]))
            continue
        first = max(0, zone[0] - 2 * _SEEN)
        begin = 1 + max(text.rfind(" ", 0, first), text.rfind("\n", 0, first))
        parts.append((begin, end, [zone]))
    return parts


def masked_value(value: Any, name: str = "") -> tuple[Any, int]:
    """Return a copy of a JSON value with the secrets in it covered, and how many there are.

    Names of fields tell, too, and those around them: {"door": {"pin": 4711}}. A covered number is a text.
    """
    if isinstance(value, Mapping):
        found = {
            key: (_masked_name(str(key)), masked_value(below, f"{name} {key}".strip()))
            for key, below in value.items()
        }
        fields = {safe[0] if safe[1] else key: below[0] for key, (safe, below) in found.items()}
        return fields, sum(safe[1] + below[1] for safe, below in found.values())
    if isinstance(value, (list, tuple)):
        items = [masked_value(below, name) for below in value]
        return [item for item, _ in items], sum(n for _, n in items)
    is_number = isinstance(value, int) and not isinstance(value, bool) and abs(value) >= _LEAST_CODE
    if not (is_number or isinstance(value, str)):
        return value, 0
    text = str(value)
    covered, n_secrets = masked(text)
    if n_secrets:
        return covered, n_secrets
    if not name:
        return value, 0
    # What a name tells of stands at the beginning. A secret in the name itself is covered there.
    before = f"{name}: "
    covered, n_secrets = masked(before + text[:_MEETING])
    if n_secrets and not text.startswith(covered[len(before) :]):
        return covered[len(before) :] + text[_MEETING:], n_secrets
    if _is_named_secret(name, text):
        return re.sub(r"\S", COVER, text), 1
    return value, 0


@lru_cache(maxsize=1024)
def _masked_name(name: str) -> tuple[str, int]:
    """Cover the secrets in the name of a field; few have any, and most come again."""
    return masked(name)


def _is_named_secret(name: str, value: str) -> bool:
    """Return whether the name of a field alone shows that its value is a secret.

    The name ends with what it names: `password_changed_at` is a time.
    """
    words = _words_of_name(name)
    ends = [match.end() for match in (*_TELLING_NAMES.finditer(words), *_VAGUE_NAMES.finditer(words))]
    if len(words) not in ends or _NO_SECRET.fullmatch(value.strip()):
        return False
    # Whoever chooses a password may take words, but a token, a key and a PIN are made of other things.
    return (
        _OWN_WORDS.search(words) is not None
        or any(map(str.isdigit, value))
        or (len(value.split()) == 1 and len(value) >= _LEAST_TOKEN)
    )


def masked_lines(text: str, covered: str) -> tuple[int, ...]:
    """Return the numbers of the lines in which something was covered, from 1."""
    lines = zip(text.split("\n"), covered.split("\n"), strict=True)
    return tuple(number for number, (before, after) in enumerate(lines, 1) if before != after)


_MOST_PASSES = 4
# More than a rule reads from its first character to its last one, and around them.
_SEEN = 1000
_BLANK = re.compile(r"[ \n]")
_BLOCK = "-----BEGIN "
_VAGUE_NAMES = re.compile(r"\b(?:secret|token)\b" + NOT_ITSELF)
# A value alone does not show that it is a password; its key or question does. Words, not parts of words.
_TELLING_NAMES = re.compile(
    rf"\b(?:{words_of('names', 'compound names', 'key names')})\b{NOT_ITSELF}", re.IGNORECASE
)


# Values of fields that are about a secret and not the secret.
_NO_SECRET = re.compile(
    rf"[{COVER}\s]*|yes|no|true|false|on|off|none|null|never|always|optional|required|unknown|n/?a|default|auto"
    r"|\d{4}-\d\d-\d\d(?:[T ][\d:.]+(?:Z|[-+]\d\d:?\d\d)?)?",
    re.IGNORECASE,
)
# Passwords can be words that somebody chose.
_OWN_WORDS = re.compile(r"(?:pass|kenn|lösung|contraseñ|senha|wacht|secret|geheim)[\w ]*$|\bpwd?$|\bmdp$")
_LEAST_TOKEN = 12

_COVERED = f"{COVER} \t\n"
# More than a rule reads around where question and answer meet.
_MEETING = 2000
# A number below it is no code.
_LEAST_CODE = 100
# A digit and some of what follows it in the line: most lines that have one have several.
_DIGIT = re.compile(r"\d[^\n]{0,200}")


def _candidates(text: str, in_document: bool, *, is_program: bool | None = None) -> Iterator[Secret]:
    yield from keys.find(text)
    yield from passwords.find(text, is_program=is_program)
    yield from command_lines.find(text)
    yield from fields.find(text)
    if any(map(str.isdigit, text)):
        for begin, piece in around(text, _DIGIT.finditer(text)):
            yield from moved(begin, numbers.find(piece))
            yield from moved(begin, codes.find_near(piece, in_document=in_document))
        yield from codes.find(text)
