"""The server process: binds its socket, runs until a signal, and shuts down within seconds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import uvicorn

from shepherd.errors import UsageError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["WebServer", "bound", "run"]

_BACKLOG = 2048
# Longer than clients keep an idle connection (most in Python: five seconds): the side that sends the next
# request must be the one that closes.
_IDLE_S = 30
# Seconds for cancelled answers to be stored and sent.
_CUT_S = 10.0
# New objects before the garbage collector runs. 64 answers in progress have 20,000 objects without cycles: at
# Python's 700 it ran with every second request, for up to seven milliseconds.
_YOUNG = 30_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bound(host: str, port: int) -> socket.socket:
    """Bind a socket for `run`. UsageError if another program has the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":  # on Windows it would share the port
                found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
        except BaseException:
            found.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "no such address"
        raise UsageError(
            f"{host}:{port} cannot be listened on: {reason}",
            hint="another program may have it; --port names another one, 0 a free one",
        ) from None
    return found


def run(
    app: ASGIApp,
    listening: socket.socket,
    *,
    shutdown_s: float,
    ready: Callable[[], None],
    ending: Callable[[], None] = lambda: None,
    overdue: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the server without waiting for answers.

    Calls `ready` once it answers, and on the event loop `ending` when it stops listening, and `overdue` if
    answers are still being made `shutdown_s` later.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=max(1, round(shutdown_s + _CUT_S)),
    )
    server = WebServer(config, ready=ready, ending=ending, overdue=overdue, shutdown_s=shutdown_s)
    # The 100,000 objects that exist already stay: each collection of them would delay every answer by 40 ms.
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    try:
        server.run(sockets=[listening])
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class WebServer(uvicorn.Server):
    """uvicorn's server with callbacks, whose caller can clean up after a signal.

    `ending` must end streams without an end, which uvicorn would wait for until its timeout.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], None] = lambda: None,
        ending: Callable[[], None] = lambda: None,
        overdue: Callable[[], None] = lambda: None,
        shutdown_s: float = 0.0,
    ) -> None:
        super().__init__(config)
        self._ready, self._ending, self._overdue = ready, ending, overdue
        self._shutdown_s = shutdown_s

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let `run` return on SIGINT and SIGTERM; uvicorn's own handler kills the process then."""
        # Only the main thread receives signals; in another one the caller sets `should_exit`.
        is_main = threading.current_thread() is threading.main_thread()
        before = {n: signal.signal(n, self.handle_exit) for n in _SIGNALS} if is_main else {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start answering."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Call `ending`, then close all connections."""
        self._ending()
        timer = asyncio.get_running_loop().call_later(self._shutdown_s, self._overdue)
        await super().shutdown(sockets)
        timer.cancel()
