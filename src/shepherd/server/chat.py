"""What a client asks, in no API's shape: a whole conversation and how it is to be answered."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from starlette.types import Receive

from shepherd.errors import UsageError
from shepherd.inference import Answer, schema_to_grammar
from shepherd.server.errors import Denied, problem_of
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import Reading, blocking, ended_with_its_client
from shepherd.types import (
    ANONYMOUS_USERS,
    Message,
    Piece,
    ReplySchema,
    Thought,
    TokenLogprob,
    Tool,
    ToolCall,
    TurnStats,
)

if TYPE_CHECKING:
    from shepherd.server.conversations import ServedTurn

__all__ = ["MOST_TOKENS", "Chat", "ChatRequest", "Collected", "grammar_of"]


# That a client may ask for, of an answer or of its sampling: far more than any window has.
MOST_TOKENS = 1 << 24


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation to be answered. `messages` are as the client sent them, the newest last.

    `user_id`: whose memory it is; nobody's stays unread and unwritten, as all do with `uses_memory` false.
    `sampling` holds only what the client has set. `max_tokens` 0 takes the setting. `schema` is what the
    answer must follow, `schema_field` where the client says so. `tool_choice` is "auto", "none", "required",
    or the name of a tool; it holds for the first reply. With `memory_tools` the model has the tools for the
    user's memory besides, which are called here. `logprobs`: with each token
    its likelihood, and those of so many of the likeliest. Without `parallel_calls` an answer ends at the
    first call of a tool of the client's.
    """

    messages: tuple[Message, ...]
    user_id: str = ""
    uses_memory: bool = True
    sampling: Mapping[str, float] = field(default_factory=dict)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    schema: ReplySchema | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    memory_tools: bool = False
    schema_field: str = "response_format"
    logprobs: int | None = None
    parallel_calls: bool = True

    @property
    def remembers(self) -> bool:
        """Whether there is somebody whose memory may be used."""
        return self.uses_memory and self.user_id not in ANONYMOUS_USERS


def grammar_of(request: ChatRequest) -> str:
    """The grammar (GBNF) of the answers that fit the schema, "" without one; Denied where it has none."""
    if request.schema is None:
        return ""
    field = request.schema_field
    try:
        return schema_to_grammar(request.schema.schema)
    except UsageError as error:
        raise Denied(400, "invalid_schema", f"{field}: {error} ({error.hint})", param=field) from None


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
            if is_quick:
                turn = begin(request)
            else:
                cancelled = threading.Event()
                async with ended_with_its_client(receive, cancelled.set):
                    turn = await blocking(lambda: begin(request, asked_at=asked_at, cancelled=cancelled))
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
