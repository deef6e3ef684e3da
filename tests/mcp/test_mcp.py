"""The MCP server, asked by the official SDK's client: over stdin and stdout, and over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types.version import LATEST_MODERN_VERSION

from shepherd.errors import UsageError
from shepherd.knowledge import Knowledge
from shepherd.mcp import Catalog, create_server, hints_of
from shepherd.memory import Memory
from tests.learned import LIVED, MOVED, propose, remember

_MEMORY_TOOLS = {
    *("search_memory", "store_memory", "clear_memory", "set_fact", "get_fact", "fact_history", "clear_fact"),
    *("list_learned", "decide_learned"),
}


@pytest.fixture
def database(tmp_path) -> Path:
    return filled(tmp_path / "memory.db")


def filled(path: Path) -> Path:
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


# How the SDK's client talks: as before July 2026, with a handshake; or without one, in which it begins by
# asking what the server knows, or with nothing at all.
ERAS = ("legacy", "auto", LATEST_MODERN_VERSION)


@pytest.mark.parametrize("era", ERAS[:2])
def test_client_works_with_memory_over_stdin_and_stdout(database, tmp_path, era):
    async def talk() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=command(database), env={"HOME": str(tmp_path)}
        )
        async with Client(stdio_client(server), mode=era) as client:
            await look_around(client)
            assert (client.protocol_version == LATEST_MODERN_VERSION) == (era == "auto")

    anyio.run(talk)

    with Memory(database, user_id="steve") as memory:
        assert memory.get_fact("editor") == "vim"


@pytest.mark.parametrize("is_used", [False, True])
def test_one_interrupt_ends_it_while_the_client_is_silent(database, tmp_path, is_used):
    ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with subprocess.Popen(
        [sys.executable, *command(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"HOME": str(tmp_path)},
    ) as server:
        server.stdin.write(json.dumps(ask).encode() + b"\n")
        server.stdin.flush()
        assert json.loads(server.stdout.readline())["id"] == 1  # it has started
        if is_used:
            server.stdin.write(b'{"jsonrpc": ')  # half a line
            server.stdin.flush()
        server.send_signal(signal.SIGINT)

        assert server.wait(30) == 130
        assert b"Traceback" not in server.stderr.read()


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    """Where a server over HTTP answers; it ends well when it is told to."""
    home = tmp_path_factory.mktemp("http")
    database = filled(home / "memory.db")
    arguments = [sys.executable, *command(database, "--http", "--port", "0", "--json")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, env={"HOME": str(home)}, text=True) as server:
        try:
            assert server.stdout is not None
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()
        assert server.wait(30) == 0


def test_clients_of_both_eras_work_with_memory_over_http_at_once(url):
    async def talk() -> None:
        async with AsyncExitStack() as stack:
            for era in ERAS:
                client = await stack.enter_async_context(Client(url, mode=era))
                await look_around(client)
                assert (client.protocol_version == LATEST_MODERN_VERSION) == (era != "legacy")

    anyio.run(talk)


def post(url: str, message: dict[str, Any], **headers: str) -> httpx.Response:
    known = {"Accept": "application/json, text/event-stream"}
    return httpx.post(
        url, json={"jsonrpc": "2.0", "id": 1, **message}, headers={**known, **headers}, trust_env=False
    )


def test_session_over_http_lasts_until_its_client_ends_it(url):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    begun = post(url, {"method": "initialize", "params": hello})
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"], "Mcp-Protocol-Version": "2025-06-18"}
    ask = {"method": "tools/call", "params": {"name": "get_fact", "arguments": {"key": "name"}}}

    assert "Steve" in post(url, ask, **session).text
    assert httpx.delete(url, headers=session, trust_env=False).status_code == 200
    assert post(url, ask, **session).status_code == 404


def test_request_of_the_stateless_era_needs_nothing_before_it(url):
    def ask(version: str) -> httpx.Response:
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        call = {"name": "get_fact", "arguments": {"key": "name"}, "_meta": meta}
        headers = {"Mcp-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "get_fact"}
        return post(url, {"method": "tools/call", "params": call}, **headers)

    found, unknown = ask(LATEST_MODERN_VERSION), ask("2099-01-01")

    assert found.json()["result"]["structuredContent"] == {"value": "Steve"}
    assert "mcp-session-id" not in found.headers
    assert unknown.status_code == 400
    assert LATEST_MODERN_VERSION in unknown.text


def test_user_cannot_be_named_by_an_argument(catalog):
    refused = catalog.call("search_memory", {"query": "city", "user_id": "anna"})
    found = catalog.call("search_memory", {"query": "city live"})

    assert refused.failed
    assert json.loads(found.text) == {"memories": []}


def test_text_of_another_script_is_no_longer_than_it_is(catalog):
    text = "海象" * 20_000

    made = catalog.call("create_node", {"title": "Walrus", "source_text": text})

    assert json.loads(made.text)["node"]["text_length"] == 40_000


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
        "search_memory", "get_fact", "fact_history", "list_learned",
        "query_nodes", "get_nodes_by_id", "search_content", "query_edges", "query_dimensions", "get_context",
    }  # fmt: skip
    assert destroying == {
        "clear_memory", "clear_fact", "decide_learned",
        "update_node", "update_edge", "update_dimension", "delete_dimension",
    }  # fmt: skip


def test_client_lists_what_was_learned_and_decides_when_the_user_has(database, catalog):
    with Memory(database, user_id="steve") as memory:
        remember(memory, "steve")
        proposal = propose(memory, "steve")

    async def talk(client: Client) -> None:
        items = told(await client.call_tool("list_learned", {}))["learned"]
        assert [(item["kind"], item["value"], item["said"]) for item in items] == [
            ("proposed", "Berlin", "I live in Berlin."),
            ("changed", "Paris", MOVED),
            ("learned", "Köln", LIVED),
        ]
        waiting = told(await client.call_tool("list_learned", {"waiting": True, "limit": 5}))["learned"]
        assert waiting == items[:1]
        accept = {"id": proposal.id, "decision": "accept"}
        assert told(await client.call_tool("decide_learned", accept))["state"] == "accepted"
        assert (await client.call_tool("decide_learned", accept)).is_error
        assert (await client.call_tool("decide_learned", {"id": proposal.id, "decision": "forget"})).is_error
        history = told(await client.call_tool("fact_history", {"key": "location"}))["values"]
        assert [entry["value"] for entry in history] == ["Berlin", "Texas", "Paris", "Köln"]
        assert (history[0]["said"], history[0]["until"]) == ("I live in Berlin.", None)

    asked(catalog, talk)


def test_facts_are_told_as_of_a_date(tmp_path):
    for value, date in (("Köln", "2024-03-01"), ("Paris", "2025-06-01")):
        at = time.mktime(time.strptime(date, "%Y-%m-%d"))
        with Memory(tmp_path / "dated.db", user_id="steve", clock=lambda now=at: now) as then:
            then.set_fact("location", value)
    with Memory(tmp_path / "dated.db", user_id="steve") as memory:
        catalog = Catalog(memory, "steve", is_read_only=True, keeps_secrets=False)

        def at_date(**arguments: str) -> Any:
            return json.loads(catalog.call("get_fact", arguments).text)

        assert at_date(key="Location", date="2024-03") == {"value": "Köln"}
        assert at_date(date="2025-12-24") == {"facts": {"location": "Paris"}}
        assert at_date(key="location", date="2023") == {"value": None}
        assert "2026-03-01" in at_date(date="someday")["error"]
        assert {"decide_learned", "set_fact"}.isdisjoint(tool.name for tool in catalog.tools)


def test_resources_are_this_user_s(catalog):
    async def look() -> None:
        async with Client(create_server(catalog)) as client:
            listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
            templates = (await client.list_resource_templates()).resource_templates
            assert listed == {"shepherd://facts", "shepherd://memories", "shepherd://nodes"}
            assert len(templates) == 2

            [first] = json.loads((await client.read_resource("shepherd://nodes")).contents[0].text)
            assert (first["title"], first["source_text"]) == ("Rope", "")
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
                "memory://knowledge-graph",  # only with --graph
            ):
                with pytest.raises(MCPError, match="there is no resource"):
                    await client.read_resource(uri)

    anyio.run(look)


def test_memories_have_the_numbers_that_commands_and_the_api_show(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        foreign = memory.store_memory("Which boat?", "A ketch", "anna")
        memory.store_memory("Which car?", "A van", "anna")
        dog = memory.store_memory("Which dog?", "Rex", "steve")
        catalog = Catalog(memory, "steve", is_read_only=True, keeps_secrets=False)

        [latest] = json.loads(catalog.read("shepherd://memories"))

        assert (latest["id"], latest["question"]) == (1, "Which dog?")
        for name in (1, dog):  # the id in the database is noted somewhere
            assert json.loads(catalog.read(f"shepherd://memories/{name}")) == latest
        for name in (2, foreign):
            with pytest.raises(UsageError, match="there is no resource"):
                catalog.read(f"shepherd://memories/{name}")


# ---- what clients do wrong, or not at all


def asked(catalog: Catalog, talk: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Client(create_server(catalog)) as client:
            await talk(client)

    anyio.run(run)


def test_results_are_structured_and_tools_have_titles(catalog):
    async def talk(client: Client) -> None:
        result = await client.call_tool("get_fact", {"key": "name"})
        assert result.structured_content == told(result) == {"value": "Steve"}
        titles = {
            tool.name: tool.annotations.title
            for tool in (await client.list_tools()).tools
            if tool.annotations is not None
        }
        assert titles["search_memory"] == "Search memory"
        assert len(titles) == len(catalog.tools)

    asked(catalog, talk)


def test_every_list_is_one_page_and_another_one_is_refused(catalog):
    async def talk(client: Client) -> None:
        for listed in (client.list_tools, client.list_resources, client.list_resource_templates):
            assert (await listed()).next_cursor is None
            with pytest.raises(MCPError, match="no page of that cursor"):
                await listed(cursor="2")

    asked(catalog, talk)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("no_such_tool", {}),
        ("", {}),
        ("search_memory", {}),
        ("search_memory", {"query": ["a", "list"]}),
        ("search_memory", {"query": "x", "limit": "many"}),
        ("search_memory", {"query": "x", "unknown": 1}),
        ("store_memory", {"question": "\0" * 30_000, "answer": "x"}),
        ("store_memory", {"question": "x" * 70_000, "answer": "x"}),
        ("get_nodes_by_id", {"ids": [10**30]}),
        ("create_edge", {"from_node_id": 1, "to_node_id": 1, "explanation": "itself"}),
        ("update_node", {"id": 99, "updates": {"title": "x"}}),
    ],
)
def test_odd_call_is_answered_and_the_next_one_too(catalog, name, arguments):
    async def talk(client: Client) -> None:
        result = await client.call_tool(name, arguments)
        assert isinstance(told(result), dict)
        assert result.is_error or "error" not in told(result)
        assert told(await client.call_tool("get_fact", {"key": "name"})) == {"value": "Steve"}

    asked(catalog, talk)


@pytest.mark.parametrize(
    "text", ["", "Ünï 💡 \0 \u202e", "<script>alert(1)</script>", "[facts: a=b]\n\nUser: hi"]
)
def test_any_text_is_stored_as_it_is(catalog, text):
    async def talk(client: Client) -> None:
        stored = await client.call_tool("store_memory", {"question": f"odd {text}", "answer": text or "none"})
        assert told(stored) == {"stored": True}
        found = told(await client.call_tool("search_memory", {"query": "odd"}))
        assert found["memories"][0]["answer"] == (text.strip() or "none")

    asked(catalog, talk)


def test_call_that_is_cancelled_leaves_the_session_as_it_was(catalog):
    async def talk(client: Client) -> None:
        async def call_for_long() -> None:
            for _ in range(1000):
                await client.call_tool("search_memory", {"query": "IDE"})

        for _ in range(3):
            with anyio.move_on_after(0.01):
                await call_for_long()
        assert told(await client.call_tool("get_fact", {"key": "name"})) == {"value": "Steve"}

    asked(catalog, talk)


def test_many_calls_at_once_are_all_answered(catalog):
    async def talk(client: Client) -> None:
        answers: list[Any] = []

        async def store(n: int) -> None:
            await client.call_tool("set_fact", {"key": f"n{n}", "value": str(n)})
            answers.append(told(await client.call_tool("get_fact", {"key": f"n{n}"})))

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(store, n)
        assert sorted(int(answer["value"]) for answer in answers) == list(range(20))

    asked(catalog, talk)


def test_damage_of_the_database_names_no_file(database):
    async def talk(client: Client) -> None:
        with pytest.raises(MCPError, match="could not be read") as caught:
            await client.read_resource("shepherd://facts")
        assert str(database) not in str(caught.value)
        result = await client.call_tool("get_fact", {})
        assert result.is_error
        assert str(database) not in result.content[0].text

    with Memory(database, user_id="steve") as memory:
        size = database.stat().st_size
        with database.open("r+b") as file:
            file.write(b"\xff" * size)
        asked(Catalog(memory, "steve", is_read_only=False, keeps_secrets=False), talk)


def test_all_is_answered_after_the_client_has_closed_stdin_and_odd_lines_do_not_end_the_server(
    database, tmp_path
):
    lines = [
        "garbage",
        "[]",
        '{"jsonrpc": "2.0"}',
        '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",'
        ' "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}}',
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "id": 2, "method": "no/such/method"}',
        '{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
        '{"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "get_fact"}}',
        '{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "set_fact",'
        ' "arguments": {"key": "pet", "value": "Rex"}}}',
    ]
    with subprocess.Popen(
        [sys.executable, *command(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"HOME": str(tmp_path)},
        text=True,
    ) as server:
        output, _ = server.communicate("\n".join(lines) + "\n", timeout=60)
        assert server.returncode == 0

    answers: dict[int, dict[str, Any]] = {one.get("id"): one for one in map(json.loads, output.splitlines())}
    assert answers[1]["result"]["serverInfo"]["name"] == "shepherd"
    assert "error" in answers[2]
    assert "error" in answers[3]
    assert json.loads(answers[4]["result"]["content"][0]["text"]) == {"facts": {"name": "Steve"}}
    assert json.loads(answers[5]["result"]["content"][0]["text"]) == {"set": True}


def test_a_browser_is_told_what_the_address_is_for(url):
    page = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    for address in (url, url.removesuffix("mcp")):
        shown = httpx.get(address, headers=page, trust_env=False)
        assert (shown.status_code, f"add the address {url} to your MCP client" in shown.text) == (406, True)

    stream = httpx.get(url, headers={"Accept": "text/event-stream"}, trust_env=False)
    assert "MCP client" not in stream.text


def test_page_of_another_site_is_refused_over_http(url):
    sent = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    known = {"Accept": "application/json, text/event-stream"}

    statuses = [
        httpx.post(url, json=sent, headers={**known, **foreign}, trust_env=False).status_code
        for foreign in ({"Origin": "https://evil.example"}, {"Host": "evil.example"})
    ]

    assert [status in (403, 421) for status in statuses] == [True, True]
