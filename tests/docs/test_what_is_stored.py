"""The page about what is stored names every table that there is, on both engines, readable and blind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from shepherd.memory import Memory
from tests.memory.blind import known_key

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/what-is-stored.md").read_text("utf-8")


def named_in(heading: str) -> set[str]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return {name for row in re.findall(r"^\|([^|]+)\|", section, re.MULTILINE) for name in in_code(row)}


def in_code(text: str) -> list[str]:
    return re.findall(r"`([\w*]+)`", text)


def missing(tables: Iterable[str], named: set[str]) -> list[str]:
    return sorted(table for table in tables if not any(fnmatch(table, name) for name in named))


def tables_of_server(memory: Memory) -> list[str]:
    sql = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
    return [name for (name,) in memory.transactions.read(lambda connection: connection.execute(sql))]


def test_every_table_of_a_file_is_named(tmp_path):
    with Memory(tmp_path / "memory.db") as memory:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        names = {name for (name,) in memory.transactions.read(lambda connection: connection.execute(sql))}
    # FTS5 keeps an index in several tables of its own.
    indexes = {name for name in names if name.endswith("_fts")}
    tables = {name for name in names if not name.startswith(tuple(f"{index}_" for index in indexes))}

    assert indexes
    assert missing(tables, named_in("In the database")) == []


def test_every_table_of_a_server_is_named(postgres_server):
    with Memory(postgres_server.url(postgres_server.new_schema())) as memory:
        tables = tables_of_server(memory)

    assert "context_terms" in tables
    assert missing(tables, named_in("In the database")) == []


def test_every_table_of_a_blind_memory_is_named(postgres_server, tmp_path):
    with known_key(tmp_path), Memory(postgres_server.url(postgres_server.new_schema()), blind=True) as memory:
        tables = tables_of_server(memory)

    named = named_in("While the memory is blind")
    # Those that only index or count what other tables hold, and those of features that need a readable one.
    others = {"*_changes", "chunk_terms", "node_dimensions", "focused_nodes", "knowledge_sums", "sync_*"}
    assert "user_keys" in tables
    assert missing(tables, named | others) == []
