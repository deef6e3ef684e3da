"""What an engine under Memory offers, and what is the same SQL on both; each method is one transaction.

Every method names its user; a store never sees an anonymous one, and text arrives as UTF-8 can hold it.
Times are unix seconds. Errors are those of shepherd.errors, with path and remedy. Methods may be called from
any thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from shepherd.escaping import storable
from shepherd.memory import activity, api_keys, facts, jobs, ledger, memories, recalls, sessions, tenants
from shepherd.memory.connection import Connection
from shepherd.memory.facts import FactCache
from shepherd.memory.memories import TermIndex
from shepherd.memory.recalls import RecallCounts
from shepherd.memory.records import (
    Activity,
    ApiKey,
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
from shepherd.transactions import ChunkIndex, Meaning, Reranker
from shepherd.types import Fact, MemoryRecord, Message, SearchResult

if TYPE_CHECKING:
    from shepherd.memory.corpora import Corpus
    from shepherd.memory.vectors.table import VectorTable

__all__ = ["MemoryStore"]

_Result = TypeVar("_Result")

# What a fact or a session takes beside its text; only max_db_size is measured with it.
_SMALL_ROW_BYTES = 512


class MemoryStore(ABC):
    """One database of memories, facts and sessions of many users."""

    terms: TermIndex
    # Whether a look at one row takes microseconds, and nobody can hold it up: no thread is worth it.
    is_in_file: bool
    chunks: ChunkIndex
    meaning: Meaning | None = None
    reranker: Reranker | None = None

    def __init__(self) -> None:
        self._facts = FactCache()
        self._recalls = RecallCounts()

    # ---- what an engine brings along

    @abstractmethod
    def _read(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns; everything in it sees the same moment. May run it again."""

    @abstractmethod
    def _write(self, user_id: str, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns, once it is committed. Writers of one user take turns. May run it again."""

    @abstractmethod
    def _grow(
        self, user_id: str, work: Callable[[Connection], _Result], size: int, *, stays: bool = False
    ) -> _Result:
        """As `_write`; afterwards the database may be too large, by about `size` bytes. `stays`: as below."""

    @abstractmethod
    def _add(self, connection: Any, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Stores memories inside a transaction; for each its id, and whether it is new."""

    @abstractmethod
    def _follow(self, user_id: str) -> None:
        """Memories of this user were changed, and it is committed."""

    @abstractmethod
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
        except_since: int = 0,
        periods: Periods = (),
    ) -> tuple[tuple[Fact, ...], list[SearchResult]]:
        """Facts in key order and the best memories that are not of `except_session`, both of one moment."""

    @abstractmethod
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

    @abstractmethod
    def vector_table(self, corpus: Corpus) -> VectorTable:
        """Return the table of a corpus's vectors; it is made when it is opened to write."""

    @abstractmethod
    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""

    @abstractmethod
    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""

    @abstractmethod
    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""

    @abstractmethod
    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""

    @abstractmethod
    def backup(self, path: str) -> None:
        """Copies the database to a new file while it is in use."""

    @abstractmethod
    def close(self) -> None:
        """Lets go of the database; twice is fine."""

    def note_recalls(self, memory_ids: Sequence[int], now: float) -> None:
        """Counts these as recalled; what `recall` found is counted already."""
        self._recalls.note(memory_ids, now)

    # ---- memories

    def add_memories(self, user_id: str, new: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Stores all or none; for each its id, and whether it is new (else that of the identical one)."""
        size = sum(len(memory.question) + len(memory.answer) + tenants.ROW_BYTES for memory in new)
        # As much again for the terms and their index.
        stored = self._grow(user_id, lambda connection: self._add(connection, user_id, new), 2 * size)
        self._follow(user_id)
        return stored

    def get_memory(self, user_id: str, memory_id: int) -> MemoryRecord | None:
        """That memory if it is this user's."""

        def get(connection: Connection, tenant: int) -> MemoryRecord | None:
            return memories.get(connection, tenant, memory_id)

        return self._read_of(user_id, get, None)

    def edit_memory(self, user_id: str, memory_id: int, question: str | None, answer: str | None) -> bool:
        """Replaces what is not None; UsageError when another memory already says the same."""

        def edit(connection: Connection, tenant: int) -> bool:
            return memories.edit(
                connection, user_id, tenant, memory_id, question=question, answer=answer, terms=self.terms
            )

        return self._change_of(user_id, edit, False)

    def pin_memory(self, user_id: str, memory_id: int, pinned: bool) -> bool:
        """Protects a memory from pruning, or no longer."""

        def pin(connection: Connection, tenant: int) -> bool:
            return memories.pin(connection, tenant, memory_id, pinned)

        return self._change_of(user_id, pin, False)

    def delete_memory(self, user_id: str, memory_id: int) -> bool:
        """Removes that memory if it is this user's."""

        def delete(connection: Connection, tenant: int) -> bool:
            return memories.delete(connection, tenant, [memory_id], self.terms) > 0

        return self._change_of(user_id, delete, False)

    def clear_memory(self, user_id: str, question: str) -> int:
        """Removes the memories with this question, compared after whitespace and case folding."""

        def clear(connection: Connection, tenant: int) -> int:
            found = list(memories.with_question(connection, tenant, question))
            return memories.delete(connection, tenant, found, self.terms)

        return self._change_of(user_id, clear, 0)

    def list_memories(self, user_id: str, *, limit: int, offset: int) -> list[MemoryRecord]:
        """Newest first."""

        def newest(connection: Connection, tenant: int) -> list[MemoryRecord]:
            return memories.newest(connection, tenant, limit=limit, offset=offset)

        return self._read_of(user_id, newest, [])

    def count_memories(self, user_id: str) -> int:
        """How many this user has."""
        return self._read_of(user_id, memories.count, 0)

    def iterate_memories(self, user_id: str) -> Iterator[tuple[int, NewMemory]]:
        """All with their ids, in the order they were stored, read in pages: writers are not held up."""
        after = 0
        while found := self._page(user_id, after):
            yield from found
            after = found[-1][0]

    def _page(self, user_id: str, after: int) -> list[tuple[int, NewMemory]]:
        return self._read_of(user_id, lambda connection, tenant: memories.page(connection, tenant, after), [])

    def never_recalled(self, user_id: str, before: int) -> list[int]:
        """Unpinned memories from before then that no recall has used, as far as that was counted."""

        def look(connection: Connection, tenant: int) -> list[int]:
            return recalls.never_recalled(connection, tenant, before)

        found: list[int] = self._read_of(user_id, look, [])
        return [memory_id for memory_id in found if memory_id not in self._recalls]

    def activity(self, user_id: str, n_recalled: int) -> Activity:
        """Memories by day, and those that were recalled most, as far as that was written down."""
        return self._read_of(
            user_id, lambda connection, tenant: activity.of_user(connection, tenant, n_recalled), Activity()
        )

    # ---- facts

    def set_fact(self, user_id: str, key: str, value: str, *, source: str, now: int) -> None:
        """Sets a fact; what it replaces stays in the history."""

        def write(connection: Connection) -> None:
            facts.set_value(connection, user_id, key, value, source=source, now=now)

        self._grow(user_id, write, len(key) + len(value) + _SMALL_ROW_BYTES)

    def get_fact(self, user_id: str, key: str) -> Fact | None:
        """The fact of that key, else of one that differs only in case and separators."""
        return self._read(lambda connection: facts.find(connection, user_id, key))

    def get_all_facts(self, user_id: str) -> tuple[Fact, ...]:
        """In key order."""
        return self._read(lambda connection: facts.of_user(connection, user_id))

    def clear_fact(self, user_id: str, key: str, *, source: str, now: int, with_history: bool) -> bool:
        """Removes a fact, found as get_fact finds it, and if asked the values that it had."""

        def clear(connection: Connection) -> bool:
            return facts.clear(connection, user_id, key, source=source, now=now, with_history=with_history)

        return self._write(user_id, clear)

    def fact_history(self, user_id: str, key: str | None) -> list[FactChange]:
        """Every change of that fact, or of all, oldest first."""
        return self._read(lambda connection: facts.history(connection, user_id, key))

    def merge_facts(self, user_id: str, new: Sequence[Fact], history: Sequence[FactChange]) -> int:
        """Takes facts from elsewhere where they are newer; how many were."""
        return self._grow(
            user_id,
            lambda connection: facts.merge(connection, user_id, new, history),
            (len(new) + len(history)) * _SMALL_ROW_BYTES,
        )

    # ---- sessions

    def start_session(self, user_id: str, model: str, now: int, name: str = "") -> str:
        """The id of a new, empty conversation; with a name that of this name, which may be there already."""
        return self._grow(
            user_id,
            lambda connection: sessions.start(connection, user_id, model, now, name),
            _SMALL_ROW_BYTES,
        )

    def find_session(self, user_id: str, name: str) -> str | None:
        """The id of the conversation that has this id, or was started with this name."""
        return self._read(lambda connection: sessions.find(connection, user_id, name))

    def list_sessions(self, user_id: str, limit: int, offset: int) -> list[SessionSummary]:
        """Those with messages, the latest first."""
        return self._read(lambda connection: sessions.summaries(connection, user_id, limit, offset))

    def count_sessions(self, user_id: str) -> int:
        """How many have messages."""
        return self._read(lambda connection: sessions.count(connection, user_id))

    def append_message(
        self, user_id: str, session_id: str, message: Message, now: int, job: OpenJob | None
    ) -> int:
        """The message's id; UsageError when this user has no such session.

        With a job, what it says is queued for extraction in the same transaction.
        """

        def append(connection: Connection) -> int:
            message_id = sessions.append(connection, user_id, session_id, message, now)
            if job is not None:
                text = storable(message.raw)
                jobs.add_line(connection, user_id, session_id, message_id, text, job=job, now=now)
            return message_id

        told = sum(len(call.arguments) for call in message.tool_calls) + len(message.thought)
        size = 3 * (len(message.sent) + told) + 4 * len(message.token_ids) + tenants.ROW_BYTES
        return self._grow(user_id, append, size)

    def load_session(self, user_id: str, session_id: str | None) -> list[Message]:
        """Its messages, oldest first; None is the latest session that has any."""

        def load(connection: Connection) -> list[Message]:
            found = session_id or sessions.latest(connection, user_id)
            return [] if found is None else sessions.load(connection, user_id, found)

        return self._read(load)

    def delete_last_turn(self, user_id: str, session_id: str) -> int:
        """Removes the newest user message and all after it; how many messages that were.

        From jobs too, and what was learned from them goes, unless it has been changed since.
        """

        def delete(connection: Connection) -> int:
            removed = sessions.delete_last_turn(connection, user_id, session_id)
            jobs.withdraw(connection, user_id, removed)
            jobs.take_back(connection, user_id, removed, self.terms)
            return len(removed)

        n_removed = self._write(user_id, delete)
        self._follow(user_id)
        return n_removed

    def clear_session(self, user_id: str, session_id: str) -> int:
        """Removes all its messages; how many that were."""
        return self._write(user_id, lambda connection: sessions.clear(connection, user_id, session_id))

    # ---- notes about the messages of stateless clients

    def find_notes(self, user_id: str, hashes: Sequence[str]) -> dict[str, str]:
        """The notes under these hashes."""
        return self.look(lambda connection: ledger.find(connection, user_id, hashes))

    def put_notes(
        self, user_id: str, notes: Mapping[str, str], removed: Sequence[str], used: Sequence[str], now_ms: int
    ) -> None:
        """Writes, removes and touches notes; the least recently used of too many go."""
        self._write(
            user_id, lambda connection: ledger.put(connection, user_id, notes, removed, used, now_ms=now_ms)
        )

    # ---- extraction jobs

    def release_jobs(self, user_id: str, owner: str, session_id: str, now: float, limit: int) -> int:
        """Makes the owner's open jobs due; how many waiting ones were dropped, the oldest, for the limit."""

        def release(connection: Connection) -> int:
            jobs.release(connection, user_id, owner, session_id, now)
            return jobs.trim(connection, user_id, limit) if limit else 0

        return self._write(user_id, release)

    def give_back_jobs(self, user_id: str, owner: str, now: float) -> int:
        """Makes the owner's open and running jobs due; how many."""
        return self._write(user_id, lambda connection: jobs.give_back(connection, user_id, owner, now))

    def job_owners(self, user_id: str) -> list[str]:
        """Who has jobs of this user open or running."""
        return self._read(lambda connection: jobs.owners(connection, user_id))

    def claim_job(self, user_id: str, owner: str, now: float, lease_s: float) -> ExtractionJob | None:
        """The oldest job that is due, running for the owner now."""
        due = self.next_job_at(user_id)
        if due is None or due > now:  # a look does not take the writers' turn
            return None
        return self._write(
            user_id, lambda connection: jobs.claim(connection, user_id, owner, now=now, lease_s=lease_s)
        )

    def user_with_due_job(self, now: float) -> str | None:
        """Whose job has waited longest of all that are due."""
        return self._read(lambda connection: jobs.due_user(connection, now))

    def job_holders(self) -> list[tuple[str, str]]:
        """All users with jobs open or running, and who has them."""
        return self._read(jobs.holders)

    def next_job_at(self, user_id: str | None) -> float | None:
        """When the next job is due, of one user or (None) of all."""
        return self._read(lambda connection: jobs.next_try(connection, user_id))

    def finish_job(
        self, job: ExtractionJob, new_facts: Mapping[str, str], new: Sequence[NewMemory], dropped: int
    ) -> tuple[int, int] | None:
        """Stores what the job gave and ends it, or neither; how many facts and memories were new."""

        def finish(connection: Connection) -> tuple[int, int] | None:
            def add() -> list[tuple[int, bool]]:
                return self._add(connection, job.user_id, new) if new else []

            return jobs.finish(connection, job, new_facts, add, dropped=dropped)

        size = sum(len(memory.question) + len(memory.answer) + tenants.ROW_BYTES for memory in new)
        return self._grow(job.user_id, finish, 2 * size + len(new_facts) * _SMALL_ROW_BYTES)

    def fail_job(self, job: ExtractionJob, error: str, refused: bool, most_refusals: int, at: float) -> bool:
        """Notes a failure; whether the job is dead now."""

        def fail(connection: Connection) -> bool:
            return jobs.fail(
                connection, job, error=error, refused=refused, most_refusals=most_refusals, at=at
            )

        return self._write(job.user_id, fail)

    def list_jobs(self, user_id: str) -> list[ExtractionJob]:
        """All that are not done, oldest first."""
        return self._read(lambda connection: jobs.of_user(connection, user_id))

    def job_stats(self, user_id: str) -> ExtractionStats:
        """Counts by state."""
        return self._read(lambda connection: jobs.stats(connection, user_id))

    def count_jobs(self) -> dict[str, int]:
        """How many of all users are in which state, but for those that are done."""
        return self._read(jobs.counts)

    def retry_jobs(self, user_id: str, job_id: int | None, now: float) -> int:
        """Makes one dead job due again, or all; how many."""
        return self._write(user_id, lambda connection: jobs.retry(connection, user_id, job_id, now))

    def drop_jobs(self, user_id: str, job_id: int | None) -> int:
        """Removes one job that is not done, or all dead ones; how many."""
        return self._write(user_id, lambda connection: jobs.drop(connection, user_id, job_id))

    # ---- who may use a server

    def add_key(self, key_hash: str, key: ApiKey) -> None:
        """Stores a key under its hash."""
        self._write(key.owner, lambda connection: api_keys.add(connection, key_hash, key))

    def find_key(self, key_hash: str) -> ApiKey | None:
        """The key of this hash, also if it was revoked."""
        return self._read(lambda connection: api_keys.find(connection, key_hash))

    def is_good_key(self, key_id: str) -> bool:
        """Whether there is a key of this id, and it was not revoked."""
        return self._read(lambda connection: api_keys.is_good(connection, key_id))

    def has_keys(self) -> bool:
        """Whether there are keys, revoked ones too."""
        return self._read(api_keys.are_any)

    def list_keys(self) -> list[ApiKey]:
        """All keys, in the order they were made."""
        return self._read(api_keys.listed)

    def revoke_key(self, key_id: str, now: int) -> ApiKey | None:
        """Ends a key; None without such a key."""
        return self._write("", lambda connection: api_keys.revoke(connection, key_id, now))

    # ---- for rooms that keep something of their own in the database: shepherd.transactions

    def read(self, work: Callable[[Connection], _Result]) -> _Result:
        """What `work` returns; everything in it sees the same moment. May run it again."""
        return self._read(work)

    def look(self, work: Callable[[Connection], _Result]) -> _Result:
        """As `read`, for a few rows by an index."""
        return self._read(work)

    def write(
        self, user_id: str, work: Callable[[Connection], _Result], *, size: int = 0, stays: bool = False
    ) -> _Result:
        """What `work` returns, once it is committed. Writers of one user take turns. May run it again."""
        return self._grow(user_id, work, size, stays=stays) if size else self._write(user_id, work)

    def find_number(self, connection: Connection, user_id: str) -> int | None:
        """The number of a user who has stored something."""
        return tenants.find(connection, user_id)

    def ensure_number(self, connection: Connection, user_id: str) -> int:
        """The number of a user, from now on."""
        return tenants.ensure(connection, user_id)

    # ---- for a user who may have stored nothing

    def _read_of(
        self, user_id: str, work: Callable[[Connection, int], _Result], otherwise: _Result
    ) -> _Result:
        """`work` with the user's number, or `otherwise` for a user who has none."""
        return self._read(_with_number(user_id, work, otherwise))

    def _change_of(
        self, user_id: str, work: Callable[[Connection, int], _Result], otherwise: _Result
    ) -> _Result:
        result = self._write(user_id, _with_number(user_id, work, otherwise))
        self._follow(user_id)
        return result


def _with_number(
    user_id: str, work: Callable[[Connection, int], _Result], otherwise: _Result
) -> Callable[[Connection], _Result]:
    def run(connection: Connection) -> _Result:
        tenant = tenants.find(connection, user_id)
        return otherwise if tenant is None else work(connection, tenant)

    return run
