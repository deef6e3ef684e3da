"""uvicorn's server, which says that the end has come before it waits for its connections to close.

Those who listen to a stream without an end would otherwise be waited for until the last second.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

__all__ = ["WebServer"]


class WebServer(uvicorn.Server):
    """`ending` is called on the event loop, once, when the server stops to listen."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close everything, those who wait for the end of a stream first."""
        self._ending()
        await super().shutdown(sockets)
