"""Peer of the benchmark: Python's sqlite3 with a plain FTS5 query, in a process of its own, never imported.

    python -m shepherd.benchmark.stdlib_peer N_MEMORIES N_USERS N_QUESTIONS

stores the generated memories in a temporary file, prints {"digest", "version", "per_second"}, and answers
each line, a list of question numbers, with the microseconds of each.

In the process of Shepherd's store it would be a second copy of SQLite. Without FTS5, `digest` is empty and
`reason` says so.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import Corpus

__all__ = ["BATCH", "Peer"]

BATCH = 10_000  # memories per transaction
_BEST = """
    SELECT context.id, context.user_message, context.assistant_response, bm25(context_fts) AS score
    FROM context_fts JOIN context ON context.id = context_fts.rowid
    WHERE context_fts MATCH ? AND user_id = ? ORDER BY score LIMIT 3
"""


class Peer:
    """FTS5 with the porter tokenizer: the best three by bm25() with their rows. Ids count from 1."""

    def __init__(self, path: Path, data: Corpus) -> None:
        self.version = sqlite3.sqlite_version
        self._data = data
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.executescript("""
            PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -65536;
            CREATE TABLE context (id INTEGER PRIMARY KEY, user_message TEXT, assistant_response TEXT,
                timestamp INTEGER, user_id TEXT);
            CREATE INDEX context_user ON context (user_id);
            CREATE VIRTUAL TABLE context_fts USING fts5 (user_message, assistant_response,
                content = 'context', content_rowid = 'id', tokenize = 'porter unicode61');
        """)
        self.seconds_to_store = 0.0
        for start in range(0, len(data.memories), BATCH):
            part = list(enumerate(data.memories[start : start + BATCH], start + 1))
            began = time.perf_counter()
            self.connection.execute("BEGIN")
            self.connection.executemany(
                "INSERT INTO context VALUES (?, ?, ?, ?, ?)",
                ((i, m.question, m.answer, m.timestamp, f"user{m.user}") for i, m in part),
            )
            self.connection.executemany(
                "INSERT INTO context_fts (rowid, user_message, assistant_response) VALUES (?, ?, ?)",
                ((i, m.question, m.answer) for i, m in part),
            )
            self.connection.execute("COMMIT")
            self.seconds_to_store += time.perf_counter() - began

    def search(self, user: int, keywords: list[str]) -> list[int]:
        """Return the ids of the best three."""
        rows = self.connection.execute(_BEST, self._parameters(user, keywords)).fetchall()
        return [row[0] for row in rows]

    def matches(self, user: int, keywords: list[str]) -> list[int]:
        """Return the ids of all memories with one of the words."""
        query = "SELECT rowid FROM context_fts WHERE context_fts MATCH ? ORDER BY rowid"
        rows = self.connection.execute(query, self._parameters(user, keywords)[:1]).fetchall()
        return [row[0] for row in rows if self._data.memories.user_of(row[0] - 1) == user]

    def _parameters(self, user: int, keywords: list[str]) -> tuple[str, str]:
        return " OR ".join(f'"{word}"' for word in keywords), f"user{user}"


def _serve(n_memories: int, n_users: int, n_questions: int) -> None:
    data = corpus.build(n_memories, n_users, n_questions)
    with tempfile.TemporaryDirectory(prefix="shepherd-bench-") as folder:
        try:
            peer = Peer(Path(folder, "memory.db"), data)
        except sqlite3.OperationalError as error:  # built without FTS5
            print(json.dumps({"digest": "", "reason": str(error)}), flush=True)
            return
        rate = n_memories / max(peer.seconds_to_store, 1e-9)
        print(json.dumps({"digest": data.digest, "version": peer.version, "per_second": rate}), flush=True)
        for line in sys.stdin:
            times = []
            for number in json.loads(line):
                user, keywords = data.questions[number]
                began = time.perf_counter_ns()
                peer.search(user, list(keywords))
                times.append((time.perf_counter_ns() - began) / 1e3)
            print(json.dumps(times), flush=True)
        peer.connection.close()


if __name__ == "__main__":
    _serve(*map(int, sys.argv[1:4]))
