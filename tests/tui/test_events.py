"""The thread behind the screen without a screen: which events it posts, and in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shepherd import __version__
from shepherd.config.file import load
from shepherd.errors import UsageError
from shepherd.inference.hub import Transferred, Waiting
from shepherd.tui.conversation import (
    Asked,
    ChatState,
    Confirming,
    Conversation,
    Ended,
    Event,
    Failed,
    Forgotten,
    History,
    Learned,
    Loading,
    Output,
    Piece,
    Prepared,
    Revising,
    SessionOptions,
    settle,
)
from shepherd.turn import Finished, Warned
from tests.learned import propose, remember

ANSWER = "Hello, I am a shepherd. Café is open today!"
PATIENCE_S = 20.0


class Listener:
    """A conversation whose events are kept."""

    def __init__(self, model: Path, **options: object) -> None:
        self.events: list[Event] = []
        self._told = threading.Condition()
        self.conversation = Conversation(SessionOptions(load().config, str(model), **options), self._hear)
        self.conversation.start()

    def _hear(self, event: Event) -> None:
        with self._told:
            self.events.append(event)
            self._told.notify_all()

    def of(self, *kinds: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kinds)]

    def until(self, holds: Callable[[], object]) -> None:
        with self._told:
            assert self._told.wait_for(holds, PATIENCE_S), self.events

    def rests_after(self, n_lines: int) -> None:
        """Wait until so many lines were worked on; the state comes after each, and once before them."""
        self.until(lambda: len(self.of(ChatState)) == n_lines + 1 or self.of(Ended))

    def say(self, *lines: str) -> list[Event]:
        """Say lines, one after the other, and return what came of them but the state."""
        for line in lines:
            self.until(lambda: self.of(ChatState))
            n = len(self.of(ChatState))
            first = len(self.events)
            self.conversation.say(line)
            self.until(lambda n=n: len(self.of(ChatState)) > n or self.of(Ended))
        return [event for event in self.events[first:] if not isinstance(event, ChatState)]

    def end(self) -> None:
        self.conversation.stop()
        self.conversation.join()


@pytest.fixture
def listen(home, scripted_model, monkeypatch) -> Iterator[Callable[..., Listener]]:
    """Starts conversations in which nothing is learned by itself: a test tells what is."""
    monkeypatch.setenv("SHEPHERD_MEMORY_EXTRACTION", "false")
    started: list[Listener] = []

    def start(model: Path = scripted_model, **options: object) -> Listener:
        started.append(Listener(model, **options))
        return started[-1]

    yield start
    for one in started:
        one.end()


def lines_of(events: list[Event]) -> list[tuple[bool, str]]:
    return [line for event in events if isinstance(event, Output) for line in event.lines]


def test_it_begins_with_the_greeting_and_the_state_and_ends_without_an_error(listen):
    listener = listen(note="a note")
    listener.rests_after(0)
    [state] = listener.of(ChatState)
    shown = list(listener.events)
    listener.end()

    first = [event for event in shown if not isinstance(event, Loading)]
    assert [type(event) for event in first] == [History, Output, ChatState]
    assert first[0] == History(())
    lines = [text for _, text in first[1].lines]
    assert lines[0] == f"Shepherd {__version__} \N{MIDDLE DOT} 0 memories and 0 facts of steve"
    assert lines[1:3] == ["/ lists the commands, F1 the keys; F3 shows what is remembered", "a note"]
    assert not any(is_result for is_result, _ in first[1].lines)
    assert (state.provider, state.user_id, state.window_tokens > 0) == ("local", "steve", True)
    assert "local" in state.providers
    assert (state.recalls, state.private, state.last) == (True, False, None)
    assert state.memory is not None
    assert listener.events[-1] == Ended(None)
    assert listener.conversation.said == []


def test_a_line_is_asked_answered_and_followed_by_the_state(listen):
    listener = listen()

    events = listener.say("hello")

    assert events[0] == Asked("hello", is_command=False)
    assert "".join(event.text for event in listener.of(Piece)) == ANSWER
    assert sum(isinstance(event, Finished) for event in events) == 1
    pieces = [i for i, event in enumerate(events) if isinstance(event, Piece)]
    assert pieces[-1] < next(i for i, event in enumerate(events) if isinstance(event, Finished))
    assert listener.of(ChatState)[-1].last is not None
    listener.end()
    assert [message.raw for message in listener.conversation.said] == ["hello", ANSWER]
    assert isinstance(listener.events[-1], Ended)


def test_a_command_is_told_as_one_and_its_output_has_results_and_remarks(listen):
    listener = listen()

    set_, listed = listener.say("/facts name Steve"), listener.say("/facts")
    history = listener.say("/facts history name")
    slash = listener.say("//etc")

    assert set_[0] == Asked("/facts name Steve", is_command=True)
    assert not any(is_result for is_result, _ in lines_of(set_))
    assert [line for line in lines_of(listed) if "Steve" in line[1]] == [(True, "  name = Steve")]
    assert [line.split()[1:] for _, line in lines_of(history)][:2] == [
        ["value", "until", "source", "you", "said"],
        ["Steve", "now", "user"],
    ]
    assert slash[0] == Asked("//etc", is_command=False)
    assert not listener.of(Failed)
    assert len(listener.of(History)) == 1  # no command changed the conversation


def test_a_command_that_changes_the_conversation_shows_it_anew(listen):
    listener = listen()
    listener.say("first", "second")

    undone = listener.say("/undo")
    cleared = listener.say("/clear")

    [history] = [event for event in undone if isinstance(event, History)]
    assert [message.raw for message in history.messages if message.role == "user"] == ["first"]
    assert Forgotten(frozenset({"second"})) in undone
    assert any(event == History(()) for event in cleared)


def test_a_line_that_fails_is_told_with_its_hint_and_keeps_what_was_written(listen):
    def prepare(assistant, message):
        raise UsageError("no such file", hint="name another one")

    listener = listen(prepare=prepare)

    events = listener.say("look at @x")
    unknown = listener.say("/memroy")

    assert events == [Asked("look at @x", is_command=False), Failed("no such file", "name another one")]
    assert [type(event) for event in unknown] == [Asked, Failed]
    assert "/memory" in unknown[1].message + unknown[1].hint
    listener.end()
    assert listener.conversation.said == []


def test_what_is_attached_is_remarked_and_the_typed_text_is_what_was_said(listen):
    listener = listen(
        prepare=lambda assistant, message: Prepared(message, f"{message} with it", (), "got it")
    )

    events = listener.say("look")

    assert Output(((False, "got it"),)) in events
    assert events.index(Output(((False, "got it"),))) < events.index(listener.of(Piece)[0])
    listener.end()
    [asked, _] = listener.conversation.said
    assert asked.raw == "look"
    assert asked.sent.startswith("look with it")


def test_a_latest_conversation_that_is_not_there_is_remarked_and_one_that_is_continues(listen):
    first = listen(resume="")
    first.say("about tomatoes")
    first.end()
    second = listen(resume="")
    second.rests_after(0)

    text = "there is no conversation to continue; this is a new one"
    assert Warned(text, "") in first.events
    assert Warned(text, "") not in second.events
    assert [m.raw for m in second.of(History)[0].messages if m.role == "user"] == ["about tomatoes"]


def test_a_fresh_conversation_does_not_continue_the_latest(listen):
    first = listen()
    first.say("about tomatoes")
    first.end()
    second = listen()
    second.rests_after(0)

    assert second.of(History) == [History(())]


def test_what_was_learned_is_told_before_the_state_and_once(listen, memory):
    remember(memory, "steve")
    listener = listen()
    listener.rests_after(0)
    started = list(listener.events)
    listener.say("hello")

    assert [type(event) for event in started[-2:]] == [Learned, ChatState]
    [learned] = listener.of(Learned)
    assert any("you live in Paris (before: Köln)" in line for line in learned.lines)
    listener.end()
    assert listener.conversation.farewell == []


def test_what_is_learned_is_told_by_the_thread_that_learns_and_not_in_private(listen):
    listener = listen()
    listener.say("/private")
    memory = listener.of(ChatState)[-1].memory
    remember(memory, "steve")
    in_private = listener.of(Learned)
    listener.say("/private")

    assert listener.of(ChatState)[-2].private is True
    assert in_private == []
    assert len(listener.of(Learned)) == 1
    propose(memory, "steve")
    listener.until(lambda: len(listener.of(Learned)) == 2)


def test_what_was_learned_in_the_end_is_the_farewell_and_names_no_command(home, scripted_model, memory):
    conversation = Conversation(SessionOptions(load().config, str(scripted_model)), print)
    remember(memory, "steve")

    conversation._learned_at_end(memory, "steve")

    assert any("you live in Paris" in line for line in conversation.farewell)
    assert not any("/undo" in line for line in conversation.farewell)


def test_nothing_is_asked_of_a_user_who_has_left(listen):
    listener = listen()
    listener.rests_after(0)
    listener.conversation.stop()

    assert listener.conversation.revise({"a": "b"}) is None
    assert listener.conversation.confirm("write", {}) is False
    assert not listener.of(Revising, Confirming)


def test_a_question_waits_for_its_answer_and_the_end_answers_it(home, scripted_model):
    posted: list[Event] = []
    conversation = Conversation(SessionOptions(load().config, str(scripted_model)), posted.append)
    answers: list[object] = []

    def ask() -> None:
        answers.append(conversation.confirm("write_file", {"path": "a.txt"}))
        answers.append(conversation.revise({"fact": "old"}))
        answers.append(conversation.confirm("write_file", {}))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    wait_for(lambda: len(posted) == 1)
    assert posted[0].question.startswith("write_file can change something. Allow it?\n\n")
    assert "a.txt" in posted[0].question
    settle(posted[0].answer, True)
    settle(posted[0].answer, False)  # pressed twice
    wait_for(lambda: len(posted) == 2)
    assert posted[1].texts == {"fact": "old"}
    settle(posted[1].answer, {"fact": "new"})
    wait_for(lambda: len(posted) == 3)
    assert posted[2].question == "write_file can change something. Allow it?"
    conversation.stop()
    asking.join(PATIENCE_S)

    assert answers == [True, {"fact": "new"}, False]


def wait_for(holds: Callable[[], object]) -> None:
    ticks = threading.Event()
    for _ in range(int(PATIENCE_S / 0.005)):
        if holds():
            return
        ticks.wait(0.005)
    raise AssertionError("it did not come")


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Transferred("org/repo/model.gguf", 512, 1024), Loading("fetching model.gguf: 50 %")),
        (Transferred("model.gguf", 100, 0), Loading("fetching model.gguf: 0 %")),
        (Waiting("the server is busy", 3.0), Warned("the server is busy", "")),
    ],
)
def test_a_download_is_told(event, told, home, scripted_model):
    posted: list[Event] = []
    conversation = Conversation(SessionOptions(load().config, str(scripted_model)), posted.append)

    conversation._report(event)

    assert posted == [told]


def test_lines_that_were_cancelled_before_they_began_are_not_answered(listen, endless_model, monkeypatch):
    monkeypatch.setenv("SHEPHERD_MAX_TOKENS", "4000")
    monkeypatch.setenv("SHEPHERD_N_CTX", "8192")
    listener = listen(endless_model)
    listener.rests_after(0)

    listener.conversation.say("one")
    listener.conversation.say("two")
    listener.until(lambda: listener.of(Piece))
    listener.conversation.cancel()
    listener.rests_after(2)

    assert [event.text for event in listener.of(Asked)] == ["one", "two"]
    assert [event.stats.finish_reason for event in listener.of(Finished)] == ["cancelled"] * 2


def test_an_error_at_the_start_ends_it_with_the_error(listen, tmp_path):
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"no model")
    listener = listen(bad)
    listener.until(lambda: listener.of(Ended))

    assert "bad.gguf" in str(listener.events[-1].error)
    assert listener.conversation.said == []
