"""From a plan to the record of a turn. Pure: the same plan gives the same record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shepherd.context.parts import Category, Part, Plan, Share
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
from shepherd.types import Injection, Message

__all__ = ["turn_trace"]

_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_SUMMARY = "summary"


def turn_trace(
    plan: Plan,
    injection: Injection | None = None,
    *,
    model: str = "",
    history: Sequence[Message] = (),
    system: SystemTrace | None = None,
    prompt: str | None = None,
    timings_ms: Mapping[str, float] | None = None,
) -> TurnTrace:
    """What a turn showed, after it was planned.

    `injection` has the facts and memories of the tail. `history` are the messages before the newest one that
    a chat's prompt held: their texts are in the stored session, so ids and tokens are enough here. `system`
    says what the first part was made of. `prompt` is the text as a whole; see paths_of for what is kept of
    it. `timings_ms` are added to the plan's own.
    """
    shares = {share.category: share for share in plan.shares}
    timings = {f"{name}_us": value for name, value in plan.timings_us.items()}
    timings |= {f"{name}_ms": value for name, value in (timings_ms or {}).items()}
    return TurnTrace(
        model=model or None,
        budget=_budget(plan, shares),
        system=system or SystemTrace(total_tokens=_used(shares, "system")),
        history=_history(plan, shares, history),
        tail=_tail(plan, injection or Injection()),
        entities=_entities(plan, shares),
        rag=_rag(plan, shares),
        assembled=AssembledTrace(
            full_prompt=prompt,
            total_tokens=plan.total_tokens,
            under_budget=plan.total_tokens + plan.reserve_tokens <= plan.window_tokens,
        ),
        left_out=[
            LeftOutTrace(id=left.part.id, category=left.part.category, reason=left.reason)
            for left in plan.left_out
        ],
        warnings=plan.warnings,
        timings=timings,
    )


def _budget(plan: Plan, shares: Mapping[Category, Share]) -> BudgetTrace:
    granted = {category: share.granted for category, share in shares.items()}
    return BudgetTrace(
        total=plan.window_tokens,
        system=granted.get("system", 0),
        history=granted.get("history", 0),
        entities=granted.get("entities", 0),
        rag=granted.get("knowledge", 0),
        query=granted.get("query", 0),
        facts=granted.get("memory", 0),
        focus=granted.get("focus", 0),
        reserve=plan.reserve_tokens,
        strategy=plan.strategy,
    )


def _history(plan: Plan, shares: Mapping[Category, Share], messages: Sequence[Message]) -> HistoryTrace:
    summary = next((part for part in plan.of("history") if part.id == _SUMMARY), None)
    parts = [part for part in plan.of("history") if part.id != _SUMMARY]
    turns = [
        HistoryTurnTrace(
            turn_id=message.id or place,
            speaker=_SPEAKERS.get(message.role, message.role),
            tokens=message.tokens,
        )
        for place, message in enumerate(messages)
    ]
    turns += [
        HistoryTurnTrace(
            turn_id=_text(part, "turn_id") or part.id,
            speaker=_SPEAKERS.get(speaker := _text(part, "speaker"), speaker),
            tokens=part.tokens,
            content=part.text,
        )
        for part in parts
    ]
    return HistoryTrace(
        summary=None if summary is None else summary.text,
        summary_tokens=None if summary is None else summary.tokens,
        verbatim_count=len(turns),
        total_tokens=_used(shares, "history"),
        compressed=bool(plan.compression),
        compression_level=plan.compression or None,
        turns=turns,
    )


def _entities(plan: Plan, shares: Mapping[Category, Share]) -> EntitiesTrace:
    items = [
        EntityTrace(
            entity_id=part.id.removeprefix("entity:"),
            name=_text(part, "title"),
            type=_text(part, "type"),
            relevance=_relevance(part),
            tokens=part.tokens,
            attributes=_mapping(part, "attributes"),
        )
        for part in plan.of("entities")
    ]
    return EntitiesTrace(count=len(items), total_tokens=_used(shares, "entities"), items=items)


def _rag(plan: Plan, shares: Mapping[Category, Share]) -> RagTrace:
    chunks = [
        ChunkTrace(
            chunk_id=part.id.removeprefix("chunk:"),
            doc_title=_text(part, "title"),
            relevance=_relevance(part),
            tokens=part.tokens,
        )
        for part in plan.of("knowledge")
    ]
    retrieved = plan.about.get("chunks_retrieved", len(chunks))
    return RagTrace(
        query_used=str(plan.about.get("query_used", "")),
        chunks_retrieved=retrieved if isinstance(retrieved, int) else len(chunks),
        chunks_selected=len(chunks),
        reranking_used=bool(plan.about.get("reranking_used", False)),
        total_tokens=_used(shares, "knowledge"),
        chunks=chunks,
    )


def _tail(plan: Plan, injection: Injection) -> TailTrace:
    return TailTrace(
        facts={fact.key: fact.value for fact in injection.facts},
        context=[
            RecalledTrace(
                id=result.id, score=result.score, age_days=result.age_days, source=result.source or "memory"
            )
            for result in injection.results
        ],
        focus=[part.id for part in plan.of("focus")],
    )


def _used(shares: Mapping[Category, Share], category: Category) -> int:
    share = shares.get(category)
    return 0 if share is None else share.used


def _relevance(part: Part) -> float:
    value = part.about.get("relevance", part.score)
    return float(value) if isinstance(value, (int, float)) else part.score


def _text(part: Part, name: str) -> str:
    value = part.about.get(name, "")
    return "" if value is None else str(value)


def _mapping(part: Part, name: str) -> dict[str, str]:
    value = part.about.get(name)
    return {str(key): str(item) for key, item in value.items()} if isinstance(value, Mapping) else {}
