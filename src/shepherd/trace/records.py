"""One turn as records, and the paths that follow from them: a field's name is the name in the path.

The way from a plan to the database:

    record = TurnTrace(model="…", budget=BudgetTrace(total=8192, …), history=HistoryTrace(…), …)
    Traces(memory.transactions, user_id).write(session_id, record)

Every part may be left out, and every value that is None is not written. Sequences become zero-padded indices
(`entities` has its items beside its counts), the keys of mappings are percent-encoded.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from shepherd.escaping import storable
from shepherd.trace.paths import Value, encode_segment, index_segment

__all__ = [
    "SCHEMA",
    "AssembledTrace",
    "BudgetTrace",
    "ChunkTrace",
    "EntitiesTrace",
    "EntityTrace",
    "HistoryTrace",
    "HistoryTurnTrace",
    "LeftOutTrace",
    "RagTrace",
    "RecalledTrace",
    "SystemTrace",
    "TailTrace",
    "TurnTrace",
    "paths_of",
]

# Of the paths below a turn.
SCHEMA = 1

# What a list adds to its parent's path, where that is not its field's name.
_ITEMS = "items"
_LARGEST_INTEGER = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetTrace:
    """Tokens that each part was given. `strategy`: fixed, dynamic or prioritized."""

    total: int
    system: int | None = None
    history: int | None = None
    entities: int | None = None
    rag: int | None = None
    query: int | None = None
    facts: int | None = None
    focus: int | None = None
    reserve: int | None = None
    strategy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTurnTrace:
    """A turn that was shown verbatim. `content` is left out where the stored session has it."""

    turn_id: str | int
    speaker: str
    tokens: int
    content: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTrace:
    """What was shown of the conversation so far. `compression_level` says how far it was compressed."""

    summary: str | None = None
    summary_tokens: int | None = None
    verbatim_count: int = 0
    total_tokens: int = 0
    compressed: bool = False
    compression_level: str | None = None
    turns: Sequence[HistoryTurnTrace] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityTrace:
    """An entity that was shown, with the attributes that it was shown with."""

    entity_id: str | int
    name: str
    type: str
    relevance: float
    tokens: int
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitiesTrace:
    """All of them, in the order they were shown in."""

    count: int
    total_tokens: int
    items: Sequence[EntityTrace] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTrace:
    """A piece of a document that was shown."""

    chunk_id: str | int
    doc_title: str
    relevance: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RagTrace:
    """What was looked up in the user's knowledge."""

    query_used: str
    chunks_retrieved: int
    chunks_selected: int
    reranking_used: bool = False
    total_tokens: int = 0
    chunks: Sequence[ChunkTrace] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemTrace:
    """The part of the prompt that a session keeps. `sha256` is of P0 to P2 as the model saw them."""

    base_instructions: str | None = None
    personality: str | None = None
    user_preferences: str | None = None
    total_tokens: int = 0
    sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledTrace:
    """The prompt as a whole. Of `full_prompt`, length and SHA-256 are written unless it was asked for."""

    full_prompt: str | None = None
    total_tokens: int = 0
    under_budget: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RecalledTrace:
    """A memory that was appended to the message."""

    id: int
    score: float
    age_days: float
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TailTrace:
    """What was appended to the user's message."""

    facts: Mapping[str, str] = field(default_factory=dict)
    context: Sequence[RecalledTrace] = ()
    focus: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutTrace:
    """A part that was not shown, and why."""

    id: str
    category: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """Everything about one turn. `timings` are of its steps, in milliseconds."""

    model: str | None = None
    budget: BudgetTrace | None = None
    system: SystemTrace | None = None
    history: HistoryTrace | None = None
    tail: TailTrace | None = None
    entities: EntitiesTrace | None = None
    rag: RagTrace | None = None
    assembled: AssembledTrace | None = None
    left_out: Sequence[LeftOutTrace] = ()
    warnings: Sequence[str] = ()
    timings: Mapping[str, float] = field(default_factory=dict)


def paths_of(record: TurnTrace, *, with_prompt: bool = False) -> Iterator[tuple[str, Value]]:
    """Path within the turn, and value, of everything that a turn says; `schema` is among them.

    Pure: the same record gives the same pairs. `with_prompt` keeps the whole prompt. Numbers that JSON or 64
    bits cannot hold become text.
    """
    yield "schema", SCHEMA
    yield from _below("", record, with_prompt)


def _below(path: str, thing: Any, with_prompt: bool) -> Iterator[tuple[str, Value]]:
    if thing is None:
        return
    if isinstance(thing, (str, int, float)):
        yield path, plain(thing)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from _below(f"{path}/{encode_segment(str(key))}", value, with_prompt)
    elif isinstance(thing, Sequence) and not isinstance(thing, (bytes, bytearray)):
        for index, value in enumerate(thing):
            yield from _below(f"{path}/{index_segment(index)}", value, with_prompt)
    elif is_dataclass(thing):
        for part in fields(thing):
            value = getattr(thing, part.name)
            if part.name == "full_prompt" and value is not None and not with_prompt:
                yield from _digest(f"{path}/{part.name}", value)
                continue
            name = path if part.name == _ITEMS else f"{path}/{part.name}" if path else part.name
            yield from _below(name, value, with_prompt)
    else:
        raise TypeError(f"{path}: a trace cannot hold {type(thing).__name__}")


def _digest(path: str, text: str) -> Iterator[tuple[str, Value]]:
    data = storable(text).encode()
    yield f"{path}_length", len(storable(text))
    yield f"{path}_sha256", hashlib.sha256(data).hexdigest()


def plain(value: Value) -> Value:
    """`value` as both databases, JSON and MeTTa can hold it."""
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGEST_INTEGER <= value < _LARGEST_INTEGER else str(value)
    return float(value) if math.isfinite(value) else str(float(value))
