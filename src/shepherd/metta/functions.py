"""The 28 predicates, implemented by the functions that plan a turn, over the values of MeTTa.

    (DialogueState (turns (Turn …)) (entities (Entity …)) (summary "…"))
    (Entity (entity_id 7) (name "Ann") (type person) (attributes ((Pair "email" "a@b"))) (relations
        ((EntityRelationship (relation "works at") (target 8)))))
    (ResolvedEntity (entity_id 7) (confidence 0.9))
    (SearchResult (chunk_id 5) (title "Notes") (text "…") (score 0.8) (date "2025-01-31"))
    (UserPreferences (style "formal") (verbosity "concise") (level "expert") (lines ("…")))
    an AgentPersonality is text or a symbol: helpful, conversational, "expert in law", or a description

Every field but the first is optional. The host has the knowledge; a KnowledgeBase has no fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from shepherd.entities import Entity, EntityRegistry
from shepherd.entities.ranking import EntityText, Ranked, entity_text, fit_entities, rank_entities
from shepherd.entities.records import ENTITY_TYPES, Attribute, EntityType, Relation, Resolved
from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.blocks import chunk_block
from shepherd.knowledge.records import ChunkResult
from shepherd.knowledge.retrieval import boosted, reranked
from shepherd.metta import content as shapes
from shepherd.metta.values import Record, Symbol, Value, as_text
from shepherd.prompt.allocation import allocate, dynamic_weights
from shepherd.prompt.compression import at_level, compress, level_for, simplified
from shepherd.prompt.one_shot import build_one_shot
from shepherd.prompt.plan import Category, Part
from shepherd.prompt.summary import turns_left_out
from shepherd.prompt.system_prompt import BASE_INSTRUCTIONS, Preferences, personality, preferences_block
from shepherd.trace import PREDICATES
from shepherd.transactions import Transactions

__all__ = ["Host", "functions", "host_of"]

_T = TypeVar("_T")

_RETRIEVED = 20
_RECENCY, _ENTITIES = 1.0, 1.0
_NEVER = 1 << 30


def _estimated(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // 4)


@dataclass(frozen=True, slots=True)
class Host:
    """Environment of the predicates. Without a tokenizer four bytes count as a token.

    `embed` returns the vector of a text, `search_vectors` the chunks nearest to a vector, `rerank` orders
    chunks for a query, `summarize` summarises a text in so many tokens.
    """

    count_tokens: Callable[[str], int] = _estimated
    knowledge: Knowledge | None = None
    embed: Callable[[str], Sequence[float]] | None = None
    search_vectors: Callable[[Sequence[float], int], Sequence[ChunkResult]] | None = None
    rerank: Callable[[str, Sequence[ChunkResult]], Sequence[ChunkResult]] | None = None
    summarize: Callable[[str, int], str] | None = None


def host_of(
    transactions: Transactions,
    user_id: str,
    *,
    count_tokens: Callable[[str], int] = _estimated,
    summarize: Callable[[str, int], str] | None = None,
) -> Host:
    """Return the host of one user's knowledge, with the embedder and the reranker of its database."""
    knowledge = Knowledge(transactions, user_id, count_tokens=count_tokens)
    meaning, reranker = transactions.meaning, transactions.reranker

    def embed(text: str) -> Sequence[float]:
        vector = None if meaning is None else meaning.embed_query(text)
        return [float(x) for x in _needed(vector, "embedder")]

    return Host(
        count_tokens,
        knowledge,
        embed=None if meaning is None else embed,
        search_vectors=None if meaning is None else knowledge.nearest,
        rerank=None if reranker is None else partial(reranked, reranker),
        summarize=summarize,
    )


def functions(host: Host) -> Mapping[str, Callable[..., Value]]:
    """Return the predicates by name, for `Metta`."""
    own = _Predicates(host)
    return {one.name: partial(_call, getattr(own, one.name.replace("-", "_"))) for one in PREDICATES}


def _call(predicate: Callable[..., Value], *arguments: Value) -> Value:
    return predicate(*map(shapes.checked, arguments))


class _Predicates:
    """The predicates as methods, under their names with underscores."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._count = host.count_tokens

    # ---- the whole

    def inject_context(self, query: str, state: Record, knowledge: Value, max_tokens: int) -> Record:
        """Build a one-shot prompt and return it with its content."""
        resolved = [Record("ResolvedEntity", {"entity_id": entity.id}) for entity in _registry(state)]
        candidates = self._history_candidates(state)
        candidates += [_named(one, "entities") for one in self.format_entity_context(state, resolved, _NEVER)]
        candidates += [_named(one, "knowledge") for one in self.retrieve_rag_chunks(query, resolved, _NEVER)]
        built = build_one_shot(
            query, BASE_INSTRUCTIONS, candidates, max_tokens=int(max_tokens), count=self._count
        )
        content = shapes.content_of(built.plan.chosen, self._count)
        return Record("InjectedContext", {"text": built.text, "tokens": built.tokens, "content": content})

    def allocate_token_budget(self, query: str, state: Record, total: int) -> Record:
        turns = shapes.listed(state.get("turns"))
        entities = shapes.listed(state.get("entities"))
        used = {"system": self._count(BASE_INSTRUCTIONS), "query": self._count(query)}
        room = max(int(total) - sum(used.values()), 0)
        wanted: dict[Category, int] = {
            "history": sum(part.tokens or self._measure(part) for part in self._history_candidates(state)),
            "entities": room if entities else 0,
            "knowledge": room if self._host.knowledge is not None else 0,
        }
        given = allocate(wanted, room, weights=dynamic_weights(turns=len(turns), entities=len(entities)))
        return Record(
            "TokenBudget",
            {
                "total": int(total),
                "system": used["system"],
                "history": given["history"],
                "entities": given["entities"],
                "rag": given["knowledge"],
                "query": used["query"],
            },
        )

    def total_tokens(self, content: Record) -> int:
        return sum(self._measure(part) for part in shapes.parts_of(content))

    def handle_overflow(self, content: Record, budget: Record) -> Record:
        """Compress each category to its own budget; the system part and the query stay whole."""
        parts = shapes.parts_of(content)
        kept: list[Part] = []
        for category, name in (("history", "history"), ("entities", "entities"), ("knowledge", "rag")):
            some = [part for part in parts if part.category == category]
            most = budget.get(name)
            kept += some if most is None else self._compressed(some, int(most))
        fixed = [part for part in parts if part.category in ("system", "query")]
        return shapes.content_of([*kept, *fixed], self._count)

    def compress_content(self, content: Record, max_tokens: int) -> Record:
        return shapes.content_of(self._compressed(shapes.parts_of(content), int(max_tokens)), self._count)

    def compression_level(self, reduction: float) -> Symbol:
        return Symbol(level_for(float(reduction)))

    # ---- history

    def format_dialogue_history(self, state: Record, max_tokens: int) -> Record:
        parts = self._compressed(self._history_candidates(state), int(max_tokens))
        return shapes.history_of(parts, self._count)

    def summarize_turns(self, turns: Value, max_tokens: int) -> str:
        lines = [turn.text("text") for turn in _formatted(turns)]
        if self._host.summarize is not None and lines:
            return self._cut(self._host.summarize("\n".join(lines), int(max_tokens)), int(max_tokens))
        return self._cut(turns_left_out(len(lines)), int(max_tokens)) if lines else ""

    def format_recent_turns(self, turns: Value) -> list[Record]:
        return _formatted(turns)

    def assemble_history(self, summary: Value, turns: Value) -> str:
        label = shapes.summary_part(as_text(summary, "a summary")).text if summary else None
        return shapes.history_text(label, [turn.text("text") for turn in shapes.listed(turns)])

    def simplify_formatting(self, history: Record) -> Record:
        """Simplify the turns of a history, or a history that is one text."""
        if not (history.get("summary") or shapes.listed(history.get("recent_turns"))):
            text = simplified(history.text("text"))
            return Record("FormattedHistory", {"text": text, "tokens": self._count(text)})
        return self._history_at("light", history)

    def aggressive_summarize(self, history: Record) -> Record:
        return self._history_at("heavy", history)

    # ---- entities

    def format_entity_context(self, state: Record, resolved: Value, max_tokens: int) -> list[Value]:
        registry = _registry(state)
        found = [
            Resolved(int(one.get("entity_id", 0)), 0, 0, float(one.get("confidence", 1.0)))
            for one in shapes.listed(resolved)
        ]
        fitted = fit_entities(registry, rank_entities(registry, found), self._count, int(max_tokens))
        return [self._entity(text, registry) for text in fitted]

    def format_entity(self, entity: Record, relevance: float, attributes: Value) -> Record:
        pairs = [tuple(pair) for pair in shapes.listed(attributes)]
        known = Record("Entity", {**entity.fields, "attributes": pairs, "relations": []})
        shown = _shown(known, relevance=float(relevance), n=len(pairs))
        return self._entity(shown, EntityRegistry([_entity(known)]))

    def select_entity_attributes(self, entity: Record, n: int) -> list[Value]:
        return list(_shown(entity, n=n).attributes)

    def get_entity_relationships(self, entity: Record, state: Record) -> list[Value]:
        return _relationships(entity, state)

    def reduce_entity_detail(self, entities: Value) -> list[Value]:
        content = Record("ContextContent", {"entities": shapes.listed(entities)})
        less = at_level(shapes.parts_of(content), "medium", self._measure)
        return [shapes.entity_record(part, self._count) for part in less]

    # ---- knowledge

    def retrieve_rag_chunks(self, query: str, resolved: Value, max_tokens: int) -> list[Value]:
        if self._host.knowledge is None:
            return []
        found = self._host.knowledge.search(query, _RETRIEVED)
        found = _with_boosts(found, [one.text("name") for one in shapes.listed(resolved)])
        if self._host.rerank is not None:
            found = list(self._host.rerank(query, found))
        room, kept = int(max_tokens), []
        for chunk in found:
            about = {"chunk_id": chunk.id, "title": chunk.title}
            part = Part(
                "knowledge", f"chunk:{chunk.id}", chunk_block(chunk), score=chunk.relevance, about=about
            )
            if self._measure(part) <= room:
                room -= self._measure(part)
                kept.append(shapes.chunk_record(part, self._count))
        return kept

    def embed_query(self, query: str) -> list[Value]:
        return [float(x) for x in _needed(self._host.embed, "embedder")(query)]

    def search_vector_index(self, vector: Value, n: int) -> list[Value]:
        search = _needed(self._host.search_vectors, "index of vectors")
        return [_result(one) for one in search([float(x) for x in shapes.listed(vector)], int(n))]

    def apply_rag_boosts(self, results: Value, resolved: Value) -> list[Value]:
        chunks = [_chunk(one) for one in shapes.listed(results)]
        names = [one.text("name") for one in shapes.listed(resolved)]
        return [_result(one) for one in _with_boosts(chunks, names)]

    def rerank_chunks(self, query: str, results: Value) -> list[Value]:
        """Sort by the host's reranker, or without one by score."""
        chunks = sorted((_chunk(one) for one in shapes.listed(results)), key=lambda chunk: -chunk.score)
        if self._host.rerank is not None:
            chunks = list(self._host.rerank(query, chunks))
        return [_result(one) for one in chunks]

    def format_chunk(self, chunk: Record, source: Record) -> str:
        return chunk_block(_chunk(chunk, source))

    def select_top_chunks(self, chunks: Value, n: int) -> list[Value]:
        return _top(shapes.listed(chunks), int(n))

    # ---- the system part

    def format_personality(self, wanted: Value) -> str:
        return _personality(wanted)

    def format_preferences(self, wanted: Record) -> str:
        return preferences_block(_preferences(wanted), lambda block: True)

    def build_system_prompt(self, wanted: Record, who: Value, max_tokens: int) -> str:
        base = "\n\n".join(filter(None, [BASE_INSTRUCTIONS, _personality(who)]))
        block = preferences_block(
            _preferences(wanted), lambda shown: self._count(f"{base}\n\n{shown}") <= int(max_tokens)
        )
        return f"{base}\n\n{block}" if block else base

    def truncate_system_prompt(self, sections: Value, max_tokens: int) -> str:
        """Join as many sections as fit, from the first on; the first always stays."""
        kept = [as_text(section, "a section") for section in shapes.listed(sections)]
        while len(kept) > 1 and self._count("\n\n".join(kept)) > int(max_tokens):
            kept.pop()
        return "\n\n".join(kept)

    # ---- what they share

    def _measure(self, part: Part) -> int:
        return shapes.measured(part, self._count)

    def _compressed(self, parts: Sequence[Part], most: int) -> Sequence[Part]:
        # A budget below zero leaves no more room than none.
        return compress(parts, max(most, 0), self._measure, summarize=self._host.summarize).parts

    def _history_candidates(self, state: Record) -> list[Part]:
        turns = _formatted(state.get("turns"))
        history = Record("FormattedHistory", {"summary": state.get("summary"), "recent_turns": turns})
        return shapes.history_parts(history)

    def _history_at(self, level: str, history: Record) -> Record:
        parts = shapes.history_parts(history)
        summarize = self._host.summarize
        known = at_level(parts, "light" if level == "light" else "heavy", self._measure, summarize)
        return shapes.history_of(known, self._count)

    def _entity(self, text: EntityText, registry: EntityRegistry) -> Record:
        less = entity_text(
            registry, Ranked(registry[text.entity_id], text.relevance), max_attributes=0, relations=False
        )
        shorter = (less.text,) if less.text != text.text else ()
        about = {"entity_id": text.entity_id}
        part = Part(
            "entities",
            f"entity:{text.entity_id}",
            text.text,
            score=text.relevance,
            shorter=shorter,
            about=about,
        )
        return shapes.entity_record(part, self._count)

    def _cut(self, text: str, most: int) -> str:
        words = text.split()
        while words and self._count(" ".join(words)) > most:
            words.pop()
        return " ".join(words)


# ---- without the host


def _formatted(turns: Value) -> list[Record]:
    return [shapes.formatted_turn(turn, place) for place, turn in enumerate(shapes.listed(turns))]


def _top(chunks: list[Record], n: int) -> list[Value]:
    content = Record("ContextContent", {"rag_chunks": chunks})
    distinct = {part.id for part in at_level(shapes.parts_of(content), "light", lambda part: 1)}
    kept = [chunk for chunk in chunks if f"chunk:{chunk.get('chunk_id', '')}" in distinct]
    return sorted(kept, key=lambda chunk: -float(chunk.get("relevance", 0.0)))[: max(n, 0)]


def _relationships(entity: Record, state: Record) -> list[Value]:
    names = {one.get("entity_id"): one.text("name") for one in shapes.listed(state.get("entities"))}
    return [
        Record(
            "EntityRelationship",
            {
                "relation": one.text("relation"),
                "target": one.get("target"),
                "name": names[one.get("target")],
            },
        )
        for one in shapes.listed(entity.get("relations"))
        if one.get("target") in names
    ]


def _registry(state: Record) -> EntityRegistry:
    return EntityRegistry([_entity(one) for one in shapes.listed(state.get("entities"))])


def _entity(record: Record) -> Entity:
    kind: EntityType = next((one for one in ENTITY_TYPES if one == record.text("type").lower()), "unknown")
    pairs = [tuple(pair) for pair in shapes.listed(record.get("attributes"))]
    return Entity(
        int(record.get("entity_id", 0)),
        record.text("name"),
        kind,
        description=record.text("description"),
        attributes=tuple(Attribute(str(name), str(value)) for name, value in pairs),
        relations=tuple(
            Relation(one.text("relation"), int(one.get("target", 0)))
            for one in shapes.listed(record.get("relations"))
        ),
        salience=float(record.get("salience", 1.0)),
    )


def _shown(entity: Record, *, relevance: float = 1.0, n: int = 0) -> EntityText:
    known = _entity(entity)
    return entity_text(EntityRegistry([known]), Ranked(known, relevance), max_attributes=int(n))


def _named(record: Record, category: Category) -> Part:
    key = "entities" if category == "entities" else "rag_chunks"
    return shapes.parts_of(Record("ContextContent", {key: [record]}))[0]


def _chunk(record: Record, source: Record | None = None) -> ChunkResult:
    score = float(record.get("score", record.get("relevance", 0.0)))
    about = source if isinstance(source, Record) else record
    return ChunkResult(
        id=int(record.get("chunk_id", 0)),
        node_id=int(record.get("node_id", 0)),
        title=about.text("title"),
        part="text",
        idx=0,
        start_char=0,
        end_char=len(record.text("text")),
        text=record.text("text"),
        score=score,
        relevance=score,
        date=about.text("date"),
    )


def _result(chunk: ChunkResult) -> Record:
    return Record(
        "SearchResult",
        {
            "chunk_id": chunk.id,
            "title": chunk.title,
            "text": chunk.text,
            "score": chunk.score,
            "date": chunk.date,
        },
    )


def _with_boosts(chunks: Sequence[ChunkResult], names: Sequence[str]) -> list[ChunkResult]:
    return boosted(chunks, now=time.time(), entities=names, recency_weight=_RECENCY, entity_weight=_ENTITIES)


def _personality(wanted: Value) -> str:
    """Return the sentence of `helpful`, (Expert "law"), (Custom "…"), or a text that describes itself."""
    if isinstance(wanted, Record) and wanted.type in ("Expert", "Custom"):
        wanted = [Symbol(wanted.type), next(iter(wanted.fields.values()), "")]
    if isinstance(wanted, list) and len(wanted) == 2 and isinstance(wanted[1], str):
        if wanted[0] == "Expert":
            return personality(f"expert in {wanted[1]}")
        if wanted[0] == "Custom":
            return personality(wanted[1])
    if not isinstance(wanted, str):
        raise UsageError(
            "not a personality", hint='helpful, conversational, (Expert "…"), (Custom "…") or text'
        )
    return personality(wanted.lower() if isinstance(wanted, Symbol) else wanted)


_FORMATS = {
    "use_bullets": "bullets",
    "use_numbered_lists": "numbered lists",
    "include_code_blocks": "code blocks",
    "include_links": "links",
}


def _preferences(wanted: Record) -> Preferences:
    formatting = wanted.get("formatting")
    if isinstance(formatting, Record):
        formats = [_FORMATS[name] for name, is_wanted in formatting.fields.items() if is_wanted is True]
    else:
        formats = [as_text(one, "a format") for one in shapes.listed(formatting)]
    return Preferences(
        wanted.text("style").lower(),
        wanted.text("verbosity").lower(),
        wanted.text("level").lower(),
        tuple(formats),
        tuple(as_text(line, "a line") for line in shapes.listed(wanted.get("lines"))),
    )


def _needed(tool: _T | None, what: str) -> _T:
    if tool is None:
        raise UsageError(f"there is no {what} here")
    return tool
