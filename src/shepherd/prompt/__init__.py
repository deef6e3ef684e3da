"""What the model sees, and in which order: the plan of each turn, the prompt's parts, the tail, the history.

It knows messages, parts and token counts; it knows neither SQL nor token ids.
"""

from __future__ import annotations

from shepherd.prompt.archive_policy import is_statement, is_worth_a_memory
from shepherd.prompt.compaction import Compaction, PendingSummary
from shepherd.prompt.draft import Draft
from shepherd.prompt.eviction import Retention, evict, strip_tails, tail_tokens, tails_to_strip, turns
from shepherd.prompt.exchanges import (
    Exchange,
    added_stats,
    hide_memory,
    message_of,
    messages_of,
    paired,
    with_recall,
)
from shepherd.prompt.gathering import hubs_of
from shepherd.prompt.ledger import Ledger, Restored, Said, conversation_hashes
from shepherd.prompt.one_shot import DEFAULT_TOKENS, OneShot
from shepherd.prompt.overflow import prepare_prompt, start_answer
from shepherd.prompt.plan import CATEGORIES, Category, LeftOut, Part, Plan, Share
from shepherd.prompt.summarizer import Summarizer
from shepherd.prompt.summary import KeptSummaries, Left, Summary
from shepherd.prompt.system_prompt import (
    Before,
    Snapshot,
    SystemPrompt,
    assemble,
    look_around,
    render_system,
    take_snapshot,
)
from shepherd.prompt.token_budget import Room, TokenCounts, written
from shepherd.prompt.turn_planner import NO_ROOM_FOR_MEMORY, Planner

__all__ = [
    "CATEGORIES",
    "DEFAULT_TOKENS",
    "NO_ROOM_FOR_MEMORY",
    "Before",
    "Category",
    "Compaction",
    "Draft",
    "Exchange",
    "KeptSummaries",
    "Ledger",
    "Left",
    "LeftOut",
    "OneShot",
    "Part",
    "PendingSummary",
    "Plan",
    "Planner",
    "Restored",
    "Retention",
    "Room",
    "Said",
    "Share",
    "Snapshot",
    "Summarizer",
    "Summary",
    "SystemPrompt",
    "TokenCounts",
    "added_stats",
    "assemble",
    "conversation_hashes",
    "evict",
    "hide_memory",
    "hubs_of",
    "is_statement",
    "is_worth_a_memory",
    "look_around",
    "message_of",
    "messages_of",
    "paired",
    "prepare_prompt",
    "render_system",
    "start_answer",
    "strip_tails",
    "tail_tokens",
    "tails_to_strip",
    "take_snapshot",
    "turns",
    "with_recall",
    "written",
]
