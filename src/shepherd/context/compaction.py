"""A history becomes shorter: a summary that was made in the background takes the place of its oldest turns.

A turn never waits for a summary. It is begun when the history nears its mark, and folded in at the first turn
after the mark that finds it done. Should the window be full before, turns leave without one, as always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shepherd.context.draft import Draft
from shepherd.context.exchanges import Exchange
from shepherd.context.folding import due_to_leave, leaving_next
from shepherd.context.room import Room
from shepherd.context.summarizing import Summarizer, SummaryJob
from shepherd.context.summary import NO_SUMMARY, Summary, told_for_summary

__all__ = ["Compaction", "Folded"]

# Of the window, for all pieces of a summary together.
_SUMMARY_SHARE = 8


class Folded(NamedTuple):
    """The summary from now on, and how many of the oldest exchanges leave."""

    summary: Summary
    turns: int


@dataclass(slots=True)
class _Pending:
    """A summary on its way, and the exchanges that it stands for, which begin the history."""

    job: SummaryJob
    exchanges: list[Exchange]
    is_private: bool


class Compaction:
    """Decides what is folded, and keeps the summary; without a summarizer turns just leave, with a notice."""

    def __init__(self, *, verbatim: int) -> None:
        self.summary = Summary()
        self._summarizer: Summarizer | None = None
        self._verbatim = verbatim
        self._pending: _Pending | None = None

    def use(self, summarizer: Summarizer | None) -> None:
        """Another model goes on; what was summed up stays."""
        self.cancel()
        self._summarizer = summarizer

    def fold(self, draft: Draft, exchanges: Sequence[Exchange], room: Room, share: int) -> Folded | None:
        """What leaves now, and what stands for it; None when nothing is due, or its summary is not done.

        `share`: tokens that the history may have in this turn.
        """
        n = due_to_leave([room.turn_tokens(e) for e in exchanges], share, verbatim=self._verbatim)
        if n == 0:
            return None
        if self._summarizer is None:
            return Folded(self.summary, n)
        pending = self._pending
        if pending is None or not pending.job.is_done:
            return None
        if not pending.job.pieces:
            self._pending = None  # the next ones are summed up again: a server may be back by then
            draft.notes.append((f"summing up failed: {pending.job.error}", "old turns leave without"))
            return Folded(self.summary, n)
        summary = self.summary.with_pieces(
            pending.job.pieces,
            len(pending.exchanges),
            fits=self._fits(room),
            is_private=pending.is_private,
        )
        return Folded(summary, _leading(pending.exchanges, exchanges))

    def kept(self, summary: Summary, exchanges: Sequence[Exchange]) -> None:
        """The turn ended well: the summary is that of the conversation, whose turns are now `exchanges`."""
        self.summary = summary
        if self._pending is not None and _leading(self._pending.exchanges, exchanges) == 0:
            self.cancel()

    def prepare(self, exchanges: Sequence[Exchange], room: Room, share: int) -> None:
        """After a turn: begin the summary of what will leave next, unless that is far away or begun.

        What was said in private is no part of it, since a summary is written down. Where all of it was, as
        with a model whose memory is off, there is a summary for the model alone.
        """
        if self._summarizer is None or self._pending is not None:
            return
        n = leaving_next([room.turn_tokens(e) for e in exchanges], share, verbatim=self._verbatim)
        if n:
            leaving = list(exchanges[:n])
            public = [exchange for exchange in leaving if not exchange.is_private]
            job = self._summarizer.begin(told_for_summary(public or leaving))
            self._pending = _Pending(job, leaving, is_private=not public)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Whether no summary is on its way, or none is any more within that time."""
        return self._pending is None or self._pending.job.wait(timeout_s)

    def cancel(self) -> None:
        """Drop the summary that is on its way."""
        if self._pending is not None:
            self._pending.job.cancel()
            self._pending = None

    def reset(self, summary: Summary = NO_SUMMARY) -> None:
        """A new conversation, or one that goes on behind this summary."""
        self.use(self._summarizer)
        self.summary = summary

    def _fits(self, room: Room) -> Callable[[str], bool]:
        return lambda text: room.count(text) <= room.window_tokens // _SUMMARY_SHARE


def _leading(pending: Sequence[Exchange], exchanges: Sequence[Exchange]) -> int:
    """How many of the history's first exchanges are among those that were summed up."""
    known = {id(exchange) for exchange in pending}
    n = 0
    while n < len(exchanges) and id(exchanges[n]) in known:
        n += 1
    return n
