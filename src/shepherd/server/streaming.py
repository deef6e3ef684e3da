"""An answer on the event loop: no thread waits for a local one, a client that goes away ends it.

The engine rings a pipe when it has something; a remote model has a thread that hands over what it reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from starlette.types import Receive

from shepherd.errors import ShepherdError
from shepherd.inference import Answer, Generation
from shepherd.providers import Reply
from shepherd.types import Piece, TurnStats

__all__ = ["Reading", "blocking", "ended_with_its_client"]

_T = TypeVar("_T")

# An answer is looked at so often, however fast it comes, but for its first token and its end: a screen shows
# no more pictures a second.
_INTERVAL_S = 0.016
_END = b"\x01"

# Prompts are made one after the other under the engine's lock anyway; the rest are short looks into files.
_threads = ThreadPoolExecutor(8, thread_name_prefix="shepherd-serve")


async def blocking(work: Callable[[], _T]) -> _T:
    """The result of something that waits for a disk or a lock, without holding up the event loop."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


class Reading:
    """A reply under way. Iterate it for its pieces, then `await end()`, whatever happened.

    `finish` ends what still runs and keeps what is to be kept, told whether the reply failed; it may block.
    One that `is_quick` does not where nothing runs any more.
    """

    def __init__(
        self, reply: Reply | Generation, finish: Callable[[bool], TurnStats], *, is_quick: bool = False
    ) -> None:
        self._reply = reply
        self._finish = finish
        self._is_quick = is_quick
        self._failed = False
        self._peeked: list[Piece | None] = []
        self._source = _EngineSource.of(reply) or _ThreadSource(reply)

    def __aiter__(self) -> Reading:
        return self

    async def __anext__(self) -> Piece:
        piece = self._peeked.pop() if self._peeked else await self._next()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def peek(self) -> None:
        """Wait for the first piece, which comes again when iterating; raises what iterating would."""
        self._peeked = [await self._next()]

    async def wait(self) -> None:
        """Wait for the first piece, a moment at most. What goes out with it is no message of its own: each
        wakes its client, on the processor of who has to fetch that piece. Raises what iterating would.
        """
        try:
            await self._source.wait(_INTERVAL_S)
        except ShepherdError:
            self._failed = True
            raise

    @property
    def has_piece(self) -> bool:
        """Whether there is one now."""
        return bool(self._peeked) or self._source.has_piece

    async def _next(self) -> Piece | None:
        try:
            return await self._source.next()
        except ShepherdError:
            self._failed = True
            raise

    async def followed_by(self, begin: Callable[[], Reply | None]) -> Reading | None:
        """The reading of what `begin` begins when this reply is at its end, and of which `finish` is told.

        `begin` closes this reply, and may block. None where it begins nothing.
        """
        await self._source.settle()
        following = await blocking(begin)
        if following is None:
            return None
        self._source.close()
        return Reading(following, self._finish, is_quick=self._is_quick)

    def cancel(self) -> None:
        """End it soon; what was said stays said."""
        self._reply.cancel()

    async def end(self) -> TurnStats:
        """What it cost. Done to its end even when the task is cancelled meanwhile."""
        self.cancel()
        ending = asyncio.ensure_future(self._settle())
        try:
            return await asyncio.shield(ending)
        finally:
            if not ending.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await ending
            self._source.close()

    async def _settle(self) -> TurnStats:
        # A reply has one reader: the thread that reads a remote one is to be done before others look at it.
        await self._source.settle()
        reply = self._reply
        if self._is_quick and isinstance(reply, (Answer, Generation)) and not reply.is_running:
            return self._finish(self._failed)
        return await blocking(lambda: self._finish(self._failed))


@asynccontextmanager
async def ended_with_its_client(receive: Receive, cancel: Callable[[], None]) -> AsyncIterator[None]:
    """Within the block, `cancel` is called when the client goes away."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watcher.cancel()


class _Waker:
    """A pipe that the engine writes to, one for all answers of an event loop; waiting for it takes no thread.

    It rings for who has looked and found nothing, and at an end. Who has found something looks again with all
    the others, every _INTERVAL_S: a fast model's tokens are taken together, and one wake-up serves all
    answers. It is drained at once: a pipe that stays full would ring without end.
    """

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[_EngineSource, None] = {}
        self._answers: list[Reply | Generation] = []  # that may ring it
        loop.add_reader(self._reader, self._rung)
        files = self._reader, self.writer
        weakref.finalize(self, _close_unless_used, files, self._answers).atexit = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Waker:
        """That of this loop, as long as that lives."""
        return cls._of_loops.get(loop) or cls._of_loops.setdefault(loop, cls(loop))

    def lend(self, answer: Answer | Generation) -> bool:
        """Let this answer ring it until it is given back; False where nothing can ring."""
        if not answer.notify(self.writer):
            return False
        self._answers.append(answer)
        return True

    def give_back(self, answer: Answer | Generation) -> None:
        """Only after the answer's end: until then the engine writes."""
        self._answers.remove(answer)

    def wake(self, source: _EngineSource) -> None:
        """Let it look when there may be something for it, until it `leaves`."""
        self._waiting[source] = None
        if not source.needs_wakeup:
            self._look_again()

    def leave(self, source: _EngineSource) -> None:
        """It does not wait any more."""
        del self._waiting[source]

    def _timed(self) -> None:
        self._timer = None
        for source in list(self._waiting):
            if not source.needs_wakeup:
                source.look()
        # Some have found a part of a piece.
        if not all(source.needs_wakeup for source in self._waiting):
            self._look_again()

    def _look_again(self) -> None:
        loop = self._loop()
        if self._timer is None and loop is not None:
            self._timer = loop.call_later(_INTERVAL_S, self._timed)

    def _rung(self) -> None:
        rings = b""
        with contextlib.suppress(BlockingIOError):
            rings = os.read(self._reader, 65536)
        has_ended = _END in rings
        for source in list(self._waiting):
            if source.needs_wakeup or (has_ended and source.has_ended):
                source.look()


def _close_unless_used(files: tuple[int, int], answers: list[Reply | Generation]) -> None:
    # One that nobody has brought to its end would ring in whatever file has the number then.
    for file in files if not answers else ():
        os.close(file)


class _EngineSource:
    """Takes what is there, and waits for the bell when nothing is."""

    def __init__(self, reply: Answer | Generation, bell: _Waker) -> None:
        self._reply, self._bell = reply, bell
        self._ready: deque[Piece] = deque()
        self._waiter: asyncio.Future[bool] | None = None
        self._loop = asyncio.get_running_loop()
        self.needs_wakeup = True  # found nothing when it last looked: the bell rings for it

    @classmethod
    def of(cls, reply: Reply | Generation) -> _EngineSource | None:
        """The source for an answer that is made here; None where nothing can ring."""
        if not isinstance(reply, (Answer, Generation)) or os.name != "posix":
            return None
        bell = _Waker.of(asyncio.get_running_loop())
        return cls(reply, bell) if bell.lend(reply) else None

    @property
    def has_ended(self) -> bool:
        """Whether the engine is done with it."""
        return not self._reply.is_running

    @property
    def has_piece(self) -> bool:
        """Whether `next` gives one at once."""
        return bool(self._ready)

    async def next(self) -> Piece | None:
        if self._ready:
            return self._ready.popleft()
        # What was not hungry is fed with the others.
        goes_on = self._take() if self.needs_wakeup or self.has_ended else True
        while goes_on and not self._ready:
            goes_on = await self._woken()
        return self._ready.popleft() if self._ready else None

    async def wait(self, seconds: float) -> None:
        """Until there is something, the end included, but no longer than that."""
        if self._ready or not self._take() or self._ready:
            return
        timer = self._loop.call_later(seconds, self._give_up)
        try:
            await self._woken()
        finally:
            timer.cancel()

    def _give_up(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def look(self) -> None:
        """Wake the reader if there is something for it."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        try:
            goes_on = self._take()
        except Exception as error:
            waiter.set_exception(error)
        else:
            if self._ready or not goes_on:
                waiter.set_result(goes_on)

    def _take(self) -> bool:
        """Fetch what is there; False at the end."""
        found = self._reply.poll()
        self.needs_wakeup = self._reply.is_quiet
        if found:
            self._ready.extend([found] if isinstance(found, str) else found)
        return found is not None

    async def _woken(self) -> bool:
        """Wait until there is something; False at the end."""
        self._waiter = self._loop.create_future()
        self._bell.wake(self)
        try:
            return await self._waiter
        finally:
            self._bell.leave(self)

    async def settle(self) -> None:
        """Nobody else reads."""

    def close(self) -> None:
        """Only after the reply's end."""
        self._bell.give_back(self._reply)


class _ThreadSource:
    """A thread reads, and hands over to the event loop."""

    def __init__(self, reply: Reply | Generation) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()
        self._reply = reply
        self._is_over = False
        self.has_piece = False  # nobody knows
        threading.Thread(target=self._read, name="shepherd-remote", daemon=True).start()

    async def next(self) -> Piece | None:
        item = None if self._is_over else await self._queue.get()
        self._is_over = item is None or isinstance(item, Exception)
        if isinstance(item, Exception):
            raise item
        return item

    async def wait(self, seconds: float) -> None:
        """A remote model's first piece takes longer than any moment."""

    async def settle(self) -> None:
        """Wait for the end of the thread, which cancelling the reply brings about."""
        while not self._is_over:
            with contextlib.suppress(Exception):
                await self.next()

    def close(self) -> None:
        """The thread ends with the reply."""

    def _read(self) -> None:
        try:
            for piece in self._reply:
                self._put(piece)
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Piece | Exception | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
