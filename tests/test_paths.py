"""Where files are, what a name in a setting becomes, and writes that leave a file whole or unchanged."""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path

import pytest

from shepherd import paths
from shepherd.errors import ShepherdError, UsageError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SHEPHERD_CONFIG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


PLACES = [
    ("config_file", "XDG_CONFIG_HOME", ".config", "config.json"),
    ("mcp_file", "XDG_CONFIG_HOME", ".config", "mcp.json"),
    ("data_dir", "XDG_DATA_HOME", ".local/share", ""),
    ("default_database", "XDG_DATA_HOME", ".local/share", "memory.db"),
    ("state_dir", "XDG_STATE_HOME", ".local/state", ""),
    ("history_file", "XDG_STATE_HOME", ".local/state", "history"),
    ("demo_model_file", "XDG_STATE_HOME", ".local/state", "demo-model"),
    ("cache_dir", "XDG_CACHE_HOME", ".cache", ""),
]


@pytest.mark.parametrize(("function", "variable", "fallback", "name"), PLACES)
def test_places_follow_an_absolute_path_of_their_variable(
    home, monkeypatch, function, variable, fallback, name
):
    place = getattr(paths, function)

    assert place() == home / fallback / "shepherd" / name
    monkeypatch.setenv(variable, "relative/is/ignored")
    assert place() == home / fallback / "shepherd" / name
    monkeypatch.setenv(variable, "/elsewhere")
    assert place() == Path("/elsewhere/shepherd") / name


def test_a_named_configuration_has_its_servers_beside_it(monkeypatch):
    monkeypatch.setenv("SHEPHERD_CONFIG", "/settings/mine.json")

    assert (paths.config_file(), paths.mcp_file()) == (
        Path("/settings/mine.json"),
        Path("/settings/mcp.json"),
    )


def test_variables_and_the_home_folder_are_replaced(home, monkeypatch):
    monkeypatch.setenv("NOTES", "/n")
    monkeypatch.setenv("EMPTY", "")

    assert paths.expanded("${NOTES}/a ${NOTES}${EMPTY} $NOTES ~", "x") == "/n/a /n $NOTES ~"
    assert paths.from_home("~/a${NOTES}", "x") == home / "a" / "n"
    with pytest.raises(UsageError, match=r"database names \$\{NONE\}") as caught:
        paths.expanded("${NONE}", "database")
    assert caught.value.hint == "export NONE=…"
    with pytest.raises(UsageError, match="database is '~nobody-of-that-name/x', and there is no such user"):
        paths.from_home("~nobody-of-that-name/x", "database")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "file"
    target.write_bytes(b"before")

    with pytest.raises(TypeError), paths.replacing(target) as file:
        file.writelines([b"half", None])
    assert [target.read_bytes(), *tmp_path.iterdir()] == [b"before", target]

    paths.write_atomically(target, b"after")
    assert [target.read_bytes(), *tmp_path.iterdir()] == [b"after", target]
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_copy_is_made_once_for_each_content(tmp_path):
    file = tmp_path / "a.json"
    copies = []
    for content in ("1", "2", "1", "3", "2"):
        file.write_text(content)
        copies.append(paths.back_up(file))

    numbers = ["", "-2", "", "-3", "-2"]
    assert [copy.name for copy in copies] == [f"a.json.before-migration{number}" for number in numbers]
    assert [copy.read_text() for copy in copies] == ["1", "2", "1", "3", "2"]
    assert stat.S_IMODE(copies[0].stat().st_mode) == 0o600


def test_a_new_file_is_private_and_replaces_nothing(tmp_path):
    path = tmp_path / "export"
    with paths.new_file(str(path)) as file:
        file.write("é")

    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == ("é".encode(), 0o600)
    with pytest.raises(UsageError, match="already exists"):
        paths.new_file(str(path)).__enter__()
    with pytest.raises(UsageError, match="No such file or directory"):
        paths.new_file(str(tmp_path / "none" / "export")).__enter__()
    assert path.read_bytes() == "é".encode()


def test_a_locked_folder_is_locked_for_others_until_the_end(tmp_path):
    other = os.open(tmp_path, os.O_RDONLY)
    try:
        with paths.locked(tmp_path), pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(other)


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(UsageError, match="a device or a pipe"):
        paths.write_atomically(tmp_path / "pipe", b"x")

    assert (tmp_path / "pipe").is_fifo()


def test_an_unknown_user_is_a_mistake_and_a_file_called_so_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "~draft.md").touch()

    assert paths.given_path("~/notes") == tmp_path / "notes"
    assert paths.given_path("~draft.md").is_file()
    with pytest.raises(UsageError, match="there is no such user"):
        paths.given_path("~nobody.of.this.name/notes")


def test_a_new_file_that_could_not_be_written_is_deleted(tmp_path):
    path = tmp_path / "key"

    def write(error: BaseException) -> None:
        with paths.new_file(str(path)) as file:
            file.write("half")
            raise error

    with pytest.raises(ShepherdError, match="key: No space left on device; the file was deleted"):
        write(OSError(28, "No space left on device"))
    with pytest.raises(KeyboardInterrupt):
        write(KeyboardInterrupt())

    assert not path.exists()
