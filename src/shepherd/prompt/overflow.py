"""Overflow: removal of parts of a prompt that the engine finds too long for the window.

Before a turn's first reply, old tails are stripped first, then old turns are evicted, then the message's own
tail is dropped. Once tools have acted, the turn must not be lost: their results are cut, the oldest first,
and finally the model gets no more tools.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.errors import NEW_CONVERSATION, ContextOverflowError
from shepherd.prompt.draft import Draft, Note
from shepherd.prompt.turn_planner import NO_ROOM_FOR_MEMORY
from shepherd.prompt.window_budget import WindowBudget

if TYPE_CHECKING:
    from shepherd.providers import Reply

__all__ = ["prepare_prompt", "start_answer"]


_CUT: Note = ("the window has no room for all that the tools found: the oldest of it was cut", "")
_NO_TOOLS: Note = ("the window has no room for more calls of tools in this turn", NEW_CONVERSATION)
_CUT_HINT = "the window had no room for the rest"
# Least length of a result that was cut, so that it still says what it was about.
_LEAST_CHARS = 40
# If the descriptions of the tools take more than this share of the window, the hint mentions them.
_MUCH = 0.25
# Margin: tokens are not spread evenly over a text, and the frame of a cut one takes some.
_LESS = 0.8


def prepare_prompt(
    draft: Draft,
    budget: WindowBudget,
    *,
    plan: Callable[[], None],
    compact: Callable[[], None] = lambda: None,
) -> None:
    """Make the prompt of a new turn: strip old tails, plan, compact, evict, and plan again if needed.

    `plan` writes the tail of the message, `compact` may replace old turns by a summary.
    """
    budget.strip_by_policy(draft)
    plan()
    compact()
    budget.evict_turns(draft)
    if draft.is_outdated:
        plan()
        budget.evict_turns(draft)


def start_answer(
    draft: Draft, budget: WindowBudget, *, begin: Callable[[bool], Reply], plan_again: Callable[[], None]
) -> Reply:
    """Start the next reply of a turn, shrinking the prompt while it overflows the window.

    `begin` starts the engine, with the model's tools or without them. `plan_again` repeats the plan when the
    history became shorter. Raises ContextOverflowError when nothing is left to remove; its hint mentions
    the tools if their descriptions take a large part of the window.
    """
    try:
        return _start_answer(draft, budget, begin, plan_again)
    except ContextOverflowError as error:
        n = budget.tool_tokens
        if n > _MUCH * error.window_tokens:
            error.hint = (
                f"send fewer tools, or leave out memory_tools: the descriptions of the tools take about {n}"
                f" tokens; {error.hint}"
            )
        raise


def _start_answer(
    draft: Draft, budget: WindowBudget, begin: Callable[[bool], Reply], plan_again: Callable[[], None]
) -> Reply:
    def strip(_: int) -> None:
        budget.strip_all(draft)

    def evict(prompt_tokens: int) -> None:
        budget.evict_turns(draft, prompt_tokens)

    def cut(prompt_tokens: int) -> None:
        _cut(draft, budget, prompt_tokens)

    def begin_as_planned() -> Reply:
        if draft.is_outdated:
            plan_again()
        return begin(True)

    if draft.steps:
        cut(0)
        evict(0)
        try:
            return _begun(draft, lambda: begin(True), (strip, evict, cut, evict))
        except ContextOverflowError:
            draft.notes.append(_NO_TOOLS)
            return begin(False)
    try:
        return _begun(draft, begin_as_planned, (strip, evict, evict))
    except ContextOverflowError:
        if not draft.injection:
            raise
        draft.drop_tail()
        draft.notes.append(NO_ROOM_FOR_MEMORY)
        return begin(True)


def _begun(draft: Draft, begin: Callable[[], Reply], ways: Sequence[Callable[[int], None]]) -> Reply:
    """Call `begin`, and after each overflow the next of `ways` with the prompt's length in tokens.

    An unchanged prompt is not tried again.
    """
    left = list(ways)
    while True:
        try:
            return begin()
        except ContextOverflowError as error:
            before = _size(draft)
            while left and _size(draft) == before:
                left.pop(0)(error.prompt_tokens)
            if _size(draft) == before:
                raise


def _size(draft: Draft) -> tuple[int, int, int]:
    """Return a measure that changes with everything that is removed from the prompt."""
    return *draft.n_removed, sum(len(step.sent) for step in draft.steps)


def _cut(draft: Draft, budget: WindowBudget, prompt_tokens: int) -> None:
    """Shorten the results of tools, the oldest first, until this turn alone leaves tokens for a reply.

    `prompt_tokens` is the engine's count of the whole prompt, where ours is lower.
    """
    excess = budget.excess_tokens(draft, prompt_tokens)
    scale = budget.engine_scale(draft, prompt_tokens)
    was_cut = any(_is_cut(step.sent) for step in draft.steps)
    for i, step in enumerate(draft.steps):
        if excess <= 0:
            break
        if step.role != "tool":
            continue
        tokens = int(budget.tokens_of(step) * scale)
        n_chars = int(len(step.sent) * max(tokens - excess, 0) / tokens * _LESS)
        shorter = _shortened(step.sent, max(n_chars, _LEAST_CHARS))
        if len(shorter) < len(step.sent):
            draft.steps[i] = replace(step, raw=shorter, sent=shorter, tokens=0)
            excess -= tokens - int(budget.tokens_of(draft.steps[i]) * scale)
            if not was_cut:
                was_cut = True
                draft.notes.append(_CUT)


def _shortened(text: str, n_chars: int) -> str:
    """Return the beginning of a result, as JSON that says it was cut.

    It takes `n_chars` characters there, fewer of the result if they are escaped.
    """
    whole = json.loads(text)["cut"] if _is_cut(text) else text
    low, high = 0, min(n_chars, len(whole))
    while low < high:
        middle = (low + high + 1) // 2
        is_short = len(json.dumps(whole[:middle], ensure_ascii=False)) - len('""') <= n_chars
        low, high = (middle, high) if is_short else (low, middle - 1)
    return json.dumps({"cut": whole[:low], "hint": _CUT_HINT}, ensure_ascii=False)


def _is_cut(text: str) -> bool:
    return text.startswith('{"cut": ') and text.endswith(f'"hint": "{_CUT_HINT}"}}')
