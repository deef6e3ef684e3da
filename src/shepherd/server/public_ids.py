"""Ids as they leave the server: each counts within its user or conversation, and tells nothing of others.

In the database an id of a memory contains its user's number, and messages and jobs of all users are counted
together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from shepherd.memory import ExtractionJob, Memory
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.trace.traces import Entry
from shepherd.transactions import Connection

__all__ = ["job_ids", "memory_id", "sequence_of", "traced"]

_SEQUENCES = (1 << SEQUENCE_BITS) - 1
_LARGE_NUMBER = re.compile(r"[0-9]{13,}")
_POSITION = "SELECT count(*) FROM messages WHERE session_id = ? AND id <= ?"


def sequence_of(number: int) -> int:
    """Return the public id of a memory or a chunk: its number among all that its user ever had."""
    return number & _SEQUENCES


def memory_id(memory: Memory, user_id: str, sequence: int) -> int | None:
    """Return the id of a user's memory in the database, None if there can be none."""
    store = memory.transactions
    tenant = store.read(lambda connection: store.find_number(connection, user_id))
    return tenant << SEQUENCE_BITS | sequence if tenant is not None and 0 < sequence <= _SEQUENCES else None


def job_ids(memory: Memory, jobs: Iterable[ExtractionJob]) -> dict[str, ExtractionJob]:
    """Return jobs by their public ids: the conversation and the position of the first message in it."""

    def positions(connection: Connection) -> dict[str, ExtractionJob]:
        found: dict[str, ExtractionJob] = {}
        for job in jobs:
            first = min(job.message_ids, default=0)
            [(position,)] = connection.execute(_POSITION, (job.session_id, first))
            found.setdefault(f"{job.session_id}-{position}", job)
        return found

    return memory.transactions.read(positions)


def traced(entries: Sequence[Entry], root: str) -> dict[str, Any]:
    """Return the entries of a trace by their paths below `root`, with public ids."""
    return {path[len(root) + 1 :]: _public(path, value) for path, value in entries}


def _public(path: str, value: Any) -> Any:
    *_, place, name = path.split("/")
    if name == "turn_id":  # an id of all messages; the place counts the turns of this prompt
        return int(place) if place.isdigit() else 0
    if not name.endswith("id"):
        return value
    if isinstance(value, int):
        return sequence_of(value)
    return _LARGE_NUMBER.sub(lambda number: str(sequence_of(int(number[0]))), value)
