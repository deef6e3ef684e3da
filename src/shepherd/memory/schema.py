"""The tables of a memory database, and the numbers in its header that identify it."""

from __future__ import annotations

from shepherd._native.store import Connection
from shepherd._native.text import TOKENIZER_VERSION
from shepherd.sequences import SEQUENCE_BITS

__all__ = [
    "APPLICATION_ID",
    "BACKUP_ID",
    "BACKUP_KEYS_ID",
    "SEQUENCE_BITS",
    "SHARED",
    "UPGRADES",
    "USER_VERSION",
    "create_schema",
    "memory_range",
    "upgrade",
]

APPLICATION_ID = 0x53484550  # "SHEP"
# Of a backup whose users' keys are in another file, which has other tables; see backup_by_user.py.
BACKUP_ID = 0x53484255  # "SHBU"
# Of that file; see backup_keys.py.
BACKUP_KEYS_ID = 0x5348554B  # "SHUK"
USER_VERSION = 7

# What was learned from the user's words; see learned.py. former: the value before; undo: JSON of the fact
# before, with its times; change_id: number in fact_history of the change that was made, memory_id: the memory
# that was stored, each 0 for none; valid_from: when a proposed value begins to hold; base: updated_at of the
# fact that a proposal contradicts.
_LEARNED = (
    """CREATE TABLE learned(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id TEXT NOT NULL,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        former TEXT,
        statement TEXT NOT NULL DEFAULT '',
        session_id TEXT NOT NULL DEFAULT '',
        message_id INTEGER NOT NULL DEFAULT 0,
        told_at INTEGER NOT NULL,
        state TEXT NOT NULL DEFAULT 'new',
        change_id INTEGER NOT NULL DEFAULT 0,
        memory_id INTEGER NOT NULL DEFAULT 0,
        valid_from INTEGER NOT NULL DEFAULT 0,
        base INTEGER NOT NULL DEFAULT 0,
        undo TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX learned_user ON learned(user_id, id)",
    "CREATE INDEX learned_refused ON learned(user_id, message_id) WHERE state IN ('undone', 'rejected')",
    "CREATE INDEX learned_memory ON learned(memory_id) WHERE memory_id <> 0",
)

# number: the id that a user sees, 1, 2, 3 among the user's own. The last one given is in `meta`, since the
# newest item can be deleted.
_NUMBERED = (
    "ALTER TABLE learned ADD COLUMN number INTEGER NOT NULL DEFAULT 0",
    "UPDATE learned SET number = n.number FROM (SELECT id, row_number() OVER (PARTITION BY user_id ORDER BY"
    " id) AS number FROM learned) AS n WHERE n.id = learned.id",
    "CREATE UNIQUE INDEX learned_number ON learned(user_id, number)",
)

# Tables and indexes of both engines, in SQLite's dialect; postgres/schema.py translates them. INT and
# SMALLINT are sizes of PostgreSQL, SQLite has one integer. /* serial */: SQLite numbers such a key by itself.
SHARED = (
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    # n: number of memories; total_length: sum of their doc_len; version: +1 with every change of them; edits:
    # +1 when a column of context_docs changed in a stored row; bytes, message_bytes: estimated sizes
    # (pruning).
    """CREATE TABLE tenants(
        number INTEGER PRIMARY KEY /* serial */,
        user_id TEXT NOT NULL UNIQUE,
        n INTEGER NOT NULL DEFAULT 0,
        total_length INTEGER NOT NULL DEFAULT 0,
        next_sequence INTEGER NOT NULL DEFAULT 1,
        version INTEGER NOT NULL DEFAULT 0,
        edits INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL DEFAULT 0,
        message_bytes INTEGER NOT NULL DEFAULT 0)""",
    # doc_len: the number of words, of which an assistant's count a part. thread, label, asks: features for
    # ranking, see discourse.py; asks also says which of the two texts an assistant wrote. pairs: which words
    # stand side by side (pairs.h).
    """CREATE TABLE context(
        id INTEGER PRIMARY KEY,
        user_message TEXT NOT NULL,
        assistant_response TEXT NOT NULL,
        timestamp INTEGER NOT NULL,
        content_hash TEXT NOT NULL,
        user_id TEXT NOT NULL DEFAULT 'local',
        doc_len INT NOT NULL DEFAULT 0,
        pinned SMALLINT NOT NULL DEFAULT 0,
        source TEXT NOT NULL DEFAULT '',
        session TEXT NOT NULL DEFAULT '',
        thread INT NOT NULL DEFAULT 0,
        label INT NOT NULL DEFAULT 0,
        asks SMALLINT NOT NULL DEFAULT 0,
        pairs BLOB NOT NULL DEFAULT '')""",
    # Per user: under a global one another user's identical memory would be dropped.
    "CREATE UNIQUE INDEX context_hash ON context(user_id, content_hash)",
    # Stored rows that a version changed or removed, by which an index in main memory is updated. It has the
    # last few thousand versions of each tenant.
    """CREATE TABLE context_changes(
        tenant INTEGER NOT NULL,
        version INTEGER NOT NULL,
        id INTEGER NOT NULL,
        PRIMARY KEY(tenant, version, id)) WITHOUT ROWID""",
    # Number of recalls of a memory, and the last one. Not in `context`: its rows are large, and these change.
    "CREATE TABLE recalls(id INTEGER PRIMARY KEY, n INTEGER NOT NULL, last INTEGER NOT NULL)",
    """CREATE TABLE facts(
        user_id TEXT NOT NULL DEFAULT 'local',
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        valid_from INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY(user_id, key)) WITHOUT ROWID""",
    # changed_at: when it was recorded; valid_from: from when the value holds (0: the same). statement is the
    # sentence that it came from, of that message.
    """CREATE TABLE fact_history(
        id INTEGER PRIMARY KEY /* serial */,
        user_id TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT,
        source TEXT NOT NULL DEFAULT '',
        changed_at INTEGER NOT NULL,
        valid_from INTEGER NOT NULL DEFAULT 0,
        statement TEXT NOT NULL DEFAULT '',
        session_id TEXT NOT NULL DEFAULT '',
        message_id INTEGER NOT NULL DEFAULT 0)""",
    *_LEARNED,
    *_NUMBERED,
    # title: the name that the user gave it, '' for none.
    """CREATE TABLE sessions(
        id TEXT PRIMARY KEY,
        user_id TEXT NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        title TEXT NOT NULL DEFAULT '')""",
    # sent is NULL when it equals raw, injected when there is none; token_ids are little-endian int32. The key
    # "composed" of injected is the length of what was sent in place of raw, with the tail behind it.
    # tool_calls is JSON, [[id, name, arguments], …], perhaps with an extra;
    # tool_call_id: the call that a message of role 'tool' is the result of.
    """CREATE TABLE messages(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        session_id TEXT NOT NULL,
        role TEXT NOT NULL,
        raw TEXT NOT NULL,
        sent TEXT,
        injected TEXT,
        token_ids BLOB,
        tokens INT NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        tool_calls TEXT,
        tool_call_id TEXT NOT NULL DEFAULT '',
        thought TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX messages_session ON messages(session_id, id)",
    # Entities of a conversation, see shepherd/entities; record is JSON, that of id 0 has the turn.
    """CREATE TABLE session_entities(
        session_id TEXT NOT NULL,
        id INTEGER NOT NULL,
        record TEXT NOT NULL,
        PRIMARY KEY(session_id, id),
        FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE) WITHOUT ROWID""",
    # Summary of the messages that have left the context window, up to left_id; pieces is JSON, see
    # prompt/summary.py.
    """CREATE TABLE session_summaries(
        session_id TEXT PRIMARY KEY,
        pieces TEXT NOT NULL,
        n_turns INTEGER NOT NULL,
        left_id INTEGER NOT NULL,
        FOREIGN KEY(session_id) REFERENCES sessions(id) ON DELETE CASCADE) WITHOUT ROWID""",
    # Notes about messages of stateless clients, see prompt/ledger.py; used_at: milliseconds.
    """CREATE TABLE ledger(
        user_id TEXT NOT NULL,
        hash TEXT NOT NULL,
        note TEXT NOT NULL,
        used_at INTEGER NOT NULL,
        PRIMARY KEY(user_id, hash)) WITHOUT ROWID""",
    "CREATE INDEX ledger_used ON ledger(user_id, used_at)",
    # Messages to extract from: message_ids and lines are JSON, lines are '[]' when done. owner: the worker
    # that adds to an open job or runs it; next_try: when a waiting job is due, or another one counts as
    # abandoned. given: the results of a done job, as ids in `learned` (JSON). A unique index keeps a message
    # from being extracted twice.
    """CREATE TABLE extraction_jobs(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        user_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        message_ids TEXT NOT NULL,
        lines TEXT NOT NULL,
        state TEXT NOT NULL,
        owner TEXT NOT NULL DEFAULT '',
        attempts INT NOT NULL DEFAULT 0,
        refusals INT NOT NULL DEFAULT 0,
        next_try REAL NOT NULL DEFAULT 0,
        told_at INTEGER NOT NULL,
        error TEXT NOT NULL DEFAULT '',
        facts INT NOT NULL DEFAULT 0,
        memories INT NOT NULL DEFAULT 0,
        dropped INT NOT NULL DEFAULT 0,
        given TEXT NOT NULL DEFAULT '')""",
    # The prompt of each turn, see shepherd/trace: /context/{session}/{turn}/…. kind: 0 text, 1 integer, 2
    # float, 3 boolean. Read by ranges: the rows of a turn are adjacent.
    """CREATE TABLE trace(
        user_id TEXT NOT NULL,
        path TEXT NOT NULL,
        value TEXT NOT NULL,
        kind SMALLINT NOT NULL,
        PRIMARY KEY(user_id, path)) WITHOUT ROWID""",
    # Keys of a server, see api_keys.py; revoked_at 0: still valid. Rows are never deleted.
    """CREATE TABLE api_keys(
        hash TEXT PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        owner TEXT NOT NULL,
        scopes TEXT NOT NULL,
        label TEXT NOT NULL DEFAULT '',
        created_at INTEGER NOT NULL,
        revoked_at INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID""",
    # Numbers of a user's knowledge and sums for ranking its chunks, as `tenants` has for memories; number:
    # the tenant's. Ids of nodes and edges are the user's own: 1, 2, 3.
    """CREATE TABLE knowledge_sums(
        number INTEGER PRIMARY KEY,
        n INTEGER NOT NULL DEFAULT 0,
        total_length INTEGER NOT NULL DEFAULT 0,
        version INTEGER NOT NULL DEFAULT 0,
        edits INTEGER NOT NULL DEFAULT 0,
        next_chunk INTEGER NOT NULL DEFAULT 1,
        next_node INTEGER NOT NULL DEFAULT 1,
        next_edge INTEGER NOT NULL DEFAULT 1)""",
    # n_edges: number of edges at either end; text_length: characters of source_text; content_hash: of the
    # source of an import; origin: its name for the node. The long text is last, so that reading the columns
    # before it does not read it.
    """CREATE TABLE nodes(
        user_id TEXT NOT NULL,
        id INTEGER NOT NULL,
        kind TEXT NOT NULL DEFAULT '',
        title TEXT NOT NULL,
        link TEXT NOT NULL DEFAULT '',
        event_date TEXT NOT NULL DEFAULT '',
        n_edges INTEGER NOT NULL DEFAULT 0,
        text_length INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        touched_at INTEGER NOT NULL,
        index_state TEXT NOT NULL DEFAULT 'none',
        index_error TEXT NOT NULL DEFAULT '',
        content_hash TEXT NOT NULL DEFAULT '',
        origin TEXT NOT NULL DEFAULT '',
        metadata TEXT NOT NULL DEFAULT '{}',
        description TEXT NOT NULL DEFAULT '',
        notes TEXT NOT NULL DEFAULT '',
        source_text TEXT NOT NULL DEFAULT '',
        PRIMARY KEY(user_id, id))""",
    "CREATE UNIQUE INDEX nodes_origin ON nodes(user_id, origin) WHERE origin <> ''",
    "CREATE INDEX nodes_latest ON nodes(user_id, updated_at DESC, id)",
    # The order of the most-connected: ten of 100,000 are read in microseconds, counting edges takes 0.2 s.
    "CREATE INDEX nodes_hubs ON nodes(user_id, n_edges DESC, updated_at DESC, id) WHERE kind <> 'memory'",
    """CREATE TABLE edges(
        user_id TEXT NOT NULL,
        id INTEGER NOT NULL,
        from_node_id INTEGER NOT NULL,
        to_node_id INTEGER NOT NULL,
        type TEXT NOT NULL,
        explanation TEXT NOT NULL,
        confidence REAL NOT NULL,
        source TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        PRIMARY KEY(user_id, id),
        CHECK(from_node_id <> to_node_id),
        FOREIGN KEY(user_id, from_node_id) REFERENCES nodes(user_id, id),
        FOREIGN KEY(user_id, to_node_id) REFERENCES nodes(user_id, id))""",
    "CREATE UNIQUE INDEX edges_from ON edges(user_id, from_node_id, to_node_id, type)",
    "CREATE INDEX edges_to ON edges(user_id, to_node_id)",
    """CREATE TABLE dimensions(
        user_id TEXT NOT NULL,
        name TEXT NOT NULL,
        description TEXT NOT NULL DEFAULT '',
        icon TEXT NOT NULL DEFAULT '',
        is_priority SMALLINT NOT NULL DEFAULT 0,
        PRIMARY KEY(user_id, name)) WITHOUT ROWID""",
    """CREATE TABLE node_dimensions(
        user_id TEXT NOT NULL,
        node_id INTEGER NOT NULL,
        dimension TEXT NOT NULL,
        PRIMARY KEY(user_id, node_id, dimension),
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id),
        FOREIGN KEY(user_id, dimension) REFERENCES dimensions(user_id, name)) WITHOUT ROWID""",
    "CREATE INDEX node_dimensions_name ON node_dimensions(user_id, dimension, node_id)",
    # The nodes a user has open, in order; the first is the primary one.
    """CREATE TABLE focused_nodes(
        user_id TEXT NOT NULL,
        place INTEGER NOT NULL,
        node_id INTEGER NOT NULL,
        PRIMARY KEY(user_id, place),
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id)) WITHOUT ROWID""",
    # Pieces of a node that are searched. id: tenant number << 40 | sequence, as memories have; part: 'text'
    # of source_text, 'card' of title, description and notes; start and end are characters of that part.
    """CREATE TABLE chunks(
        id INTEGER PRIMARY KEY,
        user_id TEXT NOT NULL,
        node_id INTEGER NOT NULL,
        part TEXT NOT NULL,
        idx INTEGER NOT NULL,
        start_char INTEGER NOT NULL,
        end_char INTEGER NOT NULL,
        token_count INTEGER NOT NULL DEFAULT 0,
        doc_len INTEGER NOT NULL DEFAULT 0,
        embedding_model TEXT NOT NULL DEFAULT '',
        text TEXT NOT NULL,
        FOREIGN KEY(user_id, node_id) REFERENCES nodes(user_id, id))""",
    "CREATE UNIQUE INDEX chunks_node ON chunks(user_id, node_id, part, idx)",
    # As context_changes: chunks that a version removed.
    """CREATE TABLE chunk_changes(
        tenant INTEGER NOT NULL,
        version INTEGER NOT NULL,
        id INTEGER NOT NULL,
        PRIMARY KEY(tenant, version, id)) WITHOUT ROWID""",
)
# Statements that bring an older database to each version, of both engines.
UPGRADES = {
    2: (
        "ALTER TABLE facts ADD COLUMN valid_from INTEGER NOT NULL DEFAULT 0",
        "UPDATE facts SET valid_from = updated_at",
        "ALTER TABLE fact_history ADD COLUMN valid_from INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE fact_history ADD COLUMN statement TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE fact_history ADD COLUMN session_id TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE fact_history ADD COLUMN message_id INTEGER NOT NULL DEFAULT 0",
        "UPDATE fact_history SET valid_from = changed_at",
        *_LEARNED,
        # Results of version 1 have no ids in `learned`.
        "UPDATE extraction_jobs SET given = ''",
    ),
    3: ("ALTER TABLE sessions ADD COLUMN title TEXT NOT NULL DEFAULT ''",),
    4: (
        "UPDATE meta SET value = (SELECT count(*) FROM learned WHERE learned.user_id = substr(meta.key, 15)"
        " AND learned.id <= meta.value) WHERE meta.key >= 'learned_shown/' AND meta.key < 'learned_shown0'",
        *_NUMBERED,
        "INSERT INTO meta(key, value) SELECT 'learned_last/' || user_id, count(*) FROM learned"
        " GROUP BY user_id",
    ),
    5: (),
    # Filled with the indexes, when the store is opened.
    6: (
        "ALTER TABLE context ADD COLUMN pairs BLOB NOT NULL DEFAULT ''",
        "DELETE FROM meta WHERE key = 'tokenizer_version'",
    ),
    # Keys of PostgreSQL.
    7: (),
}
# Full-text indexes of SQLite. Tokens of our one tokenizer, each with its tenant's number before it
# (t17_word): document frequencies are the user's own, and any SQLite can open the file. Contentless: the text
# is in `context` once. Without contentless_delete, which keeps the words of deleted rows until a merge: with
# secure-delete a deletion takes them out of the index at once.
_FULL_TEXT = (
    """CREATE VIRTUAL TABLE context_fts USING fts5(
        user_message, assistant_response, content='', tokenize="ascii tokenchars '_'")""",
    "INSERT INTO context_fts(context_fts, rank) VALUES('secure-delete', 1)",
    """CREATE VIRTUAL TABLE chunks_fts USING fts5(text, content='', tokenize="ascii tokenchars '_'")""",
    "INSERT INTO chunks_fts(chunks_fts, rank) VALUES('secure-delete', 1)",
)
# Covers the columns that ranking reads: 1,000 memories load from a cold disk in 4 ms instead of 93.
_RANKED_COLUMNS = "CREATE INDEX context_docs ON context(id, timestamp, doc_len, thread, label, asks, pairs)"
# Upgrades of SQLite alone. The indexes are filled when the store is opened: no tokenizer has made them.
_OWN_UPGRADES = {
    5: (
        "DROP TABLE context_fts",
        "DROP TABLE chunks_fts",
        *_FULL_TEXT,
        "DELETE FROM meta WHERE key = 'tokenizer_version'",
    ),
    6: ("DROP INDEX context_docs", _RANKED_COLUMNS),
}
# Tables and indexes of SQLite alone.
_OWN = (
    _RANKED_COLUMNS,
    # Oldest and newest of one user, for pruning and lists; the row id follows by itself and breaks ties.
    f"CREATE INDEX context_age ON context(id >> {SEQUENCE_BITS}, timestamp)",
    "CREATE INDEX fact_history_key ON fact_history(user_id, key)",
    "CREATE INDEX sessions_latest ON sessions(user_id, updated_at)",
    "CREATE INDEX extraction_jobs_due ON extraction_jobs(state, next_try)",
    # Covers the columns that ranking reads, as context_docs does.
    "CREATE INDEX chunks_docs ON chunks(id, doc_len, node_id)",
    *_FULL_TEXT,
    # Keeps a message from being extracted twice.
    "CREATE UNIQUE INDEX extraction_jobs_messages ON extraction_jobs(user_id, message_ids)",
)


def create_schema(connection: Connection) -> None:
    """Create all tables and sign the header, inside the caller's transaction."""
    for statement in (*SHARED, *_OWN):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES('tokenizer_version', ?)", (TOKENIZER_VERSION,))
    connection.execute("INSERT INTO meta VALUES('recalls_counted_since', unixepoch())")
    # Nothing was deleted before deletions overwrite, as in older databases.
    connection.execute("INSERT INTO meta VALUES('overwrites', 1)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {USER_VERSION}")


def upgrade(connection: Connection, version: int) -> None:
    """Bring the tables from an older version to this one, inside the caller's transaction."""
    for newer in range(version + 1, USER_VERSION + 1):
        for statement in (*UPGRADES[newer], *_OWN_UPGRADES.get(newer, ())):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {USER_VERSION}")


def memory_range(tenant: int) -> tuple[int, int]:
    """Return the first and the last id that a tenant's memories can have."""
    return tenant << SEQUENCE_BITS, ((tenant + 1) << SEQUENCE_BITS) - 1
