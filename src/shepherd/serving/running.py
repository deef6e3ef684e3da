"""A server that runs until it is told to end: bound before it says where, gone within seconds."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

import uvicorn

from shepherd.errors import UsageError

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["WebServer", "bound", "run"]

_BACKLOG = 2048


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there. UsageError where that cannot be, as when another server does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such address"
        raise UsageError(
            f"{host}:{port} cannot be listened on: {reason}",
            hint="another program may have it; --port names another one, 0 a free one",
        ) from None


def run(
    app: FastAPI,
    listening: socket.socket,
    *,
    shutdown_s: float,
    ready: Callable[[], None],
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second one waits for no answer.

    Calls `ready` once it answers, and `ending` on the event loop when it stops to listen.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(1, round(shutdown_s)),
    )
    WebServer(config, ready=ready, ending=ending).run(sockets=[listening])


class WebServer(uvicorn.Server):
    """uvicorn's, which says when it answers, and that the end has come before it waits for its connections.

    Those who listen to a stream without an end would otherwise be waited for until the last second.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], None] = lambda: None,
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._ready, self._ending = ready, ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close everything, those who wait for the end of a stream first."""
        self._ending()
        await super().shutdown(sockets)
