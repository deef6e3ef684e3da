"""One-shot prompt: one text in four sections for a question, for another program, a pipe or a test.

It has the same candidates as a chat's tail, but system part, history and knowledge share the tokens, and the
question ends the text.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shepherd.errors import ContextOverflowError
from shepherd.escaping import ELLIPSIS, escape_text
from shepherd.prompt.allocation import Request, Sharing, grouped_turns, measured, without_one
from shepherd.prompt.compression import (
    Summarize,
    at_level,
    cut,
    level_for,
    make_fitted_plan,
    summary_part,
)
from shepherd.prompt.exchanges import Exchange
from shepherd.prompt.plan import SUMMARY_ID, Part, Plan
from shepherd.prompt.rendering import opening, render_one_shot
from shepherd.prompt.summary import Summary, labelled, speaker_line, turns_left_out, unlabelled
from shepherd.sequences import in_sequences, sequence_of

__all__ = ["DEFAULT_TOKENS", "OneShot", "build_one_shot", "history_parts"]

_log = logging.getLogger(__name__)

DEFAULT_TOKENS = 4096
# Labels of the sections, whose tokens are reserved.
_LABELS = "[SYSTEM]\n\n\n[CONTEXT]\n\n\n[KNOWLEDGE]\n\n\n[USER]\n"
# A new summary gets up to a quarter of the history's tokens and up to this; a stored one up to half of them.
_SUMMARY_TOKENS = 200
_LEAST_SUMMARY_TOKENS = 12
# Of the turns that are summarised, the newest with this many tokens together.
_SUMMARIZED_TOKENS = 6000
_LONGEST_SUMMARY_CHARS = 8000
# A turn is shown in part where more than this share of the prompt would be unused.
_UNUSED_SHARE = 0.05
# Margin: parts have a few more tokens together than one by one, and the newest turn should not be left out.
_MARGIN = 0.97


@dataclass(frozen=True, slots=True)
class OneShot:
    """A one-shot prompt: its `text`, the length of that in `tokens`, and the `plan` it was made by."""

    text: str
    tokens: int
    max_tokens: int
    plan: Plan

    def as_dict(self) -> dict[str, Any]:
        """Return the prompt for JSON: the text, and the tokens of each category and part."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "max_tokens": self.max_tokens,
            "strategy": self.plan.strategy,
            "budget": self.plan.budget,
            "compression": self.plan.compression,
            "parts": [_as_dict(part) for part in self.plan.chosen],
            "left_out": [
                {"category": left.part.category, "id": in_sequences(left.part.id), "reason": left.reason}
                for left in self.plan.left_out
            ],
            "warnings": list(self.plan.warnings),
        }


def build_one_shot(
    question: str,
    system: str,
    candidates: Sequence[Part],
    *,
    max_tokens: int,
    count: Callable[[str], int],
    sharing: Sharing | None = None,
    entities: int = 0,
    warnings: Sequence[str] = (),
    summarize: Summarize | None = None,
    n_summed_up: int = 0,
) -> OneShot:
    """Build the prompt for `question` with at most `max_tokens` tokens by `count`.

    `system` and the question stay whole; raises ContextOverflowError where they alone are too long. The rest
    is allocated by `sharing`, and each category is formatted to its share: the newest turns and a summary of
    those before them, by `summarize` if there is one, and the best entities and passages. Only a part that is
    still too long is compressed. `entities` is the number of active entities, if there are more than
    candidates. A stored summary among the candidates sums up the first `n_summed_up` of the turns, too, and
    is left out where all of them are shown.
    """
    fixed = [
        Part("system", "system", system, count(system)),
        Part("query", "query", question, count(question)),
    ]
    needed = count(render_one_shot(fixed))
    if needed > max_tokens:
        raise _overflow(needed, max_tokens)
    distinct = _distinct(candidates)
    request = Request(
        window_tokens=max_tokens,
        reserve_tokens=count(_LABELS),
        fixed=fixed,
        candidates=distinct,
        sharing=sharing or Sharing(),
        turns=len(grouped_turns(part for part in distinct if part.category == "history")),
        entities=max(entities, sum(part.category == "entities" for part in distinct)),
        fills=True,
    )
    history = _History(request, count, summarize, n_summed_up)
    plan = history.plan()
    text = render_one_shot(plan.chosen)
    while (tokens := count(text)) > max_tokens:
        # Parts have a few more tokens together than one by one. The fixed parts fit, so this ends.
        less = without_one(plan)
        if less is None:
            raise _overflow(tokens, max_tokens)
        plan = history.with_number_left_out(less)
        text = render_one_shot(plan.chosen)
    return OneShot(text, tokens, max_tokens, replace(plan, warnings=tuple(warnings)))


class _History:
    """Formats the history of a one-shot prompt to its share of the tokens."""

    def __init__(
        self, request: Request, count: Callable[[str], int], summarize: Summarize | None, n_summed_up: int
    ) -> None:
        self._request = request
        self._count = count
        self._summarize = summarize
        parts = [part for part in request.candidates if part.category == "history"]
        self._turns = grouped_turns(parts)
        stored = next((part.text for part in parts if part.id == SUMMARY_ID), "")
        self._stored = unlabelled(stored)
        self._n_summed_up = n_summed_up if stored else 0
        self._longest = 0
        self._has_new_summary = False

    def plan(self) -> Plan:
        """Return the plan of the whole prompt."""
        if self._n_summed_up and (whole := self._whole()) is not None:
            return whole
        plan = self._planned()
        level = ""
        is_summary_missing = bool(self._stored) and all(part.id != SUMMARY_ID for part in plan.chosen)
        if self._n_left_out(plan) or is_summary_missing:
            budget = self._budget(plan)
            level = self._compress_newest(budget)
            self._set_summary(budget)
            plan = self._with_part_of_a_turn(self._planned())
            if not (self._stored or self._has_new_summary or self._n_left_out(plan)):
                self._use(None)  # it says that turns are left out
                plan = self._planned()
        plan = self.with_number_left_out(plan)
        return replace(plan, compression=plan.compression or level)

    def with_number_left_out(self, plan: Plan) -> Plan:
        """Return the plan with a summary that says how many turns are left out."""
        n = self._n_unmentioned(plan)
        summary = None if self._has_new_summary or not n else self._left_out_part(n)
        if summary is None:
            return plan
        return replace(plan, chosen=tuple(summary if one.id == SUMMARY_ID else one for one in plan.chosen))

    def _whole(self) -> Plan | None:
        """Return the plan with all turns and without a summary of them; None if they don't fit."""
        request = self._request
        turns = [part for part in request.candidates if part.id != SUMMARY_ID]
        plan = make_fitted_plan(replace(request, candidates=turns), self._count)
        return None if self._n_left_out(plan) else plan

    def _planned(self) -> Plan:
        turns = [part for turn in self._turns for part in turn]
        others = [
            part for part in self._request.candidates if part.category != "history" or part.id == SUMMARY_ID
        ]
        return make_fitted_plan(replace(self._request, candidates=[*others, *turns]), self._count)

    def _n_left_out(self, plan: Plan) -> int:
        return len(self._turns) - len(grouped_turns(plan.of("history")))

    def _n_unmentioned(self, plan: Plan) -> int:
        """Return how many turns are left out that the stored summary does not sum up."""
        return max(self._n_left_out(plan) - self._n_summed_up, 0)

    def _budget(self, plan: Plan) -> int:
        """Return the tokens for the history beside its headline."""
        share = next(share for share in plan.shares if share.category == "history")
        return max(share.granted - self._count(opening("history")), 0)

    def _compress_newest(self, budget: int) -> str:
        """Compress a newest turn that is too long by itself; returns the level."""
        if not self._turns:
            return ""
        turn = [part.with_tokens(self._measure(part)) for part in self._turns[-1]]
        tokens = sum(part.tokens for part in turn)
        if tokens <= budget:
            return ""
        room = int((budget - self._wanted_for_summary(budget)) * _MARGIN)
        shown = self._cut_turn(at_level(turn, "light", self._measure), room)
        if not shown:
            return ""
        self._turns[-1] = shown
        return level_for(1 - room / tokens)

    def _wanted_for_summary(self, budget: int) -> int:
        """Return the tokens that a newest turn that fills the budget leaves to the summary."""
        if self._stored:
            return min(self._measure(Part("history", SUMMARY_ID, labelled(self._stored))), budget // 2)
        if len(self._turns) < 2:
            return 0
        notice = Part("history", SUMMARY_ID, labelled(turns_left_out(len(self._turns))))
        longest = min(_SUMMARY_TOKENS, budget // 4)
        return min(longest, longest if self._summarize is not None else self._measure(notice))

    def _cut_turn(self, turn: Sequence[Part], budget: int) -> list[Part]:
        """Return as much of each part of a turn as fits; none if a part has no room for a word.

        Short parts stay whole, and the others share the rest.
        """
        shown: dict[str, Part] = {}
        for n_before, part in enumerate(sorted(turn, key=self._measure)):
            beginning = cut(part, budget // (len(turn) - n_before), self._measure)
            if beginning is None:
                return []
            shown[part.id] = beginning
            budget -= beginning.tokens
        return [shown[part.id] for part in turn]

    def _set_summary(self, budget: int) -> None:
        """Add a summary of the turns that are left out to the candidates."""
        self._longest = budget // 2 if self._stored else min(_SUMMARY_TOKENS, budget // 4)
        # The newest turn comes first.
        left = budget - sum(map(self._measure, self._turns[-1] if self._turns else ()))
        if left >= _LEAST_SUMMARY_TOKENS:
            self._longest = min(self._longest, left)
        if self._summarize is not None and self._longest >= _LEAST_SUMMARY_TOKENS:
            longest = min(_SUMMARY_TOKENS, self._longest)
            before = self._request
            self._use(Part("history", SUMMARY_ID, ELLIPSIS, longest))
            n = self._n_left_out(self._planned())
            self._request = before
            text = self._summarized(n, longest) if n > self._n_summed_up else ""
            summary = summary_part(text, longest, self._measure)
            if summary is not None:
                self._has_new_summary = True
                self._use(summary)
                return
        n_before = -1
        while (n := self._n_unmentioned(self._planned())) != n_before and (summary := self._left_out_part(n)):
            self._use(summary)
            n_before = n

    def _use(self, summary: Part | None) -> None:
        others = [part for part in self._request.candidates if part.id != SUMMARY_ID]
        self._request = replace(self._request, candidates=[*([summary] if summary else []), *others])

    def _left_out_part(self, n_turns: int) -> Part | None:
        if not self._stored:
            # "4 earlier turns …" would say nothing.
            notice = Part("history", SUMMARY_ID, labelled(turns_left_out(n_turns)))
            return notice.with_tokens(self._measure(notice)) if n_turns else None
        text = turns_left_out(n_turns, after=self._stored) if n_turns else self._stored
        return summary_part(text, max(self._longest, _LEAST_SUMMARY_TOKENS), self._measure)

    def _summarized(self, n_turns: int, longest: int) -> str:
        """Return a summary of the stored summary and the first turns after it; "" where the model fails."""
        assert self._summarize is not None
        lines: list[str] = []
        left = _SUMMARIZED_TOKENS
        for part in reversed([part for turn in self._turns[self._n_summed_up : n_turns] for part in turn]):
            left -= self._measure(part)
            if left < 0:
                break
            lines.insert(0, part.text)
        try:
            text = self._summarize("\n".join(filter(None, [self._stored, *lines])), longest)
        except Exception as error:  # a failure of the model only costs the summary
            _log.info("summarising failed: %s", type(error).__name__)
            return ""
        return escape_text(" ".join(text.split()), _LONGEST_SUMMARY_CHARS)

    def _with_part_of_a_turn(self, plan: Plan) -> Plan:
        """Show a part of the next older turn, where much would be unused without it."""
        request, n = self._request, self._n_left_out(plan)
        unused = request.available - sum(s.used for s in plan.shares if s.category not in ("system", "query"))
        if not n or request.sharing.strategy == "fixed" or unused <= _UNUSED_SHARE * request.window_tokens:
            return plan
        shown = self._cut_turn(self._turns[n - 1], unused)
        if not shown:
            return plan
        self._turns[n - 1] = shown
        return self._planned()

    def _measure(self, part: Part) -> int:
        return measured(part.with_tokens(0), self._count).tokens


def history_parts(
    summary: Summary, exchanges: Sequence[Exchange], *, n_summed_up: int = 0, times: bool = False
) -> list[Part]:
    """Return the parts of a summary and a conversation's turns, oldest first, with `times` the clock of each.

    The summary is of turns before these, and of the first `n_summed_up` of these.
    """
    parts = []
    if summary.text:
        parts.append(Part("history", SUMMARY_ID, summary.text, about={"turns": summary.n_turns}))
    first = max(summary.n_turns - n_summed_up, 0)
    for place, exchange in enumerate(exchanges):
        for message in (exchange.user, exchange.answer):
            about = {"speaker": message.role, "turn_id": first + place}
            text = speaker_line(message, times=times)
            parts.append(Part("history", f"turn:{first + place}:{message.role}", text, about=about))
    return parts


def _distinct(candidates: Sequence[Part]) -> list[Part]:
    """Return each part once, by its id."""
    parts: dict[str, Part] = {}
    for part in candidates:
        parts.setdefault(part.id, part)
    return list(parts.values())


def _as_dict(part: Part) -> dict[str, Any]:
    about = {name: value for name, value in part.about.items() if isinstance(value, (str, int, float))}
    if isinstance(chunk_id := about.get("chunk_id"), int):
        about["chunk_id"] = sequence_of(chunk_id)
    return {
        "category": part.category,
        "id": in_sequences(part.id),
        "tokens": part.tokens,
        "score": part.score,
        "text": part.text,
        **about,
    }


def _overflow(needed: int, max_tokens: int) -> ContextOverflowError:
    return ContextOverflowError(
        f"system part and question have {needed} tokens, {needed - max_tokens} more than {max_tokens}",
        prompt_tokens=needed,
        window_tokens=max_tokens,
        hint="allow more with --max-tokens, or shorten system_prompt or the question",
    )
