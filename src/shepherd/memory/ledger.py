"""Notes about messages of stateless clients: small texts under hashes, per user, the least recently used go.

What the notes say is prompt/ledger.py's business. Losing them costs time, never data. Inside the caller's
transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from shepherd.memory.connection import Connection

if TYPE_CHECKING:
    from shepherd.memory.store import MemoryStore

__all__ = ["LedgerNotes", "clear", "find", "put"]

# Per user: a year of 10 messages a day, about 3 MB.
MOST_NOTES = 4096
# A note that was used counts as used for so long: reading does not write each time.
_TOUCHED_EVERY_MS = 6 * 3600 * 1000
# Of hashes in one statement; lists are filled up to one of these lengths, so that few are to be prepared. A
# conversation's first request asks for one hash: with 60 places that took 45 us, not 15.
_AT_ONCE = (1, 8, 60)  # a statement has 64 parameters at most
_IN = {n: "(" + ", ".join("?" * n) + ")" for n in _AT_ONCE}


class LedgerNotes:
    """The notes of a Memory's users; nobody in particular has none. Times are unix seconds."""

    def __init__(
        self, store: MemoryStore, user: Callable[[str | None], str | None], clock: Callable[[], float]
    ) -> None:
        self._store, self._user, self._clock = store, user, clock

    def find(self, hashes: Sequence[str], user_id: str | None = None) -> dict[str, str]:
        """The notes under those of the hashes that have one."""
        user = self._user(user_id)
        return {} if user is None or not hashes else self._store.find_notes(user, hashes)

    def put(
        self,
        notes: Mapping[str, str],
        user_id: str | None = None,
        *,
        removed: Iterable[str] = (),
        used: Iterable[str] = (),
    ) -> None:
        """Writes notes over what was there, removes others, and says which were of use."""
        user = self._user(user_id)
        if user is not None:
            now_ms = int(self._clock() * 1000)
            self._store.put_notes(user, notes, list(removed), list(used), now_ms)


def find(connection: Connection, user_id: str, hashes: Sequence[str]) -> dict[str, str]:
    """The notes of this user under these hashes."""
    found: dict[str, str] = {}
    for some in _chunks(hashes):
        found.update(
            connection.execute(
                f"SELECT hash, note FROM ledger WHERE user_id = ? AND hash IN {_IN[len(some)]}",
                (user_id, *some),
            )
        )
    return found


def put(
    connection: Connection,
    user_id: str,
    notes: Mapping[str, str],
    removed: Sequence[str],
    used: Sequence[str],
    *,
    now_ms: int,
    most: int = MOST_NOTES,
) -> None:
    """Writes, removes and touches; then the least recently used beyond `most` go."""
    for some in _chunks(removed):
        connection.execute(
            f"DELETE FROM ledger WHERE user_id = ? AND hash IN {_IN[len(some)]}", (user_id, *some)
        )
    for some in _chunks(used):
        connection.execute(
            f"UPDATE ledger SET used_at = ? WHERE user_id = ? AND used_at < ? AND hash IN {_IN[len(some)]}",
            (now_ms, user_id, now_ms - _TOUCHED_EVERY_MS, *some),
        )
    for key, note in notes.items():
        connection.execute(
            "INSERT INTO ledger(user_id, hash, note, used_at) VALUES(?, ?, ?, ?)"
            " ON CONFLICT(user_id, hash) DO UPDATE SET note = excluded.note, used_at = excluded.used_at",
            (user_id, key, note, now_ms),
        )
    connection.execute(
        "DELETE FROM ledger WHERE user_id = ?1 AND hash IN"
        " (SELECT hash FROM ledger WHERE user_id = ?1 ORDER BY used_at DESC, hash LIMIT ?2 OFFSET ?3)",
        (user_id, 1 << 30, most),
    )


def clear(connection: Connection, user_id: str) -> int:
    """Removes all notes of a user; how many that were."""
    return len(connection.execute("DELETE FROM ledger WHERE user_id = ? RETURNING hash", (user_id,)))


def _chunks(hashes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    most = _AT_ONCE[-1]
    for start in range(0, len(hashes), most):
        some = tuple(hashes[start : start + most])
        places = next(n for n in _AT_ONCE if n >= len(some))
        yield some + some[-1:] * (places - len(some))
