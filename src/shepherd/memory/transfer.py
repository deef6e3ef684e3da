"""Export and import as JSON lines: one object a line, each with where it came from.

    {"type": "shepherd-export", "version": 1, "user_id": …, "exported_at": …}
    {"type": "fact", "key": …, "value": …, "created_at": …, "updated_at": …}
    {"type": "fact-change", "key": …, "value": … or null, "source": …, "changed_at": …}
    {"type": "memory", "id": …, "question": …, "answer": …, "timestamp": …, "source": …, "session": …,
     "pinned": …, "content_hash": …}

What is exported, imported and exported again is the same but for ids and the first line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shepherd.escaping import storable
from shepherd.memory.memories import content_hash
from shepherd.memory.records import FactChange, ImportCounts, NewMemory
from shepherd.memory.store import MemoryStore
from shepherd.types import Fact

__all__ = ["export", "take_in"]

_FORMAT = "shepherd-export"
_VERSION = 1
# Memories per transaction: 15,000 a second and more, and another writer waits milliseconds.
_BATCH = 500
# New memories from which on an import ends with merging the index; fewer are merged as they come.
_SETTLED_FROM = 1000
_MOST_PROBLEMS = 10
_LARGEST_TIME = 1 << 40


def export(store: MemoryStore, user_id: str, now: int) -> Iterator[dict[str, Any]]:
    """Everything that is kept of a user but conversations; facts first."""
    yield {"type": _FORMAT, "version": _VERSION, "user_id": user_id, "exported_at": now}
    for fact in store.get_all_facts(user_id):
        yield {
            "type": "fact",
            "key": fact.key,
            "value": fact.value,
            "created_at": fact.created_at,
            "updated_at": fact.updated_at,
        }
    for change in store.fact_history(user_id, None):
        yield {
            "type": "fact-change",
            "key": change.key,
            "value": change.value,
            "source": change.source,
            "changed_at": change.changed_at,
        }
    for memory_id, memory in store.iterate_memories(user_id):
        yield {
            "type": "memory",
            "id": memory_id,
            "question": memory.question,
            "answer": memory.answer,
            "timestamp": memory.timestamp,
            "source": memory.source,
            "session": memory.session,
            "pinned": memory.pinned,
            "content_hash": content_hash(memory.question, memory.answer),
        }


def take_in(
    store: MemoryStore, user_id: str, lines: Iterable[str | bytes | Mapping[str, Any]], now: int
) -> ImportCounts:
    """Stores what `lines` hold; identical memories and older facts are left out, bad lines skipped."""
    batch = _Batch(store, user_id, now)
    for number, line in enumerate(lines, start=1):
        if isinstance(line, (str, bytes)) and not line.strip():
            continue
        try:
            batch.add(_parse(line))
        except ValueError as error:
            batch.skip(number, str(error))
        if batch.is_full():
            batch.store_all()
    batch.store_all()
    if batch.n_memories >= _SETTLED_FROM:
        store.settle()
    return batch.counts()


@dataclass
class _Batch:
    store: MemoryStore
    user_id: str
    now: int
    memories: list[NewMemory] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    changes: list[FactChange] = field(default_factory=list)
    n_memories: int = 0
    n_facts: int = 0
    n_duplicates: int = 0
    n_skipped: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Mapping[str, Any]) -> None:
        match entry.get("type", "memory"):
            case "memory":
                self.memories.append(_memory(entry, self.now))
            case "fact":
                self.facts.append(_fact(entry, self.now))
            case "fact-change":
                self.changes.append(_change(entry, self.now))
            case "shepherd-export":
                if entry.get("version") != _VERSION:
                    raise ValueError(f"made by another version of the format than {_VERSION}")
            case _:
                raise ValueError("unknown type")

    def skip(self, number: int, problem: str) -> None:
        self.n_skipped += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"line {number}: {problem}")

    def is_full(self) -> bool:
        return len(self.memories) + len(self.facts) + len(self.changes) >= _BATCH

    def store_all(self) -> None:
        if self.memories:
            added = self.store.add_memories(self.user_id, self.memories)
            n_new = sum(is_new for _, is_new in added)
            self.n_memories += n_new
            self.n_duplicates += len(added) - n_new
        if self.facts or self.changes:
            n_taken = self.store.merge_facts(self.user_id, self.facts, self.changes)
            self.n_facts += n_taken
            self.n_duplicates += len(self.facts) - n_taken
        self.memories, self.facts, self.changes = [], [], []

    def counts(self) -> ImportCounts:
        return ImportCounts(
            self.n_memories, self.n_facts, self.n_duplicates, self.n_skipped, tuple(self.problems)
        )


def _parse(line: str | bytes | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(line, Mapping):
        return line
    try:
        entry = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg}, column {error.colno})") from None
    except (UnicodeDecodeError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(entry, dict):
        raise ValueError("not a JSON object")
    return entry


def _memory(entry: Mapping[str, Any], now: int) -> NewMemory:
    return NewMemory(
        question=_text(entry, "question"),
        answer=_text(entry, "answer"),
        timestamp=_time(entry, "timestamp", now),
        source=_text(entry, "source", "import"),
        session=_text(entry, "session", ""),
        pinned=entry.get("pinned") is True,
    )


def _fact(entry: Mapping[str, Any], now: int) -> Fact:
    key, value = _text(entry, "key"), _text(entry, "value")
    if not key.strip() or not value.strip():
        raise ValueError("a fact without key or value")
    created_at = _time(entry, "created_at", now)
    return Fact(key, value, created_at, _time(entry, "updated_at", created_at))


def _change(entry: Mapping[str, Any], now: int) -> FactChange:
    value = None if entry.get("value", "") is None else _text(entry, "value")
    return FactChange(
        _text(entry, "key"), value, _text(entry, "source", "import"), _time(entry, "changed_at", now)
    )


def _text(entry: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = entry.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name} is missing or not a text")
    return storable(value)


def _time(entry: Mapping[str, Any], name: str, default: int) -> int:
    value = entry.get(name, default)
    # NaN compares with nothing and is refused here too.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _LARGEST_TIME:
        raise ValueError(f"{name} is not a time in unix seconds")
    return int(value)
