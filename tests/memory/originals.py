"""Databases of the original Shepherd, each generation as its own program made it.

They are built and read by programs of their own with Python's sqlite3: in a process that has a memory
database open a second copy of SQLite must not touch it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import programs

_COLUMNS = """
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_message TEXT NOT NULL,
        assistant_response TEXT NOT NULL,
        timestamp INTEGER NOT NULL,
        content_hash TEXT UNIQUE NOT NULL"""


def _memories(table: str, *, users: bool = True) -> str:
    user = ",\n        user_id TEXT NOT NULL DEFAULT 'local'" if users else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({_COLUMNS}{user}\n    );\n"


def index(table: str) -> str:
    """The full-text table and its triggers: rows from before it was made are not in it."""
    fields = "user_message, assistant_response"
    new, old = (
        "new.id, new.user_message, new.assistant_response",
        "old.id, old.user_message, old.assistant_response",
    )
    insert = f"INSERT INTO {table}_fts(rowid, {fields}) VALUES ({new});"
    delete = f"INSERT INTO {table}_fts({table}_fts, rowid, {fields}) VALUES ('delete', {old});"
    return f"""
    CREATE VIRTUAL TABLE IF NOT EXISTS {table}_fts USING fts5(
        {fields}, content='{table}', content_rowid='id');
    CREATE TRIGGER IF NOT EXISTS {table}_ai AFTER INSERT ON {table} BEGIN {insert} END;
    CREATE TRIGGER IF NOT EXISTS {table}_ad AFTER DELETE ON {table} BEGIN {delete} END;
    CREATE TRIGGER IF NOT EXISTS {table}_au AFTER UPDATE ON {table} BEGIN {delete} {insert} END;
    CREATE INDEX IF NOT EXISTS idx_{table}_timestamp ON {table}(timestamp);
    """


_FACTS_BY_KEY = """
    CREATE TABLE facts (
        key TEXT PRIMARY KEY, value TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL);
"""
FACTS = """
    CREATE TABLE facts (
        user_id TEXT NOT NULL DEFAULT 'local', key TEXT NOT NULL, value TEXT NOT NULL,
        created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, PRIMARY KEY (user_id, key));
"""
ADD_USER = """
    ALTER TABLE conversations ADD COLUMN user_id TEXT NOT NULL DEFAULT 'local';
    CREATE INDEX idx_conversations_user ON conversations(user_id);
"""
_RENAME = """
    DROP TRIGGER conversations_ai; DROP TRIGGER conversations_ad; DROP TRIGGER conversations_au;
    DROP TABLE conversations_fts; DROP INDEX idx_conversations_timestamp;
    ALTER TABLE conversations RENAME TO context;
"""

# Scripts by generation. The later ones are reached as their users reached them: by what came before.
V2_22 = _memories("conversations", users=False) + index("conversations")
V2_22_FACTS = V2_22 + _FACTS_BY_KEY
V2_28 = V2_22_FACTS + ADD_USER
V2_30 = V2_22 + ADD_USER + FACTS
CONTEXT = _memories("context") + index("context")
V2_32 = CONTEXT + FACTS
V2_32_RENAMED = V2_30 + _RENAME + index("context")
V2_32_BOTH = V2_30 + CONTEXT
UNINDEXED = _memories("context") + FACTS

_BUILD = """
import json, os, sqlite3, sys
(path, journal, end), steps = sys.argv[1:], json.load(sys.stdin)
connection = sqlite3.connect(path, isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {journal}")
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("PRAGMA synchronous = OFF")
for sql, rows in steps:
    if rows is None:
        connection.executescript(sql)
    else:
        connection.execute("BEGIN")
        connection.executemany(sql, rows)
        connection.execute("COMMIT")
if end == "killed while writing":
    # Pages of an unfinished transaction are in the file; the journal beside it takes them back.
    connection.execute("PRAGMA cache_size = 5")
    connection.execute("BEGIN")
    connection.execute("UPDATE context SET user_message = 'half ' || user_message || hex(zeroblob(2000))")
if end != "closed":
    os._exit(0)
connection.close()
"""

_READ = """
import json, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
kept = [name for name in ("context", "conversations", "facts") if name in names]
found = {name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall()) for name in kept}
found["schema"] = sorted(connection.execute("SELECT sql FROM sqlite_master WHERE sql NOT NULL").fetchall())
found["damage"] = connection.execute("PRAGMA integrity_check").fetchall()
print(json.dumps(found))
"""

Rows = Sequence[Sequence[object]]


def build(
    path: Path,
    *steps: str | tuple[str, Rows],
    journal: str = "delete",
    end: str = "closed",
) -> None:
    """Makes a database in a process of its own; a step is a script, or a statement with rows.

    `end`: closed; killed (what is in a log stays there); killed while writing.
    """
    listed = [(step, None) if isinstance(step, str) else step for step in steps]
    command = [sys.executable, "-c", _BUILD, str(path), journal, end]
    programs.run(
        command,
        input=json.dumps(listed),
        text=True,
        check=True,
        capture_output=True,
        timeout=60,
        env=_forked(),
    )


def contents(path: Path) -> Any:
    """What another program sees in the original's tables, and whether it finds damage."""
    command = [sys.executable, "-c", _READ, str(path)]
    done = programs.run(command, check=True, capture_output=True, text=True, timeout=60, env=_forked())
    return json.loads(done.stdout)


def _forked() -> dict[str, str]:
    return {**os.environ, "PYTHONUTF8": "1"}  # as what is forked has it
