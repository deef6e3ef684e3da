"""--memtools, /tools and `shepherd tools` as their users meet them, with a local model and a provider."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.config.file import ConfigFile
from shepherd.providers import ProviderTable
from tests import models
from tests.providers.upstream import Upstream, claude_says, running, says, usage

ARGUMENTS = {"key": "name", "value": "Steve"}


@pytest.fixture(scope="module")
def calling_model(tmp_path_factory) -> Path:
    """Says that it notes something, sets the fact name=Steve, and then "Done."."""
    path = tmp_path_factory.mktemp("calling") / "model.gguf"
    call = ["<tool_call>", json.dumps({"name": "set_fact", "arguments": ARGUMENTS}), "</tool_call>"]
    script = ["I note that.", *call]
    models.scripted(path, script, after_tab=["Done."], template=models.TOOL_TEMPLATE)
    return path


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running(says("unused")) as server:
        yield server


def test_model_with_memtools_notes_a_fact_and_answers(shepherd, calling_model):
    done = shepherd("-m", calling_model, "--memtools", "-e", "My name is Steve")

    assert (done.returncode, done.stdout) == (0, "I note that.\nDone.\n")
    assert done.stderr == 'calls set_fact {"key": "name", "value": "Steve"}\n'
    assert shepherd("facts", "get", "name").stdout == "Steve\n"


def test_setting_gives_the_tools_always_and_without_it_there_are_none(shepherd, calling_model):
    shepherd("config", "set", "memory_extraction", "false")
    without = shepherd("-m", calling_model, "-e", "My name is Steve")
    assert "<tool_call>" in without.stdout
    assert shepherd("facts", "list").stdout == ""

    shepherd("config", "set", "memory_tools", "true")
    assert shepherd("-m", calling_model, "-e", "My name is Steve").stdout.endswith("Done.\n")


def test_memtools_without_memory_are_none(shepherd, calling_model):
    done = shepherd("-m", calling_model, "--memtools", "--nomemory", "-e", "My name is Steve")

    assert "<tool_call>" in done.stdout


def test_json_lines_have_calls_and_results(shepherd, calling_model):
    lines = '{"prompt": "My name is Steve"}\n{"prompt": "again", "memory": false}\n'
    done = shepherd("-m", calling_model, "--memtools", "--json", input=lines)

    events = [json.loads(line) for line in done.stdout.splitlines()]
    calls = [event for event in events if event["event"] == "tool_call"]
    results = [event for event in events if event["event"] == "tool_result"]
    assert [json.loads(call["arguments"]) for call in calls] == [ARGUMENTS] * 2
    assert [(result["id"], result["name"]) for result in results] == [
        (call["id"], "set_fact") for call in calls
    ]
    assert [result["failed"] for result in results] == [False, True]
    assert json.loads(results[0]["result"]) == {"set": True}
    assert [event["answer"] for event in events if event["event"] == "finished"] == ["Done."] * 2


def test_continued_conversation_knows_what_was_called(shepherd, calling_model):
    shepherd("-m", calling_model, "--memtools", "-e", "My name is Steve")

    done = shepherd("-m", calling_model, "--memtools", "--continue", "--json", "-e", "and now?")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["messages"] == 4
    assert events[-1]["answer"] == "Done."


def test_tools_are_listed(shepherd):
    listed = shepherd("tools")
    assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == [
        "search_memory", "store_memory", "clear_memory", "set_fact", "get_fact", "fact_history", "clear_fact",
    ]  # fmt: skip
    assert "these tools are off; to turn them on" in listed.stderr

    shown = [json.loads(line) for line in shepherd("tools", "--json").stdout.splitlines()]
    assert shown[3]["function"]["name"] == "set_fact"
    assert shown[3]["function"]["parameters"]["required"] == ["key", "value"]


def provider(home, upstream: Upstream, kind: str, **values: object) -> None:
    base = f"{upstream.url}/v1" if kind == "openai" else upstream.url
    given = {"kind": kind, "model": "m", "base_url": base, "retries": 0, "api_key": "sk-x", **values}
    ProviderTable(ConfigFile(home.config)).add("work", given)


def test_remote_model_that_may_use_the_memory_calls_the_tools(shepherd, home, upstream):
    provider(home, upstream, "openai", memory=True)
    function = {"name": "set_fact", "arguments": json.dumps(ARGUMENTS)}
    call = {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}
    upstream.script = [says(call, reason="tool_calls", counts=usage(50, 9)), says("Noted.")]

    done = shepherd("-p", "work", "--memtools", "-e", "My name is Steve")

    assert (done.returncode, done.stdout) == (0, "Noted.\n")
    first, second = (asked.body for asked in upstream.asked)
    assert [tool["function"]["name"] for tool in first["tools"]][3] == "set_fact"
    assert second["messages"][-2]["tool_calls"][0]["id"] == "call_1"
    assert second["messages"][-1] == {
        "role": "tool", "tool_call_id": "call_1", "content": '{"set": true}',
    }  # fmt: skip
    assert shepherd("facts", "get", "name").stdout == "Steve\n"


def test_claude_calls_the_tools_and_thinks_before_the_first_call_alone(shepherd, home, upstream):
    provider(home, upstream, "anthropic", memory=True, thinking=2048)
    call = {"tool": "set_fact", "input": [json.dumps(ARGUMENTS)]}
    upstream.script = [claude_says(call, reason="tool_use"), claude_says({"text": ["Noted."]})]

    done = shepherd("-p", "work", "--memtools", "-e", "My name is Steve")

    assert (done.returncode, done.stdout) == (0, "Noted.\n")
    first, second = (asked.body for asked in upstream.asked)
    assert "thinking" in first
    assert "thinking" not in second
    [result] = second["messages"][-1]["content"]
    assert (result["type"], result["tool_use_id"]) == ("tool_result", "toolu_1")
    assert shepherd("facts", "get", "name").stdout == "Steve\n"


def test_remote_model_without_the_memory_gets_no_tools(shepherd, home, upstream):
    provider(home, upstream, "openai")

    shepherd("-p", "work", "--memtools", "-e", "My name is Steve")

    assert "tools" not in upstream.asked[-1].body
