"""`shepherd mcp`: the memory as tools of another assistant."""

from __future__ import annotations

import json
import os
import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from shepherd.cli import INTERRUPTED
from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_memory_options,
    loaded_settings,
    optional_packages,
    whole_number,
)
from shepherd.commands.screen import Screen
from shepherd.installation import executable

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
Give another assistant (Claude Desktop, an editor, an agent) tools for your memory, facts and knowledge,
through the Model Context Protocol. The assistant starts `shepherd mcp` and talks to it over stdin and stdout.
With --http, it listens on this machine instead."""

_EPILOG = """\
in the assistant's mcp.json:
  {"mcpServers": {"shepherd": {"command": COMMAND, "args": ["mcp"]}}}

examples:
  shepherd mcp --read-only               without the tools that change something
  shepherd mcp --graph                   also with create_entities, read_graph and so on
  shepherd mcp --http --port 8001        at http://127.0.0.1:8001/mcp"""

_HOST = "127.0.0.1"
_SHUTDOWN_S = 2.0
_STDIN = 0
_PIECE_BYTES = 1 << 16


def build_parser() -> Parser:
    """Build the parser of `shepherd mcp`."""
    epilog = _EPILOG.replace("COMMAND", json.dumps(executable(), ensure_ascii=False))
    parser = Parser(prog="shepherd mcp", description=_DESCRIPTION, epilog=epilog)
    parser.add_argument("--read-only", action="store_true", help="offer only tools that change nothing")
    parser.add_argument(
        "--graph", action="store_true", help="offer the nine tools of MCP's reference memory server, too"
    )
    parser.add_argument("--http", action="store_true", help="serve streamable HTTP on this machine")
    parser.add_argument(
        "--port",
        type=whole_number(0, 65535),
        default=8001,
        metavar="N",
        help="port for --http; 0: any free port (default: 8001)",
    )
    add_memory_options(parser)
    add_common_options(parser, json_help="with --http, print the address as JSON")
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Serve until the client leaves, or until interrupted."""
    with optional_packages("mcp", "shepherd mcp"):
        import anyio
        import uvicorn  # noqa: F401  (installed with it)

        from shepherd.mcp import Catalog, create_server, serve_stdio
    from shepherd.memory_factory import open_memory, open_memory_to_read

    config = loaded_settings(arguments).config
    opened = partial(open_memory_to_read, creates=True) if arguments.read_only else open_memory
    with opened(config) as memory:
        catalog = Catalog(
            memory,
            memory.user_id,
            is_read_only=arguments.read_only,
            keeps_secrets=config.memory_extraction_secrets,
            has_graph=arguments.graph,
        )
        if not arguments.http:
            with _ending_at_interrupt() as is_interrupted:
                anyio.run(serve_stdio, catalog)
            return INTERRUPTED if is_interrupted() else 0
        from shepherd.server.process import Phases, bound, run

        with bound(_HOST, arguments.port) as listening:
            url = f"http://{_HOST}:{listening.getsockname()[1]}/mcp"
            run(
                _explained(create_server(catalog).streamable_http_app(host=_HOST), url),
                [listening],
                phases=Phases.of(_SHUTDOWN_S),
                ready=lambda: screen.announce(url, f"MCP at {url} (Ctrl-C ends it)"),
            )
    return 0


@contextmanager
def _ending_at_interrupt() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C end stdin, and with it the server; gives a function that returns whether it did.

    The server reads stdin in a thread, which can't be interrupted: without this, Ctrl-C would wait for the
    client's next line.
    """
    presses = 0
    try:
        source = os.dup(_STDIN)
    except OSError:  # it is closed: there is no client
        yield lambda: False
        return
    reading, writing = os.pipe()
    os.dup2(reading, _STDIN)
    os.close(reading)
    pipe = open(writing, "wb", buffering=0)  # noqa: SIM115  (closed by whoever comes first)

    def copy() -> None:
        with pipe, suppress(OSError, ValueError):  # the server has left, or Ctrl-C was first
            while data := os.read(source, _PIECE_BYTES):
                while data:
                    data = data[pipe.write(data) or 0 :]

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        pipe.close()
        if presses > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=copy, name="shepherd-stdin", daemon=True).start()
    try:
        yield lambda: presses > 0
    finally:
        signal.signal(signal.SIGINT, before)


def _explained(app: ASGIApp, url: str) -> ASGIApp:
    """Return the app, but a browser, which asks for a page, is told what the address is for."""
    from starlette.responses import PlainTextResponse

    text = (
        "This is Shepherd's MCP server, which offers your memory to other assistants. There is nothing to see"
        f" in a browser: add the address {url} to your MCP client.\n"
    )

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "GET":
            accepted = dict(scope["headers"]).get(b"accept", b"")
            if b"text/html" in accepted and b"text/event-stream" not in accepted:
                await PlainTextResponse(text, status_code=406)(scope, receive, send)
                return
        await app(scope, receive, send)

    return answer
