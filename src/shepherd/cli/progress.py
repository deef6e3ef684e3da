"""Progress of long work: a bar on a terminal, silence in a pipe, warnings in both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from shepherd.commands.screen import Screen

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

    from shepherd.inference.hub import Report, Transferred, Waiting

__all__ = ["amount", "downloads", "working"]

# Work that takes less time shows nothing.
SILENT_S = 1.0


@contextmanager
def downloads(screen: Screen, *, again: str = "the same command") -> Iterator[Report]:
    """Give the `report` of a download, which draws bars until the block ends.

    After Ctrl-C the user learns that the command `again` continues it.
    """
    bars = _Bars(screen)
    try:
        yield bars.show
    except KeyboardInterrupt:
        bars.close()
        if bars.began:
            screen.note(f"{again} continues the download")
        raise
    finally:
        bars.close()


@contextmanager
def amount(screen: Screen, what: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function of the work done and the total (0: unknown), which draws a bar until the block ends."""
    if not screen.err_is_terminal:
        yield lambda done, total: None
        return
    from rich.progress import TaskProgressColumn, TimeRemainingColumn

    progress = _progress(screen, TaskProgressColumn(), TimeRemainingColumn())
    task = progress.add_task(what, total=None)
    with progress:
        yield lambda done, total: progress.update(task, completed=done, total=total or None)


@contextmanager
def working(screen: Screen, what: str) -> Iterator[None]:
    """Show the elapsed time on a terminal, after a second and until the block ends."""
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
    from rich.progress import TimeElapsedColumn

    with _progress(screen, TimeElapsedColumn()) as progress:
        progress.add_task(what, total=None)
        has_ended.wait()


class _Bars:
    def __init__(self, screen: Screen) -> None:
        self.began = False
        self._screen = screen
        self._progress: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def show(self, event: Transferred | Waiting) -> None:
        """Draw an event of a download."""
        from shepherd.inference.hub import Transferred

        if isinstance(event, Transferred):
            self.began = True
            if self._screen.err_is_terminal:
                self._advance(event)
            return
        again = f"; next attempt in {event.wait_s:.0f} s" if event.wait_s else ""
        self.close()  # a line of text must not come between two bars
        self._screen.warn(f"{event.reason}{again}")

    def close(self) -> None:
        """Remove the bars."""
        if self._progress is not None:
            self._progress.stop()
            self._progress, self._tasks = None, {}

    def _advance(self, event: Transferred) -> None:
        if self._progress is None:
            from rich.progress import DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

            self._progress = _progress(
                self._screen, DownloadColumn(binary_units=True), TransferSpeedColumn(), TimeRemainingColumn()
            )
            self._progress.start()
        name = event.file.rpartition("/")[2]
        if name not in self._tasks:
            self._tasks[name] = self._progress.add_task(name, total=event.size_bytes)
        self._progress.update(self._tasks[name], completed=event.done_bytes)


def _progress(screen: Screen, *columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        *columns,
        console=Console(file=screen.err, no_color=not screen.err_has_colour),
        transient=True,
    )
