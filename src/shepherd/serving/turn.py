"""An answer on its way, and the rounds behind it: what the model calls of memory's tools is done here.

The client sees none of these calls and results: it could not send them back as they were.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.assistant import message_of
from shepherd.context import Draft, Room, added_stats
from shepherd.providers import ChatModel, Reply
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.history import ClientHistory
from shepherd.serving.planned import RequestPlanner
from shepherd.serving.timing import InjectionTime
from shepherd.tools import Toolbox
from shepherd.types import FinishReason, Injection, Message, Piece, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.serving.conversation import Conversations

__all__ = ["Turn"]

_log = logging.getLogger(__name__)

# Between what the model says before it calls a tool, and after.
_BREAK = "\n\n"


class Turn:
    """Iterate `reply`, ask `go_on()` for the next one until there is none, then `end()`.

    What a client gets of a reply's pieces, `shown` says. `toolbox`: the tools that are called here; without
    one there is a single reply. `cancel` may be called from any thread, the rest from one at a time.
    """

    def __init__(
        self,
        owner: Conversations,
        request: ChatRequest,
        reply: Reply,
        *,
        model: ChatModel,
        draft: Draft,
        room: Room,
        history: ClientHistory,
        planner: RequestPlanner | None = None,
        injection_time: InjectionTime | None = None,
        toolbox: Toolbox | None = None,
    ) -> None:
        self.request = request
        self.reply = reply
        self.model = model
        self.draft = draft
        self.room = room
        self.history = history
        self.planner = planner
        self.injection_time = injection_time
        self.toolbox = toolbox
        self._owner = owner
        self._own_names = frozenset(tool.name for tool in (toolbox.tools if toolbox is not None else ()))
        # Of the replies before this one.
        self._said: list[str] = []
        self._spent: TurnStats | None = None
        self._rounds = 0
        self._needs_break = False
        # What the client has of this reply up to the call that it is cut behind.
        self._heard: list[str] = []
        self._is_cut = False
        self._stats: TurnStats | None = None
        self._has_failed = False
        self._is_cancelled = threading.Event()
        # A client that goes away ends the turn while the next reply is begun.
        self._lock = threading.Lock()

    @property
    def injection(self) -> Injection:
        """What memory added to the newest message."""
        return self.draft.injection

    @property
    def stats(self) -> TurnStats:
        """What all its replies cost together, once it has ended."""
        assert self._stats is not None
        return self._stats

    @property
    def looks_at_pieces(self) -> bool:
        """Whether `shown` and `go_on` have anything to do."""
        return self.toolbox is not None or not self.request.parallel_calls

    @property
    def answer(self) -> Message:
        """What the client has of it, as a message. Only what was sampled like that keeps its ids."""
        reply = self.reply
        text, calls = _joined([*self._said, self.last_text]), self._clients_calls()
        is_as_sampled = text == reply.text and calls == reply.tool_calls
        ids = tuple(reply.token_ids) if is_as_sampled else ()
        return Message("assistant", text, token_ids=ids, tool_calls=calls, thought=reply.thought)

    @property
    def last_text(self) -> str:
        """Text of the last reply, as far as the client has it."""
        return "".join(self._heard) if self._is_cut else self.reply.text

    def shown(self, piece: Piece) -> Piece | None:
        """What the client gets of a piece, if anything. Ends a reply behind the only call that it wants."""
        if self._is_cut:
            return None
        if isinstance(piece, ToolCall):
            if piece.name in self._own_names:
                return None
            if not self.request.parallel_calls:
                self._is_cut = True
                self.reply.cancel()
            return piece
        if isinstance(piece, str) and not self.request.parallel_calls:
            self._heard.append(piece)
        if isinstance(piece, str) and piece and self._needs_break:
            self._needs_break = False
            return _BREAK + piece
        return piece

    def go_on(self) -> Reply | None:
        """Carry out what the reply, which has been read, calls of our tools, and begin the next; or None.

        Calls of the client's tools end the answer; ours beside them are carried out, and their results lost.
        Raises what beginning an answer raises.
        """
        with self._lock:
            with self.reply:
                pass
            own = self._own_calls()
            if self.toolbox is None or not own or self._is_over():
                return None
            results = [self._call(self.toolbox, call) for call in own]
            if self._clients_calls():
                return None
            self.draft.steps += [message_of(self.reply, calls=self.reply.tool_calls), *results]
            try:
                reply = self._owner.go_on(self)
            except BaseException:
                self._has_failed = True
                raise
            self._spent = self._cost()
            self._said.append(self.reply.text)
            self._heard = []
            self._needs_break = bool(_joined(self._said).strip())
            self._rounds += 1
            self.reply = reply
        if self._is_cancelled.is_set():
            reply.cancel()
        return reply

    def cancel(self) -> None:
        """End it soon; what was said stays said."""
        self._is_cancelled.set()
        self.reply.cancel()

    def end(self, *, failed: bool = False) -> TurnStats:
        """Cancel what still runs, keep what was said, and give the model back; what the answer cost.

        Nothing is kept of one that `failed`. May be called twice. Before the client hears of the end: its
        next request may follow at once.
        """
        with self._lock:
            if self._stats is None:
                with self.reply:
                    pass
                cost = self._cost()
                self._stats = replace(
                    cost,
                    finish_reason=self._reason(),
                    stopped_by=-1 if self._is_cut else cost.stopped_by,
                    recall_ms=self.injection.recall_us / 1000,
                    evicted_turns=self.history.evicted_turns(self.draft),
                )
                self._owner.ended(self, failed=failed or self._has_failed)
        return self._stats

    @property
    def tokens_left(self) -> int:
        """Of those that the client allows for all replies together; 0 where it has not said."""
        allowed = self.request.max_tokens
        return max(1, allowed - self._cost().generated_tokens) if allowed else 0

    def _reason(self) -> FinishReason:
        if self._is_cut:
            return "tool_calls"
        reason = self.reply.stats.finish_reason
        if not self._own_calls() or self._clients_calls():
            return reason
        # It wanted to go on.
        return "cancelled" if self._is_cancelled.is_set() else "length"

    def _is_over(self) -> bool:
        cost = self._cost()
        return (
            self._is_cancelled.is_set()
            or (cost.finish_reason == "cancelled" and not self._is_cut)
            or self._rounds >= self._owner.config.tool_rounds
            or 0 < self.request.max_tokens <= cost.generated_tokens
        )

    def _cost(self) -> TurnStats:
        stats = self.reply.stats
        return stats if self._spent is None else added_stats(self._spent, stats)

    def _own_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for call in self.reply.tool_calls if call.name in self._own_names)

    def _clients_calls(self) -> tuple[ToolCall, ...]:
        calls = tuple(call for call in self.reply.tool_calls if call.name not in self._own_names)
        return calls if self.request.parallel_calls else calls[:1]

    def _call(self, toolbox: Toolbox, call: ToolCall) -> Message:
        result = toolbox.call(call)
        if result.error is not None:
            _log.warning("%s failed: %s", call.name, result.error)
        return Message("tool", result.text, tool_call_id=call.id)


def _joined(texts: Sequence[str]) -> str:
    """The texts of several replies as the client got them."""
    whole = ""
    for text in texts:
        whole += (_BREAK if text and whole.strip() else "") + text
    return whole
