"""A conversation that is longer than the window goes on; what leaves the window is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, pairwise
from types import SimpleNamespace

import pytest

from shepherd.assistant import Warned
from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine, EngineSettings
from shepherd.knowledge import Knowledge

WINDOW = 512
ANSWER = "Hello, I am a shepherd. Café is open today!"


@pytest.fixture(scope="module")
def small_engine(scripted_model) -> Iterator[Engine]:
    """Says ANSWER to everything, and has a window of a few turns."""
    with Engine(scripted_model, settings=EngineSettings(n_ctx=WINDOW, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def small(new_assistant, small_engine):
    """Makes an assistant with the small window."""

    def make(**options):
        return new_assistant(engine=small_engine, system_prompt="Be brief.", max_tokens=64, **options)

    return make


def ask(assistant, text):
    *events, finished = assistant.ask(text)
    return events, finished


def statement(number: int) -> str:
    return f"The house number {number} in our street belongs to a family with {number} cats."


def test_a_conversation_longer_than_the_window_goes_on(small):
    assistant = small(rag_context_injection=False)
    evictions = []

    for number in range(40):
        events, finished = ask(assistant, statement(number))
        assert finished.answer == ANSWER
        assert finished.stats.prompt_tokens <= WINDOW - 64 + 16  # but for what the template adds
        told = [event.message for event in events if isinstance(event, Warned) and event.is_remark]
        assert not any(isinstance(event, Warned) and not event.is_remark for event in events)
        # Nothing is lost, so that the first time is enough.
        assert bool(told) == (finished.stats.evicted_turns > 0 and not evictions)
        if told:
            assert told[0].startswith(
                ("to make room, the model no longer sees", "to make room, the model sees only a")
            )
            assert " in memory, and " in told[0]
        if finished.stats.evicted_turns:
            evictions.append(number)

    assert len(evictions) >= 2
    assert min(after - before for before, after in pairwise(evictions)) >= 2
    assert assistant.history[-2].raw == statement(39)
    assert [message.role for message in assistant.history[:2]] == ["user", "assistant"]


def test_one_prompt_has_the_turns_that_left_the_window_too(small):
    assistant = small()
    for number in range(30):
        ask(assistant, statement(number))

    large, small_one = (assistant.inject_context("How many cats?", max_tokens=n) for n in (8000, 700))

    assert len(assistant.history) < 60
    assert [statement(number) in large.text for number in range(30)] == [True] * 30
    assert "Conversation summary" not in large.text
    assert len(small_one.plan.of("history")) > 1
    assert "earlier turns are left out]" in small_one.text
    assert 0.85 * 700 <= small_one.tokens <= 700


def test_between_evictions_only_what_is_new_is_read(small):
    assistant = small(rag_context_injection=False)
    ask(assistant, statement(0))

    for number in range(1, 25):
        _, finished = ask(assistant, statement(number))
        if finished.stats.evicted_turns:
            assert finished.stats.reused_tokens > 0  # the system prompt
        else:
            assert finished.stats.decoded_tokens < 100


def test_what_left_the_window_is_recalled_in_the_same_conversation(small, memory, monkeypatch):
    # Among two or three memories a word that two of them have tells too little.
    for number in range(20):
        memory.store_memory(f"The train number {number} leaves from platform {number}.", "")
    seconds = count(1_800_000_000)
    monkeypatch.setattr("shepherd.assistant.time", SimpleNamespace(time=lambda: next(seconds)))
    assistant = small()
    question = "Which colour does the bicycle of Melinda have?"
    ask(assistant, "The bicycle of my aunt Melinda is turquoise.")
    _, finished = ask(assistant, question)
    assert not finished.injection.results  # it is in front of the model

    while not finished.stats.evicted_turns:
        _, finished = ask(assistant, statement(7))

    assert assistant.history[0].raw != "The bicycle of my aunt Melinda is turquoise."
    _, finished = ask(assistant, question)
    assert "turquoise" in finished.injection.tail


def test_questions_that_left_the_window_are_remembered_too(small, memory):
    assistant = small(rag_context_injection=False)
    ask(assistant, "Where is the lighthouse of Alexandria?")
    assert memory.search("lighthouse") == []

    finished = None
    while finished is None or not finished.stats.evicted_turns:
        _, finished = ask(assistant, statement(7))

    found = memory.search("lighthouse")[0]
    assert (found.question, found.answer) == ("Where is the lighthouse of Alexandria?", ANSWER)


def test_private_exchanges_leave_without_a_trace(small, memory):
    assistant = small(rag_context_injection=False)
    assistant.private = True
    ask(assistant, "Where is the lighthouse of Alexandria?")
    assistant.private = False

    events, finished = [], None
    while finished is None or not finished.stats.evicted_turns:
        events, finished = ask(assistant, statement(7))

    assert memory.search("lighthouse") == []
    n = finished.stats.evicted_turns
    assert n > 1
    [told] = [event.message for event in events if isinstance(event, Warned)]
    assert told == (
        f"the window is full: the model no longer sees the {n} oldest exchanges;"
        " 1 of them is not kept in memory"
    )


def test_without_archiving_what_leaves_is_not_remembered(small, memory):
    assistant = small(rag_context_injection=False, archive_turns=False)

    for number in range(20):
        ask(assistant, statement(number))

    assert memory.search("house") == []
    assert len(memory.load_session()) == 40


def test_a_continued_conversation_may_be_longer_than_the_window(small, new_assistant):
    long = new_assistant(rag_context_injection=False)
    for number in range(20):
        ask(long, statement(number))
    assistant = small(rag_context_injection=False)

    assert assistant.resume() == 20
    _, finished = ask(assistant, "And now?")

    assert finished.answer == ANSWER
    assert finished.stats.evicted_turns > 0
    assert assistant.history[-4].raw == statement(19)


def test_counts_that_are_too_small_are_corrected(small):
    assistant = small(rag_context_injection=False)
    for number in range(40):
        _, finished = ask(assistant, statement(number))
        for message in assistant.history:
            message.tokens = 1  # as another model's tokenizer might have counted
        assert finished.answer == ANSWER


def test_a_message_that_cannot_fit_is_refused_and_nothing_leaves(small):
    assistant = small(rag_context_injection=False)
    for number in range(3):
        ask(assistant, statement(number))

    with pytest.raises(ContextOverflowError):
        ask(assistant, "many words " * 1_000)

    assert len(assistant.history) == 6


def test_a_message_that_cannot_fit_leaves_old_tails_where_they_are(small, memory):
    memory.set_fact("name", "Steve")
    assistant = small()
    for number in range(2):
        ask(assistant, statement(number))
    before = [(message.sent, message.tokens) for message in assistant.history]
    assert before[0][0] != assistant.history[0].raw

    with pytest.raises(ContextOverflowError):
        ask(assistant, "many words " * 1_000)

    assert [(message.sent, message.tokens) for message in assistant.history] == before
    _, finished = ask(assistant, statement(2))
    assert finished.stats.decoded_tokens < finished.stats.prompt_tokens / 2  # the prefix is as it was, too


@pytest.mark.parametrize("retention", ["auto", "strip"])
def test_an_abandoned_turn_takes_no_tail_off(small, memory, retention):
    memory.set_fact("name", "Steve")
    assistant = small(injection_retention=retention)
    finished = None
    for number in range(100):
        before = [(message.sent, message.tokens) for message in assistant.history]
        events = assistant.ask(statement(number))
        next(events)
        events.close()
        assert [(message.sent, message.tokens) for message in assistant.history] == before
        _, finished = ask(assistant, statement(number))
        if finished.stats.evicted_turns:
            break

    assert finished is not None
    assert finished.stats.evicted_turns


def test_a_passage_stands_somewhere_in_each_prompt(new_assistant, scripted_model, memory):
    """Also in the turn for which the turn that had it leaves."""
    passage = "Sheep eat grass on the northern hills."
    Knowledge(memory.transactions, "steve").add_node("Sheep", source_text=passage)
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1)) as engine:
        assistant = new_assistant(engine=engine, max_tokens=64, archive_turns=False)
        evictions = 0

        for number in range(60):
            _, finished = ask(assistant, f"What do sheep eat on the northern hills on day {number}?")
            evictions += finished.stats.evicted_turns > 0
            assert any(passage in message.sent for message in assistant.history)

    assert evictions >= 2


def test_what_leaves_for_a_message_is_recalled_for_it(small, monkeypatch):
    seconds = count(1_800_000_000)
    monkeypatch.setattr("shepherd.assistant.time", SimpleNamespace(time=lambda: next(seconds)))
    assistant = small()
    ask(assistant, "The bicycle of my aunt Melinda is turquoise.")

    finished = None
    while finished is None or not finished.stats.evicted_turns:
        _, finished = ask(assistant, "Which colour does the bicycle of aunt Melinda have?")

    assert assistant.history[0].raw != "The bicycle of my aunt Melinda is turquoise."
    assert "turquoise" in finished.injection.tail


def test_an_abandoned_turn_evicts_nothing(small, memory):
    assistant = small(rag_context_injection=False)
    finished = None
    for number in range(100):
        before = [message.raw for message in assistant.history]
        events = assistant.ask(statement(number))
        next(events)
        events.close()
        assert [message.raw for message in assistant.history] == before
        _, finished = ask(assistant, statement(number))
        if finished.stats.evicted_turns:
            break

    assert finished is not None
    assert finished.stats.evicted_turns


def test_tails_go_before_turns_do(small, memory):
    for number in range(4):
        memory.set_fact(f"fact{number}", "value " * 4)
    assistant = small()

    finished = None
    for number in range(12):
        _, finished = ask(assistant, statement(number))
        if finished.stats.evicted_turns:
            break

    assert finished is not None
    assert finished.stats.evicted_turns
    assert all(message.sent == message.raw for message in assistant.history[:-2])
    assert finished.injection


def test_stats_count_the_oldest_turns_that_left(small):
    assistant = small(rag_context_injection=False)

    n = sum(ask(assistant, statement(number))[1].stats.evicted_turns for number in range(12))

    assert n > 0
    assert [message.raw for message in assistant.history[::2]] == [statement(i) for i in range(n, 12)]


@pytest.mark.parametrize("is_continued", [False, True])
def test_each_conversation_is_told_once_that_turns_leave(small, is_continued):
    assistant, other = (small(rag_context_injection=False, archive_turns=True) for _ in range(2))
    if is_continued:
        ask(other, "What is a house?")

    def remarks() -> list[str]:
        events = [event for number in range(14) for event in ask(assistant, statement(number))[0]]
        return [event.message for event in events if isinstance(event, Warned)]

    assert len(remarks()) == 1
    if is_continued:
        assistant.resume(other.session_id)
    else:
        assistant.clear()
    assert len(remarks()) == 1


def test_undo_after_an_eviction_takes_back_the_newest(small):
    assistant = small(rag_context_injection=False)
    for number in range(12):
        ask(assistant, statement(number))

    assert assistant.undo() == statement(11)
    assert assistant.history[-2].raw == statement(10)
