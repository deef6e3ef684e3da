"""The memory in one SQLite file: each method is one transaction over the functions beside this module."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from shepherd._native.store import Connection
from shepherd.errors import StoreError, StoreFullError, StoreLockedError
from shepherd.escaping import storable
from shepherd.memory import (
    check,
    claim,
    facts,
    jobs,
    maintenance,
    memories,
    pruning,
    recalls,
    search,
    sessions,
    tenants,
)
from shepherd.memory.database import Database
from shepherd.memory.hot import HotRecall
from shepherd.memory.recalls import RecallCounts
from shepherd.memory.records import (
    CheckReport,
    ClaimCounts,
    ExtractionJob,
    ExtractionStats,
    FactChange,
    MemoryStats,
    NewMemory,
    OpenJob,
    Periods,
    SessionSummary,
)
from shepherd.sizes import parse_limit
from shepherd.types import Fact, MemoryRecord, Message, SearchResult

__all__ = ["SQLiteStore"]

# Facts of so many users are kept as records beside the rows they were made of.
_MOST_CACHED_USERS = 1024

_FactRows = list[facts.FactRow]
_Result = TypeVar("_Result")


class _Engine:
    """What claim.py needs of SQLite: its one writer locks all users."""

    terms = memories.FULL_TEXT

    def __init__(self, database: Database) -> None:
        self._database = database

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        with self._database.write() as connection:
            return work(connection)

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        tenant = tenants.ensure(connection, user_id)
        return [memories.add(connection, user_id, tenant, memory) for memory in new]


class SQLiteStore:
    """MemoryStore on the file at `path`; created when missing, refused when not ours."""

    def __init__(
        self,
        path: str,
        *,
        read_only: bool = False,
        max_db_size: str = "10G",
        recall_cache_mb: int = 256,
        busy_timeout_s: float = 5.0,
    ) -> None:
        self._limit_bytes = parse_limit(max_db_size)
        self._database = Database(path, read_only=read_only, busy_timeout_s=busy_timeout_s)
        self._recall = HotRecall(self._database, limit_bytes=recall_cache_mb << 20)
        self._tenants: dict[str, int] = {}
        self._recalls = RecallCounts()
        self._facts: dict[str, tuple[_FactRows, tuple[Fact, ...]]] = {}
        if not read_only:
            self._refresh_index()

    @property
    def path(self) -> str:
        """The database file, absolute."""
        return self._database.path

    # ---- reading for a message

    def recall(
        self,
        user_id: str,
        keywords: Sequence[str],
        *,
        limit: int,
        now: float,
        recency_floor: float,
        min_relevance: float,
        except_session: str,
        periods: Periods = (),
    ) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Facts in key order and the best memories that are not of `except_session`, both of one moment."""
        with self._database.read() as connection:
            rows = facts.rows_of_user(connection, user_id)
            tenant = self._tenants.get(user_id) or tenants.find(connection, user_id)
            results = []
            if keywords and limit > 0 and tenant is not None:
                results = search.best(
                    connection,
                    self._recall,
                    tenant,
                    keywords,
                    limit=limit,
                    now=now,
                    recency_floor=recency_floor,
                    min_relevance=min_relevance,
                    except_session=except_session,
                    periods=periods,
                )
        if tenant is not None:
            self._tenants[user_id] = tenant
        self._recalls.note((result.id for result in results), now)
        return self._facts_of(user_id, rows), results

    def search(
        self,
        user_id: str,
        keywords: Sequence[str],
        *,
        limit: int,
        now: float,
        recency_floor: float,
        min_relevance: float,
        periods: Periods = (),
    ) -> list[SearchResult]:
        """The best memories, best first, ties to the one stored last."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not keywords or limit <= 0:
                return []
            return search.best(
                connection,
                self._recall,
                tenant,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                periods=periods,
            )

    def _facts_of(self, user_id: str, rows: _FactRows) -> tuple[Fact, ...]:
        # Facts seldom change between two messages: comparing rows costs a tenth of making records of them,
        # and unlike a version number it needs nothing from other processes.
        known = self._facts.get(user_id)
        if known is not None and known[0] == rows:
            return known[1]
        records = tuple(Fact(*row) for row in rows)
        if len(self._facts) >= _MOST_CACHED_USERS:
            self._facts.clear()
        self._facts[user_id] = (rows, records)
        return records

    # ---- memories

    def add_memories(self, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Stores all or none; for each its id, and whether it is new (else that of the identical one)."""
        with self._growing() as connection:
            tenant = tenants.ensure(connection, user_id)
            stored = [memories.add(connection, user_id, tenant, memory) for memory in new]
        self._recall.follow(tenant)
        return stored

    def get_memory(self, user_id: str, memory_id: int) -> MemoryRecord | None:
        """That memory if it is this user's."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            return None if tenant is None else memories.get(connection, tenant, memory_id)

    def edit_memory(self, user_id: str, memory_id: int, question: str | None, answer: str | None) -> bool:
        """Replaces what is not None; UsageError when another memory already says the same."""
        with self._database.write() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None:
                return False
            is_edited = memories.edit(
                connection, user_id, tenant, memory_id, question=question, answer=answer
            )
        self._recall.follow(tenant)
        return is_edited

    def pin_memory(self, user_id: str, memory_id: int, pinned: bool) -> bool:
        """Protects a memory from pruning, or no longer."""
        with self._database.write() as connection:
            tenant = tenants.find(connection, user_id)
            return tenant is not None and memories.pin(connection, tenant, memory_id, pinned)

    def delete_memory(self, user_id: str, memory_id: int) -> bool:
        """Removes that memory if it is this user's."""
        with self._database.write() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None or not memories.delete(connection, tenant, [memory_id]):
                return False
        self._recall.follow(tenant)
        return True

    def clear_memory(self, user_id: str, question: str) -> int:
        """Removes the memories with this question, compared after whitespace and case folding."""
        with self._database.write() as connection:
            tenant = tenants.find(connection, user_id)
            if tenant is None:
                return 0
            found = list(memories.with_question(connection, tenant, question))
            n_removed = memories.delete(connection, tenant, found)
        self._recall.follow(tenant)
        return n_removed

    def list_memories(self, user_id: str, *, limit: int, offset: int) -> list[MemoryRecord]:
        """Newest first."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            return [] if tenant is None else memories.newest(connection, tenant, limit=limit, offset=offset)

    def count_memories(self, user_id: str) -> int:
        """How many this user has."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            return 0 if tenant is None else memories.count(connection, tenant)

    def iterate_memories(self, user_id: str) -> Iterator[tuple[int, NewMemory]]:
        """All with their ids, in the order they were stored, read in pages: writers are not held up."""
        after = 0
        while True:
            with self._database.read() as connection:
                tenant = tenants.find(connection, user_id)
                found = [] if tenant is None else memories.page(connection, tenant, after)
            if not found:
                return
            yield from found
            after = found[-1][0]

    # ---- facts

    def set_fact(self, user_id: str, key: str, value: str, *, source: str, now: int) -> None:
        """Sets a fact; what it replaces stays in the history."""
        with self._growing() as connection:
            facts.set_value(connection, user_id, key, value, source=source, now=now)

    def get_fact(self, user_id: str, key: str) -> Fact | None:
        """The fact of that key, else of one that differs only in case and separators."""
        with self._database.read() as connection:
            return facts.find(connection, user_id, key)

    def get_all_facts(self, user_id: str) -> tuple[Fact, ...]:
        """In key order."""
        with self._database.read() as connection:
            return facts.of_user(connection, user_id)

    def clear_fact(self, user_id: str, key: str, *, source: str, now: int) -> bool:
        """Removes a fact, found as get_fact finds it."""
        with self._database.write() as connection:
            return facts.clear(connection, user_id, key, source=source, now=now)

    def fact_history(self, user_id: str, key: str | None) -> list[FactChange]:
        """Every change of that fact, or of all, oldest first."""
        with self._database.read() as connection:
            return facts.history(connection, user_id, key)

    def merge_facts(self, user_id: str, new: Sequence[Fact], history: Sequence[FactChange]) -> int:
        """Takes facts from elsewhere where they are newer; how many were."""
        with self._growing() as connection:
            return facts.merge(connection, user_id, new, history)

    # ---- sessions

    def start_session(self, user_id: str, model: str, now: int) -> str:
        """The id of a new, empty conversation."""
        with self._growing() as connection:
            return sessions.start(connection, user_id, model, now)

    def list_sessions(self, user_id: str, limit: int) -> list[SessionSummary]:
        """Those with messages, the latest first."""
        with self._database.read() as connection:
            return sessions.summaries(connection, user_id, limit)

    def append_message(
        self, user_id: str, session_id: str, message: Message, now: int, job: OpenJob | None
    ) -> int:
        """The message's id; UsageError when this user has no such session.

        With a job, what it says is queued for extraction in the same transaction.
        """
        with self._growing() as connection:
            message_id = sessions.append(connection, user_id, session_id, message, now)
            if job is not None:
                text = storable(message.raw)
                jobs.add_line(connection, user_id, session_id, message_id, text, job=job, now=now)
            return message_id

    def load_session(self, user_id: str, session_id: str | None) -> list[Message]:
        """Its messages, oldest first; None is the latest session that has any."""
        with self._database.read() as connection:
            session_id = session_id or sessions.latest(connection, user_id)
            return [] if session_id is None else sessions.load(connection, user_id, session_id)

    def delete_last_turn(self, user_id: str, session_id: str) -> int:
        """Removes the newest user message and all after it, from jobs too; how many messages that were."""
        with self._database.write() as connection:
            removed = sessions.delete_last_turn(connection, user_id, session_id)
            jobs.withdraw(connection, user_id, removed)
            return len(removed)

    def clear_session(self, user_id: str, session_id: str) -> int:
        """Removes all its messages; how many that were."""
        with self._database.write() as connection:
            return sessions.clear(connection, user_id, session_id)

    # ---- extraction jobs

    def release_jobs(self, user_id: str, owner: str, session_id: str, now: float, limit: int) -> int:
        """Makes the owner's open jobs due; how many waiting ones were dropped, the oldest, for the limit."""
        with self._database.write() as connection:
            jobs.release(connection, user_id, owner, session_id, now)
            return jobs.trim(connection, user_id, limit) if limit else 0

    def give_back_jobs(self, user_id: str, owner: str, now: float) -> int:
        """Makes the owner's open and running jobs due; how many."""
        with self._database.write() as connection:
            return jobs.give_back(connection, user_id, owner, now)

    def job_owners(self, user_id: str) -> list[str]:
        """Who has jobs of this user open or running."""
        with self._database.read() as connection:
            return jobs.owners(connection, user_id)

    def claim_job(self, user_id: str, owner: str, now: float, lease_s: float) -> ExtractionJob | None:
        """The oldest job that is due, running for the owner now."""
        with self._database.read() as connection:
            due = jobs.next_try(connection, user_id)
        if due is None or due > now:  # a look does not take the write lock from anybody
            return None
        with self._database.write() as connection:
            return jobs.claim(connection, user_id, owner, now=now, lease_s=lease_s)

    def next_job_at(self, user_id: str) -> float | None:
        """When the next job is due."""
        with self._database.read() as connection:
            return jobs.next_try(connection, user_id)

    def finish_job(
        self, job: ExtractionJob, new_facts: Mapping[str, str], new: Sequence[NewMemory], dropped: int
    ) -> tuple[int, int] | None:
        """Stores what the job gave and ends it, or neither; how many facts and memories were new."""
        with self._growing() as connection:
            if not jobs.end(connection, job):
                return None
            tenant = tenants.ensure(connection, job.user_id)
            n_facts = facts.learn_all(
                connection, job.user_id, new_facts, source="extraction", told_at=job.told_at
            )
            n_memories = sum(memories.add(connection, job.user_id, tenant, memory)[1] for memory in new)
            jobs.count(connection, job, facts=n_facts, memories=n_memories, dropped=dropped)
            return n_facts, n_memories

    def fail_job(self, job: ExtractionJob, error: str, refused: bool, most_refusals: int, at: float) -> bool:
        """Notes a failure; whether the job is dead now."""
        with self._database.write() as connection:
            return jobs.fail(
                connection, job, error=error, refused=refused, most_refusals=most_refusals, at=at
            )

    def list_jobs(self, user_id: str) -> list[ExtractionJob]:
        """All that are not done, oldest first."""
        with self._database.read() as connection:
            return jobs.of_user(connection, user_id)

    def job_stats(self, user_id: str) -> ExtractionStats:
        """Counts by state."""
        with self._database.read() as connection:
            return jobs.stats(connection, user_id)

    def retry_jobs(self, user_id: str, job_id: int | None, now: float) -> int:
        """Makes one dead job due again, or all; how many."""
        with self._database.write() as connection:
            return jobs.retry(connection, user_id, job_id, now)

    def drop_jobs(self, user_id: str, job_id: int | None) -> int:
        """Removes one job that is not done, or all dead ones; how many."""
        with self._database.write() as connection:
            return jobs.drop(connection, user_id, job_id)

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""
        counts = maintenance.stats(self._database, user_id, self._limit_bytes)
        return replace(
            counts,
            hot_users=self._recall.n_users,
            hot_bytes=self._recall.n_bytes,
            hot_saved_bytes=self._recall.n_saved_bytes,
        )

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""
        return claim.claim(_Engine(self._database), from_user, user_id)

    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""
        report = check.check(self._database, repair=repair)
        dropped = tuple(self._recall.check())
        return CheckReport((*report.problems, *dropped), (*report.repaired, *dropped)) if dropped else report

    def never_recalled(self, user_id: str, before: int) -> list[int]:
        """Unpinned memories from before then that no recall has used, as far as that was counted."""
        with self._database.read() as connection:
            tenant = tenants.find(connection, user_id)
            found = [] if tenant is None else recalls.never_recalled(connection, tenant, before)
        return [memory_id for memory_id in found if memory_id not in self._recalls]

    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""
        maintenance.merge_index(self._database)

    def backup(self, path: str) -> None:
        """Copies the database to a new file while it is in use."""
        maintenance.backup(self._database, path)

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
        if self._recalls and not (self._database.is_closed or self._database.read_only):
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError), self._database.write() as connection:
                recalls.write(connection, self._recalls.take())
        self._recall.close()
        self._database.close()

    @contextlib.contextmanager
    def _growing(self) -> Iterator[Connection]:
        """A write transaction after which the database may be too large."""
        with self._database.write() as connection:
            yield connection
            recalls.write(connection, self._recalls.take())
        # Not before the commit: that is when the full-text index writes its pages.
        with self._database.read() as connection:
            is_over = pruning.used_bytes(connection) > self._limit_bytes
        if is_over:
            # The write itself is stored; what is in the way of pruning now is not its failure.
            with contextlib.suppress(StoreLockedError, StoreFullError):
                pruning.prune(self._database, self._limit_bytes)

    def _refresh_index(self) -> None:
        with self._database.read() as connection:
            is_outdated = maintenance.is_index_outdated(connection)
        if is_outdated:
            with self._database.write() as connection:
                maintenance.reindex(connection)
