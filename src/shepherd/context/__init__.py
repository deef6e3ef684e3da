"""What the model sees, and in which order: the prompt's parts, the injected tail, what becomes of old tails.

It knows messages and token counts; it knows neither SQL nor token ids.
"""

from __future__ import annotations

from shepherd.context.eviction import evict
from shepherd.context.exchanges import Exchange, added_stats, messages_of, paired
from shepherd.context.injection import inject
from shepherd.context.ledger import Ledger, Restored, conversation_hashes
from shepherd.context.parts import CATEGORIES, Category, LeftOut, Part, Plan, Share
from shepherd.context.prompt import SystemPrompt, assemble, render_system
from shepherd.context.retention import Retention, strip_tails, tail_tokens, tails_to_strip

__all__ = [
    "CATEGORIES",
    "Category",
    "Exchange",
    "Ledger",
    "LeftOut",
    "Part",
    "Plan",
    "Restored",
    "Retention",
    "Share",
    "SystemPrompt",
    "added_stats",
    "assemble",
    "conversation_hashes",
    "evict",
    "inject",
    "messages_of",
    "paired",
    "render_system",
    "strip_tails",
    "tail_tokens",
    "tails_to_strip",
]
