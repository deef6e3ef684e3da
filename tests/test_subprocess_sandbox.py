"""Work in a process of its own: what it prints arrives, and however it ends, its ending has a name."""

from __future__ import annotations

import signal
import sys

import pytest

from shepherd import subprocess_sandbox

LONG = 120.0


def told(
    code: str, sent: bytes = b"", silence_s: float = LONG
) -> tuple[subprocess_sandbox.Ending, list[bytes]]:
    """How a process that runs the code ended, and the lines that it printed before."""
    lines: list[bytes] = []
    ending = subprocess_sandbox.stream(
        "timeit", ["-n1", "-r1", code], sent, lines.append, silence_s=silence_s
    )
    return ending, lines


def test_lines_arrive_in_order() -> None:
    ending, lines = told(
        "import sys; print(len(sys.stdin.buffer.read()), 'read'); print('over')", bytes(300_000)
    )

    assert ending.kind == "good"
    assert lines[:2] == [b"300000 read\n", b"over\n"]


def test_process_that_is_silent_for_too_long_is_ended() -> None:
    ending, _ = told("import time; time.sleep(3600)", silence_s=1)

    assert (ending.kind, ending.what) == ("hung", "nothing was heard of it for 1 s")


def test_process_that_closes_its_output_and_goes_on_is_ended_too() -> None:
    ending, _ = told("import os, time; os.close(1); time.sleep(3600)", silence_s=1)

    assert ending.kind == "hung"


def test_process_that_does_not_read_what_it_is_sent_is_ended() -> None:
    ending, _ = told("import time; time.sleep(3600)", bytes(10_000_000), silence_s=1)

    assert ending.kind == "hung"


def test_process_is_gone_when_its_lines_are_refused() -> None:
    def refuse(line: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        subprocess_sandbox.stream(
            "timeit",
            ["-n1", "print(1, flush=True); import time; time.sleep(3600)"],
            b"",
            refuse,
            silence_s=LONG,
        )


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
@pytest.mark.parametrize("name", ["SIGSEGV", "SIGFPE", "SIGILL", "SIGBUS"])
def test_signals_are_named(name: str) -> None:
    code = f"import os; os.kill(os.getpid(), {int(getattr(signal, name))})"

    for ending in (subprocess_sandbox.run("timeit", ["-n1", code], limit_s=LONG), told(code)[0]):
        assert (ending.kind, ending.what) == ("crashed", name)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_memory_can_be_limited() -> None:
    code = "from shepherd import subprocess_sandbox; subprocess_sandbox.limit_memory(1 << 30); bytes(2 << 30)"

    ending, _ = told(code)

    assert ending.kind == "broken"
    assert "MemoryError" in ending.what
