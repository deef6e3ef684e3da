"""The caller's own memory over HTTP: memories, facts, what was learned, and the extraction queue.

`?user=` names one of the key owner's users, as `user` in a chat does. What belongs to others is not found.
Words to search for are sent in a body and not in a URL, which is written to logs.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from shepherd import __version__
from shepherd._native.text import keywords
from shepherd.errors import UsageError
from shepherd.escaping import storable
from shepherd.knowledge import Knowledge
from shepherd.memory import ExtractionJob, LearnedItem, Memory, MemoryFilter, MemoryStats
from shepherd.memory.periods import moment_of
from shepherd.sequences import errors_in_sequences, sequence_of, with_sequence
from shepherd.server.description import JSON_LINES, described
from shepherd.server.errors import Denied, invalid, missing
from shepherd.server.http import StrictBody
from shepherd.server.identity import METRICS
from shepherd.server.public_ids import (
    find_item,
    job_ids,
    public_items,
)
from shepherd.server.state import Own, OwnMemory
from shepherd.tools import decide
from shepherd.types import MemoryRecord, SearchResult

__all__ = ["LARGEST_ID", "MOST_LISTED", "Limit", "Offset", "Search", "Text", "checked", "router"]

router = APIRouter(prefix="/v1")

MOST_LISTED = 1000
_MOST_RECALLED = 10
LARGEST_ID = (1 << 63) - 1
_LAST_SECOND = 253_402_300_799  # end of the year 9999, the last that datetime has
# Best results among which a search with conditions looks for those that meet them.
_MOST_SIFTED = 1000
_MOST_AT_ONCE = 200
_MOST_SOURCES = 50

Text = Annotated[str, Field(max_length=1 << 20)]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED)]
Offset = Annotated[int, Query(ge=0, le=LARGEST_ID)]
When = Annotated[str | None, Query(max_length=40)]


class NewMemory(StrictBody):
    """A memory to add."""

    question: Text = ""
    answer: Text = ""
    # When it was said, in unix seconds; default: now.
    timestamp: int | None = Field(default=None, ge=0, le=_LAST_SECOND)


class MemoryChange(StrictBody):
    """New values of a memory's fields; others stay."""

    question: Text | None = None
    answer: Text | None = None
    pinned: bool | None = None


class Search(StrictBody):
    """A search in memories or knowledge."""

    query: Text
    max_results: int = Field(default=10, ge=1, le=100)
    threshold: float = Field(default=0.0, ge=0, le=1)


class MemorySearch(Search):
    """A search in memories, for those alone that meet the conditions.

    With `own_words`, memories are left out that have none of the words and were only said near a match.
    """

    source: list[str] = Field(default_factory=list, max_length=_MOST_SOURCES)
    pinned: bool | None = None
    since: int | None = None
    until: int | None = None
    never_recalled: bool = False
    own_words: bool = False


class MemoryBatch(StrictBody):
    """An action on several memories at once."""

    action: Literal["pin", "unpin", "delete", "restore"]
    ids: list[int] = Field(min_length=1, max_length=_MOST_AT_ONCE)


class FactValue(StrictBody):
    """The value of a fact."""

    value: Text


# ---- memories


# ---- the user and the counts; before the memories, whose ids follow /memory/ as well


@router.get("/memory/user")
@described("Who")
def who(own: OwnMemory) -> dict[str, Any]:
    """Return the user of this request and the caller's rights.

    `suggested` is the user of `shepherd` in a terminal, for requests without key and user.
    """
    caller = own.caller
    return {
        "user": "" if caller.is_nobody else caller.user_id,
        "owner": caller.owner,
        "suggested": own.memory.user_id if caller.is_nobody and not caller.owner else "",
        "scopes": sorted(caller.scopes),
        "is_writable": own.is_writable,
        "can_chat": own.can_chat,
        "version": __version__,
    }


@router.get("/memory/stats")
@described("MemoryFigures")
def stats(own: OwnMemory) -> dict[str, Any]:
    """Return counts of the user, memories by day and those recalled most.

    The size of the database is about all users, as /metrics is, and needs the same scope.
    """
    memory = own.memory
    counts = memory.stats(own.user)
    knowledge = Knowledge(memory.transactions, own.user)
    activity = memory.activity(own.user, n_recalled=_MOST_RECALLED)
    return {
        "memories": counts.memories,
        "pinned": counts.pinned,
        "facts": counts.facts,
        "conversations": counts.sessions,
        "nodes": knowledge.count_nodes(),
        "oldest_timestamp": counts.oldest_timestamp,
        "newest_timestamp": counts.newest_timestamp,
        "per_day": [{"day": day, "memories": n} for day, n in activity.per_day],
        "per_source": [
            {"day": day, "source": source, "memories": n} for day, source, n in activity.per_source
        ],
        "never_recalled": activity.never_recalled,
        "most_recalled": [
            {**_public(record), "recalls": n, "recalled_at": last}
            for memory_id, n, last in activity.recalled
            if (record := memory.get_memory(memory_id, own.user)) is not None
        ],
        "extraction": asdict(memory.extraction.stats(own.user)),
        "learning": asdict(own.learning),
        "database": _size(counts) if METRICS in own.caller.scopes else None,
    }


def _size(counts: MemoryStats) -> dict[str, int]:
    return {
        "used_bytes": counts.used_bytes,
        "file_bytes": counts.file_bytes,
        "limit_bytes": counts.limit_bytes,
    }


# ---- memories


@router.get("/memory")
@described("MemoryList")
def list_memories(
    own: OwnMemory,
    limit: Limit = 50,
    offset: Offset = 0,
    order: Literal["newest", "oldest", "recalled"] = "newest",
    source: Annotated[list[str] | None, Query(max_length=_MOST_SOURCES)] = None,
    pinned: bool | None = None,
    since: int | None = None,
    until: int | None = None,
    never_recalled: bool = False,
) -> dict[str, Any]:
    """List memories that meet the conditions, with the number of their recalls.

    `source` can be repeated; "import" is any import. `since` and `until` are unix seconds; that of `until` is
    not among them. `total` is the number of all that meet the conditions.
    """
    wanted = MemoryFilter(tuple(source or ()), pinned, _second(since), _second(until), never_recalled)
    records = own.memory.list_memories(own.user, limit=limit, offset=offset, wanted=wanted, order=order)
    return {"data": _with_recalls(own, records), "total": own.memory.count_memories(own.user, wanted)}


@router.post("/memory", status_code=201)
@described("Memory")
def add_memory(own: OwnMemory, new: NewMemory) -> dict[str, Any]:
    """Store a memory; return an identical one unchanged."""
    memory = own.writable
    memory_id = memory.store_memory(new.question, new.answer, own.user, timestamp=new.timestamp)
    return _memory(own, sequence_of(memory_id or 0))


@router.post("/memory/search")
@described("FoundMemories")
def search(own: OwnMemory, asked: MemorySearch) -> dict[str, Any]:
    """Return the best memories for the words of the query, best first, with their scores.

    Conditions are those of the list; they are applied to the best 1,000 results.
    """
    since, until = _second(asked.since), _second(asked.until)
    wanted = MemoryFilter(tuple(asked.source), asked.pinned, since, until, asked.never_recalled)
    is_sifted = wanted != MemoryFilter()
    n = max(asked.max_results, _MOST_SIFTED) if is_sifted else asked.max_results
    results = own.memory.search(asked.query, n, own.user, threshold=asked.threshold)
    if is_sifted:
        recalls = own.memory.count_recalls([result.id for result in results], own.user)
        results = [result for result in results if wanted.accepts(result, recalls.get(result.id, 0))]
    if asked.own_words:
        words = frozenset(keywords(storable(asked.query)))
        least = own.memory.relevance_threshold
        results = [one for one in results if one.relevance >= least or _has_one_of(words, one)]
    return {"data": _with_recalls(own, results[: asked.max_results])}


def _has_one_of(words: Collection[str], memory: SearchResult) -> bool:
    return not set(words).isdisjoint(keywords(f"{memory.question}\n{memory.answer}"))


@router.post("/memory/batch")
@described("ChangedMemories", 404)
def change_memories(own: OwnMemory, batch: MemoryBatch) -> dict[str, Any]:
    """Pin, unpin, delete or restore several memories; return the ids of those that were changed.

    A memory is not restored if another one says the same now.
    """
    memory = own.writable
    ids = {own.memory_id(sequence): sequence for sequence in batch.ids}
    if batch.action == "delete":
        done = memory.delete_memories(list(ids), own.user)
    elif batch.action == "restore":
        done = [stored_id for stored_id in ids if _is_restored(memory, stored_id, own.user)]
    else:
        is_pinned = batch.action == "pin"
        done = [stored_id for stored_id in ids if memory.pin_memory(stored_id, is_pinned, own.user)]
    return {"ids": [ids[stored_id] for stored_id in done]}


def _is_restored(memory: Memory, stored_id: int, user: str) -> bool:
    try:
        return memory.restore_forgotten(stored_id, user) is not None
    except UsageError:  # another one says the same; the rest can be restored nevertheless
        return False


@router.get("/memory/export")
@described(media_type=JSON_LINES)
def export(own: OwnMemory) -> StreamingResponse:
    """Return everything about the user as JSON lines, which `shepherd memory import` reads."""
    entries = own.memory.export_memories(own.user)
    return StreamingResponse(_lines(entries), media_type="application/jsonl")


@router.get("/memory/{memory_id}")
@described("Memory", 404)
def show_memory(own: OwnMemory, memory_id: int) -> dict[str, Any]:
    """Return a memory."""
    return _memory(own, memory_id)


@router.patch("/memory/{memory_id}")
@described("Memory", 404)
def edit_memory(own: OwnMemory, memory_id: int, change: MemoryChange) -> dict[str, Any]:
    """Change question, answer or pin of a memory."""
    memory = own.writable
    _memory(own, memory_id)
    stored_id = own.memory_id(memory_id)
    if change.question is not None or change.answer is not None:
        with errors_in_sequences():
            memory.edit_memory(stored_id, question=change.question, answer=change.answer, user_id=own.user)
    if change.pinned is not None:
        memory.pin_memory(stored_id, change.pinned, own.user)
    return _memory(own, memory_id)


@router.delete("/memory/{memory_id}")
@described("DeletedNumber", 404)
def delete_memory(own: OwnMemory, memory_id: int) -> dict[str, Any]:
    """Delete a memory, which can be restored for a while."""
    if not own.writable.delete_memory(own.memory_id(memory_id), own.user):
        raise missing("memory")
    return {"id": memory_id, "deleted": True}


@router.post("/memory/{memory_id}/restore")
@described("Memory", 404)
def restore_memory(own: OwnMemory, memory_id: int) -> dict[str, Any]:
    """Restore a memory that this server deleted recently, with its id, source, conversation and pin."""
    with errors_in_sequences():
        is_restored = own.writable.restore_forgotten(own.memory_id(memory_id), own.user)
    if not is_restored:
        raise missing("memory that can be restored")
    return _memory(own, memory_id)


# ---- facts


@router.get("/facts")
@described("FactList")
def list_facts(own: OwnMemory, history: bool = False, at: When = None) -> dict[str, Any]:
    """List all facts in the order of their keys, or those that held `at` a date.

    With `history` also every change, and from when until when each value held, of cleared facts too.
    """
    memory = own.memory
    found = memory.get_all_facts(own.user) if at is None else memory.facts_at(_moment(at), user_id=own.user)
    facts: dict[str, Any] = {"data": [asdict(fact) for fact in found]}
    if history:
        facts["history"] = [asdict(change) for change in memory.fact_history(None, own.user)]
        facts["periods"] = [asdict(period) for period in memory.fact_periods(None, own.user, corrected=True)]
    return facts


@router.get("/facts/{key:path}")
@described("FactShown", 404)
def show_fact(own: OwnMemory, key: str) -> dict[str, Any]:
    """Return a fact with all its earlier values, and from when until when each of them held."""
    value = own.memory.get_fact(key, own.user)
    history = own.memory.fact_history(key, own.user)
    if value is None and not history:
        raise missing("fact")
    return {
        "key": key,
        "value": value,
        "history": [asdict(change) for change in history],
        "periods": [asdict(period) for period in own.memory.fact_periods(key, own.user, corrected=True)],
    }


@router.put("/facts/{key:path}")
@described("FactSet")
def set_fact(own: OwnMemory, key: str, new: FactValue) -> dict[str, Any]:
    """Set a fact; its earlier value stays in the history."""
    own.writable.set_fact(key, new.value, own.user)
    return {"key": key, "value": new.value}


@router.delete("/facts/{key:path}")
@described("FactCleared", 404)
def clear_fact(own: OwnMemory, key: str) -> dict[str, Any]:
    """Clear a fact; its history stays."""
    if not own.writable.clear_fact(key, own.user):
        raise missing("fact")
    return {"key": key, "deleted": True}


@router.post("/facts/{key:path}/restore")
@described("FactSet", 404, 409)
def restore_fact(own: OwnMemory, key: str) -> dict[str, Any]:
    """Restore a fact that this server cleared recently, with its source, times and sentence.

    It is refused with 409 if the fact was set again since.
    """
    try:
        fact = own.writable.restore_fact(key, own.user)
    except UsageError as error:
        raise Denied(409, "fact_changed", f"{error} ({error.hint})") from None
    if fact is None:
        raise missing("fact that can be restored")
    return {"key": fact.key, "value": fact.value}


# ---- what was learned


@router.get("/learned")
@described("LearnedList", 404)
def list_learned(
    own: OwnMemory,
    limit: Limit = 50,
    before: Annotated[str | None, Query(max_length=40)] = None,
    waiting: bool = False,
) -> dict[str, Any]:
    """List what was learned from what the user said, the newest first; `waiting`: only open proposals.

    `before` is the id of the last one that the client has.
    """
    memory = own.memory
    last = None if before is None else _learned(own, before).id
    found = memory.learned(limit, last, waiting_only=waiting, user_id=own.user)
    return {"data": public_items(memory, own.user, found)}


@router.post("/learned/{learned_id}/{decision}")
@described("Learned", 404, 409)
def decide_learned(
    own: OwnMemory, learned_id: str, decision: Literal["keep", "undo", "accept", "reject"]
) -> dict[str, Any]:
    """Keep or undo what was learned, accept or reject a proposal; return it with its new state."""
    memory = own.writable
    item = _learned(own, learned_id)
    decided = decide(memory, decision, item.id, own.user)
    if decided is None:
        raise Denied(
            409, "already_decided", f"there is nothing to {decision}: it was decided, or changed since"
        )
    return public_items(memory, own.user, [decided])[0]


def _learned(own: Own, public_id: str) -> LearnedItem:
    item = find_item(own.memory, own.user, public_id)
    if item is None:
        raise missing("learned thing")
    return item


# ---- the extraction queue


@router.get("/extraction/jobs")
@described("JobList")
def list_jobs(own: OwnMemory) -> dict[str, Any]:
    """List the user's unfinished jobs, and their number by state."""
    queue = own.memory.extraction
    jobs = job_ids(own.memory, queue.jobs(own.user))
    data = [_job(public_id, job) for public_id, job in jobs.items()]
    return {"data": data, "stats": asdict(queue.stats(own.user))}


@router.post("/extraction/jobs/{job_id}/retry")
@described("JobRetried", 404)
def retry_job(own: OwnMemory, job_id: str) -> dict[str, Any]:
    """Retry a job that has failed for good."""
    queue = own.writable.extraction
    job = job_ids(own.memory, queue.jobs(own.user)).get(job_id)
    if job is None or not queue.retry(job.id, own.user):
        raise missing("job that was given up")
    return {"id": job_id, "retried": True}


@router.delete("/extraction/jobs/{job_id}")
@described("Deleted", 404)
def drop_job(own: OwnMemory, job_id: str) -> dict[str, Any]:
    """Delete a job; nothing is extracted from its messages."""
    queue = own.writable.extraction
    job = job_ids(own.memory, queue.jobs(own.user)).get(job_id)
    if job is None or not queue.drop(job.id, own.user):
        raise missing("job")
    return {"id": job_id, "deleted": True}


# ---- shared by the routes


def _memory(own: Own, memory_id: int) -> dict[str, Any]:
    record = own.memory.get_memory(own.memory_id(memory_id), own.user)
    if record is None:
        raise missing("memory")
    return _with_recalls(own, [record])[0]


def _with_recalls(own: Own, records: Sequence[MemoryRecord | SearchResult]) -> list[dict[str, Any]]:
    recalls = own.memory.count_recalls([record.id for record in records], own.user)
    return [{**_public(record), "recalls": recalls.get(record.id, 0)} for record in records]


def _second(moment: int | None) -> int | None:
    """Return a time that both databases can compare with."""
    return None if moment is None else min(max(moment, -LARGEST_ID), LARGEST_ID)


def _public(record: MemoryRecord | SearchResult) -> dict[str, Any]:
    return asdict(with_sequence(record))


def checked(number: int) -> int:
    """Return an id of a request; Denied if it is outside the database's integers."""
    if not 0 <= number <= LARGEST_ID:
        raise missing("such thing")
    return number


def _job(public_id: str, job: ExtractionJob) -> dict[str, Any]:
    return {
        "id": public_id,
        "session": job.session_id,
        "state": job.state,
        "messages": len(job.message_ids),
        "attempts": job.attempts,
        "next_try": job.next_try,
        "told_at": job.told_at,
        "error": job.error,
    }


def _moment(text: str) -> float:
    try:
        return moment_of(text, time.time())
    except UsageError as error:
        raise invalid("at", f"{error}: {error.hint}") from None


def _lines(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        public = {"id": sequence_of(entry["id"])} if entry["type"] == "memory" else {}
        yield json.dumps(entry | public, ensure_ascii=False) + "\n"
