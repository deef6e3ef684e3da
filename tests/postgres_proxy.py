"""A connection to the tests' PostgreSQL server that breaks at a chosen moment."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from typing import Literal

from tests.postgres import Server

__all__ = ["BreakingProxy", "Moment"]

Moment = Literal["before", "during", "after"]
_NAME = ".s.PGSQL.5432"
_BYTES = 1 << 16


class BreakingProxy:
    """Passes on what clients and the server send, until `lose` is called; `close` ends it."""

    def __init__(self, server: Server) -> None:
        self._server = str(server.folder / _NAME)
        self.folder = Path(tempfile.mkdtemp(prefix="shepherd-proxy-", dir="/tmp"))
        self._moment: Moment | None = None
        self.is_open = True
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / _NAME))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def url(self, schema: str) -> str:
        """The address of a schema."""
        return f"postgresql://postgres@/postgres?host={self.folder}&schema={schema}"

    def lose(self, moment: Moment, *, stays_away: bool = False) -> None:
        """Breaks the connection at what a client sends next.

        before: the server never gets it; after: the server answers, and the client does not hear it; during:
        the client loses the connection at once, and the server goes on.
        """
        self._moment, self.is_open = moment, not stays_away

    def close(self) -> None:
        """Ends it with all its connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.is_open:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            thread = threading.Thread(target=self._pass_on, args=(client, server))
            thread.start()
            self._threads.append(thread)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                data = ready[0].recv(_BYTES)
                if not data:
                    return
                moment = self._moment if ready[0] is client else None
                if moment is not None:
                    self._moment = None
                    self._break(moment, data, client, server)
                    return
                (server if ready[0] is client else client).sendall(data)

    def _break(self, moment: Moment, data: bytes, client: socket.socket, server: socket.socket) -> None:
        if moment == "before":
            return
        server.sendall(data)
        if moment == "during":
            client.close()
        server.recv(_BYTES)
