"""One's own memory over HTTP: memories, facts, what is still to be learned, and what was injected when.

`?user=` names one of the key owner's users, as `user` in a chat does. What is somebody else's is not found.
Words to search for travel in a body and not in a URL, which ends up in logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from shepherd.memory import ExtractionJob, Memory
from shepherd.server.errors import Denied
from shepherd.server.identity import caller_of
from shepherd.server.state import Gated
from shepherd.trace import ROOT, Traces, encode_segment, turn_path
from shepherd.trace.paths import LAST_TURN
from shepherd.types import Injection, Message

__all__ = ["LONGEST_TEXT", "Body", "Limit", "Offset", "Own", "OwnMemory", "checked", "missing", "router"]

router = APIRouter(prefix="/v1")

_MOST_LISTED = 1000
# An id is the user's number << 40 | sequence.
_LARGEST_ID = (1 << 63) - 1
LONGEST_TEXT = 1 << 20
_LAST_SECOND = 253_402_300_799  # of the year 9999, the last that dates can be written in

TurnNumber = Annotated[int, Path(ge=0, le=LAST_TURN)]
Limit = Annotated[int, Query(ge=1, le=_MOST_LISTED)]
Offset = Annotated[int, Query(ge=0, le=_LARGEST_ID)]


class Body(BaseModel):
    """What a request holds; a field that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid")


class NewMemory(Body):
    """A memory to add."""

    question: str = Field(default="", max_length=LONGEST_TEXT)
    answer: str = Field(default="", max_length=LONGEST_TEXT)
    # When it was said, in unix seconds, for what is older than this request; now.
    timestamp: int | None = Field(default=None, ge=0, le=_LAST_SECOND)


class MemoryChange(Body):
    """What is to be different about a memory."""

    question: str | None = Field(default=None, max_length=LONGEST_TEXT)
    answer: str | None = Field(default=None, max_length=LONGEST_TEXT)
    pinned: bool | None = None


class Search(Body):
    """What to look for."""

    query: str = Field(max_length=LONGEST_TEXT)
    max_results: int = Field(default=10, ge=1, le=100)
    threshold: float = Field(default=0.0, ge=0, le=1)


class FactValue(Body):
    """The value of a fact."""

    value: str = Field(max_length=LONGEST_TEXT)


class Own:
    """The memory of the user that a request is about."""

    def __init__(self, request: Request, user: Annotated[str | None, Query()] = None) -> None:
        state: Gated = request.app.state.shepherd
        self._state, self._memory = state, state.memory
        self.caller = caller_of(request, user)
        self.user = self.caller.user_id

    @property
    def is_writable(self) -> bool:
        """Whether anything would be kept for this caller."""
        return self._memory is not None and self._state.is_writable and not self.caller.is_nobody

    @property
    def memory(self) -> Memory:
        """To read."""
        if self._memory is None:
            raise Denied(503, "no_memory", "this server runs without memory")
        return self._memory

    @property
    def writable(self) -> Memory:
        """To write; refuses where nothing would be kept."""
        memory = self.memory
        if self.caller.is_nobody:
            raise Denied(400, "no_user", "nothing is kept for nobody: say who the user is", param="user")
        if not self._state.is_writable:
            raise Denied(503, "memory_read_only", "this server may only read its memory")
        return memory


OwnMemory = Annotated[Own, Depends()]

# ---- memories


@router.get("/memory")
def list_memories(own: OwnMemory, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Newest first."""
    records = own.memory.list_memories(own.user, limit=limit, offset=offset)
    return {"data": [asdict(record) for record in records], "total": own.memory.count_memories(own.user)}


@router.post("/memory", status_code=201)
def add_memory(own: OwnMemory, new: NewMemory) -> dict[str, Any]:
    """Remembers something; an identical memory is left as it is and comes back."""
    memory = own.writable
    memory_id = memory.store_memory(new.question, new.answer, own.user, timestamp=new.timestamp)
    return _memory(own, memory_id or 0)


@router.post("/memory/search")
def search(own: OwnMemory, wanted: Search) -> dict[str, Any]:
    """The best memories for the words of the query, best first, with their scores."""
    results = own.memory.search(wanted.query, wanted.max_results, own.user, threshold=wanted.threshold)
    return {"data": [asdict(result) for result in results]}


@router.get("/memory/export")
def export(own: OwnMemory) -> StreamingResponse:
    """Everything about the user as JSON lines, which `shepherd memory import` reads."""
    entries = own.memory.export_memories(own.user)
    return StreamingResponse(_lines(entries), media_type="application/jsonl")


@router.get("/memory/{memory_id}")
def show_memory(own: OwnMemory, memory_id: int) -> dict[str, Any]:
    """One memory."""
    return _memory(own, memory_id)


@router.patch("/memory/{memory_id}")
def edit_memory(own: OwnMemory, memory_id: int, change: MemoryChange) -> dict[str, Any]:
    """Changes question, answer, or whether it is pinned."""
    memory = own.writable
    _memory(own, memory_id)
    if change.question is not None or change.answer is not None:
        memory.edit_memory(memory_id, question=change.question, answer=change.answer, user_id=own.user)
    if change.pinned is not None:
        memory.pin_memory(memory_id, change.pinned, own.user)
    return _memory(own, memory_id)


@router.delete("/memory/{memory_id}")
def delete_memory(own: OwnMemory, memory_id: int) -> dict[str, Any]:
    """Forgets one memory."""
    if not own.writable.delete_memory(checked(memory_id), own.user):
        raise missing("memory")
    return {"id": memory_id, "deleted": True}


# ---- facts


@router.get("/facts")
def list_facts(own: OwnMemory, history: bool = False) -> dict[str, Any]:
    """All facts, in the order of their keys; with `history` also every change, of forgotten ones too."""
    facts: dict[str, Any] = {"data": [asdict(fact) for fact in own.memory.get_all_facts(own.user)]}
    if history:
        facts["history"] = [asdict(change) for change in own.memory.fact_history(None, own.user)]
    return facts


@router.get("/facts/{key:path}")
def show_fact(own: OwnMemory, key: str) -> dict[str, Any]:
    """A fact, with every value that it had."""
    value = own.memory.get_fact(key, own.user)
    history = own.memory.fact_history(key, own.user)
    if value is None and not history:
        raise missing("fact")
    return {"key": key, "value": value, "history": [asdict(change) for change in history]}


@router.put("/facts/{key:path}")
def set_fact(own: OwnMemory, key: str, new: FactValue) -> dict[str, Any]:
    """Sets a fact; the value before it stays in the history."""
    own.writable.set_fact(key, new.value, own.user)
    return {"key": key, "value": new.value}


@router.delete("/facts/{key:path}")
def clear_fact(own: OwnMemory, key: str) -> dict[str, Any]:
    """Forgets a fact; its history stays."""
    if not own.writable.clear_fact(key, own.user):
        raise missing("fact")
    return {"key": key, "deleted": True}


# ---- what is still to be learned


@router.get("/extraction/jobs")
def list_jobs(own: OwnMemory) -> dict[str, Any]:
    """The user's jobs that are not done, and how many there are in which state."""
    queue = own.memory.extraction
    return {"data": [_job(job) for job in queue.jobs(own.user)], "stats": asdict(queue.stats(own.user))}


@router.post("/extraction/jobs/{job_id}/retry")
def retry_job(own: OwnMemory, job_id: int) -> dict[str, Any]:
    """Gives a job that was given up another chance."""
    if not own.writable.extraction.retry(checked(job_id), own.user):
        raise missing("job that was given up")
    return {"id": job_id, "retried": True}


@router.delete("/extraction/jobs/{job_id}")
def drop_job(own: OwnMemory, job_id: int) -> dict[str, Any]:
    """Learns nothing from what a job holds."""
    if not own.writable.extraction.drop(checked(job_id), own.user):
        raise missing("job")
    return {"id": job_id, "deleted": True}


# ---- what was injected, and why


@router.get("/trace")
def list_traces(own: OwnMemory, limit: Limit = 50, offset: Offset = 0) -> dict[str, Any]:
    """Stored conversations, the latest first."""
    found = own.memory.list_sessions(own.user, limit=limit, offset=offset)
    return {"data": [asdict(session) for session in found], "total": own.memory.count_sessions(own.user)}


@router.get("/trace/{session_id}")
def show_trace(own: OwnMemory, session_id: str) -> dict[str, Any]:
    """For each message of the user in a conversation: what memory added to it, with sources and scores.

    `turns` are the numbers of those that more is known about.
    """
    messages = own.memory.load_session(session_id, own.user)
    turns = _traces(own).children(f"{ROOT}/{encode_segment(session_id)}")
    if not messages and not turns:
        raise missing("conversation")
    data = [_traced(message) for message in messages if message.role == "user"]
    return {"id": session_id, "data": data, "turns": [int(turn) for turn in turns]}


@router.get("/trace/{session_id}/{turn}")
def show_traced_turn(own: OwnMemory, session_id: str, turn: TurnNumber) -> dict[str, Any]:
    """All that is known about one turn: paths below it, with their values."""
    root = turn_path(session_id, turn)
    entries = _traces(own).turn(session_id, turn)
    if not entries:
        raise missing("turn")
    return {"id": session_id, "turn": turn, "data": {path[len(root) + 1 :]: value for path, value in entries}}


# ---- what they have in common


def _traces(own: Own) -> Traces:
    return Traces(own.memory.transactions, own.user)


def _memory(own: Own, memory_id: int) -> dict[str, Any]:
    record = own.memory.get_memory(checked(memory_id), own.user)
    if record is None:
        raise missing("memory")
    return asdict(record)


def checked(number: int) -> int:
    """An id from outside; Denied for one that nothing can have."""
    # More than the database's integers hold is no memory's id.
    if not 0 <= number <= _LARGEST_ID:
        raise missing("such thing")
    return number


def missing(what: str) -> Denied:
    """The same for what is not there and for what is somebody else's."""
    return Denied(404, "not_found", f"this user has no such {what}")


def _job(job: ExtractionJob) -> dict[str, Any]:
    return {
        "id": job.id,
        "session": job.session_id,
        "state": job.state,
        "messages": len(job.message_ids),
        "attempts": job.attempts,
        "next_try": job.next_try,
        "told_at": job.told_at,
        "error": job.error,
    }


def _traced(message: Message) -> dict[str, Any]:
    injection = message.injected or Injection()
    return {
        "message": message.id,
        "created_at": message.created_at,
        "text": message.raw,
        "tail": injection.tail,
        "facts": [asdict(fact) for fact in injection.facts],
        "memories": [asdict(result) for result in injection.results],
        "keywords": list(injection.keywords),
        "recall_us": injection.recall_us,
    }


def _lines(entries: Iterator[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        yield json.dumps(entry, ensure_ascii=False) + "\n"
