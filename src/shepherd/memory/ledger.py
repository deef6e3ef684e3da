"""The ledger: short notes about messages of stateless clients, under hashes, limited per user.

prompt/ledger.py writes and reads the notes. Losing them costs time, never data.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from shepherd.memory.store import UserRows
from shepherd.transactions import Connection, is_blind

__all__ = ["LedgerNotes", "clear", "find", "forget_session", "put"]

# Limit per user: a year of 10 messages a day, about 3 MB.
MOST_NOTES = 4096
# A note is not marked as used again within this time, so that not every read writes.
_TOUCHED_EVERY_MS = 6 * 3600 * 1000
# Numbers of hashes in one statement; lists are filled up to one of them, so that few statements are prepared.
# The first request of a conversation has one hash: with 60 places that took 45 us instead of 15.
_AT_ONCE = (1, 8, 60)  # a statement has 64 parameters at most
_IN = {n: "(" + ", ".join("?" * n) + ")" for n in _AT_ONCE}


class LedgerNotes:
    """The notes of a Memory's users; anonymous users have none."""

    def __init__(self, rows: UserRows) -> None:
        self._rows = rows

    def find(self, hashes: Sequence[str], user_id: str | None = None) -> dict[str, str]:
        """Return the notes by hash, of those hashes that have one."""
        user = self._rows.user(user_id)
        if user is None or not hashes:
            return {}
        return self._rows.store.look(lambda connection: find(connection, user, hashes))

    def put(
        self,
        notes: Mapping[str, str],
        user_id: str | None = None,
        *,
        removed: Iterable[str] = (),
        used: Iterable[str] = (),
    ) -> None:
        """Write notes, remove others, and mark others as used."""
        now_ms = int(self._rows.clock() * 1000)
        self._rows.write(user_id, None, put, notes, list(removed), list(used), now_ms=now_ms)


# ---- inside the caller's transaction


def find(connection: Connection, user_id: str, hashes: Sequence[str]) -> dict[str, str]:
    """Return the notes of this user by hash."""
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
    """Write, remove and mark notes; then delete the least recently used ones beyond `most`."""
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


def forget_session(
    connection: Connection, user_id: str, session_id: str, texts: Collection[str] | None = None
) -> None:
    """Delete the notes about a conversation; of `texts`, only those that contain one of these messages.

    Notes say where their conversation is with `"in":"ID"`, and are ASCII JSON without spaces.
    """
    place = json.dumps({"in": session_id}, separators=(",", ":"))[1:-1]
    if is_blind(connection):
        every = connection.execute("SELECT hash, note FROM ledger WHERE user_id = ?", (user_id,))
        rows = [row for row in every if place in row[1]]
    else:
        rows = connection.execute(
            "SELECT hash, note FROM ledger WHERE user_id = ? AND note LIKE ?", (user_id, f"%{place}%")
        )
    if texts is not None:
        wanted = [[json.dumps(line)[1:-1] for line in text.split("\n") if line] for text in texts]
        rows = [
            row for row in rows if any(lines and all(line in row[1] for line in lines) for lines in wanted)
        ]
    for some in _chunks([key for key, _ in rows]):
        connection.execute(
            f"DELETE FROM ledger WHERE user_id = ? AND hash IN {_IN[len(some)]}", (user_id, *some)
        )


def clear(connection: Connection, user_id: str) -> int:
    """Delete all notes of a user; return how many."""
    return len(connection.execute("DELETE FROM ledger WHERE user_id = ? RETURNING hash", (user_id,)))


def _chunks(hashes: Sequence[str]) -> Iterator[tuple[str, ...]]:
    most = _AT_ONCE[-1]
    for start in range(0, len(hashes), most):
        some = tuple(hashes[start : start + most])
        places = next(n for n in _AT_ONCE if n >= len(some))
        yield some + some[-1:] * (places - len(some))
