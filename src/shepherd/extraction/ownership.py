"""Who has a job open or running: a name for this worker, and whether another one's process is still alive."""

from __future__ import annotations

import os
import secrets
import socket

__all__ = ["is_gone", "new_owner"]


def new_owner() -> str:
    """A name that no other worker has had: machine, process, and a number of its own."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


def is_gone(owner: str, living: set[str]) -> bool:
    """Whether the process of that owner has ended; `living` are this process's own.

    Of another machine nothing is known: its jobs come back when their lease ends.
    """
    machine, _, rest = owner.rpartition("/")[0].rpartition("/")
    if machine != socket.gethostname() or not rest.isdecimal():
        return False
    if int(rest) == os.getpid():
        return owner not in living
    if os.name != "posix":  # elsewhere this signal would end the process
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
