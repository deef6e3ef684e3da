"""The history file of the prompt: lines that are taken back leave it, all others stay as they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from shepherd.commands.history import LineHistory, open_history


def opened(path: Path, *, private: bool = False) -> LineHistory:
    return open_history(path, lambda: private, pytest.fail)


def lines(history: LineHistory) -> list[str]:
    async def load() -> list[str]:
        return [line async for line in history.load()]

    return asyncio.run(load())


def test_removed_lines_are_gone_from_this_run_and_from_the_file(tmp_path):
    path = tmp_path / "state" / "history"
    history = opened(path)
    assert lines(history) == []
    for line in ("one", "two\nof two rows", "three", "two", "one"):
        history.append_string(line)

    history.remove({"one", "two\nof two rows"})
    history.append_string("four")

    assert lines(history) == lines(opened(path)) == ["four", "two", "three"]
    assert "rows" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_else_is_in_the_file_stays(tmp_path):
    path = tmp_path / "history"
    before = b"by hand\n+kept \xff\r\n\n# 2026-01-01\n+gone\n\n# 2026-01-02\n+kept, too\n# the end\n"
    path.write_bytes(before)

    opened(path).remove({"gone"})

    assert path.read_bytes() == before.replace(b"\n# 2026-01-01\n+gone\n", b"")


def test_a_linked_file_is_still_linked(tmp_path):
    (tmp_path / "real").write_text("\n# 2026-01-01\n+gone\n")
    (tmp_path / "history").symlink_to("real")

    opened(tmp_path / "history").remove({"gone"})

    assert (tmp_path / "history").is_symlink()
    assert (tmp_path / "real").read_text() == ""


def test_without_a_file_lines_are_kept_and_removed_in_this_run(tmp_path):
    (tmp_path / "file").touch()
    warned: list[str] = []
    history = open_history(tmp_path / "file" / "history", lambda: False, warned.append)
    assert lines(history) == []
    history.append_string("one")
    history.append_string("two")

    history.remove({"one"})

    assert lines(history) == ["two"]
    assert "the history is not saved" in warned[0]
