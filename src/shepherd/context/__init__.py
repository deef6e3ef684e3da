"""What the model sees, and in which order: the plan of each turn, the prompt's parts, the tail, the history.

It knows messages, parts and token counts; it knows neither SQL nor token ids.
"""

from __future__ import annotations

from shepherd.context.compaction import Compaction, PendingSummary
from shepherd.context.counting import TokenCounts
from shepherd.context.draft import Draft
from shepherd.context.eviction import evict, turns
from shepherd.context.exchanges import (
    Exchange,
    added_stats,
    message_of,
    messages_of,
    paired,
    with_recall,
)
from shepherd.context.forgetting import hide_memory
from shepherd.context.gathering import hubs_of
from shepherd.context.giving_way import begun_answer, prepare_prompt
from shepherd.context.kept_summary import KeptSummaries, Left
from shepherd.context.ledger import Ledger, Restored, Said, conversation_hashes
from shepherd.context.oneshot import DEFAULT_TOKENS, OneShot
from shepherd.context.parts import CATEGORIES, Category, LeftOut, Part, Plan, Share
from shepherd.context.planner import NO_ROOM_FOR_MEMORY, Planner
from shepherd.context.prompt import SystemPrompt, assemble, render_system
from shepherd.context.retention import Retention, strip_tails, tail_tokens, tails_to_strip
from shepherd.context.room import Room, written
from shepherd.context.snapshot import Before, Snapshot, look_around, take_snapshot
from shepherd.context.statements import is_statement, is_worth_a_memory
from shepherd.context.summarizing import Summarizer
from shepherd.context.summary import Summary

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
    "begun_answer",
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
    "strip_tails",
    "tail_tokens",
    "tails_to_strip",
    "take_snapshot",
    "turns",
    "with_recall",
    "written",
]
