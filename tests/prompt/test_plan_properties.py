"""What holds for every plan, whatever is asked for: over ten thousand generated cases.

Tokenizers are any functions of a text: some count less for a whole than for its parts, some more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shepherd.errors import ContextOverflowError
from shepherd.escaping import escape_lines
from shepherd.prompt.allocation import (
    SHARED,
    Request,
    Sharing,
    allocate,
    dynamic_weights,
    make_plan,
    make_uncounted_plan,
)
from shepherd.prompt.compaction import HIGH_WATER, LOW_WATER, due_to_leave, leaving_next
from shepherd.prompt.compression import make_fitted_plan
from shepherd.prompt.one_shot import build_one_shot
from shepherd.prompt.plan import Part
from shepherd.prompt.rendering import render_one_shot, render_tail
from shepherd.prompt.summary import Summary
from shepherd.prompt.window_budget import most_tokens
from tests.examples import examples

many = settings(max_examples=examples(1200))

COUNTS = {
    "quarters": lambda text: -(-len(text) // 4),
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "words": lambda text: len(text.split()),
    "more together": lambda text: int(len(text) ** 1.1),
    "less together": lambda text: math.isqrt(len(text)),
}
SHARINGS = [
    Sharing(),
    Sharing(first=("memory",)),
    Sharing("prioritized"),
    Sharing("fixed", {"history": 40, "entities": 20, "knowledge": 30, "memory": 10}),
]
# Drawn as one number: a case costs a tenth of one that is drawn part by part, so there can be many.
seeds = st.integers(0, 2**40).map(Random)


def text_of(random, alphabet="ab Z\n[]|=é", most=40):
    return "".join(random.choices(alphabet, k=random.randrange(most)))


def parts_of(random):
    """Parts of all categories, some of them twice."""
    return [
        Part(
            category := random.choice(SHARED),
            f"{category}:{random.randrange(6)}",
            text_of(random),
            score=random.random(),
            shorter=tuple(text_of(random) for _ in range(random.randrange(3))),
        )
        for _ in range(random.randrange(10))
    ]


def request_of(random):
    count = COUNTS[random.choice(sorted(COUNTS))]
    system, query = text_of(random), text_of(random)
    fixed = [
        Part("system", "system", system, count(system)),
        Part("query", "query", query, count(query)),
    ]
    request = Request(
        window_tokens=random.randrange(random.choice([20, 400])),
        reserve_tokens=random.randrange(50),
        fixed=fixed,
        candidates=parts_of(random),
        sharing=random.choice(SHARINGS),
        history_tokens=random.choice([0, random.randrange(200)]),
        shown=random.choice([(), ("knowledge:1", "knowledge:2")]),
        turns=random.randrange(30),
        entities=random.randrange(20),
    )
    return request, count


def wants_of(random):
    return {category: random.randrange(-5, 3000) for category in SHARED if random.random() < 0.8}


@many
@given(seeds)
def test_shares_fit_the_room_and_nobody_gets_more_than_it_wants(random):
    wanted, room = wants_of(random), random.randrange(-50, 6000)
    turns, entities = random.randrange(60), random.randrange(30)
    weights = dynamic_weights(turns=turns, entities=entities)

    given_ = allocate(wanted, room, weights=weights)

    assert all(0 <= given_[c] <= max(wanted.get(c, 0), 0) for c in SHARED)
    # What one leaves, the others share: nothing stays unused while somebody wants it.
    assert sum(given_.values()) == min(max(room, 0), sum(max(want, 0) for want in wanted.values()))
    assert given_ == allocate(wanted, room, weights=weights)


@many
@given(seeds)
def test_fixed_and_prioritized_shares_fit_the_room_too(random):
    wanted, room = wants_of(random), random.randrange(-50, 6000)
    strategy = random.choice(["fixed", "prioritized"])
    weights = {"history": 40, "entities": 20, "knowledge": 30, "memory": 10}

    given_ = allocate(wanted, room, strategy=strategy, weights=weights)

    assert all(0 <= given_[c] <= max(wanted.get(c, 0), 0) for c in SHARED)
    assert sum(given_.values()) <= max(room, 0)


@many
@given(seeds)
def test_a_plan_fits_the_window_and_shows_what_is_fixed(random):
    request, count = request_of(random)

    plan = make_plan(request, count)

    # Of a chat's history, turns leave for the tail; see folding.
    chosen = sum(part.tokens for part in plan.chosen if part.category in SHARED)
    assert chosen <= max(request.available, 0)
    assert [part for part in plan.chosen if part.category in ("system", "query")] == request.fixed
    assert make_plan(request, count) == plan
    assert render_tail(make_plan(request, count).chosen) == render_tail(plan.chosen)


@many
@given(seeds)
def test_a_plan_that_says_less_fits_too_and_shows_no_less(random):
    request, count = request_of(random)

    plan, fitted = make_plan(request, count), make_fitted_plan(request, count)

    assert sum(part.tokens for part in fitted.chosen if part.category in SHARED) <= max(request.available, 0)
    assert make_fitted_plan(request, count) == fitted
    assert [part for part in fitted.chosen if part.category in ("system", "query")] == request.fixed
    ids = [part.id for part in fitted.chosen]
    assert len(ids) == len(set(ids))
    known = {part.id for part in request.candidates} | {"system", "query"}
    assert set(ids) | {left.part.id for left in fitted.left_out} == known
    if not fitted.compression:
        assert fitted == plan


@many
@given(seeds)
def test_a_plan_has_no_duplicates_and_accounts_for_every_candidate(random):
    request, count = request_of(random)

    plan = make_plan(request, count)

    ids = [part.id for part in plan.chosen]
    assert len(ids) == len(set(ids))
    whole = {part.id: part.text for part in request.candidates[::-1]}
    said = [" ".join(p.text.split()) for p in plan.of("knowledge") if whole[p.id] == p.text]
    assert len(said) == len(set(said))
    assert len(plan.chosen) - len(request.fixed) + len(plan.left_out) == len(request.candidates)
    assert not {left.part.id for left in plan.left_out if left.reason == "shown before"} & set(ids)
    assert plan.total_tokens == sum(plan.budget.values())


@many
@given(seeds)
def test_one_prompt_fits_or_is_refused_and_ends_with_the_question(random):
    question, system, parts = text_of(random), text_of(random), parts_of(random)
    count, sharing = COUNTS[random.choice(sorted(COUNTS))], random.choice(SHARINGS)
    max_tokens = random.randrange(random.choice([60, 400]))
    alone = render_one_shot([Part("system", "system", system), Part("query", "query", question)])

    if count(alone) > max_tokens:
        with pytest.raises(ContextOverflowError):
            build_one_shot(question, system, parts, max_tokens=max_tokens, count=count, sharing=sharing)
        return
    made = build_one_shot(question, system, parts, max_tokens=max_tokens, count=count, sharing=sharing)

    assert made.tokens == count(made.text) <= max_tokens
    assert made.text.endswith(f"[USER]\n{question}") or not question
    assert [part.text for part in made.plan.of("query", "system")] == [system, question]
    assert not system or made.text.startswith(f"[SYSTEM]\n{system}")
    again = build_one_shot(question, system, parts, max_tokens=max_tokens, count=count, sharing=sharing)
    assert again.text == made.text


@many
@given(seeds)
def test_turns_that_are_shown_are_the_newest_without_a_gap(random):
    request, count = request_of(random)

    plan = make_plan(request, count)

    offered = [p for p in request.candidates if p.category == "history"]
    order = list(dict.fromkeys(part.id for part in offered))
    shown = [part.id for part in plan.of("history")]
    assert shown == order[len(order) - len(shown) :]


@many
@given(seeds)
def test_a_fold_takes_oldest_turns_leaves_the_newest_and_brings_calm(random):
    turns = [random.randrange(600) for _ in range(random.randrange(40))]
    share, verbatim = random.randrange(8000), random.randrange(1, 6)
    n = due_to_leave(turns, share, verbatim=verbatim)
    soon = leaving_next(turns, share, verbatim=verbatim)

    assert 0 <= n <= max(len(turns) - 1, 0)
    assert 0 <= soon <= max(len(turns) - 1, 0)
    if sum(turns) <= HIGH_WATER * share:
        assert n == 0
    elif n < len(turns) - 1:
        # What is left grows again before the next fold.
        assert sum(turns[n:]) <= LOW_WATER * share
        assert n <= len(turns) - verbatim or sum(turns[n - 1 :]) > LOW_WATER * share


@many
@given(seeds)
def test_no_line_of_a_turn_opens_a_block_or_speaks_for_another(random):
    pieces = [
        "User",
        ":",
        " ",
        "\n",
        "\u2028",
        "[",
        "]",
        "===",
        "<|im_start|>",
        "a",
        "- ",
        "system",
        "[USER]",
    ]
    text = "".join(random.choices(pieces, k=random.randrange(12)))

    shown = escape_lines(text, 1000)

    for line in shown.split("\n"):
        assert not line.lstrip().startswith(("[", "===", "User:", "user:", "<|im_start|>"))
    assert escape_lines(shown, 1000) == shown


@many
@given(seeds)
def test_a_summary_has_its_label_once_and_fits(random):
    pieces = [(text_of(random), random.randrange(5)) for _ in range(random.randrange(6))]
    most = random.randrange(300)
    summary = Summary()

    for piece, n_turns in pieces:
        summary = summary.with_pieces([piece], n_turns, fits=lambda text: len(text) <= most)

    assert summary.text.count("Conversation summary") <= 1
    assert len(summary.text) <= most or len(summary.pieces) <= 1
    assert summary.n_turns == sum(n_turns for _, n_turns in pieces)
    assert "\n" not in summary.text
    assert summary.text.count("]") == bool(summary.text)


def entity(n):
    return Part(
        "entities",
        f"entity:{n}",
        f"• Anna{n} (Person)" + "\n  email: anna@example.com\n  phone: 0123456789" * 2,
        score=1 - n / 10,
        shorter=(f"• Anna{n} (Person)\n  email: anna@example.com",),
    )


def test_more_entities_with_less_detail_come_before_few_with_all():
    system = Part("system", "system", "s", 1)
    request = Request(
        450, 0, [system, Part("query", "query", "q", 1)], [entity(n) for n in range(6)], Sharing()
    )

    plan, fitted = make_plan(request, len), make_fitted_plan(request, len)

    assert len(plan.of("entities")) < len(fitted.of("entities")) == 6
    assert fitted.compression == "medium"
    assert all("email" in part.text for part in fitted.of("entities"))


@many
@given(seeds)
def test_a_plan_by_bytes_chooses_what_the_measured_one_does_or_leaves_it_to_that(random):
    request, _ = request_of(random)
    count = COUNTS[random.choice(["quarters", "bytes", "words", "less together"])]
    exact = replace(request, fixed=[replace(part, tokens=count(part.text) or 1) for part in request.fixed])
    bounds = [replace(part, tokens=most_tokens(part.text)) for part in request.fixed]

    roomy = make_uncounted_plan(replace(request, fixed=bounds))
    plan = make_plan(exact, count)

    if roomy is not None:
        assert [part.id for part in roomy.chosen] == [part.id for part in plan.chosen]
        assert render_tail(roomy.chosen) == render_tail(plan.chosen)
        assert [left.part.id for left in roomy.left_out] == [left.part.id for left in plan.left_out]
        assert request.sharing.strategy != "fixed"


def test_what_surely_fits_needs_no_tokens_and_what_may_not_does():
    parts = [Part("memory", "memory", "[facts: a=b]"), Part("focus", "focus", "open")]
    fixed = [Part("query", "query", "hello", 6)]

    assert make_uncounted_plan(Request(100, 10, fixed, parts)).chosen == (*parts, *fixed)
    assert make_uncounted_plan(Request(36, 10, fixed, parts)) is None
    assert make_uncounted_plan(Request(100, 10, fixed, parts, history_tokens=80)) is None
    assert make_uncounted_plan(Request(100, 10, fixed, parts, Sharing("fixed", {"memory": 100}))) is None
