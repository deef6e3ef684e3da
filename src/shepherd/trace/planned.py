"""A plan as the record that is kept of a turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from shepherd.prompt import Draft, Plan
from shepherd.prompt.plan import Part
from shepherd.trace.records import (
    AssembledTrace,
    BudgetTrace,
    ChunkTrace,
    EntitiesTrace,
    EntityTrace,
    HistoryTrace,
    HistoryTurnTrace,
    LeftOutTrace,
    RagTrace,
    RecalledTrace,
    SystemTrace,
    TailTrace,
    TurnTrace,
)
from shepherd.types import Injection

__all__ = ["trace_of"]


def trace_of(
    draft: Draft, *, model: str, summary: str, summary_tokens: int, prompt: str | None = None
) -> TurnTrace:
    """What the model was shown in a turn that is over, with all that was decided about it.

    `prompt`: as much of the text as may be written down, where that is not all of it.
    """
    plan = draft.plan
    return TurnTrace(
        model=model,
        budget=_budget(plan),
        system=SystemTrace(
            personality=draft.snapshot.personality or None,
            user_preferences=draft.snapshot.preferences or None,
            total_tokens=plan.budget["system"],
            sha256=draft.snapshot.system.sha256,
        ),
        history=_history(draft, summary, summary_tokens),
        tail=_tail(draft.injection, plan),
        entities=_entities(plan),
        rag=_rag(plan),
        assembled=AssembledTrace(
            full_prompt="\n".join(message.sent for message in draft.prompt) if prompt is None else prompt,
            total_tokens=plan.total_tokens,
            under_budget=plan.total_tokens <= plan.window_tokens,
        ),
        left_out=[
            LeftOutTrace(id=left.part.id, category=left.part.category, reason=left.reason)
            for left in plan.left_out
        ],
        warnings=plan.warnings,
        timings={name: us / 1000 for name, us in plan.timings_us.items()},
    )


def _budget(plan: Plan) -> BudgetTrace:
    granted = {share.category: share.granted for share in plan.shares}
    return BudgetTrace(
        total=plan.window_tokens,
        system=granted.get("system"),
        history=granted.get("history"),
        entities=granted.get("entities"),
        rag=granted.get("knowledge"),
        query=granted.get("query"),
        facts=granted.get("memory"),
        focus=granted.get("focus"),
        reserve=plan.reserve_tokens,
        strategy=plan.strategy,
    )


def _history(draft: Draft, summary: str, summary_tokens: int) -> HistoryTrace:
    turns = [m for m in draft.history if m.role in ("user", "assistant")]
    return HistoryTrace(
        summary=summary or None,
        summary_tokens=summary_tokens if summary else None,
        verbatim_count=sum(message.role == "user" for message in turns),
        total_tokens=sum(message.tokens for message in turns) + summary_tokens,
        compressed=draft.is_folded,
        compression_level=draft.plan.compression or None,
        turns=[
            # What was said is in the stored conversation, by the message's number.
            HistoryTurnTrace(turn_id=message.id or place, speaker=message.role, tokens=message.tokens)
            for place, message in enumerate(turns)
        ],
    )


def _tail(injection: Injection, plan: Plan) -> TailTrace:
    return TailTrace(
        facts={fact.key: fact.value for fact in injection.facts},
        context=[
            RecalledTrace(id=one.id, score=one.score, age_days=one.age_days, source=one.source)
            for one in injection.results
        ],
        focus=[part.id for part in plan.of("focus")],
    )


def _entities(plan: Plan) -> EntitiesTrace:
    parts = plan.of("entities")
    return EntitiesTrace(
        count=len(parts),
        total_tokens=plan.budget["entities"],
        items=[
            EntityTrace(
                entity_id=str(part.about.get("entity_id", part.id)),
                name=str(part.about.get("title", "")),
                type=str(part.about.get("type", "unknown")),
                relevance=_number(part, "relevance"),
                tokens=part.tokens,
                attributes=_attributes(part),
            )
            for part in parts
        ],
    )


def _rag(plan: Plan) -> RagTrace:
    parts = plan.of("knowledge")
    retrieved = plan.about.get("chunks_retrieved", 0)
    return RagTrace(
        query_used=str(plan.about.get("query_used", "")),
        chunks_retrieved=retrieved if isinstance(retrieved, int) else 0,
        chunks_selected=len(parts),
        reranking_used=bool(plan.about.get("reranking_used", False)),
        total_tokens=plan.budget["knowledge"],
        chunks=[
            ChunkTrace(
                chunk_id=str(part.about.get("chunk_id", part.id)),
                doc_title=str(part.about.get("title", "")),
                relevance=_number(part, "relevance"),
                tokens=part.tokens,
            )
            for part in parts
        ],
    )


def _number(part: Part, name: str) -> float:
    value = part.about.get(name, part.score)
    return float(value) if isinstance(value, (int, float)) else 0.0


def _attributes(part: Part) -> dict[str, str]:
    """The attributes that the shown form of an entity still has."""
    known = part.about.get("attributes")
    pairs: Iterable[tuple[object, object]] = known.items() if isinstance(known, Mapping) else ()
    return {str(key): str(value) for key, value in pairs if f"{key}: {value}" in part.text}
