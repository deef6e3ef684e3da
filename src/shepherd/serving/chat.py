"""One chat request from its beginning to its end, whichever API it came by: counted, and always ended."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from starlette.types import Receive

from shepherd.inference import Answer
from shepherd.serving.answering import Reading, blocking, ended_with_its_client
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.errors import problem_of
from shepherd.serving.state import Served, ServerState
from shepherd.types import Piece, Thought, TokenLogprob, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.serving.turn import ServedTurn

__all__ = ["Chat", "Collected"]


class Chat:
    """Iterate it for the pieces, within `async with`; `stats` are there behind the block."""

    def __init__(self, state: ServerState, route: str, turn: ServedTurn) -> None:
        self._state, self._route, self._turn = state, route, turn
        self._reading = Reading(
            turn.reply,
            lambda failed: turn.end(failed=failed),
            is_quick=not state.conversations.keeps(turn.request),
        )
        self._stats: TurnStats | None = None
        # Of replies that others have followed.
        self._earlier_logprobs: list[TokenLogprob] = []
        state.under_way.add(self.cancel)

    @classmethod
    async def begin(cls, state: ServerState, route: str, request: ChatRequest, receive: Receive) -> Chat:
        """Start the answer; raises what Conversations.begin raises.

        A remote model's first piece is waited for: only then it is known that the request was good. A client
        that goes away meanwhile, which `receive` tells, ends the answer.
        """
        try:
            begin = state.conversations.begin
            # A thread costs more than the beginning, and more still while others compute.
            is_quick = state.conversations.begins_at_once(request)
            asked_at = time.perf_counter()
            turn = begin(request) if is_quick else await blocking(lambda: begin(request, asked_at=asked_at))
            chat = cls(state, route, turn)
        except Exception as error:
            state.served(Served(route, None, error=problem_of(error).code))
            raise
        if state.conversations.models.engine is None:
            try:
                async with ended_with_its_client(receive, chat.cancel):
                    await chat._reading.peek()
            except BaseException as error:
                await chat._end(error)
                raise
        return chat

    @property
    def stats(self) -> TurnStats:
        """What it cost, once it has ended."""
        assert self._stats is not None
        return self._stats

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop strings that the client asked for."""
        return self._turn.request.stop

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, as far as they are known before the end."""
        return sum(self._turn.reply.prompt_tokens_per_message)

    @property
    def has_logprobs(self) -> bool:
        """Whether the client asked for them."""
        return self._turn.request.logprobs is not None

    def take_logprobs(self) -> list[TokenLogprob]:
        """Of the tokens whose text has come since the last call; none where the client did not ask."""
        earlier, self._earlier_logprobs = self._earlier_logprobs, []
        reply = self._turn.reply
        return earlier + (reply.take_logprobs() if isinstance(reply, Answer) else [])

    async def wait(self) -> None:
        """Wait for the first piece, a moment at most; raises what iterating would."""
        await self._reading.wait()

    @property
    def has_piece(self) -> bool:
        """Whether there is one now, so that iterating gives it at once."""
        return self._reading.has_piece

    def cancel(self) -> None:
        """End it soon."""
        self._turn.cancel()

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self if self._turn.looks_at_pieces else self._reading

    async def __anext__(self) -> Piece:
        while True:
            try:
                piece = self._turn.shown(await self._reading.__anext__())
            except StopAsyncIteration:
                self._earlier_logprobs = self.take_logprobs()
                following = await self._reading.followed_by(self._turn.go_on)
                if following is None:
                    raise
                self._reading = following
            else:
                if piece is not None:
                    return piece

    async def __aenter__(self) -> Chat:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        if error is not None:
            self.cancel()
        try:
            self._stats = await self._reading.end()
        finally:
            self._state.under_way.discard(self.cancel)
        code = problem_of(error).code if isinstance(error, Exception) else ""
        turn = self._turn
        self._state.served(Served(self._route, self._stats, bool(turn.injection), code, turn.injection_time))


class Collected:
    """The pieces of an answer put together, for clients that want the whole."""

    def __init__(self) -> None:
        self._said: list[str] = []
        self._thought: list[str] = []
        self.calls: list[ToolCall] = []

    def add(self, piece: Piece) -> None:
        """One more."""
        if isinstance(piece, str):
            self._said.append(piece)
        elif isinstance(piece, Thought):
            self._thought.append(piece.text)
        else:
            self.calls.append(piece)

    @property
    def text(self) -> str:
        """The answer itself."""
        return "".join(self._said)

    @property
    def thought(self) -> str:
        """What came before it."""
        return "".join(self._thought)
