"""The conversation behind the screen: one thread that owns the session and tells what happens, as events.

Nothing here knows widgets. A session belongs to one thread, and an answer takes its time; the screen must not
wait for either.
"""

from __future__ import annotations

import io
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from shepherd.commands.explain import arguments_in_full
from shepherd.commands.screen import Screen, shortened
from shepherd.errors import InternalError, ShepherdError
from shepherd.types import Message, Thought

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.chat_session import Session
    from shepherd.commands.slash import Chat
    from shepherd.config import Config
    from shepherd.inference.hub import Transferred, Waiting
    from shepherd.memory import Memory
    from shepherd.turn.events import Event as TurnEvent
    from shepherd.turn.events import Finished

__all__ = [
    "Asked",
    "Confirming",
    "Conversation",
    "Ended",
    "Event",
    "Failed",
    "History",
    "Loading",
    "Opening",
    "Output",
    "Piece",
    "Revising",
    "Standing",
    "Thinking",
    "settle",
]

_T = TypeVar("_T")
# Pieces of an answer that come quicker are shown together: the eye sees no more, and the screen has time.
_LEAST_PAUSE_S = 0.03


@dataclass(frozen=True, slots=True)
class Opening:
    """What the conversation is opened with."""

    config: Config
    model: str = ""
    memory: bool = True
    resume: bool = False
    note: str = ""  # what else the user is told at the beginning
    is_limited: bool = False  # the longest answer was asked for


@dataclass(frozen=True, slots=True)
class Standing:
    """How things are between two turns."""

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
    """A line begins to be worked on: a message, or a command."""

    text: str
    is_command: bool


@dataclass(frozen=True, slots=True)
class Piece:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class Output:
    """What a command said: lines, and for each whether it is a result or a remark beside it."""

    lines: tuple[tuple[bool, str], ...]


@dataclass(frozen=True, slots=True)
class History:
    """The conversation is another one now: what was said in it."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Loading:
    """What takes its time at the moment; empty when nothing does any more."""

    text: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A line that could not be worked on; the conversation is as it was."""

    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Revising:
    """Texts that the user is to change; `answer` waits for them, or for None."""

    texts: dict[str, str]
    answer: Future[dict[str, str] | None]


@dataclass(frozen=True, slots=True)
class Confirming:
    """Something that the model wants to do, about which the user is asked; `answer` waits for it."""

    question: str
    answer: Future[bool]


@dataclass(frozen=True, slots=True)
class Ended:
    """The conversation is over; with the error that ended it, unless it was asked to end."""

    error: Exception | None


_Shown: TypeAlias = Asked | Piece | Thinking | Output | History | Loading | Failed | Ended | Standing
Event: TypeAlias = "_Shown | Revising | Confirming | TurnEvent"


class Conversation(threading.Thread):
    """`start()` it, `say()` lines, `stop()` it. `tell` is called in this thread with each event, in order."""

    def __init__(self, opening: Opening, tell: Callable[[Event], object]) -> None:
        super().__init__(name="shepherd-conversation", daemon=True)
        self._opening = opening
        self._tell = tell
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._assistant: Assistant | None = None
        self._revising: Future[dict[str, str] | None] = Future()
        self._confirming: Future[bool] = Future()
        self._is_stopping = False

    @property
    def said(self) -> list[Message]:
        """The messages of the user and the answers, once the thread has ended."""
        history = self._assistant.history if self._assistant is not None else []
        return [message for message in history if message.role in ("user", "assistant") and message.raw]

    def say(self, line: str) -> None:
        """Work on a message or a command, after those before. From any thread."""
        self._lines.put(line)

    def cancel(self) -> None:
        """End the answer that is being generated, if any. From any thread."""
        if self._assistant is not None:
            self._assistant.cancel()

    def stop(self) -> None:
        """End soon; `join()` waits for it. From any thread, and twice is fine."""
        self._is_stopping = True
        self._lines.put(None)
        self.cancel()
        settle(self._revising, None)
        settle(self._confirming, False)

    def run(self) -> None:
        """Open the session, work on lines, close it."""
        error: Exception | None = None
        try:
            self._converse()
        except Exception as failure:
            error = failure
        self._tell(Ended(error))

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        """Have the user change texts, for a command; waits."""
        self._revising = Future()
        if self._is_stopping:
            return None
        self._tell(Revising(texts, self._revising))
        return self._revising.result()

    def confirm(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Ask the user whether a tool that may change something may be called; waits."""
        self._confirming = Future()
        if self._is_stopping:
            return False
        shown = arguments_in_full(arguments)
        question = f"{name} may change something. Allow it?\n\n{shown}".strip()
        self._tell(Confirming(question, self._confirming))
        return self._confirming.result()

    def _converse(self) -> None:
        # Here, since their imports take as long as drawing the first screen.
        from shepherd.chat_session import Session
        from shepherd.commands.slash import Chat

        opening = self._opening
        with Session(
            opening.config,
            model=opening.model,
            memory=opening.memory,
            warn=self._warn,
            loading=self._load,
            report=self._report,
            confirm=self.confirm,
            is_limited=opening.is_limited,
        ) as session:
            self._assistant = session.assistant
            screen = _Recorder()
            chat = Chat(session.assistant, screen, self, session=session)
            if opening.resume and not session.assistant.resume():
                self._warn("there is no conversation to continue; this is a new one", "")
            self._tell(History(tuple(session.assistant.history)))
            self._tell(Output(self._greeting(session.assistant)))
            self._tell(_standing(session))
            while not chat.done and (line := self._lines.get()) is not None:
                self._work(line, chat, screen)
                self._tell(_standing(session))

    def _greeting(self, assistant: Assistant) -> tuple[tuple[bool, str], ...]:
        from shepherd import __version__
        from shepherd.commands.explain import memory_in_words

        lines = [
            f"Shepherd {__version__} \N{MIDDLE DOT} {memory_in_words(assistant)}",
            "/ lists the commands, F1 the keys; F3 shows what is remembered",
            self._opening.note,
        ]
        return tuple((False, line) for line in lines if line)

    def _work(self, line: str, chat: Chat, screen: _Recorder) -> None:
        before = len(chat.assistant.history)
        try:
            is_command = line.startswith("/") and not line.startswith("//")
            self._tell(Asked(line, is_command))
            message = chat.message_of(line)
            if message is not None:
                self._answer(chat.assistant, message)
            elif len(chat.assistant.history) != before:
                self._tell(History(tuple(chat.assistant.history)))
        except InternalError:
            raise
        except ShepherdError as error:
            self._tell(Failed(str(error), error.hint))
        finally:
            if lines := screen.take():
                self._tell(Output(lines))

    def _answer(self, assistant: Assistant, message: str) -> None:
        from shepherd.turn.events import Delta

        pending, told_at = "", 0.0
        try:
            for event in assistant.ask(message):
                if isinstance(event, Delta):
                    pending += event.text
                    if time.monotonic() - told_at < _LEAST_PAUSE_S:
                        continue
                if pending:
                    self._tell(Piece(pending))
                    pending, told_at = "", time.monotonic()
                if isinstance(event, Thought):
                    self._tell(Thinking(event.text))
                elif not isinstance(event, Delta):
                    self._tell(event)
        finally:
            if pending:  # of an answer that broke off
                self._tell(Piece(pending))

    def _warn(self, message: str, hint: str) -> None:
        from shepherd.turn.events import Warned

        self._tell(Warned(message, hint))

    def _load(self, text: str) -> None:
        self._tell(Loading(text))

    def _report(self, event: Transferred | Waiting) -> None:
        from shepherd.inference.hub import Transferred

        if isinstance(event, Transferred):
            share = 100 * event.done_bytes / event.size_bytes if event.size_bytes else 0
            self._tell(Loading(f"fetching {event.file.rpartition('/')[2]}: {share:.0f} %"))
        else:
            self._warn(event.reason, "")


def settle(answer: Future[_T], value: _T) -> None:
    """Give an answer, unless there is one."""
    with suppress(InvalidStateError):
        answer.set_result(value)


class _Recorder(Screen):
    """A screen that keeps what the commands show, for a widget."""

    def __init__(self) -> None:
        self._written: list[tuple[bool, str]] = []
        super().__init__(_Tape(self._written, is_result=True), _Tape(self._written, is_result=False))
        self.begin_chat()

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Columns of text, as wide as what stands in them."""
        lines = [list(headers), *([shortened(str(value)) for value in row] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (f"{cell:{width}}" for cell, width in zip(line, widths, strict=True))
            self.print("  ".join(cells).rstrip())

    def take(self) -> tuple[tuple[bool, str], ...]:
        """The lines since the last time."""
        lines: list[tuple[bool, str]] = []
        for is_result, text in self._written:
            lines += [(is_result, line) for line in text.removesuffix("\n").split("\n")]
        self._written.clear()
        return tuple(lines)


class _Tape(io.StringIO):
    def __init__(self, written: list[tuple[bool, str]], *, is_result: bool) -> None:
        super().__init__()
        self._written, self._is_result = written, is_result

    def write(self, text: str) -> int:
        self._written.append((self._is_result, text))
        return len(text)


def _standing(session: Session) -> Standing:
    assistant = session.assistant
    return Standing(
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
