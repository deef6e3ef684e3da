"""What `shepherd sync` says and asks, in this process."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from shepherd.cli import sync
from shepherd.commands.screen import Screen
from shepherd.errors import ShepherdError
from shepherd.memory import Memory


class Terminal(io.StringIO):
    """A stream that a person reads or types into."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def memory(tmp_path, monkeypatch) -> Iterator[Memory]:
    """Opened where the command opens it, in a home folder of user steve."""
    for name in [name for name in os.environ if name.startswith(("SHEPHERD_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHEPHERD_USER_ID", "steve")
    monkeypatch.setenv("NO_COLOR", "1")
    with Memory(user_id="steve") as memory:
        yield memory


@pytest.fixture
def folder(tmp_path) -> Path:
    folder = tmp_path / "carried"
    folder.mkdir()
    return folder


def run(*words: str, typed: str | None = None) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; `typed` is what a person at a terminal answers."""
    screen = Screen(io.StringIO(), io.StringIO() if typed is None else Terminal())
    arguments = sync.build_parser().parse_args(list(words))
    screen.as_json = arguments.json
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO() if typed is None else Terminal(f"{typed}\n"))
        try:
            code = sync.execute(arguments, screen)
        except ShepherdError as error:
            return error.exit_code, "", f"{error} | {error.hint}"
    return code, screen.out.getvalue(), screen.err.getvalue()


def test_before_the_first_sync_there_is_nothing_to_do(memory, folder):
    none = "this memory is not synced yet | name a folder: shepherd sync FOLDER"

    assert run() == run("--status") == (2, "", none)
    assert run("--leave", "-y") == (0, "", "nothing was synced\n")
    code, _, err = run(str(folder))
    assert (code, "no terminal to ask at: Begin a sync in " in err) == (2, True)


def test_a_sync_begins_after_asking_and_with_a_passphrase_that_is_long_enough(memory, folder, tmp_path):
    memory.store_memory("Which dog?", "Rex")
    memory.set_fact("name", "Steve")
    (tmp_path / "short").write_text("1234567\n")
    key = ("--key-file", str(tmp_path / "short"))

    code, _, err = run(str(folder), typed="n")
    assert code == 1
    assert f"Begin a sync in {folder}, encrypted, with 1 memory, 1 fact and 0 nodes of steve? [y/N]" in err
    assert err.endswith("nothing was changed\n")
    assert run(str(folder), "-y", *key) == (
        2, "", "the passphrase is shorter than 8 characters | use four words or more"
    )  # fmt: skip
    assert run("--status")[0] == 2


def test_a_sync_says_what_it_did_and_how_it_is(memory, folder, tmp_path):
    memory.store_memory("Which dog?", "Rex")
    (tmp_path / "key").write_text("12345678\n")

    code, out, err = run(str(folder), "-y", "--key-file", str(tmp_path / "key"))
    assert (code, out) == (0, "")
    first, then = err.splitlines()
    assert first.startswith(f"synced with {folder}: ")
    assert first.endswith(" written, 0 changes read")
    assert then.startswith("Run the same command on your other machines")
    memory.store_memory("Which boat?", "A ketch")
    status = json.loads(run("--status", "--json")[1])
    assert (status["folder"], status["unwritten"], len(status["machines"])) == (str(folder), 1, 1)
    code, out, err = run("--status")
    assert (code, err) == (0, "1 change of this machine not written yet\n")
    assert "this machine" in out
    assert run()[2] == f"synced with {folder}: 1 change written, 0 changes read\n"
    assert json.loads(run("--json")[1])["folder"] == str(folder)
    assert run("--status")[2] == "0 changes of this machine not written yet\n"

    code, _, err = run("--remove", "abcd", typed="n")
    assert code == 1
    assert "Take over what abcd has written, and delete its files? [y/N]" in err
    assert err.endswith("nothing was changed\n")
    assert run("--remove", "abcd", "-y")[0] != 0
    code, _, err = run("--leave", typed="n")
    assert (code, err.endswith("nothing was changed\n")) == (1, True)
    assert json.loads(run("--leave", "-y", "--json")[1]) == {"left": True}
    told, left = run("--leave", "-y")[2].splitlines()
    assert told == "nothing was synced"
    assert left.endswith("this memory wrote them before shepherd sync --leave; delete them")
