"""Less is said by levels, each made of what was given; the user's text and the system part stay whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shepherd.errors import ContextOverflowError
from shepherd.prompt.compression import (
    HEAVY_SUMMARY_TOKENS,
    LEVELS,
    _summed_up,
    compress,
    cut,
    level_for,
    simplified,
    summary_part,
)
from shepherd.prompt.plan import SUMMARY_ID, Category, Part


def measure(part: Part) -> int:
    """A token a word, and one for what stands before the part."""
    return 1 + len(part.text.split())


def words(n: int, word: str = "word") -> str:
    return " ".join([word] * n)


def turn(number: int, n_words: int) -> list[Part]:
    return [
        Part("history", f"turn:{number}:user", f"User: {words(n_words - 1)}"),
        Part("history", f"turn:{number}:assistant", f"Assistant: {words(n_words - 1)}"),
    ]


def entity(number: int, score: float) -> Part:
    return Part(
        "entities",
        f"entity:{number}",
        f"Name{number} {words(9)}",
        score=score,
        shorter=(f"Name{number} short form", f"Name{number}"),
    )


def chunk(number: int, n_words: int, score: float) -> Part:
    return Part("knowledge", f"chunk:{number}", f"Source: Doc\n{words(n_words, f'c{number}')}", score=score)


SYSTEM = Part("system", "system", words(9))
QUERY = Part("query", "query", words(9, "asked"))
# 30 + 8 turns of 22, 5 entities of 11, 5 chunks of 33, memory 11, focus 11: tokens.
ALL = [
    SYSTEM,
    *(part for number in range(8) for part in turn(number, 10)),
    Part("memory", "memory", words(10, "known"), shorter=("known",)),
    *(entity(number, number / 10) for number in range(5)),
    *(chunk(number, 30, number / 10) for number in range(5)),
    Part("focus", "focus", words(10, "open"), shorter=("open",)),
    QUERY,
]
TOTAL = sum(map(measure, ALL))


def ids(parts, category):
    return [part.id for part in parts if part.category == category]


def test_what_fits_is_left_as_it_is():
    result = compress(ALL, TOTAL, measure)

    assert [part.text for part in result.parts] == [part.text for part in ALL]
    assert (result.level, result.tokens, result.left_out) == ("", TOTAL, ())


@pytest.mark.parametrize(
    ("reduction", "level"),
    [(0.0, "light"), (0.19, "light"), (0.2, "medium"), (0.39, "medium"), (0.4, "heavy"), (0.6, "extreme")],
)
def test_level_follows_from_the_share_that_has_to_go(reduction, level):
    assert level_for(reduction) == level


def test_light_takes_formatting_and_repetitions_alone():
    parts = [
        SYSTEM,
        Part("history", "turn:0:user", "User:   **so**  \n\n\n\n---\nbe it   "),
        chunk(1, 30, 0.5),
        Part("knowledge", "chunk:9", f"Source: Other\n{words(30, 'C1')}", score=0.4),
        entity(1, 0.5),
        QUERY,
    ]

    result = compress(parts, sum(map(measure, parts)) - 5, measure)

    assert result.level == "light"
    assert ids(result.parts, "knowledge") == ["chunk:1"]
    assert [left.part.id for left in result.left_out] == ["chunk:9"]
    assert result.parts[3].text == entity(1, 0.5).text


def test_medium_sums_up_older_turns_and_keeps_three_chunks_and_less_detail():
    result = compress(ALL, int(TOTAL * 0.7), measure, summarize=lambda text, longest: words(20, "sum"))

    assert result.level == "medium"
    assert ids(result.parts, "history")[0] == "summary"
    assert ids(result.parts, "history")[1::2] == [f"turn:{n}:user" for n in range(4, 8)]
    assert ids(result.parts, "knowledge") == ["chunk:2", "chunk:3", "chunk:4"]
    assert [p.text for p in result.parts if p.category == "entities"] == [
        f"Name{number} short form" for number in range(5)
    ]
    assert result.parts[1].text.startswith("[Conversation summary: sum sum")


def test_heavy_keeps_one_short_summary_the_last_turn_three_entities_two_chunks():
    result = compress(ALL, int(TOTAL * 0.55), measure, summarize=lambda text, longest: words(500, "sum"))

    assert result.level == "heavy"
    assert ids(result.parts, "history") == ["summary", "turn:7:user", "turn:7:assistant"]
    assert ids(result.parts, "entities") == ["entity:2", "entity:3", "entity:4"]
    assert ids(result.parts, "knowledge") == ["chunk:3", "chunk:4"]
    [summary] = [part for part in result.parts if part.id == "summary"]
    assert 50 < summary.tokens <= HEAVY_SUMMARY_TOKENS


def test_extreme_keeps_the_essentials():
    parts = [SYSTEM, Part("history", "turn:1:user", "User: First. " + words(200)), *ALL[17:]]

    result = compress(parts, 90, measure)

    assert result.level == "extreme"
    assert [part.text for part in result.parts if part.category == "history"] == ["User: First."]
    assert ids(result.parts, "entities") == ["entity:4"]
    assert ids(result.parts, "knowledge") == ["chunk:4"]
    assert [part.text for part in result.parts if part.category == "memory"] == ["known"]
    assert ids(result.parts, "focus") == []


def test_system_and_question_are_what_remains_at_last():
    result = compress(ALL, 20, measure)

    assert result.level == "bare"
    assert [part.text for part in result.parts] == [SYSTEM.text, QUERY.text]


def test_refusal_says_by_how_much():
    with pytest.raises(ContextOverflowError, match="have 20 tokens, 1 more than the 19 allowed") as caught:
        compress(ALL, 19, measure)

    assert (caught.value.prompt_tokens, caught.value.window_tokens) == (20, 19)


def test_next_level_begins_with_what_was_given():
    texts = []

    def summarize(text, longest):
        texts.append(text)
        return words(longest)

    long = [part for n in range(30) for part in turn(n, 10)]
    parts = [SYSTEM, *long, QUERY]
    compress(parts, 300, measure, summarize=summarize)

    assert len(texts) == 1
    assert texts[0].count("User:") == 29  # heavy: all but the last turn


def test_failing_summariser_costs_the_summary_and_not_the_turn():
    def fail(text, longest):
        raise OSError("no model")

    result = compress(ALL, int(TOTAL * 0.5), measure, summarize=fail)

    [summary] = [part.text for part in result.parts if part.id == "summary"]
    assert summary == "[Conversation summary: 7 earlier turns are left out]"


@pytest.mark.parametrize(
    ("older", "longest", "said", "kept"),
    [
        # Tokens of the older turns, room for their summary, words of it, and what there is then.
        ([20], 20, 5, "turns"),
        ([20], 19, 5, "summary"),
        ([10, 10], 20, 5, "summary"),
        ([10, 10], 40, 30, "turns"),  # no shorter
        ([10, 10], 1, 5, "nothing"),
    ],
)
def test_a_summary_takes_the_place_of_older_turns_where_it_is_shorter(older, longest, said, kept):
    parts = [
        Part("history", f"turn:{n}:user", words(size - 1)).with_tokens(size) for n, size in enumerate(older)
    ]

    found = _summed_up(parts, longest, measure, lambda text, n: words(said, "said"))

    if kept == "turns":
        assert found == parts
    else:
        assert [part.id for part in found] == ([SUMMARY_ID] if kept == "summary" else [])


def test_what_parts_have_together_decides_where_it_is_counted():
    def twice(parts):
        return 2 * sum(part.tokens for part in parts)

    result = compress(ALL, TOTAL, measure, whole=twice)

    assert result.level == "heavy"
    assert result.tokens == twice(result.parts) <= TOTAL


def test_code_keeps_its_blanks():
    code = "```python\nif  x:\n    y  =  1   \n\n\n```"

    assert simplified(f"See   **this**:\n{code}") == f"See this:\n{code}"


_texts = st.text(st.sampled_from("ab*-_=` .\n\t!"), max_size=60)
_categories: tuple[Category, ...] = ("history", "memory", "entities", "knowledge", "focus")


@st.composite
def candidates(draw: st.DrawFn) -> list[Part]:
    parts = [Part("system", "system", draw(_texts))]
    for number in range(draw(st.integers(0, 12))):
        category = draw(st.sampled_from(_categories))
        name = "turn" if category == "history" else category
        shorter = tuple(draw(st.lists(_texts, max_size=2)))
        parts.append(
            Part(category, f"{name}:{number}", draw(_texts), score=draw(st.floats(0, 1)), shorter=shorter)
        )
    return [*parts, Part("query", "query", draw(_texts))]


@given(candidates(), st.floats(-0.1, 1.2), st.none() | st.text(max_size=200))
def test_never_larger_than_the_room_unless_refused(parts, share, said):
    budget = int(share * sum(map(measure, parts)))
    summarize = None if said is None else lambda text, longest: said
    fixed = [part for part in parts if part.category in ("system", "query")]
    try:
        result = compress(parts, budget, measure, summarize=summarize)
    except ContextOverflowError:
        result = None
    if result is None:
        assert sum(map(measure, fixed)) > budget
        return

    assert result.tokens == sum(map(measure, result.parts)) <= budget
    assert result.level in ("", *LEVELS)
    assert [part.text for part in result.parts if part.category in ("system", "query")] == [
        part.text for part in fixed
    ]
    assert len({part.id for part in result.parts}) == len(result.parts)
    again = compress(parts, budget, measure, summarize=summarize)
    assert again == result
    settled = compress(result.parts, budget, measure, summarize=summarize)
    assert (settled.parts, settled.level) == (result.parts, "")


@given(_texts)
def test_simplifying_twice_changes_nothing(text):
    once = simplified(text)

    assert simplified(once) == once
    assert len(once) <= len(text)


@pytest.mark.parametrize(
    ("longest", "text"),
    [
        (7, "a b c d e f"),
        (8, "a b c d e f"),
        (6, "a b c d …"),
        (4, "a b …"),
        (3, "a …"),
        (2, None),
        (0, None),
    ],
)
def test_a_part_is_cut_to_as_many_words_as_fit(longest, text):
    part = cut(Part("history", "turn:1", "a b c d e f", shorter=("a",)), longest, measure)

    assert (part and part.text) == text
    if part is not None:
        assert (part.tokens, part.shorter) == (measure(part), ())


@pytest.mark.parametrize(
    ("longest", "text", "shown"),
    [
        (30, "User: 庭に木を植えて、水をやりました。", "User: 庭に木を植えて、水をやりました。"),
        (16, "User: 庭に木を植えて、水をやりました。", "User: 庭に木を植えて、 …"),
        (12, "[09:40] User: 庭に木を植えて、水をやりました。", None),
        (11, "User: 庭に木を植えて、水をやりました。", None),  # less than four characters would say nothing
        (14, "User: a-very-long-word", None),
        (7, "User: ", "User: "),
        (9, "ขอบคุณที่มา", "ขอบคุณ …"),
        (9, "我们在北京的房子很大", "我们在北京的房 …"),
        (70, "x" * 100, "x" * 68 + " …"),
        (5, "", None),
        (5, " \n", None),
    ],
)
def test_a_text_without_blanks_is_cut_between_its_characters(longest, text, shown):
    part = cut(Part("history", "turn:1", text), longest, lambda part: len(part.text))

    assert (part and part.text) == shown


def test_a_summary_without_a_text_is_none():
    assert summary_part("", 99, measure) is None
    assert summary_part("ユーザーは庭に木を植えた", 32, lambda part: len(part.text)).text == (
        "[Conversation summary: ユーザーは庭 …]"
    )


def test_a_part_is_measured_in_the_form_that_it_gets():
    part = cut(Part("history", "turn:1", "a b c d e f"), 5, measure, form=lambda text: f"so: {text}")

    assert part is not None
    assert part.text == "so: a b …"
