"""Ids as they leave the server: each counts within its user or conversation, and tells nothing of others.

Memories and chunks have the numbers of `shepherd.sequences`, as everywhere. In the database, messages, jobs
and learned things of all users are counted together.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from shepherd.memory import ExtractionJob, LearnedItem, Memory
from shepherd.sequences import LARGEST_SEQUENCE, in_sequences, sequence_of, stored_id, with_sequence
from shepherd.trace.traces import Entry
from shepherd.transactions import Connection
from shepherd.turn.fact_sentences import former_clause, learned_clause, sentence
from shepherd.types import Injection
from shepherd.wording import as_written

__all__ = [
    "find_item",
    "job_ids",
    "memory_id",
    "public_injection",
    "public_items",
    "traced",
]

_POSITION = "SELECT count(*) FROM messages WHERE session_id = ? AND id <= ?"


def memory_id(memory: Memory, user_id: str, sequence: int) -> int | None:
    """Return the id of a user's memory in the database, None if there can be none.

    Unlike a command, a request can't name a memory by that id.
    """
    if not 0 < sequence <= LARGEST_SEQUENCE:
        return None
    return stored_id(memory.transactions, user_id, sequence) or None


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


def public_injection(injection: Injection, text: str) -> dict[str, Any]:
    """Return what memory added to a message, with public ids: the text itself, and what it was made of.

    `text` is the message, whose words stand for the terms that were searched for.
    """
    return {
        "tail": injection.tail,
        "facts": [asdict(fact) for fact in injection.facts],
        "memories": [asdict(with_sequence(result)) for result in injection.results],
        "passages": [{**asdict(passage), "id": sequence_of(passage.id)} for passage in injection.passages],
        "nodes": [asdict(node) for node in injection.nodes],
        "keywords": as_written(injection.keywords, text),
        "recall_us": injection.recall_us,
    }


# Learned things that are compared with a public id at once.
_PAGE = 500


def public_items(memory: Memory, user_id: str, items: Sequence[LearnedItem]) -> list[dict[str, Any]]:
    """Return a user's learned things in sentences, with public ids, made of what the user knows of them."""
    undoable = memory.undoable(items, user_id)
    return [
        {
            **asdict(item),
            "id": _public_id_of(item),
            "sentence": sentence(learned_clause(item)),
            "former_sentence": sentence(former_clause(item)) or None,
            "undoable": item.id in undoable,
        }
        for item in items
    ]


def _public_id_of(item: LearnedItem) -> str:
    known = json.dumps([item.key, item.value, item.statement, item.session, item.at])
    return hashlib.sha256(known.encode()).hexdigest()[:16]


def find_item(memory: Memory, user_id: str, public_id: str) -> LearnedItem | None:
    """Return the user's learned thing of that public id, the newest of several; None if there is none."""
    before: int | None = None
    while items := memory.learned(_PAGE, before, user_id=user_id):
        for item in items:
            if _public_id_of(item) == public_id:
                return item
        before = items[-1].id
    return None


def traced(entries: Sequence[Entry], root: str) -> dict[str, Any]:
    """Return the entries of a trace by their paths below `root`, with public ids.

    The id of the message that began the turn is left out: it counts the messages of all users.
    """
    own = f"{root}/message_id"
    return {path[len(root) + 1 :]: _public(path, value) for path, value in entries if path != own}


def _public(path: str, value: Any) -> Any:
    *_, place, name = path.split("/")
    if name == "turn_id":  # an id of all messages; the place counts the turns of this prompt
        return int(place) if place.isdigit() else 0
    if not name.endswith("id"):
        return value
    if isinstance(value, int):
        return sequence_of(value)
    return in_sequences(value)
