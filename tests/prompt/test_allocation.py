"""Shares of the window and the parts chosen for them, as numbers worked out by hand."""

from __future__ import annotations

import pytest

from shepherd.errors import UsageError
from shepherd.prompt.allocation import (
    ORDER,
    SHARED,
    Request,
    Sharing,
    allocate,
    dynamic_weights,
    grouped_turns,
    make_plan,
    make_uncounted_plan,
    measured,
    parse_order,
    parse_percentages,
    without_one,
)
from shepherd.prompt.plan import SUMMARY_ID, LeftOut, Part, Plan


def in_words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("turns", "entities", "weights"),
    [
        (0, 0, (100, 50, 150, 600, 150)),
        (3, 10, (100, 50, 150, 600, 150)),
        (3, 11, (100, 50, 150, 600, 195)),
        (4, 0, (100, 50, 300, 400, 200)),
        (10, 11, (100, 50, 300, 400, 260)),
        (11, 0, (100, 50, 400, 250, 250)),
        (500, 11, (100, 50, 400, 250, 325)),
    ],
)
def test_weights_change_with_turns_and_entities(turns, entities, weights):
    names = ("memory", "focus", "history", "knowledge", "entities")
    assert dynamic_weights(turns=turns, entities=entities) == dict(zip(names, weights, strict=True))


WANTS = {"memory": 10, "history": 100, "knowledge": 100, "entities": -5}


@pytest.mark.parametrize(
    ("available", "options", "given"),
    [
        # memory, focus, history, knowledge, entities
        (90, {"strategy": "prioritized"}, (10, 0, 80, 0, 0)),
        (300, {"strategy": "prioritized"}, (10, 0, 100, 100, 0)),
        (90, {"strategy": "prioritized", "order": ("knowledge", "memory")}, (0, 0, 0, 90, 0)),
        (50, {"strategy": "fixed", "weights": {"memory": 50, "history": 33}}, (10, 0, 16, 0, 0)),
        (-1, {"strategy": "fixed", "weights": {"memory": 50}}, (0, 0, 0, 0, 0)),
        (90, {"weights": {"memory": 1, "history": 1, "knowledge": 1}}, (10, 0, 40, 40, 0)),
        (91, {"weights": {"memory": 1, "history": 1, "knowledge": 1}}, (10, 0, 41, 40, 0)),
        (90, {"weights": {"memory": 1, "history": 3, "knowledge": 1}}, (10, 0, 60, 20, 0)),
        (9, {"weights": {"memory": 1, "history": 1, "knowledge": 1}}, (3, 0, 3, 3, 0)),
        (11, {"weights": {"memory": 1, "history": 1, "knowledge": 1}}, (4, 0, 4, 3, 0)),
        (9, {"weights": {"memory": 1, "history": 1}, "first": ("memory",)}, (9, 0, 0, 0, 0)),
        (20, {"weights": {"history": 1, "knowledge": 1}, "first": ("memory",)}, (10, 0, 5, 5, 0)),
        (90, {"weights": {"memory": 1}}, (10, 0, 0, 0, 0)),
        (210, {"weights": {"memory": 1, "history": 1, "knowledge": 9}}, (10, 0, 100, 100, 0)),
        (0, {"weights": {"memory": 1}}, (0, 0, 0, 0, 0)),
    ],
)  # fmt: skip
def test_available_tokens_are_shared_by_weight_and_what_is_left_again(available, options, given):
    shares = allocate(WANTS, available, **{"weights": {}, **options})

    assert tuple(shares[category] for category in SHARED) == given


def test_shares_and_orders_are_read_from_settings():
    assert parse_percentages("history=40, memory=60") == {"history": 40, "memory": 60}
    assert parse_order("knowledge, memory") == ("knowledge", "memory", "history", "focus", "entities")
    assert parse_order("") == ORDER
    for read, text in (
        (parse_percentages, "history=40"),
        (parse_percentages, "query=100"),
        (parse_order, "query"),
    ):
        with pytest.raises(UsageError) as caught:
            read(text)
        assert caught.value.hint


def part(category: str, id: str, tokens: int, **more) -> Part:
    return Part(category, id, f"text of {id}", tokens, **more)


def request(available: int, *candidates: Part, **more) -> Request:
    fixed = [part("system", "system", 3), part("query", "query", 4)]
    return Request(available + 12, 5, fixed, candidates, **{"sharing": Sharing("prioritized"), **more})


def ids(plan: Plan) -> list[str]:
    return [one.id for one in plan.chosen]


def shares(plan: Plan, category: str) -> tuple[int, int, int]:
    [share] = [one for one in plan.shares if one.category == category]
    return share.wanted, share.granted, share.used


def test_the_best_parts_that_fit_are_chosen_and_later_ones_still_tried():
    one, two, three = (
        part("memory", name, 10, score=score) for name, score in (("a", 1), ("b", 3), ("c", 2))
    )
    small = part("memory", "small", 4, score=0)

    plan = make_plan(request(24, one, small, two, three), in_words)

    assert ids(plan) == ["system", "b", "c", "small", "query"]
    assert plan.left_out == (LeftOut(one, "no room"),)
    assert shares(plan, "memory") == (34, 24, 24)
    assert (shares(plan, "system"), shares(plan, "query")) == ((3, 3, 3), (4, 4, 4))
    assert plan.total_tokens == 31
    assert ids(make_plan(request(23, one, small, two, three), in_words)) == ["system", "b", "c", "query"]


def test_a_part_that_is_too_long_is_tried_in_its_shorter_forms():
    long = part("memory", "long", 9, shorter=("a b c d", "a b c", "a"))

    for available, text in ((9, long.text), (8, "a b c d"), (4, "a b c d"), (3, "a b c"), (2, "a"), (1, "a")):
        [found] = make_plan(request(available, long), in_words).of("memory")
        assert (found.text, found.tokens) == (text, 9 if text == long.text else len(text.split()))
    assert ids(make_plan(request(0, long), in_words)) == ["system", "query"]


def test_the_headline_of_a_category_takes_its_tokens():
    entity = part("entities", "e", 5)
    headline = make_plan(request(99, entity), in_words).total_tokens - 12

    assert headline > 0
    assert ids(make_plan(request(5 + headline, entity), in_words)) == ["system", "e", "query"]
    short = make_plan(request(4 + headline, entity), in_words)
    assert (ids(short), shares(short, "entities")) == (["system", "query"], (5 + headline, 4 + headline, 0))


def test_the_same_part_is_chosen_once_and_one_that_is_shown_not_at_all():
    a, b = part("memory", "a", 1), part("memory", "b", 1)
    same_id, same_text = Part("memory", "a", "other", 1), Part("memory", "c", "text  of\nb", 1)
    other_kind = Part("knowledge", "d", "text of a", 1)
    turns = [Part("history", f"turn:{n}", "same", 1) for n in (1, 2)]

    plan = make_plan(request(99, a, b, same_id, same_text, other_kind, *turns, shown=("b",)), in_words)

    assert ids(plan) == ["system", "turn:1", "turn:2", "a", "c", "d", "query"]
    assert plan.left_out == (LeftOut(b, "shown before"), LeftOut(same_id, "duplicate"))


def test_turns_are_the_newest_without_a_gap_and_the_summary_comes_after_the_newest():
    summary = Part("history", SUMMARY_ID, "summary", 5)
    turns = [
        part("history", f"turn:{n}:{who}", size) for n, size in ((1, 1), (2, 20), (3, 3)) for who in "ua"
    ]
    for available, chosen in (
        (54, [SUMMARY_ID, *(f"turn:{n}:{who}" for n in (1, 2, 3) for who in "ua")]),
        (50, [SUMMARY_ID, "turn:3:u", "turn:3:a"]),
        (11, [SUMMARY_ID, "turn:3:u", "turn:3:a"]),
        (10, ["turn:3:u", "turn:3:a"]),
        (6, ["turn:3:u", "turn:3:a"]),
        (5, [SUMMARY_ID]),
        (4, []),
    ):
        plan = make_plan(request(available, summary, *turns), lambda text: 0)
        assert [one.id for one in plan.of("history")] == chosen, available
    assert [[one.id for one in turn] for turn in grouped_turns([summary, *turns])] == [
        [f"turn:{n}:u", f"turn:{n}:a"] for n in (1, 2, 3)
    ]


def test_turns_of_the_prompt_take_their_tokens_and_get_what_the_tail_leaves():
    plan = make_plan(request(30, part("memory", "a", 10), history_tokens=15), in_words)

    assert ids(plan) == ["system", "a", "query"]
    assert (shares(plan, "memory"), shares(plan, "history")) == ((10, 10, 10), (15, 20, 15))
    assert shares(make_plan(request(8, history_tokens=15), in_words), "history") == (15, 8, 15)


@pytest.mark.parametrize(
    ("strategy", "fills", "chosen"),
    [("dynamic", True, "ab"), ("dynamic", False, "b"), ("fixed", True, "b"), ("fixed", False, "b")],
)
def test_tokens_that_others_leave_are_filled_in_order(strategy, fills, chosen):
    weights = {"memory": 50, "knowledge": 50}
    sharing = Sharing(strategy, weights, order=("memory", "knowledge", "history", "focus", "entities"))
    a, b, c = part("memory", "a", 6), part("knowledge", "b", 4), part("knowledge", "c", 9)

    plan = make_plan(request(10, a, b, c, sharing=sharing, fills=fills), lambda text: 0)

    assert "".join(one.id for one in plan.of("memory", "knowledge")) == chosen
    assert shares(plan, "memory") == ((6, 6, 6) if chosen == "ab" else (6, 5, 0))


def test_the_least_important_part_goes_first_and_of_turns_the_oldest():
    turns = [part("history", f"turn:{n}", 2) for n in (1, 2)]
    candidates = [part("memory", "a", 1, score=2), part("memory", "b", 1, score=1), *turns]
    candidates += [part("entities", "e", 1), part("knowledge", "k", 1)]
    plan = make_plan(request(99, *candidates), lambda text: 0)
    gone = []
    while (less := without_one(plan)) is not None:
        gone.append(less.left_out[-1].part.id)
        assert less.total_tokens < plan.total_tokens
        plan = less

    assert gone == ["e", "k", "turn:1", "turn:2", "b", "a"]
    assert ids(plan) == ["system", "query"]
    assert [share.used for share in plan.shares] == [3, 0, 0, 0, 0, 0, 4]


def test_a_plan_by_bytes_is_for_parts_that_surely_fit():
    a, b = Part("memory", "a", "x" * 10, score=1), Part("memory", "b", "y", score=2)
    plan = make_uncounted_plan(request(99, a, b, a))

    assert plan is not None
    assert ids(plan) == ["system", "b", "a", "query"]
    assert plan.left_out == (LeftOut(a, "duplicate"),)
    sizes = [n for n in range(99) if make_uncounted_plan(request(n, a, b)) is not None]
    assert sizes == list(range(sizes[0], 99))
    assert 11 <= sizes[0] <= 30
    longer = [n for n in range(99) if make_uncounted_plan(request(n, a, b, history_tokens=20)) is not None]
    assert longer[0] == sizes[0] + 20
    assert make_uncounted_plan(request(99, a, sharing=Sharing("fixed", {"memory": 100}))) is None
    assert make_uncounted_plan(request(99, part("history", "turn:1", 1))) is None


def test_a_part_is_counted_once_with_its_separator():
    assert measured(Part("memory", "a", "x y"), len).tokens > 3
    assert measured(part("memory", "a", 7), len).tokens == 7
