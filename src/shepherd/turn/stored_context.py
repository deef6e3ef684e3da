"""One-shot prompt from what is stored of a user: memory, knowledge, and a conversation with its entities."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.prompt import Exchange, OneShot, Planner, Summary
from shepherd.prompt.compression import Summarize
from shepherd.prompt.entity_tracking import Dialogue
from shepherd.prompt.exchanges import paired
from shepherd.prompt.one_shot import DEFAULT_TOKENS
from shepherd.prompt.summary import SummaryStore

__all__ = ["LAST_SESSION", "build_context"]

# Stands for the id of the user's latest session.
LAST_SESSION = "last"


def build_context(
    question: str,
    memory: Memory,
    config: Config,
    user_id: str,
    *,
    session_id: str = "",
    max_tokens: int = DEFAULT_TOKENS,
    count: Callable[[str], int],
    times: bool = False,
    summarize: Summarize | None = None,
) -> OneShot:
    """Build a prompt for `question`; with `session_id` it continues that conversation of the user.

    Raises UsageError for an unknown session, ContextOverflowError when system part and question alone are
    longer than `max_tokens`, and StoreError.
    """
    knowledge = Knowledge(memory.transactions, user_id)
    if session_id == LAST_SESSION:
        latest = memory.list_sessions(user_id, limit=1)
        session_id = latest[0].id if latest else ""
    exchanges: list[Exchange] = []
    summary = Summary()
    dialogue = None
    if session_id:
        messages = memory.load_session(session_id, user_id)
        if not messages:
            raise UsageError(f"there is no session {session_id!r}", hint="`last` is the latest one")
        exchanges = paired(messages)
        if config.context_entities is not False:
            dialogue = _dialogue(memory, knowledge, user_id, session_id, exchanges)
        stored = SummaryStore(memory.transactions, user_id).load(session_id)
        exchanges = [exchange for exchange in exchanges if exchange.user.id > stored.last_id]
        summary = stored.summary
    planner = Planner(config, memory, knowledge, user_id, dialogue)
    return planner.one_shot(
        question,
        exchanges,
        summary=summary,
        max_tokens=max_tokens,
        count=count,
        times=times,
        summarize=summarize,
    )


def _dialogue(
    memory: Memory, knowledge: Knowledge, user_id: str, session_id: str, exchanges: Sequence[Exchange]
) -> Dialogue:
    """Return the entities of a session; where none are stored, those that its messages name."""
    dialogue = Dialogue(memory, knowledge, user_id, allow_private=True)
    dialogue.load(session_id)
    if dialogue.is_empty:
        for exchange in exchanges:
            dialogue.register(exchange.user.raw)
            dialogue.end_turn(exchange.answer.raw)
    return dialogue
