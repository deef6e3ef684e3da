"""The peer's process, seen from here: started when it is needed, ended with the block."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.errors import InternalError

__all__ = ["About", "PeerProcess"]


@dataclass(frozen=True, slots=True)
class About:
    """What the peer is, and how many memories it stored a second; no version: it cannot run here."""

    version: str
    per_second: float


class PeerProcess:
    """Stdlib sqlite3 over the same data, asked by the numbers of questions."""

    def __init__(self, n_memories: int, n_users: int, n_questions: int) -> None:
        self._command = [
            *(sys.executable, "-m", "shepherd.benchmark.stdlib_peer"),
            *map(str, (n_memories, n_users, n_questions)),
        ]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()  # its input ends, and so does it

    def start(self) -> About:
        """Lets it store its memories, and waits."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        about = self._read()
        return About(about.get("version", ""), about.get("per_second", 0.0))

    def ask(self, numbers: Sequence[int]) -> list[float]:
        """Microseconds of each of these questions."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(numbers)) + "\n")
        self._process.stdin.flush()
        times: list[float] = self._read()
        return times

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InternalError("the process of the peer ended early", hint="its error is above")
        return json.loads(line)
