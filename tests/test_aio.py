"""Turns and memory from an event loop, which goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from shepherd import Assistant, AsyncAssistant, AsyncMemory, Memory
from shepherd.assistant import Delta, Event, Finished
from shepherd.config import Config
from shepherd.errors import UsageError
from shepherd.inference import Engine, EngineSettings
from tests.learned import propose, remember


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def endless(endless_model, memory) -> Iterator[AsyncAssistant]:
    """Says printable nonsense until it is stopped."""
    with Engine(endless_model, settings=EngineSettings(n_ctx=8192, n_threads=1)) as engine:
        yield AsyncAssistant(Assistant(engine, memory, config=Config(temperature=0.0)))


async def events_until(assistant: AsyncAssistant, wanted: int) -> list[Event]:
    events: list[Event] = []
    async with aclosing(assistant.ask("Go on.")) as turn:
        async for event in turn:
            events.append(event)
            if sum(isinstance(event, Delta) for event in events) == wanted:
                break
    return events


def test_turn_gives_the_events_of_the_assistant(scripted_model, memory):
    async def ask(assistant: AsyncAssistant) -> list[Event]:
        return [event async for event in assistant.ask("Hello")]

    with Engine(scripted_model, settings=EngineSettings(n_threads=1)) as engine:
        assistant = AsyncAssistant(Assistant(engine, memory, config=Config(temperature=0.0)))
        events = asyncio.run(ask(assistant))

    assert isinstance(events[-1], Finished)
    assert "".join(event.text for event in events if isinstance(event, Delta)) == events[-1].answer
    assert assistant.assistant.history[0].raw == "Hello"


def test_event_loop_goes_on_while_the_model_answers(endless):
    async def both() -> int:
        turn = asyncio.create_task(events_until(endless, 50))
        others = 0
        while not turn.done():
            await asyncio.sleep(0)
            others += 1
        return others

    assert asyncio.run(both()) > 50


def test_turns_that_end_while_the_next_one_begins_do_no_harm(scripted_model, memory):
    class Ending:
        @property
        def is_left(self) -> bool:
            assistant._turns.discard(self)  # as its thread does
            return False

    async def ask() -> list[Event]:
        return [event async for event in assistant.ask("Hello")]

    with Engine(scripted_model, settings=EngineSettings(n_threads=1)) as engine:
        assistant = AsyncAssistant(Assistant(engine, memory, config=Config(temperature=0.0)))
        assistant._turns |= {Ending(), Ending()}
        assert isinstance(asyncio.run(ask())[-1], Finished)


def test_leaving_the_loop_ends_the_answer_and_keeps_what_there_is(endless):
    events = asyncio.run(events_until(endless, 3))

    said = "".join(event.text for event in events if isinstance(event, Delta))
    user, answer = endless.assistant.history
    assert user.raw == "Go on."
    assert answer.raw.startswith(said)


def test_cancelled_task_leaves_the_conversation_free_for_the_next_turn(endless):
    async def cancelled_then_asked() -> None:
        began = asyncio.Event()

        async def listen() -> None:
            async with aclosing(endless.ask("Go on.")) as turn:
                async for event in turn:
                    if isinstance(event, Delta):
                        began.set()

        listening = asyncio.create_task(listen())
        await began.wait()
        listening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listening
        await events_until(endless, 1)

    asyncio.run(cancelled_then_asked())

    assert [message.role for message in endless.assistant.history] == ["user", "assistant"] * 2


def test_turn_after_one_that_was_left_waits_until_that_has_ended(endless):
    async def left_and_asked() -> None:
        async for event in endless.ask("Go on."):
            if isinstance(event, Delta):
                break
        await events_until(endless, 1)

    asyncio.run(left_and_asked())

    assert [message.role for message in endless.assistant.history] == ["user", "assistant"] * 2


def test_turn_that_is_cancelled_before_it_begins_is_none(endless):
    async def cancelled_at_once() -> None:
        async for event in endless.ask("Go on."):
            if isinstance(event, Delta):
                break
        asking = asyncio.create_task(events_until(endless, 1000))
        await asyncio.sleep(0)  # it waits for the other one
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await events_until(endless, 1)

    asyncio.run(cancelled_at_once())

    assert [message.role for message in endless.assistant.history] == ["user", "assistant"] * 2


def test_turn_takes_no_thread_of_the_event_loop(endless):
    async def asked_while_all_are_busy() -> list[Event]:
        free = threading.Event()
        with ThreadPoolExecutor(max_workers=1) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            busy = asyncio.get_running_loop().run_in_executor(None, free.wait)
            try:
                return await asyncio.wait_for(events_until(endless, 1), 60)
            finally:
                free.set()
                await busy

    assert asyncio.run(asked_while_all_are_busy())


def test_leaving_before_a_turn_of_somebody_else_is_over_lets_it_go_on(endless):
    async def left_while_another_answers() -> list[Event]:
        async with aclosing(endless.ask("Go on.")) as first:
            await anext(first)
            second = asyncio.create_task(events_until(endless, 1))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises((asyncio.CancelledError, UsageError)):
                await second
            return [await anext(first) for _ in range(3)]

    events = asyncio.run(left_while_another_answers())

    assert not any(isinstance(event, Finished) for event in events)


def test_second_turn_is_refused_and_leaves_the_first_alone(endless):
    async def twice() -> None:
        async with aclosing(endless.ask("Go on.")) as first:
            await anext(first)
            with pytest.raises(UsageError, match="busy"):
                async for _ in endless.ask("And you?"):
                    pass
            await anext(first)  # goes on

    asyncio.run(twice())


def test_memory_is_awaited_with_the_same_names(memory):
    async def told_and_asked() -> tuple[str | None, str]:
        awaited = AsyncMemory(memory)
        await awaited.set_fact("name", "Steve")
        await awaited.store_memory("What IDE does the user prefer?", "VS Code")
        return await awaited.get_fact("name"), await awaited.enrich("Which IDE?")

    name, message = asyncio.run(told_and_asked())

    assert name == "Steve"
    assert "VS Code" in message


def test_what_was_learned_is_awaited_too(memory):
    first, second = remember(memory, memory.user_id)

    async def decided() -> list[str]:
        awaited = AsyncMemory(memory)
        states = [(await awaited.keep(first.id)).state, (await awaited.undo(second.id)).state]
        proposal = await asyncio.to_thread(propose, memory, memory.user_id)
        states += [item.state for item in await awaited.learned(waiting_only=True)]
        states.append((await awaited.accept(proposal.id)).state)
        assert await awaited.reject() is None
        assert [item.id for item in await awaited.learned_since(second.id)] == [proposal.id]
        periods = await awaited.fact_periods("location")
        assert [fact.value for fact in await awaited.facts_at(periods[-1].since)] == [periods[-1].value]
        return states

    assert asyncio.run(decided()) == ["kept", "undone", "new", "accepted"]


# Those that need no thread, and a generator.
NOT_AWAITED = {"close", "export_memories", "files_owner", "wake_vectors"}


def test_each_method_is_awaited_under_its_own_name():
    public = {name: method for name, method in vars(Memory).items() if callable(method) and name[0] != "_"}
    own = {name: method for name, method in vars(AsyncMemory).items() if callable(method) and name[0] != "_"}

    assert {name: method.__wrapped__ for name, method in own.items()} == {
        name: method for name, method in public.items() if name not in NOT_AWAITED
    }
