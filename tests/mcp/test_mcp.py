"""The MCP server, asked by the official SDK's client: over stdin and stdout, and over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from shepherd.knowledge import Knowledge
from shepherd.mcp.catalog import Catalog
from shepherd.mcp.hints import hints_of
from shepherd.mcp.server import create_server
from shepherd.memory import Memory

_MEMORY_TOOLS = {"search_memory", "store_memory", "clear_memory", "set_fact", "get_fact", "clear_fact"}


@pytest.fixture
def database(tmp_path) -> Path:
    path = tmp_path / "memory.db"
    with Memory(path, user_id="steve") as memory:
        memory.set_fact("name", "Steve")
        memory.store_memory("What IDE do I use?", "VS Code with vim keybindings")
        memory.store_memory("Where do I live?", "in another city", "anna")
        Knowledge(memory.transactions, "steve").add_node("Rope", source_text="A rope is twisted.")
    return path


@pytest.fixture
def catalog(database) -> Iterator[Catalog]:
    with Memory(database, user_id="steve") as memory:
        yield Catalog(memory, "steve", is_read_only=False, keeps_secrets=False)


def command(database: Path, *more: str) -> list[str]:
    return ["-m", "shepherd", "mcp", "--memory-db", str(database), "--user", "steve", *more]


def told(result: Any) -> Any:
    [content] = result.content
    return json.loads(content.text)


async def look_around(client: Client) -> None:
    """What a client does first, and one call of every kind."""
    names = {tool.name for tool in (await client.list_tools()).tools}
    assert names >= _MEMORY_TOOLS | {"query_nodes", "create_node", "create_edge"}

    found = told(await client.call_tool("search_memory", {"query": "IDE"}))
    assert [memory["answer"] for memory in found["memories"]] == ["VS Code with vim keybindings"]
    assert told(await client.call_tool("set_fact", {"key": "editor", "value": "vim"})) == {"set": True}
    facts = (await client.read_resource("shepherd://facts")).contents[0].text
    assert json.loads(facts) == {"editor": "vim", "name": "Steve"}
    nodes = told(await client.call_tool("query_nodes", {"query": "rope"}))
    assert [node["title"] for node in nodes["nodes"]] == ["Rope"]


def test_client_works_with_memory_over_stdin_and_stdout(database, tmp_path):
    async def talk() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=command(database), env={"HOME": str(tmp_path)}
        )
        async with Client(stdio_client(server)) as client:
            await look_around(client)

    anyio.run(talk)

    with Memory(database, user_id="steve") as memory:
        assert memory.get_fact("editor") == "vim"


def test_client_works_with_memory_over_http(database, tmp_path):
    arguments = [sys.executable, *command(database, "--http", "--port", "0", "--json")]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, env={"HOME": str(tmp_path)}, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]

            async def talk() -> None:
                async with Client(url) as client:
                    await look_around(client)

            anyio.run(talk)
        finally:
            server.terminate()
        assert server.wait(30) == 0


def test_user_cannot_be_named_by_an_argument(catalog):
    refused = catalog.call("search_memory", {"query": "city", "user_id": "anna"})
    found = catalog.call("search_memory", {"query": "city live"})

    assert refused.failed
    assert json.loads(found.text) == {"memories": []}


def test_what_went_wrong_is_told_as_a_failed_call(catalog):
    for name, arguments in (
        ("no_such_tool", {}),
        ("set_fact", {"key": "name"}),
        ("get_nodes_by_id", {"ids": "many"}),
        ("set_fact", {"key": "api_key", "value": "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH"}),
    ):
        outcome = catalog.call(name, arguments)
        assert outcome.failed
        assert json.loads(outcome.text)["error"]


def test_read_only_has_no_tool_that_changes_anything(database):
    with Memory(database, user_id="steve", read_only=True) as memory:
        catalog = Catalog(memory, "steve", is_read_only=True, keeps_secrets=False)

        assert {"search_memory", "get_fact", "query_nodes"} <= {tool.name for tool in catalog.tools}
        assert all(hints_of(tool.name).read_only_hint for tool in catalog.tools)
        assert catalog.call("set_fact", {"key": "name", "value": "Bob"}).failed
        assert catalog.call("search_memory", {"query": "IDE"}) == catalog.call(
            "search_memory", {"query": "ide"}
        )


def test_what_each_tool_destroys_is_said(catalog):
    hints = {tool.name: hints_of(tool.name) for tool in catalog.tools}

    reading = {name for name, hint in hints.items() if hint.read_only_hint}
    destroying = {name for name, hint in hints.items() if hint.destructive_hint}
    assert reading == {
        "search_memory", "get_fact",
        "query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions", "get_context",
    }  # fmt: skip
    assert destroying == {
        "clear_memory", "clear_fact",
        "update_node", "update_edge", "update_dimension", "delete_dimension",
    }  # fmt: skip


def test_resources_are_this_user_s(catalog):
    async def look() -> None:
        async with Client(create_server(catalog)) as client:
            listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
            templates = (await client.list_resource_templates()).resource_templates
            assert listed == {"shepherd://facts", "shepherd://memories"}
            assert len(templates) == 2

            [latest] = json.loads((await client.read_resource("shepherd://memories")).contents[0].text)
            one = await client.read_resource(f"shepherd://memories/{latest['id']}")
            assert json.loads(one.contents[0].text) == latest
            node = json.loads((await client.read_resource("shepherd://nodes/1")).contents[0].text)
            assert (node["title"], node["source_text"]) == ("Rope", "A rope is twisted.")
            for uri in (
                "shepherd://nodes/99",
                "shepherd://memories/1x",
                "shepherd://else",
                "file:///etc/passwd",
            ):
                with pytest.raises(MCPError, match="there is no resource"):
                    await client.read_resource(uri)

    anyio.run(look)
