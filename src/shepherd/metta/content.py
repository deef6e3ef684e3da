"""Records of the signatures (ContextContent, Turn, EntityContext …): their fields, and parts of a plan.

(Turn (turn_id 3) (speaker "User") (content "Hello"))
(FormattedTurn (turn_id 3) (text "User: Hello"))
(FormattedHistory (summary "…") (recent_turns (…)) (text "…") (tokens 40))
(EntityContext (entity_id 7) (text "• Ann (Person)") (relevance 0.9) (shorter ("…")) (tokens 6))
(KnowledgeChunk (chunk_id 5) (title "Notes") (text "Source: Notes …") (relevance 0.8) (tokens 60))
(ContextContent (system "…") (history FormattedHistory) (entities (…)) (rag_chunks (…)) (query "…"))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from shepherd.errors import UsageError
from shepherd.escaping import escape_lines
from shepherd.metta.values import Record, Symbol, Value, as_text
from shepherd.prompt.plan import Category, Part
from shepherd.prompt.rendering import RECENT, separated
from shepherd.prompt.summary import Summary

__all__ = [
    "checked",
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


# Fields of each record, with their other names.
_FIELDS: dict[str, dict[str, tuple[str, ...]]] = {
    "AgentPersonality": {"description": ("domain",)},
    "Chunk": {
        "chunk_id": (),
        "text": ("content",),
        "node_id": ("doc_id",),
        "score": ("relevance",),
        "title": (),
        "date": (),
    },
    "ContextContent": {"system": (), "history": (), "entities": (), "rag_chunks": (), "query": ()},
    "Custom": {"description": ()},
    "DialogueState": {"turns": (), "entities": ("entity_registry",), "summary": (), "topics": ()},
    "DocumentSource": {"node_id": ("doc_id",), "title": (), "date": (), "url": (), "doc_type": ()},
    "Entity": {
        "entity_id": ("id",),
        "name": ("canonical_name",),
        "type": ("entity_type",),
        "description": (),
        "attributes": (),
        "relations": ("relationships",),
        "salience": (),
    },
    "EntityContext": {
        "entity_id": (),
        "text": ("formatted",),
        "relevance": (),
        "shorter": (),
        "tokens": ("token_count",),
        "name": (),
        "entity_type": (),
        "description": (),
        "attributes": (),
        "relationships": (),
    },
    "EntityRelationship": {"relation": (), "target": ("target_id",), "name": ("target_name",)},
    "Expert": {"domain": ()},
    "FormattedHistory": {"summary": (), "recent_turns": (), "text": (), "tokens": ("token_count",)},
    "FormattedTurn": {"turn_id": (), "text": ("formatted",), "speaker": (), "content": ()},
    "FormattingPreferences": {
        "use_bullets": (),
        "use_numbered_lists": (),
        "include_code_blocks": (),
        "include_links": (),
    },
    "InjectedContext": {"text": ("formatted",), "tokens": ("token_count",), "content": ()},
    "KnowledgeBase": {},
    "KnowledgeChunk": {
        "chunk_id": (),
        "title": (),
        "text": ("formatted", "content"),
        "relevance": (),
        "tokens": ("token_count",),
        "source": (),
    },
    "ResolvedEntity": {"entity_id": (), "confidence": (), "name": ("canonical_name",)},
    "SearchResult": {
        "chunk_id": (),
        "title": (),
        "text": ("content",),
        "score": ("relevance",),
        "date": ("document_date",),
        "source": (),
    },
    "TokenBudget": {"total": (), "system": (), "history": (), "entities": (), "rag": (), "query": ()},
    "Turn": {
        "turn_id": (),
        "speaker": (),
        "content": ("corrected_text", "raw_text"),
        "timestamp": (),
        "speech_act": (),
    },
    "UserPreferences": {
        "style": (),
        "verbosity": (),
        "level": ("technical_level",),
        "formatting": (),
        "lines": ("custom_instructions",),
    },
}


def checked(value: Value) -> Value:
    """Return a value whose records have the names of fields used here; UsageError for unknown ones.

    Where a record has a field under several names, the first in the table counts.
    """
    if isinstance(value, list):
        return [checked(part) for part in value]
    if not isinstance(value, Record):
        return value
    if value.type not in _FIELDS:
        raise UsageError(f"no record is called {value.type!r}", hint="records: " + ", ".join(_FIELDS))
    known = {other: name for name, others in _FIELDS[value.type].items() for other in (name, *others)}
    for name in value.fields:
        if name not in known:
            raise UsageError(
                f"{value.type} has no field {name!r}", hint="fields: " + (", ".join(known) or "none")
            )
    fields: dict[str, Value] = {}
    for name, own in known.items():
        if name in value.fields and own not in fields:
            fields[own] = checked(value.fields[name])
    return Record(value.type, fields)


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
    """Return a Turn as text, `Speaker: text`. The speaker is a text, a symbol or (Named "Ann")."""
    speaker = turn.get("speaker")
    if isinstance(speaker, list) and len(speaker) == 2 and isinstance(speaker[0], Symbol):
        speaker = speaker[1]
    name = as_text(speaker, "speaker of Turn") or "User"
    text = f"{name}: {escape_lines(turn.text('content'), _LONGEST_TURN)}"
    return Record("FormattedTurn", {"turn_id": turn.get("turn_id", place), "text": text})


def summary_part(text: str) -> Part:
    """Return the part of a summary, whose label is added once."""
    return Part("history", _SUMMARY, text if text.startswith("[") else Summary((text,)).text)


def history_parts(history: Record) -> list[Part]:
    """Return the summary and the turns of a FormattedHistory as parts; of one with a text alone its lines."""
    summary, turns = history.text("summary"), listed(history.get("recent_turns"))
    if not summary and not turns:
        summary, turns = _parsed(history.text("text"))
    parts = [summary_part(summary)] if summary else []
    for place, turn in enumerate(turns):
        turn_id = turn.get("turn_id", place)
        parts.append(
            Part("history", f"turn:{turn_id}:{place}", turn.text("text"), about={"turn_id": turn_id})
        )
    return parts


def _parsed(text: str) -> tuple[str, list[Record]]:
    """Split the text of a history into its summary and a turn for each line."""
    summary, _, rest = text.partition("]\n\n") if text.startswith("[") else ("", "", text)
    lines = rest.removeprefix(f"{RECENT}\n").splitlines()
    return f"{summary}]" if summary else "", [
        Record("FormattedTurn", {"text": line}) for line in lines if line
    ]


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
        shorter=tuple(as_text(one, "shorter") for one in listed(record.get("shorter"))),
        about={f"{prefix}_id": own_id, "title": record.text("title")},
    )
