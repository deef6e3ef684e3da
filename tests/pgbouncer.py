"""A real PgBouncer in front of the tests' PostgreSQL server, with few connections that all clients share."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from tests.postgres import NoServerError, Server

__all__ = ["Pooler"]

_PORT = 6432
_PATIENCE_S = 20.0
_SETTINGS = """
[databases]
* = host={server} user=postgres
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
logfile = {folder}/log
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
server_login_retry = 0.1
"""


class Pooler:
    """PgBouncer with `size` connections to the server, removed by `close`.

    `keeps_prepared`: it prepares statements wherever they are used. NoServerError if the program is not
    installed; SHEPHERD_TEST_PGBOUNCER names another one.
    """

    def __init__(self, server: Server, *, mode: str = "transaction", size: int = 2) -> None:
        # Debian installs it where only root's PATH leads.
        program = os.environ.get("SHEPHERD_TEST_PGBOUNCER") or shutil.which(
            "pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
        )
        if program is None:
            raise NoServerError("pgbouncer is not installed; apt-get install pgbouncer brings it")
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.keeps_prepared = tuple(map(int, re.findall(r"\d+", said)[:2])) >= (1, 21)
        self.folder = Path(tempfile.mkdtemp(prefix="shepherd-pgb-", dir="/tmp"))
        self._command = [program, str(self.folder / "pgbouncer.ini")]
        self._as_user = server.as_user
        (self.folder / "pgbouncer.ini").write_text(
            _SETTINGS.format(server=server.folder, port=_PORT, folder=self.folder, mode=mode, size=size)
            + ("max_prepared_statements = 50\n" if self.keeps_prepared else "")
        )
        if self._as_user:
            os.chmod(self.folder, 0o755)
            os.chown(self.folder, self._as_user["user"], self._as_user["group"])
        self.start()

    def url(self, schema: str = "") -> str:
        """The address of a schema."""
        name = f"&schema={schema}" if schema else ""
        return f"postgresql://postgres@/postgres?host={self.folder}&port={_PORT}{name}"

    def start(self) -> None:
        """Starts it and waits until it answers."""
        import psycopg

        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._as_user,
        )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url()).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise NoServerError(f"pgbouncer did not start: {error}") from error
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops it as a crash would: all connections break."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(_PATIENCE_S)
        for left in self.folder.glob(".s.PGSQL.*"):
            left.unlink()

    def close(self) -> None:
        """Stops it and removes all of it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
