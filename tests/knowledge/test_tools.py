"""The tools that a model is given: schemas, both spellings, arguments as models write them, roles."""

from __future__ import annotations

import json

import pytest

from shepherd.errors import UsageError
from shepherd.inference.tools import check_tools
from shepherd.knowledge import Knowledge, KnowledgeTools
from shepherd.knowledge.tools import snake_case
from shepherd.tools import Toolbox, knowledge_tools
from shepherd.types import ToolCall


@pytest.fixture
def tools(knowledge: Knowledge) -> KnowledgeTools:
    return KnowledgeTools(knowledge)


def test_schemas_are_tools_as_the_engine_takes_them(tools):
    names = check_tools(tools.tools)

    assert names == tools.names
    assert {"query_nodes", "get_nodes_by_id", "search_content", "query_edges", "create_node"} <= set(names)
    assert {"update_node", "create_edge", "update_edge", "get_context", "create_dimension"} <= set(names)
    assert all(set(tool.parameters["required"]) <= set(tool.parameters["properties"]) for tool in tools.tools)
    assert json.loads(json.dumps([tool.parameters for tool in tools.tools]))


@pytest.mark.parametrize(
    ("camel", "snake"),
    [("queryNodes", "query_nodes"), ("getNodesById", "get_nodes_by_id"), ("nodeIds", "node_ids")],
)
def test_both_spellings_are_one_name(tools, camel, snake):
    assert snake_case(camel) == snake
    assert tools.knows("getNodesById")
    assert tools.knows("rah_search_nodes")
    assert not tools.knows("drop_table")


def test_a_model_makes_finds_reads_and_connects_nodes(tools, knowledge):
    first = tools.call(
        "createNode", {"title": "Emma", "sourceText": "walrus " * 1000, "dimensions": ["books"]}
    )
    second = tools.call("create_node", {"title": "Jane Austen", "kind": "person"})["node"]["id"]
    node_id = first["node"]["id"]

    edge = tools.call(
        "createEdge",
        {"fromNodeId": str(node_id), "to_node_id": second, "explanation": "by her", "type": "created_by"},
    )["edge"]
    found = tools.call("queryNodes", {"filters": {"search": "walrus", "limit": 5}})["nodes"]
    part = tools.call("getNodesById", {"nodeIds": [node_id, 99], "includeText": True})
    rest = tools.call("get_nodes_by_id", {"ids": node_id, "include_text": True, "offset": 4000})["nodes"][0]

    assert [node["id"] for node in found] == [node_id]
    assert part["missing"] == [99]
    assert len(part["nodes"][0]["text"]) == part["nodes"][0]["next_offset"] == 4000
    assert part["nodes"][0]["text"] + rest["text"] == "walrus " * 1000
    assert "next_offset" not in rest
    assert tools.call("queryEdges", {"nodeId": second})["edges"] == [edge]
    assert tools.call("update_edge", {"id": edge["id"], "confidence": "0.5"})["edge"]["confidence"] == 0.5
    assert knowledge.get_edge(edge["id"]).source == "agent"
    assert tools.call("searchContent", {"query": "walrus", "limit": 2})["chunks"][0]["node_id"] == node_id
    assert tools.call("get_context", {})["hubs"][0]["n_edges"] == 1


@pytest.mark.parametrize(
    ("asked", "n_nodes", "n_chunks"),
    [({}, 10, 5), ({"limit": 0}, 1, 0), ({"limit": 3}, 3, 3), ({"limit": 99}, 12, 6)],
)
def test_a_model_gets_as_many_as_it_asks_for_within_reason(tools, knowledge, asked, n_nodes, n_chunks):
    for n in range(12):
        knowledge.add_node(f"Note {n}", source_text="walrus " * 150)

    assert len(tools.call("query_nodes", asked)["nodes"]) == n_nodes
    assert len(tools.call("search_content", {"query": "walrus", **asked})["chunks"]) == n_chunks


def test_notes_are_appended_unless_told_to_replace(tools, knowledge):
    node_id = tools.call("create_node", {"title": "a", "notes": "one"})["node"]["id"]

    tools.call("updateNode", {"id": node_id, "updates": {"content": "two"}})
    assert knowledge.get_node(node_id).notes == "one\n\ntwo"
    tools.call("update_node", {"id": node_id, "notes": "three", "replace": True})
    assert knowledge.get_node(node_id).notes == "three"


def test_dimensions_are_made_renamed_and_removed(tools):
    tools.call("createDimension", {"name": "ai", "isPriority": True})
    [dimension] = tools.call("updateDimension", {"name": "ai", "newName": "AI"})["dimensions"]

    assert (dimension["name"], dimension["is_priority"]) == ("AI", True)
    assert tools.call("deleteDimension", {"name": "AI"}) == {"deleted": True}
    assert tools.call("listDimensions", {}) == {"dimensions": []}


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("sqlite_query", {"sql": "SELECT 1"}, "no tool"),
        ("create_node", {}, "needs title"),
        ("create_node", {"title": "x", "colour": "red"}, "no argument 'colour'"),
        ("create_node", {"title": [7]}, "title is not of type string"),
        ("get_nodes_by_id", {"ids": ["one"]}, "ids is not of type integer"),
        ("get_nodes_by_id", {"ids": [True]}, "ids is not of type integer"),
        ("query_edges", {"type": "likes"}, "not one of the allowed values"),
        ("update_node", {"id": 1}, "nothing to change"),
        ("update_node", {"id": 1, "title": "x"}, "no node 1"),
        ("update_edge", {"id": 1, "confidence": 1}, "no edge 1"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(tools, name, arguments, message):
    with pytest.raises(UsageError, match=message):
        tools.call(name, arguments)


def test_a_role_has_its_tools_alone(knowledge):
    planner, executor = KnowledgeTools(knowledge, "planner"), KnowledgeTools(knowledge, "executor")

    assert "create_node" not in planner.names
    assert "create_node" in executor.names
    with pytest.raises(UsageError, match="no tool 'createNode'"):
        planner.call("createNode", {"title": "x"})
    assert knowledge.count_nodes() == 0


def test_a_toolbox_carries_them_out_for_one_user(knowledge):
    box = Toolbox(knowledge_tools(knowledge, refusal=lambda: "", writes=True))
    long = "walrus " * 2000

    made = box.call(ToolCall("1", "create_node", json.dumps({"title": "Emma", "source_text": long})))
    read = box.call(ToolCall("2", "get_nodes_by_id", json.dumps({"ids": [1], "include_text": True})))
    found = box.call(ToolCall("3", "search_content", json.dumps({"query": "walrus", "limit": 6})))
    wrong = box.call(ToolCall("4", "update_node", json.dumps({"id": 9, "title": "x"})))

    assert json.loads(made.text)["node"]["id"] == 1
    assert json.loads(read.text)["nodes"][0]["next_offset"] == 4000
    assert len(json.loads(found.text)["chunks"]) == 6
    assert (wrong.failed, json.loads(wrong.text)["error"]) == (True, "there is no node 9")


def test_long_notes_are_read_in_parts_beside_a_text(knowledge):
    box = Toolbox(knowledge_tools(knowledge, refusal=lambda: "", writes=True))
    notes = " ".join(f"thought {i}" for i in range(1_500))
    node = knowledge.add_node("Emma", notes=notes, source_text="walrus " * 1_000)

    read, asked = "", {"ids": [node.id], "includeText": True}
    while True:
        told = box.call(ToolCall("1", "get_nodes_by_id", json.dumps(asked)))
        [part] = json.loads(told.text)["nodes"]
        read += part["notes"]
        if "notes_next_offset" not in part:
            break
        asked["notesOffset"] = part["notes_next_offset"]

    assert read == notes
    assert asked["notesOffset"] > 15_000


def test_knowledge_that_is_off_or_only_read_refuses(knowledge):
    node = {"title": "x"}
    off = Toolbox(knowledge_tools(knowledge, refusal=lambda: "it is private now", writes=True))
    read = Toolbox(knowledge_tools(knowledge, refusal=lambda: "", writes=False))

    assert "private" in off.call(ToolCall("1", "query_nodes", "{}")).text
    assert "read-only" in read.call(ToolCall("1", "create_node", json.dumps(node))).text
    assert not read.call(ToolCall("1", "query_nodes", "{}")).failed
    assert knowledge.count_nodes() == 0


def test_the_loop_of_tools_takes_the_spellings_of_the_original(knowledge):
    box = Toolbox(knowledge_tools(knowledge, refusal=lambda: "", writes=True))

    made = box.call(ToolCall("1", "createNode", '{"title": "Walrus", "chunk": "The walrus has tusks."}'))
    node_id = json.loads(made.text)["node"]["id"]
    wanted = {"query": "tusks", "nodeIds": [node_id]}
    found = box.call(ToolCall("2", "searchContentEmbeddings", json.dumps(wanted)))
    wanted = {"nodeIds": [node_id], "includeText": True}
    read = box.call(ToolCall("3", "getNodesById", json.dumps(wanted)))

    assert [made.failed, found.failed, read.failed] == [False, False, False]
    assert json.loads(found.text)["chunks"][0]["node_id"] == node_id
    assert json.loads(read.text)["nodes"][0]["text"] == "The walrus has tusks."
    assert {tool.name for tool in box.tools} == set(KnowledgeTools(knowledge).names)


def test_the_loop_of_tools_refuses_what_no_spelling_means(knowledge):
    box = Toolbox(knowledge_tools(knowledge, refusal=lambda: "", writes=True))

    for name, arguments in [
        ("createNodes", "{}"),
        ("createNode", "{}"),
        ("createNode", '{"title": "Walrus", "colour": "grey"}'),
        ("createNode", '{"title": ["Walrus"]}'),
        ("createNode", "no json"),
    ]:
        assert box.call(ToolCall("1", name, arguments)).failed

    assert knowledge.count_nodes() == 0


def test_every_tool_has_both_spellings(tools):
    for name in tools.names:
        for other in tools.other_names(name):
            assert tools.knows(other)
        if "_" in name:
            assert any(other[0].islower() and "_" not in other for other in tools.other_names(name))


def test_every_tool_tells_what_it_has_done(tools, knowledge):
    bees = {"id": 1, "title": "Bees", "description": "Insects", "link": "https://x", "text_length": 10}
    edge = {
        "id": 1, "from": {"id": 1, "title": "Bees"}, "to": {"id": 2, "title": "Honey"}, "type": "related_to",
        "explanation": "they make it", "confidence": 0.8,
    }  # fmt: skip
    told = [
        ("create_node",
         {"title": "Bees", "description": "Insects", "link": "https://x", "source_text": "Bees fly .."},
         {"node": {**bees, "text_length": 11}}),
        ("create_node", {"title": "Honey", "dimensions": ["food"]},
         {"node": {"id": 2, "title": "Honey", "dimensions": ["food"]}}),
        ("update_node", {"id": 1, "source_text": "Bees hum .", "kind": "animal"},
         {"node": {**bees, "kind": "animal"}}),
        ("create_edge", {"from_node_id": 1, "to_node_id": 2, "explanation": "they make it"}, {"edge": edge}),
        ("query_edges", {"node_id": 2}, {"edges": [edge]}),
        ("query_edges", {"type": "supports"}, {"edges": []}),
        ("update_edge", {"id": 1, "explanation": "they make a lot"},
         {"edge": {**edge, "explanation": "they make a lot"}}),
        ("query_nodes", {"kind": "animal"}, {"nodes": [{**bees, "kind": "animal", "edges": 1}]}),
        ("query_nodes", {"dimension": "food"},
         {"nodes": [{"id": 2, "title": "Honey", "dimensions": ["food"], "edges": 1}]}),
        ("get_nodes_by_id", {"ids": [1, 7], "include_text": True, "offset": -3},
         {"nodes": [{**bees, "kind": "animal", "edges": 1, "text": "Bees hum ."}], "missing": [7]}),
        ("get_nodes_by_id", {"ids": [1], "include_text": True, "offset": 5},
         {"nodes": [{**bees, "kind": "animal", "edges": 1, "text": "hum ."}], "missing": []}),
        ("search_content", {"query": "hum"}, {"chunks": [
            {"node_id": 1, "title": "Bees", "start_char": 0, "end_char": 10, "text": "Bees hum ."}
        ]}),
        ("delete_dimension", {"name": "food"}, {"deleted": True}),
        ("delete_dimension", {"name": "food"}, {"deleted": False}),
    ]  # fmt: skip

    for name, arguments, result in told:
        found = tools.call(name, arguments)
        for chunk in found.get("chunks", ()):
            assert 0 < chunk.pop("relevance") <= 1
        assert (name, found) == (name, result)
    knowledge.focus([2])
    context = tools.call("get_context", {"limit": 1})
    assert (len(context["hubs"]), context["dimensions"], context["n_nodes"]) == (1, [], 2)
    assert context["focused"] == [{"id": 2, "title": "Honey", "edges": 1}]
