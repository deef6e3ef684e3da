"""What an answer can quote, and what each form of sentence needs."""

from __future__ import annotations

import pytest

from shepherd.turn.answer_judge import LIST, UNKNOWN, Judge, Sources, states
from shepherd.types import Fact, Message

TAIL = "[facts: city=Ulm, dog_name=Rex, age=42]"


def fact(key: str, value: str) -> Fact:
    return Fact(key, value, 0, 0)


FACTS = (fact("city", "Ulm"), fact("dog_name", "Rex"), fact("age", "42"))


def sources(*said: str, facts: tuple[Fact, ...] = FACTS, asked: str = "Where do I live?") -> Sources:
    messages = [Message("user", one) for one in said]
    return Sources([*messages, Message("user", asked, composed=f"{asked}\n\n{TAIL}")], facts)


def test_a_value_has_the_keys_of_its_facts_unless_it_is_said_elsewhere() -> None:
    assert sources().keys_of(["ulm"]) == ["city"]
    assert sources("I was in Ulm.").keys_of(["ulm"]) == []
    assert sources().keys_of(["bern"]) == []
    two = (*FACTS, fact("birthplace", "Ulm"))
    assert sources("I was in Ulm.", facts=two).keys_of(["ulm"]) == ["city", "birthplace"]


def test_words_are_known_with_their_singular_and_beginning() -> None:
    known = sources("My bees sting.")
    assert known.has_word("bees")
    assert known.has_word("bee")
    assert known.has_word("stings")
    assert not known.has_word("wasp")
    assert known.has_beginning("sti")
    assert not known.has_beginning("ting")
    assert known.has_gap(".")
    assert not known.has_gap(";")


def test_words_in_a_row_are_quoted() -> None:
    known = sources("My bees sting in June.", "\u6211\u4f4f\u5728\u4e4c\u5c14\u59c6")
    assert known.quotes(["bees", "sting"])
    assert not known.quotes(["sting", "bees"])
    assert not known.quotes([])
    assert known.quotes(["\u4f4f\u5728"])
    assert not known.quotes(["ting"])


def test_few_words_of_a_document_alone_are_no_quotation() -> None:
    text = "Where?\n\n=== KNOWLEDGE ===\nThe gate code is four seven one one."
    known = Sources([Message("user", "Where?", composed=text)], ())
    assert known.quotes(["gate", "code", "is"])
    assert not known.quotes(["gate", "code", "is"], is_whole=True)
    assert known.quotes(["gate", "code", "is", "four"], is_whole=True)


def test_a_name_is_not_cut_before_its_particle() -> None:
    asked = "What school did I go to?"
    message = Message("user", asked, composed=f"{asked}\n\n[facts: university=University of Hull]")
    judge = Judge(Sources([message], (fact("university", "University of Hull"),)), asked)

    assert not judge.accepts("You went to University.", [])
    assert judge.accepts("You went to University of Hull.", [])


def test_a_number_counts_what_stands_behind_it() -> None:
    known = sources("45, single, 2 small kids.", "We live at 12 Elm Road and have children.")
    assert known.counts(["2"], ["children"])
    assert not known.counts(["45"], ["children"])
    assert not known.counts(["12"], ["children"])
    judge = Judge(known, "How many kids do I have?")
    assert judge.accepts("You have 2 children.", [])
    assert not judge.accepts("You have 45 children.", [])


def test_a_number_is_told_of_the_thing_that_it_is_told_of() -> None:
    known = sources("My mortgage ends in May.", "It rained.", "It snowed.", "The joiner wants 14,200 euros.")

    judge = Judge(known, "Who is the joiner?")

    assert not judge.accepts("Your mortgage end is 14,200.", [])
    assert judge.accepts("Your joiner is 14,200.", [])


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("employment", "retired", "Your employment is retired."),
        ("hobby", "brew my own cider", "Your hobby is brew."),
        ("keeps", "bees", "Your keeps are bees."),
    ],
)
def test_a_fact_with_a_sentence_of_its_own_is_not_told_by_its_key(key: str, value: str, said: str) -> None:
    message = Message("user", "What do I do?", composed=f"What do I do?\n\n[facts: {key}={value}]")

    assert not Judge(Sources([message], (fact(key, value),)), message.raw).accepts(said, [])


def test_a_value_is_said_of_what_stands_beside_it() -> None:
    known = sources("I have three hives. They are 7 years old. It rains. It snows. The car is red.")
    assert known.is_said_of(["7"], {"hive"})
    assert not known.is_said_of(["7"], {"car"})
    assert known.is_said_of(["7"], set())
    assert known.is_told_of(["7"], {"year"}, of_all=True)
    assert not known.is_told_of(["7"], {"year", "hive"}, of_all=True)
    assert known.is_told_of(["7"], {"year", "hive"}, of_all=False)
    assert not known.is_told_of(["8"], {"year"}, of_all=False)


def test_what_was_said_last_counts() -> None:
    assert sources("I live in Bonn.", "I no longer live in Bonn.").is_denied(["bonn"])
    assert not sources("I left Bonn.", "I live in Bonn.").is_denied(["bonn"])
    assert not sources().is_denied(["bonn"])
    ended = Sources([Message("user", "x", composed="x\n\n(city is no longer Bonn)")], ())
    assert ended.is_denied(["bonn"])
    assert ended.tells_ended("You live in Bonn.")
    assert not ended.tells_ended("You live in Ulm.")


def test_one_name_of_a_list_is_a_part_of_it() -> None:
    known = sources("My children are Mia, Ben and Ida. Rex barks.")
    assert known.is_part_of_list(["mia"])
    assert known.is_part_of_list(["ben"])
    assert known.is_part_of_list(["ida"])
    assert not known.is_part_of_list(["rex"])
    assert not known.is_part_of_list(["tom"])


@pytest.mark.parametrize(
    ("asked", "sentence", "fits"),
    [
        ("Where do I live?", "You live in Ulm.", True),
        ("Where do I live?", "You live in Bonn.", False),
        ("Where do I live?", "You live in Rex.", False),
        ("Where do I live?", UNKNOWN, True),
        ("Where do I live?", "You live in Ulm \ufffd", False),
        ("Where do I live?", "You live in Ulm!!!! ;;;;", False),
        ("How old am I?", "You are 42 years old.", True),
        ("How old is Ida?", "You are 42 years old.", False),
        ("What is my dog called?", "Your dog is called Rex.", True),
        ("What is my dog called?", "Your cat is called Rex.", False),
        ("What is my dog called?", "Your dog is called Rex and.", False),
        ("Where did I live before Ulm?", "You live in Ulm.", False),
    ],
)
def test_a_sentence_says_a_fact_of_what_is_asked(asked: str, sentence: str, fits: bool) -> None:
    assert Judge(sources(asked=asked), asked).accepts(sentence, []) is fits


def test_as_many_sentences_follow_as_questions_were_asked() -> None:
    first, second = "You live in Ulm.", "You are 42 years old."
    assert not Judge(sources(), "Where do I live?").accepts(second, [first])
    both = "Where do I live and how old am I?"
    assert Judge(sources(asked=both), both).accepts(second, [first])
    assert not Judge(sources(asked=both), both).accepts(first, [first])


def test_a_list_has_its_true_entries_once() -> None:
    judge = Judge(sources(), "What do you know?")
    assert (
        judge.listed(f"{LIST} city=Ulm, age=43, dog_name=Rex, city=Ulm.") == f"{LIST} city=Ulm, dog_name=Rex."
    )
    assert judge.listed(f"{LIST} city=Bonn.") == ""
    comma = Judge(sources(facts=(fact("likes", "tea, cake"),)), "What do you know?")
    assert comma.listed(f"{LIST} likes=tea, cake.") == f"{LIST} likes=tea, cake."


def test_the_part_before_a_comma_is_a_sentence_if_it_ends_with_a_value() -> None:
    judge = Judge(sources(), "Where do I live?")
    assert judge.first_clause("You live in Ulm, which is old.") == "You live in Ulm."
    assert judge.first_clause("You live in Ulm.") == ""
    assert judge.first_clause("You live there, in Ulm.") == ""


def test_a_sentence_that_was_cut_off_begins_with_known_words() -> None:
    judge = Judge(sources(), "Where do I live?")
    assert judge.can_begin("You live in Ul", [])
    assert not judge.can_begin("You live in Bo", [])
    assert not judge.can_begin("Zebras live in Ul", [])
    assert not judge.can_begin("", [])
    assert not judge.can_begin("You live", ["You live in Ulm."])


def test_a_sentence_states_a_value_or_its_first_words() -> None:
    tea = fact("likes", "green tea. And cake")
    assert states("You like green tea. And cake", tea)
    assert not states("You like green tea", tea)
    assert states("You like green tea", tea, 2)
    assert not states("You like greens", fact("likes", "green"))
