"""The prompt: the plan of each turn, its parts, the tail and the history, in their order.

This package knows messages, parts and token counts; it knows neither SQL nor token ids.
"""

from __future__ import annotations

from shepherd.prompt.compaction import Compaction
from shepherd.prompt.draft import Draft
from shepherd.prompt.exchanges import Exchange
from shepherd.prompt.ledger import Ledger
from shepherd.prompt.one_shot import OneShot
from shepherd.prompt.plan import Plan
from shepherd.prompt.summary import Summarizer, Summary
from shepherd.prompt.system_prompt import Snapshot, take_snapshot
from shepherd.prompt.turn_planner import Planner
from shepherd.prompt.window_budget import WindowBudget

__all__ = [
    "Compaction",
    "Draft",
    "Exchange",
    "Ledger",
    "OneShot",
    "Plan",
    "Planner",
    "Snapshot",
    "Summarizer",
    "Summary",
    "WindowBudget",
    "take_snapshot",
]
