"""Fuzz the store: statements against a dictionary, recall against the twin, then both on damaged files."""

from __future__ import annotations

import math
import random
import tempfile
from pathlib import Path
from typing import Any

from shepherd._native.store import Connection, Recall, SQLiteError
from tests.native import recall_database as database
from tests.native import twin_rank
from tests.native.recall_database import NOW, SEQUENCE_BITS, WORDS
from tests.native.twin_rank import Document

_VALUES: tuple[Any, ...] = (
    *(
        None,
        0,
        -1,
        1 << 62,
        (1 << 63) - 1,
        -(1 << 63),
        0.5,
        math.inf,
        5e-324,
        "",
        "é日\U0001f600",
        "a\0b",
        b"",
        b"\0\xff",
    ),
    *("x" * 5000, b"y" * 5000),
)
_BAD: tuple[Any, ...] = (1 << 63, "\ud800", object(), [1])


class Table:
    """A table of one column by its key, and the dictionary that it should equal."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.path, self.rng = path, rng
        self.rows: dict[int, Any] = {}
        self.connection = Connection(path)
        self.connection.script("PRAGMA journal_mode = WAL; CREATE TABLE t (a INTEGER PRIMARY KEY, b)")

    def put(self, connection: Connection, rows: dict[int, Any]) -> None:
        key, value = self.rng.randrange(40), self.rng.choice(_VALUES)
        connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (key, value))
        rows[key] = value

    def put_many(self, connection: Connection, rows: dict[int, Any]) -> None:
        new = {self.rng.randrange(40): self.rng.choice(_VALUES) for _ in range(self.rng.randrange(30))}
        connection.execute_many("INSERT OR REPLACE INTO t VALUES (?, ?)", iter(new.items()))
        rows |= new

    def put_together(self, connection: Connection, rows: dict[int, Any]) -> None:
        key = self.rng.randrange(40)
        statements = [("DELETE FROM t WHERE a = ?", (key,)), ("SELECT count(*) FROM t", ())]
        rows.pop(key, None)
        assert connection.execute_together(statements) == [[], [(len(rows),)]]

    def refuse(self, connection: Connection, rows: dict[int, Any]) -> None:
        for sql, parameters in (
            ("INSERT INTO t VALUES (?, ?)", (99, self.rng.choice(_BAD))),
            ("INSERT INTO t VALUES (?)", (1, 2)),
            ("INSERT INTO t SELECT a, b FROM t UNION ALL SELECT 1, 2 UNION ALL SELECT 1, 2", ()),
            ("SELECT " * 5, ()),
        ):
            try:
                connection.execute(sql, parameters)
            except (SQLiteError, ValueError, TypeError, OverflowError):
                continue
            raise AssertionError(sql)

    def transaction(self) -> None:
        rows = dict(self.rows)
        self.connection.begin()
        for _ in range(self.rng.randrange(6)):
            change = self.rng.choice([self.put, self.put_many, self.put_together, self.refuse])
            change(self.connection, rows)
        if self.rng.random() < 0.3:
            self.connection.execute("ROLLBACK")
        else:
            self.connection.execute("COMMIT")
            self.rows = rows

    def reopen(self) -> None:
        self.connection.close()
        self.connection = Connection(self.path, cache_kib=self.rng.choice([1, 100, 16384]))

    def check(self) -> None:
        found = dict(self.connection.execute("SELECT a, b FROM t"))
        assert found == self.rows


def _memory(rng: random.Random) -> Any:
    words = rng.choices(WORDS, k=rng.randrange(7))
    cut = rng.randrange(len(words) + 1)
    return (
        words[:cut],
        words[cut:],
        NOW - rng.randrange(10**8),
        rng.randrange(-2, 5),
        rng.randrange(3),
        rng.randrange(4),
    )


def _recall(connection: Connection, rng: random.Random) -> None:
    """Add, edit and delete memories of two users; each search is the twin's."""
    stored: dict[int, Document] = {}
    recall = Recall()
    for _ in range(8):
        tenant = rng.choice([1, 7])
        memories = [_memory(rng) for _ in range(rng.choice([1, 5, 40]))]
        ids = database.add(connection, tenant, memories)
        stored |= {id: database.document(id, *one) for id, one in zip(ids, memories, strict=True)}
        for id in rng.sample(sorted(stored), min(3, len(stored))):
            if rng.random() < 0.5:
                database.delete(connection, id)
                del stored[id]
            else:
                changed = _memory(rng)
                database.edit(connection, id, *changed)
                stored[id] = database.document(id, *changed)
        documents = [one for id, one in sorted(stored.items()) if id >> SEQUENCE_BITS == tenant]
        keywords = rng.choices([*WORDS, "none"], k=rng.randrange(1, 5))
        k, floor = rng.choice([1, 5, 100]), rng.choice([0.0, 0.9])
        found = recall.search(connection, tenant, keywords, k, NOW, recency_floor=floor)
        assert found == twin_rank.search(documents, keywords, k, NOW, recency_floor=floor)


def _damage(whole: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(whole)
    for _ in range(rng.choice([1, 3, 30])):
        at = rng.randrange(len(damaged))
        kind = rng.randrange(4)
        if kind == 0:
            damaged[at] = rng.randrange(256)
        elif kind == 1:
            damaged[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), b"\x7f" + b"\xff" * 7])
        elif kind == 2:
            page = at // 4096 * 4096
            damaged[page : page + 4096] = damaged[:4096] if rng.random() < 0.5 else rng.randbytes(4096)
        else:
            del damaged[at + 1 :]
    return bytes(damaged)


def _use_damaged(path: Path, rng: random.Random) -> None:
    """Read and write a damaged file: errors with a name, nothing worse."""
    questions = [lambda c, n=n: Recall().search(c, n, rng.sample(WORDS, 3), 50, NOW) for n in (1, 7)]
    statements = (
        *("SELECT * FROM context", "SELECT count(*) FROM t", "SELECT typeof(b), length(b) FROM t"),
        *("INSERT INTO context_fts(context_fts) VALUES('merge')", "PRAGMA integrity_check(3)"),
        *("INSERT INTO t (b) VALUES ('after')", "DELETE FROM context WHERE id % 2"),
    )
    questions += [lambda c, sql=sql: c.execute(sql) for sql in statements]
    try:
        with Connection(path, busy_timeout_ms=0) as connection:
            for question in questions:
                try:
                    question(connection)
                except (SQLiteError, ValueError, OverflowError, UnicodeDecodeError):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
    except SQLiteError:
        return


def run(seed: int) -> None:
    """Fill a table and a memory, then damage copies of their file."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        table = Table(path, rng)
        table.connection.script(database.SCHEMA)
        for _ in range(20):
            rng.choice([table.transaction, table.transaction, table.reopen])()
            table.check()
        _recall(table.connection, rng)
        table.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        table.connection.close()
        whole = path.read_bytes()
        for i in range(6):
            copy = Path(folder) / f"damaged-{i}.db"
            copy.write_bytes(_damage(whole, rng))
            _use_damaged(copy, rng)
