"""Export and import as JSON lines: one object a line, each with where it came from.

    {"type": "shepherd-export", "version": 1, "user_id": …, "exported_at": …}
    {"type": "fact", "key": …, "value": …, "created_at": …, "updated_at": …, "valid_from": …}
    {"type": "fact-change", "key": …, "value": … or null, "source": …, "changed_at": …, "valid_from": …,
     "statement": …, "session": …}
    {"type": "memory", "id": …, "question": …, "answer": …, "timestamp": …, "source": …, "session": …,
     "pinned": …, "content_hash": …}

An export that is imported and exported again is the same except for ids and the first line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from shepherd.memory import facts
from shepherd.memory.importers.records import Bad, Entry
from shepherd.memory.importers.shepherd import FORMAT, VERSION
from shepherd.memory.memories import content_hash
from shepherd.memory.records import FactChange, ImportCounts, NewMemory
from shepherd.memory.store import SMALL_ROW_BYTES, UserRows
from shepherd.secret_detection import holds_secret, is_secret
from shepherd.types import Fact

__all__ = ["export", "take_in"]

# Rows per transaction: 15,000 memories a second and more, and another writer waits milliseconds.
_BATCH = 500
# Number of new memories from which on an import ends with merging the index.
_SETTLED_FROM = 1000
_MOST_PROBLEMS = 10


def export(rows: UserRows, user_id: str, now: int) -> Iterator[dict[str, Any]]:
    """Yield all rows of a user except conversations, facts first."""
    yield {"type": FORMAT, "version": VERSION, "user_id": user_id, "exported_at": now}
    for fact in rows.read(user_id, (), facts.of_user):
        yield {
            "type": "fact",
            "key": fact.key,
            "value": fact.value,
            "created_at": fact.created_at,
            "updated_at": fact.updated_at,
            "valid_from": fact.valid_from or fact.updated_at,
        }
    for change in rows.read(user_id, [], facts.history, None):
        yield {
            "type": "fact-change",
            "key": change.key,
            "value": change.value,
            "source": change.source,
            "changed_at": change.changed_at,
            "valid_from": change.valid_from or change.changed_at,
            "statement": change.statement,
            "session": change.session,
        }
    for memory_id, memory in rows.iterate_memories(user_id):
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
    rows: UserRows, user_id: str, entries: Iterable[Entry], stored: Callable[[], object] = lambda: None
) -> ImportCounts:
    """Store entries of an import; identical memories and older facts are skipped, bad entries counted.

    `stored` is called after each transaction.
    """
    batch = _Batch(rows, user_id)
    for entry in entries:
        batch.add(entry)
        if batch.is_full():
            batch.store_all()
            stored()
    batch.store_all()
    stored()
    if batch.n_memories >= _SETTLED_FROM:
        rows.store.settle()
    return batch.counts()


@dataclass
class _Batch:
    rows: UserRows
    user_id: str
    memories: list[NewMemory] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    changes: list[FactChange] = field(default_factory=list)
    n_memories: int = 0
    n_facts: int = 0
    n_duplicates: int = 0
    n_skipped: int = 0
    n_secrets: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        if not self.rows.store.keeps_secrets and _is_secret(entry):
            self.n_secrets += 1
            return
        match entry:
            case NewMemory():
                self.memories.append(entry)
            case Fact():
                self.facts.append(entry)
            case FactChange():
                self.changes.append(entry)
            case Bad():
                self.n_skipped += 1
                if len(self.problems) < _MOST_PROBLEMS:
                    self.problems.append(f"{entry.place}: {entry.problem}")

    def is_full(self) -> bool:
        return len(self.memories) + len(self.facts) + len(self.changes) >= _BATCH

    def store_all(self) -> None:
        if self.memories:
            added = self.rows.store.add_memories(self.user_id, self.memories)
            n_new = sum(is_new for _, is_new in added)
            self.n_memories += n_new
            self.n_duplicates += len(added) - n_new
        if self.facts or self.changes:
            size = (len(self.facts) + len(self.changes)) * SMALL_ROW_BYTES
            n_taken = self.rows.grow(self.user_id, size, 0, facts.merge, self.facts, self.changes)
            self.n_facts += n_taken
            self.n_duplicates += len(self.facts) - n_taken
        self.memories, self.facts, self.changes = [], [], []

    def counts(self) -> ImportCounts:
        return ImportCounts(
            self.n_memories,
            self.n_facts,
            self.n_duplicates,
            self.n_skipped,
            self.n_secrets,
            tuple(self.problems),
        )


def _is_secret(entry: Entry) -> bool:
    match entry:
        case NewMemory():
            return holds_secret(entry.question, entry.answer)
        case Fact() | FactChange():
            return is_secret(entry.key, entry.value or "")
        case _:
            return False
