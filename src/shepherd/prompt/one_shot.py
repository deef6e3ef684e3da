"""One-shot prompt: one text in four sections for a question, for another program, a pipe or a test.

It has the same candidates as a chat's tail, but system part, history and knowledge share the tokens, and the
question ends the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shepherd.errors import ContextOverflowError
from shepherd.prompt.allocation import ONE_SHOT_WEIGHTS, Request, Sharing, make_plan, measured, without_one
from shepherd.prompt.compression import Compressed, compress
from shepherd.prompt.exchanges import Exchange
from shepherd.prompt.plan import LeftOut, Part, Plan, render_one_shot
from shepherd.prompt.summary import Summary, speaker_line

__all__ = ["DEFAULT_TOKENS", "OneShot", "build_one_shot", "history_parts"]


DEFAULT_TOKENS = 4096
# Labels of the sections, whose tokens are reserved.
_LABELS = "[SYSTEM]\n\n\n[CONTEXT]\n\n\n[KNOWLEDGE]\n\n\n[USER]\n"


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
                {"category": left.part.category, "id": left.part.id, "reason": left.reason}
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
    summarize: Callable[[str, int], str] | None = None,
) -> OneShot:
    """Build the prompt for `question` with at most `max_tokens` tokens by `count`.

    `system` and the question stay whole; raises ContextOverflowError where they alone are too long. Too many
    candidates are compressed, level by level, with summaries by `summarize`. Without a `sharing` the rest is
    shared as 1,000 history to 500 entities to 1,500 knowledge.
    """
    sharing = sharing or Sharing(weights=ONE_SHOT_WEIGHTS)
    if sharing.strategy == "dynamic" and sharing.weights is None:
        sharing = replace(sharing, weights=ONE_SHOT_WEIGHTS)
    fixed = [
        Part("system", "system", system, count(system)),
        Part("query", "query", question, count(question)),
    ]
    needed = count(render_one_shot(fixed))
    if needed > max_tokens:
        raise _overflow(needed, max_tokens)
    compressed = _compressed(fixed, candidates, max_tokens - count(_LABELS), count, summarize)
    request = Request(
        window_tokens=max_tokens,
        reserve_tokens=count(_LABELS),
        fixed=fixed,
        candidates=[part for part in compressed.parts if part.category not in ("system", "query")],
        sharing=sharing,
        turns=sum(part.category == "history" for part in candidates),
        entities=entities,
    )
    plan = make_plan(request, count)
    text = render_one_shot(plan.chosen)
    tokens = count(text)
    while tokens > max_tokens:
        # Parts have a few more tokens together than one by one. The fixed parts fit, so this ends.
        less = without_one(plan)
        if less is None:
            raise _overflow(tokens, max_tokens)
        plan = less
        text = render_one_shot(plan.chosen)
        tokens = count(text)
    plan = replace(
        plan,
        compression=compressed.level,
        left_out=(*plan.left_out, *compressed.left_out),
        warnings=tuple(warnings),
    )
    return OneShot(text, tokens, max_tokens, plan)


def history_parts(summary: Summary, exchanges: Sequence[Exchange], *, times: bool = False) -> list[Part]:
    """Return the parts of a summary and a conversation's turns, oldest first, with `times` the clock of
    each.
    """
    parts = []
    if summary.text:
        parts.append(Part("history", "summary", summary.text, about={"turns": summary.n_turns}))
    first = summary.n_turns
    for place, exchange in enumerate(exchanges):
        for message in (exchange.user, exchange.answer):
            about = {"speaker": message.role, "turn_id": first + place}
            text = speaker_line(message, times=times)
            parts.append(Part("history", f"turn:{first + place}:{message.role}", text, about=about))
    return parts


def _compressed(
    fixed: Sequence[Part],
    candidates: Sequence[Part],
    budget: int,
    count: Callable[[str], int],
    summarize: Callable[[str, int], str] | None,
) -> Compressed:
    """Compress the candidates to the tokens that the fixed parts leave, which may be none."""

    def measure(part: Part) -> int:
        return measured(replace(part, tokens=0), count).tokens

    distinct = _distinct(candidates)
    if sum(map(measure, fixed)) > budget:
        gone = tuple(LeftOut(part, "compressed") for part in distinct)
        return Compressed(tuple(fixed), "bare", sum(map(measure, fixed)), gone)
    return compress([*fixed, *distinct], budget, measure, summarize=summarize)


def _distinct(candidates: Sequence[Part]) -> list[Part]:
    """Return each part once, by its id."""
    parts: dict[str, Part] = {}
    for part in candidates:
        parts.setdefault(part.id, part)
    return list(parts.values())


def _as_dict(part: Part) -> dict[str, Any]:
    about = {name: value for name, value in part.about.items() if isinstance(value, (str, int, float))}
    return {
        "category": part.category,
        "id": part.id,
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
