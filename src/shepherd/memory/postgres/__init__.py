"""The memory in a PostgreSQL database: many machines, many processes, the same results as in a file.

Needs psycopg 3, and is imported only for an address that names PostgreSQL.
"""

from shepherd.memory.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
