"""`shepherd serve` as its users run it: a process with a home of its own, and a real socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from tests import programs

__all__ = ["ServerProcess", "inherited"]


def inherited() -> dict[str, str]:
    """The environment of the tests, without settings and without their own folders."""
    names = [name for name in os.environ if not name.startswith(("SHEPHERD_", "XDG_"))]
    return {**{name: os.environ[name] for name in names}, "PYTHONUTF8": "1"}


class ServerProcess:
    """A server on a free port; `url` is where. Variables are settings, as SHEPHERD_<NAME>."""

    def __init__(self, home: Path, *arguments: str, **variables: str) -> None:
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "SHEPHERD_MODEL_TRIAL": "false"}
        self.home = home
        self.environment = {**inherited(), **own, "SHEPHERD_SERVER_PORT": "0", **variables}
        self.database = home / ".local" / "share" / "shepherd" / "memory.db"
        self._is_asked = False
        self._log = (home / "server.log").open("ab")
        command = [sys.executable, "-m", "shepherd", "serve", "--json", *arguments]
        self.process = programs.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self._log, env=self.environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise AssertionError(f"no server:\n{self.log}")
        self.url: str = json.loads(line)["url"]

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """All that it has logged."""
        return (self.home / "server.log").read_text(encoding="utf-8", errors="replace")

    def ask_to_end(self) -> None:
        """Ask it once to end, as a service manager does, and do not wait; a second time would hurry it."""
        if not self._is_asked and self.process.poll() is None:
            self._is_asked = True
            self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Ask it to end, and wait; its exit code."""
        self.ask_to_end()
        code = self.process.wait(timeout=60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()
        return code

    def ended(self) -> int:
        """Wait until it has ended by itself; its exit code."""
        return self.process.wait(timeout=60)

    def http(self, **headers: str) -> httpx.Client:
        """A plain client; ignores proxies of the environment."""
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)

    def ask(self, text: str, user: str = "", **fields: Any) -> dict[str, Any]:
        """The answer to one message, as OpenAI's API has it."""
        said = {"model": "default", "messages": [{"role": "user", "content": text}], **fields}
        # ASCII: half a surrogate pair can be escaped, and not encoded.
        body = json.dumps({**said, **({"user": user} if user else {})})
        with self.http(**{"Content-Type": "application/json"}) as client:
            answer = client.post("/v1/chat/completions", content=body)
        assert answer.status_code == 200, answer.text
        reply: dict[str, Any] = answer.json()
        return reply
