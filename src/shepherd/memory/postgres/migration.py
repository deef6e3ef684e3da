"""Migration of the original Shepherd's tables in PostgreSQL, inside the caller's transaction.

The tables are those of its files (see memory/migration.py) and one more column, `search_vector`, which is
derived from the texts. They stay in the schema under other names, in place of a copy of the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from shepherd.errors import StoreError
from shepherd.memory.migration import (
    MEMORIES,
    OLD_COLUMNS,
    OLD_FACTS,
    SOURCE,
    Migrated,
    move_facts,
    owner_of,
    seconds,
)
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.terms import add_all
from shepherd.memory.records import NewMemory

__all__ = ["Columns", "columns_of_original", "migrate", "put_aside"]

# Columns by table of the original.
Columns = Mapping[str, set[str]]

_MAY_HAVE = OLD_COLUMNS | {"user_id", "search_vector"}
_PAGE = 200


def columns_of_original(connection: Connection, schema: str) -> Columns:
    """Return the original's tables in this schema; none if any table of these names has other columns."""
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(
        "SELECT c.relname::text, a.attname::text, a.atttypid::regtype::text FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid"
        " WHERE n.nspname = ? AND c.relname = ANY(?) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')"
        " AND a.attnum > 0 AND NOT a.attisdropped",
        (schema, [*MEMORIES, "facts"]),
    ):
        found.setdefault(table, {})[column] = kind
    memories = [found[table] for table in MEMORIES if table in found]
    facts = set(found.get("facts", {}))
    is_original = (
        bool(memories)
        and all(OLD_COLUMNS <= set(columns) <= _MAY_HAVE for columns in memories)
        and all(columns["timestamp"] in ("bigint", "integer") for columns in memories)
        and (not facts or {"key", "value"} <= facts <= OLD_FACTS)
    )
    return {table: set(columns) for table, columns in found.items()} if is_original else {}


def put_aside(database: Database, connection: Connection, old: Columns) -> dict[str, str]:
    """Rename the old tables; return the new name of each.

    StoreError if they are another role's, since only their owner can rename them.
    """
    not_owned = connection.execute(
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relname = ANY(?) AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1",
        (database.schema, list(old)),
    )
    if not_owned:
        raise StoreError(
            f"{database.shown}: an older Shepherd's database, whose tables belong to another role",
            hint="; ".join(f"ALTER TABLE {table} OWNER TO …" for (table,) in not_owned),
        )
    kept: dict[str, str] = {}
    for table in old:
        name = f"{table}_before_migration"
        taken = connection.execute(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = ? AND starts_with(c.relname::text, ?)",
            (database.schema, name),
        )
        kept[table] = name if (name,) not in taken else f"{name}_{len(taken) + 1}"
        # Locks the table until the end of the transaction.
        connection.run(f"ALTER TABLE {table} RENAME TO {kept[table]}")
    return kept


def migrate(connection: Connection, old: Columns, kept: Mapping[str, str]) -> Migrated:
    """Store all rows of the renamed tables in ours, the oldest first."""
    # Not at the top: its patterns take 20 ms to compile, and few databases are migrated.
    from shepherd.secret_detection import holds_secret

    n_new = n_known = n_secrets = 0
    users: set[str] = set()
    rows = " UNION ALL ".join(
        f"SELECT {owner_of(old[table])}, user_message, assistant_response, CAST(timestamp AS BIGINT) AS at,"
        f" {place} AS place, id FROM {kept[table]}"
        for place, table in enumerate(MEMORIES)
        if table in old
    )
    connection.run(f"DECLARE old_memories NO SCROLL CURSOR FOR {rows} ORDER BY at, place, id")
    while page := connection.execute(f"FETCH {_PAGE} FROM old_memories"):
        by_user: dict[str, list[NewMemory]] = {}
        for user_id, question, answer, timestamp, _, _ in page:
            memory = NewMemory(question, answer, seconds(timestamp), SOURCE)
            if holds_secret(question, answer):
                n_secrets += 1
                continue
            by_user.setdefault(user_id, []).append(memory)
        users |= by_user.keys()
        for user_id, memories in by_user.items():
            stored = [is_new for _, is_new in add_all(connection, user_id, memories)]
            n_new += sum(stored)
            n_known += len(stored) - sum(stored)
    n_facts = 0
    if "facts" in old:
        n_facts, n_secret_facts, fact_users = move_facts(
            connection, kept["facts"], old["facts"], int(time.time())
        )
        users |= fact_users
        n_secrets += n_secret_facts
    return Migrated(n_new, n_known, n_facts, tuple(sorted(users)), n_secrets)
