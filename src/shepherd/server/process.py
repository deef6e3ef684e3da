"""A server that runs until it is told to end: bound before it says where, gone within seconds."""

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
# Longer than clients keep a connection that is not used, which for most in Python is five seconds: who closes
# first must be the one who would send the next request on it.
_IDLE_S = 30
# For answers that were cut, to be kept and to tell their clients.
_CUT_S = 10.0
# Objects that are made before the collector looks for cycles among them. 64 answers under way are 20,000 and
# come and go without one: at Python's 700 it ran with every second request, and seven milliseconds at times.
_YOUNG = 30_000
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bound(host: str, port: int) -> socket.socket:
    """A socket at that address, which `run` will listen on. UsageError where another program has it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, protocol)
        try:
            if os.name == "posix":  # elsewhere it would share the port
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
    """Serve until SIGINT or SIGTERM; a second one waits for no answer.

    Calls `ready` once it answers, and on the event loop `ending` when it stops to listen, `overdue` when that
    was `shutdown_s` ago and answers are still made.
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
    # What was made until here, 100,000 objects, stays: to look at all of it again now and then holds up every
    # answer for 40 ms.
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
    """uvicorn's, which says when it answers, ends what would not end by itself, and lets its caller clean up.

    Those who listen to a stream without an end would otherwise be waited for until the last second.
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
        """End on SIGINT and SIGTERM, and go on behind `run`; uvicorn's own would kill the process then."""
        # Signals come to the main thread alone; in another one its owner says when the end has come.
        is_main = threading.current_thread() is threading.main_thread()
        before = {n: signal.signal(n, self.handle_exit) for n in _SIGNALS} if is_main else {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close everything, those who wait for the end of a stream first."""
        self._ending()
        timer = asyncio.get_running_loop().call_later(self._shutdown_s, self._overdue)
        await super().shutdown(sockets)
        timer.cancel()
