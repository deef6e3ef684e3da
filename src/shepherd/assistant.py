"""One turn, from message to answer: recall, prompt, generate, tools, record, archive. Only here is the order
known.

A turn that fails or is abandoned leaves the conversation as it was before it. A memory that fails costs a
warning, never the answer.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.config import Config
from shepherd.context import (
    Exchange,
    SystemPrompt,
    added_stats,
    assemble,
    evict,
    inject,
    messages_of,
    paired,
    render_system,
    strip_tails,
    tails_to_strip,
)
from shepherd.errors import ContextOverflowError, ShepherdError, UsageError
from shepherd.memory import Memory, Turn
from shepherd.tools import Toolbox, ToolResult, memory_tools
from shepherd.types import ANONYMOUS_USERS, Injection, Message, Sampling, Thought, Tool, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.providers import ChatModel, Reply

__all__ = ["Assistant", "Delta", "Event", "Finished", "Recalled", "ToolResult", "Warned"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_SMALL_TALK = (
    "bye", "cheers", "fine", "good", "goodbye", "great", "hello", "hey", "hi", "morning", "evening", "night",
    "nice", "no", "ok", "okay", "sorry", "sure", "thanks", "thank", "welcome", "yeah", "yep", "yes",
)  # fmt: skip
# A text of nothing but stop words has them as its keywords, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in (*STOP_WORDS, *_SMALL_TALK)))
_SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n")
# About what a template writes around a message.
_FRAME_TOKENS = 8
# No tokenizer has longer tokens, but for a few runs of blanks.
_MOST_CHARS_PER_TOKEN = 256
_QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # Latin, full width, Arabic, Greek


@dataclass(frozen=True, slots=True)
class Recalled:
    """What memory adds to this message; comes once, before the first piece of the answer."""

    injection: Injection


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer, as it is generated."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """Something failed that the answer does not depend on."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer, and what the turn cost; its last event, unless it raised.

    What was said before a tool was called came as Delta, and is no part of the answer.
    """

    answer: str
    stats: TurnStats
    injection: Injection


Event = Recalled | Delta | Thought | ToolCall | ToolResult | Warned | Finished


@dataclass(slots=True)
class _Turn:
    """A turn on its way; becomes an Exchange when it ends well. `history` is what goes before its message.

    `steps`: what came after it so far, calls of tools and their results. `stats`: what that cost.
    """

    message: Message
    history: list[Message] = field(default_factory=list)
    steps: list[Message] = field(default_factory=list)
    stats: TurnStats | None = None
    evicted: list[Exchange] = field(default_factory=list)
    injection: Injection = field(default_factory=Injection)
    warnings: list[Warned] = field(default_factory=list)
    private: bool = False


class Assistant:
    """A conversation of one user with one model.

    One turn at a time; `cancel()` may be called from any thread, everything else from one. The caller closes
    what it passed in. Without `writes_memory` the memory is only read. With `extraction`, what the user
    says is queued for it, in the transaction that stores the message. `on_evicted` is told, after the turn,
    of the messages that left the window, oldest first. `engine` may run elsewhere; see `switch`.
    With the setting memory_tools the model has tools for the memory of `user_id`, and of nobody else.
    """

    def __init__(
        self,
        *,
        engine: ChatModel,
        memory: Memory | None,
        config: Config | None = None,
        user_id: str = "",
        writes_memory: bool = True,
        extraction: ExtractionWorker | None = None,
        on_evicted: Callable[[Sequence[Message]], None] | None = None,
    ) -> None:
        self.engine = engine
        self.memory = memory
        self.config = config or Config()
        self.user_id = user_id or self.config.effective_user_id
        self.private = False
        self.is_forgetful = False
        self._writes_memory = writes_memory and self.user_id not in ANONYMOUS_USERS
        self.extraction = extraction if self._writes_memory else None
        self.session_id: str | None = None
        self.last: Finished | None = None
        self._on_evicted = on_evicted
        self._exchanges: list[Exchange] = []
        self._has_evicted = False
        self._system = self._render_system()
        self._toolbox = self._open_toolbox()
        self._turn_lock = threading.Lock()
        self._cancelled = threading.Event()
        self._generation: Reply | None = None

    @property
    def recalls(self) -> bool:
        """Whether the next message will be looked up in memory."""
        is_on = self.config.injection_enabled and not self.private and not self.is_forgetful
        return self.memory is not None and is_on

    @property
    def system_prompt(self) -> SystemPrompt:
        """P0 to P2, fixed until `clear()`."""
        return self._system

    @property
    def history(self) -> list[Message]:
        """The messages that the model still sees, without the system prompt."""
        return messages_of(self._exchanges)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model may call; fixed until `clear()` or `switch()`."""
        return () if self._toolbox is None else self._toolbox.tools

    def ask(self, text: str) -> Iterator[Event]:
        """The events of one turn, as they happen: Recalled, then Deltas, then Finished; Warned at any time.

        What the model thinks comes as Thought, between the Deltas; it is no part of the answer. A tool that
        it calls comes as ToolCall, what came of it as ToolResult, and then the model goes on.

        Raises ContextOverflowError before anything is decoded, ModelError when the engine fails, UsageError
        while another turn is under way; the conversation is then as it was. Closing the iterator early
        abandons the turn; `cancel()` ends the answer and keeps what there is of it.
        """
        if not self._turn_lock.acquire(blocking=False):
            raise UsageError(
                "this conversation is busy with another answer", hint="wait for it, or cancel it"
            )
        try:
            self._cancelled.clear()
            yield from self._run(_Turn(Message("user", text), private=self.private or self.is_forgetful))
        finally:
            self._generation = None
            self._turn_lock.release()

    def cancel(self) -> None:
        """End the answer that is being generated, if any. Safe from any thread and from a signal handler."""
        self._cancelled.set()
        generation = self._generation
        if generation is not None:
            generation.cancel()

    def switch(
        self,
        engine: ChatModel,
        *,
        memory: Memory | None,
        writes_memory: bool = True,
        extraction: ExtractionWorker | None = None,
        forgetful: bool = False,
    ) -> None:
        """Go on with another model, between two turns, under the rules of memory that hold for it.

        With `forgetful` nothing is recalled or kept while it answers, and what was appended from memory to
        earlier messages is taken off: this model does not get to see it.
        """
        if not self._turn_lock.acquire(blocking=False):
            raise UsageError("this conversation is busy with an answer", hint="wait for it, or cancel it")
        try:
            self._release_extraction()
            self.engine, self.memory, self.is_forgetful = engine, memory, forgetful
            self._writes_memory = writes_memory and self.user_id not in ANONYMOUS_USERS
            self.extraction = extraction if self._writes_memory else None
            if forgetful:
                strip_tails(tails_to_strip(self.history, "strip", engine.window_tokens))
            for message in self.history:
                message.token_ids, message.tokens, message.thought = (), 0, ""  # the other model's
            self._system = self._render_system()
            self._toolbox = self._open_toolbox()
        finally:
            self._turn_lock.release()

    def undo(self) -> str | None:
        """Take the last exchange back, in the stored session and in memory too; gives the user's text.

        What tools have done in it stays done.
        """
        if not self._exchanges:
            return None
        exchange = self._exchanges.pop()
        self.last = None
        if self.memory is not None:
            if exchange.in_session and self.session_id:
                self.memory.delete_last_turn(self.session_id, self.user_id)
            if exchange.memory_id is not None:
                self.memory.delete_memory(exchange.memory_id, self.user_id)
        return exchange.user.raw

    def clear(self) -> None:
        """Begin a new conversation; memory and the stored one stay."""
        self._exchanges.clear()
        self._has_evicted = False
        self._release_extraction()
        self.session_id = None
        self.last = None
        self._system = self._render_system()
        self._toolbox = self._open_toolbox()

    def resume(self) -> int:
        """Go on with this user's latest stored conversation; gives the number of its exchanges."""
        if self.memory is None:
            raise UsageError(
                "there is no conversation to continue without memory", hint="leave out --nomemory"
            )
        self.clear()
        latest = self.memory.list_sessions(self.user_id, limit=1)
        if latest:
            self.session_id = latest[0].id
            self._exchanges = paired(self.memory.load_session(self.session_id, self.user_id))
        return len(self._exchanges)

    def _run(self, turn: _Turn) -> Iterator[Event]:
        turn.history = self.history
        strip_tails(tails_to_strip(turn.history, self.config.injection_retention, self.engine.window_tokens))
        self._recall(turn)
        self._make_room(turn)
        generation = yield from self._answer(turn)
        exchange = self._record(turn, generation)
        stats = _with_recall(turn.stats or generation.stats, turn.injection.recall_us / 1000)
        stats = replace(stats, evicted_turns=len(turn.evicted))
        self.last = Finished(generation.text, stats, turn.injection)
        if exchange is not None:
            self._store(turn, exchange, archive=stats.finish_reason != "cancelled")
            self._let_go(turn)
        turn.warnings.extend(Warned(text) for text in stats.warnings)
        yield from _drain(turn.warnings)
        yield self.last

    def _answer(self, turn: _Turn) -> Generator[Event, None, Reply]:
        """Let the model answer, and go on with the results while it calls tools; gives its last answer."""
        while True:
            with self._generate(turn) as generation:
                self._generation = generation
                if self._cancelled.is_set():
                    generation.cancel()
                if not turn.steps:
                    yield Recalled(turn.injection)
                yield from _drain(turn.warnings)
                for piece in generation:
                    yield Delta(piece) if isinstance(piece, str) else piece
            stats = generation.stats
            turn.stats = stats if turn.stats is None else added_stats(turn.stats, stats)
            if self._toolbox is None or not generation.tool_calls or stats.finish_reason == "cancelled":
                return generation
            if sum(bool(step.tool_calls) for step in turn.steps) >= self.config.tool_rounds:
                text = f"the model has called tools {self.config.tool_rounds} times and wants to go on"
                turn.warnings.append(Warned(text, "the setting tool_rounds allows more"))
                return generation
            yield from self._call_tools(turn, self._toolbox, generation)

    def _call_tools(self, turn: _Turn, toolbox: Toolbox, generation: Reply) -> Iterator[Event]:
        """Carry out what an answer calls; both become steps of the turn."""
        turn.steps.append(message_of(generation, calls=generation.tool_calls))
        for call in generation.tool_calls:
            if self._cancelled.is_set():
                result = ToolResult(call.id, call.name, '{"error": "the user has stopped it"}', failed=True)
            else:
                result = toolbox.call(call)
            if result.error is not None:
                turn.warnings.append(Warned(f"{call.name} failed: {result.error}", result.error.hint))
            turn.steps.append(Message("tool", result.text, tool_call_id=call.id))
            yield result

    def _recall(self, turn: _Turn) -> None:
        # What left the window is no longer in front of the model, and may be recalled.
        since = self._exchanges[0].user.created_at if self._has_evicted and self._exchanges else 0
        injection = self._attempt(
            turn,
            "recall",
            lambda: inject(
                [*turn.history, turn.message],
                memory=self.memory,
                user_id=self.user_id,
                session_id=self.session_id or "",
                session_since=since,
                enabled=self.config.injection_enabled and not turn.private,
            ),
        )
        turn.injection = Injection() if injection is None else injection
        if turn.injection:
            _log.debug("[prompt+context] %s", turn.message.sent)

    def _make_room(self, turn: _Turn, prompt_tokens: int = 0) -> None:
        """Let the oldest turns go when the window is full; old tails first, since the prefix moves anyway.

        `prompt_tokens`: what the engine found, where our counts were less.
        """
        if self.config.injection_retention != "keep" and self._leaving(turn, prompt_tokens):
            strip_tails(tails_to_strip(turn.history, "strip", self.engine.window_tokens))
        leaving = self._leaving(turn, prompt_tokens)
        gone = {id(turn.history[i - 1]) for i in leaving}  # the first is the system prompt
        turn.history = [message for message in turn.history if id(message) not in gone]
        turn.evicted += [exchange for exchange in self._exchanges if id(exchange.user) in gone]

    def _leaving(self, turn: _Turn, prompt_tokens: int) -> list[int]:
        messages = [*assemble(self._system, turn.history, turn.message), *turn.steps]
        tools = json.dumps([[tool.name, tool.description, tool.parameters] for tool in self.tools])

        def leaving(counts: list[int]) -> list[int]:
            window, longest = self.engine.window_tokens, self.config.max_tokens
            return evict(messages, counts, window_tokens=window, max_tokens=longest)

        # No token is empty: most turns need no counting.
        at_most = [m.tokens or len(_told(m).encode("utf-8", "replace")) + _FRAME_TOKENS for m in messages]
        at_most[0] += len(tools)
        if not prompt_tokens and not leaving(at_most):
            return []
        counts = [message.tokens or self._count(_told(message)) for message in messages]
        counts[0] += self._count(tools) if self.tools else 0
        total = sum(counts)
        if 0 < total < prompt_tokens:
            counts = [-(-count * prompt_tokens // total) for count in counts]
        return leaving(counts)

    def _count(self, text: str) -> int:
        """Tokens of a message; for one that cannot fit, at least the window's, without reading it all."""
        window = self.engine.window_tokens
        if len(text) >= window * _MOST_CHARS_PER_TOKEN:
            return window
        return self.engine.count_tokens(text) + _FRAME_TOKENS

    def _generate(self, turn: _Turn) -> Reply:
        """Start the answer; where the window is too small, much gives way before the turn is refused."""
        ways: tuple[Callable[[_Turn, ContextOverflowError], None], ...]
        ways = (self._strip_old_tails, self._evict_more, self._evict_more, self._drop_tail)
        for give_way in ways:
            try:
                return self._begin(turn)
            except ContextOverflowError as error:
                give_way(turn, error)
        return self._begin(turn)

    def _strip_old_tails(self, turn: _Turn, _: ContextOverflowError) -> None:
        if self.config.injection_retention != "keep":
            strip_tails(tails_to_strip(turn.history, "strip", self.engine.window_tokens))

    def _evict_more(self, turn: _Turn, error: ContextOverflowError) -> None:
        self._make_room(turn, error.prompt_tokens)

    def _drop_tail(self, turn: _Turn, _: ContextOverflowError) -> None:
        if turn.injection:
            turn.message.sent, turn.message.injected, turn.injection = turn.message.raw, None, Injection()
            turn.warnings.append(
                Warned("the window has no room for memory in this turn", "/clear starts afresh")
            )

    def _begin(self, turn: _Turn) -> Reply:
        return self.engine.generate(
            [*assemble(self._system, turn.history, turn.message), *turn.steps],
            sampling=_sampling(self.config, self.engine.info.sampling),
            max_tokens=self.config.max_tokens or self.engine.window_tokens,
            tools=self.tools,
        )

    def _record(self, turn: _Turn, generation: Reply) -> Exchange | None:
        """Make the turn part of the conversation, unless it was cancelled before the answer's first piece."""
        if not generation.text and generation.stats.finish_reason == "cancelled" and not turn.steps:
            return None
        counts = generation.prompt_tokens_per_message[1:]  # the first is the system prompt
        for message, tokens in zip([*turn.history, turn.message, *turn.steps], counts, strict=True):
            message.tokens = tokens
        if turn.evicted:
            gone = {id(exchange) for exchange in turn.evicted}
            self._exchanges = [exchange for exchange in self._exchanges if id(exchange) not in gone]
            self._has_evicted = True
        turn.message.created_at = int(time.time())
        exchange = Exchange(turn.message, message_of(generation), steps=turn.steps)
        self._exchanges.append(exchange)
        return exchange

    def _store(self, turn: _Turn, exchange: Exchange, *, archive: bool) -> None:
        """Write the exchange down; the first failure ends it: a locked database is waited for once."""
        if self.memory is None or turn.private or not self._writes_memory:
            return
        self._attempt(turn, "keeping this turn", lambda: self._write(exchange, archive=archive))

    def _let_go(self, turn: _Turn) -> None:
        """What left the window is kept in memory, whatever it said, and may be recalled from now on."""
        if not turn.evicted:
            return
        kept = [exchange for exchange in turn.evicted if self._may_archive(exchange)]
        self._attempt(turn, "keeping what left the window", lambda: self._archive_all(kept))
        what = "exchange" if len(turn.evicted) == 1 else f"{len(turn.evicted)} exchanges"
        where = "kept in memory" if len(kept) == len(turn.evicted) else "no longer part of this conversation"
        turn.warnings.append(Warned(f"the window was full: the oldest {what} left it, {where}"))
        on_evicted = self._on_evicted
        if on_evicted is not None:
            left = messages_of(turn.evicted)
            self._attempt(turn, "summing up what left the window", lambda: on_evicted(left))

    def _may_archive(self, exchange: Exchange) -> bool:
        # A private exchange, or one that could not be written, is in no session.
        return self._writes_memory and exchange.in_session and self.config.archive_turns

    def _archive_all(self, exchanges: Sequence[Exchange]) -> None:
        for exchange in exchanges:
            self._archive(exchange, exchange.user.created_at or int(time.time()))

    def _write(self, exchange: Exchange, *, archive: bool) -> None:
        self._store_in_session(exchange)
        if self.extraction is not None and self.session_id:
            self.extraction.told(self.session_id)
        if archive and self.config.archive_turns and is_statement(exchange.user.raw):
            exchange.memory_id = self._archive(exchange, int(time.time()))

    def _store_in_session(self, exchange: Exchange) -> None:
        assert self.memory is not None
        if self.session_id is None:
            self.session_id = self.memory.start_session(self.user_id, self.engine.info.name)
        job = self.extraction.open_job if self.extraction is not None else None
        self.memory.append_message(self.session_id, exchange.user, self.user_id, job=job)
        for message in (*exchange.steps, exchange.answer):
            self.memory.append_message(self.session_id, message, self.user_id)
        exchange.in_session = True

    def _release_extraction(self) -> None:
        """What was said in a conversation that ends need not wait for its next message."""
        if self.extraction is not None and self.session_id:
            try:
                self.extraction.release(self.session_id)
            except ShepherdError as error:  # it stays in the database, and is released at the next occasion
                _log.info("extraction: %s", error)

    def _archive(self, exchange: Exchange, told_at: int) -> int | None:
        """Remember the exchange; gives the id if that made a new memory, since undo takes back only those."""
        assert self.memory is not None
        told = Turn(exchange.user.raw, exchange.answer.raw.strip(), told_at, self.session_id or "")
        memory_id = self.memory.archive_turn(told, self.user_id)
        record = None if memory_id is None else self.memory.get_memory(memory_id, self.user_id)
        return memory_id if record is not None and record.timestamp == told_at else None

    def _attempt(self, turn: _Turn, what: str, action: Callable[[], _T]) -> _T | None:
        """The result of something that the answer does not depend on; a failure becomes a warning."""
        try:
            return action()
        except ShepherdError as error:
            turn.warnings.append(Warned(f"{what} failed: {error}", error.hint))
        return None

    def _open_toolbox(self) -> Toolbox | None:
        if not self.config.memory_tools or self.memory is None or self.is_forgetful:
            return None
        if self.user_id in ANONYMOUS_USERS:
            return None
        tools = memory_tools(
            self.memory,
            self.user_id,
            refusal=lambda: "the user has switched the memory off for now" if self.private else "",
            writes=self._writes_memory,
            keeps_secrets=self.config.memory_extraction_secrets,
        )
        return Toolbox(tools)

    def _render_system(self) -> SystemPrompt:
        return render_system(
            self.config.system_prompt,
            memory=self.memory is not None and self.config.injection_enabled and not self.is_forgetful,
        )


def is_statement(text: str) -> bool:
    """Whether a message tells something: it is no question, and has more than filler and greetings."""
    return not text.rstrip().endswith(_QUESTION_MARKS) and any(word not in _FILLER for word in keywords(text))


def _drain(warnings: list[Warned]) -> Iterator[Warned]:
    while warnings:
        yield warnings.pop(0)


def _sampling(config: Config, recommended: Sampling) -> Sampling:
    """What is set, and for the rest what the model's file recommends."""
    chosen = {
        key: value
        for key in _SAMPLING_SETTINGS
        if not isinstance(value := getattr(config, key), str)  # "auto"
    }
    return replace(recommended, **chosen, seed=None if config.seed < 0 else config.seed)


def _with_recall(stats: TurnStats, recall_ms: float) -> TurnStats:
    """The engine's times begin after recall; the user's began before."""
    return replace(
        stats, recall_ms=recall_ms, ttft_ms=stats.ttft_ms + recall_ms, total_ms=stats.total_ms + recall_ms
    )


def message_of(generation: Reply, *, calls: tuple[ToolCall, ...] = ()) -> Message:
    """An answer as a message; with calls only if they get results."""
    ids = tuple(generation.token_ids)
    return Message(
        "assistant",
        generation.text,
        token_ids=ids,
        tokens=len(ids),
        tool_calls=calls,
        thought=generation.thought,
    )


def _told(message: Message) -> str:
    """All that a message says to the model, about as it is written there."""
    calls = "".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
    return f"{message.sent}{calls}{message.thought}"
