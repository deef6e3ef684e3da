"""A module of this package run in a process of its own, for work that may end the process.

It reads arguments from the command line and bytes from standard input. It answers with lines on standard
output, its exit status, and one line of JSON if it refuses. If it ends in any other way, the error says how.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import shepherd
from shepherd.errors import ShepherdError

__all__ = ["Ending", "answer", "can_run", "is_child", "limit_memory", "run", "stream"]

Kind = Literal["good", "refused", "crashed", "killed", "hung", "broken"]

_CHILD = "SHEPHERD_CHILD"
_REFUSED = 3
_LONGEST_LINE = 200
# What llama.cpp and the C++ library write last before they abort.
_TELLING = ("GGML_ASSERT", "what():", "error", "Error")
# NTSTATUS of Windows: what a process that was ended by an exception exits with.
_NTSTATUS_ERROR = 0xC0000000


@dataclass(frozen=True, slots=True)
class Ending:
    """Outcome of the process. `what`: its refusal, its last error line, or the signal; empty when good.

    killed: by SIGKILL, which on Linux is how the system takes memory back. broken: Python could not run it.
    """

    kind: Kind
    what: str = ""
    hint: str = ""


# -m puts the working directory in front of sys.path: this one holds nothing but this package.
_FOLDER = Path(shepherd.__file__).parent.parent


def can_run() -> bool:
    """Return whether there is an interpreter to run the module with; frozen programs have none."""
    return bool(sys.executable) and not getattr(sys, "frozen", False)


def is_child() -> bool:
    """Return whether this process was started by `run`."""
    return _CHILD in os.environ


def run(module: str, arguments: Sequence[str], *, limit_s: float) -> Ending:
    """Run `python -m module arguments` and says how it ended; after `limit_s` seconds it is killed."""
    try:
        done = subprocess.run(
            _command(module, arguments),
            cwd=_FOLDER,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Ending("hung", f"it had not ended after {limit_s:.0f} s")
    except OSError as error:
        return Ending("broken", str(error.strerror or error))
    return _ending(done.returncode, done.stdout, done.stderr)


def stream(
    module: str, arguments: Sequence[str], sent: bytes, line: Callable[[bytes], None], *, silence_s: float
) -> Ending:
    """Like `run`, with `sent` on its standard input; hands over each line that it prints.

    It is killed when nothing was printed for `silence_s` seconds, and when `line` raises.
    """
    printed = b""
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                _command(module, arguments),
                cwd=_FOLDER,
                env=_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        except OSError as error:
            return Ending("broken", str(error.strerror or error))
        with process, _Watch(process, silence_s) as watch:
            assert process.stdin is not None
            assert process.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(sent)
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            for printed in process.stdout:
                watch.heard = time.monotonic()
                line(printed)
        if watch.has_killed:
            return Ending("hung", f"nothing was heard of it for {silence_s:.0f} s")
        errors.seek(0)
        return _ending(process.returncode, printed, errors.read())


class _Watch:
    """Kill a process of which nothing was `heard` for some seconds, and one that is left in an error."""

    def __init__(self, process: subprocess.Popen[bytes], silence_s: float) -> None:
        self.heard = time.monotonic()
        self.has_killed = False
        self._process = process
        self._silence_s = silence_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._wait, name="shepherd-child-watch", daemon=True)

    def _wait(self) -> None:
        while not self._over.wait(max(0.0, self.heard + self._silence_s - time.monotonic())):
            if time.monotonic() - self.heard >= self._silence_s:
                self.has_killed = True
                self._process.kill()
                return

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._process.kill()
        # Watched until it ends: it may have closed its output and still run.
        self._process.wait()
        self._over.set()
        self._thread.join()


def _command(module: str, arguments: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        _CHILD: "1",
        "GGML_NO_BACKTRACE": "1",  # else it looks for a debugger
        "CUDA_VISIBLE_DEVICES": "-1",  # leave the GPU's memory to the real engine
        "PYTHONFAULTHANDLER": "",
    }


def answer(work: Callable[[], None]) -> int:
    """The child's side: does the work, gives the exit status, and prints the refusal if there is one."""
    _expect_to_be_stopped()
    try:
        work()
    except ShepherdError as error:
        sys.stdout.write(json.dumps({"what": str(error), "hint": error.hint}) + "\n")
        return _REFUSED
    except MemoryError:
        sys.stdout.write(json.dumps({"what": "memory ran out", "hint": ""}) + "\n")
        return _REFUSED
    return 0


def limit_memory(size: int) -> None:
    """Limit the child's address space to `size` bytes, where the system has such a limit."""
    try:
        import resource
    except ImportError:  # Windows
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(
        resource.RLIMIT_AS, (size if most == resource.RLIM_INFINITY else min(size, most), most)
    )


def _expect_to_be_stopped() -> None:
    """Disable core dumps, and let the system end this process first when memory runs out."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    try:
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:  # not Linux
        return


def _ending(code: int, stdout: bytes, stderr: bytes) -> Ending:
    lines = stderr.decode("utf-8", "replace").splitlines()
    if code == 0:
        return Ending("good")
    if code == _REFUSED and (refusal := _refusal(stdout)):
        return Ending("refused", refusal.get("what", ""), refusal.get("hint", ""))
    said = _last_telling(lines)
    if code == -getattr(signal, "SIGKILL", 9):
        return Ending("killed", "SIGKILL")
    if code < 0:
        return Ending("crashed", ": ".join(filter(None, [_signal(-code), said])))
    if code >= _NTSTATUS_ERROR:
        return Ending("crashed", ": ".join(filter(None, [f"exception {code:#x}", said])))
    return Ending("broken", said or f"it exited with status {code}")


def _refusal(stdout: bytes) -> dict[str, str]:
    # What else was printed comes from libraries.
    for line in reversed(stdout.decode("utf-8", "replace").splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return {key: str(value) for key, value in found.items()}
    return {}


def _last_telling(lines: Sequence[str]) -> str:
    telling = [line.strip() for line in lines if any(word in line for word in _TELLING)]
    line = telling[-1] if telling else ""
    # An assertion begins with a path of the machine that compiled the library.
    if (at := line.find("GGML_ASSERT")) > 0:
        line = line[at:]
    return line[:_LONGEST_LINE]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
