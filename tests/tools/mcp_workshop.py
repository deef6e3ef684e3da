"""A server of the official SDK with a tool of every sort; run by the tests as a program of its own."""

from __future__ import annotations

import os
import sys

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)

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
async def ponder() -> str:
    """Takes an hour."""
    print("workshop: pondering", file=sys.stderr, flush=True)
    try:
        await anyio.sleep(3600)
    finally:
        print("workshop: pondered", file=sys.stderr, flush=True)
    return "42"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def vanish() -> str:
    """Ends the program."""
    os._exit(3)


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def unpack(what: str) -> CallToolResult:
    """Take something out of a box: a file, a link, a picture, or all of it."""
    text = TextResourceContents(
        uri="file:///lease.txt", text="The rent is 900 euros.", mime_type="text/plain"
    )
    found: dict[str, ContentBlock] = {
        "text": TextContent(text="one file"),
        "file": EmbeddedResource(resource=text),
        "scan": EmbeddedResource(resource=BlobResourceContents(uri="file:///scan.pdf", blob="aGVsbG8=")),
        "link": ResourceLink(uri="https://example.com/lease", name="lease", description="of the flat"),
        "picture": ImageContent(data="aGVsbG8=", mime_type="image/png"),
        "recording": AudioContent(data="aGVsbG8=", mime_type="audio/wav"),
    }
    names = list(found) if what == "all" else what.split()
    structured = {"files": 1} if what == "all" else None
    return CallToolResult(content=[found[name] for name in names], structured_content=structured)


if __name__ == "__main__":
    print("workshop: open", file=sys.stderr)
    server.run()
