"""A program for the tests: it converts or restores a database in forks that are killed at any moment.

Each line on stdin is JSON: database, new (path of a key file, "" for none) or backup, and kill_after_us or
kill_at_line. It answers with `killed`, `done` or `failed`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from types import FrameType
from typing import Any

from shepherd.encryption import KeyEntry, MemoryKey, new_salt
from shepherd.encryption.key import USUAL_COST, master_key
from shepherd.encryption.unlocking import text_of_file
from shepherd.memory import conversion
from shepherd.memory import restore as restoring

FILES = (conversion.__file__, restoring.__file__)


def kill_at(line: int) -> Any:
    """Return a trace function that ends the process at the n-th line of these files that runs."""
    n = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal n
        if frame.f_code.co_filename not in FILES:
            return None
        if event == "line":
            n += 1
            if n == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def restore(order: dict[str, Any]) -> None:
    sys.settrace(kill_at(order["kill_at_line"]))
    restoring.restore(order["backup"], order["database"])


def convert(order: dict[str, Any]) -> None:
    from pathlib import Path

    file, old = conversion.database_to_convert(order["database"])
    new = entry = None
    if order["new"]:
        salt = new_salt()
        new = MemoryKey(master_key(text_of_file(Path(order["new"])), salt, USUAL_COST), salt)
        entry = KeyEntry(salt, "file", new.check, order["new"])
    if "kill_at_line" in order:
        sys.settrace(kill_at(order["kill_at_line"]))
    else:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends the process, also inside native code
        signal.setitimer(signal.ITIMER_REAL, order["kill_after_us"] / 1e6)
    conversion.convert(file, old, new, entry)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                order = json.loads(line)
                (restore if "backup" in order else convert)(order)
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print("killed" if os.WIFSIGNALED(status) else "failed" if status else "done", flush=True)


main()
