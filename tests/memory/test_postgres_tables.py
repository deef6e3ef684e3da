"""The catalogue of PostgreSQL: which tables can be divided by user, as partitions or on several servers.

That takes the user as the first column of every primary key and unique index, and the same column in all of
a table. The tables for which that does not hold are named here, with the reason; the list must not grow.
"""

from __future__ import annotations

from shepherd.memory import Memory
from tests.postgres import Server

# Of the whole installation, or one row for each user: every server of a distributed database needs all of it.
OF_ALL_USERS = {"meta", "api_keys", "writes", "tenants", "knowledge_sums"}
# The columns that are the user.
USER = {"user_id", "tenant"}
NOT_READY = {
    # The user's number is in the upper bits of the id.
    "recalls",
    # The user is a column, and statements look for the id alone.
    "sessions",
    # The user is that of the session.
    *("messages", "session_entities", "session_summaries"),
}
UNDIVIDED = OF_ALL_USERS | NOT_READY
UNIQUE = """SELECT t.relname::text, a.attname::text
    FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace
    LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
    WHERE n.nspname = current_schema() AND x.indisunique AND t.relkind IN ('r', 'p')"""
TABLES = """SELECT t.relname::text FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace
    WHERE n.nspname = current_schema() AND t.relkind IN ('r', 'p') ORDER BY 1"""


def test_new_tables_begin_their_keys_with_the_user(postgres_server: Server) -> None:
    schema = postgres_server.new_schema()
    Memory(postgres_server.url(schema)).close()
    firsts: dict[str, set[str]] = {name: set() for (name,) in postgres_server.execute(TABLES, schema)}
    for table, first in postgres_server.execute(UNIQUE, schema):
        firsts[table].add(first)

    assert all(firsts.values())
    assert {table for table, first in firsts.items() if len(first) > 1 or not first <= USER} == UNDIVIDED
