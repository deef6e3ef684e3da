"""Markdown that is drawn while it streams, on a small emulation of a terminal."""

from __future__ import annotations

import io
import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from shepherd.cli.markdown import MarkdownStream
from tests.examples import examples

_STEP = re.compile(r"\x1b\[(\d*)([AKm])|\x1b\[[0-9;]*m|(.)", re.DOTALL)


class Terminal(io.StringIO):
    """A screen that wraps and scrolls; knows `A` (up) and `2K` (erase the row). `text` is all it showed."""

    def __init__(self, columns: int, rows: int) -> None:
        super().__init__()
        self.columns, self.rows = columns, rows
        self._lines: list[list[str]] = [[]]
        self._row = self._column = 0

    def write(self, text: str) -> int:
        for step in _STEP.finditer(text):
            number, command, character = step.groups()
            if command == "A":
                top = max(0, len(self._lines) - self.rows)
                self._row = max(top, self._row - int(number or 1))
            elif command == "K":
                assert number == "2"
                self._lines[self._row] = []
            elif character == "\r":
                self._column = 0
            elif character == "\n":
                self._down()
            elif character:
                if self._column == self.columns:
                    self._down()
                line = self._lines[self._row]
                line += " " * (self._column + 1 - len(line))
                line[self._column] = character
                self._column += 1
        return len(text)

    def _down(self) -> None:
        self._row, self._column = self._row + 1, 0
        if self._row == len(self._lines):
            self._lines.append([])

    @property
    def text(self) -> str:
        return "\n".join("".join(line).rstrip() for line in self._lines)


def drawn(pieces: list[str], columns: int = 40, rows: int = 1000) -> str:
    terminal = Terminal(columns, rows)
    stream = MarkdownStream(
        terminal, has_colour=True, size=lambda: (columns, rows), pause_s=lambda cost_s: 0.0
    )
    for piece in pieces:
        stream.write(piece)
    stream.finish()
    return terminal.text


LETTER = """\
# Sorting

Use `sorted()`, which gives a *new* list, or the method **list.sort()**, which
changes the list.

1. Choose a key:
   - by length
   - by `age`
2. Call it:

```python
def by_age(people: list[Person]) -> list[Person]:
    return sorted(people)
```

| Method | New |
|---|---|
| sorted | yes |

> A quotation.

    indented code

Setext
------
last line"""


def test_markdown_is_rendered():
    shown = drawn([LETTER])

    assert shown.splitlines() == [
        "Sorting",
        "",
        "Use sorted(), which gives a new list, or",
        "the method list.sort(), which changes",
        "the list.",
        "",
        " 1 Choose a key:",
        "    • by length",
        "    • by age",
        " 2 Call it:",
        "",
        # Code is not wrapped by words: the terminal breaks the line and copies it as one.
        "def by_age(people: list[Person]) -> list",
        "[Person]:",
        "    return sorted(people)",
        "",
        " Method  New",
        " ───────────",
        " sorted  yes",
        "",
        "▌ A quotation.",
        "",
        "indented code",
        "",
        "Setext",
        "",
        "last line",
    ]


@pytest.mark.parametrize(
    ("markdown", "lines"),
    [
        ("```c\n\tif (x)  \n\ta\tb\n\n```", ["    if (x)", "    a   b"]),
        ("```\n  x\n```", ["  x"]),
        ("    \tx\n\n    y", ["    x", "", "y"]),
        ("~~~ no-such-language\nx\n~~~", ["x"]),
    ],
)
def test_code_keeps_its_indentation_with_tabs_of_four(markdown: str, lines: list[str]) -> None:
    assert drawn([markdown]).splitlines() == lines


WORDS = st.text(st.sampled_from("ab *_`#-1.>|~[]()\n\t é漢"), max_size=80)


@given(text=WORDS, cuts=st.lists(st.integers(0, 80), max_size=12), columns=st.integers(20, 50))
@example(text=LETTER, cuts=list(range(len(LETTER))), columns=40)
@example(text="- a\n- b\n\nc\n1", cuts=list(range(12)), columns=20)
@settings(max_examples=examples(60), deadline=None)
def test_pieces_end_as_the_whole_does(text: str, cuts: list[int], columns: int) -> None:
    ends = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[begin:end] for begin, end in pairwise(ends)]

    assert drawn(pieces, columns) == drawn([text], columns)


@pytest.mark.parametrize(
    ("markdown", "lines"),
    [
        ("Use List<String> here.", ["Use List<String> here."]),
        ("Dear <name>,\nyour <order> is ready", ["Dear <name>, your <order> is ready"]),
        ("<think>\nsecret\n</think>\nAnswer", ["<think> secret </think> Answer"]),
        ("<details>\n\nmore\n\n</details>", ["<details>", "", "more", "", "</details>"]),
        ("<!-- a remark -->", ["<!-- a remark -->"]),
        ("# Map<K, V>", ["Map<K, V>"]),
        ("As [1] says.\n\n[1]: https://example.org", ["As [1] says.", "", "[1]: https://example.org"]),
    ],
)
def test_html_and_definitions_are_text(markdown: str, lines: list[str]) -> None:
    assert drawn([markdown]).splitlines() == lines


HTML = st.lists(
    st.sampled_from(
        [
            *(
                "ab",
                "<b>",
                "</b>",
                "<br>",
                "<think>",
                "<!-- ",
                " -->",
                "<?php ",
                "<pre>",
                "[cd]: ",
                "[ef](gh)",
            ),
            *(" ", "\n", "\n\n", "- ", "> ", "# ", "    ", "~~", "**"),
        ]
    ),
    max_size=30,
).map("".join)


@given(text=HTML, columns=st.sampled_from([20, 200]))
@settings(max_examples=examples(60), deadline=None)
def test_every_word_of_an_answer_is_on_the_screen(text: str, columns: int) -> None:
    shown = re.findall(r"[a-z]+", drawn(list(text), columns=columns))
    said = re.findall(r"[a-z]+", text)

    # A word may be broken at the end of a line.
    assert "".join(said) == "".join(shown)


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_no_line_is_lost_on_a_small_screen(rows: int) -> None:
    shown = drawn(list(LETTER), rows=rows).splitlines()

    remaining = iter(shown)
    for line in drawn([LETTER]).splitlines():
        assert line in remaining, line
    assert len(shown) < 2 * len(LETTER.splitlines())


def test_a_narrower_terminal_wraps_what_follows() -> None:
    terminal, columns = Terminal(60, 1000), 60
    stream = MarkdownStream(
        terminal, has_colour=False, size=lambda: (columns, 1000), pause_s=lambda cost_s: 0.0
    )

    stream.write("Short words that fill more than one line of the narrow screen later.\n\nAnd ")
    columns = 24
    stream.write("then the window is made narrow.\n\n")
    stream.finish()

    assert terminal.text.endswith("And then the window is\nmade narrow.\n")


def test_control_characters_of_a_model_do_not_reach_the_terminal() -> None:
    out = io.StringIO()
    stream = MarkdownStream(out, has_colour=False)

    stream.write("a\x1b]0;title\x07b\x1b[2J")
    stream.finish()

    assert "\x1b]" not in out.getvalue()
    assert "\x1b[2J" not in out.getvalue()
    assert "title" in out.getvalue()


def test_an_empty_answer_shows_nothing() -> None:
    assert drawn([]) == drawn(["", "\n"]) == ""
