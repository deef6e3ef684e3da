"""`shepherd bench`: measure the speed of the memory on this machine, with a temporary database."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from shepherd.cli.parsing import Parser, add_common_options, add_setting_option, loaded_settings
from shepherd.cli.progress import amount
from shepherd.commands.screen import Screen, counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from shepherd.benchmark import Line, Report

__all__ = ["build_parser", "execute"]

_EXAMPLES = """\
It stores generated memories in a temporary folder (set TMPDIR for another), asks 400 questions of three to
six words four times, and removes everything again. Your own memory is not touched. Python's own sqlite3
does the same with a plain FTS5 query, in a separate process; `ratio` is its median divided by Shepherd's.
With --database it measures a PostgreSQL server, in a schema that it makes and drops; `trips` is the median
divided by that of an empty round trip.

examples:
  shepherd bench                                    100,000 memories of one user, about a minute
  shepherd bench --memories 1000000 --users 1000    a large shared memory
  shepherd bench --database postgresql://server/db  a server's database
  shepherd bench --json                             to compare versions
"""


def build_parser() -> Parser:
    """Build the parser of `shepherd bench`."""
    parser = Parser(
        prog="shepherd bench", description="Measure recall and storing on this machine.", epilog=_EXAMPLES
    )
    parser.add_argument(
        "--memories", metavar="N", type=_count, default=100_000, help="number of memories (default: 100000)"
    )
    parser.add_argument(
        "--users", metavar="M", type=_count, default=1, help="number of users who own them (default: 1)"
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        default="",
        help="PostgreSQL to measure (default: a file in a temporary folder)",
    )
    add_setting_option(parser, "--recency-floor", "rag_recency_floor", "SHARE")
    add_common_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Measure, and print the results."""
    from shepherd.benchmark import measure
    from shepherd.errors import UsageError

    if arguments.database and not arguments.database.startswith(("postgresql://", "postgres://")):
        raise UsageError("--database takes an address", hint="postgresql://user@host/database")
    with _bars(screen) as progress:
        report = measure(
            arguments.memories,
            arguments.users,
            database=arguments.database,
            recency_floor=loaded_settings(arguments).config.rag_recency_floor,
            progress=progress,
        )
    if arguments.json:
        screen.json(_as_json(report))
    else:
        _show(report, screen)
    return 0


def _count(text: str) -> int:
    try:
        value = int(text.replace(",", "").replace("_", ""))
    except ValueError:
        value = 0
    if value < 1:
        raise ArgumentTypeError("expected a whole number of at least 1")
    return value


@contextmanager
def _bars(screen: Screen) -> Iterator[Callable[[str, int, int], None]]:
    """Give a function that draws one bar after the other, each with the name of its phase."""
    with ExitStack() as stack:
        shown = ""
        bar: Callable[[int, int], None] = lambda done, total: None  # noqa: E731

        def show(what: str, done: int, total: int) -> None:
            nonlocal shown, bar
            if what != shown:
                stack.close()
                bar, shown = stack.enter_context(amount(screen, what)), what
            bar(done, total)

        yield show


def _as_json(report: Report) -> dict[str, object]:
    return {
        **_machine(),
        "memories": report.memories,
        "users": report.users,
        "questions": report.questions,
        "data": report.data,
        "stdlib_sqlite": report.peer,
        "load": report.load,
        **({"server": report.server} if report.server else {}),
        "measures": {line.name: _values(line) for line in report.lines},
    }


def _values(line: Line) -> dict[str, object]:
    values: dict[str, object] = {"what": line.what}
    if line.time is not None:
        values |= {"p50_us": line.time.p50_us, "p99_us": line.time.p99_us, "calls": line.time.n}
    if line.per_second:
        values["per_second"] = line.per_second
    if line.ratio:
        values["ratio"] = line.ratio
    if line.round_trips:
        values["round_trips"] = line.round_trips
    return values


def _machine() -> dict[str, object]:
    import os
    import platform

    from shepherd import __version__
    from shepherd._native.store import SQLITE_VERSION

    return {
        "shepherd": __version__,
        "sqlite": SQLITE_VERSION,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpus": os.cpu_count() or 1,
    }


def _show(report: Report, screen: Screen) -> None:
    rows = [
        [
            line.what,
            f"{line.time.p50_us:,.1f}" if line.time else "",
            f"{line.time.p99_us:,.1f}" if line.time else "",
            f"{line.per_second:,.0f}" if line.per_second else "",
            f"{line.ratio:,.1f}" if line.ratio else "",
            *([f"{line.round_trips:,.1f}" if line.round_trips else ""] if report.server else []),
        ]
        for line in report.lines
    ]
    heads = ["three best of the user's memories", "p50 µs", "p99 µs", "a second", "ratio"]
    screen.table([*heads, "trips"] if report.server else heads, rows)
    machine = _machine()
    peer = report.peer or "without FTS5"
    engine = f"PostgreSQL {report.server}" if report.server else f"SQLite {machine['sqlite']}"
    versions = f"Python {machine['python']}, {engine}, stdlib sqlite3 {peer}"
    screen.note(
        f"{counted(report.memories, 'memory', 'memories')}, {counted(report.users, 'user')},"
        f" data {report.data}; {versions}, {machine['machine']}, {machine['cpus']} CPUs"
    )
    if report.load > float(str(machine["cpus"])):
        screen.warn(
            f"the machine was busy (load {report.load:.1f} on {machine['cpus']} CPUs); p99 and ratio show it",
            "stop other programs, and measure again",
        )
