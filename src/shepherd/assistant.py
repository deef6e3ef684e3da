"""One turn, from message to answer: recall, prompt, generate, record, archive. Only here is the order known.

A turn that fails or is abandoned leaves the conversation as it was before it. A memory that fails costs a
warning, never the answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from shepherd._native.text import STOP_WORDS, keywords, stem
from shepherd.config import Config
from shepherd.context import (
    SystemPrompt,
    assemble,
    inject,
    render_system,
    strip_tails,
    tails_to_strip,
)
from shepherd.errors import ContextOverflowError, ShepherdError, UsageError
from shepherd.memory import Memory, Turn
from shepherd.types import ANONYMOUS_USERS, Injection, Message, Sampling, TurnStats

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.inference import Engine, Generation

__all__ = ["Assistant", "Delta", "Event", "Exchange", "Finished", "Recalled", "Warned"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_SMALL_TALK = (
    "bye", "cheers", "fine", "good", "goodbye", "great", "hello", "hey", "hi", "morning", "evening", "night",
    "nice", "no", "ok", "okay", "sorry", "sure", "thanks", "thank", "welcome", "yeah", "yep", "yes",
)  # fmt: skip
# A text of nothing but stop words has them as its keywords, stemmed.
_FILLER = frozenset().union(*({word, stem(word)} for word in (*STOP_WORDS, *_SMALL_TALK)))
_SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n")
_END_OF_THOUGHTS = "</think>"
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
    """The whole answer and what it cost; the last event of a turn that did not raise."""

    answer: str
    stats: TurnStats
    injection: Injection


Event = Recalled | Delta | Warned | Finished


@dataclass(slots=True)
class Exchange:
    """A message of the user and its answer, and where they were written."""

    user: Message
    answer: Message
    in_session: bool = False
    memory_id: int | None = None


@dataclass(slots=True)
class _Turn:
    """A turn on its way; becomes an Exchange when it ends well."""

    message: Message
    injection: Injection = field(default_factory=Injection)
    warnings: list[Warned] = field(default_factory=list)
    private: bool = False


class Assistant:
    """A conversation of one user with one model.

    One turn at a time; `cancel()` may be called from any thread, everything else from one. The caller closes
    what it passed in. Without `writes_memory` the memory is only read. With `extraction`, what the user
    says is queued for it, in the transaction that stores the message.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        memory: Memory | None,
        config: Config | None = None,
        user_id: str = "",
        writes_memory: bool = True,
        extraction: ExtractionWorker | None = None,
    ) -> None:
        self.engine = engine
        self.memory = memory
        self.config = config or Config()
        self.user_id = user_id or self.config.effective_user_id
        self.private = False
        self._writes_memory = writes_memory and self.user_id not in ANONYMOUS_USERS
        self.extraction = extraction if self._writes_memory else None
        self.session_id: str | None = None
        self.last: Finished | None = None
        self._exchanges: list[Exchange] = []
        self._system = self._render_system()
        self._turn_lock = threading.Lock()
        self._cancelled = threading.Event()
        self._generation: Generation | None = None

    @property
    def recalls(self) -> bool:
        """Whether the next message will be looked up in memory."""
        return self.memory is not None and self.config.injection_enabled and not self.private

    @property
    def system_prompt(self) -> SystemPrompt:
        """P0 to P2, fixed until `clear()`."""
        return self._system

    @property
    def history(self) -> list[Message]:
        """The messages so far, without the system prompt."""
        return [message for exchange in self._exchanges for message in (exchange.user, exchange.answer)]

    def ask(self, text: str) -> Iterator[Event]:
        """The events of one turn, as they happen: Recalled, then Deltas, then Finished; Warned at any time.

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
            yield from self._run(_Turn(Message("user", text), private=self.private))
        finally:
            self._generation = None
            self._turn_lock.release()

    def cancel(self) -> None:
        """End the answer that is being generated, if any. Safe from any thread and from a signal handler."""
        self._cancelled.set()
        generation = self._generation
        if generation is not None:
            generation.cancel()

    def undo(self) -> str | None:
        """Take the last exchange back, in the stored session and in memory too; gives the user's text."""
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
        self._release_extraction()
        self.session_id = None
        self.last = None
        self._system = self._render_system()

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
            self._exchanges = _paired(self.memory.load_session(self.session_id, self.user_id))
        return len(self._exchanges)

    def _run(self, turn: _Turn) -> Iterator[Event]:
        history = self.history
        strip_tails(tails_to_strip(history, self.config.injection_retention, self.engine.window_tokens))
        self._recall(turn, history)
        with self._generate(turn, history) as generation:
            self._generation = generation
            if self._cancelled.is_set():
                generation.cancel()
            yield Recalled(turn.injection)
            yield from _drain(turn.warnings)
            for piece in generation:
                yield Delta(piece)
            exchange = self._record(turn, history, generation)
        stats = _with_recall(generation.stats, turn.injection.recall_us / 1000)
        self.last = Finished(generation.text, stats, turn.injection)
        if exchange is not None:
            self._store(turn, exchange, archive=stats.finish_reason != "cancelled")
        turn.warnings.extend(Warned(text) for text in stats.warnings)
        yield from _drain(turn.warnings)
        yield self.last

    def _recall(self, turn: _Turn, history: list[Message]) -> None:
        injection = self._attempt(
            turn,
            "recall",
            lambda: inject(
                [*history, turn.message],
                memory=self.memory,
                user_id=self.user_id,
                session_id=self.session_id or "",
                enabled=self.config.injection_enabled and not turn.private,
            ),
        )
        turn.injection = Injection() if injection is None else injection
        if turn.injection:
            _log.debug("[prompt+context] %s", turn.message.sent)

    def _generate(self, turn: _Turn, history: list[Message]) -> Generation:
        """Start the answer; where the window is too small, memory gives way before the turn is refused."""
        try:
            return self._begin(turn, history)
        except ContextOverflowError:
            if self.config.injection_retention == "keep" or not strip_tails(
                tails_to_strip(history, "strip", self.engine.window_tokens)
            ):
                return self._generate_without_tail(turn, history)
        try:
            return self._begin(turn, history)
        except ContextOverflowError:
            return self._generate_without_tail(turn, history)

    def _generate_without_tail(self, turn: _Turn, history: list[Message]) -> Generation:
        had_tail = bool(turn.injection)
        turn.message.sent, turn.message.injected, turn.injection = turn.message.raw, None, Injection()
        generation = self._begin(turn, history)
        if had_tail:
            turn.warnings.append(
                Warned("the window has no room for memory in this turn", "/clear starts afresh")
            )
        return generation

    def _begin(self, turn: _Turn, history: list[Message]) -> Generation:
        return self.engine.generate(
            assemble(self._system, history, turn.message),
            sampling=_sampling(self.config, self.engine.info.sampling),
            max_tokens=self.config.max_tokens or self.engine.window_tokens,
        )

    def _record(self, turn: _Turn, history: list[Message], generation: Generation) -> Exchange | None:
        """Make the turn part of the conversation, unless it was cancelled before the answer's first piece."""
        if not generation.text and generation.stats.finish_reason == "cancelled":
            return None
        counts = generation.prompt_tokens_per_message[1:]  # the first is the system prompt
        for message, tokens in zip([*history, turn.message], counts, strict=True):
            message.tokens = tokens
        answer = Message("assistant", generation.text, token_ids=tuple(generation.token_ids))
        answer.tokens = len(answer.token_ids)
        exchange = Exchange(turn.message, answer)
        self._exchanges.append(exchange)
        return exchange

    def _store(self, turn: _Turn, exchange: Exchange, *, archive: bool) -> None:
        """Write the exchange down; the first failure ends it: a locked database is waited for once."""
        if self.memory is None or turn.private or not self._writes_memory:
            return
        self._attempt(turn, "keeping this turn", lambda: self._write(exchange, archive=archive))

    def _write(self, exchange: Exchange, *, archive: bool) -> None:
        self._store_in_session(exchange)
        if self.extraction is not None and self.session_id:
            self.extraction.told(self.session_id)
        if archive and self.config.archive_turns and is_statement(exchange.user.raw):
            exchange.memory_id = self._archive(exchange)

    def _store_in_session(self, exchange: Exchange) -> None:
        assert self.memory is not None
        if self.session_id is None:
            self.session_id = self.memory.start_session(self.user_id, self.engine.info.name)
        job = self.extraction.open_job if self.extraction is not None else None
        self.memory.append_message(self.session_id, exchange.user, self.user_id, job=job)
        self.memory.append_message(self.session_id, exchange.answer, self.user_id)
        exchange.in_session = True

    def _release_extraction(self) -> None:
        """What was said in a conversation that ends need not wait for its next message."""
        if self.extraction is not None and self.session_id:
            try:
                self.extraction.release(self.session_id)
            except ShepherdError as error:  # it stays in the database, and is released at the next occasion
                _log.info("extraction: %s", error)

    def _archive(self, exchange: Exchange) -> int | None:
        """Remember the exchange; gives the id if that made a new memory, since undo takes back only those."""
        assert self.memory is not None
        now = int(time.time())
        answer = exchange.answer.raw.rpartition(_END_OF_THOUGHTS)[2].strip()
        told = Turn(exchange.user.raw, answer, now, self.session_id or "")
        memory_id = self.memory.archive_turn(told, self.user_id)
        record = None if memory_id is None else self.memory.get_memory(memory_id, self.user_id)
        return memory_id if record is not None and record.timestamp == now else None

    def _attempt(self, turn: _Turn, what: str, action: Callable[[], _T]) -> _T | None:
        """The result of something that the answer does not depend on; a failure becomes a warning."""
        try:
            return action()
        except ShepherdError as error:
            turn.warnings.append(Warned(f"{what} failed: {error}", error.hint))
        return None

    def _render_system(self) -> SystemPrompt:
        return render_system(
            self.config.system_prompt, memory=self.memory is not None and self.config.injection_enabled
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


def _paired(messages: list[Message]) -> list[Exchange]:
    """Whole exchanges only: a process that died between two writes leaves a question without its answer."""
    exchanges = []
    for first, second in pairwise(messages):
        if first.role == "user" and second.role == "assistant":
            exchanges.append(Exchange(first, second, in_session=True))
    return exchanges
