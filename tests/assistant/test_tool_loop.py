"""A turn in which the model calls tools: what it may do, how often, and what is kept of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from shepherd.assistant import Assistant, Delta, Finished, Recalled, ToolResult, Warned
from shepherd.config import Config
from shepherd.errors import ContextOverflowError
from shepherd.inference import Engine, EngineSettings
from shepherd.tools import AssistantTool
from shepherd.turn.components import ModelAccess
from shepherd.types import Tool, ToolCall
from tests import models


def call_of(name: str, **arguments: str) -> list[str]:
    """A call as pieces of a script."""
    return ["<tool_call>", json.dumps({"name": name, "arguments": arguments}), "</tool_call>"]


SETS_NAME = call_of("set_fact", key="name", value="Steve")


@pytest.fixture(scope="module")
def new_engine(tmp_path_factory) -> Iterator[Callable[..., Engine]]:
    """A model that says `script`, and after a tool's result "Done.", or `after_tab`."""
    opened: dict[str, Engine] = {}

    def make(script: list[str], after_tab: tuple[str, ...] = ("Done.",), kind: str = "") -> Engine:
        key = json.dumps([script, after_tab])
        if key not in opened:
            path: Path = tmp_path_factory.mktemp("tools") / "model.gguf"
            models.scripted(path, script, after_tab=after_tab, template=models.TOOL_TEMPLATE)
            opened[key] = Engine(path, settings=EngineSettings(n_threads=1))
        return opened[key]

    yield make
    for engine in opened.values():
        engine.close()


@pytest.fixture
def talk(new_engine, memory) -> Callable[..., Assistant]:
    """An assistant of steve's with tools, whose model says a script."""

    def make(script: list[str] = SETS_NAME, after_tab=("Done.",), user_id="steve", **settings) -> Assistant:
        config = Config(temperature=0.0, memory_tools=True, **settings)
        return Assistant(new_engine(script, after_tab), memory, config=config, user_id=user_id)

    return make


def test_call_is_carried_out_and_the_model_goes_on(talk, memory):
    assistant = talk(["I note that.", *SETS_NAME])

    events = list(assistant.ask("My name is Steve"))

    kinds = [type(event) for event in events if not isinstance(event, Delta)]
    assert kinds == [Recalled, ToolCall, ToolResult, Finished]
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "I note that.Done."
    assert (events[-1].answer, events[-1].stats.finish_reason) == ("Done.", "stop")
    assert memory.get_fact("name") == "Steve"
    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert json.loads(result.text) == {"set": True}


def test_calls_and_results_are_part_of_the_conversation(talk):
    assistant = talk()
    list(assistant.ask("My name is Steve"))

    user, called, result, answer = assistant.history
    assert [m.role for m in (user, called, result, answer)] == ["user", "assistant", "tool", "assistant"]
    assert (called.raw, called.tool_calls[0].name, result.tool_call_id) == (
        "", "set_fact", called.tool_calls[0].id,
    )  # fmt: skip
    assert answer.raw == "Done."


def test_each_token_of_a_turn_with_tools_is_read_once(talk):
    assistant = talk(injection_retention="keep")

    held = 0
    for i in range(3):
        [*_, finished] = assistant.ask(f"My dog number {i} is called Rex")
        stats = finished.stats
        assert stats.prompt_tokens == stats.reused_tokens + stats.decoded_tokens
        # All of the last turn but its last line feed and what the template writes before the new message.
        assert stats.reused_tokens >= held
        held = stats.prompt_tokens + 1  # "Done." and the prompt before it


def test_without_the_setting_the_model_has_no_tools(new_engine, memory):
    assistant = Assistant(new_engine(SETS_NAME), memory, config=Config(temperature=0.0), user_id="steve")

    [*_, finished] = assistant.ask("My name is Steve")

    assert assistant.tools == ()
    assert "set_fact" in finished.answer  # nothing is a call, so it is text
    assert memory.get_fact("name") is None


@pytest.mark.parametrize("user", ["", "unknown"])
def test_nobody_in_particular_has_no_tools(new_engine, memory, user):
    config = Config(temperature=0.0, memory_tools=True, user_id="unknown")

    assert Assistant(new_engine(SETS_NAME), memory, config=config, user_id=user).tools == ()


def test_user_id_in_a_call_is_refused_and_told(talk, memory):
    assistant = talk(call_of("set_fact", key="name", value="Mallory", user_id="alice"))

    events = list(assistant.ask("hello there"))

    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert result.failed
    assert memory.get_fact("name", "alice") is None
    assert memory.get_fact("name", "steve") is None
    assert events[-1].answer == "Done."


def test_private_turn_has_the_same_tools_and_no_memory(talk, memory):
    assistant = talk()
    assistant.private = True

    events = list(assistant.ask("My name is Steve"))

    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert "switched the memory off" in result.text
    assert memory.get_all_facts() == []


def test_model_that_calls_without_end_is_ended(talk, memory):
    again = call_of("get_fact", key="name")
    assistant = talk(SETS_NAME, after_tab=(again[0] + "\n", again[1], "\n" + again[2]), tool_rounds=3)

    events = list(assistant.ask("My name is Steve"))

    assert sum(isinstance(event, ToolResult) for event in events) == 3
    assert [event.message for event in events if isinstance(event, Warned)] == [
        "the model has called tools 3 times and wants to continue"
    ]
    assert events[-1].answer == ""
    assert [bool(m.tool_calls) for m in assistant.history if m.role == "assistant"] == [True] * 3 + [False]
    # The conversation is whole, and goes on.
    assert isinstance(list(assistant.ask("and now?"))[-1], Finished)


def test_two_calls_at_once_are_both_carried_out(talk, memory):
    first, second = SETS_NAME, call_of("set_fact", key="city", value="Paris")
    assistant = talk([*first, "\n" + second[0], second[1], second[2] + "\n"])

    list(assistant.ask("I am Steve from Paris"))

    assert {fact.key: fact.value for fact in memory.get_all_facts()} == {"name": "Steve", "city": "Paris"}
    assert [m.role for m in assistant.history] == ["user", "assistant", "tool", "tool", "assistant"]


def test_continued_conversation_has_its_calls_and_results(talk, memory):
    list(talk().ask("My name is Steve"))
    before = talk()
    assert before.resume() == 1
    expected = [(m.role, m.raw, m.tool_calls, m.tool_call_id) for m in before.history]

    assert [role for role, *_ in expected] == ["user", "assistant", "tool", "assistant"]
    assert expected[1][2][0].name == "set_fact"
    [*_, finished] = before.ask("and now?")
    assert finished.stats.reused_tokens > 0


def test_undo_takes_the_whole_turn_back_but_not_what_the_tool_did(talk, memory):
    assistant = talk()
    list(assistant.ask("My name is Steve"))

    assert assistant.undo() == "My name is Steve"
    assert assistant.history == []
    assert memory.load_session() == []
    assert memory.get_fact("name") == "Steve"


def test_cancel_between_two_calls_runs_no_more_of_them(talk, memory):
    second = call_of("set_fact", key="city", value="Paris")
    assistant = talk([*SETS_NAME, "\n" + second[0], second[1], second[2] + "\n"])

    for event in assistant.ask("I am Steve from Paris"):
        if isinstance(event, ToolResult):
            assistant.cancel()

    assert memory.get_fact("name") == "Steve"
    assert memory.get_fact("city") is None
    # An answer of one token may have been whole before it was stopped.
    assert assistant.last is not None
    assert assistant.last.answer in ("", "Done.")
    assert isinstance(list(assistant.ask("and now?"))[-1], Finished)


def test_failing_memory_is_told_to_the_user_and_only_hinted_at_to_the_model(talk, memory):
    assistant = talk(archive_turns=False)
    events = []
    for event in assistant.ask("My name is Steve"):
        events.append(event)
        if isinstance(event, ToolCall):
            memory.close()

    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert json.loads(result.text) == {"error": "the tool failed, and the user was told why"}
    assert any(isinstance(event, Warned) and "set_fact failed" in event.message for event in events)
    assert events[-1].answer == "Done."


def again_and_again(call: list[str]) -> tuple[str, ...]:
    """The same call after each result; its pieces differ from those before."""
    return (call[0] + "\n", call[1], "\n" + call[2])


def test_results_that_fill_the_window_are_cut_and_the_turn_is_kept(talk, memory):
    for i in range(20):
        memory.store_memory(f"question {i} about dogs", "a long answer " * 40)
    script = call_of("search_memory", query="dogs", limit="20")
    assistant = talk(script, after_tab=again_and_again(script), tool_rounds=6, max_tokens=200)

    events = list(assistant.ask("What about my cats?"))

    results = [event for event in events if isinstance(event, ToolResult)]
    warnings = [event.message for event in events if isinstance(event, Warned)]
    assert len(results) == 6
    found = sum(assistant.engine.count_tokens(result.text) for result in results)
    assert found > assistant.engine.window_tokens
    assert isinstance(events[-1], Finished)
    assert sum("the oldest of it was cut" in warning for warning in warnings) == 1
    read = [json.loads(message.sent) for message in assistant.history if message.role == "tool"]
    assert [("cut" in one) for one in read][:2] == [True, True]
    assert [message.raw for message in memory.load_session()] == [m.raw for m in assistant.history]
    # The conversation goes on.
    assert isinstance(list(assistant.ask("and now?"))[-1], Finished)


def test_one_result_longer_than_the_window_is_cut_as_far_as_needed(new_engine, memory):
    tool = Tool("read", "Read it.", {"type": "object", "properties": {}})
    assistant = Assistant(
        new_engine(call_of("read")),
        memory,
        config=Config(temperature=0.0, max_tokens=3000),
        user_id="steve",
        tools=[AssistantTool(tool, lambda arguments: "∀x∃y " * 1500)],
    )

    *_, finished = assistant.ask("What does it say?")

    result = next(message for message in assistant.history if message.role == "tool")
    assert finished.answer == "Done."
    assert finished.stats.prompt_tokens < assistant.engine.window_tokens
    assert len(json.loads(result.sent)["cut"]) > 500


def test_turn_with_tools_lets_old_turns_go_before_it_is_refused(new_engine, memory):
    tool = Tool("read", "Read it.", {"type": "object", "properties": {}})
    assistant = Assistant(
        new_engine(call_of("read")),
        memory,
        config=Config(temperature=0.0, max_tokens=64),
        user_id="steve",
        tools=[AssistantTool(tool, lambda arguments: "sheep " * 150)],
    )
    room = assistant.engine.window_tokens
    for text in ("one " * (room // 6), "two " * (room // 6)):
        list(assistant.ask(text))

    *_, finished = assistant.ask("three " * (room // 6))

    assert finished.answer == "Done."
    assert finished.stats.evicted_turns
    assert "cut" not in assistant.history[-2].sent
    with pytest.raises(ContextOverflowError):  # a message alone may still be too long
        list(assistant.ask("four " * room))


def test_model_whose_memory_is_off_is_not_told_what_tools_have_read(talk, memory):
    memory.set_fact("name", "Rumpelstiltskin")
    assistant = talk(call_of("get_fact", key="name"))
    list(assistant.ask("Who am I?"))
    assert any("Rumpelstiltskin" in message.sent for message in assistant.history)

    assistant.switch(ModelAccess(assistant.engine, memory, forgetful=True))
    list(assistant.ask("And now?"))

    sent = [message.sent for message in assistant.history]
    calls = [call for message in assistant.history for call in message.tool_calls]
    assert "Rumpelstiltskin" not in "".join(sent)
    assert [(call.name, call.arguments) for call in calls] == [("get_fact", "{}")]
    # It is hidden, not lost: each call has its result, and `raw` is what it was.
    assert [m.tool_call_id for m in assistant.history if m.role == "tool"] == [call.id for call in calls]
    assert any("Rumpelstiltskin" in message.raw for message in assistant.history)


def test_what_other_programs_have_said_stays_where_memory_is_off(new_engine, memory):
    tool = Tool("files__read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    assistant = Assistant(
        new_engine(call_of("files__read", path="notes")),
        memory,
        config=Config(temperature=0.0),
        user_id="steve",
        tools=[AssistantTool(tool, lambda arguments: "Sheep eat grass.")],
    )
    list(assistant.ask("What do my notes say?"))

    assistant.switch(ModelAccess(assistant.engine, memory, forgetful=True))

    assert any(message.sent == '"Sheep eat grass."' for message in assistant.history)
    assert [c.arguments for m in assistant.history for c in m.tool_calls] == ['{"path": "notes"}']


def test_model_without_memory_has_no_tools_until_it_is_switched_back(talk, memory):
    assistant = talk()
    engine = assistant.engine

    assistant.switch(ModelAccess(engine, memory, forgetful=True))
    assert assistant.tools == ()

    assistant.switch(ModelAccess(engine, memory))
    assert len(assistant.tools) == 7


def test_long_tool_turns_leave_the_window_whole(talk, new_engine, memory):
    script = call_of("search_memory", query="dogs")
    for i in range(20):
        memory.store_memory(f"question {i} about dogs", "a long answer " * 40)
    assistant = talk(script, max_tokens=64)

    for i in range(12):
        list(assistant.ask(f"What about dog number {i}?"))

    calls = [call.id for m in assistant.history for call in m.tool_calls]
    results = [m.tool_call_id for m in assistant.history if m.role == "tool"]
    assert calls == results
    assert assistant.history[0].role == "user"
    assert len(calls) < 12


def test_stopping_an_answer_ends_the_tool_that_it_waits_for(new_engine, memory):
    tool = Tool("ponder", "Think for an hour.", {"type": "object", "properties": {}})
    pondering: Future[object] = Future()

    def ponder(arguments: object) -> Future[object]:
        assistant.cancel()
        return pondering

    assistant = Assistant(
        new_engine(call_of("ponder")),
        memory,
        config=Config(temperature=0.0),
        user_id="steve",
        tools=[AssistantTool(tool, ponder)],
    )

    events = list(assistant.ask("What is the answer?"))

    [result] = [event for event in events if isinstance(event, ToolResult)]
    assert json.loads(result.text) == {"error": "the user has stopped it"}
    assert pondering.cancelled()
    assert isinstance(events[-1], Finished)


def test_tool_that_raises_anything_ends_no_turn(new_engine, memory):
    def read(arguments: object) -> object:
        raise LookupError("no notes")

    assistant = Assistant(
        new_engine(call_of("read")),
        memory,
        config=Config(temperature=0.0),
        user_id="steve",
        tools=[AssistantTool(Tool("read", "Read it.", {"type": "object", "properties": {}}), read)],
    )

    events = list(assistant.ask("What does it say?"))

    assert [event.message for event in events if isinstance(event, Warned)] == [
        "read failed: LookupError: no notes"
    ]
    assert isinstance(events[-1], Finished)
    assert events[-1].answer == "Done."
