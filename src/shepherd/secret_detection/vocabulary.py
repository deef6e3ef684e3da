"""Words and patterns that several rules for secrets share, and what a secret is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from shepherd._native.text import STOP_WORDS

__all__ = [
    "COVER",
    "DATE",
    "NOT_ITSELF",
    "NO_CODE",
    "ORDINARY",
    "OTHER_NUMBER",
    "PLACEHOLDER",
    "PROGRAM_TEXT",
    "SENTENCE_END",
    "UNIT",
    "WORDS",
    "YEAR",
    "Rules",
    "Secret",
    "SecretKind",
    "around",
    "changes",
    "is_ordinary",
    "is_random",
    "lowered",
    "moved",
    "words_of",
]

# A part of a long text reaches this far around what was found: more than a rule reads.
_REACH = 500

SecretKind = Literal[
    "private-key", "api-key", "token", "password", "recovery-phrase", "card-number", "account-number"
]


@dataclass(frozen=True, slots=True)
class Secret:
    """Span of a secret: `text[start:end]` is the secret alone, without the words around it."""

    kind: SecretKind
    start: int
    end: int


def _word_lists() -> dict[str, str]:
    """Return the rows of each list of secret_words.txt as one row of alternatives."""
    rows: dict[str, list[str]] = {}
    text = Path(__file__).with_name("secret_words.txt").read_text("utf-8").replace("\n  ", "")
    name = ""
    for line in text.splitlines():
        if line.startswith("[") and line.endswith("]"):
            name = line.strip("[]")
            rows[name] = []
        elif line and not line.startswith("#"):
            rows[name].append(line)
    return {name: "|".join(lines) for name, lines in rows.items()}


def words_of(*names: str) -> str:
    """Return the alternatives of lists as a group, with blanks that may be hyphens."""
    return "(?:" + "|".join(WORDS[name] for name in names).replace(" ", r"[ \-_\u2011]") + ")"


WORDS = _word_lists()
COVER = "\u2022"
# "password manager", "secret ingredient", "pin board" name no secret.
NOT_ITSELF = WORDS["not itself"]
# Programs and markup: what stands there is seldom anybody's code.
PROGRAM_TEXT = re.compile(r"[{};<]|\w\(|[=!]=")
# "Ring Estates on extension 5520", but neither "the extension 5520", which may be a part of the house, nor
# "alarm code extension 5520".
_EXTENSION = (
    r"(?<!the |our |new |pin )(?<!back |rear |code |lock )(?<!alarm )(?<!keypad )(?<!pin for )"
    r"(?<!code for )(?<!code (?:of|on|to) )"
    r"\b(?:(?:telephone|phone) )?(?:extensions?|ext|extn)\.?(?: (?:number|no)\.?)? ?#?$"
)
OTHER_NUMBER = re.compile(
    rf"(?<!\w){words_of('other numbers')}(?:(?: is|,? c'est| ist| es| è| é)?:? ?#?)$|{_EXTENSION}",
    re.IGNORECASE,
)
UNIT = re.compile(rf"[ \-]?(?:{words_of('units')}\b|[%€°:$£])", re.IGNORECASE)
DATE = re.compile(r"(?:19|20)\d\d[-./ ]\d\d?[-./ ]\d\d?|\d\d?[-./]\d\d?[-./](?:19|20)\d\d")
NO_CODE = re.compile(f"{DATE.pattern}|{WORDS['no codes']}", re.IGNORECASE)
SENTENCE_END = re.compile(r"[.!?](?=\s)|\n")
YEAR = re.compile(r"(?:19|20)\d\d")
# Follows "the password is" in ordinary speech, and is not one.
_NOT_A_PASSWORD = frozenset(WORDS["ordinary"].replace("|", " ").split())
ORDINARY = _NOT_A_PASSWORD | STOP_WORDS
# Stands where a password would: shapes of documentation, templates, code and paths.
PLACEHOLDER = re.compile(WORDS["placeholders"], re.IGNORECASE)


class Rules(dict[str, re.Pattern[str]]):
    """Patterns by name, each compiled when it is first asked for: all of them take a tenth of a second.

    Most conversations name no password, and need only those that find the words for one.
    """

    def __init__(self, patterns: Mapping[str, str]) -> None:
        super().__init__()
        self._patterns = patterns

    def __missing__(self, name: str) -> re.Pattern[str]:
        compiled = self[name] = re.compile(self._patterns[name], re.IGNORECASE)
        return compiled


def lowered(text: str) -> str:
    """Return a text in small letters, of the same length: a few letters become two, and stay as they are."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
    return lower


def is_ordinary(value: str) -> bool:
    """Return whether a word behind "the password is" is no password."""
    return value.casefold() in _NOT_A_PASSWORD or PLACEHOLDER.fullmatch(value) is not None


def is_random(value: str, least_different: int) -> bool:
    """Return whether a long value can be a key: digits and letters, and not the same few over and over."""
    has_digit = any(character.isdigit() for character in value)
    has_letter = any(character.isalpha() for character in value)
    return has_digit and has_letter and len(set(value)) >= least_different


def changes(value: str) -> int:
    """Return how often the kind of character changes: capital, small letter, digit, other."""
    kinds = [1 if c.isdigit() else 2 if c.isupper() else 3 if c.islower() else 4 for c in value]
    return sum(one != other for one, other in pairwise(kinds))


def around(text: str, found: Iterable[re.Match[str]]) -> Iterator[tuple[int, str]]:
    """Yield the parts of a long text around what was found, each with its place; a short text as a whole."""
    if len(text) <= 4 * _REACH:
        if any(True for _ in found):
            yield 0, text
        return
    begin = end = -1
    for match in found:
        if match.start() - _REACH > end >= 0:
            yield begin, text[begin:end]
            begin = -1
        if begin < 0:
            begin = _blank_before(text, match.start() - _REACH)
        end = match.end() + _REACH
    if begin >= 0:
        yield begin, text[begin:end]


def _blank_before(text: str, place: int) -> int:
    """Return the place behind the last blank before another one, so that no word is cut, if one is near."""
    first, last = max(0, place - _REACH), max(0, place)
    return 1 + max(text.rfind(" ", first, last), text.rfind("\n", first, last), first - 1)


def moved(by: int, found: Iterable[Secret]) -> Iterator[Secret]:
    """Yield what was found in a part of a text, in its places in the whole."""
    return (Secret(secret.kind, secret.start + by, secret.end + by) for secret in found)
