"""Blind memories for tests: a key in a file, and everything that a server got to see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG

from shepherd.encryption import set_asker, use_settings
from shepherd.encryption.unlocking import forget_all
from tests.postgres import Server

__all__ = ["KEY", "changes_of_files", "known_key", "rows_of", "sent_and_stored"]

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


def rows_of(server: Server, schema: str) -> bytes:
    """Return the rows of all tables of a schema as texts."""
    import psycopg

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
    return rows


def changes_of_files(server: Server) -> dict[Path, tuple[int, int]]:
    """Let a server write what it holds in memory; return when each of its files was written, and the size."""
    server.execute("CHECKPOINT")
    found = {}
    for path in server.folder.rglob("*"):
        # Other tests' tables may be going.
        with suppress(FileNotFoundError):
            status = path.stat()
            if S_ISREG(status.st_mode):
                found[path] = (status.st_mtime_ns, status.st_size)
    return found


def sent_and_stored(server: Server, schema: str, before: dict[Path, tuple[int, int]]) -> dict[str, bytes]:
    """Return all that a server has written since `before`, which changes_of_files() returned.

    That is each file on its disk that it wrote to, as a whole: tables, indexes, log of changes, and its log
    of statements. The rest has the rows of other tests, a gigabyte of them. Under "rows" are the rows of all
    tables of a schema as texts.
    """
    now = changes_of_files(server)
    found = {str(path): path.read_bytes() for path, change in now.items() if before.get(path) != change}
    return {**found, "rows": rows_of(server, schema)}
