"""Run of the benchmark: the same questions to every tier of recall and to the peer.

The sides alternate in blocks of 50 questions; the first round warms up and does not count. The two tiers of
ranking are measured one after the other, since questions to the tables would evict the index from the CPU's
caches. Times are those of the caller, the interpreter included.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from shepherd._native.text import keywords as extract_keywords
from shepherd.benchmark import corpus
from shepherd.benchmark.corpus import NOW, Corpus
from shepherd.errors import InternalError, UsageError
from shepherd.memory import Memory
from shepherd.memory.corpora import MEMORIES
from shepherd.memory.database import Database
from shepherd.memory.hot import HotRecall
from shepherd.memory.hot_rows import Tables
from shepherd.memory.records import NewMemory
from shepherd.memory.sqlite import FileTables, open_store
from shepherd.wording import counted

__all__ = ["Line", "Report", "Timed", "compute_without_lock", "measure"]

# Called with a name, the amount done and the total.
Progress = Callable[[str, int, int], object]

ROUNDS = 4
TURN = 50
N_QUESTIONS = 400
N_FACTS = 8
N_SINGLE = 2000
MOST_MEMORIES = 20_000_000

_BATCH = 500  # memories per transaction, as an import writes them
_WRITES_PER_S = 500
_WRITER, _IMPORTER = "writer", "importer"
# More than any machine has: nothing is evicted during a measurement.
_CACHE_MB = 1 << 18
_KEYWORD_LOOPS = 20
# Questions of which a server's tables answer each twice: one takes a third of a second.
_N_COLD = 40
_N_ROUND_TRIPS = 2000
_WITHOUT_SERVER = ("hot", "hot-floor-0", "stdlib", "keywords")
# 30 us of a key derivation: the shortest pause in which a thread reaches its 500 writes a second.
_ITERATIONS = 150


@dataclass(frozen=True, slots=True)
class Timed:
    """Microseconds of one call, of `n` calls."""

    p50_us: float
    p99_us: float
    n: int


@dataclass(frozen=True, slots=True)
class Line:
    """A figure: a time or a rate; `ratio` is the peer's median over this one, 0 without a peer.

    `round_trips`: the median as a multiple of an empty round trip to the server, 0 for a file.
    """

    name: str
    what: str
    time: Timed | None = None
    per_second: float = 0.0
    ratio: float = 0.0
    round_trips: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Results and the data they were measured on. `load`: the machine's before the run, 0 if unknown."""

    memories: int
    users: int
    questions: int
    data: str
    peer: str
    load: float
    lines: tuple[Line, ...]
    server: str = ""
    """Version of the server; "" for a file."""


def measure(
    n_memories: int = 100_000,
    n_users: int = 1,
    *,
    database: str = "",
    recency_floor: float = 0.9,
    progress: Progress = lambda what, done, total: None,
) -> Report:
    """Run the benchmark: a minute for 100,000 memories, most of it for the peer, and 4 KB of disk a memory.

    `database`: the address of a server, where a schema is made for the run; by default a file is measured.
    UsageError for impossible numbers, StoreError if the server cannot be used.
    """
    if not 1 <= n_users <= n_memories <= MOST_MEMORIES:
        raise UsageError(
            f"{counted(n_memories, 'memory', 'memories')} of {counted(n_users, 'user')}",
            hint=f"at least one memory a user, at most {MOST_MEMORIES:,} memories",
        )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    progress("making memories", 0, 0)
    data = corpus.build(n_memories, n_users, min(N_QUESTIONS, 4 * n_memories))
    with ExitStack() as stack:
        if database:
            place = stack.enter_context(_schema(database))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shepherd-bench-"))
            place = str(Path(folder, "memory.db"))
        peer = stack.enter_context(_Peer(n_memories, n_users, len(data.questions)))
        run = _Run(place, data, recency_floor, progress)
        bulk = run.store()
        progress("waiting for the peer", 0, 0)
        # Not earlier: both would store at the same time, perhaps on two cores.
        peer.start()
        lines = [*run.ranking(), *run.searches(peer if peer.version else None)]
        peer_us = next((one.time.p50_us for one in lines if one.name == "stdlib" and one.time), 0.0)
        lines = [_with_ratio(one, peer_us) for one in lines]
        lines += [*run.injections(), run.keywords(), Line("bulk", _BULK, per_second=bulk)]
        if peer.version:
            lines.append(Line("stdlib-bulk", "the same, stdlib sqlite3", per_second=peer.per_second))
        lines += [run.single(), run.during_import()]
        server = ""
        if database:
            server, trip = run.round_trip()
            assert trip.time is not None
            lines = [_with_round_trips(one, trip.time.p50_us) for one in (trip, *lines)]
    n_questions = len(data.questions)
    return Report(n_memories, n_users, n_questions, data.digest, peer.version, load, tuple(lines), server)


_BULK = "memories stored in bulk"


def _with_ratio(line: Line, peer_us: float) -> Line:
    if line.time is None or not peer_us or line.name == "stdlib":
        return line
    return replace(line, ratio=peer_us / line.time.p50_us)


def _with_round_trips(line: Line, trip_us: float) -> Line:
    if line.time is None or line.name in _WITHOUT_SERVER:
        return line
    return replace(line, round_trips=line.time.p50_us / trip_us)


@contextmanager
def _schema(url: str) -> Iterator[str]:
    """Yield the address of a new schema on a server, which is dropped at the end."""
    name = f"shepherd_bench_{secrets.token_hex(4)}"
    parts = urlsplit(url)
    pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "schema"]
    address = urlunsplit(parts._replace(query=urlencode([*pairs, ("schema", name)], quote_via=quote)))
    # It makes the tables, or says what the server or psycopg lacks.
    open_store(address, read_only=False, max_db_size="1000T", recall_cache_mb=0, busy_timeout_s=60.0).close()
    from shepherd.memory.postgres import database as server
    from shepherd.memory.postgres.search import ServerTables

    opened = server.Database(address)
    try:
        yield address
    finally:
        # A schema with a million rows takes a while.
        opened.write_locked("bench", lambda one: one.run(f"DROP SCHEMA IF EXISTS {name} CASCADE"))
        shutil.rmtree(ServerTables(opened, MEMORIES).folder, ignore_errors=True)
        opened.close()


class _Peer:
    """Process of the stdlib peer, which runs with the block and is asked by the numbers of questions.

    `version` and `per_second` are empty where it cannot run here.
    """

    def __init__(self, n_memories: int, n_users: int, n_questions: int) -> None:
        self._command = [
            *(sys.executable, "-m", "shepherd.benchmark.stdlib_peer"),
            *map(str, (n_memories, n_users, n_questions)),
        ]
        self._process: subprocess.Popen[str] | None = None
        self.version = ""
        self.per_second = 0.0

    def __enter__(self) -> _Peer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()  # the end of its input ends it

    def start(self) -> None:
        """Let it store its memories, and wait."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        about = self._read()
        self.version, self.per_second = about.get("version", ""), about.get("per_second", 0.0)

    def ask(self, numbers: Sequence[int]) -> list[float]:
        """Return the microseconds of each of these questions."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(list(numbers)) + "\n")
        self._process.stdin.flush()
        times: list[float] = self._read()
        return times

    def _read(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise InternalError("the process of the peer ended early", hint="its error is above")
        return json.loads(line)


class _Run:
    """Database of one run, and its measurements."""

    def __init__(self, place: str, data: Corpus, recency_floor: float, progress: Progress) -> None:
        self._place = place
        self._is_server = "://" in place
        self._data = data
        self._floor = recency_floor
        self._progress = progress
        self._words = [extract_keywords(" ".join(words)) for _, words in data.questions]
        self._asked = sorted({user for user, _ in data.questions})
        self._questions = [" ".join(words) for _, words in data.questions]
        self._users = [_name(user) for user, _ in data.questions]

    # ---- storing

    def store(self) -> float:
        """Store everything as an import does; return memories a second, with merging of the index."""
        store = open_store(
            self._place, read_only=False, max_db_size="1000T", recall_cache_mb=0, busy_timeout_s=60.0
        )
        seconds, done, total = 0.0, 0, len(self._data.memories)
        batches: dict[int, list[NewMemory]] = {}
        try:
            for memory in self._data.memories:
                batch = batches.setdefault(memory.user, [])
                batch.append(NewMemory(memory.question, memory.answer, memory.timestamp, "import"))
                if len(batch) == _BATCH:
                    seconds += _seconds(store.add_memories, _name(memory.user), batches.pop(memory.user))
                    done += _BATCH
                    self._progress("storing", done, total)
            for user, batch in batches.items():
                seconds += _seconds(store.add_memories, _name(user), batch)
                done += len(batch)
                self._progress("storing", done, total)
            seconds += _seconds(store.settle)
        finally:
            store.close()
        return total / seconds

    # ---- reading

    def ranking(self) -> list[Line]:
        """Measure the two tiers alone: ids and scores of the best three, within a transaction.

        The user's number and version are read before, as `Memory` does with one statement for both tiers.
        """
        now = float(NOW)  # as clocks return it
        with self._tables() as tables, closing(HotRecall(tables, limit_bytes=_CACHE_MB << 20)) as hot:
            with tables.read() as connection:
                rows = connection.execute("SELECT user_id, number, version FROM tenants")
                tenants = {user_id: (number, version) for user_id, number, version in rows}
                asked_of = [tenants[_name(user)] for user, _ in self._data.questions]
                for user in self._asked:
                    # No word of any memory: the tables answer at once.
                    hot.search(connection, tenants[_name(user)][0], ["-"], 1, now)
            self._await("building hot indexes", lambda: hot.wait(0.2))
            with tables.read() as connection:

                def fast(floor: float) -> Callable[[int], object]:
                    def one(i: int) -> object:
                        number, version = asked_of[i]
                        return hot.search(
                            connection, number, self._words[i], 3, now, version, recency_floor=floor
                        )

                    return one

                def slow(i: int) -> object:
                    number, _ = asked_of[i]
                    if self._is_server:
                        connection.kept.clear()  # as for the first search of a transaction
                    return tables.search(
                        connection,
                        number,
                        self._words[i],
                        3,
                        now,
                        recency_floor=self._floor,
                        min_relevance=0.0,
                    )

                for i in range(min(20, len(asked_of))):
                    assert hot.is_hot(connection, asked_of[i][0])
                    assert fast(self._floor)(i) == slow(i)
                in_memory = {"hot": _alone(fast(self._floor)), "hot-floor-0": _alone(fast(0.0))}
                times = self._in_turns("ranking", in_memory)
                times |= self._in_turns("ranking by the tables", {"fts5": _alone(slow)}, are_cold=True)
        return [
            Line("hot", f"ranking, hot index, floor {self._floor:g}", times["hot"]),
            Line("hot-floor-0", "ranking, hot index, floor 0", times["hot-floor-0"]),
            Line("fts5", f"ranking, {self._cold}, floor {self._floor:g}", times["fts5"]),
        ]

    def round_trip(self) -> tuple[str, Line]:
        """Return the version of the server, and measure an empty round trip."""
        from shepherd.memory.postgres import database as server

        times = []
        with closing(server.Database(self._place)) as database:
            [(version,)] = database.look("SELECT current_setting('server_version')::text", ())
            for _ in range(_N_ROUND_TRIPS):
                began = time.perf_counter_ns()
                database.ping()
                times.append((time.perf_counter_ns() - began) / 1e3)
        return str(version), Line("round-trip", "empty round trip to the server", _timed(times))

    def searches(self, peer: _Peer | None) -> list[Line]:
        """Measure whole searches: keywords, ranking and rows in one read transaction."""
        questions, users = self._questions, self._users
        with self._hot_memory() as hot, self._memory(recall_cache_mb=0, read_only=True) as cold:

            def ask(memory: Memory) -> Callable[[int], object]:
                return lambda i: memory.search(questions[i], 3, users[i])

            sides = {"search-hot": _alone(ask(hot))}
            if peer is not None:
                sides["stdlib"] = peer.ask
            by_tables = {"search-fts5": _alone(ask(cold))}
            if self._is_server:
                times = self._in_turns("searching", sides)
                times |= self._in_turns("searching by the tables", by_tables, are_cold=True)
            else:
                times = self._in_turns("searching", sides | by_tables)
        names = {
            "search-hot": "search with its rows, hot index",
            "search-fts5": f"search with its rows, {self._cold}",
            "stdlib": "the same, stdlib sqlite3: bm25() … LIMIT 3",
        }
        return [Line(name, what, times[name]) for name, what in names.items() if name in times]

    def injections(self) -> list[Line]:
        """Measure recall from message to tail, alone and beside a thread that writes."""
        with self._hot_memory() as memory:
            for user in self._asked:
                for number in range(N_FACTS):
                    memory.set_fact(f"fact_{number}", f"value {number}", _name(user))

            def ask(i: int) -> object:
                return memory.recall(self._questions[i], self._users[i])

            alone = self._in_turns("injecting", {"inject": _alone(ask)})["inject"]
            writes: list[float] = []
            with _beside(lambda stop: _write_steadily(memory, stop, writes)):
                sides = {"inject": _alone(ask, before=compute_without_lock)}
                busy = self._in_turns("injecting beside a writer", sides)["inject"]
        what = f"the same beside a thread with {writes[0]:.0f} transactions a second"
        return [
            Line("inject", f"whole injection, {N_FACTS} facts, hot index", alone),
            Line("inject-writer", what, busy),
        ]

    def keywords(self) -> Line:
        """Measure keywords of a message of usual length."""
        texts = [f"what did i tell you about the {question}" for question in self._questions]
        times = []
        for text in texts:
            began = time.perf_counter_ns()
            for _ in range(_KEYWORD_LOOPS):
                extract_keywords(text)
            times.append((time.perf_counter_ns() - began) / 1e3 / _KEYWORD_LOOPS)
        return Line("keywords", "keywords of a message", _timed(times))

    # ---- writing

    def single(self) -> Line:
        """Measure acknowledged writes into a memory whose index is hot."""
        with self._hot_memory() as memory:
            user = _name(self._asked[0])
            memory.store_memory("is this the first", "it warms up", user)
            times = []
            for number in range(N_SINGLE):
                self._progress("writing", number, N_SINGLE)
                question, answer = f"what is entry {number} of the list", f"it is word{number} and some more"
                began = time.perf_counter_ns()
                memory.store_memory(question, answer, user, timestamp=NOW)
                times.append((time.perf_counter_ns() - began) / 1e3)
        return Line(
            "single", "one write, acknowledged", _timed(times), per_second=1e6 * len(times) / sum(times)
        )

    def during_import(self) -> Line:
        """Measure searches while a thread imports for another user."""
        with (
            self._hot_memory() as memory,
            _beside(lambda stop: _import_steadily(memory, self._data, stop)),
        ):
            ask = _alone(lambda i: memory.search(self._questions[i], 3, self._users[i]))
            time_ = self._in_turns("searching beside an import", {"import": ask})["import"]
        return Line("search-import", "search with its rows, hot index, beside an import", time_)

    # ---- helpers

    @property
    def _cold(self) -> str:
        return "tables" if self._is_server else "FTS5"

    @contextmanager
    def _tables(self) -> Iterator[Tables]:
        """Yield the database as hot indexes need it."""
        if not self._is_server:
            with closing(Database(self._place, read_only=True)) as file:
                yield FileTables(file, file.recall)
            return
        from shepherd.memory.postgres import database as server
        from shepherd.memory.postgres.search import ServerTables

        with closing(server.Database(self._place, read_only=True)) as opened:
            yield ServerTables(opened, MEMORIES)

    def _memory(self, **options: Any) -> Memory:
        return Memory(
            self._place, recency_floor=self._floor, max_db_size="1000T", clock=lambda: float(NOW), **options
        )

    @contextmanager
    def _hot_memory(self) -> Iterator[Memory]:
        """Yield a memory with the hot indexes of all users who are asked about."""
        with self._memory(recall_cache_mb=_CACHE_MB) as memory:
            for user in self._asked:
                memory.search("a question", 1, _name(user))
            n_users = len(self._asked)
            self._await("loading hot indexes", lambda: memory.stats(_name(0)).hot_users >= n_users)
            yield memory

    def _await(self, what: str, is_done: Callable[[], bool]) -> None:
        self._progress(what, 0, 0)
        deadline = time.monotonic() + 60 + len(self._data.memories) / 5_000
        while not is_done():
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{what}: not done after {60 + len(self._data.memories) // 5_000} s",
                    hint="measure fewer memories, or while the machine is idle",
                )
            time.sleep(0.02)

    def _in_turns(
        self,
        what: str,
        sides: Mapping[str, Callable[[Sequence[int]], list[float]]],
        *,
        are_cold: bool = False,
    ) -> dict[str, Timed]:
        times: dict[str, list[float]] = {side: [] for side in sides}
        n, n_rounds = len(self._data.questions), ROUNDS
        if are_cold and self._is_server:
            n, n_rounds = min(n, _N_COLD), 2
        for number in range(n_rounds):
            for start in range(0, n, TURN):
                self._progress(what, number * n + start, n_rounds * n)
                for side in sorted(sides, reverse=(start // TURN + number) % 2 == 0):
                    turn = sides[side](range(start, min(start + TURN, n)))
                    times[side] += turn if number else []
        return {side: _timed(each) for side, each in times.items()}


def compute_without_lock() -> None:
    """Compute without the GIL, as a model does between two messages.

    Questions without a pause would hold the GIL and halve the rate of a writing thread. The CPU's caches are
    not touched: the wait for the GIL is measured.
    """
    hashlib.pbkdf2_hmac("sha256", b"", b"", _ITERATIONS)


def _alone(
    ask: Callable[[int], object], *, before: Callable[[], object] | None = None
) -> Callable[[Sequence[int]], list[float]]:
    """Return a function that times one question after the other; `before` is not timed."""

    def turn(numbers: Sequence[int]) -> list[float]:
        times = []
        for i in numbers:
            if before is not None:
                before()
            began = time.perf_counter_ns()
            ask(i)
            times.append((time.perf_counter_ns() - began) / 1e3)
        return times

    return turn


def _timed(times: list[float]) -> Timed:
    ordered = sorted(times)
    return Timed(ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], len(ordered))


def _seconds(work: Callable[..., object], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def _name(user: int) -> str:
    return f"user{user}"


@contextmanager
def _beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run `work` in a thread until the block ends, then raise its error if it has one."""
    stop = threading.Event()
    failures: list[Exception] = []

    def run() -> None:
        try:
            work(stop)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="bench beside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def _write_steadily(memory: Memory, stop: threading.Event, rates: list[float]) -> None:
    """Write until `stop` is set; append the rate per second to `rates`."""
    began, number = time.monotonic(), 0
    while not stop.wait(max(0.0, began + number / _WRITES_PER_S - time.monotonic())):
        # Not in nanoseconds: in the eleventh hour of a machine, one in ten of these is a valid card number.
        said = f"it says {time.monotonic():.6f} seconds"
        memory.store_memory(f"line {number} of the log", said, _WRITER)
        number += 1
    rates.append(number / (time.monotonic() - began))


def _import_steadily(memory: Memory, data: Corpus, stop: threading.Event) -> None:
    for n in count(1):
        if stop.is_set():
            return
        memory.import_memories(_lines(data, stop, n), _IMPORTER)


def _lines(data: Corpus, stop: threading.Event, n: int) -> Iterator[dict[str, Any]]:
    for one in data.memories:
        if stop.is_set():
            return
        # The number makes each pass new. It stays short: a long one could be taken for a card number.
        yield {"question": f"{one.question} {n}", "answer": one.answer}
