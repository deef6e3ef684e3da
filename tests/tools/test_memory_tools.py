"""The memory tools work on the memory of one user, and on nobody else's."""

from __future__ import annotations

import json

import pytest

from shepherd.memory import Memory
from shepherd.tools import MEMORY_TOOLS, Toolbox, memory_tools
from shepherd.types import ToolCall
from tests.learned import LIVED, MOVED, remember


@pytest.fixture
def memory(tmp_path):
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def call(memory):
    """Calls a tool of steve's, or of somebody else's; gives what the model is told."""

    def call(name, whose="steve", refusal="", writes=True, keeps_secrets=False, **arguments):
        tools = memory_tools(
            memory, whose, refusal=lambda: refusal, writes=writes, keeps_secrets=keeps_secrets
        )
        return json.loads(Toolbox(tools).call(ToolCall("id", name, json.dumps(arguments))).text)

    return call


def test_what_is_stored_is_found_and_forgotten(call):
    assert call("store_memory", question="Which editor?", answer="Helix") == {"stored": True}
    [found] = call("search_memory", query="editor")["memories"]
    assert (found["question"], found["answer"]) == ("Which editor?", "Helix")

    assert call("clear_memory", question="which  EDITOR?") == {"forgotten": 1}
    assert call("search_memory", query="editor") == {"memories": []}


def test_facts_are_set_read_and_forgotten(call, memory):
    assert call("set_fact", key="name", value="Steve") == {"set": True}
    assert call("get_fact", key="name") == {"value": "Steve"}
    assert call("get_fact") == {"facts": {"name": "Steve"}}
    assert memory.fact_history("name")[0].source == "tool"

    assert call("clear_fact", key="name") == {"forgotten": True}
    assert call("get_fact", key="name") == {"value": None}


def test_limit_is_kept(call, memory):
    for i in range(8):
        memory.store_memory(f"question {i} about dogs", "answer")

    assert len(call("search_memory", query="dogs", limit=5)["memories"]) == 5


def test_nobody_reaches_anothers_memory(call, memory):
    memory.set_fact("name", "Alice", "alice")
    memory.store_memory("Which editor?", "Emacs", "alice")

    assert call("get_fact", key="name") == {"value": None}
    assert call("search_memory", query="editor") == {"memories": []}
    assert call("clear_memory", question="Which editor?") == {"forgotten": 0}
    assert call("clear_fact", key="name") == {"forgotten": False}
    for arguments in ({"key": "name", "user_id": "alice"}, {"key": "name", "user": "alice"}):
        assert "error" in call("get_fact", **arguments)
    assert memory.get_fact("name", "alice") == "Alice"
    assert memory.count_memories("alice") == 1


@pytest.mark.parametrize("user", ["", "unknown"])
def test_nobody_in_particular_has_no_memory(call, memory, user):
    call("set_fact", user, key="name", value="Steve")

    assert call("get_fact", user) == {"facts": {}}
    assert memory.get_all_facts() == []


SECRET = "sk-proj-abcdefghij0123456789ABCDEFGHIJ"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("set_fact", {"key": "openai", "value": SECRET}),
        ("set_fact", {"key": "wifi_password", "value": "hunter22"}),
        ("store_memory", {"question": "What is my key?", "answer": SECRET}),
        ("store_memory", {"question": "What is my PIN?", "answer": "4711"}),
    ],
)
def test_secrets_are_not_stored_unless_that_is_set(call, memory, name, arguments):
    told = call(name, **arguments)

    assert "secret" in told["error"]
    assert memory.get_all_facts() == []
    assert memory.count_memories() == 0
    memory.transactions.keeps_secrets = True
    assert "error" not in call(name, keeps_secrets=True, **arguments)


def test_memory_that_is_off_or_only_read_says_so(call, memory):
    memory.set_fact("name", "Steve")

    assert call("get_fact", refusal="off for now") == {"error": "off for now"}
    assert call("get_fact", writes=False) == {"facts": {"name": "Steve"}}
    for name, arguments in (
        ("set_fact", {"key": "a", "value": "b"}),
        ("clear_fact", {"key": "name"}),
        ("store_memory", {"question": "a", "answer": "b"}),
        ("clear_memory", {"question": "a"}),
    ):
        assert call(name, writes=False, **arguments) == {"error": "this memory is read-only"}
    assert memory.get_fact("name") == "Steve"


def test_empty_and_endless_texts_are_refused(call, memory):
    assert "error" in call("set_fact", key=" ", value="x")
    assert "error" in call("store_memory", question=" ", answer=" ")
    assert "too long" in call("store_memory", question="a", answer="x" * 50_000)["error"]
    assert memory.count_memories() == 0


def test_long_memories_are_shown_in_part(call, memory):
    memory.store_memory("about dogs", "x" * 5_000)

    assert len(call("search_memory", query="dogs")["memories"][0]["answer"]) == 1_001


def test_facts_that_are_too_many_for_one_result_come_in_parts(call, memory):
    for i in range(1, 300):
        memory.set_fact(f"fact_{i:03}", "x" * i)

    found, offset = {}, 0
    while offset is not None:
        told = call("get_fact", offset=offset)
        found |= told["facts"]
        offset = told.get("next_offset")

    assert found == {f"fact_{i:03}": "x" * i for i in range(1, 300)}


def test_long_fact_is_read_in_parts(call, memory):
    text = " ".join(map(str, range(4_000)))
    memory.set_fact("story", text)

    assert len(call("get_fact")["facts"]["story"]) == 1_001
    read, offset = "", 0
    while offset is not None:
        told = call("get_fact", key="story", offset=offset)
        read += told["value"]
        offset = told.get("next_offset")
    assert read == text


def test_a_fact_is_told_with_its_past(call, memory):
    remember(memory, "steve")

    values = call("fact_history", key="location")["values"]

    assert [(entry["value"], entry["said"]) for entry in values] == [
        ("Paris", MOVED),
        ("Köln", LIVED),
    ]
    assert (values[0]["until"], values[1]["until"]) == (None, values[0]["from"])
    assert call("fact_history", key="location", whose="anna") == {"values": []}


def test_a_long_past_is_told_in_part(call, memory):
    for n in range(20):
        memory.set_fact("story", f"{n} " + "x" * 900, since=1_700_000_000 + n)

    told = call("fact_history", key="story")

    assert told["values"][0]["value"].startswith("19 ")
    assert len(told["values"]) + told["older"] == 20
    assert len(json.dumps(told)) < 5_000


def test_a_model_cannot_decide_about_proposals(call):
    assert "error" in call("decide_learned", id=1, decision="accept")


def test_the_seven_tools_are_described():
    names = [tool.name for tool in MEMORY_TOOLS]

    assert names == [
        "search_memory", "store_memory", "clear_memory",
        "set_fact", "get_fact", "fact_history", "clear_fact",
    ]  # fmt: skip
    assert all(tool.description.endswith(".") for tool in MEMORY_TOOLS)
    assert "user" not in json.dumps([dict(tool.parameters["properties"]) for tool in MEMORY_TOOLS]).split('"')


def test_unknown_argument_is_named_beside_those_that_the_tool_has(call):
    told = call("search_memory", query="dogs", from_date="2026")

    assert "search_memory has no argument 'from_date'" in told["error"]
    assert "it takes query, limit" in json.dumps(told)
