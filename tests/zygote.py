"""Forks the processes that tests/programs.py starts: what they load and compile first is there already.

Its argument is the number of a socket. Each message on it is a JSON object with three descriptors, and the
answer is the ID of the new process. That process continues below as `python -m shepherd` or `python -c CODE`:
with arguments, environment, folder, streams, terminal and signals of its own, and with the usual end. But
the modules loaded before aren't torn down, which would copy their memory first and take 0.05 seconds.
"""

from __future__ import annotations

import array
import atexit
import ctypes
import fcntl
import gc
import io
import json
import os
import runpy
import signal
import socket
import sys
import termios
import time
from importlib import import_module
from types import ModuleType
from typing import Any

# More than a message can have, see tests/programs.py.
MOST_BYTES = 1 << 20
# Besides the modules of all commands, those that they import when they begin.
PRELOADED = (
    *("shepherd.memory_factory", "shepherd.chat_session", "shepherd.cli.conversation"),
    "shepherd.server.factory",
    *("rich.console", "rich.markdown", "prompt_toolkit", "uvicorn", "numpy", "openai"),
)
# These read the whole environment or the home folder when they are imported, for variables of CGI and for the
# folder of a user's own packages, which nobody uses here.
UNWATCHED = ("wsgiref.simple_server", "zoneinfo")


class Watched(type(os.environ)):  # type: ignore[misc]
    """An environment that records which variables were asked for."""

    def __getitem__(self, name: str) -> str:
        _asked_for.add(name)
        return super().__getitem__(name)


_asked_for: set[str] = set()
_exit_code: int | None = None  # set when the program has ended as programs do: without an exception


def preload() -> list[str]:
    """Load what commands load; return the names of the variables that were asked for."""
    for module in UNWATCHED:
        import_module(module)
    usual = type(os.environ)
    os.environ.__class__ = Watched
    try:
        from shepherd.cli.main import COMMANDS

        for module in (*(module for module, _ in COMMANDS.values()), *PRELOADED):
            import_module(module)
        _prepare()
    finally:
        os.environ.__class__ = usual
    return sorted(_asked_for)


def _prepare() -> None:
    """Do what programs do at their first message: 0.5 seconds for patterns and 0.02 for llama.cpp."""
    from shepherd.claims.judge import learned
    from shepherd.inference.binding import llama_module
    from shepherd.prompt.archive_policy import is_refusal
    from shepherd.secret_detection import holds_secret
    from shepherd.secret_detection.unexplained import find_unexplained
    from shepherd.turn import warm_up

    warm_up.compile_patterns()
    for sentence in ("I live in Ulm.", "I work at Bosch."):
        assert not holds_secret(sentence, "In room 7.")
        assert not find_unexplained(sentence)
    assert learned({"location": "Ulm"}, ["I live in Ulm."])[0]
    assert is_refusal("I can't help with that.")
    llama_module("llama_cpp")


def next_start(control: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer messages; return in the new process alone, with the message and its descriptors."""
    while True:
        data, received, _, _ = control.recvmsg(MOST_BYTES, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not data:  # the tests have ended
            os._exit(0)
        descriptors = array.array("i", received[0][2]).tolist()
        reader, writer = os.pipe()
        # The new process is a grandchild, and its parent ends at once: so it becomes a child of the tests'
        # process, which takes orphans at this moment.
        if (between := os.fork()) == 0:
            try:
                parent = os.getpid()
                if child := os.fork():
                    os.write(writer, b"%d" % child)
                    os._exit(0)
            except BaseException:
                os._exit(1)
            while os.getppid() == parent:
                os.sched_yield()
            for descriptor in (reader, writer):
                os.close(descriptor)
            control.close()
            return json.loads(data), descriptors
        os.close(writer)
        os.waitpid(between, 0)
        control.send(os.read(reader, 20))
        for descriptor in (reader, *descriptors):
            os.close(descriptor)


def become(start: dict[str, Any], descriptors: list[int]) -> None:
    """Give this process what a new one would have."""
    if start["has_session"]:
        os.setsid()
    if start["has_terminal"]:
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    for descriptor in descriptors:
        os.close(descriptor)
    os.chdir(start["folder"])
    os.environ.clear()
    os.environ.update(start["environment"])
    time.tzset()
    if not start["ignores_interrupt"]:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    option, word, *arguments = [os.fsdecode(bytes.fromhex(argument)) for argument in start["arguments"]]
    sys.argv = [option, *arguments]
    sys.orig_argv = [sys.executable, option, word, *arguments]
    sys.path[0] = os.getcwd() if option == "-m" else ""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _standard_stream(number, getattr(sys, f"__{name}__"))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _standard_stream(number: int, usual: io.TextIOWrapper) -> io.TextIOWrapper:
    """Open a standard stream the way the interpreter opened this one."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    raw.name = usual.name
    is_unbuffered = usual.write_through  # as PYTHONUNBUFFERED wants it
    binary: Any = raw
    if number == 0:
        binary = io.BufferedReader(raw)
    elif not is_unbuffered:
        binary = io.BufferedWriter(raw)
    stream = io.TextIOWrapper(
        binary,
        encoding=usual.encoding,
        errors=usual.errors,
        newline=None if number == 0 else "\n",
        line_buffering=not is_unbuffered and (number == 2 or raw.isatty()),
        write_through=is_unbuffered,
    )
    stream.mode = usual.mode  # type: ignore[misc]
    return stream


def program(option: str, word: str) -> None:
    """Run `-m MODULE` or `-c CODE`."""
    global _exit_code  # noqa: PLW0603  read by the last function of atexit
    main = sys.modules["__main__"] = ModuleType("__main__")
    try:
        if option == "-m":
            runpy._run_module_as_main(word)  # type: ignore[attr-defined]
        else:
            exec(compile(word, "<string>", "exec"), vars(main))
    except SystemExit as end:
        if isinstance(end.code, int | None):
            _exit_code = (end.code or 0) & 0xFF
        raise
    _exit_code = 0


def end() -> None:
    """Exit after all other functions of atexit, with the program's own objects freed."""
    if _exit_code is None:
        return
    names = vars(sys.modules["__main__"])
    names.update(dict.fromkeys(name for name in names if not name.startswith("__")))
    gc.collect(1)  # a chat unfreezes what was frozen below, and to look at all of it takes 0.1 seconds
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return  # the interpreter tries again, and reports it
    # Functions that C has registered run, too. Other threads wait for the lock of the interpreter forever.
    ctypes.PyDLL(None).exit(_exit_code)


if __name__ == "__main__":
    atexit.register(end)  # before any other, so that it comes last
    sys.path[0] = ""  # the folder of the tests has names of other modules, too
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, and this process ends with them
    _control = socket.socket(fileno=int(sys.argv[1]))
    _control.send(json.dumps(preload()).encode())
    # As long as nobody collects these objects, the new processes share them.
    gc.collect()
    gc.freeze()
    _start, _descriptors = next_start(_control)
    become(_start, _descriptors)
    program(*sys.orig_argv[1:3])
