"""Old turns become a summary that was made in the background, and the snapshot is taken anew with it."""

from __future__ import annotations

import threading

import pytest

from shepherd.assistant import Warned
from shepherd.errors import ModelLoadError, ProviderUnavailableError
from shepherd.inference import Engine, EngineSettings
from shepherd.knowledge import attached_block
from shepherd.prompt import Summarizer, Summary
from shepherd.trace import Traces
from tests import models

ANSWER = "Hello, I am a shepherd. Café is open today!"
SUMMARY = f"[Conversation summary: {ANSWER}"


@pytest.fixture(scope="module")
def engine(scripted_model):
    with Engine(scripted_model, settings=EngineSettings(n_ctx=1024, n_threads=1)) as engine:
        yield engine


@pytest.fixture
def small(new_assistant, engine):
    def make(**options):
        options = {"rag_context_injection": False, "max_tokens": 64, **options}
        return new_assistant(engine=engine, system_prompt="Be brief.", **options)

    return make


def statement(number):
    return f"The house number {number} in our street belongs to a family with {number} cats."


def talk_until(assistant, happened, most=60):
    """Talk, waiting for summaries between turns; gives the events of the last turn and its number."""
    for number in range(most):
        events = list(assistant.ask(statement(number)))
        assistant._compaction.wait()
        if happened(events):
            return events, number
    raise AssertionError("it never happened")


def has_left(events):
    return events[-1].stats.evicted_turns > 0


def test_turns_that_leave_are_summed_up(small, summarizer):
    assistant = small(summarizer=summarizer)

    events, number = talk_until(assistant, has_left)

    assert SUMMARY in assistant.system_prompt.text
    assert events[-1].stats.evicted_turns == assistant.snapshot.summary.n_turns
    assert len(assistant.history) == 2 * (number + 1 - events[-1].stats.evicted_turns)
    told = [event.message for event in events if isinstance(event, Warned)]
    assert len(told) == 1
    assert "sees only a summary of the" in told[0]


def test_trace_says_compressed_in_every_turn_that_shows_a_summary(small, summarizer, memory):
    assistant = small(summarizer=summarizer)
    list(assistant.ask("hello"))
    talk_until(assistant, has_left)
    for number in range(3):
        *_, finished = assistant.ask(statement(number))
        assert not finished.stats.evicted_turns

    traces = Traces(memory.transactions, "steve")
    compressed = [
        value for _, value in traces.matching(f"/context/{assistant.session_id}/*/history/compressed")
    ]
    shown = [value for _, value in traces.matching(f"/context/{assistant.session_id}/*/history/summary")]
    assert compressed[-4:] == [True] * 4
    assert compressed == [False] * (len(compressed) - len(shown)) + [True] * len(shown)


def test_the_label_comes_once_however_often_turns_are_folded(small, summarizer):
    assistant = small(summarizer=summarizer)
    folded, summed_up = 0, []
    for number in range(60):
        *_, finished = assistant.ask(statement(number))
        assistant._compaction.wait()
        if finished.stats.evicted_turns:
            folded += finished.stats.evicted_turns
            summed_up.append(assistant.snapshot.summary.n_turns == folded)

    assert len(summed_up) >= 2
    assert all(summed_up)
    text = assistant.system_prompt.text
    assert text.count("Conversation summary") == 1
    assert text.count(ANSWER) == 2 or len(summed_up) != 2


def test_between_folds_only_what_is_new_is_read(small, summarizer):
    assistant = small(summarizer=summarizer)
    held = 0
    for number in range(60):
        *_, finished = assistant.ask(statement(number))
        assistant._compaction.wait()
        stats = finished.stats
        if not stats.evicted_turns:
            assert stats.decoded_tokens <= stats.prompt_tokens - held
        held = stats.prompt_tokens + stats.generated_tokens - 1


def test_a_turn_does_not_wait_for_a_summary(small, engine):
    """One that is never done: the window is full before, and turns leave without."""
    released = threading.Event()

    def open_late():
        released.wait()
        return engine.sibling(n_ctx=1024)

    summarizer = Summarizer(open_late, max_tokens=8)
    assistant = small(summarizer=summarizer)

    for number in range(60):
        *_, finished = assistant.ask(statement(number))
        if finished.stats.evicted_turns:
            break
    text = assistant.system_prompt.text
    released.set()
    summarizer.close()

    assert finished.answer == ANSWER
    assert finished.stats.evicted_turns
    assert "Conversation summary" not in text


def test_a_summariser_that_fails_costs_the_summary_and_not_the_turn(small):
    def refuse():
        raise ModelLoadError("no memory for a second context")

    assistant = small(summarizer=Summarizer(refuse))

    events, _ = talk_until(assistant, has_left)

    warnings = [event.message for event in events if isinstance(event, Warned)]
    assert events[-1].answer == ANSWER
    assert any("summing up failed: no memory for a second context" in text for text in warnings)
    assert any("no longer sees the" in text and "oldest" in text for text in warnings)


def test_a_summariser_that_failed_is_asked_again_for_the_next_fold(small, engine):
    opened = []

    def open_second_time():
        opened.append(len(opened))
        if len(opened) == 1:
            raise ProviderUnavailableError("the server is too busy")
        return engine.sibling(n_ctx=1024)

    summarizer = Summarizer(open_second_time, max_tokens=64)
    assistant = small(summarizer=summarizer)
    events, _ = talk_until(assistant, has_left)
    assert any("summing up failed" in event.message for event in events if isinstance(event, Warned))

    events, _ = talk_until(assistant, has_left)
    summarizer.close()

    assert SUMMARY in assistant.system_prompt.text
    assert not any("failed" in event.message for event in events if isinstance(event, Warned))


def test_of_a_long_fold_the_newest_part_is_there(tmp_path, engine):
    """A model that writes pages of each part, as long as it may."""
    path = tmp_path / "wordy.gguf"
    models.scripted(path, [f"word{number:04d} " * 10 for number in range(40)])
    with Engine(path, settings=EngineSettings(n_ctx=4096, n_threads=1)) as wordy:
        summarizer = Summarizer(lambda: wordy.sibling(n_ctx=1024), max_tokens=1024)
        job = summarizer.begin([f"User: turn {number}" + " and so on" * 40 for number in range(12)])
        assert job.wait(60)
        summarizer.close()

    summary = Summary().with_pieces(job.pieces, 12, fits=lambda text: len(text) < 40_000)

    assert len(job.pieces) > 1
    assert len(summary.pieces) == len(job.pieces)
    assert all("word0039" in piece for piece in summary.pieces)


def test_pieces_that_are_too_many_go_from_the_oldest_on():
    summary = Summary(("old",), 3).with_pieces(["first", "second"], 2, fits=lambda text: len(text) < 35)

    assert summary == Summary(("second",), 5)


def test_an_abandoned_turn_folds_nothing(small, summarizer):
    assistant = small(summarizer=summarizer)
    for number in range(60):
        before, prompt = [m.copy() for m in assistant.history], assistant.system_prompt
        events = assistant.ask(statement(number))
        next(events)
        events.close()
        assert assistant.history == before
        assert assistant.system_prompt == prompt
        *_, finished = assistant.ask(statement(number))
        assistant._compaction.wait()
        if finished.stats.evicted_turns:
            break

    assert assistant.snapshot.summary.n_turns


def test_a_new_conversation_has_no_summary(small, summarizer):
    assistant = small(summarizer=summarizer)
    talk_until(assistant, has_left)

    assistant.clear()

    assert "Conversation summary" not in assistant.system_prompt.text


def test_a_conversation_that_goes_on_has_its_summary_and_the_turns_behind_it(small, summarizer):
    first = small(summarizer=summarizer)
    talk_until(first, has_left)
    list(first.ask("The last thing said is that the gate is green."))
    first._compaction.wait()

    second = small(summarizer=summarizer)
    n = second.resume()

    assert n == first.snapshot.summary.n_turns + len(first.history) // 2
    assert [m.raw for m in second.history] == [m.raw for m in first.history]
    assert second.system_prompt == first.system_prompt
    *_, finished = second.ask("And now?")
    # The engine still holds all of it.
    assert finished.stats.decoded_tokens < finished.stats.prompt_tokens / 4
    second.clear()
    assert SUMMARY not in second.system_prompt.text


def test_what_left_without_a_summary_does_not_come_back_either(small):
    first = small()
    talk_until(first, has_left)

    second = small()
    second.resume()

    assert [m.raw for m in second.history] == [m.raw for m in first.history]


def test_the_user_is_told_which_attached_document_left_the_window(small):
    assistant = small()
    block = attached_block("lease.md", "The lease ends on 31 January 2030.")
    *_, first = assistant.ask("When does it end?", composed=f"When does it end?\n\n{block}")

    events, number = talk_until(assistant, has_left)
    later = [event for one in range(60) for event in assistant.ask(statement(number + 1 + one))]

    told = [event for event in events if isinstance(event, Warned) and '"lease.md"' in event.message]
    assert not first.stats.evicted_turns
    assert len(told) == 1
    assert "attach it again" in told[0].hint
    assert not [event for event in later if isinstance(event, Warned) and "lease.md" in event.message]


def test_a_document_that_was_attached_again_has_not_left(small):
    assistant = small()
    block = attached_block("lease.md", "The lease ends on 31 January 2030.")

    events = []
    while not events or not has_left(events):
        events = list(assistant.ask("When does it end?", composed=f"When does it end?\n\n{block}"))

    assert not [event for event in events if isinstance(event, Warned) and "lease.md" in event.message]
