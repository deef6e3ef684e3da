"""The tables of a sync, and the triggers that log every change of what is synced.

They are made at the first sync: a memory that is not synced stays as it is. The triggers run inside the
transaction of the change, whatever made it. Inside the caller's transaction.
"""

from __future__ import annotations

from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection

__all__ = ["create", "drop", "drop_left", "exists", "get", "left", "note_left", "put"]

# sync_state: folder, key, machine, user, place in the own segments. sync_log: changes that are not written
# yet, with the time in milliseconds; note: of a deleted memory, the hash of its text. sync_rows: registers,
# see records.py. sync_seen: how far the segments of each machine were read. sync_own: own segments with a
# text; stale: it is not current any more. sync_outbox: sealed frames that a killed run may not have written.
_TABLES = (
    "CREATE TABLE sync_state(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE sync_log(
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        id INTEGER NOT NULL,
        note TEXT NOT NULL DEFAULT '',
        at INTEGER NOT NULL)""",
    """CREATE TABLE sync_rows(
        kind TEXT NOT NULL,
        gid TEXT NOT NULL,
        local INTEGER NOT NULL,
        stamp INTEGER NOT NULL,
        machine TEXT NOT NULL,
        gone INTEGER NOT NULL,
        written INTEGER NOT NULL,
        topic TEXT NOT NULL,
        note TEXT NOT NULL,
        PRIMARY KEY(kind, gid)) WITHOUT ROWID""",
    "CREATE INDEX sync_local ON sync_rows(kind, local) WHERE local <> 0",
    "CREATE INDEX sync_topic ON sync_rows(topic) WHERE kind = 'c'",
    "CREATE INDEX sync_pending ON sync_rows(gid) WHERE kind = 'e' AND local = 0 AND gone = 0",
    """CREATE TABLE sync_seen(
        machine TEXT PRIMARY KEY,
        segment INTEGER NOT NULL,
        frame INTEGER NOT NULL,
        number INTEGER NOT NULL,
        name TEXT NOT NULL,
        at INTEGER NOT NULL) WITHOUT ROWID""",
    """CREATE TABLE sync_own(
        kind TEXT NOT NULL,
        gid TEXT NOT NULL,
        segment INTEGER NOT NULL,
        stale INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY(kind, gid, segment)) WITHOUT ROWID""",
    "CREATE INDEX sync_own_segment ON sync_own(segment)",
    "CREATE INDEX sync_own_stale ON sync_own(segment) WHERE stale = 1",
    """CREATE TABLE sync_outbox(
        segment INTEGER NOT NULL,
        frame INTEGER NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY(segment, frame))""",
)
_NAMES = ("sync_state", "sync_log", "sync_rows", "sync_seen", "sync_own", "sync_outbox")
# Keys in `meta` have behind this the id that this memory had as a machine, a blank, and the path of a folder
# that it has left, with the files of that machine.
_LEFT = "sync_left/"
_IS_LEFT = "key >= 'sync_left/' AND key < 'sync_left0'"
_NOW = "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
_NODE_COLUMNS = (
    "kind, title, link, event_date, updated_at, content_hash, metadata, description, notes, source_text"
)
# Name, event, table, and what is logged: kind, id, note. A kind with '-' is a deletion.
_LOGGED = (
    ("context_added", "INSERT", "context", "'m', NEW.id, ''"),
    (
        "context_changed",
        "UPDATE OF user_message, assistant_response, timestamp, source, session",
        "context",
        "'m', NEW.id, ''",
    ),
    ("context_pinned", "UPDATE OF pinned", "context", "'p', NEW.id, ''"),
    ("context_deleted", "DELETE", "context", "'m-', OLD.id, OLD.content_hash"),
    ("fact_history_added", "INSERT", "fact_history", "'c', NEW.id, ''"),
    ("fact_history_changed", "UPDATE OF statement", "fact_history", "'c', NEW.id, ''"),
    ("fact_history_deleted", "DELETE", "fact_history", "'c-', OLD.id, ''"),
    ("nodes_added", "INSERT", "nodes", "'n', NEW.id, ''"),
    ("nodes_changed", f"UPDATE OF {_NODE_COLUMNS}", "nodes", "'n', NEW.id, ''"),
    ("nodes_deleted", "DELETE", "nodes", "'n-', OLD.id, ''"),
    ("node_dimensions_added", "INSERT", "node_dimensions", "'n', NEW.node_id, ''"),
    ("node_dimensions_deleted", "DELETE", "node_dimensions", "'n', OLD.node_id, ''"),
    ("edges_added", "INSERT", "edges", "'e', NEW.id, ''"),
    ("edges_changed", "UPDATE OF type, explanation, confidence", "edges", "'e', NEW.id, ''"),
    ("edges_deleted", "DELETE", "edges", "'e-', OLD.id, ''"),
    ("dimensions_added", "INSERT", "dimensions", "'d', 0, ''"),
    ("dimensions_changed", "UPDATE", "dimensions", "'d', 0, ''"),
    ("dimensions_deleted", "DELETE", "dimensions", "'d', 0, ''"),
)
# What is there already, with its own times: they decide between the first values of two machines.
_FIRST = (
    f"""SELECT 'm', id, '', timestamp * 1000 FROM context
        WHERE id >> {SEQUENCE_BITS} = (SELECT number FROM tenants WHERE user_id = ?1) ORDER BY id""",
    "SELECT 'c', id, '', changed_at * 1000 FROM fact_history WHERE user_id = ?1 ORDER BY changed_at, id",
    "SELECT 'n', id, '', updated_at * 1000 FROM nodes WHERE user_id = ?1 ORDER BY id",
    "SELECT 'e', id, '', created_at * 1000 FROM edges WHERE user_id = ?1 ORDER BY id",
    f"SELECT 'd', 0, '', {_NOW} WHERE ?1 <> ''",
)


def exists(connection: Connection) -> bool:
    """Return whether this database is synced."""
    return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sync_state'"))


def create(connection: Connection, user_id: str, state: dict[str, str]) -> None:
    """Make tables and triggers for a user, and log all that is there."""
    for statement in _TABLES:
        connection.execute(statement)
    put(connection, {**state, "user": user_id, "version": "1"})
    owner = "'" + user_id.replace("'", "''") + "'"
    for name, event, table, logged in _LOGGED:
        row = "OLD" if event == "DELETE" else "NEW"
        connection.execute(
            f"CREATE TRIGGER sync_{name} AFTER {event} ON {table} WHEN {row}.user_id = {owner} BEGIN"
            f" INSERT INTO sync_log(kind, id, note, at) VALUES({logged}, {_NOW}); END"
        )
    # A claim gives rows another owner: for its former one they are gone, for the new one they begin.
    connection.execute(
        "CREATE TRIGGER sync_fact_history_claimed AFTER UPDATE OF user_id ON fact_history"
        f" WHEN NEW.user_id = {owner} OR OLD.user_id = {owner} BEGIN INSERT INTO sync_log(kind, id, at)"
        f" VALUES(CASE NEW.user_id WHEN {owner} THEN 'c' ELSE 'c-' END, NEW.id, {_NOW}); END"
    )
    for select in _FIRST:
        connection.execute(f"INSERT INTO sync_log(kind, id, note, at) {select}", (user_id,))


def drop(connection: Connection) -> None:
    """Remove tables and triggers; what was synced stays."""
    for name in [name for name, *_ in _LOGGED] + ["fact_history_claimed"]:
        connection.execute(f"DROP TRIGGER IF EXISTS sync_{name}")
    for table in _NAMES:
        connection.execute(f"DROP TABLE IF EXISTS {table}")


def get(connection: Connection) -> dict[str, str]:
    """Return the state."""
    return dict(connection.execute("SELECT key, value FROM sync_state"))


def put(connection: Connection, values: dict[str, str]) -> None:
    """Change values of the state."""
    connection.execute_many(
        "INSERT INTO sync_state(key, value) VALUES(?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        list(values.items()),
    )


def note_left(connection: Connection, machine: str, path: str) -> None:
    """Record that files of this memory stay in a folder."""
    connection.execute(
        "INSERT INTO meta(key, value) VALUES(?, 1) ON CONFLICT DO NOTHING", (f"{_LEFT}{machine} {path}",)
    )


def left(connection: Connection) -> list[tuple[str, str]]:
    """Return the ids and the folders that `note_left` has recorded."""
    rows = connection.execute(f"SELECT key FROM meta WHERE {_IS_LEFT} ORDER BY key")
    found = [key.removeprefix(_LEFT).partition(" ") for (key,) in rows]
    return [(machine, path) for machine, _, path in found]


def drop_left(connection: Connection) -> None:
    """Forget which folders have files of this memory."""
    connection.execute(f"DELETE FROM meta WHERE {_IS_LEFT}")
