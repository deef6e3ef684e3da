"""`shepherd sync` as its users meet it: two homes, one folder, a passphrase typed at a terminal."""

from __future__ import annotations

import json
import sys

import pytest

from tests import programs

PASSPHRASE = "four random words here"


@pytest.fixture
def other(new_home, tmp_path):
    """Runs `shepherd` on a second machine."""
    second = new_home(tmp_path / "second")
    second.environment["SHEPHERD_USER_ID"] = "steve-on-b"

    def run(*arguments: str) -> programs.subprocess.CompletedProcess[str]:
        return programs.run(
            [sys.executable, "-m", "shepherd", *arguments],
            capture_output=True,
            text=True,
            env=second.environment,
            timeout=120,
            check=False,
        )

    return run


def test_two_machines_sync_and_forget_through_a_folder(home, shepherd, other, tmp_path):
    folder, key = tmp_path / "folder", tmp_path / "key"
    key.write_text(PASSPHRASE + "\n")
    assert "no such folder" in shepherd("sync", folder, "-y").stderr
    folder.mkdir()
    shepherd("memory", "add", "Which editor?", "Helix")
    shepherd("facts", "set", "name", "Steve")
    shepherd("config", "set", "answer_style", "casual")
    child = programs.spawn(
        sys.executable,
        ["-m", "shepherd", "sync", str(folder)],
        env=home.environment,
        encoding="utf-8",
        timeout=60,
    )
    child.expect("encrypted, with 1 memory, 1 fact and 0 nodes of steve")
    child.sendline("y")
    child.expect("New passphrase")
    child.sendline(PASSPHRASE)
    child.expect("Repeat the passphrase")
    child.sendline(PASSPHRASE)
    child.expect("write it down")
    child.wait()

    wrong = other("sync", str(folder), "--key-command", "echo not the passphrase", "-y")
    assert wrong.returncode == 1
    assert "not the passphrase of this folder; nothing was changed" in wrong.stderr
    joined = other("sync", str(folder), "--key-file", str(key), "-y", "--json")
    assert json.loads(joined.stdout)["read"] == {"m": 1, "c": 1, "s": 1}
    assert other("facts", "get", "name").stdout == "Steve\n"
    assert other("config", "get", "answer_style").stdout == "casual\n"

    other("memory", "forget", "--question", "Which editor?")
    assert "1 change written" in other("sync").stderr
    assert "1 change of 1 other machine read" in shepherd("sync").stderr
    assert shepherd("memory", "list").stdout == ""
    rows = json.loads(shepherd("sync", "--status", "--json").stdout)
    assert [machine["is_own"] for machine in rows["machines"]].count(True) == 1
    assert rows["unwritten"] == 0

    assert "no longer synced" in shepherd("sync", "--leave", "-y").stderr
    assert "not synced yet" in shepherd("sync").stderr


def test_a_first_sync_without_a_terminal_says_what_is_missing(shepherd, tmp_path):
    (tmp_path / "folder").mkdir()

    unconfirmed = shepherd("sync", tmp_path / "folder")
    unknown = shepherd("sync", tmp_path / "folder", "-y")
    short = shepherd("sync", tmp_path / "folder", "-y", "--key-command", "echo short")

    assert (unconfirmed.returncode, unknown.returncode, short.returncode) == (2, 2, 2)
    assert "add --yes to confirm" in unconfirmed.stderr
    assert "--key-file FILE or --key-command COMMAND" in unknown.stderr
    assert "shorter than 8 characters" in short.stderr
    assert not list((tmp_path / "folder").iterdir())


def test_a_memory_on_a_server_is_not_synced(shepherd, tmp_path, postgres_server):
    address = postgres_server.url(postgres_server.new_schema())

    done = shepherd("sync", tmp_path, "-y", SHEPHERD_MEMORY_DATABASE=address)

    assert done.returncode == 2
    assert "sync is for a memory in a file" in done.stderr
