"""What a turn leaves behind: a stored exchange, memories, whom it was about, a trace; and undoing it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from shepherd.errors import ShepherdError
from shepherd.prompt import Draft, Exchange
from shepherd.prompt.exchanges import messages_of
from shepherd.prompt.window_budget import TokenCounts
from shepherd.trace.planned import trace_of
from shepherd.types import Message

if TYPE_CHECKING:
    from shepherd.turn.components import TurnComponents

__all__ = ["Recorder", "attempted"]

_T = TypeVar("_T")


class Recorder:
    """Writes the turns of one conversation down, under the rules that hold for its model.

    `on_evicted` is told of the messages that left the window, oldest first.
    """

    def __init__(self, parts: TurnComponents, on_evicted: Callable[[Sequence[Message]], None] | None) -> None:
        self._store, self._dialogue, self._traces = parts.store, parts.dialogue, parts.traces
        self._on_evicted = on_evicted
        self._model, self._count = parts.access.model.info.name, TokenCounts(parts.access.model.count_tokens)

    def hear(self, draft: Draft, exchange: Exchange) -> None:
        """The answer ends the turn for those that listen whom it is about."""
        exchange.is_heard, draft.is_heard = draft.is_heard, False
        if exchange.is_heard and self._dialogue is not None:
            self._dialogue.answered(exchange.answer.raw)

    def store(
        self,
        draft: Draft,
        exchange: Exchange,
        before: Sequence[Exchange],
        *,
        archive: bool,
        now: int,
        with_prompt: bool,
    ) -> None:
        """Write the exchange down; the first failure ends it: a locked database is waited for once.

        `before`: those that the model had before it. `with_prompt`: the trace has the whole prompt.
        """
        if draft.private or not self._store.writes:
            return

        def write() -> None:
            self._store.write(exchange, model=self._model, archive=archive, now=now)
            if leaving := draft.evicted(before):
                self._store.note_left(leaving, draft.snapshot.summary)
            session = self._store.session_id or ""
            if self._dialogue is not None and exchange.is_heard:
                self._dialogue.save(session)
            if self._traces is not None:
                summary = draft.snapshot.summary.kept.text
                record = trace_of(
                    draft,
                    model=self._model,
                    summary=summary,
                    summary_tokens=self._count(summary),
                    prompt=draft.kept_prompt(before),
                )
                exchange.trace = self._traces.write(session, record, with_prompt=with_prompt)

        attempted(draft, "keeping this turn", write)

    def let_go(self, draft: Draft, before: Sequence[Exchange], now: int) -> None:
        """Archive the turns that left the window, so that they can be recalled; `before` as in `store`."""
        leaving = draft.evicted(before)
        if not leaving:
            return
        kept = [exchange for exchange in leaving if self._store.may_archive(exchange)]
        attempted(draft, "keeping what left the window", lambda: self._store.archive_all(kept, now))
        what = "exchange" if len(leaving) == 1 else f"{len(leaving)} exchanges"
        where = "kept in memory" if len(kept) == len(leaving) else "no longer part of this conversation"
        how = "left it with a summary" if draft.is_folded else "left it"
        draft.notes.append((f"the window was full: the oldest {what} {how}, {where}", ""))
        on_evicted = self._on_evicted
        if on_evicted is not None:
            left = messages_of(leaving)
            attempted(draft, "summing up what left the window", lambda: on_evicted(left))

    def take_back(self, exchange: Exchange) -> None:
        """Undo what was written of the last exchange; what failed can be tried again. Raises StoreError."""
        session = self._store.session_id
        self._store.take_back(exchange)
        if self._traces is not None and session and exchange.trace is not None:
            self._traces.remove(session, exchange.trace)
            exchange.trace = None
        if self._dialogue is not None and exchange.is_heard:
            self._dialogue.take_back()


def attempted(draft: Draft, what: str, action: Callable[[], _T]) -> _T | None:
    """The result of something that the answer does not depend on; a failure becomes a warning."""
    try:
        return action()
    except ShepherdError as error:
        draft.notes.append((f"{what} failed: {error}", error.hint))
    return None
