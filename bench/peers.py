"""The sides of test_peers.py: Shepherd's two tiers and what else finds texts by words. One process each.

Every side stores the same texts, numbered from 0, and answers a question with the numbers of the best. Peers
are given the words of the question that are not on the corpus's list of stop words, and stem by their own
English stemmer; Shepherd takes the question as it is, and the conversation that a text belongs to. Peers
answer with numbers alone, Shepherd with the memories.

    python -m bench.peers SIDE      says what it is, then answers each JSON line it is given
"""

from __future__ import annotations

import importlib
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW

ROOT = Path(__file__).resolve().parent.parent
# When each text was said, and in which conversation.
Told = Sequence[tuple[int, str]]
_STOP_WORDS = frozenset(corpus.STOP_WORDS)


def words_of(question: str) -> list[str]:
    """The words that every side is asked for; all of them when nothing but stop words was asked."""
    words = list(dict.fromkeys(re.findall(r"\w+", question.lower())))
    return [word for word in words if word not in _STOP_WORDS] or words


class Stdlib:
    """FTS5 with porter, `MATCH a OR b … ORDER BY rank`."""

    version = f"sqlite3 {sqlite3.sqlite_version}"

    def __init__(self, folder: Path, texts: Sequence[str], told: Told) -> None:
        self._connection = sqlite3.connect(folder / "peer.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA cache_size = -65536")
        self._connection.execute("CREATE VIRTUAL TABLE t USING fts5(text, tokenize = 'porter unicode61')")
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO t(rowid, text) VALUES(?, ?)", enumerate(texts, 1))
        self._connection.execute("COMMIT")

    def search(self, question: str, k: int) -> list[int]:
        match = " OR ".join(f'"{word}"' for word in words_of(question))
        rows = self._connection.execute(
            "SELECT rowid FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?", (match, k)
        )
        return [row[0] - 1 for row in rows]


class Bm25s:
    """bm25s, Lucene's variant, with PyStemmer."""

    packages = ("bm25s", "PyStemmer")

    def __init__(self, folder: Path, texts: Sequence[str], told: Told) -> None:
        import bm25s
        import Stemmer

        self._stemmer = Stemmer.Stemmer("english")
        self._bm25s = bm25s
        tokens = bm25s.tokenize(
            list(texts), stopwords=sorted(_STOP_WORDS), stemmer=self._stemmer, show_progress=False
        )
        self._index = bm25s.BM25(method="lucene")
        self._index.index(tokens, show_progress=False)

    def search(self, question: str, k: int) -> list[int]:
        tokens = self._bm25s.tokenize(
            " ".join(words_of(question)), stopwords=[], stemmer=self._stemmer, show_progress=False
        )
        found, scores = self._index.retrieve(tokens, k=k, show_progress=False)
        return [int(one) for one, score in zip(found[0], scores[0], strict=True) if score > 0]


class Tantivy:
    """tantivy, BM25, English stemmer, in memory."""

    packages = ("tantivy",)

    def __init__(self, folder: Path, texts: Sequence[str], told: Told) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("number", stored=True, fast=True)
        builder.add_text_field("text", stored=False, tokenizer_name="en_stem")
        self._tantivy, self._schema = tantivy, builder.build()
        self._index = tantivy.Index(self._schema)
        writer = self._index.writer(heap_size=200_000_000, num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, question: str, k: int) -> list[int]:
        query = self._index.parse_query(" ".join(words_of(question)), ["text"])
        hits = self._searcher.search(query, k).hits
        return [self._searcher.doc(address)["number"][0] for _, address in hits]


class DuckDB:
    """DuckDB's full-text search extension, porter."""

    packages = ("duckdb", "duckdb-extension-fts")

    def __init__(self, folder: Path, texts: Sequence[str], told: Told) -> None:
        import duckdb

        extension = importlib.import_module("duckdb_extension_fts")
        [path] = Path(str(extension.__file__)).parent.rglob(f"v{duckdb.__version__}/fts.duckdb_extension")
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1")
        self._connection.execute(f"LOAD '{path}'")
        self._connection.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, text VARCHAR)")
        # In one statement: executemany takes a second for a thousand rows.
        (folder / "texts.json").write_text(
            "\n".join(json.dumps({"id": i, "text": text}) for i, text in enumerate(texts)), encoding="utf-8"
        )
        self._connection.execute(
            "INSERT INTO t SELECT id, text FROM read_json(?, columns = {id: 'INTEGER', text: 'VARCHAR'})",
            [str(folder / "texts.json")],
        )
        self._connection.execute(
            "PRAGMA create_fts_index('t', 'id', 'text', stemmer = 'porter', stopwords = 'none')"
        )

    def search(self, question: str, k: int) -> list[int]:
        rows = self._connection.execute(
            "SELECT id FROM (SELECT id, fts_main_t.match_bm25(id, ?) AS score FROM t)"
            " WHERE score IS NOT NULL ORDER BY score DESC, id DESC LIMIT ?",
            [" ".join(words_of(question)), k],
        ).fetchall()
        return [row[0] for row in rows]


class _Shepherd:
    cache_mb = 0

    def __init__(self, folder: Path, texts: Sequence[str], told: Told) -> None:
        from shepherd.memory import Memory
        from shepherd.memory.records import NewMemory
        from shepherd.memory.sqlite import SQLiteStore

        path = str(folder / "memory.db")
        store = SQLiteStore(path, recall_cache_mb=0)
        new = [
            NewMemory(text, "", at, "turn", session) for text, (at, session) in zip(texts, told, strict=True)
        ]
        ids: list[int] = []
        for start in range(0, len(new), 500):
            ids += [id for id, _ in store.add_memories("local", new[start : start + 500])]
        store.settle()
        store.close()
        self._numbers = {id: number for number, id in reversed(list(enumerate(ids)))}
        now = float(max((at for at, _ in told), default=NOW))
        self._memory = Memory(path, recall_cache_mb=self.cache_mb, clock=lambda: now)
        self._memory.search("a question", 1)
        while self.cache_mb and not self._memory.stats().hot_users:
            time.sleep(0.01)

    def search(self, question: str, k: int) -> list[int]:
        return [self._numbers[hit.id] for hit in self._memory.search(question, k)]


class ShepherdHot(_Shepherd):
    """Memory.search, hot index."""

    version = "hot index"
    cache_mb = 4096


class ShepherdFTS5(_Shepherd):
    """Memory.search, FTS5 tier."""

    version = "FTS5 tier"


SIDES: dict[str, Any] = {
    "shepherd, hot": ShepherdHot,
    "shepherd, FTS5": ShepherdFTS5,
    "stdlib FTS5": Stdlib,
    "bm25s": Bm25s,
    "tantivy": Tantivy,
    "DuckDB FTS": DuckDB,
}


def versions(side: str) -> str:
    """Return the versions of a side's packages, or the reason why it is missing."""
    kind = SIDES[side]
    try:
        found = [f"{name} {version(name)}" for name in getattr(kind, "packages", ())]
    except PackageNotFoundError as error:
        return f"not installed: {error} (pip install 'shepherd-llm[bench]')"
    return ", ".join(found) or str(kind.version)


def is_there(side: str) -> bool:
    return not versions(side).startswith("not installed")


class Process:
    """A side in a process of its own, over texts in a file."""

    def __init__(self, side: str, texts: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.peers", side, str(texts)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.seconds_to_store: float = self._read()

    def ask(self, questions: Sequence[str], k: int) -> list[tuple[float, list[int]]]:
        """For each question its microseconds, and the numbers of the best texts."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([list(questions), k]) + "\n")
        self._process.stdin.flush()
        return [(microseconds, found) for microseconds, found in self._read()]

    def stop(self) -> None:
        self._process.communicate()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "a peer's process ended early; its error is above"
        return json.loads(line)


def _serve(side: str, path: Path) -> None:
    lines = [json.loads(line) for line in path.open(encoding="utf-8")]
    with tempfile.TemporaryDirectory(prefix="shepherd-peer-") as folder:
        began = time.perf_counter()
        store = SIDES[side](
            Path(folder), [text for _, _, text in lines], [(at, session) for at, session, _ in lines]
        )
        print(json.dumps(time.perf_counter() - began), flush=True)
        for line in sys.stdin:
            questions, k = json.loads(line)
            answers = []
            for question in questions:
                began_ns = time.perf_counter_ns()
                found = store.search(question, k)
                answers.append(((time.perf_counter_ns() - began_ns) / 1e3, found))
            print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1], Path(sys.argv[2]))
