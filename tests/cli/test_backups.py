"""`shepherd memory backup --keys` and `restore --keys`: users who were deleted since are left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shepherd._native.store import HAS_CIPHERS
from shepherd.config import Config
from shepherd.memory import Memory
from shepherd.memory.overwriting import in_use
from shepherd.stored_files import leftovers
from tests.memory.blind import known_key

pytestmark = pytest.mark.skipif(not HAS_CIPHERS, reason="this SQLite was built without ciphers")


def test_users_who_were_deleted_since_a_backup_are_left_out(home, shepherd, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    backup, later, keys = (str(folder / name) for name in ("copy.db", "later.db", "keys.db"))
    with known_key(folder), Memory(home.database, blind=True) as memory:
        memory.set_fact("city", "Porto", "anna")
        memory.set_fact("city", "Rome", "bob")
        memory.backup(backup, keys=keys)
        memory.delete_user("bob")

    made = shepherd("memory", "backup", later, "--keys", keys)
    assert f"shepherd memory restore {later} --keys {keys} puts it back" in made.stderr
    assert "Keep only the newest keys file: it opens all older backups, except for users" in made.stderr

    alone = shepherd("memory", "restore", backup, "-y")
    assert alone.returncode == 2
    assert f"{backup}: the users' keys are in a file of their own" in alone.stderr
    done = shepherd("memory", "restore", backup, "--keys", keys, "-y", "--json")
    assert json.loads(done.stdout)["left_out"] == ["bob"]
    assert f"nothing of bob can be restored: {keys} has no key of theirs" in done.stderr
    assert not list(home.path.rglob("*.decrypting*"))
    with known_key(folder), Memory(home.database, blind=True) as memory:
        assert [fact.value for fact in memory.get_all_facts("anna")] == ["Porto"]
        assert memory.get_all_facts("bob") == []


def test_mistaken_names_are_refused(home, shepherd, tmp_path):
    backup, keys = (str(tmp_path / name) for name in ("copy.db", "keys.db"))
    with known_key(tmp_path), Memory(home.database, blind=True) as memory:
        memory.backup(backup, keys=keys)

    for action in ("backup", "restore"):
        for names in ((backup, "--keys", ""), ("", "--keys", keys)):
            empty = shepherd("memory", action, *names)
            assert empty.returncode == 2
            assert "the name of the file is empty" in empty.stderr
    swapped = shepherd("memory", "restore", keys, "--keys", backup, "-y")
    assert swapped.returncode == 2
    assert f"{keys}: this file has the users' keys" in swapped.stderr
    assert f"shepherd memory restore {backup} --keys {keys}" in swapped.stderr
    alone = shepherd("memory", "restore", keys, "-y")
    assert "this file has the users' keys of backups, and nothing else" in alone.stderr


def test_what_a_killed_restore_has_decrypted_is_removed_unless_it_is_in_use(home, shepherd, tmp_path):
    with known_key(tmp_path), Memory(home.database, blind=True) as memory:
        memory.set_fact("city", "Porto", "anna")
        copies = [f"{home.database}.decrypting{end}" for end in ("", "-2")]
        for number, copy in enumerate(copies):
            memory.backup(made := tmp_path / f"{number}.db")
            for end in ("", "-key"):
                Path(f"{made}{end}").rename(f"{copy}{end}")
        others = [Path(f"{home.database}.decrypting-3-key"), Path(f"{home.database}.decrypting-notes")]
        others[0].write_bytes(Path(f"{copies[0]}-key").read_bytes())
        others[1].write_text("of the user")
        assert sorted(map(str, leftovers(Config(memory_database=str(home.database))))) == sorted(
            [*copies, *(f"{copy}-key" for copy in copies), str(others[0])]
        )
    with known_key(tmp_path), in_use(copies[1]):
        Memory(home.database, blind=True).close()

        left = sorted(map(str, home.database.parent.glob("*.decrypting*")))
        assert left == [copies[1], f"{copies[1]}-key", str(others[1])]
