"""Extraction jobs: messages of users from which facts and memories are still to be extracted.

A line joins a job in the transaction that stores its message, and the results of a job are stored in the
transaction that ends it: a crash at any moment loses no line and stores nothing twice. Inside the caller's
transaction.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from shepherd.escaping import without_blocks
from shepherd.memory import learned
from shepherd.memory.later_messages import later_lines, without_ended
from shepherd.memory.memories import TermIndex
from shepherd.memory.records import (
    Claim,
    EndedValue,
    Evidence,
    ExtractionJob,
    ExtractionStats,
    NewMemory,
    OpenJob,
)
from shepherd.transactions import Connection

__all__ = [
    "add_line",
    "claim",
    "counts",
    "drop",
    "due_user",
    "fail",
    "finish",
    "give_back",
    "holders",
    "move",
    "next_try",
    "of_user",
    "owners",
    "release",
    "retry",
    "stats",
    "take_back",
    "withdraw",
]

_COLUMNS = (
    "id, user_id, session_id, message_ids, lines, state, owner, attempts, refusals, next_try, told_at, error"
)
# Number of done jobs that are kept, for the counts of /stats.
_KEPT_DONE = 500
# Seconds after which a job to which nothing was added may be released by anybody, not just by its owner: that
# may have ended on a machine that nobody can ask. No idle timeout is longer.
_OPEN_LEASE_S = 86_400
# Number of times that a lease is doubled: five minutes become five hours at most.
_MOST_DOUBLINGS = 6
_UNDER_WAY = "state IN ('open', 'waiting', 'running')"


def add_line(
    connection: Connection,
    user_id: str,
    session_id: str,
    message_id: int,
    text: str,
    *,
    job: OpenJob,
    now: int,
) -> None:
    """Add the text of a message to the session's open job; a job that is full becomes due."""
    line = without_blocks(text).strip()
    if not line:
        return
    rows = connection.execute(
        "SELECT id, message_ids, lines FROM extraction_jobs"
        " WHERE user_id = ? AND session_id = ? AND state = 'open' AND owner = ? ORDER BY id DESC LIMIT 1",
        (user_id, session_id, job.owner),
    )
    ids, lines = (json.loads(rows[0][1]), json.loads(rows[0][2])) if rows else ([], [])
    ids, lines = [*ids, message_id], [*lines, line]
    state, due = ("waiting", 0) if len(ids) >= job.most_lines else ("open", now + _OPEN_LEASE_S)
    if rows:
        connection.execute(
            "UPDATE extraction_jobs SET message_ids = ?, lines = ?, state = ?, next_try = ?, told_at = ?"
            " WHERE user_id = ? AND id = ?",
            (json.dumps(ids), _dump(lines), state, due, now, user_id, rows[0][0]),
        )
        return
    connection.execute(
        "INSERT INTO extraction_jobs(user_id, session_id, message_ids, lines, state, next_try, owner,"
        " told_at) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (user_id, session_id, json.dumps(ids), _dump(lines), state, due, job.owner, now),
    )


def release(
    connection: Connection, user_id: str, owner: str, session_id: str, now: float, limit: int = 0
) -> int:
    """Make the owner's open jobs due, of one session or ("") of all.

    With a `limit`, drop the oldest waiting jobs beyond it; return how many were dropped.
    """
    which = " AND session_id = ?" if session_id else ""
    connection.execute(
        "UPDATE extraction_jobs SET state = 'waiting', owner = '', next_try = ?"
        f" WHERE user_id = ? AND owner = ? AND state = 'open'{which}",
        (now, user_id, owner, *([session_id] if session_id else [])),
    )
    return _keep_newest(connection, user_id, "waiting", limit) if limit else 0


def owners(connection: Connection, user_id: str) -> list[str]:
    """Return the owners of open and running jobs of this user."""
    rows = connection.execute(
        "SELECT DISTINCT owner FROM extraction_jobs WHERE user_id = ? AND state IN ('open', 'running')",
        (user_id,),
    )
    return [row[0] for row in rows]


def holders(connection: Connection) -> list[tuple[str, str]]:
    """Return the users with open or running jobs, each with the owner."""
    rows = connection.execute(
        "SELECT DISTINCT user_id, owner FROM extraction_jobs WHERE state IN ('open', 'running')"
    )
    return [(user_id, owner) for user_id, owner in rows]


def give_back(connection: Connection, user_id: str, owner: str, now: float) -> int:
    """Make all jobs due that the owner had open or running: it has ended, or will; return how many."""
    given = connection.execute(
        "UPDATE extraction_jobs SET state = 'waiting', owner = '', next_try = ?"
        " WHERE user_id = ? AND owner = ? AND state IN ('open', 'running') RETURNING id",
        (now, user_id, owner),
    )
    return len(given)


def move(connection: Connection, from_user: str, user_id: str) -> None:
    """Give all jobs of a user to another. Nothing is added to them any more; running ones are due again.

    The results of done jobs get other numbers with the other user, so they can no longer be taken back.
    """
    connection.execute(
        "UPDATE extraction_jobs SET state = 'waiting', owner = '', next_try = 0"
        " WHERE user_id = ? AND state IN ('open', 'running')",
        (from_user,),
    )
    connection.execute(
        "UPDATE extraction_jobs SET user_id = ?, given = '' WHERE user_id = ?", (user_id, from_user)
    )


def _keep_newest(connection: Connection, user_id: str, state: str, limit: int) -> int:
    # Not "state = ?2": SQLite would use the index of states, which has the jobs of all users.
    removed = connection.execute(
        "DELETE FROM extraction_jobs WHERE user_id = ?1 AND NOT state <> ?2 AND id <= (SELECT id"
        " FROM extraction_jobs WHERE user_id = ?1 AND NOT state <> ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)"
        " RETURNING id",
        (user_id, state, limit),
    )
    return len(removed)


def claim(
    connection: Connection, user_id: str, owner: str, *, now: float, lease_s: float
) -> ExtractionJob | None:
    """Mark the oldest job that is due or whose lease has ended as running for `owner`, and return it.

    Each attempt has twice the lease of the one before, in case the job takes longer than a lease.
    """
    rows = connection.execute(
        "UPDATE extraction_jobs SET state = 'running', owner = ?, attempts = attempts + 1,"
        f" next_try = ? + ? * (1 << CASE WHEN attempts < {_MOST_DOUBLINGS} THEN attempts"
        f" ELSE {_MOST_DOUBLINGS} END)"
        f" WHERE user_id = ? AND id = (SELECT id FROM extraction_jobs WHERE user_id = ? AND {_UNDER_WAY}"
        f" AND next_try <= ? ORDER BY id LIMIT 1) RETURNING {_COLUMNS}",
        (owner, now, lease_s, user_id, user_id, now),
    )
    return _job(rows[0]) if rows else None


def due_user(connection: Connection, now: float) -> str | None:
    """Return the user of the oldest job that is due or whose lease has ended; None if there is none."""
    rows = connection.execute(
        f"SELECT user_id FROM extraction_jobs WHERE {_UNDER_WAY} AND next_try <= ? ORDER BY id LIMIT 1",
        (now,),
    )
    return rows[0][0] if rows else None


def next_try(connection: Connection, user_id: str | None = None) -> float | None:
    """Return when the next job is due, of one user or (None) of all; None if there is none."""
    whose = "" if user_id is None else "user_id = ? AND "
    rows = connection.execute(
        f"SELECT min(next_try) FROM extraction_jobs WHERE {whose}{_UNDER_WAY}",
        () if user_id is None else (user_id,),
    )
    return None if rows[0][0] is None else float(rows[0][0])


def finish(
    connection: Connection,
    job: ExtractionJob,
    claims: Sequence[Claim | EndedValue],
    new: Sequence[NewMemory],
    *,
    statements: Sequence[tuple[str, int]],
    dropped: int,
    terms: TermIndex,
) -> tuple[int, int] | None:
    """Store the results of a job and end it; return how many facts and memories were new.

    `claims` are in the order in which they were stated; `statements` has the sentence and the line of each
    memory. None if the job is not its owner's any more: then nothing is stored.
    """
    if not _end(connection, job):
        return None
    lines = _Lines(connection, job)
    later = later_lines(connection, job, lines.times(0)[0]) if claims else []
    items: list[int] = []
    for stated in claims:
        since, told_at = lines.times(stated.line)
        claim = without_ended(stated, told_at, later) if isinstance(stated, Claim) else stated
        if claim is None:
            continue
        evidence = lines.evidence(claim.statement, claim.line)
        if isinstance(claim, EndedValue):
            items += learned.end_facts(connection, job.user_id, claim, told_at=told_at, evidence=evidence)
        else:
            items += learned.learn_fact(
                connection, job.user_id, claim, since=since, told_at=told_at, evidence=evidence
            )
    n_facts, _ = learned.counts(connection, job.user_id, items)
    [(given,)] = connection.execute(
        "SELECT given FROM extraction_jobs WHERE user_id = ? AND id = ?", (job.user_id, job.id)
    )
    sources = [*statements, *[("", -1)] * (len(new) - len(statements))]
    wanted = [
        (memory, source)
        for memory, source in zip(new, sources, strict=True)
        if not learned.was_undone(connection, job.user_id, job.session_id, memory.question, memory.answer)
    ]
    stored = terms.add(connection, job.user_id, [memory for memory, _ in wanted]) if wanted else []
    n_memories = 0
    for (memory, source), (memory_id, is_new) in zip(wanted, stored, strict=True):
        if is_new:
            n_memories += 1
            items.append(
                learned.note_memory(
                    connection,
                    job.user_id,
                    memory_id,
                    memory.question,
                    memory.answer,
                    evidence=lines.evidence(*source),
                    at=lines.times(source[1])[1],
                )
            )
    if items:
        learned.trim(connection, job.user_id)
    # A job that was extracted before may have given something already.
    if all_items := [*(json.loads(given) if given else []), *items]:
        _note_given(connection, job.user_id, job.id, all_items)
    connection.execute(
        "UPDATE extraction_jobs SET dropped = ? WHERE user_id = ? AND id = ?", (dropped, job.user_id, job.id)
    )
    return n_facts, n_memories


def _note_given(connection: Connection, user_id: str, job_id: int, items: Sequence[int]) -> None:
    """Record all that a job has given."""
    connection.execute(
        "UPDATE extraction_jobs SET facts = ?, memories = ?, given = ? WHERE user_id = ? AND id = ?",
        (*learned.counts(connection, user_id, items), json.dumps(items), user_id, job_id),
    )


class _Lines:
    """Times and messages of a job's lines."""

    def __init__(self, connection: Connection, job: ExtractionJob) -> None:
        self._job = job
        self._times: dict[int, int] = {}
        for message_id in job.message_ids:
            for (told_at,) in connection.execute(
                "SELECT created_at FROM messages WHERE session_id = ? AND id = ?",
                (job.session_id, message_id),
            ):
                self._times[message_id] = told_at

    def times(self, line: int) -> tuple[int, int]:
        """Return the times between which a line was typed: the same, unless it may be any line."""
        told_at = self._job.told_at
        if not 0 <= line < len(self._job.message_ids):
            first = self._times.get(min(self._job.message_ids, default=0), told_at)
            return min(told_at, first), told_at
        at = min(told_at, self._times.get(self._job.message_ids[line], told_at))
        return at, at

    def evidence(self, statement: str, line: int) -> Evidence:
        """Return the evidence of what a line says."""
        is_known = 0 <= line < len(self._job.message_ids)
        return Evidence(statement, self._job.session_id, self._job.message_ids[line] if is_known else 0)


def _end(connection: Connection, job: ExtractionJob) -> bool:
    """Mark a job as done; return False if it is not its owner's any more."""
    ended = connection.execute(
        "UPDATE extraction_jobs SET state = 'done', owner = '', lines = '[]', error = ''"
        " WHERE id = ? AND user_id = ? AND state = 'running' AND owner = ? AND message_ids = ? RETURNING id",
        (job.id, job.user_id, job.owner, json.dumps(job.message_ids)),
    )
    if ended:
        _keep_newest(connection, job.user_id, "done", _KEPT_DONE)
    return bool(ended)


def fail(
    connection: Connection, job: ExtractionJob, *, error: str, refused: bool, most_refusals: int, at: float
) -> bool:
    """Make a failed job due again at `at`, or dead after `most_refusals`; return whether it is dead."""
    refusals = job.refusals + int(refused)
    dead = refusals >= most_refusals
    connection.execute(
        "UPDATE extraction_jobs SET state = ?, owner = '', refusals = ?, next_try = ?, error = ?"
        " WHERE id = ? AND user_id = ? AND state = 'running' AND owner = ?",
        ("dead" if dead else "waiting", refusals, at, error, job.id, job.user_id, job.owner),
    )
    return dead


def of_user(connection: Connection, user_id: str) -> list[ExtractionJob]:
    """Return the jobs that are not done, oldest first."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM extraction_jobs WHERE user_id = ? AND state <> 'done' ORDER BY id",
        (user_id,),
    )
    return [_job(row) for row in rows]


def stats(connection: Connection, user_id: str) -> ExtractionStats:
    """Return the number of jobs in each state, and the results of the done ones."""
    rows = connection.execute(
        "SELECT state, count(*), sum(facts), sum(memories), sum(dropped) FROM extraction_jobs"
        " WHERE user_id = ? GROUP BY state",
        (user_id,),
    )
    counts: dict[str, int] = {state: n for state, n, *_ in rows}
    # PostgreSQL's sums are decimals.
    facts, memories, dropped = (int(sum(row[i] for row in rows)) for i in (2, 3, 4))
    return ExtractionStats(**counts, facts=facts, memories=memories, dropped=dropped)


def counts(connection: Connection) -> dict[str, int]:
    """Return the number of jobs of all users in each state except done."""
    rows = connection.execute(
        "SELECT state, count(*) FROM extraction_jobs WHERE state <> 'done' GROUP BY state"
    )
    return {state: int(n) for state, n in rows}


def retry(connection: Connection, user_id: str, job_id: int | None, now: float) -> int:
    """Make a dead job due again, or all of them; return how many."""
    which = "" if job_id is None else " AND id = ?"
    retried = connection.execute(
        "UPDATE extraction_jobs SET state = 'waiting', refusals = 0, next_try = ?"
        f" WHERE user_id = ? AND state = 'dead'{which} RETURNING id",
        (now, user_id, *([] if job_id is None else [job_id])),
    )
    return len(retried)


def drop(connection: Connection, user_id: str, job_id: int | None) -> int:
    """Remove a job that is not done, or all dead ones; return how many."""
    which = "state = 'dead'" if job_id is None else "state <> 'done' AND id = ?"
    return _drop(connection, user_id, which, *([] if job_id is None else [job_id]))


def _drop(connection: Connection, user_id: str, which: str, *parameters: int) -> int:
    """Remove jobs, or end those that have given something before: it goes with its messages."""
    rows = connection.execute(
        f"SELECT id, message_ids, given FROM extraction_jobs WHERE user_id = ? AND {which}",
        (user_id, *parameters),
    )
    for job_id, message_ids, given in rows:
        if given and json.loads(given):
            connection.execute(
                "UPDATE extraction_jobs SET state = 'done', owner = '', lines = '[]', error = ''"
                " WHERE user_id = ? AND id = ? AND message_ids = ?",
                (user_id, job_id, message_ids),
            )
        else:
            connection.execute("DELETE FROM extraction_jobs WHERE user_id = ? AND id = ?", (user_id, job_id))
    return len(rows)


def withdraw(connection: Connection, user_id: str, message_ids: Sequence[int]) -> None:
    """Remove deleted messages from jobs. A running job with one of them is due again, without it."""
    for job in of_user(connection, user_id):
        kept = [pair for pair in zip(job.message_ids, job.lines, strict=True) if pair[0] not in message_ids]
        if len(kept) == len(job.lines):
            continue
        if not kept:
            _drop(connection, user_id, "id = ?", job.id)
            continue
        state = "waiting" if job.state == "running" else job.state
        due = job.next_try if job.state == "open" else 0
        connection.execute(
            "UPDATE extraction_jobs SET message_ids = ?, lines = ?, state = ?, next_try = ?"
            " WHERE user_id = ? AND id = ?",
            (
                json.dumps([pair[0] for pair in kept]),
                _dump([pair[1] for pair in kept]),
                state,
                due,
                user_id,
                job.id,
            ),
        )


def take_back(connection: Connection, user_id: str, message_ids: Sequence[int], terms: TermIndex) -> None:
    """Undo what jobs have given from these messages; results that were changed since stay.

    Where the line that something came from is not known, the other lines are extracted once more.
    """
    rows = connection.execute(
        "SELECT id, message_ids, given, state FROM extraction_jobs"
        " WHERE user_id = ? AND (state = 'done' OR given <> '') ORDER BY id DESC",
        (user_id,),
    )
    for job_id, ids, given, state in rows:
        if state != "done":
            # It is to be extracted again already, and has left these messages.
            items = json.loads(given)
            left, _ = learned.take_back(connection, user_id, items, message_ids, terms)
            if left != items:
                _note_given(connection, user_id, job_id, left)
            continue
        kept = [message_id for message_id in json.loads(ids) if message_id not in message_ids]
        if len(kept) == len(json.loads(ids)):
            continue
        items = json.loads(given) if given else []
        left, is_unsure = learned.take_back(connection, user_id, items, message_ids, terms)
        if kept and given and not is_unsure:
            connection.execute(
                "UPDATE extraction_jobs SET message_ids = ? WHERE user_id = ? AND id = ?",
                (json.dumps(kept), user_id, job_id),
            )
        else:
            _extract_again(connection, user_id, job_id, kept)
        _note_given(connection, user_id, job_id, left)
    learned.forget_messages(connection, user_id, message_ids)


def _extract_again(connection: Connection, user_id: str, job_id: int, message_ids: Sequence[int]) -> None:
    """Make a done job due again with the messages that are left of it, or delete it without any."""
    lines = {}
    for message_id in message_ids:
        rows = connection.execute("SELECT raw FROM messages WHERE id = ?", (message_id,))
        if rows and (line := without_blocks(rows[0][0]).strip()):
            lines[message_id] = line
    if not lines:
        connection.execute("DELETE FROM extraction_jobs WHERE user_id = ? AND id = ?", (user_id, job_id))
        return
    connection.execute(
        "UPDATE extraction_jobs SET message_ids = ?, lines = ?, state = 'waiting', next_try = 0, dropped = 0"
        " WHERE user_id = ? AND id = ?",
        (json.dumps(list(lines)), _dump(list(lines.values())), user_id, job_id),
    )


def _dump(lines: list[str]) -> str:
    return json.dumps(lines, ensure_ascii=False)


def _job(row: tuple[Any, ...]) -> ExtractionJob:
    job_id, user_id, session_id, message_ids, lines, *rest = row
    return ExtractionJob(
        job_id, user_id, session_id, tuple(json.loads(message_ids)), tuple(json.loads(lines)), *rest
    )
