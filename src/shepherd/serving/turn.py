"""A turn as the client of a server sees it.

The client sees no calls of the memory's tools, nor their results: it could not send them back as they were.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.context import Draft
from shepherd.providers import Reply
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.history import ClientHistory
from shepherd.serving.planned import RequestPlanner
from shepherd.serving.timing import InjectionTime
from shepherd.turn import Turn
from shepherd.types import FinishReason, Injection, Message, Piece, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.serving.conversation import Conversations

__all__ = ["ServedTurn"]

_log = logging.getLogger(__name__)

# Between the texts of a reply that calls a tool and of the next one.
_BREAK = "\n\n"


class ServedTurn:
    """Iterate `reply`, ask `go_on()` for the next one until there is none, then `end()`.

    `shown` turns a reply's pieces into the client's. `cancel` may be called from any thread, the rest from
    one at a time.
    """

    def __init__(
        self,
        owner: Conversations,
        request: ChatRequest,
        turn: Turn,
        history: ClientHistory,
        *,
        planner: RequestPlanner | None = None,
        injection_time: InjectionTime | None = None,
        own_names: frozenset[str] = frozenset(),
    ) -> None:
        self.request = request
        self.turn = turn
        self.history = history
        self.planner = planner
        self.injection_time = injection_time
        self._owner = owner
        self._own_names = own_names
        # Texts of the replies before this one.
        self._said: list[str] = []
        self._needs_break = False
        # What the client has of this reply, up to the call that it is cut behind.
        self._shown: list[str] = []
        self._stats: TurnStats | None = None
        self._has_failed = False
        # A client may disconnect, which ends the turn, while the next reply is begun.
        self._lock = threading.Lock()

    @property
    def reply(self) -> Reply:
        """The present reply."""
        return self.turn.reply

    @property
    def draft(self) -> Draft:
        """The prompt, and what was decided about it."""
        return self.turn.draft

    @property
    def injection(self) -> Injection:
        """What memory added to the newest message."""
        return self.draft.injection

    @property
    def stats(self) -> TurnStats:
        """Cost of all replies together, once the turn has ended."""
        assert self._stats is not None
        return self._stats

    @property
    def looks_at_pieces(self) -> bool:
        """Whether `shown` and `go_on` have anything to do."""
        return bool(self._own_names) or not self.request.parallel_calls

    @property
    def answer(self) -> Message:
        """The answer as the client has it. Only an answer that was sampled like that keeps its ids."""
        reply = self.reply
        text, calls = _joined([*self._said, self.last_text]), self._clients_calls()
        is_as_sampled = text == reply.text and calls == reply.tool_calls
        ids = tuple(reply.token_ids) if is_as_sampled else ()
        return Message("assistant", text, token_ids=ids, tool_calls=calls, thought=reply.thought)

    @property
    def last_text(self) -> str:
        """Text of the last reply, as far as the client has it."""
        return "".join(self._shown) if self.turn.is_cut else self.reply.text

    def shown(self, piece: Piece) -> Piece | None:
        """Return the client's form of a piece, if any. Ends a reply behind the only call that it wants."""
        if self.turn.is_cut:
            return None
        if isinstance(piece, ToolCall):
            if piece.name in self._own_names:
                return None
            if not self.request.parallel_calls:
                self.turn.is_cut = True
                self.reply.cancel()
            return piece
        if isinstance(piece, str) and not self.request.parallel_calls:
            self._shown.append(piece)
        if isinstance(piece, str) and piece and self._needs_break:
            self._needs_break = False
            return _BREAK + piece
        return piece

    def go_on(self) -> Reply | None:
        """Run the tools of ours that the reply, which has been read, calls, and begin the next one; or None.

        Calls of the client's tools end the answer. Raises what beginning an answer raises.
        """
        with self._lock:
            with self.reply:
                pass
            said = self.last_text
            if not self.turn.continues():
                return None
            for _ in self.turn.run_tools():
                pass
            if self.turn.other_calls:
                return None
            try:
                reply = self.turn.next_reply()
            except BaseException:
                self._has_failed = True
                raise
            finally:
                self.log_notes()
            self._said.append(said)
            self._shown = []
            self._needs_break = bool(_joined(self._said).strip())
        return reply

    def cancel(self) -> None:
        """End it soon; what was said stays said."""
        self.turn.cancel()

    def end(self, *, failed: bool = False) -> TurnStats:
        """Cancel what still runs, store what was said, and give the model back; return the cost of the turn.

        Nothing of a turn that `failed` is stored. May be called twice. Has to be called before the client
        learns of the end: its next request may follow at once.
        """
        with self._lock:
            if self._stats is None:
                with self.reply:
                    pass
                cost = self.turn.stats
                self._stats = replace(
                    cost,
                    finish_reason=self._reason(),
                    stopped_by=-1 if self.turn.is_cut else cost.stopped_by,
                    recall_ms=self.injection.recall_us / 1000,
                    evicted_turns=self.history.evicted_turns(self.draft),
                )
                self.log_notes()
                self._owner.ended(self, failed=failed or self._has_failed)
        return self._stats

    def log_notes(self) -> None:
        """Log what failed and did not end the turn: a stateless client has no place for it."""
        for note, _ in self.draft.take_notes():
            _log.warning("%s", note)

    def _reason(self) -> FinishReason:
        if self.turn.is_cut:
            return "tool_calls"
        reason = self.reply.stats.finish_reason
        if not self.turn.own_calls or self.turn.other_calls:
            return reason
        # It wanted to go on.
        return "cancelled" if self.turn.is_cancelled else "length"

    def _clients_calls(self) -> tuple[ToolCall, ...]:
        calls = self.turn.other_calls
        return calls if self.request.parallel_calls else calls[:1]


def _joined(texts: Sequence[str]) -> str:
    """Join the texts of several replies as the client got them."""
    whole = ""
    for text in texts:
        whole += (_BREAK if text and whole.strip() else "") + text
    return whole
