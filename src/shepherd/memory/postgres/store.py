"""The memory in a schema of PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from shepherd import transactions
from shepherd.config.schema import parse_limit
from shepherd.encryption import Sealer
from shepherd.errors import StoreError, UsageError
from shepherd.memory import facts, forgetting, ownership, recall_counts, tenants, word_rows
from shepherd.memory.corpora import CHUNKS, MEMORIES, Corpus
from shepherd.memory.facts import FactRow
from shepherd.memory.hot import HotRecall
from shepherd.memory.hot_rows import mark_of
from shepherd.memory.postgres import maintenance, schema, user_keys
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.replica import Replica, State, TooOldError
from shepherd.memory.postgres.search import ServerTables
from shepherd.memory.postgres.size_limit import Limit
from shepherd.memory.postgres.terms import TERMS, ServerChunks
from shepherd.memory.queries import COLUMNS, Hit, RecallQuery, Row, best_results
from shepherd.memory.records import CheckReport, ClaimCounts, MemoryStats, NewMemory
from shepherd.memory.store import MemoryStore
from shepherd.types import Fact, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["PostgresStore"]

_Result = TypeVar("_Result")
# Rows of facts, and memories.
_Found = tuple[list[FactRow], list[SearchResult]]

# A writer of the same user may commit between two steps of a search; after so many times the tables answer.
_MOST_TRIES = 3

_ROWS = f"SELECT {COLUMNS} FROM context WHERE user_id = ? AND id = ANY(?::bigint[])"
_NO_FACTS = f"{facts.ROWS_OF_USER} LIMIT 0"
# Number of elements that PostgreSQL guesses in an array that it does not know. With fewer of them, planning
# anew for each question looks cheaper to it than the plan that it has, which takes longer than the search.
_GUESSED_IDS = 10
# Kinds of rows of _LOOK, in their order.
_USER, _FACT, _MEMORY = range(3)
_MARK = mark_of(MEMORIES, has_marks=True)
# One statement sees one moment without a transaction around it.
_LOOK = (
    f'SELECT {_USER} AS kind, number, {_MARK}, 0::bigint, NULL::text COLLATE "C" AS key, NULL::text,'
    " NULL::text, NULL::text, NULL::text, NULL::text"
    # The columns of the other kinds of rows.
    " /* =2: context.id */ /* =5: facts.key */ /* =6: facts.value */ /* =7: context.user_message */"
    " /* =8: context.assistant_response */"
    " FROM tenants WHERE user_id = ?1"
    f" UNION ALL SELECT {_MEMORY}, id, timestamp, pinned, NULL, NULL, user_message, assistant_response,"
    " source, session FROM context WHERE user_id = ?1 AND id = ANY(?2::bigint[])"
)
_LOOK_WITH_FACTS = (
    f"{_LOOK} UNION ALL SELECT {_FACT}, created_at, updated_at, valid_from, key, value, NULL, NULL, NULL,"
    " NULL FROM facts WHERE user_id = ?1 ORDER BY kind, key"
)
# What a deletion leaves, which only the server's administrator can reach.
_SERVER_FILES = (
    "PostgreSQL's own files: deleted rows stay in them until VACUUM and later writes reuse their place, and"
    " in its WAL, replicas and backups as long as those are kept; hot indexes saved on other machines follow"
    " when these use the memory again"
)

_OLDER_KEYS = "dumps of the table user_keys that were made before"


class _StaleError(Exception):
    """The hot index has another version than the database, or one of another past."""


@dataclass(slots=True)
class _Seen:
    """State of a user as a statement saw it: number and mark, facts in key order, and memories by id."""

    tenant: int | None
    mark: int | None
    facts: list[FactRow]
    memories: dict[int, Row]


class _Engine:
    """claim.Engine for PostgreSQL, which locks both users, always in the same order."""

    terms = TERMS

    def __init__(self, database: Database, *users: str) -> None:
        self._database = database
        self._first, self._second = sorted(users)

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        def locked(connection: Connection) -> _Result:
            number = self._database.lock_number(f"user {self._second}")
            connection.execute("SELECT pg_advisory_xact_lock(?)", (number,))
            return work(connection)

        result = self._database.write(self._first, locked)
        if self._database.written is not None:
            both = (self._database.writer(user) for user in (self._first, self._second))
            self._database.written.share(*both)
        return result

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return self.terms.add(connection, user_id, new)


class PostgresStore(MemoryStore):
    """MemoryStore in the schema that `url` names; created when missing, refused when not ours.

    Writers of one user take turns, over all processes; readers never wait. `busy_timeout_s` limits the wait
    of a writer for its turn, and of everything for a server that restarts. `blind`: the server cannot read
    texts and words.
    """

    terms = TERMS
    is_in_file = False

    def __init__(
        self,
        url: str,
        *,
        read_only: bool = False,
        max_db_size: str = "10G",
        recall_cache_mb: int = 256,
        busy_timeout_s: float = 5.0,
        blind: bool = False,
    ) -> None:
        super().__init__()
        self._limit = Limit(parse_limit(max_db_size))
        self._database = Database(url, read_only=read_only, patience_s=busy_timeout_s)
        try:
            key = schema.prepare(self._database, blind=blind)
            if not read_only:
                maintenance.refresh_index(self._database)
        except BaseException:
            self._database.close()
            raise
        self.is_blind = blind
        # Indexes in files of this machine have readable words.
        self.sealer = None if key is None else Sealer(key)
        limit_bytes = recall_cache_mb << 20
        self._recall, self._chunk_recall = (
            HotRecall(
                ServerTables(self._database, corpus, self.sealer), limit_bytes=limit_bytes, corpus=corpus
            )
            for corpus in (MEMORIES, CHUNKS)
        )
        self.chunks = ServerChunks(self._chunk_recall)
        self._tenants: dict[str, int] = {}
        self._replica = None if read_only else Replica.of(self._database)

    @property
    def path(self) -> str:
        """Address without the password."""
        return self._database.shown

    @property
    def limit_bytes(self) -> int:
        """max_db_size."""
        return self._limit.bytes

    # ---- transactions

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """Return the result of `work`; everything in it sees the same moment. May run it again."""
        return self._database.read(work)

    def read_of(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`; texts of other users are refused."""
        return self._database.read(work, user_id)

    def read_for_search(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """Do as `read`; a replica answers if the address allows it and the replica is new enough."""
        return self._searched(user_id, lambda database: database.read(work, user_id))

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """Return the result of `work` once it is committed; may run it again. Prunes afterwards."""
        if not size:
            return self._database.write(user_id, work)
        waiting = self.recall_counts.take()

        def write(connection: Connection) -> _Result:
            if stays:
                done = self._limit.write(self._database, connection, user_id, work, size)
            else:
                done = work(connection)
            recall_counts.write(connection, waiting)
            return done

        result = self._database.write(user_id, write)
        # The write itself is stored; an obstacle to pruning now is not its failure.
        with contextlib.suppress(StoreError):
            self._limit.keep(self._database, user_id, size)
        return result

    def follow(self, user_id: str) -> None:
        """Let the background update the user's hot index after a commit that changed memories."""
        tenant = self._tenants.get(user_id)
        if tenant is not None:
            self._recall.follow_later(tenant)

    # ---- searches

    def recall(self, user_id: str, query: RecallQuery) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Return the facts in key order and the best memories, both of one moment; counts the recall."""
        rows, results = self._find(user_id, query, with_facts=True)
        self.recall_counts.note((result.id for result in results), query.now)
        return self._facts.records(user_id, rows), results

    def search(self, user_id: str, query: RecallQuery) -> list[SearchResult]:
        """Return the best memories, best first, ties to the one stored last."""
        if not query.keywords or query.limit <= 0:
            return []
        return self._find(user_id, query, with_facts=False)[1]

    def _find(self, user_id: str, query: RecallQuery, *, with_facts: bool) -> _Found:
        """Return the rows of the facts, if they are asked for, and the best memories, of one moment."""
        return self._searched(
            user_id, lambda database: self._find_in(database, user_id, query, with_facts=with_facts)
        )

    def _searched(self, user_id: str, search: Callable[[Database | State], _Result]) -> _Result:
        """Return what a replica finds for a user, or the primary server if no replica will do."""
        if self._replica is not None:
            state = self._replica.state(self._database.writer(user_id))
            if state is not None:
                with contextlib.suppress(TooOldError, StoreError):
                    return search(state)
        return search(self._database)

    def _find_in(
        self, database: Database | State, user_id: str, query: RecallQuery, *, with_facts: bool
    ) -> _Found:
        if not query.keywords or query.limit <= 0:
            return (database.look(facts.ROWS_OF_USER, (user_id,)) if with_facts else []), []
        tenant = self._tenants.get(user_id)
        n_tries = 0
        while tenant is not None and (mark := self._recall.held_mark(tenant)) is not None:
            try:
                return self._find_hot(database, user_id, tenant, mark, query, with_facts=with_facts)
            except _StaleError:
                n_tries += 1
                if n_tries == _MOST_TRIES or not self._recall.bring(tenant, database.reading):
                    break
        return database.read(
            lambda connection: self._find_cold(connection, user_id, query, with_facts=with_facts), user_id
        )

    def _find_hot(
        self,
        database: Database | State,
        user_id: str,
        tenant: int,
        mark: int,
        query: RecallQuery,
        *,
        with_facts: bool,
    ) -> _Found:
        """Search the hot index, then read mark, facts and rows in one statement: one round trip.

        _StaleError if index or database have another mark.
        """
        seen: _Seen | None = None

        def find(n: int) -> list[Hit]:
            hits = self._recall.find(
                tenant,
                mark,
                query.keywords,
                n,
                query.now,
                recency_floor=query.recency_floor,
                min_relevance=query.min_relevance,
                periods=query.periods,
                is_request=query.is_request,
            )
            if hits is None:
                raise _StaleError
            return hits

        def fetch(ids: list[int]) -> dict[int, Row]:
            nonlocal seen
            seen = self._look(database, user_id, ids, with_facts=with_facts)
            if (seen.tenant, seen.mark) != (tenant, mark):
                raise _StaleError
            return seen.memories

        results = best_results(query, find, fetch)
        if seen is None:
            fetch([])
        assert seen is not None
        return seen.facts, results

    def _find_cold(
        self, connection: Connection, user_id: str, query: RecallQuery, *, with_facts: bool
    ) -> _Found:
        """Search in a transaction: by the hot index if it fits after all, else by the tables."""
        rows, users = connection.execute_together(
            [
                (facts.ROWS_OF_USER if with_facts else _NO_FACTS, (user_id,)),
                ("SELECT number FROM tenants WHERE user_id = ?", (user_id,)),
            ]
        )
        if not users:
            return rows, []
        [(tenant,)] = users
        self._tenants[user_id] = tenant

        def find(n: int) -> list[Hit]:
            return self._recall.search(
                connection,
                tenant,
                query.keywords,
                n,
                query.now,
                recency_floor=query.recency_floor,
                min_relevance=query.min_relevance,
                periods=query.periods,
                is_request=query.is_request,
            )

        def fetch(ids: list[int]) -> dict[int, Row]:
            return {row[0]: row for row in connection.execute(_ROWS, (user_id, ids))}

        return rows, best_results(query, find, fetch)

    def _look(self, database: Database | State, user_id: str, ids: list[int], *, with_facts: bool) -> _Seen:
        """Return what one statement sees of a user."""
        seen = _Seen(None, None, [], {})
        statement = _LOOK_WITH_FACTS if with_facts else _LOOK
        # No memory has the id -1. As a text: psycopg takes 15 us for an array.
        padded = [*ids, *[-1] * (_GUESSED_IDS - len(ids))]
        rows = database.look(statement, (user_id, "{" + ",".join(map(str, padded)) + "}"))
        for kind, one, two, three, key, value, text, answer, source, session in rows:
            if kind == _MEMORY:
                seen.memories[one] = (one, text, answer, two, three, source, session)
            elif kind == _FACT:
                seen.facts.append((key, value, one, two, three))
            else:
                seen.tenant, seen.mark = one, two
        return seen

    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""
        from shepherd.memory.postgres.vectors import ServerVectors  # numpy is loaded only with vectors

        return ServerVectors(self._database, corpus)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Return counts of a user and sizes of the schema."""
        counts = maintenance.stats(self._database, user_id, self._limit)
        return replace(
            counts,
            hot_users=self._recall.n_users,
            hot_bytes=self._recall.n_bytes,
            hot_saved_bytes=self._recall.n_saved_bytes,
            is_encrypted=self.is_blind,
        )

    def clean(self, user_id: str) -> tuple[list[str], list[str]]:
        """Delete the saved indexes of this machine; the server cleans its own files in its own time."""
        tenant, number = self._database.read(
            lambda connection: (tenants.find(connection, user_id), forgetting.count(connection))
        )
        files = []
        if tenant is not None:
            files = self._recall.forget_saved(tenant) + self._chunk_recall.forget_saved(tenant)
        self._database.write(user_id, lambda connection: forgetting.mark_finished(connection, number))
        return files, [_SERVER_FILES]

    def tables_with(self, forms: Sequence[str]) -> dict[str, int]:
        """Return how many rows of each table have one of the forms of a word."""

        def work(connection: transactions.Connection) -> dict[str, int]:
            columns = connection.execute(
                # A partition's rows are counted with its table's.
                "SELECT relname::text, attname::text"
                " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
                " WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')"
                " AND NOT relispartition AND attnum > 0 AND NOT attisdropped AND atttypid = 'text'::regtype"
                " ORDER BY relname, attnum"
            )
            if self.is_blind:
                return word_rows.count_read_rows(connection, columns, forms)
            return word_rows.count_rows(connection, columns, forms)

        return self._database.read(work)

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Move everything of one user to another; each row belongs to one of them at every moment."""
        if self.is_blind:
            raise UsageError(
                f"{self.path}: what a user has in a blind memory cannot be given to another user",
                hint="shepherd memory export as the one user, and import as the other",
            )
        return ownership.claim(_Engine(self._database, from_user, user_id), from_user, user_id)

    def destroy_key(self, connection: transactions.Connection, user_id: str) -> None:
        """Destroy the key that the user has in a blind memory."""
        connection.destroy_key(user_id)  # type: ignore[attr-defined]  # of the one engine that this serves

    def older_keys(self) -> list[str]:
        """Return in words where the keys of removed users can still be."""
        return [_OLDER_KEYS] if self._database.has_users_keys else []

    def remove_unreadable(self, user_id: str) -> int:
        """Delete the memories of a user of a blind memory who has no key, or a damaged one."""
        if not self._database.has_users_keys:
            return 0
        return self._database.write(
            user_id, lambda connection: user_keys.remove_unreadable(connection, user_id)
        )

    def check(self, repair: bool) -> CheckReport:
        """Look for damage, and with `repair` mend what can be made again."""
        report = maintenance.check(self._database, repair=repair)
        return report.with_dropped((*self._recall.check(), *self._chunk_recall.check()))

    def settle(self) -> None:
        """Sort the indexes of terms after an import; others may write meanwhile."""
        maintenance.settle(self._database)

    def backup(self, path: str, keys: str = "") -> None:
        """Raise UsageError: PostgreSQL's own tools know users, rights and the point in time."""
        name = self._database.schema
        raise UsageError(
            f"{self.path}: a PostgreSQL database is copied by its own tools",
            hint=f"pg_dump --format=custom --schema='\"{name}\"' --file={path} DATABASE;"
            " or shepherd memory export",
        )

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        if self.recall_counts and not (self._database.is_closed or self._database.read_only):
            waiting = self.recall_counts.take()
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError):
                self._database.write_locked(
                    "recalls", lambda connection: recall_counts.write(connection, waiting)
                )
        if self._replica is not None:
            self._replica.close()
        self._recall.close()
        self._chunk_recall.close()
        self._database.close()
