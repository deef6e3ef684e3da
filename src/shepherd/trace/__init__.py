"""What each turn showed the model and why, as paths with values.

It knows paths, values and their text forms, and decides nothing about what is shown.
"""

from shepherd.trace.paths import ROOT, Change, Value, diff, encode_segment, shown_path, turn_path
from shepherd.trace.predicates import PREDICATES, Predicate
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
    paths_of,
)
from shepherd.trace.traces import KEPT_TURNS, Traces
from shepherd.trace.transfer import FORMATS, Format, export, import_file

__all__ = [
    "FORMATS",
    "KEPT_TURNS",
    "PREDICATES",
    "ROOT",
    "AssembledTrace",
    "BudgetTrace",
    "Change",
    "ChunkTrace",
    "EntitiesTrace",
    "EntityTrace",
    "Format",
    "HistoryTrace",
    "HistoryTurnTrace",
    "LeftOutTrace",
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
    "export",
    "import_file",
    "paths_of",
    "shown_path",
    "turn_path",
]
