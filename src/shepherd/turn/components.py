"""Components of a conversation of one user with one model, by the model's access to memory.

They also make a one-shot prompt of what is stored of a user, for any model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.prompt import Exchange, OneShot, Planner
from shepherd.prompt.exchanges import paired
from shepherd.prompt.one_shot import DEFAULT_TOKENS
from shepherd.prompt.questions import Question
from shepherd.prompt.summary import StoredSummary, SummaryStore
from shepherd.trace import Traces
from shepherd.turn.recorder import ConversationStore
from shepherd.types import ANONYMOUS_USERS, NOT_LEARNING, Fact, Learning

if TYPE_CHECKING:
    from shepherd.entities import EntityReader
    from shepherd.extraction import ExtractionWorker
    from shepherd.prompt import Summarizer
    from shepherd.prompt.compression import Summarize
    from shepherd.prompt.entity_tracking import Dialogue
    from shepherd.prompt.plan import Part
    from shepherd.providers import ChatModel

__all__ = [
    "LAST_SESSION",
    "ModelAccess",
    "TurnComponents",
    "answering_first",
    "build_context",
    "open_components",
    "with_auto_resolved",
]


# Stands for the id of the user's latest session.
LAST_SESSION = "last"


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """A model, and what it may do with the memory.

    Without `writes_memory` the memory is only read. With `extraction`, the user's messages are queued for it
    in the transaction that stores them; `learning` says by which model, or why not. With a `summarizer`,
    turns are summarised before they leave the window; a `reader` finds entities in addition to the rules.
    Without `shows_private` private attributes of entities are not shown to the model. With `forgetful`
    nothing is recalled or stored, and what earlier messages hold of the memory is removed.
    """

    model: ChatModel
    memory: Memory | None = None
    writes_memory: bool = True
    extraction: ExtractionWorker | None = None
    learning: Learning = NOT_LEARNING
    summarizer: Summarizer | None = None
    reader: EntityReader | None = None
    shows_private: bool = True
    forgetful: bool = False


@dataclass(frozen=True, slots=True)
class TurnComponents:
    """Components of a conversation; None for those that the model or the settings rule out.

    `knowledge` is searched for each message, `dialogue` tracks the entities, `traces` stores how each prompt
    was made.
    """

    access: ModelAccess
    store: ConversationStore
    planner: Planner
    knowledge: Knowledge | None
    dialogue: Dialogue | None
    traces: Traces | None


def open_components(access: ModelAccess, config: Config, user_id: str) -> TurnComponents:
    """Open the components for these settings; an anonymous user and a forgetful model get few."""
    is_known = user_id not in ANONYMOUS_USERS
    model, memory = access.model, access.memory
    config = with_auto_resolved(config, model)
    store = ConversationStore(
        memory,
        user_id,
        writes=access.writes_memory and is_known,
        archives=config.archive_turns,
        learner=access.extraction,
    )
    knowledge = dialogue = traces = None
    if memory is not None and is_known and not access.forgetful:
        knowledge = Knowledge(memory.transactions, user_id, count_tokens=model.count_tokens)
        if config.context_entities is True:
            # Not at the top: it takes a tenth of the time to the first prompt, and few models need it.
            from shepherd.prompt.entity_tracking import Dialogue

            dialogue = Dialogue(
                memory, knowledge, user_id, allow_private=access.shows_private, reader=access.reader
            )
        if store.writes and config.trace_turns:
            traces = Traces(memory.transactions, user_id)
    planner = Planner(config, memory, knowledge, user_id, dialogue, best_first=answering_first)
    return TurnComponents(access, store, planner, knowledge, dialogue, traces)


def answering_first(question: str, passages: Sequence[Part], facts: Sequence[Fact]) -> Sequence[Part]:
    """Return passages with the one first that answers a question best, for a tail with a single one."""
    # Not at the top: only the bundled model has so small a tail.
    from shepherd.turn.quotation import best_first

    return best_first(Question(question), passages, facts)


def with_auto_resolved(config: Config, model: ChatModel | None) -> Config:
    """Return the settings with `auto` resolved for this model; None stands for any remote one.

    The bundled model was not trained on blocks of entities, and a long tail is too much for it.
    """
    if "auto" not in (config.context_entities, config.context_tail):
        return config
    # Not at the top: a program that uses the memory alone needs no engine.
    from shepherd.turn.small_model import is_small_model

    is_small = is_small_model(model)
    if config.context_entities == "auto":
        config = replace(config, context_entities=not is_small)
    if config.context_tail == "auto":
        config = replace(config, context_tail="short" if is_small else "whole")
    return config


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
        latest = memory.list_sessions(user_id, limit=1, one_offs=False)
        session_id = latest[0].id if latest else ""
    exchanges: list[Exchange] = []
    stored = StoredSummary()
    dialogue = None
    if session_id:
        messages = memory.load_session(session_id, user_id)
        if not messages:
            raise UsageError(f"there is no session {session_id!r}", hint="`last` is the latest one")
        exchanges = paired(messages)
        if config.context_entities is not False:
            dialogue = _dialogue(memory, knowledge, user_id, session_id, exchanges)
        stored = SummaryStore(memory.transactions, user_id).load(session_id)
    planner = Planner(config, memory, knowledge, user_id, dialogue, best_first=answering_first)
    return planner.one_shot(
        question,
        exchanges,
        summary=stored.summary,
        n_summed_up=sum(exchange.user.id <= stored.last_id for exchange in exchanges),
        max_tokens=max_tokens,
        count=count,
        times=times,
        summarize=summarize,
    )


def _dialogue(
    memory: Memory, knowledge: Knowledge, user_id: str, session_id: str, exchanges: Sequence[Exchange]
) -> Dialogue:
    """Return the entities of a session; where none are stored, those that its messages name."""
    from shepherd.prompt.entity_tracking import Dialogue

    dialogue = Dialogue(memory, knowledge, user_id, allow_private=True)
    dialogue.load(session_id, ((exchange.user.raw, exchange.answer.raw) for exchange in exchanges))
    return dialogue
