"""Conversation and memory for asyncio. Each call runs in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from shepherd.assistant import Event
from shepherd.types import Picture

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.memory import Memory

__all__ = ["AsyncAssistant", "AsyncMemory"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AsyncMemory:
    """Asynchronous methods of a Memory, which the caller opens and closes.

    A search takes microseconds, less than the way to a thread: a program that seldom searches can call
    `Memory.search` itself. Writes wait for the disk.
    """

    def __init__(self, memory: Memory) -> None:
        self.recall = _awaited(memory.recall)
        self.enrich = _awaited(memory.enrich)
        self.search = _awaited(memory.search)
        self.store_memory = _awaited(memory.store_memory)
        self.get_memory = _awaited(memory.get_memory)
        self.edit_memory = _awaited(memory.edit_memory)
        self.pin_memory = _awaited(memory.pin_memory)
        self.delete_memory = _awaited(memory.delete_memory)
        self.delete_memories = _awaited(memory.delete_memories)
        self.restore_forgotten = _awaited(memory.restore_forgotten)
        self.delete_user = _awaited(memory.delete_user)
        self.clear_memory = _awaited(memory.clear_memory)
        self.list_memories = _awaited(memory.list_memories)
        self.count_memories = _awaited(memory.count_memories)
        self.count_recalls = _awaited(memory.count_recalls)
        self.set_fact = _awaited(memory.set_fact)
        self.get_fact = _awaited(memory.get_fact)
        self.get_all_facts = _awaited(memory.get_all_facts)
        self.clear_fact = _awaited(memory.clear_fact)
        self.restore_fact = _awaited(memory.restore_fact)
        self.fact_history = _awaited(memory.fact_history)
        self.facts_at = _awaited(memory.facts_at)
        self.fact_periods = _awaited(memory.fact_periods)
        self.learned = _awaited(memory.learned)
        self.learned_since = _awaited(memory.learned_since)
        self.take_news = _awaited(memory.take_news)
        self.keep = _awaited(memory.keep)
        self.undo = _awaited(memory.undo)
        self.accept = _awaited(memory.accept)
        self.reject = _awaited(memory.reject)
        self.stats = _awaited(memory.stats)


class AsyncAssistant:
    """Asynchronous turns of an Assistant. Its own methods can be called between turns."""

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant

    async def ask(
        self, text: str, *, composed: str = "", pictures: Sequence[Picture] = ()
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of `Assistant.ask`; raises its errors.

        Leaving the loop early, or a cancellation, ends the answer; its text so far is kept, as with
        `cancel()`. Use `contextlib.aclosing`, so that this happens at once.
        """
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()
        # A turn that has not begun cannot be cancelled: the assistant can be in another caller's turn.
        is_left, is_under_way = threading.Event(), threading.Event()

        def run() -> None:
            end: BaseException | None = None
            try:
                events_of_turn = self.assistant.ask(text, composed=composed, pictures=pictures)
                for event in events_of_turn if not is_left.is_set() else ():
                    is_under_way.set()
                    if is_left.is_set():
                        self.assistant.cancel()
                    loop.call_soon_threadsafe(events.put_nowait, event)
            except BaseException as error:
                end = error
            is_under_way.clear()
            loop.call_soon_threadsafe(events.put_nowait, end)

        turn = loop.run_in_executor(None, run)
        try:
            while isinstance(event := await events.get(), Event):
                yield event
            if event is not None:
                raise event
        finally:
            is_left.set()
            if is_under_way.is_set():
                self.assistant.cancel()
            await asyncio.shield(turn)

    def cancel(self) -> None:
        """End the answer that is being generated, if any."""
        self.assistant.cancel()


def _awaited(method: Callable[_P, _T]) -> Callable[_P, Awaitable[_T]]:
    """Return a coroutine function that runs `method` in a thread."""

    @functools.wraps(method)
    async def call(*arguments: _P.args, **options: _P.kwargs) -> _T:
        return await asyncio.to_thread(method, *arguments, **options)

    return call
