"""Reads an answer on the event loop, and cancels it when its client disconnects.

The engine writes to a pipe when it has new tokens, so no thread waits for it; a remote model has a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from typing import ClassVar, TypeVar
from weakref import WeakKeyDictionary

from starlette.types import Receive

from shepherd.errors import ShepherdError
from shepherd.inference import Answer, Generation
from shepherd.providers import Reply
from shepherd.types import Piece, TurnStats

__all__ = ["ReplyReader", "blocking", "cancelled_on_disconnect", "merged"]

_T = TypeVar("_T")

# Interval at which an answer is read, except for its first token and its end: screens show no more frames.
_INTERVAL_S = 0.016
_END = b"\x01"

# The engine makes one prompt at a time anyway; other work is short file access.
_threads = ThreadPoolExecutor(8, thread_name_prefix="shepherd-serve")
# Large requests compute for long, and wait for each other so that small ones do not wait for many.
_large = ThreadPoolExecutor(1, thread_name_prefix="shepherd-large")
# A picture is encoded for seconds. While one is, requests whose pictures are known find a thread.
_pictures = ThreadPoolExecutor(4, thread_name_prefix="shepherd-pictures")
# Servers on the web may take long.
_fetches = ThreadPoolExecutor(8, thread_name_prefix="shepherd-fetch")


async def blocking(
    work: Callable[[], _T], *, is_large: bool = False, has_pictures: bool = False, fetches: bool = False
) -> _T:
    """Run `work`, which waits or computes for long, on a thread; `fetches` means from the web."""
    threads = _fetches if fetches else _pictures if has_pictures else _large if is_large else _threads
    return await asyncio.get_running_loop().run_in_executor(threads, work)


class ReplyReader:
    """Iterate it for the pieces of a reply, then `await end()`, whatever happened.

    `finish(failed)` stops the reply and stores the turn; it may block, unless `is_quick` and the reply has
    ended.
    """

    def __init__(
        self, reply: Reply | Generation, finish: Callable[[bool], TurnStats], *, is_quick: bool = False
    ) -> None:
        self._reply = reply
        self._finish = finish
        self._is_quick = is_quick
        self._failed = False
        # What `peek` has begun to wait for.
        self._first: asyncio.Task[Piece | None] | None = None
        self._source = _EngineSource.of(reply) or _ThreadSource(reply)

    def __aiter__(self) -> ReplyReader:
        return self

    async def __anext__(self) -> Piece:
        first, self._first = self._first, None
        piece = await (self._next() if first is None else first)
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def peek(self, seconds: float | None = None) -> bool:
        """Wait up to `seconds` for the first piece; return whether it, or the end, has arrived.

        Iterating still returns it. Raises what iterating would.
        """
        if self._first is None:
            self._first = asyncio.ensure_future(self._next())
        done, _ = await asyncio.wait({self._first}, timeout=seconds)
        if done:
            self._first.result()
        return bool(done)

    async def wait(self, seconds: float = _INTERVAL_S) -> None:
        """Wait a moment for the first piece; raises what iterating would."""
        try:
            await self._source.wait(seconds)
        except ShepherdError:
            self._failed = True
            raise

    @property
    def has_piece(self) -> bool:
        """True if a piece is ready."""
        is_peeked = self._first is not None and self._first.done()
        return is_peeked or self._source.has_piece

    @property
    def has_ended(self) -> bool:
        """True once an answer of the engine has ended; a remote one's end is unknown, and counts as True."""
        return self._source.has_ended

    async def _next(self) -> Piece | None:
        try:
            return await self._source.next()
        except ShepherdError:
            self._failed = True
            raise

    async def followed_by(self, begin: Callable[[], Reply | None]) -> ReplyReader | None:
        """Return a reader of the reply that `begin` starts after the end of this one; None if it starts none.

        `begin` closes this reply, and may block.
        """
        await self._source.settle()
        following = await blocking(begin)
        if following is None:
            return None
        self._source.close()
        return ReplyReader(following, self._finish, is_quick=self._is_quick)

    def cancel(self) -> None:
        """Cancel the reply; its text so far is kept."""
        self._reply.cancel()

    async def end(self) -> TurnStats:
        """End the reply and return its cost. Completes even if the task is cancelled meanwhile."""
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
        if self._first is not None:
            self._first.cancel()
            await asyncio.gather(self._first, return_exceptions=True)
        # A reply has one reader: the thread of a remote one must have ended before others use it.
        await self._source.settle()
        reply = self._reply
        if self._is_quick and isinstance(reply, (Answer, Generation)) and not reply.is_running:
            return self._finish(self._failed)
        return await blocking(lambda: self._finish(self._failed))


async def merged(streams: Sequence[AsyncGenerator[_T, None]]) -> AsyncGenerator[_T, None]:
    """Yield what several streams yield, as it comes. If one fails, all are ended, and its error is raised."""
    if len(streams) == 1:
        async with aclosing(streams[0]):
            async for one in streams[0]:
                yield one
        return
    items: asyncio.Queue[tuple[_T] | None] = asyncio.Queue()  # None: a stream has ended

    async def read(stream: AsyncGenerator[_T, None]) -> None:
        async with aclosing(stream):
            async for item in stream:
                items.put_nowait((item,))

    tasks = [asyncio.ensure_future(read(stream)) for stream in streams]
    for task in tasks:
        task.add_done_callback(lambda _: items.put_nowait(None))
    try:
        for _ in streams:
            while (item := await items.get()) is not None:
                yield item[0]
            for task in tasks:
                if task.done():
                    task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def cancelled_on_disconnect(receive: Receive, cancel: Callable[[], None]) -> AsyncIterator[None]:
    """Call `cancel` if the client disconnects within the block."""

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
    """A pipe that the engine writes to, one for all answers of an event loop.

    It wakes sources that found nothing when they last read, and at the end of an answer. All others are read
    together every _INTERVAL_S, so that one wake-up takes the tokens of all answers. The pipe is drained at
    once: it would stay readable otherwise.
    """

    _of_loops: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, _Waker]] = WeakKeyDictionary()

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self.writer, False)
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[_EngineSource, None] = {}
        self._answers: list[Reply | Generation] = []  # those that write to it
        loop.add_reader(self._reader, self._on_wake)
        files = self._reader, self.writer
        weakref.finalize(self, _close_unless_used, files, self._answers).atexit = False

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> _Waker:
        """Return the waker of this loop; it lives as long as the loop."""
        return cls._of_loops.get(loop) or cls._of_loops.setdefault(loop, cls(loop))

    def lend(self, answer: Answer | Generation) -> bool:
        """Let an answer write to the pipe until it is given back; False if it cannot."""
        if not answer.notify(self.writer):
            return False
        self._answers.append(answer)
        return True

    def give_back(self, answer: Answer | Generation) -> None:
        """Take back the pipe, after the end of the answer: until then the engine writes."""
        self._answers.remove(answer)

    def wake(self, source: _EngineSource) -> None:
        """Let the source read when there may be something, until `leave`."""
        self._waiting[source] = None
        if not source.needs_wakeup:
            self._schedule()

    def leave(self, source: _EngineSource) -> None:
        """Remove a source that no longer waits."""
        del self._waiting[source]

    def _on_timer(self) -> None:
        self._timer = None
        for source in list(self._waiting):
            if not source.needs_wakeup:
                source.read()
        self._schedule_rest()

    def _schedule_rest(self) -> None:
        """Read again soon what has read part of a piece: nothing else would wake it."""
        if not all(source.needs_wakeup for source in self._waiting):
            self._schedule()

    def _schedule(self) -> None:
        loop = self._loop()
        if self._timer is None and loop is not None:
            self._timer = loop.call_later(_INTERVAL_S, self._on_timer)

    def _on_wake(self) -> None:
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._reader, 65536)
        has_ended = _END in data
        for source in list(self._waiting):
            if source.needs_wakeup or (has_ended and source.has_ended):
                source.read()
        self._schedule_rest()


def _close_unless_used(files: tuple[int, int], answers: list[Reply | Generation]) -> None:
    # An answer that has not ended would write to the next file with that number.
    for file in files if not answers else ():
        os.close(file)


class _EngineSource:
    """Reads an answer of the engine, and waits for the waker when there is nothing to read."""

    def __init__(self, reply: Answer | Generation, waker: _Waker) -> None:
        self._reply, self._waker = reply, waker
        self._ready: deque[Piece] = deque()
        self._waiter: asyncio.Future[bool] | None = None
        self._loop = asyncio.get_running_loop()
        self.needs_wakeup = True  # found nothing when it last read: the waker calls `read`

    @classmethod
    def of(cls, reply: Reply | Generation) -> _EngineSource | None:
        """Return the source of an answer of the engine; None if it cannot write to a pipe."""
        if not isinstance(reply, (Answer, Generation)) or os.name != "posix":
            return None
        waker = _Waker.of(asyncio.get_running_loop())
        return cls(reply, waker) if waker.lend(reply) else None

    @property
    def has_ended(self) -> bool:
        """True once the engine has ended the answer."""
        return not self._reply.is_running

    @property
    def has_piece(self) -> bool:
        """True if `next` returns a piece at once."""
        return bool(self._ready)

    async def next(self) -> Piece | None:
        if self._ready:
            return self._ready.popleft()
        # Sources that found something last time are read together.
        continues = self._take() if self.needs_wakeup or self.has_ended else True
        while continues and not self._ready:
            continues = await self._woken()
        return self._ready.popleft() if self._ready else None

    async def wait(self, seconds: float) -> None:
        """Wait up to `seconds` for a piece or the end."""
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

    def read(self) -> None:
        """Wake the waiting task if there is something for it."""
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        try:
            continues = self._take()
        except Exception as error:
            waiter.set_exception(error)
        else:
            if self._ready or not continues:
                waiter.set_result(continues)

    def _take(self) -> bool:
        """Read what is there; return False at the end."""
        found = self._reply.poll()
        self.needs_wakeup = self._reply.is_quiet
        if found:
            self._ready.extend([found] if isinstance(found, str) else found)
        return found is not None

    async def _woken(self) -> bool:
        """Wait until there is something; return False at the end."""
        self._waiter = self._loop.create_future()
        self._waker.wake(self)
        try:
            return await self._waiter
        finally:
            self._waker.leave(self)

    async def settle(self) -> None:
        """Do nothing: there is no other reader."""

    def close(self) -> None:
        """Give back the pipe, after the end of the reply."""
        self._waker.give_back(self._reply)


class _ThreadSource:
    """Reads a reply on a thread, and passes its pieces to the event loop."""

    def __init__(self, reply: Reply | Generation) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()
        self._reply = reply
        self._is_over = False
        self.has_piece = False  # unknown, as is the end
        self.has_ended = True
        threading.Thread(target=self._read, name="shepherd-remote", daemon=True).start()

    async def next(self) -> Piece | None:
        item = None if self._is_over else await self._queue.get()
        self._is_over = item is None or isinstance(item, Exception)
        if isinstance(item, Exception):
            raise item
        return item

    async def wait(self, seconds: float) -> None:
        """Do nothing: the first piece of a remote model takes longer."""

    async def settle(self) -> None:
        """Wait for the end of the thread, which ends soon if the reply is cancelled."""
        while not self._is_over:
            with contextlib.suppress(Exception):
                await self.next()

    def close(self) -> None:
        """Do nothing: the thread ends with the reply."""

    def _read(self) -> None:
        try:
            for piece in self._reply:
                self._put(piece)
            self._put(None)
        except Exception as error:
            self._put(error)

    def _put(self, item: Piece | Exception | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
