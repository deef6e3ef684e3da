"""What each turn showed the model and why, as paths with values.

It knows paths, values and their text forms, not how a turn is planned: who plans fills a TurnTrace.
"""

from shepherd.trace.diffing import Change, diff
from shepherd.trace.paths import Value, encode_segment, shown_path, turn_path
from shepherd.trace.predicates import PREDICATES, Predicate
from shepherd.trace.records import (
    AssembledTrace,
    BudgetTrace,
    ChunkTrace,
    EntitiesTrace,
    EntityTrace,
    HistoryTrace,
    HistoryTurnTrace,
    RagTrace,
    RecalledTrace,
    SystemTrace,
    TailTrace,
    TurnTrace,
    paths_of,
)
from shepherd.trace.traces import KEPT_TURNS, Traces

__all__ = [
    "KEPT_TURNS",
    "PREDICATES",
    "AssembledTrace",
    "BudgetTrace",
    "Change",
    "ChunkTrace",
    "EntitiesTrace",
    "EntityTrace",
    "HistoryTrace",
    "HistoryTurnTrace",
    "Predicate",
    "RagTrace",
    "RecalledTrace",
    "SystemTrace",
    "TailTrace",
    "Traces",
    "TurnTrace",
    "Value",
    "diff",
    "encode_segment",
    "paths_of",
    "shown_path",
    "turn_path",
]
