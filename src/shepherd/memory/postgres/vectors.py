"""Vectors in PostgreSQL: pgvector's type, compared with the question by the server, one by one.

There is no index of pgvector: a user's vectors are few enough for an exact search, and its approximate
indexes do not know users, so one user's rows would change the results of another.
"""

from __future__ import annotations

from collections.abc import Sequence

from shepherd.errors import StoreError
from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.postgres import by_user
from shepherd.memory.postgres.database import REBUILDING, Connection, Database
from shepherd.memory.schema import SEQUENCE_BITS, memory_range
from shepherd.memory.vectors import table
from shepherd.memory.vectors.table import NOTHING, UNITS, Embedded, Floats, Near, Nearest, Unembedded

__all__ = ["ServerVectors"]

# `{type}` is pgvector's, with its schema.
_STATEMENTS = {
    MEMORIES: (
        """CREATE TABLE IF NOT EXISTS context_vectors(
                id BIGINT PRIMARY KEY, vector {type}, change BIGINT NOT NULL)""",
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
    ),
    CHUNKS: (
        """CREATE TABLE IF NOT EXISTS chunk_vectors(
                id BIGINT PRIMARY KEY, vector {type} NOT NULL, change BIGINT NOT NULL)""",
        f"""CREATE INDEX IF NOT EXISTS chunk_vectors_change
                ON chunk_vectors((id >> {SEQUENCE_BITS}), change)""",
        table.CHUNKS_PENDING,
        by_user.CHUNK_VECTORS_FOLLOW,
        "DROP TRIGGER IF EXISTS chunk_vectors_follow ON chunks",
        by_user.CHUNK_VECTORS_TRIGGER,
    ),
}


class ServerVectors:
    """VectorTable on a server. Thread-safe."""

    def __init__(self, database: Database, corpus: Corpus) -> None:
        self._database = database
        self._corpus = corpus
        self._owner = -1
        self._name = ""
        self._type_schema = ""

    def open(self, embedder_name: str, *, to_write: bool) -> None:
        """Make the table, or empty it of another embedder's vectors; to read, only note the embedder.

        Raises StoreError if there is no pgvector and it may not be installed.
        """
        self._owner, self._name = table.fingerprint(embedder_name), embedder_name
        self._type_schema = _installed_type(self._database, to_install=to_write)
        if to_write and not self._database.read(self._is_ours):
            self._database.write_locked(REBUILDING, self._make)

    def nearest(
        self, connection: Connection, tenant: int, query: Floats, ids: Sequence[int], n: int
    ) -> Nearest:
        """Return the tenant's `n` nearest rows and those of `ids`; nothing while another embedder owns it."""
        if not self._type_schema or not self._is_ours(connection):
            return NOTHING
        corpus, product = self._corpus, f"OPERATOR({self._type_schema}.<#>)"
        columns, source = "", "v c WHERE"
        if corpus.result_columns:
            columns = f", {corpus.result_columns}"
            source = f"{corpus.rows} c LEFT JOIN v USING (id) WHERE c.id BETWEEN ?2 AND ?3 AND"
        rows = connection.execute(
            # Vectors have length 1: the inner product, which pgvector gives negated, is the cosine.
            "WITH v AS MATERIALIZED (SELECT id, cosine FROM"
            f" (SELECT id, vector, -(vector {product} CAST(?1 AS {self._type})) AS cosine"
            f" FROM {corpus.vectors} WHERE id BETWEEN ?2 AND ?3 AND vector IS NOT NULL OFFSET 0) AS rated"
            # Zeros stand for a text that the embedder refuses; few other vectors are orthogonal.
            f" WHERE cosine <> 0 OR vector {product} vector < 0),"
            " best AS (SELECT id FROM v ORDER BY cosine DESC, id DESC LIMIT ?4)"
            " SELECT id, cosine, (SELECT count(*) FROM v),"
            f" (SELECT CAST(sum(CAST(round(cosine * {UNITS}) AS bigint)) AS bigint) FROM v){columns}"
            f" FROM {source} (c.id IN (SELECT id FROM best) OR c.id = ANY(?5::bigint[]))",
            (_vector_literal(query), *memory_range(tenant), n, list(ids)),
        )
        found = [Near(row[0], row[1], row[4:]) for row in rows]
        return Nearest(found, table.mean(rows[0][3] or 0, rows[0][2]) if rows else 0.0)

    def pending(self, connection: Connection, n: int) -> list[Unembedded]:
        """Return a few rows without a vector, all of one user; none if there is nothing to do."""
        return table.pending(connection, self._corpus, n) if self._is_ours(connection) else []

    def put(self, connection: Connection, vectors: Sequence[Embedded]) -> None:
        """Store vectors of rows that are still there. A memory whose hash has changed stays pending."""
        if self._type_schema and self._is_ours(connection):
            literals = [(row_id, digest, _vector_literal(vector)) for row_id, digest, vector in vectors]
            table.put(connection, self._corpus, literals, f"CAST(? AS {self._type})", self._name)

    @property
    def _type(self) -> str:
        return f"{self._type_schema}.vector"

    def _is_ours(self, connection: Connection) -> bool:
        return table.belongs_to(connection, self._corpus, self._owner)

    def _make(self, connection: Connection) -> None:
        for statement in _STATEMENTS[self._corpus]:
            connection.run(statement.replace("{type}", self._type))
        if not self._is_ours(connection):
            table.claim_table(connection, self._corpus, self._owner)


def _installed_type(database: Database, *, to_install: bool) -> str:
    """Return the schema of pgvector's type, quoted; "" if it is not installed and not to be.

    Raises StoreError if it may not be installed.
    """
    found = database.read(_schema_of_type)
    if found or not to_install:
        return found
    try:
        database.write_locked(
            REBUILDING,
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
    """Return the schema of pgvector's type, quoted, since search_path has only ours; "" without it."""
    rows = connection.execute(
        "SELECT quote_ident(n.nspname)::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace"
        " JOIN pg_depend d ON d.objid = t.oid AND d.deptype = 'e' JOIN pg_extension e ON e.oid = d.refobjid"
        " WHERE t.typname = 'vector' AND e.extname = 'vector'"
    )
    return str(rows[0][0]) if rows else ""


def _vector_literal(vector: Floats) -> str:
    """Return a vector as pgvector reads it."""
    return f"[{','.join(map(repr, vector.astype(float).tolist()))}]"
