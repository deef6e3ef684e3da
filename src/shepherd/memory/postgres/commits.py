"""Commits whose answer was lost: a key tells whether they arrived.

Each transaction that changes something stores a random key in `writes`. If the connection is lost during the
commit, the key is looked up on a new one. The lock that the lost transaction held is taken first, so it is
over by then. The numbers that the server gives to transactions would not do: a standby that takes over
without the last ones gives them again.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from shepherd.memory.postgres.wire import Bound
from shepherd.memory.schema import USER_VERSION

if TYPE_CHECKING:
    from shepherd.memory.postgres.database import Connection

__all__ = ["POSITION", "STATEMENTS", "Cleaning", "Write", "Written", "without_header"]

STATEMENTS = (
    """CREATE TABLE writes(
        key UUID PRIMARY KEY,
        written_at BIGINT NOT NULL DEFAULT extract(epoch FROM now()),
        format BIGINT NOT NULL DEFAULT refuse_older_shepherd())""",
    "CREATE INDEX writes_age ON writes(written_at)",
)
# A transaction that changed nothing has no number, and leaves nothing to look up.
# The format of the tables that this program knows: the server refuses the write if they have a newer one.
_INSERT = (
    f"INSERT INTO writes(key, format) SELECT ?::uuid, {USER_VERSION}"
    " WHERE txid_current_if_assigned() IS NOT NULL"
)
_IS_THERE = "SELECT 1 FROM writes WHERE key = ?::uuid"
# Nobody waits so long for a lost server.
_KEPT_S = 7200
# By the server's clock, as `written_at`. Another process that cleans is not waited for.
_CLEAN = (
    "DELETE FROM writes WHERE key IN (SELECT key FROM writes"
    f" WHERE written_at < extract(epoch FROM now()) - {_KEPT_S} LIMIT 10000 FOR UPDATE SKIP LOCKED)"
)
_CLEANING_S = 600.0
# Of a standby: to where it shows the log of its primary. Their difference is the only form that is a number.
POSITION = (
    "SELECT (CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END"
    " - '0/0'::pg_lsn)::bigint"
)
# The log consists of pages that begin with a header, the first one of a segment with a longer one. Segments
# begin at whole megabytes.
_PAGE_BYTES, _HEADER_BYTES = 8192, 24
_SEGMENT_BYTES, _LONG_HEADER_BYTES = 1 << 20, 40
# Number of writers from which on those of long ago are forgotten.
_MANY_WRITERS = 10_000


class Cleaning:
    """Now and then, a write also deletes old keys. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = time.monotonic() + _CLEANING_S

    def due(self) -> tuple[Bound, ...]:
        """Return the statement that cleans, if it is time to."""
        with self._lock:
            if time.monotonic() < self._next:
                return ()
            self._next = time.monotonic() + _CLEANING_S
        return ((_CLEAN, ()),)


class Write:
    """A write that is tried until its outcome is known; `ending` are its last statements."""

    def __init__(self, cleaning: Cleaning | None) -> None:
        self._key = str(uuid.uuid4())
        self.result: Any = None
        self.is_in_doubt = False
        """The connection was lost during the commit."""
        # Before the tables are made, there is nowhere to store a key.
        self.ending: tuple[Bound, ...] = ()
        if cleaning is not None:
            self.ending = ((_INSERT, (self._key,)), *cleaning.due())

    @property
    def can_be_resolved(self) -> bool:
        """Whether the outcome can be looked up."""
        return bool(self.ending)

    def has_arrived(self, connection: Connection) -> bool:
        """Return whether an earlier try has been committed after all; its lock is held."""
        if not self.is_in_doubt:
            return False
        found = bool(connection.execute(_IS_THERE, (self._key,)))
        # Only now: the connection may be lost during the look-up as well.
        self.is_in_doubt = False
        return found


class Written:
    """Where the last change of each writer ends in the server's log. Thread-safe.

    Nobody reads a state that is older than `kept_s`, so changes of before are in every state.
    """

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._positions: dict[Any, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def note(self, writer: Hashable, position: int) -> None:
        """Note that a change of a writer, named by the beginning of its transactions, ends at a position."""
        now = time.monotonic()
        with self._lock:
            if len(self._positions) >= _MANY_WRITERS:
                since = now - self._kept_s
                kept = {one: place for one, place in self._positions.items() if place[1] >= since}
                self._positions = kept
            self._positions[writer] = (without_header(position), now)

    def share(self, writer: Hashable, other: Hashable) -> None:
        """Note that the last change of a writer is also one of another writer."""
        if position := self.of(writer):
            self.note(other, position)

    def of(self, writer: Hashable) -> int:
        """Return the position from which on a state has all changes of a writer."""
        return self._positions.get(writer, (0, 0.0))[0]


def without_header(place: int) -> int:
    """Return a place in the log as a standby counts it.

    At the end of a page the server that writes has counted the header of the next one, which a standby gets
    with the next record: without writes, it would seem to be behind for ever.
    """
    if place % _SEGMENT_BYTES == _LONG_HEADER_BYTES:
        return place - _LONG_HEADER_BYTES
    return place - _HEADER_BYTES if place % _PAGE_BYTES == _HEADER_BYTES else place
