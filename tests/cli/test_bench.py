"""`shepherd bench` as a process, and how it tells its figures."""

from __future__ import annotations

import io
import json

import pytest

from shepherd.benchmark import Line, Report, Timed
from shepherd.cli import bench
from shepherd.commands.screen import Screen

HOT = Line("hot", "in memory", Timed(12.34, 1234.56, 400), ratio=31.25, round_trips=1.5)
BULK = Line("bulk", "stored", per_second=45678.9)


def told(server: str = "", load: float = 0.0, peer: str = "3.45") -> tuple[str, str]:
    """Return what a report writes to stdout and stderr."""
    screen = Screen(io.StringIO(), io.StringIO())
    bench._show(Report(1000, 1, 400, "abc123", peer, load, (HOT, BULK), server), screen)
    return screen.out.getvalue(), screen.err.getvalue()  # type: ignore[attr-defined]


def test_figures_are_printed_and_the_users_memory_is_not_touched(shepherd, home):
    done = shepherd("bench", "--memories", "40", "--users", "2", "--json")

    report = json.loads(done.stdout)
    assert (report["memories"], report["users"], report["questions"]) == (40, 2, 160)
    assert report["measures"]["hot"]["p50_us"] > 0
    assert report["measures"]["bulk"]["per_second"] > 0
    assert not home.database.exists()


@pytest.mark.parametrize("number", ["many", "0", "-1", "1.5"])
def test_a_number_that_is_none_is_a_mistake_of_the_caller(number, shepherd):
    done = shepherd("bench", f"--memories={number}")

    assert done.returncode == 2
    assert "--memories: expected a whole number of at least 1" in done.stderr


def test_numbers_may_be_grouped():
    assert [bench._count(text) for text in ("1", "100,000", "1_000")] == [1, 100_000, 1000]


def test_another_database_than_postgresql_is_refused(shepherd):
    done = shepherd("bench", "--database", "mysql://server/db")

    assert done.returncode == 2
    assert "postgresql://user@host/database" in done.stderr


def test_a_row_has_what_was_measured_and_round_trips_only_of_a_server():
    out, err = told()
    of_server, about = told(server="16.4")

    assert out == "in memory\t12.3\t1,234.6\t\t31.2\nstored\t\t\t45,679\t\n"
    assert of_server == "in memory\t12.3\t1,234.6\t\t31.2\t1.5\nstored\t\t\t45,679\t\t\n"
    assert "1,000 memories, 1 user, data abc123; Python " in err
    assert ", SQLite " in err
    assert ", stdlib sqlite3 3.45, " in err
    assert ", PostgreSQL 16.4, " in about
    assert "stdlib sqlite3 without FTS5" in told(peer="")[1]


def test_a_busy_machine_is_told(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    assert "busy" not in told(load=2.0)[1]
    assert "the machine was busy (load 2.1 on 2 CPUs)" in told(load=2.1)[1]


def test_json_has_what_was_measured_of_each_figure():
    report = bench._as_json(Report(1000, 2, 400, "abc123", "3.45", 0.5, (HOT, BULK)))

    assert report["measures"] == {
        "hot": {"what": "in memory", "p50_us": 12.34, "p99_us": 1234.56, "calls": 400, "ratio": 31.25,
                "round_trips": 1.5},
        "bulk": {"what": "stored", "per_second": 45678.9},
    }  # fmt: skip
    about = {
        name: report[name] for name in ("memories", "users", "questions", "data", "stdlib_sqlite", "load")
    }
    assert list(about.values()) == [1000, 2, 400, "abc123", "3.45", 0.5]
    assert "server" not in report
    assert bench._as_json(Report(1, 1, 4, "", "", 0.0, (), "16.4"))["server"] == "16.4"


def test_a_phase_has_a_bar_of_its_own(monkeypatch):
    seen = []

    class Bar:
        def __init__(self, what):
            self.what = what

        def __enter__(self):
            return lambda done, total: seen.append((self.what, done, total))

        def __exit__(self, *_):
            seen.append(f"end of {self.what}")

    monkeypatch.setattr(bench, "amount", lambda screen, what: Bar(what))
    with bench._bars(Screen(io.StringIO(), io.StringIO())) as show:
        for what, done in (("storing", 1), ("storing", 2), ("asking", 1)):
            show(what, done, 2)

    assert seen == [
        ("storing", 1, 2), ("storing", 2, 2), "end of storing", ("asking", 1, 2), "end of asking",
    ]  # fmt: skip
