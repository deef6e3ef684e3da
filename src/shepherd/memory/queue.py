"""The extraction queue as its worker and the frontends see it; `Memory.extraction` is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.escaping import storable
from shepherd.memory.records import ExtractionJob, ExtractionStats, NewMemory

if TYPE_CHECKING:
    from shepherd.memory.store import MemoryStore

__all__ = ["EveryonesQueue", "ExtractionQueue"]

# As long as a job may run at first before another process takes it over, see jobs.claim. One whose process is
# gone comes back at once.
LEASE_S = 300.0


class ExtractionQueue:
    """Durable jobs of users, in the memory's database. Nobody in particular has none."""

    def __init__(
        self, store: MemoryStore, user: Callable[[str | None], str | None], clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._user = user
        self._clock = clock

    def of_everyone(self) -> EveryonesQueue:
        """The same jobs for a worker that serves all users."""
        return EveryonesQueue(self._store, self._user, self._clock)

    def release(self, owner: str, user_id: str | None = None, *, session: str = "", limit: int = 0) -> int:
        """Makes what `owner` has collected due, of one session or of all.

        With a `limit`, the oldest waiting jobs beyond it are dropped; how many.
        """
        user = self._user(user_id)
        if user is None:
            return 0
        return self._store.release_jobs(user, owner, session, self._clock(), limit)

    def give_back(self, owner: str, user_id: str | None = None) -> int:
        """Makes all jobs due that `owner` had open or running; how many."""
        user = self._user(user_id)
        return 0 if user is None else self._store.give_back_jobs(user, owner, self._clock())

    def owners(self, user_id: str | None = None) -> list[str]:
        """Who has jobs open or running."""
        user = self._user(user_id)
        return [] if user is None else self._store.job_owners(user)

    def claim(self, owner: str, user_id: str | None = None) -> ExtractionJob | None:
        """The oldest job that is due, for `owner` to run; None when there is none."""
        user = self._user(user_id)
        return None if user is None else self._store.claim_job(user, owner, self._clock(), LEASE_S)

    def due_in(self, user_id: str | None = None) -> float | None:
        """Seconds until the next job is due, at least 0; None when there is none."""
        user = self._user(user_id)
        at = None if user is None else self._store.next_job_at(user)
        return None if at is None else max(at - self._clock(), 0.0)

    def finish(
        self,
        job: ExtractionJob,
        facts: Mapping[str, str],
        memories: Sequence[NewMemory],
        *,
        dropped: int = 0,
    ) -> tuple[int, int] | None:
        """Stores what a job gave and ends it, in one transaction; how many facts and memories were new.

        None when the job was taken back meanwhile: nothing is stored then. A fact that was changed or
        forgotten after the job's lines were said stays as it is; after the first of them, unless another job
        did that.
        """
        told = {storable(key): storable(value) for key, value in facts.items()}
        new = [
            replace(memory, question=storable(memory.question), answer=storable(memory.answer))
            for memory in memories
        ]
        return self._store.finish_job(job, told, new, dropped)

    def fail(
        self, job: ExtractionJob, error: str, *, refused: bool, most_refusals: int, retry_in_s: float
    ) -> bool:
        """Notes a failure; whether the job is dead now, after so many refusals."""
        at = self._clock() + retry_in_s
        return self._store.fail_job(job, storable(error), refused, most_refusals, at)

    def jobs(self, user_id: str | None = None) -> list[ExtractionJob]:
        """All that are not done, oldest first."""
        user = self._user(user_id)
        return [] if user is None else self._store.list_jobs(user)

    def stats(self, user_id: str | None = None) -> ExtractionStats:
        """Counts by state, and what the done ones gave."""
        user = self._user(user_id)
        return ExtractionStats() if user is None else self._store.job_stats(user)

    def counts(self) -> dict[str, int]:
        """How many jobs of all users are in which state, but for those that are done."""
        return self._store.count_jobs()

    def retry(self, job_id: int | None = None, user_id: str | None = None) -> int:
        """Gives one dead job, or all, another chance; how many."""
        user = self._user(user_id)
        return 0 if user is None or _is_none(job_id) else self._store.retry_jobs(user, job_id, self._clock())

    def drop(self, job_id: int | None = None, user_id: str | None = None) -> int:
        """Removes one job that is not done, or all dead ones; how many."""
        user = self._user(user_id)
        return 0 if user is None or _is_none(job_id) else self._store.drop_jobs(user, job_id)


class EveryonesQueue(ExtractionQueue):
    """Where the worker of a server looks: without a `user_id` the jobs of all users, the oldest first."""

    def release(self, owner: str, user_id: str | None = None, *, session: str = "", limit: int = 0) -> int:
        """Makes what `owner` has collected due, of one user or of all; how many went for the limit."""
        users = [user_id] if user_id is not None else self._users_of(owner)
        return sum(super(EveryonesQueue, self).release(owner, u, session=session, limit=limit) for u in users)

    def give_back(self, owner: str, user_id: str | None = None) -> int:
        """Makes all jobs due that `owner` had open or running; how many."""
        users = [user_id] if user_id is not None else self._users_of(owner)
        return sum(super(EveryonesQueue, self).give_back(owner, user) for user in users)

    def owners(self, user_id: str | None = None) -> list[str]:
        """Who has jobs open or running."""
        if user_id is not None:
            return super().owners(user_id)
        return sorted({owner for _, owner in self._store.job_holders()})

    def claim(self, owner: str, user_id: str | None = None) -> ExtractionJob | None:
        """The oldest job that is due, for `owner` to run; None when there is none."""
        user = user_id if user_id is not None else self._store.user_with_due_job(self._clock())
        return None if user is None else super().claim(owner, user)

    def due_in(self, user_id: str | None = None) -> float | None:
        """Seconds until the next job is due, at least 0; None when there is none."""
        if user_id is not None:
            return super().due_in(user_id)
        at = self._store.next_job_at(None)
        return None if at is None else max(at - self._clock(), 0.0)

    def _users_of(self, owner: str) -> list[str]:
        return [user for user, other in self._store.job_holders() if other == owner]


def _is_none(job_id: int | None) -> bool:
    """Whether no job can have this number; None is all of them."""
    return job_id is not None and not 0 < job_id < 1 << 63
