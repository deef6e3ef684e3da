"""Compaction: when a chat's oldest turns are replaced by a summary, and how many of them at once.

A compaction moves the prompt's prefix, so that the rest is read again. It therefore happens late and takes
many turns at once: above HIGH_WATER of the history's share it goes down to LOW_WATER, or deeper where turns
are so long that the next compaction would follow within CALM_TURNS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shepherd.prompt.draft import Draft
from shepherd.prompt.exchanges import Exchange, messages_of
from shepherd.prompt.summary import NO_SUMMARY, Summarizer, Summary, SummaryJob, summary_input
from shepherd.prompt.system_prompt import Snapshot
from shepherd.prompt.window_budget import WindowBudget

__all__ = [
    "HIGH_WATER",
    "LOW_WATER",
    "PREPARED",
    "Compaction",
    "PendingSummary",
    "due_to_leave",
    "leaving_next",
]


HIGH_WATER = 0.85
LOW_WATER = 0.60
# A summary is prepared in the background from here on.
PREPARED = 0.70
# For turns of 150 tokens, 12 turns fill an 8k window from LOW_WATER to HIGH_WATER.
CALM_TURNS = 20
# Least share of the history that a compaction leaves, however long the turns are.
_LEAST_LEFT = 0.35


def due_to_leave(turn_tokens: Sequence[int], share: int, *, verbatim: int) -> int:
    """Return how many of the oldest turns are due; 0 while the history fills at most HIGH_WATER of its share.

    The last `verbatim` turns stay as far as they fit below LOW_WATER; the last one always stays.
    """
    total = sum(turn_tokens)
    if total <= HIGH_WATER * share:
        return 0
    return _oldest(turn_tokens, total - _low(turn_tokens, share), share, verbatim)


def leaving_next(turn_tokens: Sequence[int], share: int, *, verbatim: int) -> int:
    """Return how many of the oldest turns the next compaction will take; 0 while it is not near."""
    if sum(turn_tokens) <= PREPARED * share:
        return 0
    return _oldest(turn_tokens, HIGH_WATER * share - _low(turn_tokens, share), share, verbatim)


def _low(turn_tokens: Sequence[int], share: int) -> float:
    mean = sum(turn_tokens) / len(turn_tokens)
    return max(min(LOW_WATER * share, HIGH_WATER * share - CALM_TURNS * mean), _LEAST_LEFT * share)


def _oldest(turn_tokens: Sequence[int], tokens: float, share: int, verbatim: int) -> int:
    """Return the least number of oldest turns with this many tokens; turns that must stay are not counted."""
    left, n, taken = sum(turn_tokens), 0, 0
    while taken < tokens and n < len(turn_tokens) - 1:
        if n >= len(turn_tokens) - verbatim and left - taken <= LOW_WATER * share:
            break
        taken += turn_tokens[n]
        n += 1
    return n


# Divisor of the window that gives the limit of a whole summary.
_SUMMARY_SHARE = 8
# Share of the window. Where the byte lengths of the history stay below it, no turn is due and nothing needs
# to be counted.
_UNCOUNTED_SHARE = 0.35


class _Compacted(NamedTuple):
    """The new summary, and the number of oldest exchanges that it replaces."""

    summary: Summary
    turns: int


@dataclass(slots=True)
class PendingSummary:
    """A summary in preparation, and the oldest exchanges of the history, which it will replace."""

    job: SummaryJob
    exchanges: list[Exchange]
    is_private: bool


class Compaction:
    """Compaction of one conversation. Without a summarizer, turns leave without a summary."""

    def __init__(
        self,
        *,
        verbatim: int,
        summary: Summary = NO_SUMMARY,
        summarizer: Summarizer | None = None,
        pending: PendingSummary | None = None,
    ) -> None:
        self.summary = summary
        self.pending = pending
        self._summarizer = summarizer
        self._verbatim = verbatim

    def use(self, summarizer: Summarizer | None) -> None:
        """Continue with another model; what was summed up stays."""
        self.cancel()
        self._summarizer = summarizer

    def compact(
        self,
        draft: Draft,
        exchanges: Sequence[Exchange],
        budget: WindowBudget,
        take_snapshot: Callable[[Summary], Snapshot],
    ) -> None:
        """Replace the turns that are due by a summary, with a new snapshot. `exchanges` are the draft's."""
        share = history_share(draft, budget)
        compacted = None if share is None else self._due(draft, exchanges, budget, share)
        if compacted is None or not compacted.turns:
            return
        draft.is_summarized = compacted.summary != self.summary
        draft.evict(messages_of(exchanges[: compacted.turns]))
        budget.strip_all(draft)
        draft.snapshot = take_snapshot(compacted.summary)

    def commit(self, summary: Summary, exchanges: Sequence[Exchange]) -> None:
        """Note that the turn ended well: its summary is the conversation's, whose turns are `exchanges`."""
        self.summary = summary
        if self.pending is not None and _leading(self.pending.exchanges, exchanges) == 0:
            self.cancel()

    def prepare(self, draft: Draft, exchanges: Sequence[Exchange], budget: WindowBudget) -> None:
        """Begin the summary of the turns that are due next, unless one is pending; call it after the turn of
        `draft`.

        Private turns are excluded, since a summary is stored. If all of them are private, as with a model
        whose memory is off, the summary is for the model alone.
        """
        share = history_share(draft, budget)
        if self._summarizer is None or self.pending is not None or share is None:
            return
        n = leaving_next([budget.turn_tokens(e) for e in exchanges], share, verbatim=self._verbatim)
        if n:
            leaving = list(exchanges[:n])
            public = [exchange for exchange in leaving if not exchange.is_private]
            job = self._summarizer.begin(summary_input(public or leaving))
            self.pending = PendingSummary(job, leaving, is_private=not public)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the pending summary; returns whether none is pending any more."""
        return self.pending is None or self.pending.job.wait(timeout_s)

    def cancel(self) -> None:
        """Drop the pending summary."""
        if self.pending is not None:
            self.pending.job.cancel()
            self.pending = None

    def reset(self, summary: Summary = NO_SUMMARY) -> None:
        """Start a new conversation, or one that continues behind this summary."""
        self.use(self._summarizer)
        self.summary = summary

    def _due(
        self, draft: Draft, exchanges: Sequence[Exchange], budget: WindowBudget, share: int
    ) -> _Compacted | None:
        """Return what leaves now, and what replaces it; None when nothing is due or its summary not done."""
        n = due_to_leave([budget.turn_tokens(e) for e in exchanges], share, verbatim=self._verbatim)
        if n == 0:
            return None
        if self._summarizer is None:
            return _Compacted(self.summary, n)
        pending = self.pending
        if pending is None or not pending.job.is_done:
            return None
        if not pending.job.pieces:
            self.pending = None  # a server may be back when the next turns are due
            draft.notes.append((f"summing up failed: {pending.job.error}", "old turns leave without"))
            return _Compacted(self.summary, n)
        summary = self.summary.with_pieces(
            pending.job.pieces,
            len(pending.exchanges),
            fits=self._fits(budget),
            is_private=pending.is_private,
        )
        return _Compacted(summary, _leading(pending.exchanges, exchanges))

    def _fits(self, budget: WindowBudget) -> Callable[[str], bool]:
        return lambda text: budget.count(text) <= budget.window_tokens // _SUMMARY_SHARE


def history_share(draft: Draft, budget: WindowBudget) -> int | None:
    """Return the tokens that the plan grants the history; None where no turn can be due."""
    plan = draft.plan
    if draft.measured is not None:
        if sum(map(budget.most_tokens_of, draft.history)) <= _UNCOUNTED_SHARE * budget.window_tokens:
            return None
        plan = draft.measured()
    return next((share.granted for share in plan.shares if share.category == "history"), 0)


def _leading(pending: Sequence[Exchange], exchanges: Sequence[Exchange]) -> int:
    """Count the first exchanges of the history that are among those summarised."""
    known = {exchange.identity for exchange in pending}
    n = 0
    while n < len(exchanges) and exchanges[n].identity in known:
        n += 1
    return n
