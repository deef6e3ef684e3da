"""What questions ask for: their words, and which sentences have the form of an answer.

In answer_types.txt, each question is followed by what is wanted, and by sentences: "+" has the form that the
answer must have, "-" has not, and "!" behind it says that the sentence is a likelier one. After a change that
is meant, write the file anew, and read what `git diff` shows:

    .venv/bin/python -m tests.turn.test_answer_types
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from shepherd.prompt.questions import Question
from shepherd.turn.answer_types import Wanted, content_of, numbers_in, tells_somebody, wanted_by

TABLE = Path(__file__).with_name("answer_types.txt")
EMPTY = Wanted(*[frozenset()] * 5, None)


def told(wanted: Wanted) -> str:
    """What differs from a question of which nothing is known, without the patterns."""
    parts = []
    for one in fields(Wanted):
        value = getattr(wanted, one.name)
        if one.name not in ("holds", "likely") and value != getattr(EMPTY, one.name):
            parts.append(f"{one.name}={'yes' if value is True else ' '.join(sorted(value))}")
    return "; ".join(parts)


def judged(wanted: Wanted, sentence: str) -> str:
    holds = wanted.holds is None or wanted.holds.search(sentence)
    likely = wanted.likely is not None and wanted.likely.search(sentence)
    return f"{'+' if holds else '-'}{'!' if likely else ' '} {sentence}"


def written(text: str) -> str:
    lines: list[str] = []
    wanted = EMPTY
    for line in text.splitlines():
        if line.startswith("? "):
            wanted = wanted_by(Question(line[2:]))
            lines += [line, f"  {told(wanted)}"]
        elif line[:1] in ("+", "-", "|"):
            lines.append(judged(wanted, line[2:].strip()))
    return "\n".join(lines) + "\n"


def test_questions_ask_for_what_the_table_says() -> None:
    text = TABLE.read_text("utf-8")

    assert written(text) == text


def test_a_question_of_one_word_takes_the_words_of_the_one_before() -> None:
    wanted = wanted_by(Question("And when?", "Does the library open?"))

    assert (wanted.words, wanted.context) == (content_of("library open"), frozenset())
    assert wanted_by(Question("Which shelf?", "the library")).context == content_of("library")


@pytest.mark.parametrize(
    ("sentence", "known", "tells"),
    [
        ("Ask the night porter.", "", True),
        ("Call Dr Klein.", "", True),
        ("Harris repairs it.", "", True),
        ("It is Harris.", "", True),
        ("It is Harris.", "harris", False),
        ("There: It is new.", "", False),
        ("The roof leaks.", "", False),
        ("It is on Monday in June.", "", False),
        ("It is by BASF.", "", False),
        ("It is by SIEMENS.", "", True),
        ("My sister does it.", "", True),
        ("she does it", "", False),
    ],
)
def test_a_sentence_may_tell_of_somebody(sentence: str, known: str, tells: bool) -> None:
    assert tells_somebody(sentence, content_of(known)) is tells


def test_numbers_from_ten_on_count_in_words_as_well() -> None:
    assert numbers_in("Nine, ten, Twelve, nineteen, twenty, ninety and 7") == {
        "10",
        "12",
        "19",
        "20",
        "90",
        "7",
    }


def test_short_days_are_days() -> None:
    assert content_of("Tue and weds") == content_of("Tuesday and Wednesday")
    assert content_of("the sun") != content_of("the Sunday")


if __name__ == "__main__":
    TABLE.write_text(written(TABLE.read_text("utf-8")), "utf-8")
