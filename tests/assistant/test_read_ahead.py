"""While the user writes, the conversation is read; the answer is the same, and the conversation unchanged."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

import pytest

from shepherd.assistant import Assistant
from shepherd.inference import Engine
from shepherd.types import Message
from tests.inference.engines import KINDS, exact_settings

LONG = "The house in our street belongs to a family with many cats. " * 12
# Tokens of a short message, with what the template writes around it and the last answer.
MOST_NEW = 80


@pytest.fixture
def fresh(new_assistant, memory, model_file) -> Callable[..., Assistant]:
    """Makes an assistant with an engine of its own, whose cache is empty."""
    engines: list[Engine] = []

    def make(kind: str = "scripted", n_ctx: int = 2048, **options) -> Assistant:
        engines.append(Engine(model_file(kind), settings=exact_settings(n_ctx=n_ctx)))
        options = {"rag_context_injection": False, "max_tokens": 16, **options}
        return new_assistant(engine=engines[-1], system_prompt="Be brief.", **options)

    yield make
    for engine in engines:
        engine.close()


def ask(assistant, text):
    *_, finished = assistant.ask(text)
    return finished


def wait(assistant):
    reading = assistant._ahead.reading
    deadline = time.monotonic() + 60
    while reading is not None and reading.is_running:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return reading


def written(assistant, text):
    """Write a text that is looked at again with its last character; return it."""
    text = f"{text:.<65}"
    for end in range(1, len(text) + 1):
        assistant.read_ahead(text[:end])
    wait(assistant)
    return text


def resumed(fresh, session, **options):
    assistant = fresh(**options)
    assert assistant.resume(session)
    return assistant


@pytest.mark.parametrize("kind", KINDS)
def test_next_turn_of_a_continued_conversation_reads_its_message_alone(fresh, kind):
    first = fresh(kind)
    ask(first, LONG)
    unread = resumed(fresh, first.session_id, kind=kind)
    before = ask(unread, "And the dogs?")
    unread.undo()

    assistant = resumed(fresh, first.session_id, kind=kind)
    assistant.read_ahead()
    wait(assistant)
    after = ask(assistant, "And the dogs?")

    assert before.stats.decoded_tokens > 200
    assert after.stats.decoded_tokens < MOST_NEW
    assert after.stats.prompt_tokens > 200
    assert after.answer == before.answer


def test_turns_that_will_leave_are_not_read(fresh):
    assistant = fresh(n_ctx=512, max_tokens=64)
    plain = fresh(n_ctx=512, max_tokens=64)
    evictions = 0
    for number in range(12):
        text = written(assistant, f"The house number {number} belongs to a family with {number} cats.")
        finished, other = ask(assistant, text), ask(plain, text)

        assert finished.stats.evicted_turns == other.stats.evicted_turns
        assert [m.sent for m in assistant.history] == [m.sent for m in plain.history]
        if finished.stats.evicted_turns:
            evictions += 1
            assert finished.stats.decoded_tokens < MOST_NEW < other.stats.decoded_tokens
    assert evictions


def test_history_behind_a_new_summary_is_read(fresh, summarizer):
    assistant = fresh(n_ctx=1024, max_tokens=64, summarizer=summarizer)
    for number in range(60):
        text = written(assistant, f"The house number {number} belongs to a family with {number} cats.")
        finished = ask(assistant, text)
        assistant._compaction.wait()
        if finished.stats.evicted_turns:
            break

    assert assistant.snapshot.summary.n_turns == finished.stats.evicted_turns > 0
    assert finished.stats.decoded_tokens < MOST_NEW + 20


def test_nothing_changes_but_the_cache(fresh, memory):
    memory.set_fact("dog", "Rex")
    options = {"rag_context_injection": True, "context_entities": True}
    assistant = fresh(**options)
    ask(assistant, "My sister is called Ada, and she lives in Porto.")
    history, snapshot = list(map(dataclasses.replace, assistant.history)), assistant.snapshot
    session = memory.load_session(assistant.session_id, "steve")

    assistant.read_ahead()
    wait(assistant)

    assert assistant.history == history
    assert assistant.snapshot is snapshot
    assert memory.load_session(assistant.session_id, "steve") == session
    assert ask(assistant, "What is my dog called?").injection.facts


def test_turn_that_begins_meanwhile_ends_it_and_uses_what_was_read(fresh):
    first = fresh("plain", n_ctx=4096)
    ask(first, LONG * 4)
    assistant = resumed(fresh, first.session_id, kind="plain", n_ctx=4096)
    assistant.read_ahead()
    reading = assistant._ahead.reading
    while reading.progress[0] == 0 and reading.is_running:
        time.sleep(0.001)
    finished = ask(assistant, "And the dogs?")

    assert not reading.is_running
    stats = finished.stats
    assert stats.reused_tokens + stats.decoded_tokens == stats.prompt_tokens
    assert stats.reused_tokens >= reading.progress[0] > 0
    assistant.undo()
    unread = resumed(fresh, first.session_id, kind="plain", n_ctx=4096)
    assert ask(unread, "And the dogs?").answer == finished.answer


@pytest.mark.parametrize("change", ["clear", "undo", "refresh_context"])
def test_change_of_the_conversation_ends_it(fresh, change):
    assistant = fresh("endless", n_ctx=8192)
    ask(assistant, LONG)
    # While another answer comes, nothing is read ahead, so that it can't just have been done.
    with assistant.engine.generate([Message("user", "hello")], max_tokens=8000) as answer:
        assistant.read_ahead()
        reading = assistant._ahead.reading
        assert reading.is_running

        getattr(assistant, change)()

        assert assistant._ahead.reading is None
        for _ in reading:
            pass
        assert reading.stats.finish_reason == "cancelled"
        assert answer.is_running
        assistant.read_ahead()
        assert assistant._ahead.reading.is_running


def test_second_call_of_a_message_does_nothing(fresh):
    assistant = fresh()
    ask(assistant, "hello")
    assistant.read_ahead()
    reading = assistant._ahead.reading
    assistant.read_ahead()

    assert assistant._ahead.reading is reading


def test_nothing_is_read_where_the_setting_is_off_or_a_turn_runs(fresh):
    off = fresh(read_ahead=False)
    ask(off, "hello")
    off.read_ahead()
    assert off._ahead.reading is None

    busy = fresh()
    turn = busy.ask("hello")
    next(turn)
    typing = threading.Thread(target=busy.read_ahead)
    typing.start()
    typing.join()
    assert busy._ahead.reading is None
    turn.close()
    busy.read_ahead()
    assert wait(busy) is not None
