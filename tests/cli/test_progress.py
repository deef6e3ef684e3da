"""What a terminal shows of work that takes its time, and what a pipe does not."""

from __future__ import annotations

import io
import os
import pty
import time

import pytest

from shepherd.cli import progress
from shepherd.commands.screen import Screen
from shepherd.inference.hub import Transferred


@pytest.fixture
def terminal():
    """A screen whose stderr is a terminal, and what is shown there."""
    controller, end = pty.openpty()
    stream = os.fdopen(end, "w", encoding="utf-8")
    yield Screen(io.StringIO(), stream), lambda: os.read(controller, 1 << 16).decode()
    stream.close()
    os.close(controller)


def test_work_that_takes_longer_is_named_and_gone_when_it_ends(terminal, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    screen, shown = terminal

    with progress.working(screen, "counting"):
        seen = ""
        deadline = time.monotonic() + 60
        while "counting" not in seen and time.monotonic() < deadline:
            seen += shown()
    rest = seen.partition("counting")[2]
    while "\x1b[2K" not in rest and time.monotonic() < deadline:
        rest += shown()

    assert "counting" in seen
    assert "\x1b[2K" in rest  # the line is erased


def test_a_pipe_is_told_nothing(capsys):
    with progress.working(Screen(), "counting"):
        pass

    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_for_terminals_that_want_them(monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SILENT_S", 0.0)
    controller, end = pty.openpty()
    with (
        os.fdopen(end, "w", encoding="utf-8") as stream,
        progress.working(Screen(io.StringIO(), stream), "counting"),
    ):
        seen = ""
        deadline = time.monotonic() + 60
        while "counting" not in seen and time.monotonic() < deadline:
            seen += os.read(controller, 1 << 16).decode()
    os.close(controller)

    assert ("\x1b[38;" in seen or "\x1b[3" in seen) is not bool(no_color)


def test_an_interruption_before_the_first_byte_promises_no_continuation(terminal):
    screen, _ = terminal
    screen.err = io.StringIO()

    def interrupt(*events: Transferred) -> None:
        with progress.downloads(screen) as report:
            for event in events:
                report(event)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    before = screen.err.getvalue()
    with pytest.raises(KeyboardInterrupt):
        interrupt(Transferred("repo/model.gguf", 1, 2))

    assert before == ""
    assert "the same command continues the download" in screen.err.getvalue()
