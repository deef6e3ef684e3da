"""One conversation that several clients take part in: turns wait in a line, and everybody sees all of them.

A thread of its own has the assistant, which is used from one thread. It tells what happens to the event loop,
and that hands it to each watcher; one who does not read is let go, so that nobody waits for him.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from shepherd.assistant import Assistant, Delta, Event, Finished, Recalled, ToolResult, Warned
from shepherd.errors import ShepherdError
from shepherd.server.errors import Denied, Problem, problem_of
from shepherd.server.state import Served
from shepherd.types import Message, ToolCall

__all__ = ["Request", "SessionEvent", "SharedConversation", "Watcher"]

_log = logging.getLogger(__name__)

_Told = TypeVar("_Told")
_ROUTE = "/request"
# Turns that wait; who comes then is told to come back.
_MOST_WAITING = 256
_MOST_WATCHERS = 256
# Happenings that a watcher may be behind, and characters of an answer that are one of them.
_MOST_BEHIND = 4096
_LONGEST_PIECE = 4096
# What an answer may take to end when it is told to.
_JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """Something that all watchers are told. `request` is the turn that it belongs to, "" for none."""

    name: str
    content: dict[str, Any]
    request: str = ""
    client: str = ""

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes of this request."""
        return self.name in ("response_complete", "error", "cleared")

    def as_json(self) -> dict[str, Any]:
        """As it is sent."""
        origin = {"request": self.request, "client": self.client} if self.request else {}
        return {**origin, **self.content}


@dataclass(slots=True)
class Request:
    """What a client asks for: an answer, or (`prompt` None) a new conversation."""

    prompt: str | None
    max_tokens: int | None = None
    memory: bool = True
    client: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    is_cancelled: bool = False


class Watcher:
    """What one client is told. `next` gives it; ends with the conversation's server, or when it fell behind.

    Pieces of an answer that wait become one: a model may be faster than a client.
    """

    def __init__(self, only: str = "") -> None:
        self._only = only  # a request's id, or "" for all
        self._waiting: deque[SessionEvent | None] = deque()
        self._rung = asyncio.Event()
        self.is_too_slow = False

    def tell(self, happening: SessionEvent | None) -> bool:
        """Whether it wants to be told more; None is the end. On the event loop."""
        if happening is not None and self._only and happening.request != self._only:
            return True
        together = self._together(happening)
        if together is not None:
            self._waiting[-1] = together
            return True
        if len(self._waiting) >= _MOST_BEHIND:
            self.is_too_slow = True
            happening = None
        self._waiting.append(happening)
        self._rung.set()
        return happening is not None and not (self._only and happening.is_last)

    async def next(self, timeout_s: float | None = None) -> SessionEvent | None:
        """What happened next; None at the end. asyncio.TimeoutError when nothing did."""
        while not self._waiting:
            self._rung.clear()
            await asyncio.wait_for(self._rung.wait(), timeout_s)
        return self._waiting.popleft()

    def _together(self, new: SessionEvent | None) -> SessionEvent | None:
        """What waits last and this as one, where both are pieces of one answer."""
        last = self._waiting[-1] if self._waiting else None
        if new is None or last is None or not new.name == last.name == "delta" or new.request != last.request:
            return None
        text = last.content["text"] + new.content["text"]
        return replace(last, content={"text": text}) if len(text) <= _LONGEST_PIECE else None


class SharedConversation:
    """Runs the turns of one assistant, one after another. `start` it on the event loop, `close` it there.

    Everything here is called on the event loop but what the thread does. `served` is told of each answer.
    """

    def __init__(
        self, assistant: Assistant, *, served: Callable[[Served], None] = lambda event: None
    ) -> None:
        self._assistant, self._served = assistant, served
        self._config = assistant.config
        self._line: queue.Queue[Request | None] = queue.Queue()
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()  # of `_running` and of the requests' is_cancelled
        self._running: Request | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="shepherd-conversation", daemon=True)
        self.messages: tuple[Message, ...] = tuple(assistant.history)

    def start(self) -> None:
        """Begin to answer."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """End the answer that is being made, the line and all watchers. May be called twice."""
        if self._is_closed:
            return
        self._is_closed = True
        self._line.put(None)
        with self._lock:
            if self._running is not None:
                self._running.is_cancelled = True
                self._assistant.cancel()
        for watcher in self._watchers:
            watcher.tell(None)

    def join(self) -> None:
        """Wait for the thread's end; not on the event loop, which it may be talking to."""
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def watch(self) -> Watcher:
        """A watcher of everything, until it is let go by `unwatch`."""
        if len(self._watchers) >= _MOST_WATCHERS:
            raise _overloaded(f"{_MOST_WATCHERS} clients watch already")
        watcher = Watcher()
        if self._is_closed:
            watcher.tell(None)
        self._watchers.add(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it nothing any more, and that this is the end."""
        self._watchers.discard(watcher)
        watcher.tell(None)

    def ask(self, request: Request) -> Watcher:
        """Let the request stand in line; a watcher of it alone, which is let go with its last happening."""
        if self._is_closed:
            raise Denied(503, "shutting_down", "the server is shutting down")
        if self.n_waiting >= _MOST_WAITING:
            raise _overloaded(f"{self.n_waiting} requests wait already")
        watcher = Watcher(request.id)
        self._watchers.add(watcher)
        self._line.put(request)
        return watcher

    def cancel(self, request: Request) -> None:
        """Nobody waits for it any more: end its answer, or let it not begin."""
        with self._lock:
            request.is_cancelled = True
            # Only its own turn: the next one may have begun.
            if self._running is request:
                self._assistant.cancel()

    @property
    def user_id(self) -> str:
        """Whose conversation it is."""
        return self._assistant.user_id

    @property
    def is_closed(self) -> bool:
        """Whether nothing more happens."""
        return self._is_closed

    @property
    def n_ahead(self) -> int:
        """How many requests are answered before one that is made now."""
        return self.n_waiting + self.is_busy

    @property
    def n_waiting(self) -> int:
        """Requests in line, without the one that is being answered."""
        return self._line.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether an answer is being made."""
        return self._running is not None

    def about(self) -> dict[str, Any]:
        """The conversation as a client sees it, but for its messages."""
        assistant = self._assistant
        return {
            "session": assistant.session_id or "",
            "user": assistant.user_id,
            "model": assistant.engine.info.name,
            "window_tokens": assistant.engine.window_tokens,
            "memory": assistant.recalls,
            "messages": len(self.messages),
            "busy": self.is_busy,
            "waiting": self.n_waiting,
        }

    # ---- on the thread

    def _work(self) -> None:
        while (request := self._line.get()) is not None:
            with self._lock:
                if self._is_closed:
                    return
                self._running = request
            try:
                self._handle(request)
            except ShepherdError as error:
                self._failed(request, problem_of(error))
            except Exception as error:  # a bug ends this turn, and not the conversation
                _log.exception("a turn failed")
                self._failed(request, problem_of(error))
            finally:
                with self._lock:
                    self._running = None

    def _handle(self, request: Request) -> None:
        if request.is_cancelled:
            self._tell(
                request, "error", {"code": "cancelled", "message": "the client went away", "status": 499}
            )
        elif request.prompt is None:
            self._assistant.clear()
            self.messages = ()
            self._tell(request, "cleared", {})
        else:
            self._answer(request, request.prompt)

    def _answer(self, request: Request, prompt: str) -> None:
        self._tell(request, "message_added", {"role": "user", "content": prompt})
        assistant = self._assistant
        warnings: list[dict[str, str]] = []
        was_private = assistant.private
        assistant.private = was_private or not request.memory
        if request.max_tokens is not None:
            assistant.config = replace(self._config, max_tokens=request.max_tokens)
        try:
            for event in assistant.ask(prompt):
                # The turn forgets at its beginning what was cancelled before.
                if isinstance(event, Recalled) and request.is_cancelled:
                    assistant.cancel()
                if isinstance(event, Warned):
                    warnings.append({"message": event.message, "hint": event.hint})
                if isinstance(event, Finished):
                    self._soon(self._served, Served(_ROUTE, event.stats, bool(event.injection)))
                for name, content in _happenings(event, warnings):
                    if name == "response_complete":
                        self.messages = tuple(assistant.history)
                    self._tell(request, name, content)
        finally:
            assistant.private, assistant.config = was_private, self._config

    def _failed(self, request: Request, problem: Problem) -> None:
        if request.prompt is not None:
            self._soon(self._served, Served(_ROUTE, None, error=problem.code))
        content = {"code": problem.code, "message": problem.message, "status": problem.status}
        self._tell(request, "error", content)

    def _tell(self, request: Request, name: str, content: dict[str, Any]) -> None:
        self._soon(self._publish, SessionEvent(name, content, request.id, request.client))

    def _soon(self, action: Callable[[_Told], None], told: _Told) -> None:
        """Do it on the event loop."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
            self._loop.call_soon_threadsafe(action, told)

    def _publish(self, happening: SessionEvent) -> None:
        for watcher in list(self._watchers):
            if not watcher.tell(happening):
                self._watchers.discard(watcher)


def _happenings(event: Event, warnings: list[dict[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What the clients are told of an event of the turn."""
    if isinstance(event, Delta):
        yield "delta", {"text": event.text}
    elif isinstance(event, ToolCall):
        yield "tool_call", {"id": event.id, "name": event.name, "arguments": event.arguments}
    elif isinstance(event, ToolResult):
        yield (
            "tool_result",
            {"id": event.call_id, "name": event.name, "result": event.text, "failed": event.failed},
        )
    elif isinstance(event, Finished):
        stats = asdict(event.stats)
        stats.pop("warnings")
        yield "message_added", {"role": "assistant", "content": event.answer}
        yield (
            "response_complete",
            {
                "answer": event.answer,
                "finish_reason": stats.pop("finish_reason"),
                "injected": {
                    "facts": len(event.injection.facts),
                    "memories": [result.id for result in event.injection.results],
                },
                "warnings": warnings,
                "stats": stats,
            },
        )


def _overloaded(message: str) -> Denied:
    return Denied(503, "overloaded", message, headers={"Retry-After": "5"})
