"""Events of a running turn, which every frontend shows."""

from __future__ import annotations

from dataclasses import dataclass, field

from shepherd.prompt import Plan
from shepherd.tools import ToolResult
from shepherd.types import Injection, Thought, ToolCall, TurnStats

__all__ = ["Delta", "Event", "Finished", "Recalled", "ToolResult", "Warned"]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The lines that memory adds to this message; comes once, before the first piece of the answer.

    `plan` has everything that the model is shown, with tokens.
    """

    injection: Injection
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer, as it is generated."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A failure that the answer does not depend on."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer and the cost of the turn; the last event, unless the turn raised.

    Text before a tool call came as Delta and is not part of the answer. `plan.budget` has the prompt's tokens
    by category, `plan.chosen` and `plan.left_out` the parts that were shown and those that were not.
    """

    answer: str
    stats: TurnStats
    injection: Injection
    plan: Plan = field(default_factory=Plan)


Event = Recalled | Delta | Thought | ToolCall | ToolResult | Warned | Finished
