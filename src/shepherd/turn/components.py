"""Components of a conversation of one user with one model, chosen by the rules of memory of that model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.prompt import Planner
from shepherd.trace import Traces
from shepherd.turn.store import ConversationStore
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.prompt.entity_tracking import Dialogue, EntityReader
    from shepherd.providers import ChatModel

__all__ = ["TurnComponents", "open_components", "supports_entity_blocks", "with_auto_resolved"]


@dataclass(frozen=True, slots=True)
class TurnComponents:
    """Parts that a conversation works with; None for those that the model or the settings rule out.

    `knowledge` is read for each message, `dialogue` tracks the entities, `traces` stores how each prompt was
    made.
    """

    engine: ChatModel
    memory: Memory | None
    is_forgetful: bool
    store: ConversationStore
    planner: Planner
    knowledge: Knowledge | None
    dialogue: Dialogue | None
    traces: Traces | None
    extraction: ExtractionWorker | None


def open_components(
    engine: ChatModel,
    memory: Memory | None,
    config: Config,
    user_id: str,
    *,
    writes_memory: bool,
    extraction: ExtractionWorker | None,
    tells_private: bool,
    forgetful: bool,
    reader: EntityReader | None = None,
) -> TurnComponents:
    """Open the components that these settings ask for; an anonymous user and a forgetful model get few."""
    is_known = user_id not in ANONYMOUS_USERS
    config = with_auto_resolved(config, engine)
    store = ConversationStore(
        memory,
        user_id,
        writes=writes_memory and is_known,
        archives=config.archive_turns,
        learner=extraction,
    )
    knowledge = dialogue = traces = None
    if memory is not None and is_known and not forgetful:
        knowledge = Knowledge(memory.transactions, user_id, count_tokens=engine.count_tokens)
        if config.context_entities is True:
            # Not at the top: it is a tenth of the way to the first prompt, and few models listen.
            from shepherd.prompt.entity_tracking import Dialogue

            dialogue = Dialogue(memory, knowledge, user_id, allow_private=tells_private, reader=reader)
        if store.writes and config.trace_turns:
            traces = Traces(memory.transactions, user_id)
    planner = Planner(config, memory, knowledge, user_id, dialogue)
    learner = extraction if store.learner is not None else None
    return TurnComponents(engine, memory, forgetful, store, planner, knowledge, dialogue, traces, learner)


def with_auto_resolved(config: Config, engine: ChatModel) -> Config:
    """Return the settings with `auto` resolved for this model."""
    # Not at the top: a program that uses the memory alone needs no engine.
    from shepherd.inference import Engine

    if config.context_entities != "auto":
        return config
    path = Path(engine.model.path) if isinstance(engine, Engine) else None
    return replace(config, context_entities=supports_entity_blocks(path))


def supports_entity_blocks(chat_model: Path | None) -> bool:
    """Whether a model understands entity blocks; the bundled one was not trained on them."""
    from shepherd.inference.models import is_built_in

    return chat_model is None or not is_built_in(chat_model)
