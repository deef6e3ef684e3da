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
    assert "--nomemory" in done.stderr
    assert "s3cret" not in done.stderr
