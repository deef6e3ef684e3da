"""Blind memories for tests: a key in a file, and everything that a server got to see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shepherd.encryption import set_asker, use_settings
from shepherd.encryption.unlocking import forget_all
from tests.postgres import Server

__all__ = ["KEY", "known_key", "sent_and_stored"]

KEY = "ab" * 32


@contextmanager
def known_key(folder: Path, key: str = KEY) -> Iterator[Path]:
    """Let memory_key_file name a file with the key; afterwards no key is known."""
    file = folder / "memory.key"
    file.write_text(f"{key}\n")
    use_settings("", str(file))
    try:
        yield file
    finally:
        forget_keys()


def forget_keys() -> None:
    """Let no key be known, or found by settings or by asking."""
    set_asker(None)
    use_settings("", "")
    forget_all()


def sent_and_stored(server: Server, schema: str) -> dict[str, bytes]:
    """Return all that a server has on its disk: tables, indexes, log of changes, and its log of statements.

    Under "rows" are the rows of all tables of a schema as texts.
    """
    import psycopg

    server.execute("CHECKPOINT")
    found = {str(path): path.read_bytes() for path in server.folder.rglob("*") if path.is_file()}
    rows = b""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        tables = connection.execute(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables"
            " WHERE schemaname = %s",
            [schema],
        ).fetchall()
        for (table,) in tables:
            with connection.cursor().copy(f"COPY {table} TO STDOUT") as copy:  # type: ignore[arg-type]
                rows += b"".join(map(bytes, copy))
    return {**found, "rows": rows}
