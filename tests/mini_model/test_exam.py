"""How the exam judges answers."""

import json
import sys
from pathlib import Path

import exam
import pytest

EXAM = json.loads((exam.HERE / "exam.json").read_text(encoding="utf-8"))
KNOWN = exam.vocabulary(EXAM)


def test_the_exam_has_enough_of_every_group():
    groups = [group for group, _, _ in exam.questions(EXAM)]

    assert len(groups) >= 150
    assert {group: groups.count(group) for group in ("facts", "notes", "unknown")} == {
        "facts": 38,
        "notes": 51,
        "unknown": 36,
    }
    assert len({asked for _, asked, _ in exam.questions(EXAM)}) == len(groups)


def test_every_answer_can_be_known():
    stored = json.dumps(EXAM["facts"], ensure_ascii=False).casefold()
    stored += json.dumps([text for text, _ in EXAM["notes"].values()], ensure_ascii=False).casefold()
    stored += json.dumps(EXAM["memories"], ensure_ascii=False).casefold()

    for _, asked, wanted in exam.questions(EXAM):
        assert all(value.casefold() in stored for value in wanted), asked


@pytest.mark.parametrize(
    ("answer", "bad"),
    [
        ("Your name is Henrik Dahl.", False),
        ("Your notes say: Tank 3 holds 12,000 litres and is kept at 7 degrees.", False),
        ('You said: "Terje and I went sea fishing on Saturday, it was freezing."', False),
        ("Nice to meet you, Quorl.", False),
        ("", True),
        ("Your boat is called Sprrgl.", True),
        ("the boat the key the boat the key the boat the key the boat the key", True),
        ("the key of the boat " * 13, True),
        ("Your name is Henrik\ufffd.", True),
    ],
)
def test_garbled_answers_repeat_themselves_or_have_words_from_nowhere(answer, bad):
    assert exam.garbled(answer, "I'm Quorl.", KNOWN) is bad


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        (("facts", "How old is Pontus?", ["4"]), "Pontus is 4 years old.", True),
        (("facts", "How old is Pontus?", ["4"]), "Pontus is 44 years old.", False),
        (("notes", "How long?", ["25"]), "Your notes say: It lasts 25 minutes.", True),
        (("notes", "How long?", ["25"]), "Your notes say: It lasts 125 minutes.", False),
        (("several", "?", ["Henrik", "Bodø"]), "Your name is Henrik Dahl. You live in Bodø.", True),
        (("several", "?", ["Henrik", "Bodø"]), "Your name is Henrik Dahl.", False),
        (("unknown", "?", []), "I have nothing stored about that.", True),
        (("unknown", "?", []), "I don't know that.", True),
        (("unknown", "?", []), "I don't know that. Your wife is called Solveig.", False),
        (("unknown", "?", []), "Nice, I'll remember that.", False),
        (("told", "?", []), "Nice, I'll remember that.", True),
        (("told", "?", []), "Nice to meet you, Olaf.", False),
        (("beyond", "?", []), "I have nothing stored about that.", False),
    ],
)
def test_an_answer_is_right_if_it_holds_all_that_was_asked_for(question, answer, right):
    assert exam.is_right(question, answer, EXAM) is right


def test_the_exam_is_taken_through_the_real_program():
    small = {
        "facts": {"name": "Henrik Dahl"},
        "fact_questions": [["What is my name?", "Henrik Dahl"]],
        "notes": {
            "boat.md": ["# Boat\n\nThe boat lies at berth 18.", [["Where does the boat lie?", "berth 18"]]]
        },
        "memories": [["Nils is afraid of thunder.", "Many children are."]],
        "memory_questions": [["What is Nils afraid of?", "thunder"]],
        "several": [],
        "unknown": ["What is my cat called?"],
        "told": ["My sister is called Liv."],
        "beyond": ["Write a poem about the sea."],
    }

    results = exam.examine(small, str(Path(sys.executable).with_name("shepherd")), "")

    assert [question[0] for question, _, _, _ in results] == [
        *("facts", "notes", "memories", "unknown", "told", "beyond")
    ]
    assert all(answer for _, answer, _, _ in results)
    right = {question[0] for question, _, is_right, _ in results if is_right}
    assert {"facts", "unknown", "told", "beyond"} <= right
