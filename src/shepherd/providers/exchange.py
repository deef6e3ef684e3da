"""One request and its streamed answer on a thread of its own, repeated after failures that may be temporary.

The reader never waits for the network itself: it takes what has arrived, and can leave within a moment,
whatever the server does. A connection that blocks is woken by closing its socket.
"""

from __future__ import annotations

import contextlib
import queue
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from shepherd.errors import InternalError, ProviderError, ProviderUnavailableError, ShepherdError
from shepherd.types import FinishReason, Piece

__all__ = ["End", "Event", "Exchange", "Link", "Retry", "RetryPolicy", "Usage"]


# After the end of the answer, for the counts, which come last.
_USAGE_S = 5.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server counted them. The answer's `thinking` tokens never come back in a prompt."""

    prompt: int
    answer: int
    cached: int = 0
    thinking: int = 0


@dataclass(frozen=True, slots=True)
class End:
    """End of the answer, with the reason that the server gave, and the stop string that it met, if known."""

    reason: FinishReason
    stop: str = ""


Event: TypeAlias = Piece | Usage | End


@dataclass(frozen=True, slots=True)
class Retry:
    """Pause before another attempt: the failure of the last one, and its end by time.monotonic()."""

    failure: ShepherdError
    end_s: float

    def in_words(self) -> str:
        """Return `trying again in 8 s: provider openai answers 429: too many requests`."""
        return f"trying again in {max(self.end_s - time.monotonic(), 0):.0f} s: {self.failure}"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries and the pauses before them: doubling, randomised by half, longer if the server asks for it.

    A server that asks for more than `longest_s` is not waited for. Where none is found at the address, the
    request is repeated `when_absent` times at most: a server that restarts is back soon, and a wrong address
    stays wrong.
    """

    retries: int = 3
    first_s: float = 0.5
    longest_s: float = 20.0
    when_absent: int = 1

    def pause_s(self, attempt: int, asked_s: float) -> float:
        """Before attempt 1, 2, …"""
        own = min(self.first_s * 2.0 ** (attempt - 1), self.longest_s)
        # Many clients that failed together must not come back together.
        return max(own * random.uniform(0.5, 1.0), asked_s)

    def may_retry(self, attempt: int, error: ShepherdError) -> bool:
        """Return whether attempt number `attempt` may follow this failure."""
        if not isinstance(error, ProviderUnavailableError) or error.retry_after_s > self.longest_s:
            return False
        return attempt <= (min(self.retries, self.when_absent) if error.is_absent else self.retries)


class Link:
    """Connection that can be closed from outside while the exchange blocks on it."""

    def __init__(self) -> None:
        self.cut = threading.Event()
        self._lock = threading.Lock()
        self._stream: Any = None

    def attach(self, stream: Any) -> None:
        """Set the network stream in use. It is closed at once when the link was cut before."""
        with self._lock:
            self._stream = stream
        if self.cut.is_set():
            self._wake()

    def close(self) -> None:
        """End the reading, from any thread."""
        self.cut.set()
        self._wake()

    def _wake(self) -> None:
        # close() of a response would wait for the thread that reads from it; its socket can be shut down.
        with self._lock:
            stream = self._stream
        if stream is not None:
            with contextlib.suppress(Exception):  # closed already, by either side
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class Exchange:
    """Iterate for the events; ends after `End`, or when cancelled. Raises what the last attempt failed with.

    `send` makes one attempt. A failure after the first piece is final: what was shown cannot be taken back.
    `cut_off` gives the error for an answer that stops before its end, told whether it had begun.
    """

    def __init__(
        self,
        send: Callable[[Link], Iterator[Event]],
        translate: Callable[[Exception], ShepherdError],
        *,
        policy: RetryPolicy,
        timeout_s: float,
        cut_off: Callable[[bool], ShepherdError],
    ) -> None:
        self.attempts = 0
        self.retry: Retry | None = None  # during a pause
        self._send, self._translate, self._policy, self._cut_off = send, translate, policy, cut_off
        # The client's own timeout begins anew with every byte, and a comment line is one.
        self._patience_s = timeout_s * (policy.retries + 1) + policy.longest_s * policy.retries + 10.0
        self._link = Link()
        self._queue: queue.SimpleQueue[Event | Exception | None] = queue.SimpleQueue()
        self._is_over = self._has_ended = False
        threading.Thread(target=self._run, name="shepherd-provider", daemon=True).start()

    @property
    def is_cancelled(self) -> bool:
        """Return whether it was ended from outside."""
        return self._link.cut.is_set()

    def cancel(self) -> None:
        """End it now; the reader is woken."""
        self._link.close()
        self._queue.put(None)

    def __iter__(self) -> Exchange:
        return self

    def __next__(self) -> Event:
        if self._is_over:
            raise StopIteration
        event = None if self.is_cancelled else self._take()
        if self.is_cancelled or event is None:
            self._is_over = True
            raise StopIteration
        if isinstance(event, Exception):
            self._is_over = True
            raise event
        self._has_ended = self._has_ended or isinstance(event, End)
        return event

    def _take(self) -> Event | Exception | None:
        deadline = time.monotonic() + (_USAGE_S if self._has_ended else self._patience_s)
        while True:
            try:
                # In short waits, since the main thread handles signals between them.
                return self._queue.get(timeout=0.05)
            except queue.Empty:
                if time.monotonic() > deadline:
                    self._link.close()  # which ends the iteration
                    if self._has_ended:
                        return None
                    raise ProviderError(
                        "the server keeps the connection open and sends nothing", hint="try again"
                    ) from None

    def _run(self) -> None:
        try:
            self._try_until_answered()
        except Exception as error:  # a bug here; unreported, it would leave the reader waiting for minutes
            self._queue.put(InternalError(f"reading a remote answer failed: {type(error).__name__}"))

    def _try_until_answered(self) -> None:
        while not self.is_cancelled:
            self.attempts += 1
            error, has_begun = self._attempt()
            if error is None or self.is_cancelled:
                break
            if has_begun or not self._policy.may_retry(self.attempts, error):
                self._queue.put(error)
                return
            asked_s = error.retry_after_s if isinstance(error, ProviderUnavailableError) else 0.0
            pause_s = self._policy.pause_s(self.attempts, asked_s)
            self.retry = Retry(error, time.monotonic() + pause_s)
            self._link.cut.wait(pause_s)
            self.retry = None
        self._queue.put(None)

    def _attempt(self) -> tuple[ShepherdError | None, bool]:
        """Make one attempt; return its failure, and whether a piece had arrived before."""
        has_begun = has_ended = False
        events = self._send(self._link)
        try:
            for event in events:
                if self.is_cancelled:
                    return None, has_begun
                has_begun = has_begun or not isinstance(event, (Usage, End))
                has_ended = has_ended or isinstance(event, End)
                self._queue.put(event)
        except Exception as error:
            if has_ended:  # the answer is whole, and only its connection ended badly
                return None, has_begun
            failure = self._translate(error)
            was_cut = has_begun and isinstance(failure, ProviderUnavailableError)
            return self._cut_off(True) if was_cut else failure, has_begun
        finally:
            with contextlib.suppress(Exception):
                events.close()  # type: ignore[attr-defined]
        return None if has_ended else self._cut_off(has_begun), has_begun
