"""What a prompt needs of the window, measured with a model whose tokens are characters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shepherd.config import Config
from shepherd.prompt import take_snapshot
from shepherd.prompt.draft import Draft
from shepherd.prompt.exchanges import Exchange
from shepherd.prompt.window_budget import TokenCounts, WindowBudget, tools_text
from shepherd.types import Injection, Message, Tool, ToolCall

FRAME = 8  # tokens that a template writes around a message
TOOL = Tool("clock", "Tell the time.", {"type": "object"})
TOOL_TOKENS = len(tools_text([TOOL]))


@dataclass
class Letters:
    """A model of this window."""

    window_tokens: int = 10_000

    def count_tokens(self, text: str) -> int:
        return len(text)


def budget_of(window: int = 10_000, *, retention: str = "auto", tools: tuple[Tool, ...] = ()) -> WindowBudget:
    return WindowBudget(Letters(window), max_tokens=100, retention=retention, tools=tools)


SNAPSHOT = take_snapshot(
    Config(system_prompt="s" * 50), memory=False, knowledge=None, window_tokens=9999, count=len
)
SYSTEM = len(SNAPSHOT.system.text) + FRAME


def said(text: str, tail: str = "", **more) -> Message:
    return Message("user", text, sent=text + tail, injected=Injection(tail), **more)


def draft_of(*history: Message, question: Message | None = None, steps: tuple[Message, ...] = ()) -> Draft:
    return Draft(question or said("q" * 20), SNAPSHOT, list(history), list(steps))


def turns(n: int, tail: str = "") -> Iterator[Message]:
    for _ in range(n):
        yield said("u" * 40, tail)
        yield Message("assistant", "a" * 44)


def test_a_message_has_the_tokens_that_were_counted_or_those_of_all_its_texts():
    budget = budget_of()
    call = ToolCall("c1", "clock", "{}")
    known, plain = Message("user", "abc", tokens=7), Message("user", "abc", sent="abcd")
    full = Message("assistant", "abc", tool_calls=(call,), thought="hm")
    exchange = Exchange(plain, full, steps=[known])

    assert [budget.tokens_of(one) for one in (known, plain, full)] == [7, 4 + FRAME, 3 + 5 + 2 + 2 + FRAME]
    assert budget.turn_tokens(exchange) == 7 + 4 + FRAME + 12 + FRAME
    assert budget.most_tokens_of(known) == 7
    assert budget.most_tokens_of(Message("user", "é")) >= 2 + FRAME


def test_a_message_that_cannot_fit_counts_as_the_window_without_being_counted():
    budget = budget_of(10)

    assert budget.tokens_of(Message("user", "x" * 2559)) == 2559 + FRAME
    assert budget.tokens_of(Message("user", "x" * 2560)) == 10


@pytest.mark.parametrize("tools", [(), (TOOL,)])
def test_fixed_parts_are_the_system_part_with_the_tools_and_the_text(tools):
    extra = TOOL_TOKENS if tools else 0
    (system, query), reserve = budget_of(tools=tools).fixed_parts(draft_of())
    (_, most), _ = budget_of(tools=tools).fixed_parts(draft_of(), at_most=True)

    assert (system.category, system.tokens) == ("system", SYSTEM + extra)
    assert (query.category, query.text, query.tokens) == ("query", "q" * 20, 20 + FRAME)
    assert most.tokens >= query.tokens
    assert reserve == 100
    # In a full window the answer gets half of what is left.
    window = SYSTEM + extra + 20 + FRAME + 10
    assert budget_of(window, tools=tools).fixed_parts(draft_of())[1] == 5


def test_excess_is_that_of_this_turn_with_its_steps_and_a_reserve():
    steps = (Message("assistant", "a" * 5), Message("tool", "r" * 50, tool_call_id="c1"))
    draft = draft_of(*turns(3), steps=steps)
    turn = SYSTEM + 20 + FRAME + 5 + FRAME + 50 + FRAME

    assert budget_of(1000).excess_tokens(draft) == turn + 100 - 1000
    assert budget_of(1000, tools=(TOOL,)).excess_tokens(draft) == turn + TOOL_TOKENS + 100 - 1000
    # A quarter of the window at most, and half of what the system part and the message leave.
    assert budget_of(200).excess_tokens(draft) == turn + 50 - 200
    window = SYSTEM + 20 + FRAME + 10
    assert budget_of(window).excess_tokens(draft) == turn + 5 - window
    # The engine counted twice as much in all.
    whole = turn + 3 * 100
    assert whole == sum(map(budget_of().tokens_of, draft.prompt))
    assert budget_of(1000).excess_tokens(draft, 2 * whole) == 2 * turn + 100 - 1000
    assert budget_of(1000).excess_tokens(draft, whole) == turn + 100 - 1000


def test_the_oldest_turns_leave_a_full_window_and_their_tails_first():
    tail = "[" + "t" * 98 + "]"
    history = list(turns(10, tail))
    needed = SYSTEM + 20 + FRAME + 100

    draft = draft_of(*history)
    budget_of(needed + 10 * 200).evict_turns(draft)
    assert (draft.n_removed, draft.history) == ((0, 0), history)
    draft = draft_of(*history)
    budget_of(needed + 10 * 200 - 1).evict_turns(draft)
    assert draft.n_removed == (0, 10)
    assert all(message.sent == message.raw for message in draft.history)
    draft = draft_of(*turns(10))
    budget_of(needed + 10 * 100 - 1).evict_turns(draft)
    assert draft.n_removed == (10, 0)  # down to 60 % of what there is for turns
    assert draft.evicted_turns == 5
    draft = draft_of(*turns(10, tail))
    budget_of(needed + 10 * 200 - 1, retention="keep").evict_turns(draft)
    assert draft.n_removed == (10, 0)
    draft = draft_of(*turns(10))
    budget_of(needed + 10 * 100).evict_turns(draft, prompt_tokens=SYSTEM + 28 + 10 * 100 + 1)
    assert draft.n_removed[0] > 0


@pytest.mark.parametrize(
    ("retention", "n_tails", "n_stripped"),
    [("auto", 23, 0), ("auto", 24, 24), ("strip", 1, 1), ("keep", 90, 0)],
)
def test_tails_are_stripped_by_policy(retention, n_tails, n_stripped):
    # A tail has 100 tokens and its share of the frame, so that a quarter of the window holds 23.
    draft = draft_of(*turns(n_tails, "t" * 100))

    budget_of(10_000, retention=retention).strip_by_policy(draft)

    assert draft.n_removed == (0, n_stripped)


@pytest.mark.parametrize(("retention", "n_stripped"), [("auto", 2), ("strip", 2), ("keep", 0)])
def test_all_tails_are_stripped_where_it_is_needed_and_allowed(retention, n_stripped):
    draft = draft_of(*turns(2, "t"), *turns(1))

    budget_of(retention=retention).strip_all(draft)

    assert draft.n_removed == (0, n_stripped)


def test_a_text_is_counted_once_unless_it_is_a_long_message():
    counted: list[int] = []

    def count(text: str) -> int:
        counted.append(len(text))
        return len(text) // 4

    tokens = TokenCounts(count)
    longest = 1 << 14
    for text in (
        "kite",
        "kite",
        "",
        "",
        "x" * longest,
        "x" * longest,
        "x" * (longest + 1),
        "x" * (longest + 1),
    ):
        assert tokens(text) == len(text) // 4

    assert counted == [4, 0, longest, longest + 1, longest + 1]
