"""The bench itself, small: that it measures what it says, and leaves nothing behind."""

from __future__ import annotations

import tempfile

import pytest

from shepherd.benchmark import corpus, measure
from shepherd.errors import UsageError

FIGURES = {
    *("hot", "hot-floor-0", "fts5", "search-hot", "search-fts5", "stdlib"),
    *("inject", "inject-writer", "keywords", "bulk", "stdlib-bulk", "single", "search-import"),
}


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_server_has_the_same_figures_and_keeps_nothing(scratch, monkeypatch, postgres_server):
    monkeypatch.setenv("XDG_CACHE_HOME", str(scratch / "cache"))
    schemas = "SELECT nspname FROM pg_namespace ORDER BY 1"
    before = postgres_server.execute(schemas)

    report = measure(60, 3, database=postgres_server.url("mine"))

    names = {line.name for line in report.lines}
    assert names == FIGURES | {"round-trip"}
    figures = {line.name: line for line in report.lines}
    assert figures["round-trip"].round_trips == 1
    assert figures["search-hot"].round_trips > 1
    assert figures["search-hot"].ratio > 0
    assert figures["stdlib"].ratio == 0
    assert (figures["fts5"].time.n, figures["round-trip"].time.n) == (40, 2000)
    assert report.data == corpus.build(60, 3, 240).digest
    assert report.server
    assert postgres_server.execute(schemas) == before
    assert [path for path in (scratch / "cache").rglob("*") if path.is_file()] == []


def test_more_users_than_memories_are_refused():
    with pytest.raises(UsageError, match="5 memories of 6 users"):
        measure(5, 6)
