"""What the tests of the native modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd._native.store import Connection


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with Connection(tmp_path / "memory.db") as connection:
        connection.script("PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b)")
        yield connection
