"""Tools of other programs by the Model Context Protocol, from the servers of mcp.json.

The official SDK runs in an event loop in a thread of its own. A call that may change something needs the
user's consent, since the effects of a server's tools are unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shepherd.config.file import parse_document
from shepherd.errors import ConfigError, ShepherdError, UsageError
from shepherd.installation import install_extra
from shepherd.paths import mcp_file, state_dir
from shepherd.tools.toolbox import Arguments, AssistantTool
from shepherd.types import Tool

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client

__all__ = ["Confirm", "ServerSpec", "chosen_servers", "opened_servers", "read_servers"]

# Confirms a call that may change something: takes the tool's name and the arguments.
Confirm = Callable[[str, Arguments], bool]

_CONNECT_S = 20.0
_CALL_S = 120.0
_SEPARATOR = "__"
# Tool names that every protocol accepts.
_LONGEST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_MOST_PAGES = 20


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """A server in mcp.json: a program with arguments, or the address of a running one.

    With `asks` the user is asked before a call that may change something.
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    asks: bool = True


def read_servers(path: Path) -> list[ServerSpec]:
    """Return the servers of an mcp.json, in its order; none if there is no such file.

    Raises ConfigError for a mistake in it.
    """
    try:
        document = parse_document(path.read_bytes(), path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    listed = document.get("mcpServers", {}) if isinstance(document, dict) else None
    if not isinstance(listed, dict):
        raise ConfigError(f"{path}: expected an object 'mcpServers'", hint=_EXAMPLE)
    return [_spec(path, name, entry) for name, entry in listed.items()]


def chosen_servers(specs: Sequence[ServerSpec], names: str) -> list[ServerSpec]:
    """Return the servers with these comma-separated names, all for `*`; raises UsageError for unknown
    ones.
    """
    if names.strip() == "*":
        return list(specs)
    known = {spec.name: spec for spec in specs}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            there = f"there are: {', '.join(known)}" if known else "there are none"
            raise UsageError(f"mcp.json has no server {name!r}", hint=f"{there} ({mcp_file()})")
    return [known[name] for name in dict.fromkeys(wanted)]


_EXAMPLE = 'such as {"mcpServers": {"files": {"command": "some-mcp-server", "args": ["/home/me/notes"]}}}'


def _spec(path: Path, name: str, entry: object) -> ServerSpec:
    where = f"{path}: the server {name!r}"
    if not name or not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise ConfigError(f"{where} has a name that is not of letters, digits, - and _")
    if not isinstance(entry, dict) or ("command" in entry) == ("url" in entry):
        raise ConfigError(f"{where} needs either a 'command' or a 'url'", hint=_EXAMPLE)
    wanted: dict[str, type] = {
        "command": str,
        "url": str,
        "args": list,
        "env": dict,
        "headers": dict,
        "asks": bool,
    }
    for key, kind in wanted.items():
        if key in entry and not isinstance(entry[key], kind):
            raise ConfigError(f"{where}: {key!r} must be of JSON's kind for {kind.__name__}")
    return ServerSpec(
        name,
        command=entry.get("command", ""),
        args=tuple(str(word) for word in entry.get("args", ())),
        env={key: os.path.expandvars(str(value)) for key, value in entry.get("env", {}).items()},
        url=entry.get("url", ""),
        headers={key: os.path.expandvars(str(value)) for key, value in entry.get("headers", {}).items()},
        asks=entry.get("asks", True),
    )


@contextmanager
def opened_servers(
    specs: Sequence[ServerSpec],
    *,
    confirm: Confirm | None,
    warn: Callable[[str, str], None],
    keeps_logs: bool = True,
) -> Iterator[list[AssistantTool]]:
    """Start the servers for the length of the block and give their tools.

    A server that fails to start costs a warning. Without `confirm`, tools that may change something refuse. A
    server's own log goes to `mcp-NAME.log` in the state folder, or with `keeps_logs` off nowhere.
    """
    if not specs:
        yield []
        return
    portal_of = _portal()
    with ExitStack() as stack:
        portal = stack.enter_context(portal_of())
        tools: dict[str, AssistantTool] = {}
        for spec in specs:
            try:
                client = _connected(portal, spec, stack, keeps_logs)
                found = _listed(portal, client, spec)
            except ShepherdError as error:
                warn(str(error), error.hint)
                continue
            for tool in found:
                ours = _tool(portal, client, spec, tool, _shown_name(spec.name, tool.name, tools), confirm)
                tools[ours.tool.name] = ours
        yield list(tools.values())


def _portal() -> Callable[[], Any]:
    try:
        import mcp  # noqa: F401  (what the clients are made of)
        from anyio.from_thread import start_blocking_portal
    except ModuleNotFoundError as error:
        raise UsageError(f"servers of mcp.json need {error.name}", hint=install_extra("mcp")) from error
    return start_blocking_portal


def _connected(portal: BlockingPortal, spec: ServerSpec, stack: ExitStack, keeps_logs: bool) -> Client:
    from mcp import Client

    try:
        with ExitStack() as own:
            client = Client(_transport(spec, own, portal, keeps_logs), read_timeout_seconds=_CONNECT_S)
            entered = own.enter_context(portal.wrap_async_context_manager(client))
            stack.push(own.pop_all())
    except Exception as error:  # a foreign program may cause anything: an ExceptionGroup, OSError, MCPError
        raise ShepherdError(
            f"the MCP server {spec.name} cannot be reached: {_reason(error)}",
            hint=_where_to_look(spec, keeps_logs),
        ) from None
    return entered


def _transport(spec: ServerSpec, stack: ExitStack, portal: BlockingPortal, keeps_logs: bool) -> Any:
    """Return the transport of a client. The log of a program, or the HTTP client, stays open with the
    stack.
    """
    if spec.url:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        http = httpx2.AsyncClient(
            headers=dict(spec.headers), timeout=httpx2.Timeout(_CONNECT_S, read=_CALL_S)
        )
        stack.enter_context(portal.wrap_async_context_manager(http))
        return streamable_http_client(spec.url, http_client=http)
    from mcp import StdioServerParameters
    from mcp.client.stdio import stdio_client

    # Its words may be those of the user.
    log = _log_path(spec) if keeps_logs else Path(os.devnull)
    log.parent.mkdir(parents=True, exist_ok=True)
    errors = stack.enter_context(log.open("w", encoding="utf-8"))
    server = StdioServerParameters(command=spec.command, args=list(spec.args), env=dict(spec.env) or None)
    return stdio_client(server, errlog=errors)


def _where_to_look(spec: ServerSpec, keeps_logs: bool) -> str:
    if not spec.command:
        return f"is it running at {spec.url}?"
    if keeps_logs:
        return f"its own messages are in {_log_path(spec)}"
    return "its own messages are not kept while the memory is encrypted: start it yourself to see them"


def _log_path(spec: ServerSpec) -> Path:
    return state_dir() / f"mcp-{spec.name}.log"


def _reason(error: BaseException) -> str:
    """Return the first error of a group, in one line."""
    while isinstance(inner := getattr(error, "exceptions", None), tuple) and inner:
        error = inner[0]
    return (str(error) or type(error).__name__).splitlines()[0]


def _listed(portal: BlockingPortal, client: Client, spec: ServerSpec) -> list[Any]:
    """Return the server's tools, each once. Raises ShepherdError if it lists none or ends."""
    found: dict[str, Any] = {}
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            listed = _called(portal, spec, partial(client.list_tools, cursor=cursor))
        except UsageError as error:
            raise ShepherdError(
                f"the MCP server {spec.name} does not list its tools: {error}",
                hint="it may have none, but prompts or resources",
            ) from None
        for tool in listed.tools:
            found.setdefault(tool.name, tool)
        cursor = listed.next_cursor
        if cursor is None:
            break
    return list(found.values())


def _tool(
    portal: BlockingPortal, client: Client, spec: ServerSpec, tool: Any, name: str, confirm: Confirm | None
) -> AssistantTool:
    hints = tool.annotations
    asks = spec.asks and not (hints is not None and hints.read_only_hint)
    ours = Tool(name, tool.description or "", dict(tool.input_schema))
    call = partial(_call, portal, client, spec, tool.name)
    return AssistantTool(ours, partial(_allowed, name, call, confirm) if asks else call, checks_itself=True)


def _shown_name(server: str, tool: str, taken: Container[str]) -> str:
    """Return the model's name for a tool: valid for every protocol, and unique."""
    whole = _NOT_IN_NAMES.sub("_", f"{server}{_SEPARATOR}{tool}")
    if not whole[0].isalpha():
        whole = f"_{whole}"
    name = whole[:_LONGEST_NAME]
    number = 2
    while name in taken:
        ending = f"_{number}"
        name = whole[: _LONGEST_NAME - len(ending)] + ending
        number += 1
    return name


def _allowed(
    name: str, call: Callable[[Arguments], object], confirm: Confirm | None, arguments: Arguments
) -> object:
    if confirm is None:
        raise UsageError("this tool can change something, and there is nobody to allow it")
    if not confirm(name, arguments):
        raise UsageError("the user did not allow this call")
    return call(arguments)


def _call(
    portal: BlockingPortal, client: Client, spec: ServerSpec, name: str, arguments: Arguments
) -> Future[object]:
    return _begun(portal, spec, partial(_result, client, name, arguments))


async def _result(client: Client, name: str, arguments: Arguments) -> object:
    """Return a tool's structured content, or else its text, with the files and links beside it."""
    result = await client.call_tool(name, arguments, _CALL_S)
    text = "\n".join(filter(None, map(_told, result.content)))
    if result.is_error:
        raise UsageError(text or "the tool failed")
    if result.structured_content is None:
        return text
    # Its text is the same once more, unlike what else there is.
    others = [_told(part) for part in result.content if part.type != "text"]
    return {"result": result.structured_content, "also": others} if others else result.structured_content


def _told(part: Any) -> str:
    """Return a part of a result as text, or that there is something which is none."""
    match part.type:
        case "text":
            return str(part.text)
        case "resource":
            text = getattr(part.resource, "text", None)
            return f"[{part.resource.uri}, a file that is not text]" if text is None else str(text)
        case "resource_link":
            return ": ".join(filter(None, [part.title or part.name, part.description, str(part.uri)]))
        case "image":
            return "[a picture, which cannot be shown]"
        case "audio":
            return "[a recording, which cannot be played]"
    return f"[something of the kind {part.type}, which cannot be shown]"


def _called(portal: BlockingPortal, spec: ServerSpec, action: Callable[[], Awaitable[Any]]) -> Any:
    return _begun(portal, spec, action).result()


def _begun(portal: BlockingPortal, spec: ServerSpec, action: Callable[[], Awaitable[Any]]) -> Future[Any]:
    """Begin an action, which ends when its future is cancelled. It raises the package's errors alone."""
    from mcp.shared.exceptions import MCPError

    async def act() -> Any:
        try:
            return await action()
        except MCPError as error:
            raise UsageError(str(error)) from None
        except ShepherdError:
            raise
        except Exception as error:  # a broken connection looks different with each transport
            raise ShepherdError(f"the MCP server {spec.name} does not answer: {_reason(error)}") from None

    try:
        return portal.start_task_soon(act)
    except RuntimeError as error:  # the portal has ended
        raise ShepherdError(f"the MCP server {spec.name} does not answer: {_reason(error)}") from None
