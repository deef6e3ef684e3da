"""A server of the official SDK with a tool of every sort; run by the tests as a program of its own."""

from __future__ import annotations

import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

server = MCPServer("workshop")
drawer: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def count(what: str | None = None) -> int:
    """How many things lie in the drawer."""
    return sum(what is None or thing == what for thing in drawer)


@server.tool()
def put(thing: str, times: int = 1) -> str:
    """Put something into the drawer."""
    drawer.extend([thing] * times)
    return f"{thing} lies in the drawer"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def jam() -> str:
    """A drawer that does not open."""
    raise ToolError("the drawer is stuck")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def vanish() -> str:
    """Ends the program."""
    os._exit(3)


if __name__ == "__main__":
    print("workshop: open", file=sys.stderr)
    server.run()
