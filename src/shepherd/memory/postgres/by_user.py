"""Tables of PostgreSQL whose keys begin with the user, so that the server can divide them by user.

Hash partitions, and the shards of a distributed database, need the user in every primary key and every unique
index. In a file of SQLite the id alone is the key, which is the row's place there.
"""

from __future__ import annotations

import re

from shepherd.memory.postgres.database import Connection
from shepherd.memory.schema import SEQUENCE_BITS, USER_VERSION

__all__ = [
    "CHUNK_VECTORS_FOLLOW",
    "CHUNK_VECTORS_TRIGGER",
    "REFUSAL",
    "TENANT",
    "UPGRADE",
    "keyed",
    "leaves",
    "refuse_older",
]

# Tables of both engines with the columns id and user_id.
_TABLES = ("context", "chunks", "learned", "fact_history", "extraction_jobs")
_TERMS = ("context_terms", "chunk_terms")

_MESSAGE = "a newer Shepherd has upgraded this database: update this one, and start it again"
# Default of columns of which an older Shepherd knows nothing: one that still runs cannot write any more, and
# is told why. State 55000 (not in prerequisite state) is one whose message it repeats.
REFUSAL = f"""CREATE OR REPLACE FUNCTION refuse_older_shepherd() RETURNS bigint LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION USING ERRCODE = '55000', MESSAGE = '{_MESSAGE}'; END $$"""
# The tenant's number once more: it is in the id, but a key has no expressions.
TENANT = "tenant BIGINT NOT NULL DEFAULT refuse_older_shepherd()"

# Vectors of deleted chunks are deleted. No foreign key does it: it would need the user beside the id.
CHUNK_VECTORS_FOLLOW = """CREATE OR REPLACE FUNCTION chunk_vectors_follow()
        RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN DELETE FROM chunk_vectors WHERE id = OLD.id; RETURN NULL; END $$"""
CHUNK_VECTORS_TRIGGER = """CREATE TRIGGER chunk_vectors_follow AFTER DELETE ON chunks
        FOR EACH ROW EXECUTE FUNCTION chunk_vectors_follow()"""

_NEW_KEYS = f"""DO $$
    DECLARE name text; key text;
    BEGIN
        IF to_regclass('chunk_vectors') IS NOT NULL THEN
            ALTER TABLE chunk_vectors DROP CONSTRAINT IF EXISTS chunk_vectors_id_fkey;
            {CHUNK_VECTORS_TRIGGER};
        END IF;
        FOREACH name IN ARRAY ARRAY['{"', '".join((*_TABLES, *_TERMS))}'] LOOP
            SELECT conname INTO key FROM pg_constraint WHERE conrelid = name::regclass AND contype = 'p';
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I, ADD PRIMARY KEY(%I, id)', name, key,
                CASE WHEN name IN ('{"', '".join(_TERMS)}') THEN 'tenant' ELSE 'user_id' END);
        END LOOP;
    END $$"""
# A new type writes the table anew, which takes a fraction of the time of an UPDATE of all rows.
UPGRADE = (
    REFUSAL,
    CHUNK_VECTORS_FOLLOW,
    *(f"ALTER TABLE {table} ADD COLUMN tenant BIGINT" for table in _TERMS),
    *(
        f"ALTER TABLE {table} ALTER tenant TYPE BIGINT USING id >> {SEQUENCE_BITS},"
        " ALTER tenant SET NOT NULL, ALTER tenant SET DEFAULT refuse_older_shepherd()"
        for table in _TERMS
    ),
    _NEW_KEYS,
    "CREATE INDEX context_id ON context(id)",
    f"ALTER TABLE IF EXISTS writes ADD COLUMN format BIGINT NOT NULL DEFAULT {USER_VERSION}",
    "ALTER TABLE IF EXISTS writes ALTER format SET DEFAULT refuse_older_shepherd()",
)


def keyed(statement: str) -> str:
    """Return a translated CREATE TABLE with the user first in its primary key, any other one as it is."""
    found = re.match(r"CREATE TABLE (\w+)\(", statement)
    if found is None or found[1] not in _TABLES:
        return statement
    columns = re.sub(" PRIMARY KEY", " NOT NULL", statement, count=1)[:-1]
    return f"{columns},\n        PRIMARY KEY(user_id, id))"


def refuse_older(connection: Connection) -> None:
    """From now on, refuse the writes of processes that know an older format only."""
    connection.run(
        "ALTER TABLE writes DROP CONSTRAINT IF EXISTS writes_format,"
        f" ADD CONSTRAINT writes_format CHECK (format >= {USER_VERSION}) NOT VALID"
    )


def leaves(connection: Connection, relation: str) -> list[str]:
    """Return the partitions of a table or an index, or its own name if it has none."""
    parts = connection.execute(
        "SELECT relid::regclass::text FROM pg_partition_tree(?::text::regclass) WHERE isleaf", (relation,)
    )
    return [name for (name,) in parts] or [relation]
