"""Measure how well relevance separates memories that help, and questions with an answer, from the others.

Questions without an answer are those of other conversations. A threshold on relevance keeps a share of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shepherd.errors import UsageError
from shepherd.evaluation.corpora import Conversation
from shepherd.evaluation.runs import Rows, stored

if TYPE_CHECKING:
    from shepherd.memory.vectors import VectorSettings

__all__ = ["THRESHOLDS", "Kept", "Relevances", "area", "measure_relevance"]

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# As many memories as a message gets by default are appended; the best of more decides about a question.
_APPENDED = 3
_DEPTH = 10
# Each conversation is asked the questions of so many others.
_OTHERS = 3


@dataclass(frozen=True, slots=True)
class Kept:
    """Shares that a threshold keeps: of the evidence and of the other memories, among the first three.

    `unanswerable` is the share of the questions of other conversations that get a memory.
    """

    threshold: float
    evidence: float
    others: float
    unanswerable: float


@dataclass(frozen=True, slots=True)
class Relevances:
    """Relevance of memories among the first three, and of the best memory for each question."""

    evidence: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    answerable: list[float] = field(default_factory=list)
    unanswerable: list[float] = field(default_factory=list)

    @property
    def area(self) -> float:
        """Return how well the best memory tells questions with an answer from those without, 0.5 to 1."""
        return area(self.answerable, self.unanswerable)

    def kept(self, threshold: float) -> Kept:
        """Return the shares that are at least as relevant as the threshold."""
        shares = [
            sum(value >= threshold for value in values) / len(values) if values else 0.0
            for values in (self.evidence, self.others, self.unanswerable)
        ]
        return Kept(threshold, *shares)


def area(higher: Sequence[float], lower: Sequence[float]) -> float:
    """Return the area under the ROC curve: how often one of `higher` is above one of `lower`."""
    if not higher or not lower:
        return 0.5
    ordered = sorted([(value, 1) for value in higher] + [(value, 0) for value in lower])
    won, n_lower, start = 0.0, 0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        n_higher = sum(is_higher for _, is_higher in ordered[start:end])
        won += n_higher * (n_lower + (end - start - n_higher) / 2)
        n_lower += end - start - n_higher
        start = end
    return won / (len(higher) * len(lower))


def measure_relevance(
    conversations: Sequence[Conversation],
    *,
    rows: Rows = "turns",
    dates: bool = True,
    recency_floor: float = 0.9,
    vectors: VectorSettings | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Relevances:
    """Ask each conversation its own questions and those of the three that follow it in the corpus."""
    if len(conversations) < 2:
        raise UsageError(
            "one conversation alone has no questions that it does not answer",
            hint="name a corpus of several conversations",
        )
    found = Relevances()
    for number, conversation in enumerate(conversations):
        progress(f"conversation {number + 1} of {len(conversations)} …")
        with stored(
            conversation, rows=rows, dates=dates, recency_floor=recency_floor, vectors=vectors
        ) as here:
            for question in conversation.questions:
                results = here.memory.search(question.text, _DEPTH)
                evidence = here.evidence(question)
                for result in results[:_APPENDED]:
                    is_evidence = here.turn_of[result.id] in evidence
                    (found.evidence if is_evidence else found.others).append(result.relevance)
                found.answerable.append(max((one.relevance for one in results), default=0.0))
            for step in range(1, min(_OTHERS, len(conversations) - 1) + 1):
                for question in conversations[(number + step) % len(conversations)].questions:
                    results = here.memory.search(question.text, _DEPTH)
                    found.unanswerable.append(max((one.relevance for one in results), default=0.0))
    progress("")
    return found
