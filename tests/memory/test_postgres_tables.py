"""The catalogue of PostgreSQL: which tables could be divided by user, as partitions or on several servers.

That takes the user as the first column of every primary key and unique index. Statements take their part in
it, so the tables that are not ready yet are named here; the list must not grow.
"""

from __future__ import annotations

from shepherd.memory import Memory
from tests.postgres import Server

# Of the whole installation: every server of a distributed database has all of them.
OF_ALL_USERS = {"meta", "api_keys", "writes"}
# Columns that are the user.
USER = {"user_id", "tenant", "number"}
NOT_READY = {
    # The user's number is in the upper bits of the id.
    *("context", "context_terms", "chunks", "chunk_terms", "recalls"),
    # The user is a column, and statements look for the id alone.
    *("extraction_jobs", "fact_history", "learned", "sessions"),
    # The user is that of the session.
    *("messages", "session_entities", "session_summaries"),
}
UNIQUE = """SELECT t.relname::text, i.relname::text, a.attname::text
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    JOIN pg_namespace n ON n.oid = t.relnamespace
    LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
    WHERE n.nspname = current_schema() AND x.indisunique AND t.relkind IN ('r', 'p')"""
TABLES = """SELECT t.relname::text FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = current_schema() AND t.relkind IN ('r', 'p')"""


def test_new_tables_begin_their_keys_with_the_user(postgres_server: Server) -> None:
    schema = postgres_server.new_schema()
    Memory(postgres_server.url(schema)).close()
    tables = {name for (name,) in postgres_server.execute(TABLES, schema)}
    unique = postgres_server.execute(UNIQUE, schema)

    assert tables == {table for table, _, _ in unique}
    assert {table for table, _, first in unique if first not in USER} - OF_ALL_USERS == NOT_READY
