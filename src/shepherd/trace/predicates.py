"""The predicates of context injection as MeTTa knows them: 28 names with what they take and give.

They head every export as atoms; who wants to call them from MeTTa, see shepherd.metta.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PREDICATES", "Predicate"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A function by its name, with the types of its arguments and of its result as MeTTa writes them."""

    name: str
    takes: tuple[str, ...]
    gives: str
    group: str

    @property
    def signature(self) -> str:
        """The type as an atom: `(: name (-> … …))`."""
        return f"(: {self.name} (-> {' '.join((*self.takes, self.gives))}))"


_ENTITIES = "(List ResolvedEntity)"
_RESULTS = "(List SearchResult)"
_PAIRS = "(List (Pair String String))"

# In the order of the groups; a line: name, what it takes, what it gives.
_GROUPS: tuple[tuple[str, tuple[tuple[str, tuple[str, ...], str], ...]], ...] = (
    (
        "context",
        (
            ("inject-context", ("String", "DialogueState", "KnowledgeBase", "Int"), "InjectedContext"),
            ("allocate-token-budget", ("String", "DialogueState", "Int"), "TokenBudget"),
            ("format-dialogue-history", ("DialogueState", "Int"), "FormattedHistory"),
            ("format-entity-context", ("DialogueState", _ENTITIES, "Int"), "(List EntityContext)"),
            ("retrieve-rag-chunks", ("String", _ENTITIES, "Int"), "(List KnowledgeChunk)"),
            ("build-system-prompt", ("UserPreferences", "AgentPersonality", "Int"), "String"),
        ),
    ),
    (
        "budget",
        (
            ("total-tokens", ("ContextContent",), "Int"),
            ("handle-overflow", ("ContextContent", "TokenBudget"), "ContextContent"),
            ("compress-content", ("ContextContent", "Int"), "ContextContent"),
            ("compression-level", ("Float",), "CompressionLevel"),
        ),
    ),
    (
        "history",
        (
            ("summarize-turns", ("(List Turn)", "Int"), "String"),
            ("format-recent-turns", ("(List Turn)",), "(List FormattedTurn)"),
            ("assemble-history", ("(Maybe String)", "(List FormattedTurn)"), "String"),
        ),
    ),
    (
        "entities",
        (
            ("select-entity-attributes", ("Entity", "Int"), _PAIRS),
            ("get-entity-relationships", ("Entity", "DialogueState"), "(List EntityRelationship)"),
            ("format-entity", ("Entity", "Float", _PAIRS), "EntityContext"),
        ),
    ),
    (
        "rag",
        (
            ("embed-query", ("String",), "(List Float)"),
            ("search-vector-index", ("(List Float)", "Int"), _RESULTS),
            ("apply-rag-boosts", (_RESULTS, _ENTITIES), _RESULTS),
            ("rerank-chunks", ("String", _RESULTS), _RESULTS),
            ("format-chunk", ("Chunk", "DocumentSource"), "String"),
        ),
    ),
    (
        "system",
        (
            ("format-personality", ("AgentPersonality",), "String"),
            ("format-preferences", ("UserPreferences",), "String"),
            ("truncate-system-prompt", ("(List String)", "Int"), "String"),
        ),
    ),
    (
        "compression",
        (
            ("simplify-formatting", ("FormattedHistory",), "FormattedHistory"),
            ("aggressive-summarize", ("FormattedHistory",), "FormattedHistory"),
            ("reduce-entity-detail", ("(List EntityContext)",), "(List EntityContext)"),
            ("select-top-chunks", ("(List KnowledgeChunk)", "Int"), "(List KnowledgeChunk)"),
        ),
    ),
)

PREDICATES = tuple(
    Predicate(name, takes, gives, group) for group, lines in _GROUPS for name, takes, gives in lines
)
