"""The extraction queue as its worker and the frontends see it; `Memory.extraction` is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from shepherd.escaping import storable
from shepherd.memory import extraction_jobs as jobs
from shepherd.memory.records import Claim, EndedValue, ExtractionJob, ExtractionStats, NewMemory
from shepherd.memory.store import SMALL_ROW_BYTES, UserRows, size_of

__all__ = ["LEASE_S", "ExtractionQueue"]

# Seconds of a job's first lease, after which another process may run it; see extraction_jobs.claim. A job
# whose process has ended is due at once.
LEASE_S = 300.0


class ExtractionQueue:
    """Durable jobs of users, in the memory's database; anonymous users have none.

    Without a `user_id`, methods concern the default user. In a queue of everyone, `release`, `give_back`,
    `owners`, `claim` and `due_in` then concern all users.
    """

    def __init__(
        self,
        rows: UserRows,
        *,
        serves_everyone: bool = False,
        watchers: list[Callable[[str], object]] | None = None,
    ) -> None:
        self._rows = rows
        self._serves_everyone = serves_everyone
        self._watchers = [] if watchers is None else watchers

    def of_everyone(self) -> ExtractionQueue:
        """Return the queue for a worker that serves all users."""
        return ExtractionQueue(self._rows, serves_everyone=True, watchers=self._watchers)

    def watch(self, ended: Callable[[str], object]) -> Callable[[], None]:
        """Call `ended` with the user of each job that a worker of this memory ends; return what stops that.

        It is called in the worker's thread, and must neither raise nor block.
        """
        self._watchers.append(ended)
        return lambda: self._watchers.remove(ended)

    def _tell(self, user_id: str) -> None:
        for ended in tuple(self._watchers):
            ended(user_id)

    def release(self, owner: str, user_id: str | None = None, *, session: str = "", limit: int = 0) -> int:
        """Make the owner's open jobs due, of one session or of all.

        With a `limit`, the oldest waiting jobs beyond it are dropped; return how many.
        """
        now = self._rows.clock()
        users = self._users_of(owner, user_id)
        return sum(self._rows.write(user, 0, jobs.release, owner, session, now, limit) for user in users)

    def give_back(self, owner: str, user_id: str | None = None) -> int:
        """Make all jobs due that `owner` had open or running; return how many."""
        now = self._rows.clock()
        users = self._users_of(owner, user_id)
        return sum(self._rows.write(user, 0, jobs.give_back, owner, now) for user in users)

    def owners(self, user_id: str | None = None) -> list[str]:
        """Return the owners of open and running jobs."""
        if self._serves_everyone and user_id is None:
            return sorted({owner for _, owner in self._rows.store.read(jobs.holders)})
        return self._rows.read(user_id, [], jobs.owners)

    def claim(self, owner: str, user_id: str | None = None) -> ExtractionJob | None:
        """Return the oldest job that is due, for `owner` to run; None when there is none."""
        now = self._rows.clock()
        if self._serves_everyone and user_id is None:
            user_id = self._rows.store.read(lambda connection: jobs.due_user(connection, now))
            if user_id is None:
                return None
        # Reading first: it does not take the writers' turn.
        due = self._rows.read(user_id, None, jobs.next_try)
        if due is None or due > now:
            return None
        return self._rows.write(user_id, None, jobs.claim, owner, now=now, lease_s=LEASE_S)

    def due_in(self, user_id: str | None = None) -> float | None:
        """Return the seconds until the next job is due, at least 0; None when there is none."""
        if self._serves_everyone and user_id is None:
            at = self._rows.store.read(jobs.next_try)
        else:
            at = self._rows.read(user_id, None, jobs.next_try)
        return None if at is None else max(at - self._rows.clock(), 0.0)

    def finish(
        self,
        job: ExtractionJob,
        claims: Sequence[Claim | EndedValue],
        memories: Sequence[NewMemory],
        *,
        statements: Sequence[tuple[str, int]] = (),
        dropped: int = 0,
    ) -> tuple[int, int] | None:
        """Store the results of a job and end it, in one transaction; return how many were new of each.

        `claims` are in the order in which they were stated. One that contradicts what the user set, and does
        not say that it is new, becomes a proposal. `statements` has the sentence and the line of each memory.

        None when the job was withdrawn meanwhile: nothing is stored then. A fact that was changed or cleared
        after the job's lines were typed stays as it is; after the first of them, unless another job did that.
        """
        stated = [_storable(claim) for claim in claims]
        new = [
            replace(memory, question=storable(memory.question), answer=storable(memory.answer))
            for memory in memories
        ]
        size = size_of(new) + (len(stated) + len(new)) * SMALL_ROW_BYTES
        terms = self._rows.store.terms
        stored = self._rows.store.write(
            job.user_id,
            lambda connection: jobs.finish(
                connection,
                job,
                stated,
                new,
                statements=[(storable(sentence), line) for sentence, line in statements],
                dropped=dropped,
                terms=terms,
            ),
            size=size,
        )
        self._tell(job.user_id)
        return stored

    def fail(
        self, job: ExtractionJob, error: str, *, refused: bool, most_refusals: int, retry_in_s: float
    ) -> bool:
        """Record a failure; return whether the job is dead now, after that many refusals."""
        at = self._rows.clock() + retry_in_s
        is_dead = self._rows.store.write(
            job.user_id,
            lambda connection: jobs.fail(
                connection, job, error=storable(error), refused=refused, most_refusals=most_refusals, at=at
            ),
        )
        self._tell(job.user_id)
        return is_dead

    def jobs(self, user_id: str | None = None) -> list[ExtractionJob]:
        """Return all jobs that are not done, oldest first."""
        return self._rows.read(user_id, [], jobs.of_user)

    def stats(self, user_id: str | None = None) -> ExtractionStats:
        """Return counts by state, and the results of the done jobs."""
        return self._rows.read(user_id, ExtractionStats(), jobs.stats)

    def counts(self) -> dict[str, int]:
        """Return the number of jobs of all users in each state except done."""
        return self._rows.store.read(jobs.counts)

    def retry(self, job_id: int | None = None, user_id: str | None = None) -> int:
        """Make one dead job due again, or all; return how many."""
        if not _may_exist(job_id):
            return 0
        return self._rows.write(user_id, 0, jobs.retry, job_id, self._rows.clock())

    def drop(self, job_id: int | None = None, user_id: str | None = None) -> int:
        """Remove one job that is not done, or all dead ones; return how many."""
        user = self._rows.user(user_id)
        if user is None or not _may_exist(job_id):
            return 0
        return self._rows.store.forget(user, lambda connection: jobs.drop(connection, user, job_id))

    def _users_of(self, owner: str, user_id: str | None) -> list[str | None]:
        if user_id is not None or not self._serves_everyone:
            return [user_id]
        return [user for user, other in self._rows.store.read(jobs.holders) if other == owner]


def _storable(claim: Claim | EndedValue) -> Claim | EndedValue:
    claim = replace(claim, value=storable(claim.value), statement=storable(claim.statement))
    return claim if isinstance(claim, EndedValue) else replace(claim, key=storable(claim.key))


def _may_exist(job_id: int | None) -> bool:
    """Return False for a number that no database can hold; None stands for all jobs."""
    return job_id is None or 0 < job_id < 1 << 63
