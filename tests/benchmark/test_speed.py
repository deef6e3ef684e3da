"""The bench itself, small: that it measures what it says, and leaves nothing behind."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from shepherd.benchmark import measure
from shepherd.errors import UsageError


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_every_figure_is_there_and_the_folder_is_empty_again(scratch):
    stages = []

    report = measure(60, 3, progress=lambda what, done, total: stages.append(what))

    figures = {line.name: line for line in report.lines}
    assert {"hot", "hot-floor-0", "fts5", "search-hot", "search-fts5", "stdlib"} <= figures.keys()
    assert {"inject", "inject-writer", "keywords", "bulk", "stdlib-bulk", "single"} <= figures.keys()
    assert all(line.time is None or 0 < line.time.p50_us <= line.time.p99_us for line in report.lines)
    assert figures["bulk"].per_second > 0
    assert figures["stdlib"].ratio == 0
    assert figures["hot"].ratio > 0
    assert {"storing", "ranking", "searching"} <= set(stages)
    assert list(Path(scratch).iterdir()) == []


def test_a_server_has_the_same_figures_and_keeps_nothing(scratch, monkeypatch, postgres_server):
    monkeypatch.setenv("XDG_CACHE_HOME", str(scratch / "cache"))
    in_a_file = measure(60, 3)
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    before = postgres_server.execute(schemas)

    report = measure(60, 3, database=postgres_server.url("mine"))

    names = {line.name for line in report.lines}
    assert names == {line.name for line in in_a_file.lines} | {"round-trip"}
    figures = {line.name: line for line in report.lines}
    assert figures["round-trip"].round_trips == 1
    assert figures["search-hot"].round_trips > 1
    assert figures["search-hot"].ratio > 0
    assert report.data == in_a_file.data
    assert report.server
    assert postgres_server.execute(schemas) == before
    assert [path for path in (scratch / "cache").rglob("*") if path.is_file()] == []


def test_more_users_than_memories_are_refused():
    with pytest.raises(UsageError, match="5 memories of 6 users"):
        measure(5, 6)
