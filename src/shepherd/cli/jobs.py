"""`shepherd memory jobs`: what is still to be learned from what was said, and what was given up."""

from __future__ import annotations

import time
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shepherd.cli.parsing import LARGEST_ID, Parser, add_action, whole_number
from shepherd.cli.render import Screen, age_in_words, counted
from shepherd.errors import ShepherdError, UsageError

if TYPE_CHECKING:
    from shepherd.memory import ExtractionJob, Memory

__all__ = ["add_jobs_action", "changes_jobs", "execute_jobs", "summary"]


def add_jobs_action(actions: Any) -> Parser:
    """The parser of `shepherd memory jobs`."""
    parser = add_action(actions, "jobs", "what is still to be learned from what was said")
    ids = whole_number(1, LARGEST_ID)
    parser.add_argument("--retry", type=ids, nargs="*", metavar="ID", help="try dead ones again (all)")
    parser.add_argument("--drop", type=ids, nargs="*", metavar="ID", help="forget jobs (all dead ones)")
    return parser


def changes_jobs(arguments: Namespace) -> bool:
    """Whether the database will be written."""
    return arguments.retry is not None or arguments.drop is not None


def execute_jobs(memory: Memory, arguments: Namespace, screen: Screen) -> int:
    """List, retry or drop; 1 when there was nothing of what was named by its id."""
    if arguments.retry is not None and arguments.drop is not None:
        raise UsageError("--retry and --drop contradict each other", hint="give one of them")
    if arguments.retry is not None:
        return _change(arguments.retry, memory.extraction.retry, "tried again", screen, arguments.json)
    if arguments.drop is not None:
        return _change(arguments.drop, memory.extraction.drop, "dropped", screen, arguments.json)
    jobs = memory.extraction.jobs()
    if arguments.json:
        screen.json([_as_json(job) for job in jobs])
        return 0
    headers = ["id", "state", "messages", "said", "tries", "next try", "last failure"]
    screen.table(headers, [_row(job) for job in jobs])
    if not jobs:
        screen.note("nothing is waiting")
    elif any(job.state == "dead" for job in jobs):
        screen.note("--retry tries the dead ones again, --drop forgets them")
    return 0


def summary(memory: Memory, user_id: str) -> str:
    """One line: what was learned, what waits, what failed; "" when there never was a job."""
    stats = memory.extraction.stats(user_id)
    waiting = stats.open + stats.waiting + stats.running
    parts = []
    if stats.done:
        learned = f"{counted(stats.facts, 'fact')} and {counted(stats.memories, 'memory', 'memories')}"
        parts.append(f"{learned} from what was said")
    if waiting:
        parts.append(f"{counted(waiting, 'job')} to come")
    if stats.dead:
        parts.append(f"{stats.dead:,} failed (shepherd memory jobs)")
    return ", ".join(parts)


def _change(ids: list[int], change: Any, done: str, screen: Screen, as_json: bool) -> int:
    changed = sum(change(job_id) for job_id in ids) if ids else change()
    if as_json:
        screen.json({"jobs": changed})
    elif ids and not changed:
        raise ShepherdError("there is no such job", hint="shepherd memory jobs lists them")
    else:
        screen.note(f"{counted(changed, 'job')} {done}")
    return 0 if changed or not ids else 1


def _as_json(job: ExtractionJob) -> dict[str, Any]:
    # What was said stays in the database: a list of jobs ends up in bug reports.
    return {key: value for key, value in asdict(job).items() if key not in ("lines", "owner")}


def _row(job: ExtractionJob) -> tuple[object, ...]:
    said = age_in_words((time.time() - job.told_at) / 86_400)
    wait_s = max(job.next_try - time.time(), 0)
    due = (f"in {wait_s:.0f} s" if wait_s else "now") if job.state == "waiting" else ""
    return job.id, job.state, len(job.message_ids), said, job.attempts, due, job.error
