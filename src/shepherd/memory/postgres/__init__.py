"""The memory in a PostgreSQL database, for many machines and processes; results are the same as in a file.

Needs psycopg 3, and is imported only for an address of PostgreSQL.
"""

from shepherd.memory.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
