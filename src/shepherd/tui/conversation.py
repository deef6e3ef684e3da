"""The conversation behind the screen: a thread that owns the session and posts events.

Nothing here knows widgets. A session belongs to one thread, and the screen must not wait for answers.
"""

from __future__ import annotations

import io
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from shepherd.commands.explain import arguments_in_full
from shepherd.commands.screen import Screen, shortened
from shepherd.errors import InternalError, ShepherdError
from shepherd.types import Message, Picture, Thought

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.chat_session import Session
    from shepherd.commands.slash import Chat
    from shepherd.config import Config
    from shepherd.inference.hub import Transferred, Waiting
    from shepherd.memory import Memory
    from shepherd.turn import Event as TurnEvent
    from shepherd.turn import Finished

__all__ = [
    "Asked",
    "ChatState",
    "Confirming",
    "Conversation",
    "Ended",
    "Event",
    "Failed",
    "Forgotten",
    "History",
    "Learned",
    "Loading",
    "Output",
    "Piece",
    "Prepared",
    "Revising",
    "SessionOptions",
    "Thinking",
    "settle",
]

_T = TypeVar("_T")
# Pieces of an answer that arrive faster are shown together.
_LEAST_PAUSE_S = 0.03


@dataclass(frozen=True, slots=True)
class Prepared:
    """A message: what was typed, what the model reads in its place ("": that), and a remark about it."""

    typed: str
    composed: str = ""
    pictures: tuple[Picture, ...] = ()
    remark: str = ""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options of a session. `resume` is the id of the conversation to continue, "" for the latest.

    `prepare` attaches what a message names; it raises ShepherdError if that can't be read.
    `runnable` returns a hint with commands that run where they are shown.
    """

    config: Config
    model: str = ""
    memory: bool = True
    resume: str | None = None
    note: str = ""  # a line for the greeting
    is_limited: bool = False  # max_tokens was given, and wins over the provider's
    prepare: Callable[[Assistant, str], Prepared] | None = None
    runnable: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class ChatState:
    """State of the conversation between two turns."""

    provider: str
    providers: tuple[str, ...]
    model: str
    window_tokens: int
    user_id: str
    memory: Memory | None
    recalls: bool
    private: bool
    last: Finished | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Processing of a line has started: a message, or a command."""

    text: str
    is_command: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """A piece of the model's thoughts before its answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a command: lines, each with whether it is a result or a remark."""

    lines: tuple[tuple[bool, str], ...]


@dataclass(frozen=True, slots=True)
class History:
    """The conversation has changed; its messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The user took back what these lines said: the history of the prompt must not show them."""

    lines: frozenset[str]


@dataclass(frozen=True, slots=True)
class Learned:
    """Lines about what was learned; they may come while an answer does."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loading:
    """A text about what takes time; empty when it is over."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A line failed; the conversation is unchanged."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Revising:
    """Texts for the user to edit; `answer` waits for them, or for None."""

    texts: dict[str, str]
    answer: Future[dict[str, str] | None]


@dataclass(frozen=True, slots=True)
class Confirming:
    """A tool call that the user has to allow; `answer` waits for that."""

    question: str
    answer: Future[bool]


@dataclass(frozen=True, slots=True)
class Ended:
    """The conversation has ended, perhaps by an error."""

    error: Exception | None


_Shown: TypeAlias = (
    Asked | Piece | Thinking | Output | History | Forgotten | Learned | Loading | Failed | Ended | ChatState
)
Event: TypeAlias = "_Shown | Revising | Confirming | TurnEvent"


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """The beginning of a line that the user is still writing."""

    text: str


class Conversation(threading.Thread):
    """`start()` it, `say()` lines, `stop()` it. `post` is called in this thread with each event, in order."""

    def __init__(self, options: SessionOptions, post: Callable[[Event], object]) -> None:
        super().__init__(name="shepherd-conversation", daemon=True)
        self._options = options
        self._post = post
        self._lines: queue.SimpleQueue[str | _Unfinished | None] = queue.SimpleQueue()
        self._assistant: Assistant | None = None
        self._revising: Future[dict[str, str] | None] = Future()
        self._confirming: Future[bool] = Future()
        self._is_stopping = False
        # Lines that were queued, and up to which of them answers are cancelled, begun or not.
        self._n_said = self._n_cancelled = self._n_begun = 0
        self._asked_at = math.inf  # until the answer begins, on time.monotonic's clock
        self._watched: Memory | None = None
        self.closing = ""  # about what takes time when the session or a provider is closed
        self.farewell: list[str] = []  # what was learned at the end, once the thread has ended

    @property
    def said(self) -> list[Message]:
        """The messages of the user and the answers, once the thread has ended."""
        history = self._assistant.history if self._assistant is not None else []
        return [message for message in history if message.role in ("user", "assistant") and message.raw]

    def say(self, line: str) -> None:
        """Queue a message or a command. From any thread."""
        self._n_said += 1
        self._lines.put(line)

    def writing(self, text: str) -> None:
        """Tell what the user has written so far of a message. From any thread."""
        self._lines.put(_Unfinished(text))

    def cancel(self) -> None:
        """Cancel the answers to all lines so far, begun or not. From any thread."""
        self._n_cancelled = self._n_said
        if self._assistant is not None:
            self._assistant.cancel()

    @property
    def waiting(self) -> str:
        """The state of the model until the answer begins; "" at first, and afterwards. Thread-safe."""
        from shepherd.commands.waiting import SILENT_S, waiting_in_words

        assistant, waited_s = self._assistant, time.monotonic() - self._asked_at
        return waiting_in_words(assistant, waited_s) if assistant is not None and waited_s > SILENT_S else ""

    def stop(self) -> None:
        """Stop soon; `join()` waits for it. From any thread; can be called twice."""
        self._is_stopping = True
        self._lines.put(None)
        self.cancel()
        settle(self._revising, None)
        settle(self._confirming, False)

    def run(self) -> None:
        """Open the session, process lines, close it."""
        error: Exception | None = None
        try:
            self._converse()
        except Exception as failure:
            error = failure
        self._post(Ended(error))

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        """Let the user edit texts, for a command; waits."""
        self._revising = Future()
        if self._is_stopping:
            return None
        self._post(Revising(texts, self._revising))
        return self._revising.result()

    def forget_lines(self, lines: Collection[str]) -> None:
        """Delete lines from the history of the prompt, for a command."""
        self._post(Forgotten(frozenset(lines)))

    def confirm(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Ask the user whether a tool can be called; waits."""
        self._confirming = Future()
        if self._is_stopping:
            return False
        shown = arguments_in_full(arguments)
        question = f"{name} can change something. Allow it?\n\n{shown}".strip()
        self._post(Confirming(question, self._confirming))
        return self._confirming.result()

    def _converse(self) -> None:
        # Here, since these imports take as long as drawing the first screen.
        from shepherd.chat_session import Session
        from shepherd.commands.slash import Chat
        from shepherd.turn import warm_up

        options = self._options
        with (
            Session(
                options.config,
                model=options.model,
                memory=options.memory,
                warn=self._warn,
                loading=self._load,
                closing=self._close,
                report=self._report,
                confirm=self.confirm,
                is_limited=options.is_limited,
                at_end=self._learned_at_end,
            ) as session,
            ExitStack() as stack,
        ):
            self._assistant = session.assistant
            screen = _Recorder(options.runnable)
            chat = Chat(session.assistant, screen, self, session=session)
            resumed = 0 if options.resume is None else session.assistant.resume(options.resume)
            if options.resume == "" and not resumed:
                self._warn("there is no conversation to continue; this is a new one", "")
            self._post(History(tuple(session.assistant.history)))
            self._post(Output(self._greeting(session.assistant)))
            self._watch(stack)
            self._post_news()
            self._post(_state_of(session))
            warm_up.begin()
            while not chat.done and (line := self._lines.get()) is not None:
                if isinstance(line, _Unfinished):
                    chat.assistant.read_ahead(line.text)
                    continue
                self._work(line, chat, screen)
                self._watch(stack)
                self._post_news()
                self._post(_state_of(session))

    def _watch(self, stack: ExitStack) -> None:
        """Post what is learned between two lines. Another provider may have opened the memory."""
        memory = self._assistant.memory if self._assistant is not None else None
        if memory is not None and memory is not self._watched:
            self._watched = memory
            stack.callback(memory.extraction.watch(lambda user: self._post_news()))

    def _post_news(self) -> None:
        """Post what was learned and not shown yet. From this thread and the worker's."""
        from shepherd.commands.explain import news_in_words

        assistant = self._assistant
        if assistant is None or assistant.memory is None or assistant.private or self._is_stopping:
            return
        with suppress(ShepherdError):  # shown another time
            if lines := news_in_words(assistant.memory.take_news(assistant.user_id)):
                self._post(Learned(tuple(lines)))

    def _learned_at_end(self, memory: Memory, user_id: str) -> None:
        from shepherd.commands.explain import news_in_words

        with suppress(ShepherdError):  # the next start shows it
            self.farewell = news_in_words(memory.take_news(user_id), in_chat=False)

    def _greeting(self, assistant: Assistant) -> tuple[tuple[bool, str], ...]:
        from shepherd import __version__
        from shepherd.commands.explain import about_learning, memory_in_words

        lines = [
            f"Shepherd {__version__} \N{MIDDLE DOT} {memory_in_words(assistant)}",
            "/ lists the commands, F1 the keys; F3 shows what is remembered",
            self._options.note,
            about_learning(assistant),
        ]
        return tuple((False, line) for line in lines if line)

    def _work(self, line: str, chat: Chat, screen: _Recorder) -> None:
        before = _place_of(chat.assistant)
        self._n_begun += 1
        try:
            is_command = line.startswith("/") and not line.startswith("//")
            self._post(Asked(line, is_command))
            message = chat.message_of(line)
            if message is not None:
                self._answer(chat.assistant, message)
            elif _place_of(chat.assistant) != before:
                self._post(History(tuple(chat.assistant.history)))
        except InternalError:
            raise
        except ShepherdError as error:
            self._post(Failed(str(error), error.hint))
        finally:
            if lines := screen.take():
                self._post(Output(lines))

    def _answer(self, assistant: Assistant, message: str) -> None:
        from shepherd.turn import Delta, Recalled

        prepare = self._options.prepare
        prepared = Prepared(message) if prepare is None else prepare(assistant, message)
        if prepared.remark:
            self._post(Output(((False, prepared.remark),)))
        pending, told_at = "", 0.0
        self._asked_at = time.monotonic()
        try:
            for event in assistant.ask(
                prepared.typed, composed=prepared.composed, pictures=prepared.pictures
            ):
                if self._n_begun <= self._n_cancelled:
                    assistant.cancel()
                if not isinstance(event, Recalled):
                    self._asked_at = math.inf
                if isinstance(event, Delta):
                    pending += event.text
                    if time.monotonic() - told_at < _LEAST_PAUSE_S:
                        continue
                if pending:
                    self._post(Piece(pending))
                    pending, told_at = "", time.monotonic()
                if isinstance(event, Thought):
                    self._post(Thinking(event.text))
                elif not isinstance(event, Delta):
                    self._post(event)
        finally:
            self._asked_at = math.inf
            if pending:  # the answer broke off
                self._post(Piece(pending))

    def _warn(self, message: str, hint: str) -> None:
        from shepherd.turn import Warned

        self._post(Warned(message, hint))

    def _load(self, text: str) -> None:
        self._post(Loading(text))

    def _close(self, text: str) -> None:
        self.closing = text
        self._load(text)

    def _report(self, event: Transferred | Waiting) -> None:
        from shepherd.inference.hub import Transferred

        if isinstance(event, Transferred):
            share = 100 * event.done_bytes / event.size_bytes if event.size_bytes else 0
            self._post(Loading(f"fetching {event.file.rpartition('/')[2]}: {share:.0f} %"))
        else:
            self._warn(event.reason, "")


def _place_of(assistant: Assistant) -> tuple[str | None, int]:
    """Return the conversation, and its length: what a command may change of what is on the screen."""
    return assistant.session_id, len(assistant.history)


def settle(answer: Future[_T], value: _T) -> None:
    """Set the result of a future that has none."""
    with suppress(InvalidStateError):
        answer.set_result(value)


class _Recorder(Screen):
    """A screen that records the output of commands, for a widget."""

    def __init__(self, runnable: Callable[[str], str]) -> None:
        self._written: list[tuple[bool, str]] = []
        self._runnable = runnable
        super().__init__(
            _Recording(self._written, is_result=True), _Recording(self._written, is_result=False)
        )
        self.begin_chat()

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Write columns of text, as wide as their cells."""
        lines = [list(headers), *([shortened(str(value)) for value in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
            self.print("  ".join(cells).rstrip())

    def runnable(self, text: str) -> str:
        """Return the text with commands that can be run here."""
        return self._runnable(text)

    def take(self) -> tuple[tuple[bool, str], ...]:
        """Return the lines since the last call."""
        lines: list[tuple[bool, str]] = []
        for is_result, text in self._written:
            lines += [(is_result, line) for line in text.removesuffix("\n").split("\n")]
        self._written.clear()
        return tuple(lines)


class _Recording(io.StringIO):
    def __init__(self, written: list[tuple[bool, str]], *, is_result: bool) -> None:
        super().__init__()
        self._written, self._is_result = written, is_result

    def write(self, text: str) -> int:
        self._written.append((self._is_result, text))
        return len(text)


def _state_of(session: Session) -> ChatState:
    assistant = session.assistant
    return ChatState(
        provider=session.provider.name,
        providers=tuple(session.table.names()),
        model=assistant.engine.info.name,
        window_tokens=assistant.engine.window_tokens,
        user_id=assistant.user_id,
        memory=assistant.memory,
        recalls=assistant.recalls,
        private=assistant.private,
        last=assistant.last,
    )
