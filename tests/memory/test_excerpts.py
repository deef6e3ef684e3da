"""A long memory is shown where the words are that it was found by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.escaping import escape_text
from shepherd.memory import Memory, Turn
from shepherd.memory.injection_format import MAX_ANSWER, MAX_QUESTION, escape_excerpt, render_tail
from shepherd.memory.queries import extract_keywords
from tests.memory.test_injection_format import FRAGMENTS, parse, result

STORY = "We went for a walk along the river and looked at the old mills there. " * 8
NAMED = "By the way, our wifi network is called Bluebird."
ASKED = "What is our wifi network called?"
texts = st.lists(
    st.one_of(st.sampled_from([*FRAGMENTS, "wifi", "a. ", "word " * 30]), st.text(max_size=8))
).map("".join)


def excerpt(text: str, query: str = ASKED, limit: int = MAX_QUESTION) -> str:
    return escape_excerpt(text, limit, extract_keywords(query))


@pytest.mark.parametrize("after", ["", " Good night.", " " + STORY])
def test_what_a_long_memory_was_found_by_is_shown(memory: Memory, after: str) -> None:
    memory.relevance_threshold = 0.0
    memory.archive_turn(Turn(f"{STORY}{NAMED}{after}", "Noted."))

    shown = memory.recall(ASKED).tail

    [(question, answer)] = parse(shown)[1]
    assert NAMED in question
    assert question.startswith("…")
    assert question.endswith("…" if after == " " + STORY else (after or NAMED).strip())
    assert len(question) <= MAX_QUESTION
    assert answer == "Noted."


def test_what_stands_around_it_is_shown_too() -> None:
    shown = excerpt(f"{STORY}It is slow. {NAMED} The router is in the hall. {STORY}")

    assert f"It is slow. {NAMED} The router is in the hall." in shown
    assert len(shown) > MAX_QUESTION // 2


def test_an_answer_has_its_own_limit(memory: Memory) -> None:
    memory.relevance_threshold = 0.0
    memory.archive_turn(Turn("Tell me of the house.", f"{STORY * 3}{NAMED}"))

    [(_, answer)] = parse(memory.recall(ASKED).tail)[1]

    assert answer.endswith(NAMED)
    assert MAX_QUESTION < len(answer) <= MAX_ANSWER


def test_text_without_spaces_is_shown_around_the_words() -> None:
    shown = excerpt(
        "今天我们去河边散步了" * 60 + "我们的网络叫青鸟" + "今天我们去河边散步了" * 60, "网络叫什么"
    )

    assert "我们的网络叫青鸟" in shown
    assert len(shown) <= MAX_QUESTION


@pytest.mark.parametrize("text", [f"{NAMED} {STORY}", STORY * 2, f"{NAMED} {STORY}{NAMED}", "wifi" * 200])
def test_the_beginning_is_shown_where_it_has_as_much(text: str) -> None:
    assert excerpt(text) == escape_text(text, MAX_QUESTION)


def test_a_rare_word_counts_more_than_a_common_one() -> None:
    shown = excerpt(
        "The network is slow. " * 40 + "Bluebird is up. " + "The walk was nice. " * 40, "network bluebird"
    )

    assert "Bluebird is up." in shown


@given(texts, st.sampled_from([ASKED, "word", "user context facts", "日本語"]), st.integers(3, 60))
def test_every_excerpt_is_within_its_limit_and_escaped(text: str, query: str, limit: int) -> None:
    shown = excerpt(text, query, limit)

    assert len(shown) <= limit
    assert parse(render_tail("", [result(shown, "")]))[1] == [(shown, "")]
    assert escape_text(shown, limit) == shown


@given(texts, st.integers(0, 100))
def test_what_fits_is_shown_as_it_is(text: str, spare: int) -> None:
    whole = escape_text(text, 10_000)

    assert excerpt(text, ASKED, max(3, len(whole) + spare)) == whole


def test_question_of_400_and_answer_of_1200_characters_are_shown_whole(memory: Memory) -> None:
    for n_question, n_answer, ends in ((400, 1200, False), (401, 1201, True)):
        memory.archive_turn(
            Turn("tea " * 100 + "x" * (n_question - 400), "milk " * 240 + "x" * (n_answer - 1200))
        )
        [(question, answer)] = parse(memory.recall("tea milk").tail)[1]

        assert question.endswith("…") == answer.endswith("…") == ends
        memory.clear_memory("tea " * 100 + "x" * (n_question - 400))


def test_excerpt_has_text_on_both_sides_of_the_keyword() -> None:
    before = " ".join(f"This is sentence {n} of many." for n in range(60))
    after = " ".join(f"That is sentence {n} of more." for n in range(60))

    shown = escape_excerpt(f"{before} The parrot is green. {after}", 400, ["parrot"])

    assert "parrot" in shown
    assert min(map(len, shown.split("parrot"))) > 120
