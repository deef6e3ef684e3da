"""The tables in a schema of PostgreSQL: found, refused or created.

The same tables and columns as in a file of SQLite, except for the index of terms: PostgreSQL's full-text
search splits words by other rules than our tokenizer, counts only up to 255, and refuses texts above a
megabyte. So `context_terms` has our terms as an array under GIN, each with its tenant's number as prefix.
"""

from __future__ import annotations

import contextlib
import logging
import re

from shepherd._native.text import TOKENIZER_VERSION
from shepherd.encryption.blinding import DerivedKeys
from shepherd.encryption.key import SALT_BYTES, MemoryKey
from shepherd.encryption.server_key import check_of, forget_new, new_server_key, unlock_server
from shepherd.encryption.user_keys import KeptKeys, TransactionKeys
from shepherd.errors import (
    ForeignDatabaseError,
    StoreError,
    StoreKeyError,
    StoreMissingError,
    StoreReadOnlyError,
)
from shepherd.memory.postgres import by_user, commits, failures, marks, migration, user_keys
from shepherd.memory.postgres.blind import BlindColumns
from shepherd.memory.postgres.database import REBUILDING, Connection, Database
from shepherd.memory.schema import APPLICATION_ID, SEQUENCE_BITS, SHARED, UPGRADES, USER_VERSION

__all__ = ["TABLES", "note_other_key", "prepare", "salt_of_key"]

_log = logging.getLogger(__name__)

# Of the tables of a blind memory: a Shepherd that knows none takes them for another program's, so that it
# stores no readable text among them. In the first version texts were not bound to their rows; in the first
# two, users had no keys of their own.
_FIRST_BLIND_ID = 0x53484542  # "SHEB"
_SECOND_BLIND_ID = 0x53484543  # "SHEC"
_BLIND_ID = 0x53484544  # "SHED"
# Key in `meta` of the number by which the key of a blind memory is recognized.
_CHECK = "blind/check"
# It fails if the memory has another key.
_SAME_KEY = f"SELECT 1 / count(*) FROM meta WHERE key = '{_CHECK}' AND value = ?"
# New entries of an index of terms wait in a list that every search reads: a megabyte of it takes two
# milliseconds. Sorting it into the index costs the less for each, the longer it is.
_PENDING = "gin_pending_list_limit = 1024"
# Tables, columns and indexes of PostgreSQL alone.
_OWN = (
    by_user.REFUSAL,
    "CREATE INDEX context_id ON context(id)",
    f"CREATE INDEX context_age ON context((id >> {SEQUENCE_BITS}), timestamp, id)",
    # terms: each once, as t17_word; usual: the parts (rank.PARTS) that most of them count in this memory;
    # repeated and counts: the terms that count otherwise, and their parts. doc_len and timestamp again, so
    # that ranking reads only these narrow rows.
    f"""CREATE TABLE context_terms(
        id BIGINT NOT NULL,
        timestamp BIGINT NOT NULL,
        doc_len INTEGER NOT NULL,
        usual SMALLINT NOT NULL DEFAULT 1,
        terms TEXT[] COLLATE "C" NOT NULL,
        repeated TEXT[] COLLATE "C",
        counts INTEGER[],
        {by_user.TENANT},
        PRIMARY KEY(tenant, id))""",
    f"CREATE INDEX context_terms_gin ON context_terms USING gin (terms) WITH ({_PENDING})",
    "CREATE INDEX fact_history_user ON fact_history(user_id, changed_at, id)",
    # As every table of SQLite has: the order of sessions of one second.
    "ALTER TABLE sessions ADD COLUMN rowid BIGSERIAL NOT NULL",
    "CREATE INDEX sessions_latest ON sessions(user_id, updated_at, rowid)",
    # The digest: an entry of an index has 2,704 bytes at most, which a few hundred numbers are.
    "CREATE UNIQUE INDEX extraction_jobs_messages ON extraction_jobs(user_id, md5(message_ids))",
    "CREATE INDEX extraction_jobs_due ON extraction_jobs(user_id, state, next_try)",
    "CREATE INDEX chunks_docs ON chunks(id, node_id)",
    # As context_terms, of chunks.
    f"""CREATE TABLE chunk_terms(
        id BIGINT NOT NULL,
        doc_len INTEGER NOT NULL,
        terms TEXT[] COLLATE "C" NOT NULL,
        repeated TEXT[] COLLATE "C",
        counts INTEGER[],
        {by_user.TENANT},
        PRIMARY KEY(tenant, id))""",
    f"CREATE INDEX chunk_terms_gin ON chunk_terms USING gin (terms) WITH ({_PENDING})",
    *commits.STATEMENTS,
    *marks.STATEMENTS,
    # Rows that every write updates.
    "ALTER TABLE tenants SET (fillfactor = 50)",
    "ALTER TABLE knowledge_sums SET (fillfactor = 50)",
)
# Statements of PostgreSQL alone that bring an older database to each version, after those of UPGRADES.
_OWN_UPGRADES = {
    # The index of terms is made again: its counts have another unit.
    2: ("ALTER TABLE context_terms ADD COLUMN usual SMALLINT NOT NULL DEFAULT 1",),
    7: by_user.UPGRADE,
}
# From SQLite's dialect, in this order. C is the order of code points, which is SQLite's.
_TRANSLATIONS = (
    (" WITHOUT ROWID", ""),
    ("INTEGER PRIMARY KEY AUTOINCREMENT", "BIGSERIAL PRIMARY KEY"),
    ("INTEGER PRIMARY KEY /* serial */", "BIGSERIAL PRIMARY KEY"),
    ("INTEGER", "BIGINT"),
    ("TEXT", 'TEXT COLLATE "C"'),
    ("BLOB", "BYTEA"),
    ("REAL", "DOUBLE PRECISION"),
)


def _translated(statement: str) -> str:
    for theirs, ours in _TRANSLATIONS:
        statement = statement.replace(theirs, ours)
    return by_user.keyed(statement)


_STATEMENTS = (*map(_translated, SHARED), *_OWN)
# Tables that came without a new version of the format, and their indexes.
_LATER = ("context_changes", "chunk_changes", "writes")
_ADD_LATER = (
    *(
        re.sub("^CREATE (TABLE|INDEX)", r"CREATE \1 IF NOT EXISTS", statement)
        for statement in _STATEMENTS
        if re.match(rf"CREATE (TABLE|INDEX \w+ ON) ({'|'.join(_LATER)})\(", statement)
    ),
)
TABLES = tuple(found[1] for found in map(re.compile(r"CREATE TABLE (\w+)").match, _STATEMENTS) if found)


def prepare(database: Database, *, blind: bool = False) -> MemoryKey | None:
    """Find our tables in the schema or create them; tables of another program are left untouched.

    `blind`: the server must not be able to read texts and words; return the key then.
    Raises StoreError for a schema that is not as it is wanted, StoreKeyError without its key.
    """
    _find_or_create(database, blind=blind)
    database.keep_keys()
    salt, check = database.read(_salt_and_check)
    if salt is None:
        if blind:
            raise StoreError(
                f"{database.shown}: the server can read this memory, and memory_blind is on",
                hint="name a new schema in the address, such as schema=blind: shepherd memory export and"
                " import bring memories and facts there",
            )
        return None
    if not blind:
        raise StoreKeyError(
            f"{database.shown}: the memory is blind: its server has no readable text",
            hint="shepherd config set memory_blind true, and give Shepherd the key",
        )
    key = unlock_server(database.shown, salt, check)
    made_as = database.read(_application_id)
    has_users_keys = made_as not in (_FIRST_BLIND_ID, _SECOND_BLIND_ID)
    ciphers = TransactionKeys(KeptKeys(key)) if has_users_keys else DerivedKeys(key)
    columns = BlindColumns(ciphers, database.shown, binds_rows=made_as != _FIRST_BLIND_ID)
    database.hide_with(columns, (_SAME_KEY, (check,)))
    return key


def _find_or_create(database: Database, *, blind: bool) -> None:
    if database.read(lambda connection: _name_schema(database, connection)):
        database.plan_once()
    if database.read(lambda connection: _are_there(database, connection)):
        if database.read(lambda connection: _is_older(database, connection)):
            if database.read_only:
                raise StoreError(
                    f"{database.shown}: an older Shepherd's database, to be upgraded first",
                    hint="open it once for writing",
                )
            database.write_locked(REBUILDING, lambda connection: _upgrade(database, connection))
        if not database.read_only:
            database.read(lambda connection: _refuse_without_rights(database, connection))
        return
    old = database.read(lambda connection: migration.columns_of_original(connection, database.schema))
    if database.read_only:
        what = "there is no memory in it yet"
        if old:
            what = "there is an older Shepherd's memory in it, from which ours is to be made first"
        raise StoreMissingError(f"{database.shown}: {what}", hint="open it once for writing")
    if blind and old:
        raise StoreError(
            f"{database.shown}: there is an older Shepherd's memory in it, which the server can read",
            hint="name a new schema in the address, such as schema=blind",
        )
    if blind:
        _create_blind(database)
        return
    # Two processes may be here at once.
    done = database.write_locked(REBUILDING, lambda connection: _create(database, connection, None))
    if done:
        _log.warning("%s", done)


def _create_blind(database: Database) -> None:
    # Not inside the transaction: a person may be asked.
    key = new_server_key(database.shown)

    def uses_key(connection: Connection) -> bool:
        return _are_there(database, connection) and salt_of_key(connection) == key.salt

    try:
        database.write_locked(REBUILDING, lambda connection: _create(database, connection, key))
    finally:
        # Another process may have been first. If nobody can say, the key stays.
        with contextlib.suppress(StoreError):
            if not database.read(uses_key):
                forget_new(key)


def _salt_and_check(connection: Connection) -> tuple[bytes | None, int]:
    """Return the salt of a blind memory's key, None if it is plain; and the number that the key has."""
    found = dict(connection.execute("SELECT key, value FROM meta WHERE key LIKE 'blind/%'"))
    if not found:
        return None, 0
    halves = (found.get(f"blind/salt{number}", 0) for number in (1, 2))
    return b"".join(half.to_bytes(SALT_BYTES // 2, "big", signed=True) for half in halves), found.get(
        _CHECK, 0
    )


def salt_of_key(connection: Connection) -> bytes | None:
    """Return the salt of a blind memory's key, None if the server can read the memory."""
    return _salt_and_check(connection)[0]


def note_other_key(connection: Connection, key: MemoryKey) -> None:
    """Record a new key. All texts must already be encrypted with new keys of their users."""
    connection.execute("DELETE FROM meta WHERE key LIKE 'blind/%'")
    _note_key(connection, key)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'application_id'", (_BLIND_ID,))


def _application_id(connection: Connection) -> int:
    [(number,)] = connection.execute("SELECT value FROM meta WHERE key = 'application_id'")
    return int(number)


def _note_key(connection: Connection, key: MemoryKey) -> None:
    half = SALT_BYTES // 2
    for number, part in ((1, key.salt[:half]), (2, key.salt[half:])):
        value = int.from_bytes(part, "big", signed=True)
        connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (f"blind/salt{number}", value))
    connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (_CHECK, check_of(key)))


def _name_schema(database: Database, connection: Connection) -> bool:
    """Find out which schema is used; return whether its tables are divided into partitions."""
    [(version, encoding, current, is_divided)] = connection.execute(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')::text,"
        " current_schema()::text,"
        " EXISTS (SELECT 1 FROM pg_class WHERE oid = to_regclass('context') AND relkind = 'p')"
    )
    if encoding != "UTF8":
        raise StoreError(
            f"{database.shown}: the database's encoding is {encoding}, not UTF8",
            hint="createdb --encoding=UTF8 --template=template0 NAME",
        )
    if version < 120000:
        raise StoreError(
            f"{database.shown}: PostgreSQL {version // 10000} is too old", hint="12 is the oldest"
        )
    if not database.schema and current is None:
        raise StoreError(
            f"{database.shown}: the role's search_path names no schema",
            hint="name one in the address: schema=NAME",
        )
    database.schema = database.schema or current
    return bool(is_divided)


def _are_there(database: Database, connection: Connection) -> bool:
    found = {
        name
        for (name,) in connection.execute(
            "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = ? AND c.relname = ANY(?) AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
            (database.schema, list(TABLES)),
        )
    }
    if not found:
        return False
    if "meta" not in found or not _is_ours(connection):
        if found <= {"context", "facts"} and migration.columns_of_original(connection, database.schema):
            return False
        raise ForeignDatabaseError(
            f"{database.shown}: schema {database.schema!r} has tables of the same names"
            f" ({', '.join(sorted(found))}) of another program; they were left untouched",
            hint="name a schema of its own in the address: schema=shepherd",
        )
    version = _version(connection)
    if version > USER_VERSION:
        raise ForeignDatabaseError(
            f"{database.shown}: made by a newer Shepherd (format {version}, this one knows {USER_VERSION});"
            " it was left untouched",
            hint="update Shepherd, or name another schema in the address",
        )
    return True


def _version(connection: Connection) -> int:
    [(version,)] = connection.execute("SELECT value FROM meta WHERE key = 'user_version'")
    return int(version)


def _is_older(database: Database, connection: Connection) -> bool:
    [(n_there,)] = connection.execute(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relname = ANY(?)",
        (database.schema, list(_LATER)),
    )
    [(have_marks,)] = connection.execute(marks.ARE_THERE, (database.schema,))
    return n_there < len(_LATER) or not have_marks or _version(connection) < USER_VERSION


def _upgrade(database: Database, connection: Connection) -> None:
    """Bring the tables of an older version to this one; another process may have been first."""
    if not _is_older(database, connection):
        return
    version = _version(connection)
    not_owned = connection.execute(
        "SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relname = ANY(?) AND c.relkind = 'r'"
        " AND NOT pg_has_role(c.relowner, 'USAGE') ORDER BY 1",
        (database.schema, list(TABLES)),
    )
    if not_owned:
        raise StoreError(
            f"{database.shown}: made by an older Shepherd, and its tables belong to another role,"
            " which has to upgrade them",
            hint="open it once with the role that owns them",
        )
    # A large table takes longer than a statement may, and all writers wait anyway.
    connection.run("SET LOCAL statement_timeout = 0")
    for newer in range(version + 1, USER_VERSION + 1):
        for statement in UPGRADES[newer]:
            connection.run(_translated(statement))
        for statement in _OWN_UPGRADES.get(newer, ()):
            connection.run(statement)
    for statement in (*_ADD_LATER, *marks.STATEMENTS, *marks.FIRST):
        connection.run(statement)
    for table in ("context_terms", "chunk_terms"):
        for index in by_user.leaves(connection, f"{table}_gin"):
            connection.run(f"ALTER INDEX {index} SET ({_PENDING})")
    by_user.refuse_older(connection)
    connection.execute("UPDATE meta SET value = ? WHERE key = 'user_version'", (USER_VERSION,))


def _is_ours(connection: Connection) -> bool:
    columns = connection.execute(
        "SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = 'meta'::regclass AND a.attnum > 0"
        " AND NOT a.attisdropped AND a.atttypid IN ('text'::regtype, 'bigint'::regtype) ORDER BY a.attnum"
    )
    if columns != [("key",), ("value",)]:
        return False
    rows = connection.execute("SELECT value FROM meta WHERE key = 'application_id'")
    return rows in ([(number,)] for number in (APPLICATION_ID, _BLIND_ID, _SECOND_BLIND_ID, _FIRST_BLIND_ID))


def _refuse_without_rights(database: Database, connection: Connection) -> None:
    [(is_standby, may_write)] = connection.execute(
        "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool,"
        " bool_and(has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')"
        " AND has_table_privilege(name, 'DELETE')) FROM unnest(?::text[]) AS name",
        (list(TABLES),),
    )
    if is_standby:
        raise StoreReadOnlyError(
            f"{database.shown}: the server is read-only (a standby?)", hint="name the primary server"
        )
    if not may_write:
        raise failures.read_only(database.address)


def _create(database: Database, connection: Connection, key: MemoryKey | None) -> str:
    """Create our tables and migrate the original's; return a message about that, if any.

    With a key, they are those of a blind memory.
    """
    schema = '"' + database.schema.replace('"', '""') + '"'
    # Not IF NOT EXISTS: that asks for the right to create schemas even where it is there.
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (database.schema,)):
        connection.run(f"CREATE SCHEMA {schema}")
    if _are_there(database, connection):
        return ""
    old = migration.columns_of_original(connection, database.schema)
    kept = migration.put_aside(database, connection, old)
    connection.run(";\n".join(_STATEMENTS))  # in one round trip, not in 57
    by_user.refuse_older(connection)
    for name, value in (
        ("application_id", APPLICATION_ID if key is None else _BLIND_ID),
        ("user_version", USER_VERSION),
        ("tokenizer_version", TOKENIZER_VERSION),
    ):
        connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (name, value))
    if key is not None:
        _note_key(connection, key)
        if connection.execute("SELECT 1 WHERE to_regclass(?) IS NOT NULL", (user_keys.TABLE,)):
            raise ForeignDatabaseError(
                f"{database.shown}: schema {database.schema!r} has another program's table {user_keys.TABLE}",
                hint="name a schema of its own in the address: schema=shepherd",
            )
        connection.run(";\n".join(user_keys.STATEMENTS))
    connection.run(
        "INSERT INTO meta(key, value) SELECT 'recalls_counted_since', extract(epoch FROM now())::bigint"
    )
    if not old:
        return ""
    migrated = migration.migrate(connection, old, kept)
    return migrated.summary(database.shown, f"the old tables are kept as {' and '.join(kept.values())}")
