"""A memory database of the three tables that recall reads, with a plain model of what is in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from shepherd._native.store import Connection
from tests.native.twin_rank import Document, length, pairs, stored_pairs

# Question words, answer words, timestamp; then, if given, thread, label, asks.
Memory = tuple[Any, ...]

NOW = 1_780_000_000
DAY = 86_400
WORDS = ["alpha", "bravo", "carol", "delta", "echo", "fox", "golf", "hotel"]
SEQUENCE_BITS = 40
SCHEMA = """
    CREATE TABLE tenants (number INTEGER PRIMARY KEY, user_id TEXT NOT NULL UNIQUE,
        n INTEGER NOT NULL DEFAULT 0, total_length INTEGER NOT NULL DEFAULT 0,
        next_sequence INTEGER NOT NULL DEFAULT 1, version INTEGER NOT NULL DEFAULT 0,
        edits INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE context (id INTEGER PRIMARY KEY, timestamp INTEGER NOT NULL, doc_len INTEGER NOT NULL,
        thread INTEGER NOT NULL, label INTEGER NOT NULL, asks INTEGER NOT NULL,
        pairs BLOB NOT NULL);
    CREATE INDEX context_docs ON context (id, timestamp, doc_len, thread, label, asks, pairs);
    CREATE VIRTUAL TABLE context_fts USING fts5 (user_message, assistant_response, content = '',
        contentless_delete = 1, tokenize = "ascii tokenchars '_'");
"""
INSERT_TERMS = "INSERT INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, ?)"
REPLACE_TERMS = (
    "INSERT OR REPLACE INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, '')"
)


def scoped(tenant: int, words: Sequence[str]) -> str:
    return " ".join(f"t{tenant}_{word}" for word in words)


def create(path: Path | str) -> Connection:
    connection = Connection(path)
    connection.script("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;" + SCHEMA)
    return connection


def _begin(connection: Connection) -> bool:
    if connection.in_transaction:
        return False
    connection.execute("BEGIN IMMEDIATE")
    return True


def _count(connection: Connection, tenant: int, n: int, length: int, edits: int = 0) -> None:
    connection.execute(
        "UPDATE tenants SET n = n + ?, total_length = total_length + ?, version = version + 1, "
        "edits = edits + ? WHERE number = ?",
        (n, length, edits, tenant),
    )


def add(connection: Connection, tenant: int, memories: Sequence[Memory]) -> list[int]:
    """Stores them in one transaction; their ids."""
    own = _begin(connection)
    connection.execute(
        "INSERT OR IGNORE INTO tenants (number, user_id) VALUES (?, ?)", (tenant, f"user {tenant}")
    )
    [(first,)] = connection.execute("SELECT next_sequence FROM tenants WHERE number = ?", (tenant,))
    documents = [document(tenant << SEQUENCE_BITS | (first + i), *m) for i, m in enumerate(memories)]
    connection.execute_many(
        "INSERT INTO context VALUES (?, ?, ?, ?, ?, ?, ?)",
        ((d.id, d.timestamp, d.doc_len, d.thread, d.label, d.asks, pairs_of(d)) for d in documents),
    )
    connection.execute_many(
        INSERT_TERMS,
        (
            (d.id, scoped(tenant, m[0]), scoped(tenant, m[1]))
            for d, m in zip(documents, memories, strict=True)
        ),
    )
    connection.execute(
        "UPDATE tenants SET next_sequence = next_sequence + ? WHERE number = ?", (len(memories), tenant)
    )
    _count(connection, tenant, len(documents), sum(d.doc_len for d in documents))
    if own:
        connection.execute("COMMIT")
    return [d.id for d in documents]


def delete(connection: Connection, id: int) -> None:
    own = _begin(connection)
    [(doc_len,)] = connection.execute("DELETE FROM context WHERE id = ? RETURNING doc_len", (id,))
    connection.execute("DELETE FROM context_fts WHERE rowid = ?", (id,))
    _count(connection, id >> SEQUENCE_BITS, -1, -doc_len)
    if own:
        connection.execute("COMMIT")


def edit(connection: Connection, id: int, *memory: Any) -> None:
    own = _begin(connection)
    changed = document(id, *memory)
    [(before,)] = connection.execute("SELECT doc_len FROM context WHERE id = ?", (id,))
    connection.execute(
        "UPDATE context SET timestamp = ?, doc_len = ?, thread = ?, label = ?, asks = ?,"
        " pairs = ? WHERE id = ?",
        (
            changed.timestamp,
            changed.doc_len,
            changed.thread,
            changed.label,
            changed.asks,
            pairs_of(changed),
            id,
        ),
    )
    tenant = id >> SEQUENCE_BITS
    connection.execute(
        INSERT_TERMS.replace("INSERT", "INSERT OR REPLACE"),
        (id, scoped(tenant, memory[0]), scoped(tenant, memory[1])),
    )
    _count(connection, tenant, 0, changed.doc_len - before, edits=1)
    if own:
        connection.execute("COMMIT")


def pairs_of(document: Document) -> bytes:
    return stored_pairs(pairs(document.asks, *document.texts))


def document(
    id: int,
    question: Sequence[str],
    answer: Sequence[str],
    when: int,
    thread: int = 0,
    label: int = 0,
    asks: int = 0,
) -> Document:
    texts = tuple(question), tuple(answer)
    return Document(id, texts, when, length(asks, *texts), thread, label, asks)


def documents_of(ids: list[int], stored: list[Any]) -> list[Document]:
    return [document(id, *memory) for id, memory in zip(ids, stored, strict=True)]


def zipf_memories(seed: int, n: int, n_words: int, longest: int = 12) -> list[Any]:
    rng = random.Random(seed)
    weights = [1 / (rank + 2) for rank in range(n_words)]
    vocabulary = [f"w{i}" for i in range(n_words)]
    stored = []
    for i in range(n):
        chosen = rng.choices(vocabulary, weights, k=rng.randrange(1, longest))
        cut = rng.randrange(len(chosen) + 1)
        when = NOW - (n - i) * 3600
        asks = rng.randrange(3) + rng.choice([0, 8, 8, 4, 12, 24, 40])
        stored.append((chosen[:cut], chosen[cut:], when, i // 9 % 40, rng.randrange(3), asks))
    return stored
