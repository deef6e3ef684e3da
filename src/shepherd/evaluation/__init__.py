"""Evaluation of recall on labelled conversations: recall@k, MRR and nDCG.

It searches the memory as any caller does and knows nothing of its ranking.
"""

from __future__ import annotations

from shepherd.evaluation.answerable import THRESHOLDS, Kept, Relevances, measure_relevance
from shepherd.evaluation.corpora import Conversation, Question, Turn, read_corpus
from shepherd.evaluation.runs import (
    DEPTH,
    METRICS,
    Answered,
    Comparison,
    Fold,
    Interval,
    Rows,
    check_output,
    compare,
    evaluate,
    interval,
    is_run,
    read_run,
    tune,
    write_run,
)

__all__ = [
    "DEPTH",
    "METRICS",
    "THRESHOLDS",
    "Answered",
    "Comparison",
    "Conversation",
    "Fold",
    "Interval",
    "Kept",
    "Question",
    "Relevances",
    "Rows",
    "Turn",
    "check_output",
    "compare",
    "evaluate",
    "interval",
    "is_run",
    "measure_relevance",
    "read_corpus",
    "read_run",
    "tune",
    "write_run",
]
