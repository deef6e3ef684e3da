"""Record of a turn: the plan, the prompt and everything decided about them, as paths below the turn.

A record is nested mappings and lists, which `paths_of` flattens: names become segments, places in lists
zero-padded numbers. None is not written. docs/reference/trace.md lists the paths.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from shepherd.escaping import storable
from shepherd.pictures import without_pictures
from shepherd.trace.paths import Value, encode_segment, index_segment

if TYPE_CHECKING:
    from shepherd.prompt import Draft, Plan
    from shepherd.prompt.plan import Part
    from shepherd.types import TurnStats

__all__ = ["SCHEMA", "numbered", "paths_of", "plain", "prompt_record", "trace_of"]

# Version of the paths below a turn.
SCHEMA = 1

_LARGEST_INTEGER = 2**63


def trace_of(
    draft: Draft,
    *,
    model: str,
    summary: str,
    summary_tokens: int,
    prompt: str | None = None,
    with_prompt: bool = False,
    stats: TurnStats | None = None,
) -> dict[str, Value]:
    """Return the paths of a finished turn, with what it cost if `stats` say so.

    `prompt` replaces the text of the prompt where a part of it must not be stored. Its length and SHA-256 are
    recorded, or with `with_prompt` the text itself.
    """
    plan = draft.plan
    text = "\n".join(without_pictures(m).sent for m in draft.prompt) if prompt is None else prompt
    return paths_of(
        {
            "model": model,
            "message_id": draft.message.id or None,
            "budget": _budget(plan),
            "system": {
                "personality": draft.snapshot.personality or None,
                "user_preferences": draft.snapshot.preferences or None,
                "total_tokens": plan.budget["system"],
                "sha256": draft.snapshot.system.sha256,
            },
            "history": _history(draft, summary, summary_tokens),
            "tail": {
                "facts": {fact.key: fact.value for fact in draft.injection.facts},
                "context": [
                    {"id": one.id, "score": one.score, "age_days": one.age_days, "source": one.source}
                    for one in draft.injection.results
                ],
                "focus": [part.id for part in plan.of("focus")],
            },
            "entities": _entities(plan),
            "rag": _rag(plan),
            "assembled": {
                **prompt_record(text, with_prompt=with_prompt),
                "total_tokens": plan.total_tokens,
                "under_budget": plan.total_tokens <= plan.window_tokens,
            },
            "left_out": [
                {"id": left.part.id, "category": left.part.category, "reason": left.reason}
                for left in plan.left_out
            ],
            "warnings": plan.warnings,
            "timings": {name: us / 1000 for name, us in plan.timings_us.items()},
            "usage": {} if stats is None else _usage(stats),
        }
    )


def _budget(plan: Plan) -> dict[str, object]:
    granted = {share.category: share.granted for share in plan.shares}
    return {
        "total": plan.window_tokens,
        "system": granted.get("system"),
        "history": granted.get("history"),
        "entities": granted.get("entities"),
        "rag": granted.get("knowledge"),
        "query": granted.get("query"),
        "facts": granted.get("memory"),
        "focus": granted.get("focus"),
        "reserve": plan.reserve_tokens,
        "strategy": plan.strategy,
    }


def _usage(stats: TurnStats) -> dict[str, object]:
    return {
        "reused": stats.reused_tokens,
        "decoded": stats.decoded_tokens,
        "generated": stats.generated_tokens,
        "recall_ms": stats.recall_ms,
        "first_token_ms": stats.ttft_ms,
    }


def _history(draft: Draft, summary: str, summary_tokens: int) -> dict[str, object]:
    turns = [m for m in draft.history if m.role in ("user", "assistant")]
    return {
        "summary": summary or None,
        "summary_tokens": summary_tokens if summary else None,
        "verbatim_count": sum(message.role == "user" for message in turns),
        "total_tokens": sum(message.tokens for message in turns) + summary_tokens,
        "compressed": bool(draft.snapshot.summary.text),
        "compression_level": draft.plan.compression or None,
        "turns": [
            # The text is in the stored conversation, under the message's number.
            {"turn_id": message.id or place, "speaker": message.role, "tokens": message.tokens}
            for place, message in enumerate(turns)
        ],
    }


def _entities(plan: Plan) -> dict[str, object]:
    parts = plan.of("entities")
    items = numbered(
        {
            "entity_id": str(part.about.get("entity_id", part.id)),
            "name": str(part.about.get("title", "")),
            "type": str(part.about.get("type", "unknown")),
            "relevance": _relevance(part),
            "tokens": part.tokens,
            "attributes": _attributes(part),
        }
        for part in parts
    )
    return {"count": len(parts), "total_tokens": plan.budget["entities"], **items}


def _rag(plan: Plan) -> dict[str, object]:
    parts = plan.of("knowledge")
    retrieved = plan.about.get("chunks_retrieved", 0)
    return {
        "query_used": str(plan.about.get("query_used", "")),
        "chunks_retrieved": retrieved if isinstance(retrieved, int) else 0,
        "chunks_selected": len(parts),
        "reranking_used": bool(plan.about.get("reranking_used", False)),
        "total_tokens": plan.budget["knowledge"],
        "chunks": [
            {
                "chunk_id": str(part.about.get("chunk_id", part.id)),
                "doc_title": str(part.about.get("title", "")),
                "relevance": _relevance(part),
                "tokens": part.tokens,
            }
            for part in parts
        ],
    }


def _relevance(part: Part) -> float:
    value = part.about.get("relevance", part.score)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _attributes(part: Part) -> dict[str, str]:
    """Return the attributes of an entity that its form in the prompt still has."""
    known = part.about.get("attributes")
    pairs: Iterable[tuple[object, object]] = known.items() if isinstance(known, Mapping) else ()
    return {str(key): str(value) for key, value in pairs if f"{key}: {value}" in part.text}


def numbered(items: Iterable[object]) -> dict[str, object]:
    """Return items under the segments of their places, to stand beside other names."""
    return {index_segment(place): item for place, item in enumerate(items)}


def prompt_record(text: str, *, with_prompt: bool) -> dict[str, Value]:
    """Return the record of a prompt: its text, or length and SHA-256."""
    if with_prompt:
        return {"full_prompt": text}
    data = storable(text)
    return {
        "full_prompt_length": len(data),
        "full_prompt_sha256": hashlib.sha256(data.encode()).hexdigest(),
    }


def paths_of(record: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of a record, and `schema`, by their paths; keys are percent-encoded.

    Numbers that JSON or 64 bits cannot hold become text. Raises TypeError for values of other types.
    """
    return {"schema": SCHEMA, **dict(_below("", record))}


def _below(path: str, thing: object) -> Iterator[tuple[str, Value]]:
    if thing is None:
        return
    if isinstance(thing, (str, int, float)):
        yield path, plain(thing)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            name = encode_segment(str(key))
            yield from _below(f"{path}/{name}" if path else name, value)
    elif isinstance(thing, Sequence) and not isinstance(thing, (bytes, bytearray)):
        yield from _below(path, numbered(thing))
    else:
        raise TypeError(f"{path}: a trace cannot hold {type(thing).__name__}")


def plain(value: Value) -> Value:
    """Return `value` as both databases, JSON and MeTTa can hold it."""
    if isinstance(value, str):
        return storable(str(value))
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGEST_INTEGER <= value < _LARGEST_INTEGER else str(value)
    return float(value) if math.isfinite(value) else str(float(value))
