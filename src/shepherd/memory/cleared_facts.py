"""Cleared facts as they were, kept by the process that cleared them, and restored by an undo."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from shepherd.errors import UsageError
from shepherd.lru_cache import FIFODict
from shepherd.memory import facts, memories
from shepherd.memory.facts import Change
from shepherd.memory.memories import Deleted, TermIndex
from shepherd.memory.schema import SEQUENCE_BITS
from shepherd.transactions import Connection
from shepherd.types import MemoryRecord

__all__ = ["ClearedFact", "ClearedFacts"]

# Facts of each user that can be restored, and users.
_MOST_CLEARED, _MOST_USERS = 200, 1024


@dataclass(slots=True)
class ClearedFact:
    """The change by which a fact was cleared, and the memories that lost its sentence: before and after.

    None stands for a memory that was deleted, since it said little else.
    """

    change: Change | None = None
    turns: list[tuple[Deleted, MemoryRecord | None]] = field(default_factory=list)

    def restore(self, connection: Connection, user_id: str, terms: TermIndex) -> bool:
        """Restore the fact, its history and the memories; return False if the fact was changed again.

        A memory that was changed since, or that another one repeats, stays as it is.
        """
        change = self.change
        if change is None or not facts.restore(
            connection, user_id, change.number, change.key, change.before, change.imported
        ):
            return False
        for before, after in reversed(self.turns):
            tenant = before.id >> SEQUENCE_BITS
            if _texts(memories.get(connection, tenant, before.id)) != _texts(after):
                continue
            try:
                if after is None:
                    memories.restore(connection, tenant, before, terms)
                else:
                    memories.edit(connection, tenant, before.id, before.row[1], before.row[2], terms)
            except UsageError:  # another memory says the same now
                continue
        return True


def _texts(memory: MemoryRecord | None) -> tuple[str, str] | None:
    return None if memory is None else (memory.question, memory.answer)


class ClearedFacts:
    """The last cleared facts of each user. In this process alone: what is forgotten must not stay on disk.

    Thread-safe.
    """

    def __init__(self) -> None:
        self._of_user: FIFODict[str, deque[ClearedFact]] = FIFODict(_MOST_USERS)
        self._lock = threading.Lock()

    def add(self, user_id: str, cleared: ClearedFact) -> None:
        """Keep a cleared fact."""
        with self._lock:
            kept = self._of_user.get(user_id)
            if kept is None:
                kept = self._of_user[user_id] = deque(maxlen=_MOST_CLEARED)
            kept.append(cleared)

    def find(self, user_id: str, key: str) -> ClearedFact | None:
        """Return the last cleared fact of that key."""
        with self._lock:
            found = [one for one in self._of_user.get(user_id) or () if _has_key(one, key)]
        return found[-1] if found else None

    def forget(self, user_id: str, key: str | None = None) -> None:
        """Keep nothing of a fact any more, or nothing of the user."""
        with self._lock:
            if key is None:
                self._of_user.pop(user_id, None)
            elif (kept := self._of_user.get(user_id)) is not None:
                left = [one for one in kept if not _has_key(one, key)]
                kept.clear()
                kept.extend(left)


def _has_key(cleared: ClearedFact, key: str) -> bool:
    return cleared.change is not None and facts.is_alike(key, cleared.change.key)
