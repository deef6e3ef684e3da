"""Records of the signatures (ContextContent, Turn, EntityContext …) as parts of a plan, and back.

(Turn (turn_id 3) (speaker "User") (content "Hello"))
(FormattedTurn (turn_id 3) (text "User: Hello"))
(FormattedHistory (summary "…") (recent_turns (…)) (text "…") (tokens 40))
(EntityContext (entity_id 7) (text "• Ann (Person)") (relevance 0.9) (shorter ("…")) (tokens 6))
(KnowledgeChunk (chunk_id 5) (title "Notes") (text "Source: Notes …") (relevance 0.8) (tokens 60))
(ContextContent (system "…") (history FormattedHistory) (entities (…)) (rag_chunks (…)) (query "…"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shepherd.escaping import escape_lines
from shepherd.metta.values import Record, Value
from shepherd.prompt.plan import RECENT, Category, Part, separated
from shepherd.prompt.summary import Summary

__all__ = [
    "chunk_record",
    "content_of",
    "entity_record",
    "formatted_turn",
    "history_of",
    "history_parts",
    "history_text",
    "listed",
    "measured",
    "parts_of",
    "summary_part",
]

Count = Callable[[str], int]
_LONGEST_TURN = 20_000
_SUMMARY = "summary"


def listed(value: Value) -> list[Value]:
    """Return a list that MeTTa gave; an empty one may come as any empty value."""
    return list(value) if isinstance(value, (list, tuple)) else []


def measured(part: Part, count: Count) -> int:
    """Return the tokens of a part with its separator."""
    return count(separated(part))


def parts_of(content: Record) -> list[Part]:
    """Return the parts of a ContextContent, in the order of the prompt."""
    parts = [Part("system", "system", content.text("system"))] if content.get("system") else []
    history = content.get("history")
    if isinstance(history, Record):
        parts += history_parts(history)
    parts += [_part("entities", "entity", one) for one in listed(content.get("entities"))]
    parts += [_part("knowledge", "chunk", one) for one in listed(content.get("rag_chunks"))]
    if content.get("query"):
        parts.append(Part("query", "query", content.text("query")))
    return parts


def content_of(parts: Sequence[Part], count: Count) -> Record:
    """Return the parts as a ContextContent."""
    by_category: dict[Category, list[Part]] = {}
    for part in parts:
        by_category.setdefault(part.category, []).append(part)
    texts = {c: "\n\n".join(part.text for part in by_category.get(c, ())) for c in ("system", "query")}
    return Record(
        "ContextContent",
        {
            "system": texts["system"],
            "history": history_of(by_category.get("history", []), count),
            "entities": [entity_record(part, count) for part in by_category.get("entities", ())],
            "rag_chunks": [chunk_record(part, count) for part in by_category.get("knowledge", ())],
            "query": texts["query"],
        },
    )


def formatted_turn(turn: Record, place: int) -> Record:
    """Return a Turn as text, `Speaker: text`."""
    text = f"{turn.text('speaker') or 'User'}: {escape_lines(turn.text('content'), _LONGEST_TURN)}"
    return Record("FormattedTurn", {"turn_id": turn.get("turn_id", place), "text": text})


def summary_part(text: str) -> Part:
    """Return the part of a summary, whose label is added once."""
    return Part("history", _SUMMARY, text if text.startswith("[") else Summary((text,)).text)


def history_parts(history: Record) -> list[Part]:
    """Return the summary and the turns of a FormattedHistory as parts."""
    summary = history.get("summary")
    parts = [summary_part(str(summary))] if summary else []
    for place, turn in enumerate(listed(history.get("recent_turns"))):
        turn_id = turn.get("turn_id", place)
        parts.append(
            Part("history", f"turn:{turn_id}:{place}", turn.text("text"), about={"turn_id": turn_id})
        )
    return parts


def history_of(parts: Sequence[Part], count: Count) -> Record:
    """Return the parts of a history as a FormattedHistory."""
    turns = [
        Record("FormattedTurn", {"turn_id": part.about.get("turn_id", place), "text": part.text})
        for place, part in enumerate(part for part in parts if part.id != _SUMMARY)
    ]
    summary = next((part.text for part in parts if part.id == _SUMMARY), None)
    text = history_text(summary, [turn.text("text") for turn in turns])
    return Record(
        "FormattedHistory", {"summary": summary, "recent_turns": turns, "text": text, "tokens": count(text)}
    )


def history_text(summary: str | None, turns: Sequence[str]) -> str:
    """Return the summary, a blank line, and the turns under their headline; empty ones are omitted."""
    recent = "\n".join([RECENT, *turns]) if turns else ""
    return "\n\n".join(filter(None, [summary, recent]))


def entity_record(part: Part, count: Count) -> Record:
    """Return the part of an entity as an EntityContext."""
    return Record(
        "EntityContext",
        {
            "entity_id": part.about.get("entity_id", part.id.removeprefix("entity:")),
            "text": part.text,
            "relevance": part.score,
            "shorter": list(part.shorter),
            "tokens": measured(part, count),
        },
    )


def chunk_record(part: Part, count: Count) -> Record:
    """Return the part of a passage as a KnowledgeChunk."""
    return Record(
        "KnowledgeChunk",
        {
            "chunk_id": part.about.get("chunk_id", part.id.removeprefix("chunk:")),
            "title": str(part.about.get("title", "")),
            "text": part.text,
            "relevance": part.score,
            "tokens": measured(part, count),
        },
    )


def _part(category: Category, prefix: str, record: Record) -> Part:
    own_id = record.get(f"{prefix}_id", "")
    return Part(
        category,
        f"{prefix}:{own_id}",
        record.text("text"),
        score=float(record.get("relevance", 0.0)),
        shorter=tuple(map(str, listed(record.get("shorter")))),
        about={f"{prefix}_id": own_id, "title": record.text("title")},
    )
