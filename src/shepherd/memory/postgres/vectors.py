"""Vectors in PostgreSQL: pgvector's type, compared with the question by the server, one by one.

Without an index over them: a user's are few enough to be compared exactly, and pgvector's approximate indexes
know no users, so that one user's memories would change what another one finds.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd.errors import StoreError
from shepherd.memory import tenants
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors.table import (
    NOTHING,
    UNITS,
    Floats,
    Near,
    Nearest,
    Unembedded,
    belongs_to,
    claim_table,
    counts,
    fingerprint,
    mean,
    pending,
    put,
)

__all__ = ["ServerVectors", "installed_type", "vector_literal"]


class ServerVectors:
    """The vectors of a memory on a server. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owner = -1
        self._type_schema = ""

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Makes the table, or empties it of another embedder's vectors; to read, it only takes note.

        StoreError where there is no pgvector and it may not be installed.
        """
        self._owner = fingerprint(embedder_name)
        self._type_schema = installed_type(self._database, to_install=to_write)
        if not to_write:
            return
        if not self._database.read(lambda connection: belongs_to(connection, self._owner)):
            self._database.write_locked("schema", self._make)

    def nearest(self, user_id: str, query: Floats, ids: Sequence[int], n: int) -> Nearest:
        """The user's `n` nearest memories and those of `ids` that are his; nothing while another owns it."""

        def read(connection: Connection) -> Nearest:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not self._type_schema or not belongs_to(connection, self._owner):
                return NOTHING
            rows = connection.execute(
                # Vectors have length 1: the inner product, which pgvector gives negated, is the cosine.
                "WITH v AS MATERIALIZED (SELECT id, cosine FROM"
                f" (SELECT id, vector, -(vector OPERATOR({self._type_schema}.<#>)"
                f" CAST(?1 AS {self._type_schema}.vector)) AS cosine FROM context_vectors"
                " WHERE id BETWEEN ?2 AND ?3 AND vector IS NOT NULL OFFSET 0) AS rated"
                # Zeros stand for a text that the embedder does not take; few others are at right angles.
                f" WHERE cosine <> 0 OR vector OPERATOR({self._type_schema}.<#>) vector < 0),"
                " best AS (SELECT id FROM v ORDER BY cosine DESC, id DESC LIMIT ?4)"
                " SELECT c.id, c.user_message, c.assistant_response, c.timestamp, c.pinned, c.source,"
                " c.session, v.cosine, (SELECT count(*) FROM v),"
                f" (SELECT CAST(sum(CAST(round(cosine * {UNITS}) AS bigint)) AS bigint) FROM v)"
                " FROM context c LEFT JOIN v ON v.id = c.id"
                " WHERE c.id BETWEEN ?2 AND ?3"
                " AND (c.id IN (SELECT id FROM best) OR c.id = ANY(?5::bigint[]))",
                (vector_literal(query), *memory_range(tenant), n, list(ids)),
            )
            found = [Near(row[0], row[7], row[:7]) for row in rows]
            return Nearest(found, mean(rows[0][9] or 0, rows[0][8]) if rows else 0.0)

        return self._database.read(read)

    def pending(self, n: int) -> list[Unembedded]:
        """A few memories without a vector, all of one user; none: there is nothing to do."""

        def read(connection: Connection) -> list[Unembedded]:
            return pending(connection, n) if belongs_to(connection, self._owner) else []

        return self._database.read(read)

    def put(self, batch: Sequence[Unembedded], vectors: Floats) -> None:
        """Stores vectors; of a memory that has changed meanwhile none, and it is pending again."""
        literals = [vector_literal(vector) for vector in vectors]

        def write(connection: Connection) -> None:
            if belongs_to(connection, self._owner):
                put(connection, batch, literals, f"CAST(? AS {self._type_schema}.vector)")

        if batch:  # in turn with the user's writers: a memory that goes now would leave its vector behind
            self._database.write(batch[0].user_id, write)

    def counts(self, user_id: str) -> tuple[int, int]:
        """How many of the user's memories have a vector, whoever made it, and how many there are."""

        def read(connection: Connection) -> tuple[int, int]:
            tenant = tenants.find(connection, user_id)
            if tenant is None:
                return 0, 0
            return counts(connection, tenant)

        return self._database.read(read)

    # ---- setting up

    def _make(self, connection: Connection) -> None:
        for statement in (
            f"""CREATE TABLE IF NOT EXISTS context_vectors(
                id BIGINT PRIMARY KEY, vector {self._type_schema}.vector, change BIGINT NOT NULL)""",
            f"""CREATE INDEX IF NOT EXISTS context_vectors_change
                ON context_vectors((id >> {SEQUENCE_BITS}), change)""",
            "CREATE INDEX IF NOT EXISTS context_vectors_stale ON context_vectors(id) WHERE vector IS NULL",
            """CREATE OR REPLACE FUNCTION context_vectors_follow() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    IF TG_OP = 'DELETE' THEN DELETE FROM context_vectors WHERE id = OLD.id;
                    ELSE UPDATE context_vectors SET vector = NULL WHERE id = OLD.id; END IF;
                    RETURN NULL;
                END $$""",
            "DROP TRIGGER IF EXISTS context_vectors_follow ON context",
            """CREATE TRIGGER context_vectors_follow
                AFTER DELETE OR UPDATE OF user_message, assistant_response ON context
                FOR EACH ROW EXECUTE FUNCTION context_vectors_follow()""",
        ):
            connection.run(statement)
        if not belongs_to(connection, self._owner):
            claim_table(connection, self._owner)


def installed_type(database: Database, *, to_install: bool) -> str:
    """The schema of pgvector's type, quoted; "" where it is not there and not to be installed.

    StoreError where it may not be installed.
    """
    found = database.read(_schema_of_type)
    if found or not to_install:
        return found
    try:
        database.write_locked(
            "schema",
            lambda connection: connection.run("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"),
        )
    except StoreError as error:
        raise StoreError(
            f"{database.shown}: memory_vectors needs the extension pgvector, which is not there",
            hint="install it on the server (Debian: postgresql-NN-pgvector) and run CREATE EXTENSION"
            " vector as its owner, or set memory_vectors to off",
        ) from error
    return database.read(_schema_of_type)


def _schema_of_type(connection: Connection) -> str:
    """Where pgvector's type is, quoted; the connection's search_path names our schema alone. "" without."""
    rows = connection.execute(
        "SELECT quote_ident(n.nspname)::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
        " JOIN pg_depend d ON d.objid = t.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid"
        " WHERE t.typname = 'vector' AND e.extname = 'vector'"
    )
    return str(rows[0][0]) if rows else ""


def vector_literal(vector: Floats) -> str:
    """A vector as pgvector reads it."""
    return f"[{','.join(map(repr, vector.astype(float).tolist()))}]"
