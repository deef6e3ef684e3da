"""The memory in PostgreSQL: each method is one transaction over the functions that both engines share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from shepherd.errors import StoreError, StoreFullError, StoreLockedError, UsageError
from shepherd.escaping import storable
from shepherd.memory import claim, facts, jobs, memories, recalls, sessions, tenants
from shepherd.memory.postgres import maintenance, schema, search
from shepherd.memory.postgres.database import Connection, Database
from shepherd.memory.postgres.terms import TERMS, add_all
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

__all__ = ["PostgresStore"]

_Result = TypeVar("_Result")
_FactRows = list[facts.FactRow]

# Facts of so many users are kept as records beside the rows they were made of.
_MOST_CACHED_USERS = 1024
# What a fact takes beside its text; only max_db_size is measured with it.
_FACT_BYTES = 512


class _Engine:
    """What claim.py needs of PostgreSQL: both users' turns, taken in one order by everybody."""

    terms = TERMS

    def __init__(self, database: Database, *users: str) -> None:
        self._database = database
        self._first, self._second = sorted(users)

    def write(self, work: Callable[[Connection], _Result]) -> _Result:
        def locked(connection: Connection) -> _Result:
            number = self._database.lock_number(f"user {self._second}")
            connection.execute("SELECT pg_advisory_xact_lock(?)", (number,))
            return work(connection)

        return self._database.write(self._first, locked)

    def add(self, connection: Connection, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        return add_all(connection, user_id, new)


class PostgresStore:
    """MemoryStore in the schema that `url` names; made when missing, refused when not ours.

    Each user's writers take turns, over all processes; readers never wait. `busy_timeout_s` is how long a
    writer waits for its turn, and how long everything waits for a server that restarts.
    """

    def __init__(
        self, url: str, *, read_only: bool = False, max_db_size: str = "10G", busy_timeout_s: float = 5.0
    ) -> None:
        self._limit = maintenance.Limit(parse_limit(max_db_size))
        self._database = Database(url, read_only=read_only, patience_s=busy_timeout_s)
        self._facts: dict[str, tuple[_FactRows, tuple[Fact, ...]]] = {}
        self._recalls = RecallCounts()
        try:
            schema.prepare(self._database)
            if not read_only:
                maintenance.refresh_index(self._database)
        except BaseException:
            self._database.close()
            raise

    @property
    def path(self) -> str:
        """The address, without its password."""
        return self._database.shown

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

        def read(connection: Connection) -> tuple[_FactRows, list[SearchResult]]:
            rows = facts.rows_of_user(connection, user_id)
            if not keywords or limit <= 0:
                return rows, []
            return rows, search.best(
                connection,
                user_id,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                except_session=except_session,
                periods=periods,
            )

        rows, results = self._database.read(read)
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

        def read(connection: Connection) -> list[SearchResult]:
            return search.best(
                connection,
                user_id,
                keywords,
                limit=limit,
                now=now,
                recency_floor=recency_floor,
                min_relevance=min_relevance,
                periods=periods,
            )

        return self._database.read(read) if keywords and limit > 0 else []

    def _facts_of(self, user_id: str, rows: _FactRows) -> tuple[Fact, ...]:
        # The same tuple until something changes: callers keep what they made of it.
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

        def write(connection: Connection) -> list[tuple[int, bool]]:
            return add_all(connection, user_id, new)

        size = sum(len(memory.question) + len(memory.answer) + tenants.ROW_BYTES for memory in new)
        # As much again for the terms and their index.
        return self._growing(user_id, write, 2 * size)

    def get_memory(self, user_id: str, memory_id: int) -> MemoryRecord | None:
        """That memory if it is this user's."""
        return self._read(
            user_id, lambda connection, tenant: memories.get(connection, tenant, memory_id), None
        )

    def edit_memory(self, user_id: str, memory_id: int, question: str | None, answer: str | None) -> bool:
        """Replaces what is not None; UsageError when another memory already says the same."""

        def write(connection: Connection, tenant: int) -> bool:
            return memories.edit(
                connection, user_id, tenant, memory_id, question=question, answer=answer, terms=TERMS
            )

        return self._write(user_id, write, False)

    def pin_memory(self, user_id: str, memory_id: int, pinned: bool) -> bool:
        """Protects a memory from pruning, or no longer."""
        return self._write(
            user_id, lambda connection, tenant: memories.pin(connection, tenant, memory_id, pinned), False
        )

    def delete_memory(self, user_id: str, memory_id: int) -> bool:
        """Removes that memory if it is this user's."""

        def write(connection: Connection, tenant: int) -> bool:
            return memories.delete(connection, tenant, [memory_id], TERMS) > 0

        return self._write(user_id, write, False)

    def clear_memory(self, user_id: str, question: str) -> int:
        """Removes the memories with this question, compared after whitespace and case folding."""

        def write(connection: Connection, tenant: int) -> int:
            found = list(memories.with_question(connection, tenant, question))
            return memories.delete(connection, tenant, found, TERMS)

        return self._write(user_id, write, 0)

    def list_memories(self, user_id: str, *, limit: int, offset: int) -> list[MemoryRecord]:
        """Newest first."""

        def read(connection: Connection, tenant: int) -> list[MemoryRecord]:
            return memories.newest(connection, tenant, limit=limit, offset=offset)

        return self._read(user_id, read, [])

    def count_memories(self, user_id: str) -> int:
        """How many this user has."""
        return self._read(user_id, memories.count, 0)

    def iterate_memories(self, user_id: str) -> Iterator[tuple[int, NewMemory]]:
        """All with their ids, in the order they were stored, read in pages: writers are not held up."""
        after = 0
        while found := self._page(user_id, after):
            yield from found
            after = found[-1][0]

    def _page(self, user_id: str, after: int) -> list[tuple[int, NewMemory]]:
        return self._read(user_id, lambda connection, tenant: memories.page(connection, tenant, after), [])

    # ---- facts

    def set_fact(self, user_id: str, key: str, value: str, *, source: str, now: int) -> None:
        """Sets a fact; what it replaces stays in the history."""

        def write(connection: Connection) -> None:
            facts.set_value(connection, user_id, key, value, source=source, now=now)

        self._growing(user_id, write, len(key) + len(value) + _FACT_BYTES)

    def get_fact(self, user_id: str, key: str) -> Fact | None:
        """The fact of that key, else of one that differs only in case and separators."""
        return self._database.read(lambda connection: facts.find(connection, user_id, key))

    def get_all_facts(self, user_id: str) -> tuple[Fact, ...]:
        """In key order."""
        return self._database.read(lambda connection: facts.of_user(connection, user_id))

    def clear_fact(self, user_id: str, key: str, *, source: str, now: int) -> bool:
        """Removes a fact, found as get_fact finds it."""
        return self._database.write(
            user_id, lambda connection: facts.clear(connection, user_id, key, source=source, now=now)
        )

    def fact_history(self, user_id: str, key: str | None) -> list[FactChange]:
        """Every change of that fact, or of all, oldest first."""
        return self._database.read(lambda connection: facts.history(connection, user_id, key))

    def merge_facts(self, user_id: str, new: Sequence[Fact], history: Sequence[FactChange]) -> int:
        """Takes facts from elsewhere where they are newer; how many were."""
        return self._growing(
            user_id,
            lambda connection: facts.merge(connection, user_id, new, history),
            (len(new) + len(history)) * _FACT_BYTES,
        )

    # ---- sessions

    def start_session(self, user_id: str, model: str, now: int) -> str:
        """The id of a new, empty conversation."""
        return self._growing(
            user_id, lambda connection: sessions.start(connection, user_id, model, now), _FACT_BYTES
        )

    def list_sessions(self, user_id: str, limit: int) -> list[SessionSummary]:
        """Those with messages, the latest first."""
        return self._database.read(lambda connection: sessions.summaries(connection, user_id, limit))

    def append_message(
        self, user_id: str, session_id: str, message: Message, now: int, job: OpenJob | None
    ) -> int:
        """The message's id; UsageError when this user has no such session.

        With a job, what it says is queued for extraction in the same transaction.
        """

        def write(connection: Connection) -> int:
            message_id = sessions.append(connection, user_id, session_id, message, now)
            if job is not None:
                text = storable(message.raw)
                jobs.add_line(connection, user_id, session_id, message_id, text, job=job, now=now)
            return message_id

        size = 3 * len(message.sent) + 4 * len(message.token_ids) + tenants.ROW_BYTES
        return self._growing(user_id, write, size)

    def load_session(self, user_id: str, session_id: str | None) -> list[Message]:
        """Its messages, oldest first; None is the latest session that has any."""

        def read(connection: Connection) -> list[Message]:
            found = session_id or sessions.latest(connection, user_id)
            return [] if found is None else sessions.load(connection, user_id, found)

        return self._database.read(read)

    def delete_last_turn(self, user_id: str, session_id: str) -> int:
        """Removes the newest user message and all after it, from jobs too; how many messages that were."""

        def write(connection: Connection) -> int:
            removed = sessions.delete_last_turn(connection, user_id, session_id)
            jobs.withdraw(connection, user_id, removed)
            return len(removed)

        return self._database.write(user_id, write)

    def clear_session(self, user_id: str, session_id: str) -> int:
        """Removes all its messages; how many that were."""
        return self._database.write(
            user_id, lambda connection: sessions.clear(connection, user_id, session_id)
        )

    # ---- extraction jobs

    def release_jobs(self, user_id: str, owner: str, session_id: str, now: float, limit: int) -> int:
        """Makes the owner's open jobs due; how many waiting ones were dropped, the oldest, for the limit."""

        def write(connection: Connection) -> int:
            jobs.release(connection, user_id, owner, session_id, now)
            return jobs.trim(connection, user_id, limit) if limit else 0

        return self._database.write(user_id, write)

    def give_back_jobs(self, user_id: str, owner: str, now: float) -> int:
        """Makes the owner's open and running jobs due; how many."""
        return self._database.write(
            user_id, lambda connection: jobs.give_back(connection, user_id, owner, now)
        )

    def job_owners(self, user_id: str) -> list[str]:
        """Who has jobs of this user open or running."""
        return self._database.read(lambda connection: jobs.owners(connection, user_id))

    def claim_job(self, user_id: str, owner: str, now: float, lease_s: float) -> ExtractionJob | None:
        """The oldest job that is due, running for the owner now."""
        due = self.next_job_at(user_id)
        if due is None or due > now:  # a look does not take the writers' turn
            return None
        return self._database.write(
            user_id, lambda connection: jobs.claim(connection, user_id, owner, now=now, lease_s=lease_s)
        )

    def next_job_at(self, user_id: str) -> float | None:
        """When the next job is due."""
        return self._database.read(lambda connection: jobs.next_try(connection, user_id))

    def finish_job(
        self, job: ExtractionJob, new_facts: Mapping[str, str], new: Sequence[NewMemory], dropped: int
    ) -> tuple[int, int] | None:
        """Stores what the job gave and ends it, or neither; how many facts and memories were new."""
        user_id = job.user_id

        def write(connection: Connection) -> tuple[int, int] | None:
            if not jobs.end(connection, job):
                return None
            n_facts = facts.learn_all(
                connection, user_id, new_facts, source="extraction", told_at=job.told_at
            )
            n_memories = sum(is_new for _, is_new in add_all(connection, user_id, new)) if new else 0
            jobs.count(connection, job, facts=n_facts, memories=n_memories, dropped=dropped)
            return n_facts, n_memories

        size = sum(len(memory.question) + len(memory.answer) + tenants.ROW_BYTES for memory in new)
        return self._growing(user_id, write, 2 * size + len(new_facts) * _FACT_BYTES)

    def fail_job(self, job: ExtractionJob, error: str, refused: bool, most_refusals: int, at: float) -> bool:
        """Notes a failure; whether the job is dead now."""
        return self._database.write(
            job.user_id,
            lambda connection: jobs.fail(
                connection, job, error=error, refused=refused, most_refusals=most_refusals, at=at
            ),
        )

    def list_jobs(self, user_id: str) -> list[ExtractionJob]:
        """All that are not done, oldest first."""
        return self._database.read(lambda connection: jobs.of_user(connection, user_id))

    def job_stats(self, user_id: str) -> ExtractionStats:
        """Counts by state."""
        return self._database.read(lambda connection: jobs.stats(connection, user_id))

    def retry_jobs(self, user_id: str, job_id: int | None, now: float) -> int:
        """Makes one dead job due again, or all; how many."""
        return self._database.write(user_id, lambda connection: jobs.retry(connection, user_id, job_id, now))

    def drop_jobs(self, user_id: str, job_id: int | None) -> int:
        """Removes one job that is not done, or all dead ones; how many."""
        return self._database.write(user_id, lambda connection: jobs.drop(connection, user_id, job_id))

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""
        return maintenance.stats(self._database, user_id, self._limit.bytes)

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""
        return claim.claim(_Engine(self._database, from_user, user_id), from_user, user_id)

    def never_recalled(self, user_id: str, before: int) -> list[int]:
        """Unpinned memories from before then that no recall has used, as far as that was counted."""

        def read(connection: Connection, tenant: int) -> list[int]:
            return recalls.never_recalled(connection, tenant, before)

        found: list[int] = self._read(user_id, read, [])
        return [memory_id for memory_id in found if memory_id not in self._recalls]

    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""
        return maintenance.check(self._database, repair=repair)

    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""
        maintenance.settle(self._database)

    def backup(self, path: str) -> None:
        """UsageError: PostgreSQL's own tools know users, rights and the point in time."""
        name = self._database.schema
        raise UsageError(
            f"{self.path}: a PostgreSQL database is copied by its own tools",
            hint=f"pg_dump --format=custom --schema='\"{name}\"' --file={path} DATABASE;"
            " or shepherd memory export",
        )

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
        if self._recalls and not (self._database.is_closed or self._database.read_only):
            waiting = self._recalls.take()
            # Counts are no reason to fail at the end.
            with contextlib.suppress(StoreError):
                self._database.write_locked("recalls", lambda connection: recalls.write(connection, waiting))
        self._database.close()

    # ---- what every method needs

    def _read(self, user_id: str, work: Callable[[Connection, int], _Result], otherwise: _Result) -> _Result:
        """`work` with the user's number, or `otherwise` for a user who has stored nothing."""

        def read(connection: Connection) -> _Result:
            tenant = tenants.find(connection, user_id)
            return otherwise if tenant is None else work(connection, tenant)

        return self._database.read(read)

    def _write(self, user_id: str, work: Callable[[Connection, int], _Result], otherwise: _Result) -> _Result:
        def write(connection: Connection) -> _Result:
            tenant = tenants.find(connection, user_id)
            return otherwise if tenant is None else work(connection, tenant)

        return self._database.write(user_id, write)

    def _growing(self, user_id: str, work: Callable[[Connection], _Result], size: int) -> _Result:
        """A write after which the database may be too large, by about `size` bytes."""
        waiting = self._recalls.take()

        def write(connection: Connection) -> _Result:
            done = work(connection)
            recalls.write(connection, waiting)
            return done

        result = self._database.write(user_id, write)
        # The write itself is stored; what is in the way of pruning now is not its failure.
        with contextlib.suppress(StoreLockedError, StoreFullError):
            self._limit.keep(self._database, size)
        return result
