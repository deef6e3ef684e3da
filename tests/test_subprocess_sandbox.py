"""Work in a process of its own: what it prints arrives, and however it ends, its ending has a name."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shepherd import subprocess_sandbox
from shepherd.errors import UsageError
from shepherd.subprocess_sandbox import Ending

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


# ---- how a process ended


REFUSAL = b'[1]\n{"what": "no", "hint": "do that", "more": 5}\nnoise\n'


@pytest.mark.parametrize(
    ("code", "stdout", "stderr", "expected"),
    [
        (0, b"", b"error: but it went well", Ending("good")),
        (3, REFUSAL, b"", Ending("refused", "no", "do that")),
        (3, b'{"other": 1}', b"", Ending("refused")),
        (3, b"noise", b"what(): bad_alloc", Ending("broken", "what(): bad_alloc")),
        (3, b"{}", b"", Ending("broken", "it exited with status 3")),
        (4, REFUSAL, b"", Ending("broken", "it exited with status 4")),
        (1, b"", b"first error\nlast Error: x\ntrailing", Ending("broken", "last Error: x")),
        (-9, b"", b"error", Ending("killed", "SIGKILL")),
        (
            -6,
            b"",
            b"/ggml.c:12: GGML_ASSERT(x) failed",
            Ending("crashed", "SIGABRT: GGML_ASSERT(x) failed"),
        ),
        (-6, b"", b"nothing to tell", Ending("crashed", "SIGABRT")),
        (-11, b"", b"GGML_ASSERT(y) failed", Ending("crashed", "SIGSEGV: GGML_ASSERT(y) failed")),
        (-200, b"", b"", Ending("crashed", "signal 200")),
        (0xC0000005, b"", b"error: x", Ending("crashed", "exception 0xc0000005: error: x")),
        (0xC0000000, b"", b"", Ending("crashed", "exception 0xc0000000")),
        (0xBFFFFFFF, b"", b"", Ending("broken", "it exited with status 3221225471")),
        (1, b"", b"error " + b"x" * 300, Ending("broken", "error " + "x" * 194)),
    ],
)
def test_an_ending_is_told_by_status_and_last_words(
    code: int, stdout: bytes, stderr: bytes, expected: Ending
) -> None:
    assert subprocess_sandbox._ending(code, stdout, stderr) == expected


def test_a_child_answers_with_its_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped: list[None] = []
    monkeypatch.setattr(subprocess_sandbox, "_expect_to_be_stopped", lambda: stopped.append(None))

    def fails(error: Exception) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    assert subprocess_sandbox.answer(lambda: None) == 0
    assert capsys.readouterr().out == ""
    assert subprocess_sandbox.answer(fails(UsageError("no", hint="do that"))) == 3
    assert capsys.readouterr().out == '{"what": "no", "hint": "do that"}\n'
    assert subprocess_sandbox.answer(fails(MemoryError())) == 3
    assert capsys.readouterr().out == '{"what": "memory ran out", "hint": ""}\n'
    with pytest.raises(ValueError, match="a bug"):
        subprocess_sandbox.answer(fails(ValueError("a bug")))
    assert len(stopped) == 4


@pytest.mark.skipif(sys.platform == "win32", reason="its limits are POSIX's")
def test_limits_of_a_child_are_as_low_as_they_can_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import resource

    most = resource.RLIM_INFINITY
    limits: list[tuple[int, tuple[int, int]]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (5, most))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, pair: limits.append((kind, pair)))
    monkeypatch.setattr(subprocess_sandbox, "Path", lambda path: tmp_path / path.lstrip("/"))

    subprocess_sandbox.limit_memory(1000)
    most = 700
    subprocess_sandbox.limit_memory(1000)
    subprocess_sandbox.limit_memory(600)
    subprocess_sandbox._expect_to_be_stopped()  # the file for its score is not there
    (tmp_path / "proc/self").mkdir(parents=True)
    subprocess_sandbox._expect_to_be_stopped()

    memory, core = resource.RLIMIT_AS, resource.RLIMIT_CORE
    assert limits == [
        (memory, (1000, resource.RLIM_INFINITY)), (memory, (700, 700)), (memory, (600, 700)),
        (core, (0, 700)), (core, (0, 700)),
    ]  # fmt: skip
    assert (tmp_path / "proc/self/oom_score_adj").read_text() == "1000"


def test_a_child_knows_that_it_is_one_and_leaves_the_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHEPHERD_CHILD", raising=False)
    monkeypatch.delenv("GGML_NO_BACKTRACE", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("PYTHONFAULTHANDLER", "1")
    own = subprocess_sandbox._environment()

    changed = {name: value for name, value in own.items() if os.environ.get(name) != value}
    assert changed == {
        "SHEPHERD_CHILD": "1",
        "GGML_NO_BACKTRACE": "1",
        "CUDA_VISIBLE_DEVICES": "-1",
        "PYTHONFAULTHANDLER": "",
    }
    assert not subprocess_sandbox.is_child()
    monkeypatch.setenv("SHEPHERD_CHILD", "1")
    assert subprocess_sandbox.is_child()


def test_a_program_without_an_interpreter_runs_no_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    assert subprocess_sandbox.can_run()
    for executable, frozen in (("", False), (sys.executable, True)):
        monkeypatch.setattr(sys, "executable", executable)
        monkeypatch.setattr(sys, "frozen", frozen, raising=False)
        assert not subprocess_sandbox.can_run()
    monkeypatch.setattr(sys, "executable", "/none")
    assert subprocess_sandbox.run("x", [], limit_s=5) == Ending("broken", "No such file or directory")
    streamed = subprocess_sandbox.stream("x", [], b"", lambda line: None, silence_s=5)
    assert streamed == Ending("broken", "No such file or directory")
