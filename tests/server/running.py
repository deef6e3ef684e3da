"""An app behind a real socket on loopback, and clients of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx
import uvicorn

from shepherd.server.connections import limited, most_connections
from shepherd.server.process import WebServer

__all__ = ["Running"]


class Running:
    """Serves an app from a thread; `url` is where. The socket listens before `__enter__` returns."""

    def __init__(self, app: Any, *, ending: Callable[[], None] = lambda: None, **options: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        options = {"http": limited(connections=most_connections()), **options}
        config = uvicorn.Config(
            app, log_config=None, access_log=False, timeout_graceful_shutdown=5, lifespan="on", **options
        )
        self.server = WebServer(config, ending=ending)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.server.should_exit = True
        self._thread.join()
        self._socket.close()

    def client(self, key: str = "", **headers: str) -> httpx.Client:
        """A client of its own, with a key or without; ignores proxies of the environment."""
        shown = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.Client(base_url=self.url, headers={**shown, **headers}, trust_env=False, timeout=60)
