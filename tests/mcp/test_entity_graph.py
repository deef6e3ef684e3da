"""`shepherd mcp --graph`: the tools of MCP's reference memory server, asked by the official SDK's client."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from shepherd.errors import DocumentError
from shepherd.knowledge import Knowledge
from shepherd.knowledge.importing import import_from, import_upload
from shepherd.knowledge.observations import (
    cleaned_observation,
    observations_of,
    with_more,
    without,
    written,
)
from shepherd.mcp import Catalog, create_server, hints_of
from shepherd.memory import Memory
from shepherd.types import Injection, Message
from tests.examples import examples
from tests.memory.canaries import files_with, words
from tests.memory.conftest import database, engine, path

__all__ = ["database", "engine", "path"]

GRAPH = "memory://knowledge-graph"
READS = {"read_graph", "search_nodes", "open_nodes"}
ADDS = {"create_entities", "create_relations", "add_observations"}
DELETES = {"delete_entities", "delete_observations", "delete_relations"}
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"

JOHN = {"name": "John_Smith", "entityType": "person", "observations": ["Speaks Spanish", "Likes tea"]}
ACME = {"name": "Acme", "entityType": "firm", "observations": ["Makes anvils"]}
ROME = {"name": "Rome", "entityType": "city", "observations": []}


def relation(from_name: str, type: str, to_name: str) -> dict[str, str]:
    return {"from": from_name, "to": to_name, "relationType": type}


WORKS = relation("John_Smith", "works_at", "Acme")
FOUNDED = relation("John_Smith", "founded", "Acme")
PART = relation("Acme", "part_of", "Rome")


@pytest.fixture
def memory(tmp_path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        yield memory


@pytest.fixture
def catalog(memory) -> Catalog:
    return catalog_of(memory)


def catalog_of(memory: Memory) -> Catalog:
    return Catalog(memory, "steve", is_read_only=False, keeps_secrets=False, has_graph=True)


def call(catalog: Catalog, tool: str, **arguments: Any) -> Any:
    outcome = catalog.call(tool, arguments)
    assert not outcome.failed, outcome.text
    return json.loads(outcome.text)


def refused(catalog: Catalog, tool: str, **arguments: Any) -> str:
    outcome = catalog.call(tool, arguments)
    assert outcome.failed, outcome.text
    return str(json.loads(outcome.text)["error"])


def graph(catalog: Catalog) -> tuple[list[Any], list[Any]]:
    found = call(catalog, "read_graph")
    assert found.keys() == {"entities", "relations"}
    return found["entities"], found["relations"]


def fill(catalog: Catalog) -> None:
    call(catalog, "create_entities", entities=[JOHN, ACME, ROME])
    call(catalog, "create_relations", relations=[WORKS, FOUNDED, PART])


async def use_every_tool(client: Client) -> None:
    """Call each of the nine; the client checks every result against the tool's schema."""

    async def ask(tool: str, **arguments: Any) -> tuple[Any, str]:
        result = await client.call_tool(tool, arguments)
        [content] = result.content
        assert not result.is_error, content.text
        return result.structured_content, content.text

    created, text = await ask("create_entities", entities=[JOHN, ACME, ROME])
    assert created == {"entities": [JOHN, ACME, ROME]}
    assert json.loads(text) == created["entities"]
    related, text = await ask("create_relations", relations=[WORKS, PART])
    assert related == {"relations": [WORKS, PART]}
    assert json.loads(text) == related["relations"]
    added, text = await ask("add_observations", observations=[{"entityName": "Rome", "contents": ["Is old"]}])
    assert added == {"results": [{"entityName": "Rome", "addedObservations": ["Is old"]}]}
    assert json.loads(text) == added["results"]

    whole, text = await ask("read_graph")
    old_rome = {**ROME, "observations": ["Is old"]}
    assert whole == json.loads(text) == {"entities": [JOHN, ACME, old_rome], "relations": [WORKS, PART]}
    assert GRAPH in [str(resource.uri) for resource in (await client.list_resources()).resources]
    [content] = (await client.read_resource(GRAPH)).contents
    assert json.loads(content.text) == whole
    assert (await ask("search_nodes", query="spanish"))[0] == {"entities": [JOHN], "relations": [WORKS]}
    assert (await ask("open_nodes", names=["Rome"]))[0] == {"entities": [old_rome], "relations": [PART]}

    deletion = {"entityName": "Rome", "observations": ["Is old"]}
    for tool, arguments, message in (
        ("delete_observations", {"deletions": [deletion]}, "1 observation deleted"),
        ("delete_relations", {"relations": [PART]}, "1 relation deleted"),
        ("delete_entities", {"entityNames": ["John_Smith"]}, "1 entity deleted"),
    ):
        done, text = await ask(tool, **arguments)
        assert done == {"success": True, "message": message}
        assert text == message
    assert (await ask("read_graph"))[0] == {"entities": [ACME, ROME], "relations": []}
    unknown = {"entityName": "Nobody", "contents": ["x"]}
    failed = await client.call_tool("add_observations", {"observations": [unknown]})
    assert failed.is_error
    assert "Nobody" in failed.content[0].text


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_every_tool_works_for_clients_of_both_eras_and_on_both_engines(database, era):
    async def talk(catalog: Catalog) -> None:
        async with Client(create_server(catalog), mode=era) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert READS | ADDS | DELETES | {"query_nodes", "search_memory"} <= tools.keys()
            assert [name for name, tool in tools.items() if tool.output_schema] == [
                *("create_entities", "create_relations", "add_observations"),
                *("delete_entities", "delete_observations", "delete_relations"),
                *("read_graph", "search_nodes", "open_nodes"),
            ]
            await use_every_tool(client)

    with Memory(database, user_id="steve") as memory:
        anyio.run(talk, catalog_of(memory))


def test_program_offers_the_tools_over_stdin_and_stdout(tmp_path):
    async def talk() -> None:
        arguments = ["-m", "shepherd", "mcp", "--graph", "--memory-db", str(tmp_path / "memory.db")]
        server = StdioServerParameters(
            command=sys.executable, args=[*arguments, "--user", "steve"], env={"HOME": str(tmp_path)}
        )
        async with Client(stdio_client(server)) as client:
            await use_every_tool(client)

    anyio.run(talk)
    with Memory(tmp_path / "memory.db", user_id="steve") as memory:
        stored = Knowledge(memory.transactions, "steve").list_nodes()
        assert {(node.title, node.kind, node.notes) for node in stored} == {
            ("Acme", "firm", "Makes anvils"),
            ("Rome", "city", ""),
        }


# ---- the rules


def test_what_exists_is_passed_over(catalog):
    fill(catalog)
    other = {**JOHN, "entityType": "dog", "observations": ["Barks"]}
    twice = {"name": "Rex", "entityType": "dog", "observations": ["Barks", "Barks"]}

    created = call(catalog, "create_entities", entities=[other, twice, {**twice, "entityType": "cat"}])
    related = call(catalog, "create_relations", relations=[FOUNDED, PART, WORKS, PART])
    additions = [
        {"entityName": "Rex", "contents": ["Barks", "Runs", "Runs"]},
        {"entityName": "Rex", "contents": ["Runs"]},
    ]
    added = call(catalog, "add_observations", observations=additions)

    rex = {**twice, "observations": ["Barks"]}
    assert created == {"entities": [rex]}
    assert related == {"relations": []}
    assert [one["addedObservations"] for one in added["results"]] == [["Runs"], []]
    entities, relations = graph(catalog)
    assert entities == [JOHN, ACME, ROME, {**rex, "observations": ["Barks", "Runs"]}]
    assert sorted(map(str, relations)) == sorted(map(str, [WORKS, FOUNDED, PART]))


def test_unknown_entity_is_an_error_and_nothing_of_the_call_is_stored(catalog):
    fill(catalog)
    before = graph(catalog)
    additions = [{"entityName": "Rome", "contents": ["Is old"]}, {"entityName": "Nobody", "contents": ["x"]}]
    relations = [relation("Rome", "has", "Acme"), relation("Rome", "has", "Nobody")]

    assert refused(catalog, "add_observations", observations=additions).endswith('named "Nobody"')
    assert refused(catalog, "create_relations", relations=relations).endswith('named "Nobody"')
    assert "itself" in refused(catalog, "create_relations", relations=[relation("Rome", "is", "Rome")])
    assert graph(catalog) == before


def test_deletion_of_what_is_not_there_is_no_error(catalog):
    fill(catalog)
    before = graph(catalog)
    unsaid = [{"entityName": "Rome", "observations": ["Is new"]}, {"entityName": "X", "observations": ["Is"]}]

    done = [
        call(catalog, "delete_entities", entityNames=["X"]),
        call(catalog, "delete_observations", deletions=unsaid),
        call(
            catalog, "delete_relations", relations=[relation("X", "is", "Y"), relation("Acme", "is", "Rome")]
        ),
    ]

    assert [one["success"] for one in done] == [True] * 3
    assert [one["message"] for one in done] == [
        "0 entities deleted; these entities don't exist: X",
        "0 observations deleted; these entities don't exist: X",
        "0 relations deleted",
    ]
    assert graph(catalog) == before


def test_deleted_entity_takes_its_relations_along(catalog):
    fill(catalog)

    call(catalog, "delete_entities", entityNames=["Acme", "Acme"])

    assert graph(catalog) == ([JOHN, ROME], [])


def test_one_of_several_relations_between_two_entities_is_deleted(memory, catalog):
    fill(catalog)
    knowledge = Knowledge(memory.transactions, "steve")

    assert {(edge.type, edge.explanation) for edge in knowledge.list_edges()} == {
        ("related_to", "works_at\nfounded"),
        ("part_of", "part_of"),
    }
    call(catalog, "delete_relations", relations=[WORKS])
    assert graph(catalog)[1] == [FOUNDED, PART]
    call(catalog, "delete_relations", relations=[FOUNDED, PART])
    assert knowledge.list_edges() == []


def test_what_was_deleted_cannot_be_read_from_any_file(tmp_path, memory, catalog):
    said, verb, city, kept = words(4)
    call(catalog, "create_entities", entities=[JOHN, {**ROME, "name": city, "observations": [f"is {said}"]}])
    call(catalog, "create_relations", relations=[relation(city, verb, "John_Smith")])
    [chunk] = Knowledge(memory.transactions, "steve").search(said)
    tail = f"\n\n[{chunk.text}]"
    told = Message("user", kept, f"{kept}{tail}", Injection(tail, parts=(f"chunk:{chunk.id}",)))
    memory.append_message(memory.start_session(), told)
    assert files_with(tmp_path, [said, verb, city]).keys() == {said, verb, city}

    call(catalog, "delete_observations", deletions=[{"entityName": city, "observations": [f"is {said}"]}])
    assert files_with(tmp_path, [said]) == {}
    call(catalog, "delete_relations", relations=[relation(city, verb, "John_Smith")])
    assert files_with(tmp_path, [verb]) == {}
    call(catalog, "delete_entities", entityNames=[city])
    assert files_with(tmp_path, [said, verb, city, kept]).keys() == {kept}


def test_user_s_own_nodes_and_edges_are_entities_and_relations(memory, catalog):
    knowledge = Knowledge(memory.transactions, "steve")
    notes = "Dr. Miller\n\n- call before nine\n  on weekdays\n\nhas parking"
    dentist, other, report = (
        knowledge.add_node(title, kind="note", notes=text)
        for title, text in (("Dentist", notes), ("Dentist", "the old one"), ("Report", ""))
    )
    knowledge.connect(dentist.id, report.id, "It was written for her.")
    knowledge.connect(report.id, dentist.id, "She is its author.", type="created_by")

    entities, relations = graph(catalog)
    call(
        catalog,
        "delete_observations",
        deletions=[{"entityName": "Dentist", "observations": ["- call before nine\non weekdays"]}],
    )
    call(catalog, "add_observations", observations=[{"entityName": "Dentist", "contents": ["is nice"]}])

    assert [entity["observations"] for entity in entities] == [
        ["Dr. Miller", "- call before nine\non weekdays", "has parking"],
        ["the old one"],
        [],
    ]
    assert relations == [
        relation("Dentist", "It was written for her.", "Report"),
        relation("Report", "created_by", "Dentist"),
    ]
    changed = knowledge.get_nodes([dentist.id, other.id])
    assert [node.notes for node in changed] == ["Dr. Miller\n\n\nhas parking\nis nice", "the old one"]
    assert [found.node_id for found in knowledge.search("nice")] == [dentist.id]
    assert knowledge.search("weekdays") == []


def test_search_finds_names_types_and_observations_in_any_case(catalog):
    fill(catalog)
    call(catalog, "create_entities", entities=[{**ROME, "name": "Ærø", "observations": ["straße"]}])

    def names(query: str) -> list[str]:
        return [entity["name"] for entity in call(catalog, "search_nodes", query=query)["entities"]]

    assert names("JOHN_") == names("PERSON") == names("kes te") == ["John_Smith"]
    assert names("ærø") == names("STRASSE") == ["Ærø"]
    assert names("city") == ["Rome", "Ærø"]
    assert names("tea Spanish") == names("100%") == []
    assert len(names("")) == 4
    assert "2,048" in refused(catalog, "search_nodes", query="x" * 2049)


def test_search_nodes_is_another_name_of_query_nodes_without_the_option(memory, catalog):
    fill(catalog)
    plain = Catalog(memory, "steve", is_read_only=False, keeps_secrets=False)

    assert [node["title"] for node in call(plain, "search_nodes", query="tea")["nodes"]] == ["John_Smith"]
    assert not (READS | ADDS | DELETES) & {tool.name for tool in plain.tools}


def test_secrets_are_refused(memory, catalog):
    fill(catalog)
    before = graph(catalog)
    told = f"The key is {KEY}"

    refusals = [
        refused(catalog, "create_entities", entities=[ROME, {**ROME, "name": "X", "observations": [told]}]),
        refused(catalog, "create_entities", entities=[{**ROME, "name": told}]),
        refused(catalog, "create_relations", relations=[relation("Rome", told, "Acme")]),
        refused(catalog, "add_observations", observations=[{"entityName": "Rome", "contents": [told]}]),
    ]

    assert all("secret" in refusal and KEY not in refusal for refusal in refusals)
    assert graph(catalog) == before
    manager = {"name": "Password manager", "entityType": "app", "observations": ["Runs on Linux"]}
    assert call(catalog, "create_entities", entities=[manager]) == {"entities": [manager]}


def test_read_only_offers_the_three_that_read(tmp_path, memory, catalog):
    fill(catalog)
    with Memory(tmp_path / "memory.db", user_id="steve", read_only=True) as read:
        reading = Catalog(read, "steve", is_read_only=True, keeps_secrets=False, has_graph=True)

        assert {tool.name for tool in reading.tools} & (READS | ADDS | DELETES) == READS
        assert graph(reading) == graph(catalog)
        assert "no tool" in refused(reading, "delete_entities", entityNames=["Rome"])


def test_annotations_say_what_a_tool_does():
    for name in READS | ADDS | DELETES:
        hints = hints_of(name)
        assert hints.read_only_hint == (name in READS)
        assert hints.destructive_hint == (name in DELETES)
        assert hints.idempotent_hint


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_entities", {}),
        ("create_entities", {"entities": ["Rome"]}),
        ("create_entities", {"entities": [{"name": "X", "entityType": "x"}]}),
        ("create_entities", {"entities": [{**ROME, "name": " "}]}),
        ("create_entities", {"entities": [{**ROME, "name": "x" * 301}]}),
        ("create_relations", {"relations": [{"from": "Rome", "to": "Acme"}]}),
        ("create_relations", {"relations": [relation("Rome", " ", "Acme")]}),
        ("add_observations", {"observations": [{"entityName": "Rome", "contents": [{}]}]}),
        ("open_nodes", {"names": [{}]}),
        ("read_graph", {"user_id": "anna"}),
    ],
)
def test_wrong_arguments_are_refused(catalog, tool, arguments):
    fill(catalog)
    before = graph(catalog)

    assert refused(catalog, tool, **arguments)
    assert graph(catalog) == before


def test_large_graph_is_read_in_part_and_what_is_left_out_is_counted(memory, catalog):
    for start in range(0, 300, 100):
        some = [{"name": f"n{n}", "entityType": "t", "observations": []} for n in range(start, start + 100)]
        stored = call(catalog, "create_entities", entities=some)
    assert stored == {"entities": some}
    star = [relation("n0", f"leads to number {n} by a path", f"n{n}") for n in range(1, 200)]
    written_back = call(catalog, "create_relations", relations=star)
    many = call(catalog, "read_graph")
    long = [{"name": "long", "entityType": "t", "observations": ["a" * 3_000, "b" * 3_000, "c" * 3_000]}]
    later = Knowledge(memory.transactions, "steve", clock=lambda: time.time() + 60)
    later.add_node("long", kind="t", notes="\n".join(long[0]["observations"]))

    found = call(catalog, "read_graph")
    one = call(catalog, "open_nodes", names=["long"])
    center = call(catalog, "open_nodes", names=["n0"])
    whole = json.loads(catalog.read(GRAPH))

    assert written_back["relations"] == star[: len(written_back["relations"])]
    assert written_back["leftOut"]["relations"] == 199 - len(written_back["relations"])
    assert many["leftOut"]["entities"] == 300 - len(many["entities"])
    assert found["leftOut"]["entities"] == 301 - len(found["entities"])
    assert min(len(many["entities"]), len(found["entities"])) > 50
    assert min(len(many["relations"]), len(found["relations"])) > 20
    assert (found["entities"][-1]["name"], found["leftOut"]["observations"]) == ("long", 3)
    assert one["entities"] == [{**long[0], "observations": ["a" * 3_000, "b" * 3_000]}]
    assert (one["leftOut"]["observations"], one["relations"]) == (1, [])
    assert whole == {
        "entities": [*({**some[0], "name": f"n{n}"} for n in range(300)), *long],
        "relations": star,
    }
    assert [entity["name"] for entity in center["entities"]] == ["n0"]
    assert center["leftOut"]["relations"] == 199 - len(center["relations"])
    assert all(4_000 < len(json.dumps(result)) <= 8_000 for result in (many, found, one, center))


@settings(max_examples=examples(50))
@given(
    st.lists(st.text(st.sampled_from("ab \n\r\t-ü"), max_size=8), max_size=6),
    st.lists(st.text(st.sampled_from("ab \n-"), max_size=4), max_size=3),
)
def test_observations_are_read_as_they_were_written(texts, more):
    first, added = (
        list(dict.fromkeys(filter(None, map(cleaned_observation, some)))) for some in (texts, more)
    )
    added = [text for text in added if text not in first]

    notes = with_more(written(first), added)

    assert observations_of(notes) == first + added
    assert list(map(cleaned_observation, first)) == first
    left, n_removed = without(notes, frozenset(first))
    assert (observations_of(left), n_removed) == (added, len(first))


# ---- import


def lines(*items: Any) -> str:
    return "\n".join(item if isinstance(item, str) else json.dumps(item) for item in items) + "\n"


def imported(memory: Memory, path: Path) -> list[tuple[str, str, str]]:
    knowledge = Knowledge(memory.transactions, "steve")
    outcomes = import_from(knowledge, str(path), dimensions=["old"])
    return [(outcome.name, outcome.state, outcome.reason) for outcome in outcomes]


ENTITIES = [{"type": "entity", **one} for one in (JOHN, ACME, ROME)]
RELATIONS = [{"type": "relation", **one} for one in (WORKS, FOUNDED, PART)]


@pytest.mark.parametrize("is_object", [False, True], ids=["memory.jsonl", "one object"])
def test_file_of_the_reference_server_is_imported_once(tmp_path, memory, catalog, is_object):
    whole = {"entities": [JOHN, ACME, ROME], "relations": [WORKS, FOUNDED, PART]}
    path = tmp_path / ("memory.json" if is_object else "memory.jsonl")
    path.write_text(json.dumps(whole, indent=1) if is_object else lines(*ENTITIES, "", *RELATIONS))

    first, second = imported(memory, path), imported(memory, path)

    assert [state for _, state, _ in first] == ["added"] * 3
    assert [state for _, state, _ in second] == ["unchanged"] * 3
    entities, relations = graph(catalog)
    assert entities == [JOHN, ACME, ROME]
    assert sorted(map(str, relations)) == sorted(map(str, [WORKS, FOUNDED, PART]))
    assert {node.dimensions for node in Knowledge(memory.transactions, "steve").list_nodes()} == {("old",)}


def test_grown_file_adds_what_is_new(tmp_path, memory, catalog):
    path = tmp_path / "memory.jsonl"
    path.write_text(lines(*ENTITIES))
    imported(memory, path)
    more = {**ENTITIES[0], "observations": ["Likes tea", "Lives\nin Rome"]}
    path.write_text(lines(more, ENTITIES[1], PART | {"type": "relation"}, ENTITIES[2]))

    assert [state for _, state, _ in imported(memory, path)] == ["changed", "changed", "unchanged"]
    john = {**JOHN, "observations": [*JOHN["observations"], "Lives\nin Rome"]}
    assert graph(catalog) == ([john, ACME, ROME], [PART])


def test_damaged_lines_are_named_and_the_others_imported(tmp_path, memory, catalog):
    path = tmp_path / "memory.jsonl"
    dangling = relation("Rome", "lies_in", "Italy")
    path.write_text(
        lines(
            ENTITIES[2],
            "{nonsense",
            {"type": "entity", "entityType": "x", "observations": []},
            {"type": "entity", "name": "X", "entityType": "x", "observations": [1]},
            {"type": "relation", **relation("Rome", "is", "Rome")},
            {"type": "other"},
            "[]",
            {"type": "relation", "from": "Rome", "to": "Acme"},
            {"type": "relation", **dangling},
            {"type": "entity", "name": "Key", "entityType": "x", "observations": [f"The key is {KEY}"]},
        )
    )

    outcomes = imported(memory, path)

    assert [(name, state) for name, state, _ in outcomes] == [
        ("Rome", "added"),
        ("Key", "added"),
        ("Italy", "added"),
        *((f"line {n}", "failed") for n in range(2, 9)),
    ]
    assert outcomes[3][2] == f"{path}: line 2: not JSON"
    assert [reason.split(": ")[-1] for _, _, reason in outcomes[4:]] == [
        '"name" is missing or not a string',
        "observations is not a list of texts",
        "an entity can't be related to itself",
        "neither an entity nor a relation",
        "neither an entity nor a relation",
        '"relationType" is missing or not a string',
    ]
    entities, relations = graph(catalog)
    assert relations == [dangling]
    assert KEY not in str(entities)
    assert [state for _, state, _ in imported(memory, path)][:3] == ["unchanged"] * 3


def test_damaged_object_is_refused_with_its_line_and_nothing_is_stored(tmp_path, memory, catalog):
    path = tmp_path / "memory.json"
    path.write_text('{"entities": [\n{"name": "Rome", "entityType": "city", "observations": }')

    with pytest.raises(DocumentError, match="line 2 is damaged"):
        imported(memory, path)
    assert graph(catalog) == ([], [])


def test_graph_is_recognised_by_its_content_and_name(memory, catalog):
    data = b"\xef\xbb\xbf" + lines({"name": "Rome", **ENTITIES[2]}).replace("\n", "\r\n").encode()
    knowledge = Knowledge(memory.transactions, "steve")

    def uploaded(name: str) -> list[str]:
        return [outcome.name for outcome in import_upload(knowledge, data, name, 1 << 20)]

    assert uploaded("memory.jsonl") == ["Rome"]
    assert graph(catalog) == ([ROME], [])
    assert uploaded("notes.txt") == ["notes.txt"]
