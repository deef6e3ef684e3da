"""A server that connects and lists no tools: it has none, or with `ends` it ends when asked for them."""

from __future__ import annotations

import os
import sys
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def _end(context: Any, params: Any) -> Any:
    os._exit(3)


async def _serve() -> None:
    server: Server[Any] = Server("without tools", on_list_tools=_end if "ends" in sys.argv else None)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(_serve)
