"""The command line on a memory in PostgreSQL."""

from __future__ import annotations

import pytest


@pytest.fixture
def role(postgres_server):
    """An address with a password in it, of somebody who may make schemas."""
    name = postgres_server.new_schema()
    postgres_server.execute(f"CREATE ROLE {name} LOGIN PASSWORD 's3cret'")
    postgres_server.execute(f"GRANT CREATE ON DATABASE postgres TO {name}")
    return postgres_server.url(f"memory of {name}", user=name, password="s3cret")


def test_commands_work_and_never_show_the_password(shepherd, model, role):
    at = {"SHEPHERD_MEMORY_DATABASE": role}

    before = shepherd("doctor", "-m", model, **at)
    shepherd("facts", "set", "name", "Steve", **at)
    shepherd("memory", "add", "Which IDE?", "VS Code", **at)
    answered = shepherd("-m", model, "-e", "Which IDE do I use?", **at)
    found = shepherd("memory", "search", "ide", **at)
    checked = shepherd("memory", "check", **at)
    stats = shepherd("memory", "stats", **at)
    after = shepherd("doctor", "-m", model, **at)
    settings = shepherd("config", "show", **at)

    everything = (before, answered, found, checked, stats, after, settings)
    assert [done.returncode for done in everything] == [0] * len(everything)
    assert "made when something is remembered" in before.stdout
    assert "VS Code" in found.stdout
    assert "postgresql://" in stats.stdout
    assert "1 fact of steve" in after.stdout
    assert not any("s3cret" in done.stdout + done.stderr for done in everything)


def test_backup_says_what_to_do_instead(shepherd, role, tmp_path):
    done = shepherd("memory", "backup", tmp_path / "copy", "--memory-db", role)

    assert done.returncode == 2
    assert "pg_dump" in done.stderr
    assert "s3cret" not in done.stderr


def test_set_does_not_repeat_the_password(shepherd, role):
    done = shepherd("config", "set", "memory_database", role)

    assert done.returncode == 0
    assert "warning" not in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
    assert "***" in done.stderr
    assert "s3cret" not in shepherd("config", "get", "memory_database", "--json").stdout


def test_server_that_is_away_costs_a_message_and_a_remedy(shepherd, tmp_path):
    done = shepherd("memory", "list", "--memory-db", f"postgresql://u:s3cret@/db?host={tmp_path}")

    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert "are host and port right?" in done.stderr
    assert "--nomemory" not in done.stderr  # for chats alone
    assert "s3cret" not in done.stderr


def test_a_blind_memory_gets_another_key(shepherd, role, tmp_path):
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    old.write_text("ab" * 32)
    at = {"SHEPHERD_MEMORY_DATABASE": role, "SHEPHERD_MEMORY_BLIND": "true"}
    with_old, with_new = (at | {"SHEPHERD_MEMORY_KEY_FILE": str(file)} for file in (old, new))
    assert shepherd("facts", "set", "name", "Steve", **with_old).returncode == 0

    unchanged = shepherd("encrypt", **with_old)
    taken = shepherd("encrypt", "--rekey", "-y", **with_old)
    done = shepherd("encrypt", "--rekey", "--key-file", new, "-y", **with_old)

    said = " ".join(unchanged.stderr.split())
    assert "is already blind; to change its key, run shepherd encrypt --rekey" in said
    assert (taken.returncode, done.returncode) == (2, 0), done.stderr
    assert "a new key needs a new file" in taken.stderr
    assert f"memory_key_file {new}" in " ".join(done.stderr.split())
    assert "s3cret" not in unchanged.stderr + taken.stderr + done.stderr
    assert "is not its key" in " ".join(shepherd("facts", "get", "name", **with_old).stderr.split())
    assert shepherd("facts", "get", "name", **with_new).stdout == "Steve\n"


def test_a_key_is_not_changed_without_the_old_one(shepherd, role, tmp_path):
    old, new = tmp_path / "old.key", tmp_path / "new.key"
    old.write_text("ab" * 32)
    at = {"SHEPHERD_MEMORY_DATABASE": role, "SHEPHERD_MEMORY_BLIND": "true"}
    with_old = at | {"SHEPHERD_MEMORY_KEY_FILE": str(old)}
    assert shepherd("facts", "set", "name", "Steve", **with_old).returncode == 0

    done = shepherd("encrypt", "--rekey", "--key-file", new, "-y", **at)

    assert done.returncode == 1
    assert "its key is missing" in done.stderr
    assert not new.exists()
    assert shepherd("facts", "get", "name", **with_old).stdout == "Steve\n"
