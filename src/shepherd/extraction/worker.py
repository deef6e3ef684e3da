"""The extraction worker: one thread that turns queued lines into facts and memories beside the turns.

Its whole state is in the database. If it is stopped or its process dies, the next worker continues with the
same jobs, and the results of each job are stored exactly once.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from shepherd.errors import ShepherdError, StoreError
from shepherd.extraction.answer import (
    Cancellation,
    CancelledError,
    Extracted,
    Extractor,
    UnavailableError,
    UnusableAnswerError,
    parse_answer,
    select,
)
from shepherd.memory import ExtractionJob, ExtractionStats, Memory, NewMemory, OpenJob
from shepherd.memory.redundant_turns import is_echo
from shepherd.types import Fact
from shepherd.wording import counted

__all__ = ["ExtractionWorker", "WorkerSettings", "is_gone", "new_owner"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

MOST_REFUSALS = 3
LONGEST_PAUSE_S = 300.0
# Memories among which an archived turn is looked for by its own words.
_MOST_ECHOES = 8
# Longest wait for the thread at shutdown.
_JOIN_S = 1.5
_living: set[str] = set()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """When jobs are made and tried; see the settings memory_extraction_*. Times are in seconds, 0 is off."""

    min_turns: int = 2
    max_turns: int = 20
    idle_timeout_s: float = 180.0
    queue_limit: int = 0
    secrets: bool = False


class ExtractionWorker:
    """Works off the jobs of one user, or with `user_id` None, as a server has it, those of all.

    `start()` it, tell it of turns, `close()` it; any thread may call. `retry_interval_s` is asked before each
    retry. Failures are logged, never raised into a turn.
    """

    def __init__(
        self,
        memory: Memory,
        extractor: Extractor,
        user_id: str | None,
        *,
        settings: WorkerSettings | None = None,
        retry_interval_s: Callable[[], float] = lambda: 5.0,
    ) -> None:
        self.settings = settings or WorkerSettings()
        self.owner = new_owner()
        self.overflowed = 0
        self._memory = memory
        self._queue = memory.extraction if user_id is not None else memory.extraction.of_everyone()
        self._extractor = extractor
        self._user_id = user_id
        self._retry_interval_s = retry_interval_s
        self._cancellation = Cancellation()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._is_resting = self._was_woken = False
        self._turns = 0
        self._told_at: float | None = None
        self._failures = 0
        self._paused_until = 0.0
        self._must_give_back = False  # a job of ours still counts as running
        self._thread = threading.Thread(target=self._serve, name="shepherd-extraction", daemon=True)
        _living.add(self.owner)

    # ---- for the assistant

    @property
    def open_job(self) -> OpenJob:
        """Return where the next message goes."""
        return OpenJob(self.owner, max(self.settings.max_turns, 1))

    def start(self) -> None:
        """Begin, with what earlier processes have left."""
        self._thread.start()

    def told(self, session_id: str, user_id: str | None = None) -> None:
        """A message was stored with `open_job`; enough of them make it due, else the idle timeout does.

        A worker for all users is told whose it was.
        """
        with self._changed:
            self._turns += 1
            self._told_at = time.monotonic()
            is_enough = self._turns >= self.settings.min_turns
        if is_enough:
            self.release(session_id, user_id)
        else:
            self._wake()

    def release(self, session_id: str = "", user_id: str | None = None) -> None:
        """Make what was collected due, of a session or of all. Raises StoreError."""
        with self._changed:
            self._turns, self._told_at = 0, None
        limit = self.settings.queue_limit
        user = self._user_id if self._user_id is not None else user_id
        self.overflowed += self._queue.release(self.owner, user, session=session_id, limit=limit)
        self._wake()

    def stats(self) -> ExtractionStats:
        """Counts of this user's jobs, or of the memory's own user. Raises StoreError."""
        return self._queue.stats(self._user_id)

    def flush(self, deadline_s: float) -> bool:
        """Make everything due and wait until nothing is left to do now; whether that was in time."""
        try:
            self.release()
        except ShepherdError as error:
            _log.info("extraction: %s", error)
            return False
        with self._changed:
            return self._changed.wait_for(lambda: self._is_resting or self._stop.is_set(), deadline_s)

    def close(self) -> None:
        """Stop what runs and end the thread; what is not done stays queued. Returns within two seconds."""
        with self._changed:
            self._stop.set()
            self._changed.notify_all()
        self._cancellation.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        if not self._thread.is_alive():
            self._extractor.close()
        _living.discard(self.owner)

    def release_model(self) -> None:
        """Free the model's memory for now; a job in progress is tried again later."""
        self._extractor.release()

    # ---- the thread

    def _serve(self) -> None:
        self._attempt(self._reclaim)
        while not self._stop.is_set():
            job = self._attempt(self._next_job)
            if self._stop.is_set():
                break
            if job is None:
                self._rest()
            else:
                self._work(job)
        self._attempt(lambda: self._queue.give_back(self.owner, self._user_id))

    def _reclaim(self) -> None:
        """Make due what processes that are gone had open or running."""
        for owner in self._queue.owners(self._user_id):
            if is_gone(owner, _living):
                self._queue.give_back(owner, self._user_id)

    def _next_job(self) -> ExtractionJob | None:
        with self._changed:
            idle = self.settings.idle_timeout_s
            is_idle = idle > 0 and self._told_at is not None and time.monotonic() - self._told_at >= idle
        if is_idle:
            self.release()
        if time.monotonic() < self._paused_until:
            return None
        if self._must_give_back:
            self._queue.give_back(self.owner, self._user_id)
            self._must_give_back = False
        return self._queue.claim(self.owner, self._user_id)

    def _rest(self) -> None:
        """Wait until told, or until something is due by itself."""
        due_in = self._attempt(lambda: self._queue.due_in(self._user_id))
        with self._changed:
            if self._stop.is_set() or self._was_woken:
                self._was_woken = False
                return
            waits = []
            if (pause := self._paused_until - time.monotonic()) > 0:
                waits.append(pause)
            elif due_in is not None:
                waits.append(due_in)
            if self._told_at is not None and self.settings.idle_timeout_s > 0:
                waits.append(self._told_at + self.settings.idle_timeout_s - time.monotonic())
            self._is_resting = True
            self._changed.notify_all()
            # Not less than this: a clock that stands still must not make it a busy loop.
            self._changed.wait(max(min(waits), 0.01) if waits else None)
            self._is_resting = self._was_woken = False

    def _wake(self) -> None:
        with self._changed:
            self._is_resting, self._was_woken = False, True
            self._changed.notify_all()

    def _work(self, job: ExtractionJob) -> None:
        try:
            extracted = self._extract(job)
            self._store(job, extracted)
            self._failures = 0
        except CancelledError:
            return
        except UnavailableError as error:
            self._failures += 1
            pause = max(self._pause_s(self._failures), min(error.retry_after_s, LONGEST_PAUSE_S))
            self._paused_until = time.monotonic() + pause
            self._note_failure(job, error, pause, refused=False)
        except StoreError as error:
            _log.info("extraction: %s", error)
            self._pause()
            self._must_give_back = True
        except ShepherdError as error:
            self._note_failure(job, error, self._pause_s(job.refusals + 1), refused=True)
        except Exception as error:
            _log.exception("extraction job %d", job.id)
            self._note_failure(job, error, self._pause_s(job.refusals + 1), refused=True)

    def _extract(self, job: ExtractionJob) -> Extracted:
        """Return what the answers hold. Raises UnusableAnswerError when none can be read."""
        extracted = Extracted()
        unusable: list[UnusableAnswerError] = []
        answers = self._extractor.answers(job.lines, self._cancellation)
        for answer in answers:
            try:
                extracted += parse_answer(answer)
            except UnusableAnswerError as error:
                unusable.append(error)
        if answers and len(unusable) == len(answers):
            raise unusable[0]
        extracted.dropped += len(unusable)
        return extracted

    def _store(self, job: ExtractionJob, extracted: Extracted) -> None:
        kept = select(
            extracted,
            job.lines,
            self._memory,
            job.user_id,
            facts_only=self._extractor.facts_only,
            secrets=self.settings.secrets,
        )
        memories = [
            NewMemory(question, answer, job.told_at, "extraction", job.session_id)
            for question, answer in kept.context
        ]
        stored = self._queue.finish(job, kept.claims, memories, statements=kept.sources, dropped=kept.dropped)
        if stored is None:
            _log.info("extraction job %d was taken back", job.id)
        else:
            facts, memories_stored = counted(stored[0], "fact"), counted(stored[1], "memory", "memories")
            _log.info("extraction job %d: %s, %s, %d dropped", job.id, facts, memories_stored, kept.dropped)
            self._forget_echoes(job, kept.facts)

    def _forget_echoes(self, job: ExtractionJob, learned: Mapping[str, str]) -> None:
        """Delete the archived turns that say nothing but facts that were just learned from them."""
        stored = {fact.key: fact.value for fact in self._memory.get_all_facts(job.user_id)}
        # A list keeps its other items, and a fact that was not replaced keeps its value.
        facts = [Fact(key, value, 0, 0) for key, value in learned.items() if value in stored.get(key, "")]
        for line in job.lines:
            found = self._memory.search(line, _MOST_ECHOES, job.user_id) if is_echo(line, facts) else []
            echoes = [
                result.id
                for result in found
                if result.source == "turn" and result.question == line and not result.pinned
            ]
            if echoes:
                self._memory.drop_memories(echoes, job.user_id)

    def _note_failure(self, job: ExtractionJob, error: Exception, pause_s: float, *, refused: bool) -> None:
        if self._stop.is_set():
            return
        said = str(error) if isinstance(error, ShepherdError) else type(error).__name__
        dead = self._attempt(
            lambda: self._queue.fail(
                job, said, refused=refused, most_refusals=MOST_REFUSALS, retry_in_s=pause_s
            )
        )
        _log.info("extraction job %d %s: %s", job.id, "given up" if dead else "failed", said)

    def _pause_s(self, failures: int) -> float:
        """Doubles with every failure, up to five minutes; spread, so that clients do not come all at once."""
        interval = max(self._retry_interval_s(), 0.0)
        return min(interval * 2.0 ** min(failures - 1, 16), LONGEST_PAUSE_S) * random.uniform(0.75, 1.25)

    def _attempt(self, action: Callable[[], _T]) -> _T | None:
        """Return the action's result, or None and a pause when the database fails."""
        try:
            return action()
        except ShepherdError as error:
            _log.info("extraction: %s", error)
            self._pause()
            return None

    def _pause(self) -> None:
        self._paused_until = time.monotonic() + max(self._retry_interval_s(), 0.1)


def new_owner() -> str:
    """Return a name that no other worker has had: machine, process, and a random number."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"


def is_gone(owner: str, living: set[str]) -> bool:
    """Return whether the process of that owner has ended; `living` are the owners in this process.

    Nothing is known about another machine: its jobs come back when their lease ends.
    """
    machine, _, rest = owner.rpartition("/")[0].rpartition("/")
    if machine != socket.gethostname() or not rest.isdecimal():
        return False
    if int(rest) == os.getpid():
        return owner not in living
    if os.name != "posix":  # elsewhere this signal would end the process
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
