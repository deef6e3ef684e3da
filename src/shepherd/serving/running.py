"""A server that runs until it is told to end: bound before it says where, gone within seconds."""

from __future__ import annotations

import socket
from collections.abc import Callable

import uvicorn

from shepherd.errors import UsageError
from shepherd.serving.app import create_app
from shepherd.serving.state import ServerState

__all__ = ["bound", "run"]

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


def run(state: ServerState, listening: socket.socket, *, ready: Callable[[], None]) -> None:
    """Serve until SIGINT or SIGTERM; a second one waits for no answer. Calls `ready` once it answers."""
    config = uvicorn.Config(
        create_app(state),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=max(1, round(state.config.server_shutdown)),
    )
    _Server(config, ready).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Says when it answers."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()
