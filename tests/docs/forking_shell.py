"""A `shepherd` for the shell's lines that is forked, as tests/programs.py forks it, and does not start anew.

The program in `folder` hands its arguments, environment, folder and streams to the tests' process, passes
signals on, and ends as the forked process does. With a terminal it becomes the real program.
"""

from __future__ import annotations

import array
import json
import os
import shlex
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from tests import programs

__all__ = ["ForkingShell"]

_MOST_BYTES = 100_000
_INT = array.array("i").itemsize
# Without site and encodings of the locale: 0.02 seconds.
_PROGRAM = """
import array, json, os, signal, socket, sys
address, real, *arguments = sys.argv[1:]
if os.isatty(0):
    os.execv(real, [real, *arguments])
start = {
    "arguments": [os.fsencode(word).hex() for word in arguments],
    "environment": dict(os.environ),
    "folder": os.getcwd(),
}
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
    connection.connect(address)
    connection.sendmsg(
        [json.dumps(start).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))]
    )
    process = int(connection.recv(20))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(process, number))
    for number in (0, 1, 2):
        os.close(number)  # so that a pipe ends with the forked process
    code = int(connection.recv(20))
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


class ForkingShell:
    """Forks what the program in `folder` asks for, until it is closed; `real` is the program itself."""

    def __init__(self, folder: Path, real: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (folder / "program.py").write_text(_PROGRAM)
        # The path of a socket has at most 107 bytes, and a test's folder may have more.
        address = f"/proc/{os.getpid()}/fd/{os.open(folder, os.O_PATH)}/socket"
        self._descriptor = int(address.split("/")[4])
        self._socket.bind(address)
        self._socket.listen()
        command = [sys.executable, "-IS", folder / "program.py", address, real]
        program = folder / "shepherd"
        program.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, command))} "$@"\n')
        program.chmod(0o755)
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        """Accept nothing more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        os.close(self._descriptor)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._serve, args=[connection]).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            data, received, _, _ = connection.recvmsg(_MOST_BYTES, socket.CMSG_SPACE(3 * _INT))
            streams = array.array("i", received[0][2]).tolist()
            with _started(json.loads(data), streams) as process:
                for descriptor in streams:
                    os.close(descriptor)
                connection.send(b"%d" % process.pid)
                connection.send(b"%d" % process.wait())


def _started(start: dict[str, Any], streams: list[int]) -> programs.Popen:
    arguments = [os.fsdecode(bytes.fromhex(word)) for word in start["arguments"]]
    return programs.Popen(
        [sys.executable, "-m", "shepherd", *arguments],
        stdin=streams[0],
        stdout=streams[1],
        stderr=streams[2],
        env=start["environment"],
        cwd=start["folder"],
    )
