"""Servers of mcp.json as tools: a program made with the official SDK, and ours over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shepherd.errors import ConfigError, UsageError
from shepherd.inference.tools import check_tools
from shepherd.memory import Memory
from shepherd.tools import Confirm, ServerSpec, Toolbox, chosen_servers, opened_servers, read_servers
from shepherd.types import ToolCall


def program(name: str, script: str, *arguments: str) -> ServerSpec:
    return ServerSpec(name, sys.executable, (str(Path(__file__).with_name(script)), *arguments))


WORKSHOP = program("workshop", "mcp_workshop.py")


def refuse_to_warn(text: str, hint: str) -> None:
    pytest.fail(f"{text} ({hint})")


@contextmanager
def toolbox_of(
    *specs: ServerSpec, confirm: Confirm | None = lambda name, arguments: True
) -> Iterator[Toolbox]:
    with opened_servers(specs, confirm=confirm, warn=refuse_to_warn) as tools:
        yield Toolbox(tools)


def called(toolbox: Toolbox, name: str, **arguments: object) -> object:
    return json.loads(toolbox.call(ToolCall("1", name, json.dumps(arguments))).text)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "shepherd"


def test_tools_of_a_program_are_called_under_its_name():
    with toolbox_of(WORKSHOP) as toolbox:
        names = [tool.name for tool in toolbox.tools]
        put = called(toolbox, "workshop__put", thing="rope", times=2)
        counted = called(toolbox, "workshop__count", what="rope")

    tools = ("count", "put", "jam", "ponder", "vanish", "unpack")
    assert names == [f"workshop__{tool}" for tool in tools]
    assert put == {"result": "rope lies in the drawer"}
    assert counted == {"result": 2}


def test_call_that_may_change_something_waits_for_the_users_word():
    asked: list[tuple[str, object]] = []

    def no(name: str, arguments: dict[str, object]) -> bool:
        asked.append((name, arguments))
        return False

    with toolbox_of(WORKSHOP, confirm=no) as toolbox:
        put = called(toolbox, "workshop__put", thing="rope")
        counted = called(toolbox, "workshop__count")

    assert put == {"error": "the user did not allow this call"}
    assert counted == {"result": 0}
    assert asked == [("workshop__put", {"thing": "rope"})]


def test_nobody_to_ask_is_a_no():
    with toolbox_of(WORKSHOP, confirm=None) as toolbox:
        put = called(toolbox, "workshop__put", thing="rope")
        counted = called(toolbox, "workshop__count")

    assert isinstance(put, dict)
    assert "there is nobody to allow it" in put["error"]
    assert counted == {"result": 0}


def test_server_that_the_file_trusts_is_not_asked_about():
    trusted = ServerSpec("workshop", WORKSHOP.command, WORKSHOP.args, asks=False)

    with toolbox_of(trusted, confirm=None) as toolbox:
        put = called(toolbox, "workshop__put", thing="rope")

    assert put == {"result": "rope lies in the drawer"}


def test_error_of_a_tool_is_told_to_the_model():
    with toolbox_of(WORKSHOP) as toolbox:
        failed = toolbox.call(ToolCall("1", "workshop__jam", "{}"))

    assert failed.failed
    assert "stuck" in failed.text
    assert failed.error is None


def test_files_and_links_in_a_result_are_told_and_what_is_no_text_is_named():
    with toolbox_of(WORKSHOP) as toolbox:
        told = {
            what: called(toolbox, "workshop__unpack", what=what)
            for what in ("text file", "file", "scan", "link", "picture", "recording", "all")
        }

    scan = "[file:///scan.pdf, a file that is not text]"
    link = "lease: of the flat: https://example.com/lease"
    assert told["text file"] == "one file\nThe rent is 900 euros."
    assert told["file"] == "The rent is 900 euros."
    assert told["scan"] == scan
    assert told["link"] == link
    assert told["picture"] == "[a picture, which cannot be shown]"
    assert told["recording"] == "[a recording, which cannot be played]"
    assert told["all"] == {
        "result": {"files": 1},
        "also": ["The rent is 900 euros.", scan, link, told["picture"], told["recording"]],
    }


def test_call_ends_when_the_user_stops_it_and_the_next_one_works(state):
    log = state / "mcp-workshop.log"

    def is_stopped() -> bool:
        return "workshop: pondering" in log.read_text(encoding="utf-8")

    with toolbox_of(WORKSHOP) as toolbox:
        stopped = toolbox.call(ToolCall("1", "workshop__ponder", "{}"), is_stopped)
        refused = toolbox.call(ToolCall("2", "workshop__count", "{}"), is_stopped)
        counted = called(toolbox, "workshop__count")

    assert stopped.failed
    assert json.loads(stopped.text) == json.loads(refused.text) == {"error": "the user has stopped it"}
    assert counted == {"result": 0}
    assert "workshop: pondered" in log.read_text(encoding="utf-8")


def test_program_that_ends_in_a_call_fails_that_call_and_the_next():
    with toolbox_of(WORKSHOP) as toolbox:
        first = toolbox.call(ToolCall("1", "workshop__vanish", "{}"))
        second = toolbox.call(ToolCall("2", "workshop__count", "{}"))

    assert first.failed
    assert second.failed


def test_what_a_program_says_of_itself_is_in_a_log_if_one_is_kept(state):
    with opened_servers([WORKSHOP], confirm=None, warn=lambda *told: None, keeps_logs=False):
        pass
    assert not list(state.glob("**/*.log"))

    with toolbox_of(WORKSHOP):
        pass
    assert "workshop: open" in (state / "mcp-workshop.log").read_text(encoding="utf-8")


def test_program_that_does_not_exist_costs_a_warning_and_not_the_others():
    warnings: list[tuple[str, str]] = []
    missing = ServerSpec("missing", "/nowhere/at-all")

    with opened_servers([missing, WORKSHOP], confirm=None, warn=lambda *told: warnings.append(told)) as tools:
        names = {tool.tool.name for tool in tools}

    assert [text.split(":")[0] for text, _ in warnings] == ["the MCP server missing cannot be reached"]
    assert "workshop__count" in names


@pytest.mark.parametrize("manner", ["refuses", "ends"])
def test_server_that_lists_no_tools_costs_a_warning_and_not_the_others(manner):
    warnings: list[str] = []
    specs = [program("prompts", "mcp_without_tools.py", manner), WORKSHOP]

    with opened_servers(specs, confirm=None, warn=lambda text, hint: warnings.append(text)) as tools:
        counted = called(Toolbox(tools), "workshop__count")

    assert counted == {"result": 0}
    [warning] = warnings
    assert warning.startswith("the MCP server prompts does not list its tools: ")


def test_names_that_no_model_could_call_are_shown_as_others():
    with toolbox_of(program("7zip", "mcp_odd_names.py")) as toolbox:
        names = check_tools(toolbox.tools)
        told = [called(toolbox, name) for name in names]

    long = "a_name_that_is_longer_than_what_any_protocol_lets_a_model_write_"
    cut = f"_7zip__{long}"[:64]
    assert names == ("_7zip__fs_read", "_7zip__fs_read_2", cut, f"{cut[:62]}_2")
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)
    assert told == [{"result": name} for name in ("fs/read", "fs.read", f"{long}one", f"{long}two")]


def test_server_is_reached_by_its_address(tmp_path):
    database = tmp_path / "memory.db"
    with Memory(database, user_id="steve") as memory:
        memory.set_fact("name", "Steve")
    program = ["-m", "shepherd", "mcp", "--http", "--port", "0", "--json", "--user", "steve"]
    command = [sys.executable, *program, "--memory-db", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            with toolbox_of(ServerSpec("mine", url=url, headers={"X-Test": "1"}), confirm=None) as toolbox:
                found = called(toolbox, "mine__get_fact", key="name")
        finally:
            server.terminate()

    assert "Steve" in json.dumps(found)


def test_file_names_programs_and_addresses(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "abc")
    path = tmp_path / "mcp.json"
    servers = {
        "files": {"command": "files-server", "args": ["/home/me"], "env": {"LEVEL": "1"}},
        "web": {
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer $TOKEN"},
            "asks": False,
        },
    }
    path.write_text(json.dumps({"mcpServers": servers, "other": 1}), encoding="utf-8")

    assert read_servers(path) == [
        ServerSpec("files", "files-server", ("/home/me",), {"LEVEL": "1"}),
        ServerSpec("web", url="https://example.com/mcp", headers={"Authorization": "Bearer abc"}, asks=False),
    ]


def test_servers_are_chosen_by_name_in_the_order_of_their_names_and_once():
    specs = [ServerSpec(name, "x", ()) for name in ("files", "web", "mail")]

    assert chosen_servers(specs, " * ") == specs
    assert [spec.name for spec in chosen_servers(specs, "mail, files,, mail")] == ["mail", "files"]
    assert chosen_servers(specs, " ,") == []
    with pytest.raises(UsageError, match="no server 'calendar'") as caught:
        chosen_servers(specs, "files, calendar")
    assert "there are: files, web, mail" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        chosen_servers([], "files")
    assert "there are none" in caught.value.hint


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match=f"{tmp_path}: cannot be read: Is a directory"):
        read_servers(tmp_path)


def test_no_servers_start_nothing():
    with opened_servers([], confirm=None, warn=refuse_to_warn) as tools:
        assert tools == []


def test_no_file_is_no_servers(tmp_path):
    assert read_servers(tmp_path / "mcp.json") == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {', "line 1, column 17"),
        ("[]", "expected an object 'mcpServers'"),
        ('{"mcpServers": {"a": {}}}', "either a 'command' or a 'url'"),
        ('{"mcpServers": {"a": {"command": "x", "url": "y"}}}', "either a 'command' or a 'url'"),
        ('{"mcpServers": {"a b": {"command": "x"}}}', "letters, digits"),
        ('{"mcpServers": {"a": {"command": ["x"]}}}', "'command' must be"),
    ],
)
def test_mistake_in_the_file_is_named(tmp_path, text, said):
    path = tmp_path / "mcp.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=r"mcp\.json") as caught:
        read_servers(path)

    assert said in str(caught.value)
