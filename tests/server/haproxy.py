"""A real HAProxy in front of several servers, which gets each request to the next one that is healthy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

__all__ = ["Balancer"]

# As docs/how-to/scaling.md has it, with shorter pauses.
_SETTINGS = """
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 600s
    option redispatch
    retries 3
frontend shepherd
    bind 127.0.0.1:{port}
    default_backend servers
backend servers
    balance roundrobin
    option httpchk
    http-check send meth GET uri /health ver HTTP/1.1 hdr Host 127.0.0.1
"""
_PATIENCE_S = 20.0


class Balancer:
    """HAProxy on a free port; `url` is where. Ended by `close`."""

    def __init__(self, folder: Path, urls: Sequence[str]) -> None:
        # Debian installs it where only root's PATH leads.
        program = shutil.which("haproxy", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
        if program is None:
            pytest.skip("no HAProxy: haproxy is not installed; apt-get install haproxy brings it")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        lines = [
            f"    server s{number} {urlsplit(url).netloc} check inter 100ms fall 1 rise 1\n"
            for number, url in enumerate(urls)
        ]
        path = folder / "haproxy.cfg"
        path.write_text(_SETTINGS.format(port=port) + "".join(lines))
        self.url = f"http://127.0.0.1:{port}"
        self._log = (folder / "haproxy.log").open("wb")
        self._process = subprocess.Popen(
            [program, "-db", "-f", path], stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.http() as client:
                    client.get("/health").raise_for_status()
                return
            except httpx.HTTPError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise
            time.sleep(0.02)

    def http(self, **headers: str) -> httpx.Client:
        """A client whose requests go to one server after the other."""
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(_PATIENCE_S)
        self._log.close()
