"""One conversation that several clients share: requests wait in a queue, and all clients see all events.

One thread runs the assistant. It publishes events on the event loop, which passes them to each watcher; a
watcher that does not read is dropped, so that it delays nobody.
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
from shepherd.installation import runnable_from_anywhere
from shepherd.sequences import sequence_of
from shepherd.server.errors import Denied, Problem, problem_of
from shepherd.server.state import Served
from shepherd.types import Message, ToolCall
from shepherd.wording import counted

__all__ = ["Request", "SessionEvent", "SharedConversation", "Watcher"]

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_ROUTE = "/request"
# Limit of waiting requests; more are refused with Retry-After.
_MOST_WAITING = 256
_MOST_WATCHERS = 256
# Limit of unread events of a watcher, and of characters of an answer in one event.
_MOST_BEHIND = 4096
_LONGEST_PIECE = 4096
# Seconds that a cancelled answer may take to end.
_JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class SessionEvent:
    """An event for all watchers. `request` is the id of its request, "" for none."""

    name: str
    content: dict[str, Any]
    request: str = ""
    client: str = ""

    @property
    def is_last(self) -> bool:
        """True for the last event of a request."""
        return self.name in ("response_complete", "error", "cleared")

    def as_json(self) -> dict[str, Any]:
        """Return the event as it is sent."""
        origin = {"request": self.request, "client": self.client} if self.request else {}
        return {**origin, **self.content}


@dataclass(slots=True)
class Request:
    """A request for an answer, or (`prompt` None) for a new conversation."""

    prompt: str | None
    max_tokens: int | None = None
    memory: bool = True
    client: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    is_cancelled: bool = False


class Watcher:
    """The events for one client; they end when the server shuts down, or when the client reads too slowly.

    Unread pieces of an answer are joined: a model may be faster than a client.
    """

    def __init__(self, only: str = "") -> None:
        self._only = only  # a request's id, or "" for all
        self._waiting: deque[SessionEvent | None] = deque()
        self._wake = asyncio.Event()
        self.is_too_slow = False

    def send(self, event_: SessionEvent | None) -> bool:
        """Add an event, None for the end; return False if no more are wanted. On the event loop."""
        if event_ is not None and self._only and event_.request != self._only:
            return True
        joined = self._joined(event_)
        if joined is not None:
            self._waiting[-1] = joined
            return True
        if len(self._waiting) >= _MOST_BEHIND:
            self.is_too_slow = True
            event_ = None
        self._waiting.append(event_)
        self._wake.set()
        return event_ is not None and not (self._only and event_.is_last)

    async def next(self, timeout_s: float | None = None) -> SessionEvent | None:
        """Return the next event, None at the end. asyncio.TimeoutError without one in time."""
        while not self._waiting:
            self._wake.clear()
            await asyncio.wait_for(self._wake.wait(), timeout_s)
        return self._waiting.popleft()

    def _joined(self, new: SessionEvent | None) -> SessionEvent | None:
        """Return the last unread event joined with this one, if both are pieces of one answer."""
        last = self._waiting[-1] if self._waiting else None
        if new is None or last is None or not new.name == last.name == "delta" or new.request != last.request:
            return None
        text = last.content["text"] + new.content["text"]
        return replace(last, content={"text": text}) if len(text) <= _LONGEST_PIECE else None


class SharedConversation:
    """Runs the turns of one assistant, one after another. `served` is called for each answer.

    All public methods but `join` are called on the event loop.
    """

    def __init__(
        self, assistant: Assistant, *, served: Callable[[Served], None] = lambda event: None
    ) -> None:
        self._assistant, self._served = assistant, served
        self.user_id = assistant.user_id
        self._config = assistant.config
        self._requests: queue.Queue[Request | None] = queue.Queue()
        self._watchers: set[Watcher] = set()
        self._lock = threading.Lock()  # of `_running` and of the requests' is_cancelled
        self._running: Request | None = None
        self.is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._work, name="shepherd-conversation", daemon=True)
        self.messages: tuple[Message, ...] = tuple(assistant.history)

    def start(self) -> None:
        """Start answering."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """Cancel the running answer, the waiting requests and all watchers. May be called twice."""
        if self.is_closed:
            return
        self.is_closed = True
        self._requests.put(None)
        with self._lock:
            if self._running is not None:
                self._running.is_cancelled = True
                self._assistant.cancel()
        for watcher in self._watchers:
            watcher.send(None)

    def join(self) -> None:
        """Wait for the end of the thread. Not on the event loop, which the thread may be waiting for."""
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def watch(self) -> Watcher:
        """Return a watcher of all events, until `unwatch`."""
        if len(self._watchers) >= _MOST_WATCHERS:
            raise _overloaded(f"{_MOST_WATCHERS} clients watch already")
        watcher = Watcher()
        if self.is_closed:
            watcher.send(None)
        self._watchers.add(watcher)
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        """Send the watcher its end, and nothing more."""
        self._watchers.discard(watcher)
        watcher.send(None)

    def ask(self, request: Request) -> Watcher:
        """Queue a request; return a watcher of its events, which ends with the last one."""
        if self.is_closed:
            raise Denied(503, "shutting_down", "the server is shutting down")
        if self.n_waiting >= _MOST_WAITING:
            raise _overloaded(f"{counted(self.n_waiting, 'request')} wait already")
        watcher = Watcher(request.id)
        self._watchers.add(watcher)
        self._requests.put(request)
        return watcher

    def cancel(self, request: Request) -> None:
        """Cancel the answer to a request, or do not begin it."""
        with self._lock:
            request.is_cancelled = True
            # Only its own turn: the next one may be running.
            if self._running is request:
                self._assistant.cancel()

    @property
    def n_ahead(self) -> int:
        """Number of requests before a new one."""
        return self.n_waiting + (self._running is not None)

    @property
    def n_waiting(self) -> int:
        """Number of waiting requests, without the running one."""
        return self._requests.qsize()

    def about(self) -> dict[str, Any]:
        """Describe the conversation, without its messages."""
        assistant = self._assistant
        return {
            "session": assistant.session_id or "",
            "user": assistant.user_id,
            "model": assistant.engine.info.name,
            "window_tokens": assistant.engine.window_tokens,
            "memory": assistant.recalls,
            "messages": len(self.messages),
            "busy": self._running is not None,
            "waiting": self.n_waiting,
        }

    # ---- on the thread

    def _work(self) -> None:
        while (request := self._requests.get()) is not None:
            with self._lock:
                if self.is_closed:
                    return
                self._running = request
            try:
                self._handle(request)
            except ShepherdError as error:
                self._failed(request, problem_of(error))
            except Exception as error:  # a bug ends this turn, not the conversation
                _log.exception("a turn failed")
                self._failed(request, problem_of(error))
            finally:
                with self._lock:
                    self._running = None

    def _handle(self, request: Request) -> None:
        if request.is_cancelled:
            self._publish(
                request, "error", {"code": "cancelled", "message": "the client went away", "status": 499}
            )
        elif request.prompt is None:
            self._assistant.clear()
            self.messages = ()
            self._publish(request, "cleared", {})
        else:
            self._answer(request, request.prompt)

    def _answer(self, request: Request, prompt: str) -> None:
        self._publish(request, "message_added", {"role": "user", "content": prompt})
        assistant = self._assistant
        warnings: list[dict[str, str]] = []
        was_private = assistant.private
        assistant.private = was_private or not request.memory
        if request.max_tokens is not None:
            assistant.config = replace(self._config, max_tokens=request.max_tokens)
        try:
            for event in assistant.ask(prompt):
                # A cancellation before the turn began was reset by it.
                if isinstance(event, Recalled) and request.is_cancelled:
                    assistant.cancel()
                if isinstance(event, Warned):
                    warnings.append({"message": event.message, "hint": runnable_from_anywhere(event.hint)})
                if isinstance(event, Finished):
                    self._soon(self._served, Served(_ROUTE, event.stats, bool(event.injection)))
                for name, content in _events_of(event, warnings):
                    if name == "response_complete":
                        self.messages = tuple(assistant.history)
                    self._publish(request, name, content)
        finally:
            assistant.private, assistant.config = was_private, self._config

    def _failed(self, request: Request, problem: Problem) -> None:
        if request.prompt is not None:
            self._soon(self._served, Served(_ROUTE, None, error=problem.code))
        content = {"code": problem.code, "message": problem.message, "status": problem.status}
        self._publish(request, "error", content)

    def _publish(self, request: Request, name: str, content: dict[str, Any]) -> None:
        self._soon(self._send, SessionEvent(name, content, request.id, request.client))

    def _soon(self, action: Callable[[_T], None], value: _T) -> None:
        """Call `action(value)` on the event loop."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(action, value)

    def _send(self, event_: SessionEvent) -> None:
        for watcher in list(self._watchers):
            if not watcher.send(event_):
                self._watchers.discard(watcher)


def _events_of(event: Event, warnings: list[dict[str, str]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and contents of the session's events for an event of the turn."""
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
                    "memories": [sequence_of(result.id) for result in event.injection.results],
                },
                "warnings": warnings,
                "stats": stats,
            },
        )


def _overloaded(message: str) -> Denied:
    return Denied(503, "overloaded", message, headers={"Retry-After": "5"})
