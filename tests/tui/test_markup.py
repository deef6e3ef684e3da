"""Markdown as lines of a screen, whole and while it comes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.tui.lines import Blank, Line
from shepherd.tui.markup import Document

# With what ends a line for Python's splitlines, and none in Markdown.
LONG = """\
# Title

A paragraph with **bold**, *em* and `code`, long enough to be wrapped.
Heading of old
---
- one
- two
  1. nested
  2. more

  apart
- ```python
  x = 1
  ```

8. eight
9. nine
10. ten
text
```odd``` inline, not code

> quoted
> - and listed

| a | b |
|---|---|
| 1 | two words |

***
<p>html</p>

    indented

A line that\u2028says\u2029where\x85others\x0bwould\x0cend\x1cit
and the\u2028next

The answer is
42
"""


def lines(document: Document, width: int = 40) -> list[Line]:
    blocks = [*document.blocks, *document.last]
    return [line for block in blocks for piece in (*block, Blank()) for line in piece.lines(width)]


def shown(text: str, width: int = 40) -> list[str]:
    document = Document()
    document.append(text, is_complete=True)
    texts = [line.before.plain + " " * line.padding + line.text.plain for line in lines(document, width)]
    return [text.rstrip() for text in texts][:-1]


@given(st.lists(st.integers(0, len(LONG)), max_size=12))
def test_what_comes_in_pieces_looks_as_what_came_at_once(cuts):
    places = [0, *sorted(cuts), len(LONG)]
    whole, grown = Document(), Document()

    whole.append(LONG, is_complete=True)
    for begin, end in pairwise(places):
        grown.append(LONG[begin:end])
    grown.append("", is_complete=True)

    there, here = lines(whole), lines(grown)
    assert len(there) == len(here)
    assert all(line.is_same(other) for line, other in zip(there, here, strict=True))


def test_a_finished_block_is_not_touched_again():
    document = Document()
    document.append("first\n\nsecond\n\nthird")
    first = document.blocks[0]

    for word in range(50):
        document.append(f" word{word}" if word % 10 else "\n\nnew")

    assert document.blocks[0] is first
    assert len(document.blocks) + len(document.last) == 8


@pytest.mark.parametrize(
    ("begin", "marker", "end"),
    [
        ("Text\n", "-", " item"),
        ("Text\n", "1.", " item"),
        ("Text\n", "=", "= 5"),
        ("Text\n\n", "#", "# Head"),
    ],
)
def test_a_mark_is_not_shown_as_something_else_before_it_is_clear(begin, marker, end):
    document = Document()
    document.append(begin)
    before = [line.text.plain for line in lines(document)]

    document.append(marker)
    meanwhile = [(line.text.plain, line.style) for line in lines(document)]
    document.append(end, is_complete=True)

    assert meanwhile == [(text, "") for text in before]
    assert end.split()[-1] in "".join(line.text.plain for line in lines(document))


def test_an_answer_that_is_a_number_is_shown():
    assert shown("42") == ["42"]


def test_lists_are_marked_and_hang():
    text = "- one two three four\n- five\n  - six\n\n9. nine\n10. ten"

    assert shown(text, 14) == [
        "• one two",
        "  three four",
        "• five",
        "  ▪ six",
        "",
        "  9. nine",
        " 10. ten",
    ]


def test_code_is_folded_and_not_cut():
    assert shown("```python\nprint('abcdefghij')\n```", 16) == ["", "  print('abcde", "  fghij')", ""]


def test_long_code_is_whole_while_it_comes_and_when_it_is_complete():
    code = [f"line{number} = '''" if number % 9 else "" for number in range(1001)]
    document = Document()

    document.append("```python\n")
    for begin in range(0, len(code), 7):
        document.append("\n".join(code[begin : begin + 7]) + "\n")
    meanwhile = [line.text.plain for line in lines(document)]
    document.append("```\n", is_complete=True)

    assert [text for text in meanwhile if text] == [text for text in code if text]
    assert shown("\n".join(["```python", *code, "```"]))[1:-1] == [f"  {text}".rstrip() for text in code]
    assert [line.text.plain for line in lines(document)][1:-2] == code


def test_lines_of_code_keep_their_colours_while_more_comes():
    document = Document()
    document.append("```python\n" + "def f(x):\n    return x\n\n" * 30)
    before = document.last[0][0].texts

    document.append("x = 'unfinished\n")

    assert all(old is new for old, new in zip(before[:40], document.last[0][0].texts, strict=False))


def test_code_without_a_language_and_with_an_unknown_one_is_shown():
    assert "  a\tb".expandtabs(4)[-1] in shown("```\na\tb\n```")[1]
    assert shown("```no-such-language\nx\n```")[1] == "  x"


def test_a_table_has_columns_as_wide_as_their_cells():
    text = "| name | what |\n|---|---|\n| 漢字 | two words of it |"

    assert shown(text, 20) == [
        "name │ what",
        "─────┼──────────────",
        "漢字 │ two words of",
        "     │ it",
    ]


def test_a_table_without_room_is_shown_row_by_row():
    text = f"|{'a|' * 9}\n|{'-|' * 9}\n|{'b|' * 9}"

    assert "".join(shown(text, 20)).count("b") == 9


def test_every_word_is_there_html_too():
    text = "<div>\nhello <b>you</b>\n</div>\n\nsome <i>inline</i> and ![a picture](x.png)"

    everything = " ".join(shown(text))

    assert "<div> hello <b>you</b> </div>" in everything
    assert "some <i>inline</i> and a picture" in everything


def test_a_quotation_has_a_bar_on_each_line():
    assert shown("> one two three four five\n>\n> - six", 12) == [
        "▌ one two",
        "▌ three four",
        "▌ five",
        "▌",
        "▌ • six",
    ]


def test_code_has_the_colours_of_its_language_and_none_without_one():
    def colours(text: str) -> set[str]:
        document = Document()
        document.append(text, is_complete=True)
        lines = [
            line for block in document.blocks + document.last for piece in block for line in piece.lines(40)
        ]
        return {str(span.style) for line in lines for span in line.text.spans}

    assert len(colours("```python\ndef f(): return 1\n```\n")) > 1
    assert len(colours("```\ndef f(): return 1\n```\n")) <= 1


LAID_OUT = Path(__file__).with_name("markup.txt")


def laid_out(width: int) -> list[str]:
    """The lines of a long text: margin, text, what wrapping took away, padding, style, a mark for bullets."""
    document = Document()
    document.append(LONG + NESTED, is_complete=True)
    return [
        f"{line.before.plain}|{line.text.plain}|{line.continues!r} {line.padding} {line.style}"
        f"{' marked' if line.is_marked else ''} {styled(line)}".rstrip()
        for line in lines(document, width)
    ]


def styled(line: Line) -> str:
    spans = [*line.before.spans, *line.text.spans]
    names = [str(span.style) for span in spans if isinstance(span.style, str) and span.style.startswith(".")]
    return " ".join(dict.fromkeys(names))


NESTED = """
1. one

   more of one
2. two
   - inner

     apart
   - > quoted in an item
3.
4. ***

- a

  b

- c

> first
>
> second
>> deeper

text before
> a bar
- x
- y

text after ~~gone~~ [a link](https://example.com) ![a picture](x.png)\\
broken
"""


def test_a_long_text_is_laid_out_line_by_line():
    found = [line for width in (40, 12) for line in laid_out(width)]

    assert found == LAID_OUT.read_text("utf-8").split("\n")


if __name__ == "__main__":
    LAID_OUT.write_text("\n".join(line for width in (40, 12) for line in laid_out(width)), "utf-8")
