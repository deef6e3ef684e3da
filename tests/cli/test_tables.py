"""Tables on terminals of several widths: cells side by side, or texts below the rest of their row."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len

from shepherd.commands.tables import print_table

HEADERS = ["id", "recalled", "relevance", "when", "question", "answer"]
SHORT = ["1099511627777", "yes", "0.30", "2026-11-28"]
QUESTION = "Which of the posters in the flat of the Rue des Petits Champs may stay, and which have to go?"
ANSWER = (
    "The three at the walls of the living room stay, which your partner finds excessive; you agreed in March"
    " that one more may come, provided that it is framed, and that the one in the hall goes."
)


@pytest.fixture
def printed(monkeypatch):
    def table(columns: int, *rows: list[str], headers: list[str] = HEADERS) -> list[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        out = io.StringIO()
        print_table(out, headers, rows, colour=False)
        lines = out.getvalue().splitlines()
        assert max(map(cell_len, lines)) <= columns
        return [line.rstrip() for line in lines]

    return table


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_texts_have_lines_of_their_own_where_they_would_be_narrow(printed, columns):
    first, row, *texts = printed(columns, [*SHORT, QUESTION, ANSWER])

    assert first.split() == HEADERS[:4]
    assert row.split() == SHORT
    assert all(line.startswith("    ") for line in texts)
    words = " ".join(" ".join(texts).split())
    assert words == f"question {QUESTION} answer {ANSWER}"
    assert max(map(len, texts)) > columns - 15


def test_a_text_alone_needs_no_header_and_empty_columns_are_left_out(printed):
    lines = printed(80, [*SHORT, ANSWER, ""], [*SHORT, "short", ""])

    assert lines[0].split() == HEADERS[:4]
    assert " ".join(" ".join(lines[2:-2]).split()) == ANSWER
    assert [line.split() for line in lines[-2:]] == [SHORT, ["short"]]


@pytest.mark.parametrize(
    ("columns", "answer"),
    [(400, ANSWER), (110, ""), (200, "Those in the living room stay, the one in the hall goes.")],
)
def test_texts_stand_beside_the_rest_where_that_takes_fewer_lines(printed, columns, answer):
    first, row, *_ = printed(columns, [*SHORT, QUESTION, answer])

    assert first.split() == HEADERS
    assert row.split()[: len(SHORT)] == SHORT
    assert "Which" in row


def test_one_long_value_moves_no_other_row(printed):
    rows = [[f"setting_{number}", "1", "default"] for number in range(40)]
    rows[7][1] = QUESTION

    lines = printed(60, *rows, headers=["setting", "value", "from"])

    assert lines[0].split() == ["setting", "value", "from"]
    assert [line.split() for line in lines[1:5]] == rows[:4]


@pytest.mark.parametrize("columns", range(55, 120, 8))
def test_short_cells_are_never_broken(printed, columns):
    headers = ["when", "value", "source"]
    day, source = "2026-11-28", "extraction of the bundled model"

    lines = printed(columns, [day, QUESTION, source], [day, "x", source], headers=headers)

    assert [sum(cell in line for line in lines) for cell in (day, source)] == [2, 2]


def test_nothing_is_lost_where_not_even_the_short_cells_fit(printed):
    lines = printed(24, [*SHORT, QUESTION, ANSWER])

    said = " ".join(" ".join(lines).split())
    assert all(cell in said for cell in SHORT)
    assert "".join(QUESTION.split()) in "".join(said.split())


def test_wide_characters_count_twice(printed):
    text = "東京" * 9  # 18 characters in 36 columns, which is a text
    lines = printed(60, ["2026-11-28", 3 * text, "x" * 20], headers=["when", "text", "id"])

    assert lines[:2] == ["when        id", f"2026-11-28  {'x' * 20}"]
    assert [line[4:] for line in lines[2:]] == ["東京" * 14, "東京" * 13]
