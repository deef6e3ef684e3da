"""An account finds its memory again after the machine was renamed, and never takes that of another person."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from pathlib import Path

import pytest

from shepherd.config import Config
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.memory.account import Account, find_user, is_own_file
from shepherd.memory_factory import open_memory

LAPTOP, DESKTOP = 11, 22  # numbers of an account on two machines


def found(
    path: Path, host: str, number: int = LAPTOP, *, login: str = "steve", is_own: bool = True
) -> tuple[str, str]:
    """Who this account is in the database, as after a start, and what the user is told."""
    with Memory(path, user_id="nobody") as memory:
        account = Account(f"{host}:{login}", number)
        return find_user(memory.transactions, account, is_own=is_own, writes=True)


def store(path: Path, *users: str) -> None:
    with Memory(path) as memory:
        for user in users:
            memory.set_fact("name", "Steve", user)


def test_a_renamed_machine_finds_its_user_by_the_note(path):
    assert found(path, "old") == ("old:steve", "")
    store(path, "old:steve", "anna", "web:steve")

    # Without the note, this would be undecided: somebody else is in the database, and it may be shared.
    assert found(path, "new", is_own=False) == ("old:steve", "")
    assert found(path, "newer", is_own=False) == ("old:steve", "")


def test_the_note_holds_when_the_new_name_has_rows(path):
    found(path, "old")
    store(path, "old:steve", "new:steve")

    assert found(path, "new") == ("old:steve", "")


@pytest.mark.parametrize("number", [LAPTOP, 0])
def test_an_older_database_with_one_user_of_this_login_is_continued(path, number):
    store(path, "old:steve", "local")

    assert found(path, "new", number) == ("old:steve", "")


@pytest.mark.parametrize("others", [["anna"], ["old:anna"], ["older:steve"], ["anna/steve"]])
def test_nothing_is_assumed_where_other_people_use_the_database(path, others):
    store(path, "old:steve", *others)

    user, message = found(path, "new")

    assert user == "new:steve"
    assert "shepherd config set user_id old:steve" in message


def test_the_command_that_is_named_runs_where_path_does_not_have_the_program(path, monkeypatch):
    store(path, "old:steve", "anna")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")

    _, message = found(path, "new")

    program = re.search(r"(\S+) config set user_id old:steve$", message)
    assert program is not None
    assert subprocess.run([program[1], "--version"], capture_output=True, check=False).returncode == 0


def test_nothing_is_assumed_of_a_file_that_others_can_have_made(path):
    store(path, "old:steve")

    user, message = found(path, "new", is_own=False)

    assert user == "new:steve"
    assert message.endswith("shepherd config set user_id old:steve")


@pytest.mark.parametrize("number", [DESKTOP, 0])
def test_the_same_login_of_another_machine_is_not_taken(path, number):
    found(path, "laptop", LAPTOP)
    store(path, "laptop:steve")

    user, message = found(path, "desktop", number)

    assert user == "desktop:steve"
    assert "shepherd config set user_id laptop:steve" in message
    # It is asked until it is answered, one way or the other.
    assert found(path, "desktop", number)[1] == message


@pytest.mark.parametrize("other", ["old:anna", "anna", "x y:steve", ":steve", "a/b:steve", "old:steve:x"])
def test_another_login_is_never_taken_nor_mentioned(path, other):
    store(path, other)

    assert found(path, "new") == ("new:steve", "")


def test_two_accounts_of_one_machine_stay_apart(path):
    assert found(path, "old", 1, login="steve")[0] == "old:steve"
    store(path, "old:steve")
    assert found(path, "old", 2, login="anna")[0] == "old:anna"
    store(path, "old:anna")

    assert found(path, "new", 1, login="steve") == ("old:steve", "")
    assert found(path, "new", 2, login="anna") == ("old:anna", "")


def test_a_memory_begun_under_the_new_name_is_kept_and_the_old_one_mentioned_once(path):
    store(path, "old:steve", "new:steve")

    user, message = found(path, "new")

    assert user == "new:steve"
    assert message.endswith("shepherd memory claim --from old:steve")
    assert found(path, "new") == ("new:steve", "")


def test_conversations_and_documents_alone_are_found_as_well(path):
    with Memory(path) as memory:
        memory.start_session("old:steve", "a model")
    assert found(path, "new", 0)[0] == "old:steve"

    with Memory(path) as memory:
        Knowledge(memory.transactions, "old:anna").add_node("a note")
    assert found(path, "new", 0, login="anna", is_own=False)[1]


def test_a_file_is_ones_own_only_in_ones_home(tmp_path, monkeypatch):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "memory.db").touch()
    monkeypatch.setenv("HOME", str(home))
    (home / "link.db").symlink_to(elsewhere / "memory.db")

    assert is_own_file(home / "memory.db")
    assert not is_own_file(elsewhere / "memory.db")
    assert not is_own_file(home / "link.db")
    assert not is_own_file(home / "missing.db")
    if os.geteuid() == 0:
        os.chown(home / "memory.db", 12345, -1)
        assert not is_own_file(home / "memory.db")


def notes(path: Path) -> list[tuple[str, int]]:
    with Memory(path) as memory:
        return memory.transactions.read(
            lambda connection: connection.execute(
                "SELECT key, value FROM meta WHERE key LIKE 'account%' ORDER BY key"
            )
        )


def test_an_account_is_noted_once_and_only_with_a_number(path):
    store(path, "old:steve")
    assert found(path, "old", 0) == ("old:steve", "")
    assert notes(path) == []
    assert found(path, "old", LAPTOP) == ("old:steve", "")
    before = notes(path)
    assert [number for _, number in before] == [LAPTOP]
    assert before[0][0].endswith("old:steve")
    # A number of another account does not replace it.
    assert found(path, "old", DESKTOP) == ("old:steve", "")
    assert notes(path) == before


@pytest.fixture
def renamed(tmp_path, monkeypatch, caplog):
    """Names this machine; in an empty home folder, of the user steve."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOGNAME", "steve")
    for name in ("XDG_DATA_HOME", "SHEPHERD_USER_ID"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level(logging.WARNING)

    def rename(name: str) -> None:
        monkeypatch.setattr("socket.gethostname", lambda: name)

    return rename


def test_the_memory_of_the_settings_survives_a_renamed_machine(renamed, caplog):
    renamed("old")
    with open_memory(Config()) as memory:
        memory.set_fact("name", "Steve")

    renamed("new")
    with open_memory(Config(), read_only=True) as memory:
        assert (memory.user_id, memory.get_fact("name")) == ("old:steve", "Steve")
    with open_memory(Config(user_id="new:steve")) as memory:
        assert memory.get_fact("name") is None
    assert not caplog.records


def test_what_cannot_be_decided_is_said_with_the_command_that_helps(renamed, caplog, tmp_path):
    with Memory(tmp_path / "shared.db") as memory:
        memory.set_fact("name", "Steve", "old:steve")
        memory.set_fact("name", "Anna", "anna")
    renamed("new")

    with open_memory(Config(memory_database=str(tmp_path / "shared.db"))) as memory:
        assert memory.user_id == "new:steve"

    assert "shepherd config set user_id old:steve" in caplog.text
