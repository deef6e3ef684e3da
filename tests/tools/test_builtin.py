"""The built-in tools at their limits: how much is stored, found and told at once, and when they are off."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shepherd.config import Config
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.tools import MEMORY_TOOLS, Toolbox, decide, memory_tools
from shepherd.tools.builtin import LEARNED_TOOLS, conversation_tools, knowledge_tools, learned_tools
from shepherd.tools.toolbox import AssistantTool
from shepherd.types import ToolCall
from tests.learned import propose, remember

Call = Callable[..., dict[str, Any]]


def told(tools: list[AssistantTool], name: str, **arguments: object) -> dict[str, Any]:
    return json.loads(Toolbox(tools).call(ToolCall("id", name, json.dumps(arguments))).text)


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def call(memory) -> Call:
    """Calls a memory tool of steve's."""
    tools = memory_tools(memory, "steve", refusal=lambda: "", writes=True, keeps_secrets=False)
    return lambda name, **arguments: told(tools, name, **arguments)


def test_a_text_to_store_is_as_long_as_the_limit(call, memory):
    assert call("store_memory", question="q" * 10, answer="a" * 19_990) == {"stored": True}
    too_long = "that is too long to be remembered"
    assert too_long in str(call("store_memory", question="q" * 10, answer="b" * 19_991))
    assert call("set_fact", key="k", value="v" * 19_999) == {"set": True}
    assert too_long in str(call("set_fact", key="k", value="w" * 20_000))
    assert memory.count_memories() == 1
    assert memory.get_fact("k") == "v" * 19_999


def test_blanks_around_what_is_stored_are_dropped(call, memory):
    call("store_memory", question=" Which dog? ", answer=" Rex ")
    call("set_fact", key=" city ", value=" Ulm ")

    [record] = memory.list_memories()
    assert (record.question, record.answer, record.source) == ("Which dog?", "Rex", "tool")
    assert memory.get_fact("city") == "Ulm"


def test_memories_are_told_with_their_age_and_at_most_twenty(call, memory):
    for number in range(22):
        memory.store_memory(f"dog {number}", "x", timestamp=time.time() - 1.26 * 86_400)
    memory.store_memory("cat", "y" * 1001)
    memory.store_memory("bird", "y" * 1000)

    found = call("search_memory", query="dog", limit=20)["memories"]
    assert len(found) == 20
    assert found[0]["age_days"] == 1.3
    assert call("search_memory", query="cat")["memories"][0]["answer"] == "y" * 1000 + "…"
    assert len(call("search_memory", query="dog", limit=21)["memories"]) == 20
    assert len(call("search_memory", query="dog", limit=0)["memories"]) == 1
    assert len(call("search_memory", query="dog", limit=1)["memories"]) == 1
    assert call("search_memory", query="bird")["memories"][0]["answer"] == "y" * 1000


def test_a_long_fact_is_told_in_pages(call, memory):
    memory.set_fact("story", "s" * 3500)
    memory.set_fact("novel", "n" * 3501)

    assert call("get_fact", key="story") == {"value": "s" * 3500}
    assert call("get_fact", key="novel") == {"value": "n" * 3500, "next_offset": 3500}
    assert call("get_fact", key="novel", offset=3500) == {"value": "n"}
    assert call("get_fact", key="none") == {"value": None}
    assert call("get_fact", key="novel", offset=-1)["next_offset"] == 3500


def test_facts_fill_a_page_to_the_last_character(call, memory):
    # Three of 7 + 6 + 980 characters, and what is left of 3,500.
    for number in range(3):
        memory.set_fact(f"fact_{number:02}", "x" * 980)
    rest = 3500 - 3 * 993 - 7 - 6
    memory.set_fact("fact_03", "y" * rest)
    assert len(call("get_fact")["facts"]) == 4
    assert "next_offset" not in call("get_fact")

    memory.set_fact("fact_03", "y" * (rest + 1))
    page = call("get_fact")
    assert (list(page["facts"]), page["next_offset"]) == (["fact_00", "fact_01", "fact_02"], 3)
    assert call("get_fact", offset=3) == {"facts": {"fact_03": "y" * (rest + 1)}}
    assert call("get_fact", offset=4) == {"facts": {}}


def test_facts_are_told_as_they_were_on_a_day(call, memory):
    memory.set_fact("home_city", "Köln", since=1_600_000_000)
    memory.set_fact("home_city", "Paris", since=1_700_000_000)
    memory.set_fact("cat", "Tom", since=1_600_000_000)

    assert call("get_fact", date="2021-01-01") == {"facts": {"cat": "Tom", "home_city": "Köln"}}
    assert call("get_fact", date="2021-01-01", key="Home City") == {"value": "Köln"}
    assert call("get_fact", date="2021-01-01", key="dog") == {"value": None}
    assert call("get_fact", date="2024-01", key="home_city") == {"value": "Paris"}
    assert call("get_fact", date="2010-01-01") == {"facts": {}}
    assert call("get_fact", date="2021-01-01", key="home_city", offset=2) == {"value": "ln"}


def test_a_past_fills_a_page_to_the_last_character(call, memory):
    for number in range(4):
        memory.set_fact("city", f"{number}" + "x" * 868, since=1_700_000_000 + number)  # with 6: 875

    history = call("fact_history", key="city")
    assert [one["value"][0] for one in history["values"]] == ["3", "2", "1", "0"]
    assert "older" not in history
    newest = history["values"][0]
    assert newest["from"] == time.strftime("%Y-%m-%d", time.localtime(1_700_000_003))
    assert (newest["until"], newest["said"]) == (None, "")

    memory.set_fact("city", "4" + "x" * 868, since=1_700_000_004)
    history = call("fact_history", key="city")
    assert [one["value"][0] for one in history["values"]] == ["4", "3", "2", "1"]
    assert history["older"] == 1


def test_what_was_learned_is_listed_and_decided(memory):
    remember(memory, "steve")
    propose(memory, "steve")
    tools = learned_tools(memory, "steve", writes=True)
    items = memory.learned(user_id="steve")
    [proposed] = [item for item in items if item.kind == "proposed"]

    listed = told(tools, "list_learned")["learned"]
    assert [one["id"] for one in listed] == [item.id for item in items]
    newest = listed[0]
    assert set(newest) == {"id", "kind", "key", "value", "before", "said", "date", "state"}
    assert newest["date"] == time.strftime("%Y-%m-%d", time.localtime(items[0].at))
    assert told(tools, "list_learned", limit=1)["learned"] == listed[:1]
    [waiting] = told(tools, "list_learned", waiting=True)["learned"]
    assert (waiting["id"], waiting["before"]) == (proposed.id, proposed.before)

    refused = told(learned_tools(memory, "steve", writes=False), "decide_learned", id=1, decision="keep")
    assert refused == {"error": "this memory is read-only"}
    rejected = told(tools, "decide_learned", id=proposed.id, decision="reject")
    assert (rejected["id"], rejected["state"]) == (proposed.id, "rejected")
    again = told(tools, "decide_learned", id=proposed.id, decision="reject")
    assert "no such id, or it was decided or changed since" in str(again)
    assert told(tools, "decide_learned", id=listed[-1]["id"], decision="keep")["state"] == "kept"
    assert "error" in told(tools, "decide_learned", id=0, decision="keep")
    assert decide(memory, "keep", None, "steve") is None
    # What it set was changed since.
    assert decide(memory, "undo", None, "steve") is None


def test_the_newest_that_was_learned_is_undone_without_a_number(memory):
    _, second = remember(memory, "steve")

    undone = decide(memory, "undo", None, "steve")

    assert undone is not None
    assert (undone.id, undone.state) == (second.id, "undone")
    assert memory.get_fact("location") == "Köln"


def test_a_list_of_what_was_learned_has_twenty_at_most(memory):
    for number in range(21):
        memory.set_fact(f"fact_{number:02}", "x", source="tool")
    tools = learned_tools(memory, "steve", writes=False)

    assert len(memory.learned(100, user_id="steve")) == 21
    assert len(told(tools, "list_learned")["learned"]) == 20
    assert len(told(tools, "list_learned", limit=21)["learned"]) == 20
    assert len(told(tools, "list_learned", limit=-1)["learned"]) == 1


def test_arguments_are_described_with_their_limits():
    limits = {
        (tool.name, name): tuple(schema.get(key) for key in ("type", "minimum", "maximum"))
        for tool in (*MEMORY_TOOLS, *LEARNED_TOOLS)
        for name, schema in tool.parameters["properties"].items()
        if schema["type"] != "string"
    }
    assert limits == {
        ("search_memory", "limit"): ("integer", 1, 20),
        ("get_fact", "offset"): ("integer", 0, None),
        ("list_learned", "waiting"): ("boolean", None, None),
        ("list_learned", "limit"): ("integer", 1, 20),
        ("decide_learned", "id"): ("integer", 1, None),
    }
    assert {tool.name: tool.parameters["required"] for tool in (*MEMORY_TOOLS, *LEARNED_TOOLS)} == {
        "search_memory": ["query"],
        "store_memory": ["question", "answer"],
        "clear_memory": ["question"],
        "set_fact": ["key", "value"],
        "get_fact": [],
        "fact_history": ["key"],
        "clear_fact": ["key"],
        "list_learned": [],
        "decide_learned": ["id", "decision"],
    }


def test_knowledge_that_is_off_or_read_only_says_so(memory):
    knowledge = Knowledge(memory.transactions, "steve")
    node = knowledge.add_node("Bees", notes="They fly.").id
    for reason, writes in (("", True), ("", False), ("it is off", True)):
        tools = knowledge_tools(knowledge, refusal=lambda reason=reason: reason, writes=writes)
        read = told(tools, "get_nodes_by_id", ids=[node])
        wrote = told(tools, "create_node", title="Wasps")
        assert ("error" in read) == bool(reason)
        assert ("error" in wrote) == bool(reason or not writes)
        if reason:
            assert (read, wrote) == ({"error": reason}, {"error": reason})
        elif not writes:
            assert wrote == {"error": "this knowledge is read-only"}
            assert {one.title for one in knowledge.list_nodes()} == {"Bees", "Wasps"}


@pytest.mark.parametrize(
    ("settings", "fits", "names"),
    [
        ({}, True, set()),
        ({"memory_tools": True, "knowledge_tools": False}, True, {"search_memory"}),
        ({"memory_tools": True, "knowledge_tools": True}, False, {"search_memory", "query_nodes"}),
        ({"memory_tools": False, "knowledge_tools": True}, False, {"query_nodes"}),
    ],
)
def test_tools_of_a_conversation_are_those_of_its_settings(memory, settings, fits, names):
    knowledge = Knowledge(memory.transactions, "steve")
    box = conversation_tools(
        Config(**settings), memory, knowledge, "steve",
        refusal=lambda: "", writes=True, fits=lambda tools: fits,
    )  # fmt: skip
    found = {tool.name for tool in box.tools} if box is not None else set()

    assert {"search_memory", "query_nodes"} & found == names
    assert (box is None) == (not names)
    own = Config(**settings)
    assert conversation_tools(
        own, None, None, "steve", refusal=lambda: "", writes=True, fits=lambda tools: True
    ) is None  # fmt: skip


def test_memories_are_told_with_their_relevance(call, memory):
    memory.store_memory("Where is my red bicycle?", "In the cellar.")
    memory.store_memory("What do I like?", "Sunday rides, red wine and evenings with friends by the lake.")

    first, *rest = call("search_memory", query="red bicycle")["memories"]

    assert first["question"] == "Where is my red bicycle?"
    assert 0 < first["relevance"] <= 1
    assert all(0 <= one["relevance"] < first["relevance"] for one in rest)
    assert rest
