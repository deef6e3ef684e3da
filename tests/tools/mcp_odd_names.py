"""A server with tools of names that no model could call; run by the tests as a program of its own."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("odd names")
_LONG = "a_name_that_is_longer_than_what_any_protocol_lets_a_model_write_"


def _told(name: str) -> None:
    @server.tool(name=name)
    def tell() -> str:
        """Its own name."""
        return name


for name in ("fs/read", "fs.read", f"{_LONG}one", f"{_LONG}two"):
    _told(name)

if __name__ == "__main__":
    server.run()
