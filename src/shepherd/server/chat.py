"""A chat request in no API's shape, and its answer on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pydantic import Field
from starlette.requests import Request
from starlette.types import Receive

from shepherd.errors import ShepherdError, UsageError
from shepherd.inference import Answer, schema_to_grammar
from shepherd.inference.template import TemplateOptions
from shepherd.pictures import has_pictures
from shepherd.server.description import MODEL, USER
from shepherd.server.errors import Problem, invalid, problem_of
from shepherd.server.http import LARGE_BYTES, ClientBody, FinalEvents, ModelName
from shepherd.server.identity import MEMORY, Caller, caller_of
from shepherd.server.limits import check_conversation
from shepherd.server.picture_addresses import fetching, may_name_address
from shepherd.server.public_ids import public_items
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import ReplyReader, blocking, cancelled_on_disconnect
from shepherd.server.telemetry import timings_of
from shepherd.types import (
    ANONYMOUS_USERS,
    Injection,
    Message,
    Piece,
    ReplySchema,
    TokenLogprob,
    Tool,
    ToolCall,
    TurnStats,
)

if TYPE_CHECKING:
    from shepherd.memory import Memory
    from shepherd.providers.exchange import Retry
    from shepherd.server.pool import Lease
    from shepherd.server.stateless import StoredTurn
    from shepherd.server.turns import ServedTurn

__all__ = [
    "MOST_TOKENS",
    "Asked",
    "Chat",
    "ChatFields",
    "ChatRequest",
    "arguments_object",
    "delete_replaced",
    "grammar_of",
]

_log = logging.getLogger(__name__)

# Largest number of tokens that a request may name: far more than any window has.
MOST_TOKENS = 1 << 24


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation to answer. `messages` are as the client sent them, the newest last.

    No memory is used for an anonymous `user_id`, or with `uses_memory` false. `sampling` holds only what the
    client has set. `max_tokens` 0 takes the setting. The answer follows `schema`, which the client sent in
    `schema_field`. `tool_choice` is "auto", "none", "required" or the name of a tool; it holds for the first
    reply. `memory_tools` adds tools for the user's memory, which the server runs. `logprobs` asks for the
    log-probability of each token and of so many of the likeliest. Without `parallel_calls` an answer ends at
    the first call of a client's tool. The turn is stored in the conversation that `session` names, or else in
    the one that earlier messages are in; messages there from position `replaces` on, counted from 1, are
    deleted as soon as the request is accepted, unless there are more than the client's `last_known`. Of `n`
    answers the first is stored. A `grammar` (GBNF) is followed as a schema is. `template` has options for the
    chat template. The answer goes on after `prefill`, which the client has already.
    """

    messages: tuple[Message, ...]
    user_id: str = ""
    uses_memory: bool = True
    sampling: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    schema: ReplySchema | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    memory_tools: bool = False
    schema_field: str = "response_format"
    logprobs: int | None = None
    parallel_calls: bool = True
    session: str = ""
    replaces: int = 0
    last_known: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    n: int = 1
    grammar: str = ""
    template: TemplateOptions = field(default_factory=TemplateOptions)
    prefill: str = ""

    @property
    def remembers(self) -> bool:
        """True if the request names a user whose memory may be used."""
        return self.uses_memory and self.user_id not in ANONYMOUS_USERS


def grammar_of(request: ChatRequest) -> str:
    """Return the grammar (GBNF) that the answer follows, "" without one; Denied if its schema has none."""
    if request.schema is None:
        return request.grammar
    field = request.schema_field
    try:
        return schema_to_grammar(request.schema.schema)
    except UsageError as error:
        raise invalid(field, f"{error} ({error.hint})", "invalid_schema") from None


class ChatFields(ClientBody):
    """Fields that the chat requests of all APIs share.

    Shepherd's own are `memory`, `memory_tools`, and `learned`: an event at the end of a stream.
    """

    model: ModelName = Field(default="", description=MODEL)
    stream: bool | None = Field(default=False, description="Stream the answer.")
    memory: bool | None = Field(
        default=None, description="With false, nothing is recalled, stored or learned. The default is true."
    )
    memory_tools: bool | None = Field(
        default=None, description="Let the model search and change this user's memory while it answers."
    )
    learned: bool | None = Field(
        default=None, description="End the stream with an event that lists what was learned from the user."
    )
    user: str | None = Field(default=None, description=USER)

    def named_user(self) -> str | None:
        """Return the user that the request names; None without one. Denied if it names two."""
        return self.user

    @property
    def tells_progress(self) -> bool:
        """True if the client wants to know what happens before the first piece."""
        return False

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        raise NotImplementedError  # abstract: the fields of each API have their own


def _check_replacing(state: ServerState, caller: Caller, request: ChatRequest) -> None:
    """Raise Denied if the caller cannot delete messages of a conversation."""
    caller.require(MEMORY)
    if state.memory is None or not state.is_writable or caller.is_nobody:
        raise invalid("replaces", "nothing is kept here that could be replaced", "no_memory")
    if not request.session:
        raise invalid("replaces", "the field session says in which conversation")


def delete_replaced(memory: Memory | None, request: ChatRequest) -> None:
    """Delete the messages that an accepted request replaces, with what was learned from them.

    It does so for any model: the messages may be stored although the one that answers now uses no memory.
    Raises ConflictError if there are messages that the client does not know.
    """
    session = memory.find_session(request.session, request.user_id) if memory is not None else None
    if memory is not None and session:
        memory.delete_messages(session, request.replaces, request.user_id, last_known=request.last_known)


def arguments_object(call: ToolCall) -> dict[str, Any]:
    """Return the arguments of a call as an object, for clients that accept nothing else."""
    try:
        value = json.loads(call.arguments or "{}")
    except ValueError:
        return {"arguments": call.arguments}
    return value if isinstance(value, dict) else {"arguments": value}


# Interval at which the reading of a prompt is looked at.
_PROGRESS_S = 0.1
# Interval of checks whether Shepherd pauses before it asks a provider again.
_PAUSE_S = 0.1
# Longest wait at the end of a stream for what is learned from it; the next stream has the rest.
_LEARNING_S = 10.0


class LearnedNews:
    """News of what a turn taught, for a client that asked for an event about it.

    Each thing is told once, in the order of the requests. All methods are called on the event loop.
    """

    def __init__(self, state: ServerState, user_id: str) -> None:
        self._state, self._user = state, user_id
        self._told = self._told_by_all()
        self._ended = asyncio.Event()
        self._is_cancelled = False

    @classmethod
    async def of(cls, state: ServerState, request: ChatRequest) -> LearnedNews:
        """Return the news since what this user was told last, or else from now on."""
        user = request.user_id if request.remembers else ""
        memory = state.memory
        if user and memory is not None and state.told_items.get(user) is None:
            latest = await blocking(lambda: memory.learned(1, user_id=user))
            if state.told_items.get(user) is None:  # another request may have been told of more meanwhile
                state.told_items.put(user, latest[0].id if latest else 0)
        return cls(state, user)

    async def wait(self) -> list[dict[str, Any]]:
        """Return what is new, once the worker has read what this user said; [] if the memory fails."""
        memory = self._state.memory
        if memory is None or not self._user:
            return []
        loop = asyncio.get_running_loop()

        def note(user_id: str) -> None:
            if user_id == self._user:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._ended.set)

        stop = memory.extraction.watch(note)
        self._state.in_progress.add(self.cancel)
        try:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._settle(memory), _LEARNING_S)
            news = await blocking(lambda: memory.learned_since(self._told, self._user))
            shown = await blocking(lambda: public_items(memory, self._user, news))
        except ShepherdError as error:
            _log.warning("looking up what was learned failed: %s", error)
            return []
        finally:
            stop()
            self._state.in_progress.discard(self.cancel)
        # Another stream of this user may have told of some of it since this one began.
        told = max(self._told, self._told_by_all())
        if news and news[-1].id > told:
            self._state.told_items.put(self._user, news[-1].id)
        return [one for item, one in zip(news, shown, strict=True) if item.id > told]

    def _told_by_all(self) -> int:
        return self._state.told_items.get(self._user) or 0

    def cancel(self) -> None:
        """End the wait."""
        self._is_cancelled = True
        self._ended.set()

    async def _settle(self, memory: Memory) -> None:
        """Wait until no message of this user is left to read."""
        while self._state.worker is not None and not self._is_cancelled:
            self._ended.clear()
            jobs = await blocking(lambda: memory.extraction.jobs(self._user))
            now = time.time()
            if not any(
                job.state == "running" or (job.state == "waiting" and job.next_try <= now) for job in jobs
            ):
                return
            await self._ended.wait()


class Chat:
    """An answer. Iterate it for its pieces within `async with`; `stats` are set after the block."""

    def __init__(self, state: ServerState, route: str, turn: ServedTurn, lease: Lease) -> None:
        self._state, self._route, self._turn, self._lease = state, route, turn, lease
        self.model = lease.model.name
        self._reader = ReplyReader(
            turn.reply,
            lambda failed: turn.end(failed=failed),
            is_quick=not (turn.is_first and lease.conversations.keeps(turn.request)),
        )
        self._stats: TurnStats | None = None
        # Of replies before the present one.
        self._earlier_logprobs: list[TokenLogprob] = []
        self._is_accepted = False
        self.news: LearnedNews | None = None
        # Further answers to the same request, and the chat of each.
        self.others: tuple[Chat, ...] = ()
        # The prompt that the model reads, if the client wants to know.
        self.shown_prompt: str | None = None
        # Called with `stats` set, before the client learns of the end.
        self.before_end: Callable[[], Awaitable[None]] | None = None
        state.in_progress.add(self.cancel)
        state.running.setdefault(turn.request.user_id, set()).add(self)

    @classmethod
    async def of(cls, request: Request, route: str, body: ChatFields) -> Chat:
        """Start the answer to a request of an API; raises what `begin` raises."""
        return await (await cls.asked(request, route, body)).begin(request.receive)

    @classmethod
    async def asked(cls, request: Request, route: str, body: ChatFields) -> Asked:
        """Return what a request of an API asks for. Denied for what cannot be had."""
        state: ServerState = request.app.state.shepherd
        state.pool.require(body.model)
        caller = caller_of(request, body.named_user())
        if body.memory_tools or body.learned:
            caller.require(MEMORY)
        if body.learned and not body.stream:
            raise invalid("learned", "only a stream has it; GET /v1/learned lists what was learned")

        def convert() -> ChatRequest:
            asked = body.request(caller.user_id)
            check_conversation(asked.messages, asked.tools, asked.schema)
            return asked

        data = await request.body()
        is_large = len(data) > LARGE_BYTES
        if state.config.server_fetch_pictures and may_name_address(data):
            asked = await fetching(request, caller.user_id, convert)
        else:
            asked = await blocking(convert, is_large=True) if is_large else convert()
        if asked.replaces:
            _check_replacing(state, caller, asked)
        return Asked(
            state,
            route,
            body.model,
            asked,
            is_large=is_large,
            tells_learned=bool(body.learned),
            tells_pauses=bool(body.stream) and body.tells_progress,
        )

    @classmethod
    async def begin(
        cls,
        state: ServerState,
        route: str,
        request: ChatRequest,
        receive: Receive,
        lease: Lease,
        *,
        is_large: bool = False,
        tells_pauses: bool = False,
    ) -> Chat:
        """Start the answer with a leased model, which it gives back; raises what Conversations.begin raises.

        Waits for a remote model's first piece, which shows that the request was valid, unless the client
        disconnects. With `tells_pauses`, a pause before another attempt ends the waiting, too: `stream` tells
        of it, and of a failure.
        """
        try:
            conversations = lease.conversations
            begin = conversations.begin
            # A thread costs more than a quick beginning, and more still while others compute.
            is_quick = conversations.begins_at_once(request)
            asked_at = time.perf_counter()
            if is_quick:
                turn = begin(request)
            else:
                cancelled = threading.Event()
                async with cancelled_on_disconnect(receive, cancelled.set):
                    turn = await blocking(
                        lambda: begin(request, asked_at=asked_at, cancelled=cancelled),
                        is_large=is_large and conversations.models.is_local,
                        has_pictures=has_pictures(request.messages),
                    )
            chat = cls(state, route, turn, lease)
            chat.others = tuple(cls(state, route, other, lease.again()) for other in turn.others)
        except BaseException as error:
            lease.release()
            if isinstance(error, Exception):
                state.served(Served(route, None, error=problem_of(error).code))
            raise
        if not conversations.models.is_local:
            try:
                async with cancelled_on_disconnect(receive, chat.cancel):
                    while not await chat._reader.peek(_PAUSE_S if tells_pauses else None):
                        if chat._turn.turn.retry is not None and not chat.others:
                            return chat
            except BaseException as error:
                await chat._end(error)
                raise
        try:
            await chat._accept()
        except BaseException as error:
            for one in (chat, *chat.others):
                await one._end(error)
            raise
        return chat

    async def _accept(self) -> None:
        """Delete what the request replaces, which is known to be valid now. If that fails, store nothing."""
        turn = self._turn

        def replace() -> None:
            try:
                delete_replaced(self._state.memory, turn.request)
            except ShepherdError:
                turn.discard()
                raise
            turn.owner.mark(turn)

        if turn.request.replaces:
            await blocking(replace)
        self._is_accepted = True

    @property
    def stats(self) -> TurnStats:
        """Cost of the answer, once it has ended."""
        assert self._stats is not None
        return self._stats

    @property
    def timings(self) -> dict[str, Any]:
        """Field of answers with llama.cpp's timings, once the answer has ended; {} for a remote model."""
        is_local = isinstance(self._turn.reply, Answer)
        return {"timings": timings_of(self.stats)} if is_local else {}

    async def show_prompt(self) -> None:
        """Set `shown_prompt`, for a local model."""
        self.shown_prompt = await blocking(self._turn.prompt_text)

    @property
    def stored(self) -> StoredTurn:
        """Where the turn was stored, once the answer has ended."""
        return self._turn.stored

    @property
    def session(self) -> str:
        """Name or id that the client gave the conversation, "" for none."""
        return self._turn.request.session

    @property
    def session_id(self) -> str:
        """Id of the stored conversation that the turn continues, "" for a new one."""
        return self._turn.history.restored.session

    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings that the client asked for."""
        return self._turn.request.stop

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt, as far as they are known before the end."""
        return sum(self._turn.reply.prompt_tokens_per_message)

    @property
    def injection(self) -> Injection:
        """Facts and memories recalled for the newest message."""
        return self._turn.injection

    @property
    def newest_message(self) -> str:
        """The message that is answered, as the user wrote it."""
        return self._turn.draft.message.raw

    @property
    def has_logprobs(self) -> bool:
        """True if the client asked for log-probabilities."""
        return self._turn.request.logprobs is not None

    def take_logprobs(self) -> list[TokenLogprob]:
        """Return the log-probabilities of the tokens read since the last call, if asked for."""
        earlier, self._earlier_logprobs = self._earlier_logprobs, []
        reply = self._turn.reply
        return earlier + (reply.take_logprobs() if isinstance(reply, Answer) else [])

    def cancel(self) -> None:
        """End the answer soon, and others to the same request."""
        self._turn.cancel()
        if self.news is not None:
            self.news.cancel()
        for other in self.others:
            other.cancel()

    def stop(self) -> None:
        """End the answer soon, as its user wants; the message is stored with what there is of the answer."""
        for one in (self, *self.others):
            one._turn.stop()
        self.cancel()

    def discard(self) -> None:
        """End the answer, and store nothing of the turn. From any thread; waits while it is being stored."""
        self._turn.discard()

    async def stream(
        self,
        opening: bytes,
        events_of: Callable[[Piece], bytes],
        ending: Callable[[], bytes],
        error_of: Callable[[Problem], bytes],
        closing: Callable[[list[dict[str, Any]]], bytes],
        progress_of: Callable[[dict[str, int]], bytes] | None = None,
        pause_of: Callable[[float, str], bytes] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the answer as events or lines, which `events_of`, `ending` and `error_of` give.

        With `progress_of`, events about the reading of the prompt come before the first piece. Events of
        `pause_of` (seconds and reason of a pause before a provider is asked again) come first.

        `opening` is sent with the first piece if that comes within a moment: each message wakes the client.
        `closing` gives what comes after `ending` if the client asked for what is learned.
        """
        try:
            async with self:
                if not self._is_accepted:
                    async for pause in self._pauses():
                        if pause_of is not None:
                            yield pause_of(*pause)
                    await self._accept()
                await self._reader.wait()
                if not self._reader.has_piece:
                    yield opening
                    opening = b""
                if progress_of is not None:
                    async for progress in self._progress():
                        yield opening + progress_of(progress)
                        opening = b""
                async for piece in self:
                    yield opening + events_of(piece)
                    opening = b""
        except ShepherdError as error:
            yield (opening if self._is_accepted else b"") + error_of(problem_of(error))
            return
        if self.news is None:
            yield FinalEvents(opening + ending())
            return
        yield opening + ending()
        yield FinalEvents(closing(await self.news.wait()))

    async def _pauses(self) -> AsyncGenerator[tuple[float, str], None]:
        """Yield seconds and reason of each pause before another attempt, until there is a piece."""
        told: Retry | None = None
        while True:
            pause = self._turn.turn.retry
            if pause is not None and pause is not told:
                told = pause
                yield max(pause.end_s - time.monotonic(), 0.0), str(pause.failure)
            if await self._reader.peek(_PAUSE_S):
                return

    async def _progress(self) -> AsyncGenerator[dict[str, int], None]:
        """Yield how much of the prompt was read, as llama-server tells it, until there is a piece."""
        began = time.perf_counter()
        total, told = self.prompt_tokens, -1
        while True:
            is_read = self._reader.has_piece or self._reader.has_ended
            n_read, n_to_read = self._turn.turn.progress
            if is_read or n_to_read:
                cached = total - n_to_read
                # The first one is what the cache had, and the last one is the whole prompt.
                processed = total if is_read and told >= 0 else cached if told < 0 else cached + n_read
                if processed > told:
                    told = processed
                    spent = int(1000 * (time.perf_counter() - began))
                    yield {"total": total, "cache": cached, "processed": processed, "time_ms": spent}
                if is_read and told == total:
                    return
            if not is_read:
                await self._reader.wait(_PROGRESS_S)

    def __aiter__(self) -> AsyncIterator[Piece]:
        return self if self._turn.filters_pieces else self._reader

    async def __anext__(self) -> Piece:
        while True:
            try:
                piece = self._turn.filtered(await self._reader.__anext__())
            except StopAsyncIteration:
                self._earlier_logprobs = self.take_logprobs()
                following = await self._reader.followed_by(self._turn.next_reply)
                if following is None:
                    raise
                self._reader = following
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
            self._stats = await self._reader.end()
        finally:
            self._lease.release()
            self._state.in_progress.discard(self.cancel)
            self._state.ended(self._turn.request.user_id, self)
        if error is None and self.before_end is not None and not self.stored.is_deleted:
            await self.before_end()
        code = problem_of(error).code if isinstance(error, Exception) else ""
        turn = self._turn
        self._state.served(Served(self._route, self._stats, bool(turn.injection), code, turn.injection_time))


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was checked, and whose answer has not begun."""

    state: ServerState
    route: str
    model: str
    request: ChatRequest
    is_large: bool = False
    tells_learned: bool = False
    tells_pauses: bool = False

    async def begin(self, receive: Receive) -> Chat:
        """Start the answer, as soon as its model is loaded; `receive` tells if nobody waits for it any more.

        Raises what Conversations.begin and ModelPool.lease raise.
        """
        news = await LearnedNews.of(self.state, self.request) if self.tells_learned else None
        lease = await self.state.pool.lease(self.model, receive)
        chat = await Chat.begin(
            self.state,
            self.route,
            self.request,
            receive,
            lease,
            is_large=self.is_large,
            tells_pauses=self.tells_pauses,
        )
        chat.news = news
        return chat
