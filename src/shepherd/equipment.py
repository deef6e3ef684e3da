"""What a conversation works with for one model and one user: all that the model's rules of memory decide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.context import Keeper, Planner
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.trace import Traces
from shepherd.types import ANONYMOUS_USERS

if TYPE_CHECKING:
    from shepherd.context.dialogue import Dialogue
    from shepherd.context.entity_reading import EntityReader
    from shepherd.extraction import ExtractionWorker
    from shepherd.providers import ChatModel

__all__ = ["ConversationParts", "decided", "is_told_of_entities", "open_parts"]


@dataclass(frozen=True, slots=True)
class ConversationParts:
    """Without `knowledge` nothing of it is read, without `dialogue` nobody listens whom the talk is about,
    without `traces` none are kept.
    """

    engine: ChatModel
    memory: Memory | None
    is_forgetful: bool
    keeper: Keeper
    planner: Planner
    knowledge: Knowledge | None
    dialogue: Dialogue | None
    traces: Traces | None
    extraction: ExtractionWorker | None


def open_parts(
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
) -> ConversationParts:
    """The parts by these settings; nobody in particular, and a model that is to know nothing, get few."""
    is_known = user_id not in ANONYMOUS_USERS
    config = decided(config, engine)
    keeper = Keeper(
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
            from shepherd.context.dialogue import Dialogue

            dialogue = Dialogue(memory, knowledge, user_id, allow_private=tells_private, reader=reader)
        if keeper.writes and config.trace_turns:
            traces = Traces(memory.transactions, user_id)
    planner = Planner(config, memory, knowledge, user_id, dialogue)
    learner = extraction if keeper.learner is not None else None
    return ConversationParts(engine, memory, forgetful, keeper, planner, knowledge, dialogue, traces, learner)


def decided(config: Config, engine: ChatModel) -> Config:
    """The settings, with what `auto` means for this model, which runs here or elsewhere."""
    # Not at the top: who has a memory alone needs no models.
    from shepherd.inference import Engine

    if config.context_entities != "auto":
        return config
    path = Path(engine.model.path) if isinstance(engine, Engine) else None
    return replace(config, context_entities=is_told_of_entities(path))


def is_told_of_entities(chat_model: Path | None) -> bool:
    """What `context_entities = auto` means: Shepherd's own small model was not taught these blocks."""
    from shepherd.inference.models import is_built_in

    return chat_model is None or not is_built_in(chat_model)
