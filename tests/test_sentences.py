"""Text split into sentences."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.sentences import is_abbreviation, is_question, sentence_spans, split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "I am Ann. My dog is called Rex! Is it late?",
            ["I am Ann.", "My dog is called Rex!", "Is it late?"],
        ),
        ("i moved to Oslo... it is cold", ["i moved to Oslo...", "it is cold"]),
        ("one line\n\n another", ["one line", "another"]),
        ("Berlin\nMunich", ["Berlin", "Munich"]),
        ('He said "hi." Then he left.', ['He said "hi."', "Then he left."]),
        ("*Really?* **Yes.** Good", ["*Really?*", "**Yes.**", "Good"]),
        ("She is at Acme Inc. I am not.", ["She is at Acme Inc.", "I am not."]),
        ("It closes at 5 p.m. We left.", ["It closes at 5 p.m.", "We left."]),
        ("I am 14. August is hot.", ["I am 14.", "August is hot."]),
        ("no end", ["no end"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_sentences_end_at_their_marks(text, expected):
    assert split_sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "我叫安娜。我住在柏林\uff01你呢\uff1f我很好",
            ["我叫安娜。", "我住在柏林\uff01", "你呢\uff1f", "我很好"],
        ),
        ("「元気ですか\uff1f」はい。", ["「元気ですか\uff1f」", "はい。"]),
        ("أين تسكن؟ أنا في برلين.", ["أين تسكن؟", "أنا في برلين."]),
        ("Πού μένεις\u037e Στην Αθήνα.", ["Πού μένεις\u037e", "Στην Αθήνα."]),
        ("Где ты живёшь? \u0412 Москве.", ["Где ты живёшь?", "\u0412 Москве."]),
    ],
)
def test_marks_of_other_scripts_end_sentences(text, expected):
    assert split_sentences(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "My dentist is Dr. Okafor",
        "I work at Acme Inc. in Berlin",
        "J. R. Smith here",
        "J.K. Rowling wrote it, e.g. the first one",
        "Version 5.3 at 12.40 by a.b@c.org",
        "I live in Rome. :)",
        "Mein Geburtstag ist am 3. Juli",
        "Der 12. August war heiß",
        "1. Buy milk",
        "a line that\ngoes on below",
        "tea; coffee",
    ],
)
def test_a_full_stop_inside_a_sentence_does_not_cut_it(text):
    assert split_sentences(text) == [text]


def test_clauses_end_at_semicolons():
    assert split_sentences("I like tea; what do you like?", clauses=True) == [
        "I like tea;",
        "what do you like?",
    ]


@given(st.text(alphabet="aB1 .!?…;。\uff1f\"')*\n:", max_size=40), st.booleans())
def test_nothing_is_lost(text, clauses):
    spans = sentence_spans(text, clauses=clauses)

    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)


# A quadratic pattern takes minutes for these, and the system ends the process.
SPLIT_HOSTILE = """
import resource
from shepherd.sentences import is_question, split_sentences
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
for piece in (".", " ", ".) ", ".)", "a. ", "\\u3002", "\\n", "1.", "?!"):
    assert isinstance(split_sentences(piece * 200_000 + "a"), list)
    assert not is_question(piece * 200_000 + "a")
    assert not is_question(piece * 200_000 + "\\u3042")
"""


def test_hostile_text_is_split_in_linear_time():
    done = subprocess.run([sys.executable, "-c", SPLIT_HOSTILE], check=False)

    assert done.returncode == 0


@pytest.mark.parametrize("text", ["Who?", "Who? :-)", "_Who?_", '"Who?"', "Who?!", "你呢\uff1f", "Who? 🎉"])
def test_questions_end_with_a_question_mark(text):
    assert is_question(text)


@pytest.mark.parametrize("text", ["Who", "see /?page=1", "Who? Me.", "I ask (why?) often", ""])
def test_other_sentences_are_no_questions(text):
    assert not is_question(text)


@pytest.mark.parametrize(
    ("word", "expected"), [("Dr", True), ("J", True), ("J.K", True), ("Inc", False), ("dog", False)]
)
def test_abbreviations(word, expected):
    assert is_abbreviation(word) == expected


@pytest.mark.parametrize(
    "text",
    [
        "娘の名前は何ですか。",
        "どこに住んでいますか",
        "\u300c娘の名前は何\u300d",
        "明日は休みなのかな\u3002",
        "你知道我住在哪里吗",
        "我叫什么名字\u3002",
        "ฉันชื่ออะไร",
        "คุณจำชื่อฉันได้ไหมครับ",
    ],
)
def test_questions_without_a_mark_end_with_a_word_that_asks(text):
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "飲み物か何か。",
        "誰かが来ました。",
        "好きなのはイカ。",
        "何か飲みたい。",
        "我不知道他是谁",
        "ฉันไม่มีอะไร",
        "我住在北京",
        "ฉันชื่อสมชายครับ",
    ],
)
def test_words_that_ask_elsewhere_make_no_question(text):
    assert not is_question(text)
