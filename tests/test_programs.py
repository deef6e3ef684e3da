"""A forked process is in no way different from one that was started."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests import programs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")

DESCRIBE = """
import gc, json, locale, os, resource, signal, sys, threading
streams = [sys.stdin, sys.stdout, sys.stderr]
json.dump(
    {
        "arguments": [sys.argv, sys.orig_argv, list(sys.flags), sys.path[0], sys.executable],
        "main": [__name__, vars(sys.modules["__main__"]) is globals(), [n for n in globals() if n[0] != "_"]],
        "environment": dict(os.environ),
        "folders": [os.getcwd(), os.path.expanduser("~")],
        "streams": [[s.fileno(), s.name, s.mode, s.encoding, s.errors, s.isatty()] for s in streams],
        "buffers": [[s.line_buffering, s.write_through, type(s.buffer).__name__] for s in streams],
        "same": [getattr(sys, name) is getattr(sys, f"__{name}__") for name in ("stdin", "stdout", "stderr")],
        "terminal": [list(os.get_terminal_size(n)) for n in range(3) if os.isatty(n)],
        "descriptors": [n for n in range(3, 20) if os.path.exists(f"/proc/self/fd/{n}")],
        "handlers": [str(signal.getsignal(n)).split(" at ")[0] for n in range(1, 32)],
        "signals": [line for line in open("/proc/self/status") if line[:6] in ("SigBlk", "SigIgn", "Thread")],
        "parent": os.getppid() == int(sys.argv[1]),
        "groups": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "limits": [resource.getrlimit(n) for n in range(16)],
        "locale": [locale.setlocale(locale.LC_CTYPE), locale.getpreferredencoding()],
        "rest": [gc.isenabled(), sys.getrecursionlimit(), threading.active_count(), os.umask(0o22)],
    },
    open("described.json", "w"),
)
"""
ENDINGS = {
    "falls off the end": "import atexit; atexit.register(print, 'end'); print('out', end='')",
    "exits": "import sys; sys.stdout.write('out'); sys.exit(7)",
    "exits with a negative number": "import sys; sys.exit(-1)",
    "exits without a number": "import sys; print('out', end=''); sys.exit()",
    "exits with a message": "import sys; sys.exit('sorry')",
    "raises": "1 / 0",
    "cannot write what is left": "import os; print('lost'); os.close(1)",
    "frees its objects": (
        "class A:\n    __del__ = lambda self: print('freed', __name__)\n"
        "def f():\n    a = A(); a.me = a\nf(); b = A()"
    ),
    "has written through C": "import ctypes; ctypes.CDLL(None).printf(b'out')",
    "is interrupted": "raise KeyboardInterrupt",
    "is killed": "import os, signal; print('out', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "is killed by a closed pipe": (
        "import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "
        "r, w = os.pipe(); os.close(r); os.write(w, b'x')"
    ),
    "leaves without an end": "import os; print('lost'); os._exit(3)",
    "has a thread that goes on": (
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.05), print('late'))).start()"
    ),
    "echoes": "import sys; print(sys.stdin.read().upper()); print('Café', file=sys.stderr)",
}


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """That of a home, with a few variables that programs read after they have started."""
    return {**os.environ, "PYTHONUTF8": "1", "HOME": str(tmp_path), "LINES": "9", "SHEPHERD_USER_ID": "stève"}


def described(start: Callable[..., Any], folder: Path, environment: dict[str, str], **options: Any) -> Any:
    command = [sys.executable, "-c", DESCRIBE, str(os.getpid()), "Café", os.fsdecode(b"caf\xe9")]
    start(command, env=environment, cwd=folder, **options)
    return json.loads((folder / "described.json").read_text())


def in_terminal(start: type[pexpect.spawn]) -> Callable[..., None]:
    def run(command: list[str], **options: Any) -> None:
        child = start(command[0], command[1:], timeout=60, dimensions=(33, 77), **options)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0

    return run


@pytest.mark.parametrize("has_session", [False, True])
def test_process_has_everything_of_its_own(tmp_path, environment, has_session):
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "check": True}
    options["start_new_session"] = has_session

    expected = described(subprocess.run, tmp_path, environment, **options)

    assert programs.will_be_forked([sys.executable, "-c", DESCRIBE], environment)
    assert described(programs.run, tmp_path, environment, **options) == expected


def test_process_has_a_terminal_of_its_own(tmp_path, environment):
    expected = described(in_terminal(pexpect.spawn), tmp_path, environment)

    assert expected["terminal"] == [[77, 33]] * 3
    assert described(in_terminal(programs.spawn), tmp_path, environment) == expected


@pytest.mark.parametrize("code", ENDINGS.values(), ids=list(ENDINGS))
def test_process_ends_in_the_same_way(environment, code):
    command = [sys.executable, "-c", code]
    options = {"input": b"caf\xc3\xa9\xff", "capture_output": True, "env": environment}

    expected = subprocess.run(command, check=False, **options)
    found = programs.run(command, check=False, **options)

    # A traceback begins further outside.
    shown = re.sub(rb'  File "[^"]*/zygote.py".*\n .*\n', b"", found.stderr)
    assert (found.returncode, found.stdout, shown) == (expected.returncode, expected.stdout, expected.stderr)


def test_ctrl_c_in_a_terminal_interrupts(environment):
    # A wait that goes on for ever, such as input(), could begin just behind the signal.
    code = "import time; print('ready')\nwhile True: time.sleep(0.01)"
    child = programs.spawn(sys.executable, ["-c", code], env=environment, encoding="utf-8", timeout=60)
    child.expect("ready")

    child.sendintr()

    child.expect("KeyboardInterrupt")
    child.expect(pexpect.EOF)
    child.close()
    assert child.signalstatus == signal.SIGINT


def test_program_runs_with_its_settings(environment, tmp_path):
    command = [sys.executable, "-m", "shepherd", "facts", "set", "name", "Steve", "--json"]

    done = programs.run(command, env=environment, capture_output=True, check=True)

    assert b"Steve" in done.stdout
    assert (tmp_path / ".local" / "share" / "shepherd" / "memory.db").exists()


def test_processes_do_not_see_each_others_changes(environment):
    code = "import shepherd.paths; print(hasattr(shepherd.paths, 'mark')); shepherd.paths.mark = True"
    command = [sys.executable, "-c", code]

    done = [programs.run(command, env=environment, capture_output=True) for _ in range(2)]

    assert [one.stdout for one in done] == [b"False\n"] * 2


@pytest.mark.parametrize(
    ("command", "variables"),
    [
        (["-m", "shepherd"], {"PYTHONUTF8": "0"}),
        (["-m", "shepherd"], {"LC_ALL": "C"}),
        (["-m", "shepherd"], {"PYTHONPATH": "/nowhere"}),
        (["-m", "shepherd"], {"OPENBLAS_MAIN_FREE": "1"}),
        (["-W", "error", "-m", "shepherd"], {}),
        (["-m", "shepherd", "x" * 100_000], {}),
    ],
    ids=["encoding", "locale", "other modules", "read by a module", "options of Python", "long"],
)
def test_where_it_would_differ_the_program_itself_is_started(environment, command, variables):
    assert programs.will_be_forked([sys.executable, "-m", "shepherd"], environment)

    assert not programs.will_be_forked([sys.executable, *command], {**environment, **variables})
