"""Wordings of the judge in two tables: frames that state something, and rules that keep others out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from shepherd.pattern_index import PatternIndex, needed_words

__all__ = [
    "Frame",
    "Frames",
    "Replacement",
    "alternatives",
    "definition",
    "endings",
    "frames",
    "replacements",
    "rule",
    "tables",
    "words",
]

_LINE = re.compile(r"(?P<mark>[!?*-]?)(?P<kind>\w+) \| (?P<stops>[^|]+) \| (?P<wording>.+)")
_MARKS = {"!": "changes", "-": "ends", "?": "is_weak", "*": "is_anywhere"}
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_SEASONS = "spring|summer|autumn|fall|winter"


@dataclass(frozen=True, slots=True)
class Frame:
    """A wording that begins a clause, and the words that end the value behind it, as alternatives.

    A text without one of the `needed` words does not match, if there are any.
    `changes`: it says that something is new. `ends`: that it holds no longer.
    `is_weak`: it may mean something else. `is_anywhere`: it may stand within a clause, even in a question.
    """

    kind: str
    wording: str
    stop_words: str
    needed: frozenset[str]
    changes: bool = False
    ends: bool = False
    is_weak: bool = False
    is_anywhere: bool = False

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the wording, compiled when a text first has the words for it: few ever are."""
        return _beginning(self.wording)

    @property
    def stops(self) -> re.Pattern[str]:
        """The pattern of the stop words, compiled when the first of its frames is found."""
        return _stopping(self.stop_words)


class Frames:
    """Some of the frames, of which a text may match few."""

    def __init__(self, frames: Iterable[Frame]) -> None:
        self._frames = tuple(frames)
        self._index = PatternIndex(frame.needed for frame in self._frames)

    def possible(self, text: str) -> Iterator[Frame]:
        """Yield the frames that may match in a text, in their order."""
        return map(self._frames.__getitem__, self._index.possible(text))


class Replacement(NamedTuple):
    """A pattern, what stands in its place, and the words of which a text that matches has one, if any."""

    pattern: str
    template: str
    needed: frozenset[str]


@cache
def frames() -> tuple[Frame, ...]:
    """Return all frames."""
    stops: dict[str, list[str]] = {}
    found = []
    for section, line in _sections("frames.txt"):
        if section == "stops":
            name, _, words = line.partition(" = ")
            stops[name] = [one for word in words.split() for one in stops.get(word, [word])]
        elif section != "definitions":
            found.append(_frame(line, _definitions(), stops))
    return tuple(found)


@cache
def definition(name: str) -> re.Pattern[str]:
    """Return the pattern of a definition of the frames, such as "person"."""
    return re.compile(_spaced(_definitions()[name]), re.IGNORECASE)


@cache
def _definitions() -> dict[str, str]:
    found: dict[str, str] = {}
    for section, line in _sections("frames.txt"):
        if section == "definitions":
            name, _, pattern = line.partition(" = ")
            found[name] = _expanded(pattern, found)
    return found


def _sections(file: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a table with the names of their sections."""
    section = ""
    for line in _lines(file):
        if line.startswith("["):
            section = line.strip("[]")
        else:
            yield section, line


def replacements(file: str) -> Iterator[Replacement]:
    """Yield the patterns of a table of other wordings, each with what stands in its place.

    A definition of the table hides one of the frames that has the same name.
    """
    known = dict(_definitions())
    for section, line in _sections(file):
        if section == "definitions":
            name, _, pattern = line.partition(" = ")
            known[name] = _expanded(pattern, known)
        else:
            pattern, _, replacement = line.partition(" => ")
            yield Replacement(_expanded(pattern, known), replacement, _needed(pattern, known))


def tables(file: str) -> dict[str, dict[str, str]]:
    """Return the sections of a table of named patterns: each name of a section with its pattern."""
    known = dict(_definitions())
    found: dict[str, dict[str, str]] = {}
    for section, line in _sections(file):
        name, _, pattern = line.partition(" = ")
        if section == "definitions":
            known[name] = _expanded(pattern, known)
        else:
            found.setdefault(section, {})[name] = _expanded(pattern, known)
    return found


@cache
def endings() -> dict[str, list[str]]:
    """Return the wordings of endings by section, with {i} and {it} in them."""
    found: dict[str, list[str]] = {}
    for section, line in _sections("endings.txt"):
        found.setdefault(section.partition(":")[0], []).append(line)
    return found


@cache
def alternatives(name: str) -> str:
    """Return the alternatives of a rule as one group of a regular expression."""
    return _rules()[name]


@cache
def words(name: str) -> frozenset[str]:
    """Return the alternatives of a rule that is a list of plain words."""
    return frozenset(alternatives(name)[3:-1].replace(r"\s+", " ").split("|"))


@cache
def rule(name: str, *, begins: bool = False) -> re.Pattern[str]:
    """Return the pattern that finds a rule's wordings as whole words; `begins`: only at the beginning."""
    start = r"\W*" if begins else r"(?<!\w)"
    return re.compile(rf"{start}{alternatives(name)}(?!\w)", re.IGNORECASE)


@cache
def _rules() -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in _lines("rules.txt"):
        if line.startswith("["):
            name = line.strip("[]").partition(":")[0]
            found[name] = []
        else:
            found[name].append(_spaced(_expanded(line, {"month": f"(?:{_MONTHS})", "season": _SEASONS})))
    return {name: f"(?:{'|'.join(lines)})" for name, lines in found.items()}


def _lines(file: str) -> Iterator[str]:
    """Yield the lines of a table, each with the indented ones that continue it."""
    text = Path(__file__).with_name(file).read_text(encoding="utf-8")
    return (line for line in text.replace("\n  ", "").splitlines() if line and not line.startswith("#"))


def _expanded(pattern: str, definitions: Mapping[str, str]) -> str:
    return re.sub(r"(?<!\?P)<(\w+)>", lambda match: definitions[match[1]], pattern)


# Anything or nothing, in the place of each definition: most patterns have words enough of their own, and
# definitions are long.
_ANYTHING: Mapping[str, str] = defaultdict(lambda: "(?:.|)")


def _needed(pattern: str, definitions: Mapping[str, str]) -> frozenset[str]:
    return needed_words(_expanded(pattern, _ANYTHING)) or needed_words(_expanded(pattern, definitions))


def _frame(line: str, definitions: dict[str, str], stops: dict[str, list[str]]) -> Frame:
    parts = _LINE.fullmatch(line)
    if parts is None:
        raise ValueError(f"frames.txt: not a frame: {line}")
    name, *changes = parts["stops"].split()
    words = [word for word in stops[name] if f"-{word}" not in changes]
    words += [change[1:] for change in changes if change.startswith("+")]
    wording = _spaced(_expanded(parts["wording"], definitions))
    flag = _MARKS.get(parts["mark"])
    return Frame(
        parts["kind"],
        wording,
        "|".join(words),
        needed_words(_spaced(_expanded(parts["wording"], _ANYTHING))) or needed_words(wording),
        **({flag: True} if flag else {}),
    )


@cache
def _beginning(wording: str) -> re.Pattern[str]:
    # The value begins behind a blank or an apostrophe: "I live in" does not begin "I live inside".
    return re.compile(rf"(?:{wording})(?:^|(?<=[\s'(])|(?=\s))", re.IGNORECASE)


@cache
def _stopping(words: str) -> re.Pattern[str]:
    # Many frames have the same stops, more than the cache of `re` keeps.
    return re.compile(rf"(?<![\w-])(?:{words})(?!\w|-\w)", re.IGNORECASE)


def _spaced(pattern: str) -> str:
    """Write each blank of a pattern as any white space; an optional one stays optional."""
    return re.sub(r"(?<!\[) (?!-\])", r"\\s+", pattern).replace(r"\s+?", r"\s*")
