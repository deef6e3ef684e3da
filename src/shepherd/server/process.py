"""The server process: binds its socket, runs until a signal, and shuts down in the time of the setting."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from shepherd.errors import UsageError
from shepherd.server.connections import limited, most_connections

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["Phases", "Watchdog", "WebServer", "address_in_network", "bound", "run"]

_log = logging.getLogger(__name__)

_BACKLOG = 2048
# Longer than clients keep an idle connection (most in Python: five seconds): the side that sends the next
# request must be the one that closes.
_IDLE_S = 30
# The least time from the signal to the end, whatever the setting says: uvicorn alone waits twice 0.1 s.
_LEAST_S = 1.0
# Of that time, the part that answers cannot have, and the most seconds of it: they are cut, stored and sent,
# and everything is closed. With half of it left their connections are cut, too; with a quarter, the process.
_CLOSING_SHARE, _MOST_CLOSING_S = 0.4, 2.0
# New objects before the garbage collector runs. 64 answers in progress have 20,000 objects without cycles: at
# Python's 700 it ran with every second request, for up to seven milliseconds.
_YOUNG = 30_000
# Linux and macOS let only administrators use the ports below.
_FIRST_FREE_PORT = 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True)
class Phases:
    """The seconds after the signal at which a shutdown goes a step further, if it still takes time."""

    answers_s: float  # no answer goes on for longer
    connections_s: float  # no connection stays open for longer
    force_s: float  # the watchdog closes the store and ends the process
    limit_s: float  # the process is gone, even if no Python code can run any more

    @classmethod
    def of(cls, shutdown_s: float) -> Phases:
        """Divide the time that the setting `server_shutdown` gives."""
        limit = max(shutdown_s, _LEAST_S)
        closing = min(_CLOSING_SHARE * limit, _MOST_CLOSING_S)
        answers = min(shutdown_s, limit - closing)
        return cls(answers, limit - closing / 2, limit - closing / 4, limit)


class Watchdog:
    """Ends the process in the time that `phases` gives, whatever still runs.

    Within `with`, `start` it on a signal. `close` closes the store; what it holds is safe also without.
    """

    def __init__(self, phases: Phases) -> None:
        self.close: Callable[[], None] = lambda: None
        self._phases = phases
        self._is_started = False
        self._started, self._is_over = threading.Event(), threading.Event()

    def __enter__(self) -> Watchdog:
        # Not in `start`: a handler of signals may interrupt the start of another thread, which holds a lock.
        threading.Thread(target=self._watch, name="shepherd-watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._started.set()
        faulthandler.cancel_dump_traceback_later()

    def start(self) -> None:
        """Begin to count; further calls change nothing."""
        if not self._is_started:
            self._is_started = True
            self._started.set()
            # Ends the process even if a thread never releases the GIL.
            with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr is no file
                faulthandler.dump_traceback_later(self._phases.limit_s, exit=True)

    def end_process(self) -> None:
        """End the process here if a signal asked for it; call it behind `with`, when everything is closed.

        Python would wait for threads that still compute for clients who have left, and then take all objects
        apart, which takes seconds after large requests.
        """
        if not self._is_started:
            return
        logging.shutdown()
        for stream in filter(None, (sys.stdout, sys.stderr)):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(0)

    def _watch(self) -> None:
        phases = self._phases
        self._started.wait()
        if self._is_over.wait(phases.force_s):
            return
        _log.error(
            "shutting down took more than %.3g s: the process ends now; the memory is kept", phases.force_s
        )
        closing = threading.Thread(target=self.close, daemon=True)
        closing.start()
        closing.join((phases.limit_s - phases.force_s) / 2)
        logging.shutdown()
        os._exit(1)


def bound(host: str, port: int, setting: str = "--port") -> socket.socket:
    """Bind a socket for `run`. UsageError if another program has the address, whose port `setting` names."""
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
            f"cannot listen on {host}:{port}: {reason}", hint=_remedy(error, port, setting)
        ) from None
    return found


def _remedy(error: Exception, port: int, setting: str) -> str:
    """Return what helps against an address that can't be had."""
    code = error.errno if isinstance(error, OSError) else 0
    if code not in (errno.EADDRINUSE, errno.EACCES):
        return "name an address of this machine: 127.0.0.1 for itself alone, 0.0.0.0 for its network, too"
    needs_rights = code == errno.EACCES and port < _FIRST_FREE_PORT
    why = "ports below 1024 need special rights" if needs_rights else "another program may have it"
    return f"{why}; {setting} names another port"


def address_in_network(host: str) -> str:
    """Return the address by which other machines reach a server that listens on all addresses of this one.

    "" for a server that listens on some of them, and for a machine without a network. Nothing is sent.
    """
    # Addresses that are reserved for documentation (RFC 5737 and 3849). Only the route to them matters.
    other = {"0.0.0.0": (socket.AF_INET, "192.0.2.1"), "::": (socket.AF_INET6, "2001:db8::1")}.get(host)
    if other is None:
        return ""
    family, elsewhere = other
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as way:
            way.connect((elsewhere, 9))
            found: str = way.getsockname()[0]
    except OSError:  # no network
        return ""
    return found


def run(
    app: ASGIApp,
    listening: Sequence[socket.socket],
    *,
    phases: Phases,
    ready: Callable[[], None],
    ending: Callable[[], None] = lambda: None,
    overdue: Callable[[], None] = lambda: None,
    signalled: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the server without waiting for answers.

    Calls `ready` once it answers, `signalled` with the signal, and on the event loop `ending` when it stops
    listening, and `overdue` if answers are still being made after their time.
    """
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_IDLE_S,
        http=limited(connections=most_connections()),
    )
    server = WebServer(
        config, ready=ready, ending=ending, overdue=overdue, signalled=signalled, phases=phases
    )
    # The 100,000 objects that exist already stay: each collection of them would delay every answer by 40 ms.
    gc.collect()
    gc.freeze()
    thresholds = gc.get_threshold()
    gc.set_threshold(_YOUNG, *thresholds[1:])
    try:
        server.run(sockets=list(listening))
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class WebServer(uvicorn.Server):
    """uvicorn's server with callbacks, whose caller can clean up after a signal.

    `ending` must end streams without an end, which uvicorn would wait for until its timeout. Without `phases`
    the timeout of `config` counts, and `overdue` is not called.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        ready: Callable[[], None] = lambda: None,
        ending: Callable[[], None] = lambda: None,
        overdue: Callable[[], None] = lambda: None,
        signalled: Callable[[], None] = lambda: None,
        phases: Phases | None = None,
    ) -> None:
        super().__init__(config)
        self._ready, self._ending, self._overdue, self._signalled = ready, ending, overdue, signalled
        self._phases = phases
        self._signalled_at: float | None = None

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

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note a signal; runs in the main thread, between two instructions."""
        if self._signalled_at is None:
            self._signalled_at = time.monotonic()
        self._signalled()
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start answering."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Call `ending`, then close all connections."""
        self._ending()
        if self._phases is None:
            await super().shutdown(sockets)
            return
        gone = 0.0 if self._signalled_at is None else time.monotonic() - self._signalled_at
        timer = asyncio.get_running_loop().call_later(self._phases.answers_s - gone, self._overdue)
        # asyncio takes fractions of a second, too.
        self.config.timeout_graceful_shutdown = self._phases.connections_s - gone  # type: ignore[assignment]
        await super().shutdown(sockets)
        timer.cancel()
