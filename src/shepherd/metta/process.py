"""MeTTa's runtime in a child process: if it aborts, an error says so and this process continues.

hyperon 0.2.10 aborts in a query once a space has more than about 1,000 different symbols and values
(measured: 1,013 of any kind), in however many expressions. So they are counted before they are sent.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from types import TracebackType
from typing import Any

import shepherd
from shepherd.errors import ShepherdError, UsageError
from shepherd.installation import install_extra
from shepherd.metta.values import Value, from_wire, to_wire
from shepherd.trace.transfer import atom_of

__all__ = ["MOST_ATOMS", "Metta", "MettaError", "is_installed"]

# Limit of different symbols and values; a tenth is left for those that evaluation creates.
MOST_ATOMS = 900
_LEAF = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s()"]+', re.DOTALL)
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|;[^\n]*', re.DOTALL)
_START_S = 60.0


class MettaError(ShepherdError):
    """The runtime of MeTTa refused an expression, took too long, or ended."""


def is_installed() -> bool:
    """Return whether the runtime is installed."""
    return find_spec("hyperon") is not None


class Metta:
    """A MeTTa runtime with our functions, in a process of its own; a context manager that ends it.

    >>> with Metta({"compression-level": level}) as metta:
    ...     metta.run("!(compression-level 0.3)")
    [[Symbol('medium')]]

    One thread at a time. Functions are called in this process, with values as in shepherd.metta.values. An
    exception becomes an atom (Error …), with the message of a ShepherdError; Ctrl-C ends the runtime.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Value]], *, limit_s: float = 30.0) -> None:
        if not is_installed():
            raise UsageError("MeTTa's runtime is not installed", hint=install_extra("metta"))
        self._functions = functions
        self._limit_s = limit_s
        self._leaves: set[str] = set(functions)
        package = os.path.dirname(os.path.dirname(shepherd.__file__))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "shepherd.metta.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([package, *sys.path])},
        )
        self._buffer = b""
        try:
            self._send({"names": list(functions)})
            self._receive(time.monotonic() + _START_S)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Metta:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process. May be called twice."""
        process = self._process
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def run(self, text: str) -> list[list[Value]]:
        """Return the results of each expression after `!`, and add the other expressions to the space.

        The text is a program: what it imports runs. Raises MettaError, and UsageError beyond MOST_ATOMS.
        """
        self._count(text)
        try:
            return self._results(text)
        except ShepherdError:
            raise
        except BaseException:  # the child waits for an answer, and would mix up the results
            self.close()
            raise

    def _results(self, text: str) -> list[list[Value]]:
        self._send({"run": text})
        deadline = time.monotonic() + self._limit_s
        while True:
            message = self._receive(deadline)
            if "call" in message:
                self._send(self._called(message["call"], message["arguments"]))
            elif "error" in message:
                raise MettaError("MeTTa cannot read the expression", hint=str(message["error"])[:200])
            else:
                return [[from_wire(atom) for atom in atoms] for atoms in message["results"]]

    def load(self, entries: Iterable[tuple[str, str | int | float | bool]]) -> int:
        """Add paths of traces with their values to the space, in the form of exports; returns their
        number.
        """
        atoms = [atom_of(path, value) for path, value in entries]
        self.run("".join(atoms))
        return len(atoms)

    def _count(self, text: str) -> None:
        code = _COMMENT.sub(lambda match: match[1] or "", text)
        leaves = self._leaves | {leaf for leaf in _LEAF.findall(code) if not leaf.startswith("$")}
        if len(leaves) > MOST_ATOMS:
            raise UsageError(
                f"{len(leaves):,} different symbols and values; MeTTa's runtime holds {MOST_ATOMS}",
                hint="load less: one turn, or one part of several turns",
            )
        self._leaves = leaves

    def _called(self, name: str, arguments: list[Any]) -> dict[str, Any]:
        try:
            return {"value": to_wire(self._functions[name](*map(from_wire, arguments)))}
        except ShepherdError as error:
            return {"error": str(error)}
        except (TypeError, ValueError, AttributeError):
            # The arguments have other types than the signature. The message may repeat a value.
            return {"error": f"{name}: arguments of other types than it takes"}
        except Exception as error:  # a host's function may raise anything, and the child waits for an answer
            return {"error": f"{name}: failed ({type(error).__name__})"}

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        if self._process.stdin.closed:
            raise self._ended()
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._ended() from None

    def _receive(self, deadline: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(max(deadline - time.monotonic(), 0.0)):
                    self.close()
                    raise MettaError(
                        f"MeTTa did not finish in {self._limit_s:g} s", hint="a rule may call itself"
                    )
                piece = os.read(self._process.stdout.fileno(), 1 << 16)
                if not piece:
                    raise self._ended()
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _ended(self) -> MettaError:
        self.close()
        return MettaError(
            f"MeTTa's runtime ended (status {self._process.returncode})",
            hint="load less, and start a new one",
        )
