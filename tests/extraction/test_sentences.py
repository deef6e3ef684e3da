"""A message cut into sentences."""

from __future__ import annotations

import pytest

from shepherd.extraction.request import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I am Ann. My dog is called Rex! Is it late?",
            ["I am Ann.", "My dog is called Rex!", "Is it late?"],
        ),
        ("i moved to Oslo... it is cold", ["i moved to Oslo...", "it is cold"]),
        ("one line\n\n another", ["one line", "another"]),
        ('He said "hi." Then he left.', ['He said "hi."', "Then he left."]),
        ("no end", ["no end"]),
        ("", [""]),
    ],
)
def test_sentences_end_at_their_marks(text, expected):
    assert sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "My dentist is Dr. Okafor",
        "I work at Acme Inc. in Berlin",
        "J. R. Smith here",
        "Version 5.3 at 12.40 by a.b@c.org",
        "I live in Rome. :)",
    ],
)
def test_a_full_stop_inside_a_sentence_does_not_cut_it(text):
    assert sentences(text) == [text]


def test_nothing_is_lost():
    text = "Hi! I'm Ann (really). Mr. B. says: no.\nMy code is A.1?! ok"

    assert "".join("".join(sentences(text)).split()) == "".join(text.split())
