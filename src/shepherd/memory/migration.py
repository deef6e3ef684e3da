"""Migration of the original Shepherd's database into our tables, inside the caller's transaction.

Its generations, several of which can be in one file:

    conversations(id, user_message, assistant_response, timestamp, content_hash)      2.22
    conversations + user_id; facts(key, value, created_at, updated_at)                2.28
    facts with user_id                                                                2.30
    context, the same columns, instead of conversations                               2.32

Every row is stored as a new memory is: with an id in its user's range and with its words in our index,
whatever the state of the old full-text table. A row that is in both tables is stored once. Rows without a
user belong to `local`. The content_hash of a text is the same as before.
"""

from __future__ import annotations

from dataclasses import dataclass

from shepherd import transactions
from shepherd._native.store import Connection
from shepherd.config import default_user_id
from shepherd.installation import program
from shepherd.memory import facts, full_text
from shepherd.memory.records import FactChange, NewMemory
from shepherd.memory.schema import create_schema
from shepherd.types import Fact
from shepherd.wording import counted, inflected

__all__ = [
    "DEFAULT_USER",
    "MEMORIES",
    "OLD_COLUMNS",
    "OLD_FACTS",
    "SOURCE",
    "Migrated",
    "is_original",
    "migrate",
    "move_facts",
    "owner_of",
    "seconds",
]

DEFAULT_USER = "local"
SOURCE = "migration"

MEMORIES = ("context", "conversations")
OLD_COLUMNS = frozenset({"id", "user_message", "assistant_response", "timestamp", "content_hash"})
OLD_FACTS = {"user_id", "key", "value", "created_at", "updated_at"}
_OURS = (
    "meta", "tenants", "sessions", "messages", "fact_history", "recalls", "context_changes",
    "extraction_jobs", "ledger", "api_keys", "session_entities", "session_summaries", "learned"
)  # fmt: skip
_PREFIX = "migrating_"
_PAGE = 500
# From so many rows the index is merged at the end: recall takes up to 4 times longer with many small
# segments.
_SETTLED_FROM = 1000
# Larger times are milliseconds.
_LARGEST_TIME = 1 << 40


@dataclass(frozen=True, slots=True)
class Migrated:
    """Counts of a migration; `duplicates` were in both tables, or twice in one."""

    memories: int
    duplicates: int
    facts: int
    users: tuple[str, ...] = ()
    secrets: int = 0

    def summary(self, place: str, kept: str) -> str:
        """Return the message about the migration of `place`; `kept` says where the old rows are."""
        text = (
            f"{place}: an older Shepherd's database, migrated:"
            f" {counted(self.memories, 'memory', 'memories')}"
            f" ({counted(self.duplicates, 'duplicate')} skipped), {counted(self.facts, 'fact')}; {kept}"
        )
        if self.secrets:
            text += inflected(self.secrets, "; {} with passwords, keys or other secrets [was|were] skipped")
        # What this login stored under another name of the machine is found or mentioned anyway (account.py).
        login = default_user_id().partition(":")[2]
        others = [user for user in self.users if user.partition(":")[2] != login]
        if not others:
            return text
        source = "" if DEFAULT_USER in others else f" --from {others[0]}"
        command = f"{program()} memory claim{source}"
        return f"{text}; they belong to {', '.join(self.users)}: {command} takes them over as yours"


def is_original(connection: Connection) -> bool:
    """Return True if all tables of memories and facts are the original's, and no column would be lost."""
    kept = [table for table in MEMORIES if _columns(connection, table)]
    fact_columns = _columns(connection, "facts")
    return (
        bool(kept)
        and all(OLD_COLUMNS <= _columns(connection, table) <= OLD_COLUMNS | {"user_id"} for table in kept)
        and (not fact_columns or {"key", "value"} <= fact_columns <= OLD_FACTS)
        and not any(_columns(connection, table) for table in _OURS)
    )


def migrate(connection: Connection, now: int) -> Migrated:
    """Replace the old tables by ours, with all their rows; other tables stay as they are."""
    old = {table: _columns(connection, table) for table in (*MEMORIES, "facts")}
    _put_aside(connection, [table for table, columns in old.items() if columns])
    create_schema(connection)
    _sort_rows(connection, [table for table in MEMORIES if old[table]])
    n_new, n_known, n_secrets, users = _move_memories(connection, old)
    n_facts = 0
    if old["facts"]:
        n_facts, n_secret_facts, fact_users = move_facts(connection, f"{_PREFIX}facts", old["facts"], now)
        users |= fact_users
        n_secrets += n_secret_facts
    connection.execute("DROP TABLE temp.migrating_order")
    for table, columns in old.items():
        if columns:
            connection.execute(f"DROP TABLE {_PREFIX}{table}")
    if n_new >= _SETTLED_FROM:
        connection.execute("INSERT INTO context_fts(context_fts) VALUES('optimize')")
    return Migrated(n_new, n_known, n_facts, tuple(sorted(users)), n_secrets)


def _columns(connection: Connection, table: str) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _put_aside(connection: Connection, tables: list[str]) -> None:
    """Rename the old tables, so that ours can have their names."""
    marks = ", ".join("?" * len(tables))
    triggers = connection.execute(
        f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name IN ({marks})", tables
    )
    for (name,) in triggers:
        connection.execute(f"DROP TRIGGER {_quoted(name)}")
    for table in MEMORIES:
        connection.execute(f"DROP TABLE IF EXISTS {table}_fts")
    # A user's own view over these tables must not prevent their renaming.
    connection.execute("PRAGMA legacy_alter_table = ON")
    for table in tables:
        connection.execute(f"ALTER TABLE {table} RENAME TO {_PREFIX}{table}")
    connection.execute("PRAGMA legacy_alter_table = OFF")
    # An index keeps its name when its table is renamed, and ours need these names.
    indexes = connection.execute(
        f"SELECT name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ({marks})",
        [_PREFIX + table for table in tables],
    )
    for (name,) in indexes:
        connection.execute(f"DROP INDEX {_quoted(name)}")


def _sort_rows(connection: Connection, tables: list[str]) -> None:
    """Create a temporary table of all rows by age, so that newer memories get higher ids."""
    rows = " UNION ALL ".join(
        f"SELECT CAST(timestamp AS INTEGER) AS at, '{table}' AS origin, rowid AS id FROM {_PREFIX}{table}"
        for table in tables
    )
    connection.execute(f"CREATE TEMP TABLE migrating_order AS {rows} ORDER BY at, origin, id")


def _move_memories(connection: Connection, old: dict[str, set[str]]) -> tuple[int, int, int, set[str]]:
    """Store all rows; return how many were new, duplicates, and left out as secrets, and their users."""
    # Here and below, not at the top: its patterns take 20 ms to compile, and few databases are migrated.
    from shepherd.secret_detection import holds_secret

    n_new = n_known = n_secrets = after = 0
    users: set[str] = set()
    select = {
        table: "SELECT CAST(user_message AS TEXT), CAST(assistant_response AS TEXT),"
        f" CAST(timestamp AS INTEGER), {owner_of(old[table])} FROM {_PREFIX}{table} WHERE rowid = ?"
        for table in MEMORIES
    }
    while True:
        page = connection.execute(
            f"SELECT rowid, origin, id FROM temp.migrating_order WHERE rowid > ? LIMIT {_PAGE}", (after,)
        )
        if not page:
            return n_new, n_known, n_secrets, users
        for after, origin, row_id in page:  # noqa: B007  (the last one is where the next page begins)
            [(question, answer, timestamp, user_id)] = connection.execute(select[origin], (row_id,))
            memory = NewMemory(question, answer, seconds(timestamp), SOURCE)
            if holds_secret(question, answer):
                n_secrets += 1
                continue
            is_new = full_text.add_all(connection, user_id, [memory])[0][1]
            users.add(user_id)
            n_new += is_new
            n_known += not is_new


def move_facts(
    connection: transactions.Connection, table: str, columns: set[str], now: int
) -> tuple[int, int, set[str]]:
    """Store the old facts; return how many there are now, how many were left out as secrets, and their users.

    Of two keys that are one to us, the later value is the fact, and both are in its history.
    """
    from shepherd.secret_detection import is_secret

    created = "CAST(created_at AS BIGINT)" if "created_at" in columns else str(now)
    updated = "CAST(updated_at AS BIGINT)" if "updated_at" in columns else created
    by_user: dict[str, list[Fact]] = {}
    n_secrets = 0
    for user_id, key, value, created_at, updated_at in connection.execute(
        f"SELECT {owner_of(columns)}, CAST(key AS TEXT), CAST(value AS TEXT), {created}, {updated} AS changed"
        f" FROM {table} ORDER BY changed, key"
    ):
        if is_secret(key, value):
            n_secrets += 1
            continue
        fact = Fact(key, value, seconds(created_at), seconds(updated_at))
        by_user.setdefault(user_id, []).append(fact)
    n_facts = 0
    for user_id, old in by_user.items():
        changes = [FactChange(fact.key, fact.value, SOURCE, fact.updated_at) for fact in old]
        facts.merge(connection, user_id, old, changes)
        n_facts += len(facts.rows_of_user(connection, user_id))
    return n_facts, n_secrets, set(by_user)


def owner_of(columns: set[str]) -> str:
    """Return the SQL of a row's user, which not all generations had."""
    if "user_id" not in columns:
        return f"'{DEFAULT_USER}'"
    return f"coalesce(nullif(CAST(user_id AS TEXT), ''), '{DEFAULT_USER}')"


def seconds(timestamp: int) -> int:
    """Return unix seconds of a time that can be in milliseconds."""
    return timestamp if abs(timestamp) < _LARGEST_TIME else timestamp // 1000


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
