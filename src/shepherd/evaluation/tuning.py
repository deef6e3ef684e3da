"""Choice of rescoring weights on labelled conversations; each fold is scored on the conversation left out.

Coordinate descent: one weight after the other gets the value of its grid that is best on the training
conversations, until none changes. The result is the mean over the conversations left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from shepherd._native.rank import ASSISTANT_WEIGHTS, DEFAULT_WEIGHTS, Weights
from shepherd._native.store import Connection, Recall
from shepherd._native.text import keywords
from shepherd.evaluation.corpora import Conversation
from shepherd.evaluation.runs import DEPTH, Answered, Rows, Stored, answered, stored

__all__ = ["GRID", "Fold", "tune"]

GRID: dict[str, tuple[float, ...]] = {
    "answer": (0.05, 0.4, 0.55, 0.7, 0.85, 1.0),
    "exchange": (0.05, 0.15, 0.4, 0.7),
    "session": (0.0, 0.15, 0.3, 0.45),
    "previous": (0.0, 0.05, 0.15, 0.3),
    "next": (0.0, 0.05, 0.1, 0.2, 0.3),
    "second": (0.0, 0.075, 0.15, 0.225),
    "asking": (0.7, 0.8, 0.9, 1.0),
    "label": (1.0, 1.15, 1.3),
}
_AIM = ("recall@5", "recall@10", "mrr")


@dataclass(frozen=True, slots=True)
class Fold:
    """Weights chosen without one conversation, and its results with them; "" if none was left out."""

    left_out: str
    weights: Weights
    results: list[Answered]


class _Open:
    """A stored conversation that can be searched with any weights; results are cached."""

    def __init__(self, stack: ExitStack, conversation: Conversation, rows: Rows, dates: bool) -> None:
        self.conversation = conversation
        self.here: Stored = stack.enter_context(stored(conversation, rows=rows, dates=dates))
        self.connection = stack.enter_context(Connection(str(self.here.path), read_only=True))
        [(self.tenant,)] = self.connection.execute("SELECT number FROM tenants")
        self.recall = Recall()
        self.known: dict[Weights, list[Answered]] = {}

    def ask(self, weights: Weights) -> list[Answered]:
        if weights not in self.known:
            self.known[weights] = [
                answered(self.here, self.conversation.id, question, self._ids(question.text, weights), 0.0)
                for question in self.conversation.questions
            ]
        return self.known[weights]

    def _ids(self, text: str, weights: Weights) -> list[int]:
        hits = self.recall.search(
            self.connection, self.tenant, keywords(text), DEPTH, self.conversation.now, weights=weights
        )
        return [hit[0] for hit in hits]


def tune(
    conversations: Sequence[Conversation],
    *,
    rows: Rows = "turns",
    dates: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> list[Fold]:
    """Return one fold per conversation left out, then one fitted to all."""
    with ExitStack() as stack:
        opened = [_Open(stack, conversation, rows, dates) for conversation in conversations]
        folds = []
        for left_out in [*opened, None]:
            progress(f"without {left_out.conversation.id} …" if left_out else "with all …")
            training = [one for one in opened if one is not left_out]
            weights = _descend(training)
            tested = [left_out] if left_out else opened
            results = [result for one in tested for result in one.ask(weights)]
            folds.append(Fold(left_out.conversation.id if left_out else "", weights, results))
        progress("")
        return folds


def _descend(training: Sequence[_Open]) -> Weights:
    if not training:
        return DEFAULT_WEIGHTS
    # The same weights are for every memory, so a talk with an assistant begins with those of such talks.
    weights = max((DEFAULT_WEIGHTS, ASSISTANT_WEIGHTS), key=lambda one: _worth(training, one))
    while True:
        before = weights
        for name, grid in GRID.items():
            # A tie keeps the present value.
            values = (getattr(weights, name), *grid)
            weights = max(
                (weights._replace(**{name: value}) for value in values), key=lambda one: _worth(training, one)
            )
        if weights == before:
            return weights


def _worth(training: Sequence[_Open], weights: Weights) -> float:
    results = [result for one in training for result in one.ask(weights)]
    return sum(sum(result.metrics[name] for name in _AIM) for result in results) / len(results)
