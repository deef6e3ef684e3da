"""Long work on the screen: a bar on a terminal, silence in a pipe, and what went wrong in both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shepherd.commands.screen import Screen

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from shepherd.inference.hub import Report, Transferred, Waiting

__all__ = ["amount", "downloads", "working"]

# Work that takes less shows nothing.
SILENT_S = 1.0


@contextmanager
def downloads(screen: Screen) -> Iterator[Report]:
    """What to give a download as its `report`; the bar is gone when the block ends."""
    bars = _Bars(screen)
    try:
        yield bars.show
    except KeyboardInterrupt:
        bars.close()
        if bars.began:
            screen.note("what has come is kept; the same command goes on with it")
        raise
    finally:
        bars.close()


@contextmanager
def amount(screen: Screen, what: str) -> Iterator[Callable[[int, int], None]]:
    """What to tell how far a piece of work has come, of how much; the bar is gone when the block ends."""
    if not screen.err_is_terminal:
        yield lambda done, total: None
        return
    progress = _new_bar(screen)
    task = progress.add_task(what, total=None)
    with progress:
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


@contextmanager
def working(screen: Screen, what: str) -> Iterator[None]:
    """On a terminal, shows after a second that work goes on and for how long, until the block ends."""
    if not screen.err_is_terminal:
        yield
        return
    has_ended = threading.Event()
    showing = threading.Thread(target=_show_working, args=(screen, what, has_ended), daemon=True)
    showing.start()
    try:
        yield
    finally:
        has_ended.set()
        showing.join()


def _show_working(screen: Screen, what: str, has_ended: threading.Event) -> None:
    if has_ended.wait(SILENT_S):
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(file=screen.err, no_color=not screen.err_has_colour)
    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(bar_width=30), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        has_ended.wait()


class _Bars:
    def __init__(self, screen: Screen) -> None:
        self.began = False
        self._screen = screen
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def show(self, event: Transferred | Waiting) -> None:
        """Draw what happened."""
        from shepherd.inference.hub import Transferred

        if isinstance(event, Transferred):
            self.began = True
            if self._screen.err_is_terminal:
                self._advance(event)
            return
        again = f"; next attempt in {event.wait_s:.0f} s" if event.wait_s else ""
        self.close()  # a line of text between two bars would tear them
        self._screen.warn(f"{event.reason}{again}")

    def close(self) -> None:
        """Take the bars away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress, self._tasks = None, {}

    def _advance(self, event: Transferred) -> None:
        if self._progress is None:
            self._progress = _new_progress(self._screen)
            self._progress.start()
        name = event.file.rpartition("/")[2]
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=event.size_bytes)
        self._progress.update(self._tasks[name], completed=event.done_bytes)


def _new_progress(screen: Screen) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(file=screen.err, no_color=not screen.err_has_colour)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )


def _new_bar(screen: Screen) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(file=screen.err, no_color=not screen.err_has_colour),
        transient=True,
    )
