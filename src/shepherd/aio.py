"""Conversation and memory for asyncio. Each call runs in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import functools
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from shepherd.assistant import Event
from shepherd.memory import Memory
from shepherd.types import Picture

if TYPE_CHECKING:
    from shepherd.assistant import Assistant

__all__ = ["AsyncAssistant", "AsyncMemory"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


def _awaited(
    method: Callable[Concatenate[Memory, _P], _T],
) -> Callable[Concatenate[AsyncMemory, _P], Coroutine[Any, Any, _T]]:
    """Return a coroutine function that runs a method of the memory in a thread."""

    async def call(self: AsyncMemory, /, *arguments: _P.args, **options: _P.kwargs) -> _T:
        # By its name, so that a subclass of Memory has its own.
        bound: Callable[_P, _T] = getattr(self.memory, method.__name__)
        return await asyncio.to_thread(bound, *arguments, **options)

    functools.update_wrapper(call, method)
    return call


class AsyncMemory:
    """Asynchronous methods of a Memory, which the caller opens and closes.

    A search takes microseconds, less than the way to a thread: a program that seldom searches can call
    `Memory.search` itself. Writes wait for the disk. `memory` has the rest: its properties, `close`, and
    `export_memories`, which reads page by page.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    # Finding and remembering.
    recall = _awaited(Memory.recall)
    enrich = _awaited(Memory.enrich)
    search = _awaited(Memory.search)
    store_memory = _awaited(Memory.store_memory)
    archive_turn = _awaited(Memory.archive_turn)
    get_memory = _awaited(Memory.get_memory)
    edit_memory = _awaited(Memory.edit_memory)
    pin_memory = _awaited(Memory.pin_memory)
    list_memories = _awaited(Memory.list_memories)
    count_memories = _awaited(Memory.count_memories)
    count_recalls = _awaited(Memory.count_recalls)

    # Forgetting.
    delete_memory = _awaited(Memory.delete_memory)
    delete_memories = _awaited(Memory.delete_memories)
    drop_memories = _awaited(Memory.drop_memories)
    restore_forgotten = _awaited(Memory.restore_forgotten)
    clear_memory = _awaited(Memory.clear_memory)
    delete_user = _awaited(Memory.delete_user)
    clean_up = _awaited(Memory.clean_up)

    # Facts.
    set_fact = _awaited(Memory.set_fact)
    get_fact = _awaited(Memory.get_fact)
    get_all_facts = _awaited(Memory.get_all_facts)
    facts_set_by_user = _awaited(Memory.facts_set_by_user)
    clear_fact = _awaited(Memory.clear_fact)
    restore_fact = _awaited(Memory.restore_fact)
    fact_history = _awaited(Memory.fact_history)
    facts_at = _awaited(Memory.facts_at)
    fact_periods = _awaited(Memory.fact_periods)

    # What was learned.
    learned = _awaited(Memory.learned)
    learned_since = _awaited(Memory.learned_since)
    take_news = _awaited(Memory.take_news)
    undoable = _awaited(Memory.undoable)
    keep = _awaited(Memory.keep)
    undo = _awaited(Memory.undo)
    accept = _awaited(Memory.accept)
    reject = _awaited(Memory.reject)
    refused_values = _awaited(Memory.refused_values)

    # Conversations.
    start_session = _awaited(Memory.start_session)
    find_session = _awaited(Memory.find_session)
    append_message = _awaited(Memory.append_message)
    append_messages = _awaited(Memory.append_messages)
    mark_session = _awaited(Memory.mark_session)
    answer_again = _awaited(Memory.answer_again)
    load_session = _awaited(Memory.load_session)
    list_sessions = _awaited(Memory.list_sessions)
    count_sessions = _awaited(Memory.count_sessions)
    rename_session = _awaited(Memory.rename_session)
    title_of_session = _awaited(Memory.title_of_session)
    model_of_session = _awaited(Memory.model_of_session)
    delete_last_turn = _awaited(Memory.delete_last_turn)
    delete_messages = _awaited(Memory.delete_messages)
    clear_session = _awaited(Memory.clear_session)

    # The whole database.
    import_file = _awaited(Memory.import_file)
    import_memories = _awaited(Memory.import_memories)
    claim = _awaited(Memory.claim)
    backup = _awaited(Memory.backup)
    check = _awaited(Memory.check)
    audit = _awaited(Memory.audit)
    activity = _awaited(Memory.activity)
    stats = _awaited(Memory.stats)
    tables_with = _awaited(Memory.tables_with)
    schema_texts = _awaited(Memory.schema_texts)
    count_vectors = _awaited(Memory.count_vectors)
    settle_vectors = _awaited(Memory.settle_vectors)


class AsyncAssistant:
    """Asynchronous turns of an Assistant, each in a thread of its own.

    `assistant` has the rest. Its methods can be called between turns.
    """

    def __init__(self, assistant: Assistant) -> None:
        self.assistant = assistant
        self._turns: set[_Turn] = set()

    def ask(
        self, text: str, *, composed: str = "", pictures: Sequence[Picture] = ()
    ) -> AsyncGenerator[Event, None]:
        """Yield the events of `Assistant.ask`; raises its errors.

        Leaving the loop early, or a cancellation, ends the answer; its text so far is kept, as with
        `cancel()`. The next turn waits for that. Use `contextlib.aclosing`, so that it happens at once, also
        where something else still refers to the iterator.
        """
        turn = _Turn(
            partial(self.assistant.ask, text, composed=composed, pictures=pictures), self.assistant.cancel
        )
        events = self._events(turn)
        # The event loop closes an iterator that was left, but only after the next turn may have begun.
        turn.reader = weakref.ref(events, lambda _: turn.leave())
        return events

    async def _events(self, turn: _Turn) -> AsyncGenerator[Event, None]:
        # A copy, made at once: the threads of turns that end take them out.
        for other in [one for one in tuple(self._turns) if one.is_left]:
            await other.end()
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event | BaseException | None] = asyncio.Queue()

        def put(event: Event | BaseException | None) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(events.put_nowait, event)

        self._turns.add(turn)
        turn.start(put, lambda: self._turns.discard(turn))
        try:
            while isinstance(event := await events.get(), Event):
                yield event
            if event is not None:
                raise event
        finally:
            turn.leave()
            await turn.end()

    def cancel(self) -> None:
        """End the answer that is being generated, if any."""
        self.assistant.cancel()


class _Turn:
    """A turn in a thread. The threads of asyncio are few: turns that wait for a model would take them all."""

    def __init__(self, ask: Callable[[], Iterator[Event]], cancel: Callable[[], None]) -> None:
        self.reader: object = None
        self._ask, self._cancel = ask, cancel
        # A turn that has not begun cannot be cancelled: the assistant can be in another caller's turn.
        self._left, self._under_way = threading.Event(), threading.Event()
        self._end: Future[None] = Future()
        self._end.set_running_or_notify_cancel()

    @property
    def is_left(self) -> bool:
        """True if nobody reads its events any more."""
        return self._left.is_set()

    def start(self, put: Callable[[Event | BaseException | None], None], at_end: Callable[[], None]) -> None:
        """Call `put` with each event, and at the end with the error or None, in a new thread."""
        threading.Thread(target=self._run, args=(put, at_end), name="shepherd-turn").start()

    def leave(self) -> None:
        """End the answer. From any thread."""
        self._left.set()
        if self._under_way.is_set():
            self._cancel()

    async def end(self) -> None:
        """Wait until it is over."""
        await asyncio.shield(asyncio.wrap_future(self._end))

    def _run(self, put: Callable[[Event | BaseException | None], None], at_end: Callable[[], None]) -> None:
        error: BaseException | None = None
        try:
            for event in () if self.is_left else self._ask():
                self._under_way.set()
                if self.is_left:
                    self._cancel()
                put(event)
        except BaseException as raised:
            error = raised
        self._under_way.clear()
        at_end()
        put(error)
        self._end.set_result(None)
