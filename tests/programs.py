"""Starts Shepherd's processes for tests by forking one that has imported the package: up to 0.4 seconds less.

`Popen`, `run` and `spawn` work as those of subprocess and pexpect. Where a forked process could behave
differently, they start the program itself: with unusual arguments of Popen, on other systems than Linux, and
if a variable that is read while modules are loaded has another value than in the process that loaded them.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect
from ptyprocess import PtyProcess

__all__ = ["Popen", "in_utf8", "run", "spawn", "will_be_forked"]

Argument = str | bytes | os.PathLike[str]
Environment = Mapping[str, str]

_KILLED_S = 30.0
_ZYGOTE = Path(__file__).with_name("zygote.py")
# The interpreter and native code read these, which preload() of the zygote does not see.
_READ_EARLY = (
    *("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_", "OMP_", "OPENBLAS_", "GGML_", "LLAMA_"),
    *("ASAN_", "LSAN_", "UBSAN_"),
)
_MOST_BYTES = 50_000  # in one message
_SET_CHILD_SUBREAPER = 36  # of prctl(2)
_IS_SUPPORTED = sys.platform == "linux" and sys.implementation.name == "cpython"


class _Zygote:
    """The process that forks others; it starts when it is first asked. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._environment: Environment = {}
        self._asked_for: frozenset[str] = frozenset()

    def has_read(self, environment: Environment) -> bool:
        """Return whether it has loaded its modules with the same variables."""
        with self._lock:
            if self._control is None:
                self._start()
        mine = self._environment
        different = {name for name in {*mine, *environment} if mine.get(name) != environment.get(name)}
        return not any(name in self._asked_for or name.startswith(_READ_EARLY) for name in different)

    def start(self, message: Mapping[str, object], descriptors: Sequence[int]) -> int:
        """Return the ID of a new process, a child of this one, with these three as its standard streams."""
        assert self._control is not None, "has_read() is asked first"
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))
        with self._lock:
            _take_orphans(True)
            try:
                self._control.sendmsg([json.dumps(message).encode()], [rights])
                answer = self._control.recv(20)
            finally:
                _take_orphans(False)
        assert answer, "the process that forks others has ended"
        # Popen takes a process that is no child for one that has succeeded.
        os.waitid(os.P_PID, int(answer), os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return int(answer)

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._environment = {**os.environ, "PYTHONUTF8": "1"}  # as homes have it, see tests/cli/conftest.py
        process = subprocess.Popen(
            [sys.executable, _ZYGOTE, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            env=self._environment,
        )  # fmt: skip
        theirs.close()
        answer = ours.recv(_MOST_BYTES)
        assert answer, "the process that forks others has not started"
        self._asked_for = frozenset(json.loads(answer))
        self._control = ours

        def end() -> None:
            ours.close()
            process.wait()

        atexit.register(end)


_zygote = _Zygote()


def in_utf8() -> dict[str, str]:
    """Return this process's environment with UTF-8 everywhere, as what is forked has it."""
    return {**os.environ, "PYTHONUTF8": "1"}


def will_be_forked(arguments: Sequence[Argument], environment: Environment | None = None) -> bool:
    """Return whether these start a forked process; elsewhere they start the program."""
    if not _IS_SUPPORTED:
        return False
    command = [os.fsencode(argument) for argument in arguments]
    is_ours = command[:1] == [os.fsencode(sys.executable)] and command[1:2] in ([b"-m"], [b"-c"])
    environment = os.environ if environment is None else environment
    size = 2 * sum(map(len, command)) + len(json.dumps(dict(environment)))
    return is_ours and size < _MOST_BYTES and _zygote.has_read(environment)


class Popen(subprocess.Popen):  # type: ignore[type-arg]
    """As subprocess.Popen; `[sys.executable, "-m", MODULE, …]` is forked, or "-c" and code."""

    def __init__(self, arguments: Sequence[Argument], **options: Any) -> None:
        usual = {
            *("stdin", "stdout", "stderr", "env", "cwd", "text", "encoding", "errors", "bufsize"),
            *("universal_newlines", "start_new_session"),
        }
        self._forks = options.keys() <= usual and will_be_forked(arguments, options.get("env"))
        super().__init__(arguments, **options)

    def _execute_child(self, arguments: Sequence[Argument], *others: Any) -> None:
        # Each has the same place in Python 3.10 to 3.14.
        folder, environment, streams, has_session = others[4], others[5], others[9:15], others[20]
        if not self._forks:
            super()._execute_child(arguments, *others)  # type: ignore[misc]
            return
        given = [end if end != -1 else number for number, end in enumerate(streams[i] for i in (0, 3, 5))]
        self.pid = _fork(arguments, environment, folder, given, has_session=bool(has_session))
        self._child_created = True
        self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


def run(
    arguments: Sequence[Argument],
    *,
    input: str | bytes | None = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As subprocess.run; for what can be forked, see Popen."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(arguments, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


class spawn(pexpect.spawn):  # type: ignore[misc]  # noqa: N801
    """As pexpect.spawn; for what can be forked, see Popen."""

    def _spawnpty(self, args: Sequence[Argument], **options: Any) -> PtyProcess:
        environment, folder = options.get("env"), options.get("cwd")
        is_usual = options.get("echo", True) and options.get("preexec_fn") is None
        if not is_usual or not will_be_forked(args, environment):
            return super()._spawnpty(args, **options)
        ours, theirs = pty.openpty()
        process = PtyProcess(0, ours)
        process.setwinsize(*(options.get("dimensions") or (24, 80)))
        process.pid = _fork(args, environment, folder, [theirs] * 3, has_session=True, has_terminal=True)
        os.close(theirs)
        return process

    def close(self, force: bool = True) -> None:
        """End the process. On a busy machine, one that was killed takes longer than pexpect waits."""
        deadline = time.monotonic() + _KILLED_S
        while True:
            try:
                return super().close(force)
            except pexpect.ExceptionPexpect:
                if time.monotonic() > deadline:
                    raise


def _fork(
    arguments: Sequence[Argument],
    environment: Environment | None,
    folder: Argument | None,
    descriptors: Sequence[int],
    *,
    has_session: bool,
    has_terminal: bool = False,
) -> int:
    message = {
        # The name of a file can be any bytes.
        "arguments": [os.fsencode(argument).hex() for argument in arguments[1:]],
        "environment": dict(os.environ if environment is None else environment),
        "folder": os.fsdecode(folder or os.getcwd()),
        "has_session": has_session,
        "has_terminal": has_terminal,
        "ignores_interrupt": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    }
    return _zygote.start(message, descriptors)


def _take_orphans(takes: bool) -> None:
    """Become the parent of descendants whose own parent ends, or leave them to another process again."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, int(takes), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
