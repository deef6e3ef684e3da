"""The values that each kind of assertion takes, under which key, and those it refuses."""

from __future__ import annotations

import importlib

import pytest

from shepherd.claims.inversions import _single
from shepherd.claims.judge import concerns, supported_value
from shepherd.claims.keys import is_about, items_of, joined_values
from shepherd.claims.material import own_words
from shepherd.claims.spellings import spelled_out
from shepherd.claims.statements import Assertion

# The package gives the name of the module to its function.
module = importlib.import_module("shepherd.claims.judge")


def supported(kind: str, key: str, said: str, value: str, topic: str = "", *, is_weak: bool = False) -> str:
    return supported_value(Assertion(kind, topic, said, said, is_weak=is_weak), key, value)


@pytest.mark.parametrize(
    ("kind", "key", "good", "bad"),
    [
        ("name", "name", "Ann|May|may|Ann May Lee", "a b c d e f|A b C d E f|R2D2|she|a friend"),
        ("age", "age", "34|34 years old|thirty-four|6 weeks", "old|1234|years old"),
        ("email", "email", "a@b.de", "a@b|a b.de"),
        ("phone", "phone", "12345|+49 731", "1234"),
        ("birthday", "birthday", "May 3|Christmas|1 2 3 4 5", "soon|May 3 or 4|1 2 3 4 5 6"),
        ("location", "location", "Ulm|Max Town", "max|Max town|it|the house"),
        ("employer", "employer", "Bosch|fine cooking|the hospital|a school", "python|cooking|a dream"),
        ("drives", "car", "a Fiat|a truck", "him crazy|mad"),
        ("owns", "car", "a Kindle|an iPhone mini", "a Zoom call|3 cars"),
        ("plays", "plays", "guitar|the Guitar", "it|the guitar"),
        ("allergy", "allergy", "nuts", "mondays|work"),
        ("study", "study", "physics", "the physics|Ann's notes"),
        ("condition", "condition", "asthma", "asthma patients|blood tests"),
        ("likes", "likes", "jazz|the Beatles", "escaping to|the second one|the beatles|him"),
        ("likes", "likes", "a1 b2 c3 d4 e5 f6 g7 h8", "a1 b2 c3 d4 e5 f6 g7 h8 i9"),
    ],
)
def test_a_value_has_the_form_of_its_kind(kind: str, key: str, good: str, bad: str) -> None:
    for said in good.split("|"):
        assert supported(kind, key, said, said) == said.removeprefix("a ").removeprefix("an ").removeprefix(
            "the "
        )
    for said in bad.split("|"):
        assert supported(kind, key, said, said) == ""


@pytest.mark.parametrize(
    ("kind", "topic", "key", "said", "value", "is_weak", "quoted"),
    [
        # The first name is a name; the last one of two is none, and a weak one is whole.
        ("name", "", "name", "Ann Lee", "Ann", False, "Ann"),
        ("name", "", "name", "Ann Lee", "Lee", False, ""),
        ("name", "", "name", "Ann Lee", "Ann Lee", True, "Ann Lee"),
        ("name", "", "name", "Ann Lee", "Ann", True, ""),
        ("name", "", "name", "Ann Lee Ray", "Ann Lee Ray", True, "Ann Lee Ray"),
        ("name", "", "name", "Ann Lee Ray Foe", "Ann Lee Ray Foe", True, ""),
        ("name", "", "name", "hungry", "hungry", True, ""),
        ("relative", "sister", "sister_name", "Ann Lee", "Ann", False, "Ann"),
        ("relative", "sister", "sister_name", "Ann Lee", "Lee", False, ""),
        ("relative", "sister", "sister_name", "may", "may", False, "may"),
        ("relative", "sister", "sister_name", "hungry", "hungry", False, ""),
        ("relative", "sister", "sister_name", "R2D2", "R2D2", False, ""),
        ("relative", "sister", "dog_name", "Ann", "Ann", False, ""),
        ("employer", "", "employer", "Acme Steel", "Acme", False, ""),
        ("job", "", "job", "nurse", "nurse", True, "nurse"),
        ("job", "", "job", "Nurse", "Nurse", True, ""),
        ("job", "", "job", "Nurse", "Nurse", False, "Nurse"),
        ("job", "", "job", "ann's nurse", "ann's nurse", True, ""),
        ("job", "", "job", "tired", "tired", True, ""),
        ("location", "", "location", "a dream", "dream", False, ""),
        ("location", "", "location", "a Dream", "Dream", False, "Dream"),
        (
            "instructions",
            "",
            "instructions",
            "answer in German",
            "answer in German",
            False,
            "answer in German",
        ),
        ("instructions", "", "instructions", "answer in German if I ask", "answer in German", False, ""),
        ("favorite", "favorite color", "favorite_color", "blue", "blue", False, "blue"),
        ("favorite", "favorite colour", "favorite_color", "blue", "blue", False, "blue"),
        ("favorite", "favorite film", "favorite_color", "blue", "blue", False, ""),
        ("favorite", "favorite option", "favorite_option", "B", "B", False, ""),
        ("favorite", "favorite color", "favorite_color", "one", "one", False, ""),
        ("attribute", "bike", "bike", "a Brompton", "Brompton", False, "Brompton"),
        ("attribute", "bike", "bike", "stuck", "stuck", False, ""),
        ("attribute", "bike", "bike", "old", "old", False, ""),
        ("attribute", "suggestion", "suggestion", "Rome", "Rome", False, ""),
        ("attribute", "sister's bike", "sister's bike", "Brompton", "Brompton", False, ""),
        ("attribute", "side project", "project", "Kite", "Kite", False, "Kite"),
        ("attribute", "kite", "project", "Blue Sky", "Blue Sky", False, "Blue Sky"),
        ("likes", "", "music", "jazz", "jazz", False, ""),
    ],
)
def test_a_value_is_whole_and_its_key_is_what_was_said(
    kind: str, topic: str, key: str, said: str, value: str, is_weak: bool, quoted: str
) -> None:
    assert supported(kind, key, said, value, topic, is_weak=is_weak) == quoted


def test_names_of_programs_and_plain_properties() -> None:
    programs = "Emacs|emacs|a Kindle|vim 9|Visual Studio|an Editor|Python 3"
    others = "my vim|Visual studio|2Do app|9e Studio x||a kite"
    assert [name for name in programs.split("|") if not module._is_program(name)] == []
    assert [name for name in others.split("|") if module._is_program(name)] == []

    plain = [
        ("bike", "Brompton"),
        ("allotment", "plot 27"),
        ("pronouns", "they them"),
        ("username", "@ann"),
        ("handle", "@ann"),
        ("editor", "vim"),
        ("old red garden bike", "Brompton"),
    ]
    unclear = [
        ("bike", "red"),
        ("results", "in file B"),
        ("cat", "Persian"),
        ("allotment", "Plot of land in Ulm now"),
        ("garden gate code", "Blue"),
        ("editor", "good"),
    ]
    assert [one for one in plain if not module._is_plain_attribute(*one)] == []
    assert [one for one in unclear if module._is_plain_attribute(*one)] == []


def test_keys_are_made_of_the_words_of_a_relation() -> None:
    verbs = {
        "belong to": "belongs to", "teach": "teaches", "fix": "fixes", "go": "goes", "miss": "misses",
        "wash": "washes", "run": "runs",
    }  # fmt: skip
    assert {verb: module._third_person(verb) for verb in verbs} == verbs
    topics = {
        "new dog": ["dog"],
        "dear mum": ["mother"],
        "two cats": ["cats"],
        "lil sis": ["little", "sister"],
    }
    assert {topic: module._topic_words(topic) for topic in topics} == topics
    nouns = {
        "teas": "tea", "countries": "country", "dishes": "dish", "movies": "movie", "series": "series",
        "boxes": "box", "glasses": "glass", "glass": "glass", "beaches": "beach", "ship": "ship",
    }  # fmt: skip
    assert {noun: _single(noun) for noun in nouns} == nouns


@pytest.mark.parametrize(
    ("text", "key", "is_it"),
    [
        ("where do i live", "location", True),
        ("where do i work", "location", False),
        ("residing", "location", True),
        ("the dogs", "dog_name", True),
        ("the dog", "dog_color", False),
        ("dog colors", "dog_color", True),
        ("arbeitest du", "employer", True),
        ("arbeit", "employer", True),
        ("plays", "plays", True),
        ("a display", "plays", False),
        ("", "name", False),
        ("anything", "my", False),
    ],
)
def test_a_text_is_about_a_key_by_the_words_of_speech(text: str, key: str, is_it: bool) -> None:
    assert is_about(text, key) is is_it


@pytest.mark.parametrize(
    ("statement", "key", "concerned"),
    [
        ("My bro left Bosch", "brother_job", True),
        ("my younger brother left", "younger_brother_job", True),
        ("my brother left", "younger_brother_job", False),
        ("I left", "younger_brother_job", False),
        ("I left", "car_age", True),
        ("I left", "brother_car", True),
    ],
)
def test_a_statement_concerns_a_relative_whom_it_names(statement: str, key: str, concerned: bool) -> None:
    assert concerns(statement, key) is concerned


def test_items_of_lists_and_of_phrases() -> None:
    assert items_of("allergy", "nuts, latex and milk") == ["nuts", "latex and milk"]
    assert items_of("allergy", "nuts,, latex and milk", apart=True) == ["nuts", "latex", "milk"]
    assert items_of("routine", "run and swim; eat, sleep", apart=True) == ["run and swim", "eat, sleep"]
    assert joined_values("allergy", "Nuts and milk", "nuts, eggs") == "Nuts, milk, eggs"
    assert joined_values("routine", "run, swim", "eat") == "run, swim; eat"


@pytest.mark.parametrize(
    ("key", "known", "new", "joined"),
    [
        ("allergy", "nuts", "some nuts, nut", "nuts"),
        ("allergy", "some nuts, milk", "all nuts", "all nuts, milk"),
        ("allergy", "my cat", "cats", "my cat, cats"),
        ("allergy", "nuts", "pine nuts", "nuts, pine nuts"),
        ("allergy", "strawberries", "strawberry", "strawberries"),
        ("hobby", "hike, swimming", "hiking and swim", "hike, swimming"),
        ("condition", "diabetic, bad back", "diabetes, a bad back", "diabetic, bad back"),
        ("uses", "C", "C++", "C, C++"),
        ("likes", "Bath, Queens", "bathing, Queen", "Bath, Queens, bathing, Queen"),
        ("children", "son", "three children", "three children"),
        ("children", "three children", "a son", "three children, son"),
        ("children", "three children", "a fourth child", "three children, fourth child"),
        ("children", "a son and a daughter", "another daughter", "son, daughter, another daughter"),
        (
            "children",
            "a son, a daughter, another daughter",
            "three children",
            "son, daughter, another daughter",
        ),
        ("children", "son and a daughter", "two children", "son, daughter"),
        ("children", "two boys and a girl", "three kids", "two boys, girl"),
        ("children", "two boys and a girl", "four kids", "two boys, girl, four kids"),
        ("pets", "cat", "two pets", "cat, two pets"),
    ],
)
def test_another_form_of_an_item_joins_no_list(key: str, known: str, new: str, joined: str) -> None:
    assert joined_values(key, known, new) == joined


@pytest.mark.parametrize(
    ("typed", "spelled"),
    [
        ("im Ann", "I'm Ann"),
        ("ich bin im Bad", "ich bin im Bad"),
        ("ich habe einen Hund, dont", "ich habe einen Hund, don't"),
        ("I dont know", "I don't know"),
        ("I have a dog. Her name is Ida.", "I have a dog called Ida."),
        ("I have a dog. Her name's Ida.", "I have a dog called Ida."),
    ],
)
def test_what_was_typed_in_haste_is_spelled_out(typed: str, spelled: str) -> None:
    assert spelled_out(typed) == spelled


# What stands for what was removed.
GAP = "\x00"


@pytest.mark.parametrize(
    ("message", "own"),
    [
        # Letters: a salutation begins one, a greeting only with a close.
        ("I live in Ulm.\n\nDear Ann,\nI live in Rome.", "I live in Ulm."),
        ("I live in Ulm. Hi Ann, I live in Rome. Best regards, Bob", "I live in Ulm."),
        ("I live in Ulm. Hi Ann, I live in Rome.", "I live in Ulm. Hi Ann, I live in Rome."),
        ("The diary begins: I live in Rome", "The "),
        # Code, logs and settings.
        ("I live in Ulm.\n```\nI live in Rome\nand so on\n```\nI am Ann.", f"I live in Ulm.{GAP}\nI am Ann."),
        ("I live in Ulm.\n```\nI live in Rome", f"I live in Ulm.{GAP}"),
        ("I live in `Rome` now", f"I live in {GAP} now"),
        ("> I live in Rome\nI live in Ulm", f"{GAP}\nI live in Ulm"),
        ("see https://a.b/c now", f"see {GAP} now"),
        ('I have {"a":\n"b"} here', f"I have {GAP} here"),
        ("a=1 b=2 I live", f"{GAP}I live"),
        ("My name is [NAME]", f"My name is {GAP}"),
        ("My name is [Name]", "My name is [Name]"),
        ("x = 5\nI live in Ulm", f"{GAP}\nI live in Ulm"),
        ("import os\nI live in Ulm", f"{GAP}\nI live in Ulm"),
        ("I live in Ulm\nERROR at home\nI am Ann", f"I live in Ulm\n{GAP}\nI am Ann"),
        ("2024-01-01 10:00 I left\nI am Ann", f"{GAP}\nI am Ann"),
        # Quotations: one word is emphasis.
        ("I said 'I live in Rome' to Ann", f"I said {GAP} to Ann"),
        ('I said "Rome" to Ann', "I said Rome to Ann"),
        ('I said "in Rome" to Ann', f"I said {GAP} to Ann"),
        # Others who speak, and requests.
        ("Lea: I live in Rome", ""),
        ("I live in Ulm. Lea: I live in Rome", "I live in Ulm."),
        ("Note: I live in Ulm", "Note: I live in Ulm"),
        ("Summarise this: I live in Rome", ""),
        ("A summary, please: I live in Rome", "A "),
        ("please answer in German from now on", "please answer in German from now on"),
        ("please answer in German from now on: I live in Rome", ""),
        ("just kidding, I live in Rome", ""),
    ],
)
def test_words_of_others_are_left_out(message: str, own: str) -> None:
    assert own_words(message) == own
