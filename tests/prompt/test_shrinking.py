"""How a prompt shrinks while the engine refuses it, step by step, with an engine that counts characters."""

from __future__ import annotations

import json

import pytest

from shepherd.config import Config
from shepherd.errors import ContextOverflowError
from shepherd.prompt import take_snapshot
from shepherd.prompt.draft import Draft
from shepherd.prompt.overflow import prepare_prompt, start_answer
from shepherd.prompt.window_budget import WindowBudget
from shepherd.types import Fact, Injection, Message, ToolCall

SNAPSHOT = take_snapshot(
    Config(system_prompt="s" * 50), memory=False, knowledge=None, window_tokens=9999, count=len
)
CUT = "the window has no room for all that the tools found: the oldest of it was cut"
NO_TOOLS = "the window has no room for more calls of tools in this turn"


class Engine:
    """Its tokens are characters, and it takes prompts of so many, which may be fewer than its window says.

    With `estimates` it says that a text has so many times fewer.
    """

    def __init__(self, takes: int, window: int = 100_000, *, estimates: int = 1) -> None:
        self.window_tokens, self._takes, self._estimates = window, takes, estimates
        self.tried: list[tuple[int, bool]] = []

    def count_tokens(self, text: str) -> int:
        return len(text) // self._estimates

    def begin(self, draft: Draft, has_tools: bool) -> object:
        n = sum(len(message.sent) for message in draft.prompt)
        self.tried.append((n, has_tools))
        if n > self._takes:
            raise ContextOverflowError(
                "too long", prompt_tokens=n, window_tokens=self._takes, hint="shorten it"
            )
        return self


def draft_of(n_turns: int, *, tail: str = "", steps: tuple[Message, ...] = ()) -> Draft:
    history = []
    for _ in range(n_turns):
        history += [Message("user", "u" * 40, sent="u" * 40 + tail), Message("assistant", "a" * 40)]
    injection = Injection("[now]", (Fact("city", "Ulm", 0, 0),))
    question = Message("user", "q" * 10, sent="q" * 10 + injection.tail, injected=injection)
    return Draft(question, SNAPSHOT, history, list(steps), injection=injection)


def answered(draft: Draft, engine: Engine) -> tuple[object, list[str], int]:
    """The reply, the notes, and how often the plan was made again."""
    plans = []

    def plan_again() -> None:
        plans.append(1)
        draft.planned()

    budget = WindowBudget(engine, max_tokens=10, retention="auto", tools=())
    reply = start_answer(draft, budget, begin=lambda tools: engine.begin(draft, tools), plan_again=plan_again)
    return reply, [note for note, _ in draft.notes], len(plans)


def test_a_prompt_that_fits_is_tried_once_as_it_is():
    draft, engine = draft_of(2, tail="[old]"), Engine(999)

    assert answered(draft, engine) == (engine, [], 0)
    assert engine.tried == [(50 + 2 * 85 + 15, True)]


def test_old_tails_go_first_then_old_turns_then_the_tail_of_the_message():
    draft, engine = draft_of(2, tail="[" + "t" * 98 + "]"), Engine(50 + 2 * 80 + 15)
    assert answered(draft, engine) == (engine, [], 1)
    assert [n for n, _ in engine.tried] == [50 + 2 * 180 + 15, 50 + 2 * 80 + 15]
    assert draft.n_removed == (0, 2)

    draft, engine = draft_of(0), Engine(60)
    reply, notes, plans = answered(draft, engine)
    assert (reply, plans, len(notes)) == (engine, 0, 1)
    assert [n for n, _ in engine.tried] == [65, 60]
    assert (draft.message.sent, draft.injection) == ("q" * 10, Injection())


def test_a_prompt_of_which_nothing_can_be_removed_is_refused():
    draft, engine = draft_of(0), Engine(59)
    with pytest.raises(ContextOverflowError):
        answered(draft, engine)
    assert [n for n, _ in engine.tried] == [65, 60]

    draft = draft_of(0)
    draft.drop_tail()
    with pytest.raises(ContextOverflowError):
        answered(draft, Engine(59))


CALLS = Message("assistant", "", tool_calls=(ToolCall("c1", "f", "{}"), ToolCall("c2", "f", "{}")))


def results(*texts: str) -> tuple[Message, ...]:
    return (CALLS, *(Message("tool", text, tool_call_id=f"c{n}") for n, text in enumerate(texts, 1)))


def test_results_of_tools_are_cut_the_oldest_first():
    draft, engine = draft_of(0, steps=results("x" * 600, "y" * 100)), Engine(999, window=700)

    reply, notes, _ = answered(draft, engine)

    assert (reply, notes, engine.tried[0][1]) == (engine, [CUT], True)
    _, first, second = draft.steps
    assert second.sent == "y" * 100
    cut = json.loads(first.sent)
    assert cut["hint"] == "the window had no room for the rest"
    assert 300 <= len(cut["cut"]) < 600
    assert set(cut["cut"]) == {"x"}
    assert (first.raw, first.tokens) == (first.sent, 0)
    assert sum(len(message.sent) for message in draft.prompt) < 700


def test_a_cut_result_keeps_forty_characters_and_is_cut_from_its_text_again():
    draft = draft_of(0, steps=results("x" * 600, "y" * 600))

    for window in (600, 300, 100):
        before = [len(step.sent) for step in draft.steps]
        answered(draft, Engine(9999, window=window))
        assert [len(step.sent) for step in draft.steps] <= before
        assert window == 100 or sum(len(message.sent) for message in draft.prompt) < window

    cuts = [json.loads(step.sent)["cut"] for step in draft.steps[1:]]
    assert cuts == ["x" * 40, "y" * 40]
    assert [note for note, _ in draft.notes] == [CUT]


@pytest.mark.parametrize("estimates", [1, 2, 3, 6])
@pytest.mark.parametrize("result", ["x", "あ", '"', "\n"])
def test_a_result_is_cut_by_the_count_of_the_engine(result, estimates):
    draft = draft_of(0, steps=results(result * 8000, "y"))
    engine = Engine(4000, 4000, estimates=estimates)

    reply, notes, _ = answered(draft, engine)

    assert (reply, notes) == (engine, [CUT])
    assert 2500 < engine.tried[-1][0] <= 4000
    cut = json.loads(draft.steps[1].sent)["cut"]
    assert set(cut) == {result}


def test_a_turn_with_tools_whose_prompt_stays_too_long_goes_on_without_them():
    draft = draft_of(0, steps=results("r", "s"))
    engine = Engine(60)
    with pytest.raises(ContextOverflowError):
        answered(draft, engine)
    assert [note for note, _ in draft.notes] == [NO_TOOLS]
    assert [has_tools for _, has_tools in engine.tried] == [True, False]


def test_a_new_prompt_is_planned_again_when_turns_have_left():
    planned, compacted = [], []
    for n_turns, n_plans in ((0, 1), (2, 1), (60, 2)):
        draft = draft_of(n_turns)
        planned.clear()

        def plan(draft: Draft = draft) -> None:
            planned.append(len(draft.history))
            draft.planned()

        budget = WindowBudget(Engine(9999, window=1000), max_tokens=10, retention="auto", tools=())
        prepare_prompt(draft, budget, plan=plan, compact=lambda: compacted.append(1))
        assert len(planned) == n_plans
        assert planned[-1] == len(draft.history)
    assert len(compacted) == 3
    assert 0 < len(draft.history) < 20
