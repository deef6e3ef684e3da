"""What the bundled model is trained on: nothing held out gets in, formats are Shepherd's own."""

import json
import re
from random import Random

import generator
import pytest
import relations
import smalltalk
import unsaid
import values
from generator import JOBS, TRAINING, Split, conversation

EVERY_JOB = pytest.mark.parametrize("job", [*JOBS])


@EVERY_JOB
def test_a_conversation_ends_with_the_assistant_and_alternates(job: str) -> None:
    for seed in range(50):
        roles = [role for role, _ in conversation(Random(seed), job)]

        spoken = roles[1:] if roles[0] == "system" else roles
        assert spoken[::2] == ["user"] * (len(spoken) // 2)
        assert set(spoken[1::2]) <= {"earlier", "assistant"}
        assert spoken[-1] == "assistant"


def test_what_follows_a_question_about_notes_is_a_sentence_of_the_notes() -> None:
    for seed in range(200):
        messages = conversation(Random(seed), "notes", Split(plain=True))
        (_, asked), (_, answer) = messages[-2:]

        assert answer.startswith("Your notes say: ")
        assert answer.removeprefix("Your notes say: ") in asked


@pytest.mark.parametrize("kind", [*unsaid.KINDS])
def test_sentences_of_every_kind_that_teaches_nothing_have_no_open_slot(kind: str) -> None:
    for seed in range(100):
        text = unsaid.unsaid(Random(seed), TRAINING, kind)

        assert not re.search(r"\{[a-z]\d?\}|[()|]", text), text


@EVERY_JOB
def test_the_same_seed_makes_the_same_conversation(job: str) -> None:
    assert conversation(Random(7), job) == conversation(Random(7), job)


def test_training_values_and_held_out_values_do_not_meet() -> None:
    random = Random(1)

    trained = {values.fresh(random, maker, False) for maker in values.MAKERS.values() for _ in range(30)}
    held_out = {values.fresh(random, maker, True) for maker in values.MAKERS.values() for _ in range(30)}

    assert not trained & held_out


def test_training_wordings_and_held_out_wordings_do_not_meet() -> None:
    random = Random(2)
    told = relations.RELATIONS[1].say

    trained = {generator.wording(random, told, TRAINING) for _ in range(300)}
    held_out = {generator.wording(random, told, Split(wordings_held_out=True)) for _ in range(300)}

    assert held_out
    assert not trained & held_out


def test_the_tail_has_the_bytes_of_the_contract() -> None:
    built = generator.tail({"name": "Steve", "location": "Texas"}, [("Which IDE?", "Vim"), ("Q", "A")])

    assert built == (
        "\n\n[facts: location=Texas, name=Steve]"
        "\n[context: User: Which IDE?\nAssistant: Vim | User: Q\nAssistant: A]"
    )


def test_either_block_of_the_tail_stands_alone() -> None:
    assert generator.tail({"name": "Steve"}, []) == "\n\n[facts: name=Steve]"
    assert generator.tail({}, [("Q", "A")]) == "\n\n[context: User: Q\nAssistant: A]"
    assert generator.tail({}, []) == ""


def test_an_extraction_answer_is_json_whose_values_stand_in_the_lines() -> None:
    for seed in range(200):
        _, *turns = conversation(Random(seed), "extract", Split(plain=seed % 2 == 0))

        for (_, lines), (_, answer) in zip(turns[::2], turns[1::2], strict=True):
            parsed = json.loads(answer)
            found = [*parsed["facts"].values(), *(entry["a"] for entry in parsed["context"])]
            assert found or seed % 2, "an evaluated line has something to learn in it"
            assert all(value in lines for value in found)
            assert all(re.fullmatch(r"[^\sA-Z]+", key) for key in parsed["facts"])


def test_small_talk_and_questions_extract_nothing() -> None:
    for seed in range(100):
        assert conversation(Random(seed), "extract_nothing")[-1][1] == '{"facts": {}, "context": []}'


def test_an_answer_copies_a_value_that_the_tail_holds() -> None:
    for seed in range(200):
        messages = conversation(Random(seed), "facts", Split(plain=True))
        (_, asked), (_, answer) = messages[-2:]

        assert answer != smalltalk.NOTHING
        assert any(f"={value}" in asked for value in suffixes(answer.removesuffix(".")))


def suffixes(answer: str) -> list[str]:
    """Every run of words of the answer, since the value may stand anywhere in it."""
    words = answer.split(" ")
    return [" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)]


def test_every_relation_tells_asks_and_answers() -> None:
    for relation in relations.RELATIONS:
        assert relation.key or relation.question
        assert "{v}" in relation.answer
        assert all("{v}" in text for text in relation.say)
        assert relation.value in values.MAKERS
        assert not any("{v}" in text for text in (*relation.ask, *relation.that))
