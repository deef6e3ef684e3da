"""Lines of a screen: how they join again, and where margins, rules and columns stand."""

from __future__ import annotations

from textual.content import Content

from shepherd.tui.lines import Grid, Line, Margin, Paragraph, Rule, Verbatim

ITEM = Margin(Content("* "), Content("  "))


def shown(lines: list[Line]) -> list[str]:
    return [line.before.plain + " " * line.padding + line.text.plain for line in lines]


def test_wrapped_lines_know_what_the_wrapping_took_away():
    lines = Paragraph(Margin(), Content("aaaaaaaa bbbbbbbb ccccccccdddd\nnew")).lines(8)

    assert [line.text.plain for line in lines] == ["aaaaaaaa", "bbbbbbbb", "cccccccc", "dddd", "new"]
    assert [line.continues for line in lines] == [None, " ", " ", "", None]


def test_a_text_is_never_narrower_than_eight_columns():
    deep = Margin(Content(" " * 20), Content(" " * 20))

    assert [line.text.plain for line in Paragraph(deep, Content("aaaaaaaa bb")).lines(22)] == [
        "aaaaaaaa",
        "bb",
    ]


def test_only_the_first_line_of_an_item_has_its_bullet():
    paragraph = Paragraph(ITEM, Content("aaaaaaaa bbbbbbbb")).lines(10)
    code = Verbatim(ITEM, [Content("x = 1")], ".code").lines(20)

    assert shown(paragraph) == ["* aaaaaaaa", "  bbbbbbbb"]
    assert [line.is_marked for line in paragraph] == [True, False]
    assert shown(code) == ["*   ", "    x = 1", "    "]
    assert [line.is_marked for line in code] == [True, False, False]


def test_folded_code_is_joined_without_a_blank():
    lines = Verbatim(Margin(), [Content("abcdefghijkl")]).lines(12)

    assert shown(lines) == ["  ", "  abcdefgh", "  ijkl", "  "]
    assert [line.continues for line in lines] == [None, None, "", None]


def test_a_rule_is_as_wide_as_its_margin_leaves():
    assert shown(Rule(ITEM).lines(12)) == ["* " + "─" * 10]


def test_columns_share_the_width_and_narrow_tables_stand_in_lines():
    rows = [[Content("a"), Content("b")], [Content("one two"), Content("x")]]

    assert shown(Grid(Margin(), rows).lines(13)) == ["a       │ b", "────────┼──", "one two │ x"]
    assert shown(Grid(Margin(), rows).lines(12)) == ["a │ b", "one two │ x"]
