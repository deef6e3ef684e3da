"""A thread that still runs when the command has ended, such as one that waits for a server."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import programs

# An exit function of C, as OpenSSL and others have. This one ends the process with a signal.
_CODE = """
import ctypes, sys, threading, time
libc = ctypes.CDLL(None)
libc.__cxa_atexit(ctypes.cast(libc.abort, ctypes.c_void_p), None, None)
threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
from shepherd.cli.main import run
sys.argv = ["shepherd", *{arguments!r}]
run()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no exit functions that are registered so")
@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["memory", "show", "7"], 1)])
def test_no_exit_function_of_c_runs_beside_a_thread_that_is_left(home, arguments, code):
    done = programs.run(
        [sys.executable, "-c", _CODE.format(arguments=arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, env=home.environment, timeout=60,
    )  # fmt: skip

    assert done.returncode == code, done.stderr
    assert "shepherd 0." in done.stdout or "7" in done.stderr
