"""The tables in a schema of PostgreSQL: found, refused or made.

The same tables and columns as in a file of SQLite, but for the index of the terms: PostgreSQL's own full text
search cuts words by other rules than our tokenizer, keeps no count above 255, and refuses texts above a
megabyte. So `context_terms` holds our terms as an array under GIN, each with its tenant's number before it.
"""

from __future__ import annotations

import logging

from shepherd._native.text import TOKENIZER_VERSION
from shepherd.errors import ForeignDatabaseError, StoreError, StoreMissingError, StoreReadOnlyError
from shepherd.memory.postgres import failures, migration
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.schema import APPLICATION_ID, SEQUENCE_BITS, USER_VERSION

__all__ = ["TABLES", "prepare"]

_log = logging.getLogger(__name__)

TABLES = (
    "meta",
    "tenants",
    "context",
    "context_terms",
    "facts",
    "fact_history",
    "sessions",
    "messages",
    "session_entities",
    "session_summaries",
    "extraction_jobs",
    "recalls",
    "ledger",
    "trace",
    "api_keys",
    "knowledge_sums",
    "nodes",
    "edges",
    "dimensions",
    "node_dimensions",
    "focused_nodes",
    "chunks",
    "chunk_terms",
)

# C is the order of code points, which is SQLite's.
_STATEMENTS = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value BIGINT NOT NULL)",
    """CREATE TABLE tenants(
        number BIGSERIAL PRIMARY KEY,
        user_id TEXT COLLATE "C" NOT NULL UNIQUE,
        n BIGINT NOT NULL DEFAULT 0,
        total_length BIGINT NOT NULL DEFAULT 0,
        next_sequence BIGINT NOT NULL DEFAULT 1,
        version BIGINT NOT NULL DEFAULT 0,
        edits BIGINT NOT NULL DEFAULT 0,
        bytes BIGINT NOT NULL DEFAULT 0,
        message_bytes BIGINT NOT NULL DEFAULT 0) WITH (fillfactor = 50)""",
    """CREATE TABLE context(
        id BIGINT PRIMARY KEY,
        user_message TEXT NOT NULL,
        assistant_response TEXT NOT NULL,
        timestamp BIGINT NOT NULL,
        content_hash TEXT COLLATE "C" NOT NULL,
        user_id TEXT COLLATE "C" NOT NULL DEFAULT 'local',
        doc_len INTEGER NOT NULL DEFAULT 0,
        pinned SMALLINT NOT NULL DEFAULT 0,
        source TEXT NOT NULL DEFAULT '',
        session TEXT NOT NULL DEFAULT '',
        thread INTEGER NOT NULL DEFAULT 0,
        label INTEGER NOT NULL DEFAULT 0,
        asks SMALLINT NOT NULL DEFAULT 0)""",
    "CREATE UNIQUE INDEX context_hash ON context(user_id, content_hash)",
    f"CREATE INDEX context_age ON context((id >> {SEQUENCE_BITS}), timestamp, id)",
    # terms: each once, as t17_word; repeated and counts: those that occur more than once, and how often.
    # doc_len and timestamp again, so that ranking reads these narrow rows alone.
    """CREATE TABLE context_terms(
        id BIGINT PRIMARY KEY,
        timestamp BIGINT NOT NULL,
        doc_len INTEGER NOT NULL,
        terms TEXT[] COLLATE "C" NOT NULL,
        repeated TEXT[] COLLATE "C",
        counts INTEGER[])""",
    # New entries wait in a list that every search reads: half a megabyte of it costs a millisecond.
    "CREATE INDEX context_terms_gin ON context_terms USING gin (terms) WITH (gin_pending_list_limit = 512)",
    "CREATE TABLE recalls(id BIGINT PRIMARY KEY, n BIGINT NOT NULL, last BIGINT NOT NULL)",
    """CREATE TABLE facts(
        user_id TEXT COLLATE "C" NOT NULL DEFAULT 'local',
        key TEXT COLLATE "C" NOT NULL,
        value TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        PRIMARY KEY(user_id, key))""",
    """CREATE TABLE fact_history(
        id BIGSERIAL PRIMARY KEY,
        user_id TEXT COLLATE "C" NOT NULL,
        key TEXT NOT NULL,
        value TEXT,
        source TEXT NOT NULL DEFAULT '',
        changed_at BIGINT NOT NULL)""",
    "CREATE INDEX fact_history_user ON fact_history(user_id, changed_at, id)",
    # rowid, which SQLite has by itself: which of two sessions of one second is the later.
    """CREATE TABLE sessions(
        id TEXT COLLATE "C" PRIMARY KEY,
        rowid BIGSERIAL NOT NULL,
        user_id TEXT COLLATE "C" NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL)""",
    "CREATE INDEX sessions_latest ON sessions(user_id, updated_at, rowid)",
    """CREATE TABLE messages(
        id BIGSERIAL PRIMARY KEY,
        session_id TEXT COLLATE "C" NOT NULL,
        role TEXT NOT NULL,
        raw TEXT NOT NULL,
        sent TEXT,
        injected TEXT,
        token_ids BYTEA,
        tokens INTEGER NOT NULL DEFAULT 0,
        created_at BIGINT NOT NULL,
        tool_calls TEXT,
        tool_call_id TEXT NOT NULL DEFAULT '',
        thought TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX messages_session ON messages(session_id, id)",
    """CREATE TABLE session_entities(
        session_id TEXT COLLATE "C" NOT NULL,
        id BIGINT NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY(session_id, id),
        FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE)""",
    """CREATE TABLE session_summaries(
        session_id TEXT COLLATE "C" PRIMARY KEY,
        pieces TEXT NOT NULL,
        n_turns BIGINT NOT NULL,
        left_id BIGINT NOT NULL,
        FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE)""",
    """CREATE TABLE ledger(
        user_id TEXT COLLATE "C" NOT NULL,
        hash TEXT COLLATE "C" NOT NULL,
        note TEXT NOT NULL,
        used_at BIGINT NOT NULL,
        PRIMARY KEY(user_id, hash))""",
    "CREATE INDEX ledger_used ON ledger(user_id, used_at)",
    """CREATE TABLE extraction_jobs(
        id BIGSERIAL PRIMARY KEY,
        user_id TEXT COLLATE "C" NOT NULL,
        session_id TEXT COLLATE "C" NOT NULL,
        message_ids TEXT NOT NULL,
        lines TEXT NOT NULL,
        state TEXT COLLATE "C" NOT NULL,
        owner TEXT COLLATE "C" NOT NULL DEFAULT '',
        attempts INTEGER NOT NULL DEFAULT 0,
        refusals INTEGER NOT NULL DEFAULT 0,
        next_try DOUBLE PRECISION NOT NULL DEFAULT 0,
        told_at BIGINT NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        facts INTEGER NOT NULL DEFAULT 0,
        memories INTEGER NOT NULL DEFAULT 0,
        dropped INTEGER NOT NULL DEFAULT 0,
        given TEXT NOT NULL DEFAULT '')""",
    # The digest: an entry of an index has 2,704 bytes at most, which a few hundred numbers are.
    "CREATE UNIQUE INDEX extraction_jobs_messages ON extraction_jobs(user_id, md5(message_ids))",
    "CREATE INDEX extraction_jobs_due ON extraction_jobs(user_id, state, next_try)",
    """CREATE TABLE trace(
        user_id TEXT COLLATE "C" NOT NULL,
        path TEXT COLLATE "C" NOT NULL,
        value TEXT NOT NULL,
        kind SMALLINT NOT NULL,
        PRIMARY KEY(user_id, path))""",
    """CREATE TABLE api_keys(
        hash TEXT COLLATE "C" PRIMARY KEY,
        id TEXT COLLATE "C" NOT NULL UNIQUE,
        owner TEXT COLLATE "C" NOT NULL,
        scopes TEXT NOT NULL,
        label TEXT NOT NULL DEFAULT '',
        created_at BIGINT NOT NULL,
        revoked_at BIGINT NOT NULL DEFAULT 0)""",
    """CREATE TABLE knowledge_sums(
        number BIGINT PRIMARY KEY,
        n BIGINT NOT NULL DEFAULT 0,
        total_length BIGINT NOT NULL DEFAULT 0,
        version BIGINT NOT NULL DEFAULT 0,
        edits BIGINT NOT NULL DEFAULT 0,
        next_chunk BIGINT NOT NULL DEFAULT 1,
        next_node BIGINT NOT NULL DEFAULT 1,
        next_edge BIGINT NOT NULL DEFAULT 1) WITH (fillfactor = 50)""",
    """CREATE TABLE nodes(
        user_id TEXT COLLATE "C" NOT NULL,
        id BIGINT NOT NULL,
        kind TEXT COLLATE "C" NOT NULL DEFAULT '',
        title TEXT COLLATE "C" NOT NULL,
        link TEXT NOT NULL DEFAULT '',
        event_date TEXT COLLATE "C" NOT NULL DEFAULT '',
        n_edges BIGINT NOT NULL DEFAULT 0,
        text_length BIGINT NOT NULL DEFAULT 0,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        touched_at BIGINT NOT NULL,
        index_state TEXT NOT NULL DEFAULT 'none',
        index_error TEXT NOT NULL DEFAULT '',
        content_hash TEXT COLLATE "C" NOT NULL DEFAULT '',
        origin TEXT COLLATE "C" NOT NULL DEFAULT '',
        metadata TEXT NOT NULL DEFAULT '{}',
        description TEXT NOT NULL DEFAULT '',
        notes TEXT NOT NULL DEFAULT '',
        source_text TEXT NOT NULL DEFAULT '',
        PRIMARY KEY(user_id, id))""",
    "CREATE UNIQUE INDEX nodes_origin ON nodes(user_id, origin) WHERE origin <> ''",
    "CREATE INDEX nodes_latest ON nodes(user_id, updated_at DESC, id)",
    "CREATE INDEX nodes_hubs ON nodes(user_id, n_edges DESC, updated_at DESC, id) WHERE kind <> 'memory'",
    """CREATE TABLE edges(
        user_id TEXT COLLATE "C" NOT NULL,
        id BIGINT NOT NULL,
        from_node_id BIGINT NOT NULL,
        to_node_id BIGINT NOT NULL,
        type TEXT COLLATE "C" NOT NULL,
        explanation TEXT NOT NULL,
        confidence DOUBLE PRECISION NOT NULL,
        source TEXT NOT NULL,
        created_at BIGINT NOT NULL,
        PRIMARY KEY(user_id, id),
        CHECK(from_node_id <> to_node_id),
        FOREIGN KEY(user_id, from_node_id) REFERENCES nodes(user_id, id),
        FOREIGN KEY(user_id, to_node_id) REFERENCES nodes(user_id, id))""",
    "CREATE UNIQUE INDEX edges_from ON edges(user_id, from_node_id, to_node_id, type)",
    "CREATE INDEX edges_to ON edges(user_id, to_node_id)",
    """CREATE TABLE dimensions(
        user_id TEXT COLLATE "C" NOT NULL,
        name TEXT COLLATE "C" NOT NULL,
        description TEXT NOT NULL DEFAULT '',
        icon TEXT NOT NULL DEFAULT '',
        is_priority SMALLINT NOT NULL DEFAULT 0,
        PRIMARY KEY(user_id, name))""",
    """CREATE TABLE node_dimensions(
        user_id TEXT COLLATE "C" NOT NULL,
        node_id BIGINT NOT NULL,
        dimension TEXT COLLATE "C" NOT NULL,
        PRIMARY KEY(user_id, node_id, dimension),
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id),
        FOREIGN KEY(user_id, dimension) REFERENCES dimensions(user_id, name))""",
    "CREATE INDEX node_dimensions_name ON node_dimensions(user_id, dimension, node_id)",
    """CREATE TABLE focused_nodes(
        user_id TEXT COLLATE "C" NOT NULL,
        place BIGINT NOT NULL,
        node_id BIGINT NOT NULL,
        PRIMARY KEY(user_id, place),
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id))""",
    """CREATE TABLE chunks(
        id BIGINT PRIMARY KEY,
        user_id TEXT COLLATE "C" NOT NULL,
        node_id BIGINT NOT NULL,
        part TEXT COLLATE "C" NOT NULL,
        idx BIGINT NOT NULL,
        start_char BIGINT NOT NULL,
        end_char BIGINT NOT NULL,
        token_count BIGINT NOT NULL DEFAULT 0,
        doc_len BIGINT NOT NULL DEFAULT 0,
        embedding_model TEXT NOT NULL DEFAULT '',
        text TEXT NOT NULL,
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id))""",
    "CREATE UNIQUE INDEX chunks_node ON chunks(user_id, node_id, part, idx)",
    "CREATE INDEX chunks_docs ON chunks(id, node_id)",
    # As context_terms, of chunks.
    """CREATE TABLE chunk_terms(
        id BIGINT PRIMARY KEY,
        doc_len INTEGER NOT NULL,
        terms TEXT[] COLLATE "C" NOT NULL,
        repeated TEXT[] COLLATE "C",
        counts INTEGER[])""",
    "CREATE INDEX chunk_terms_gin ON chunk_terms USING gin (terms) WITH (gin_pending_list_limit = 512)",
)


def prepare(database: Database) -> None:
    """Finds our tables in the schema or makes them; whoever else has tables of these names keeps them."""
    database.read(lambda connection: _name_schema(database, connection))
    if database.read(lambda connection: _are_there(database, connection)):
        if not database.read_only:
            database.read(lambda connection: _refuse_without_rights(database, connection))
    elif database.read_only:
        is_old = database.read(lambda connection: migration.columns_of_original(connection, database.schema))
        what = "there is no memory in it yet"
        if is_old:
            what = "there is an older Shepherd's memory in it, from which ours is to be made first"
        raise StoreMissingError(f"{database.shown}: {what}", hint="open it once for writing")
    else:
        # Two processes may be here at once.
        done = database.write_locked("schema", lambda connection: _create(database, connection))
        if done:
            _log.warning("%s", done)


def _name_schema(database: Database, connection: Connection) -> None:
    [(version, encoding, current)] = connection.execute(
        "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')::text,"
        " current_schema()::text"
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
    [(version,)] = connection.execute("SELECT value FROM meta WHERE key = 'user_version'")
    if version > USER_VERSION:
        raise ForeignDatabaseError(
            f"{database.shown}: made by a newer Shepherd (format {version}, this one knows {USER_VERSION});"
            " it was left untouched",
            hint="update Shepherd, or name another schema in the address",
        )
    return True


def _is_ours(connection: Connection) -> bool:
    columns = connection.execute(
        "SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = 'meta'::regclass AND a.attnum > 0"
        " AND NOT a.attisdropped AND a.atttypid IN ('text'::regtype, 'bigint'::regtype) ORDER BY a.attnum"
    )
    if columns != [("key",), ("value",)]:
        return False
    rows = connection.execute("SELECT value FROM meta WHERE key = 'application_id'")
    return rows == [(APPLICATION_ID,)]


def _refuse_without_rights(database: Database, connection: Connection) -> None:
    [(is_standby, may_write)] = connection.execute(
        "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool,"
        " bool_and(has_table_privilege(name, 'INSERT') AND has_table_privilege(name, 'UPDATE')"
        " AND has_table_privilege(name, 'DELETE')) FROM unnest(?::text[]) AS name",
        (list(TABLES),),
    )
    if is_standby:
        raise StoreReadOnlyError(
            f"{database.shown}: the server only lets read (a standby?)", hint="name the primary server"
        )
    if not may_write:
        raise failures.read_only(database.address)


def _create(database: Database, connection: Connection) -> str:
    """Makes our tables, and brings the original's into them. What to tell of that, if any."""
    schema = '"' + database.schema.replace('"', '""') + '"'
    # Not IF NOT EXISTS: that asks for the right to create schemas even where it is there.
    if not connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = ?", (database.schema,)):
        connection.run(f"CREATE SCHEMA {schema}")
    if _are_there(database, connection):
        return ""
    old = migration.columns_of_original(connection, database.schema)
    kept = migration.put_aside(database, connection, old)
    for statement in _STATEMENTS:
        connection.run(statement)
    for key, value in (
        ("application_id", APPLICATION_ID),
        ("user_version", USER_VERSION),
        ("tokenizer_version", TOKENIZER_VERSION),
    ):
        connection.execute("INSERT INTO meta(key, value) VALUES(?, ?)", (key, value))
    connection.run(
        "INSERT INTO meta(key, value) SELECT 'recalls_counted_since', extract(epoch FROM now())::bigint"
    )
    if not old:
        return ""
    migrated = migration.migrate(connection, old, kept)
    return migrated.summary(database.shown, f"the old tables are kept as {' and '.join(kept.values())}")
