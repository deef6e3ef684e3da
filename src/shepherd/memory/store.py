"""What an engine under Memory must offer. SQLite is the first; PostgreSQL is to follow.

Every method names its user; a store never sees an anonymous one, and text arrives as UTF-8 can hold it.
Times are unix seconds. Errors are those of shepherd.errors, with path and remedy. Methods may be called from
any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

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
from shepherd.types import Fact, MemoryRecord, Message, SearchResult

__all__ = ["MemoryStore"]


class MemoryStore(Protocol):
    """One database of memories, facts and sessions of many users."""

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
        """The best memories, best first, ties to the newer."""

    # ---- memories

    def add_memories(self, user_id: str, memories: Sequence[NewMemory]) -> list[tuple[int, bool]]:
        """Stores all or none; for each its id, and whether it is new (else that of the identical one)."""

    def get_memory(self, user_id: str, memory_id: int) -> MemoryRecord | None:
        """That memory if it is this user's."""

    def edit_memory(self, user_id: str, memory_id: int, question: str | None, answer: str | None) -> bool:
        """Replaces what is not None; UsageError when another memory already says the same."""

    def pin_memory(self, user_id: str, memory_id: int, pinned: bool) -> bool:
        """Protects a memory from pruning, or no longer."""

    def delete_memory(self, user_id: str, memory_id: int) -> bool:
        """Removes that memory if it is this user's."""

    def clear_memory(self, user_id: str, question: str) -> int:
        """Removes the memories with this question, compared after whitespace and case folding."""

    def list_memories(self, user_id: str, *, limit: int, offset: int) -> list[MemoryRecord]:
        """Newest first."""

    def count_memories(self, user_id: str) -> int:
        """How many this user has."""

    def iterate_memories(self, user_id: str) -> Iterator[tuple[int, NewMemory]]:
        """All with their ids, in the order they were stored, read in pages: writers are not held up."""

    # ---- facts

    def set_fact(self, user_id: str, key: str, value: str, *, source: str, now: int) -> None:
        """Sets a fact; what it replaces stays in the history."""

    def get_fact(self, user_id: str, key: str) -> Fact | None:
        """The fact of that key, else of one that differs only in case and separators."""

    def get_all_facts(self, user_id: str) -> tuple[Fact, ...]:
        """In key order."""

    def clear_fact(self, user_id: str, key: str, *, source: str, now: int) -> bool:
        """Removes a fact, found as get_fact finds it."""

    def fact_history(self, user_id: str, key: str | None) -> list[FactChange]:
        """Every change of that fact, or of all, oldest first."""

    def merge_facts(self, user_id: str, facts: Sequence[Fact], history: Sequence[FactChange]) -> int:
        """Takes facts from elsewhere where they are newer; how many were."""

    # ---- sessions

    def start_session(self, user_id: str, model: str, now: int) -> str:
        """The id of a new, empty conversation."""

    def list_sessions(self, user_id: str, limit: int) -> list[SessionSummary]:
        """Those with messages, the latest first."""

    def append_message(
        self, user_id: str, session_id: str, message: Message, now: int, job: OpenJob | None
    ) -> int:
        """The message's id; UsageError when this user has no such session.

        With a job, what it says is queued for extraction in the same transaction.
        """

    def load_session(self, user_id: str, session_id: str | None) -> list[Message]:
        """Its messages, oldest first; None is the latest session that has any."""

    def delete_last_turn(self, user_id: str, session_id: str) -> int:
        """Removes the newest user message and all after it, from jobs too; how many messages that were."""

    def clear_session(self, user_id: str, session_id: str) -> int:
        """Removes all its messages; how many that were."""

    # ---- extraction jobs

    def release_jobs(self, user_id: str, owner: str, session_id: str, now: float, limit: int) -> int:
        """Makes the owner's open jobs due; how many waiting ones were dropped, the oldest, for the limit."""

    def give_back_jobs(self, user_id: str, owner: str, now: float) -> int:
        """Makes the owner's open and running jobs due; how many."""

    def job_owners(self, user_id: str) -> list[str]:
        """Who has jobs of this user open or running."""

    def claim_job(self, user_id: str, owner: str, now: float, lease_s: float) -> ExtractionJob | None:
        """The oldest job that is due, running for the owner now."""

    def next_job_at(self, user_id: str) -> float | None:
        """When the next job is due."""

    def finish_job(
        self, job: ExtractionJob, facts: Mapping[str, str], memories: Sequence[NewMemory], dropped: int
    ) -> tuple[int, int] | None:
        """Stores what the job gave and ends it, or neither; how many facts and memories were new."""

    def fail_job(self, job: ExtractionJob, error: str, refused: bool, most_refusals: int, at: float) -> bool:
        """Notes a failure; whether the job is dead now."""

    def list_jobs(self, user_id: str) -> list[ExtractionJob]:
        """All that are not done, oldest first."""

    def job_stats(self, user_id: str) -> ExtractionStats:
        """Counts by state."""

    def retry_jobs(self, user_id: str, job_id: int | None, now: float) -> int:
        """Makes one dead job due again, or all; how many."""

    def drop_jobs(self, user_id: str, job_id: int | None) -> int:
        """Removes one job that is not done, or all dead ones; how many."""

    # ---- the whole database

    def stats(self, user_id: str) -> MemoryStats:
        """Counts and sizes."""

    def claim(self, from_user: str, user_id: str) -> ClaimCounts:
        """Moves everything of one user to another; each row belongs to one of them at every moment."""

    def check(self, repair: bool) -> CheckReport:
        """Looks for damage, and mends what can be mended."""

    def never_recalled(self, user_id: str, before: int) -> list[int]:
        """Unpinned memories from before then that no recall has used, as far as that was counted."""

    def settle(self) -> None:
        """Puts what an import wrote into the form that is searched fastest; others may go on writing."""

    def backup(self, path: str) -> None:
        """Copies the database to a new file while it is in use."""

    def close(self) -> None:
        """Lets go of the database; twice is fine."""
