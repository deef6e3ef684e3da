"""Searches of a replica, whose state is at most as old as the address allows (max_staleness).

How old is the state of a replica? Its own clock cannot tell: without writes it receives nothing. So a thread
asks the primary now and then how long its log is. A replica that has come to that place shows everything that
was committed until then, whoever the primary is by now. While there is no primary, the last of these answers
grows old: searches go on until it is too old, and then wait for a primary as without replicas.

A process always sees its own changes. Each of them ends at a place of the log that the replica has to reach.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, NoReturn, TypeVar

from shepherd.errors import ShepherdError, StoreError
from shepherd.memory.postgres import commits
from shepherd.memory.postgres.database import Connection, Database
from shepherd.transactions import Value

__all__ = ["Replica", "State", "TooOldError"]

_log = logging.getLogger(__name__)
_Result = TypeVar("_Result")

_MOST_BETWEEN_S = 2.0
# A replica that is slower than this is not asked for a while; the other server answers.
_ANSWER_S = 2.0
_PLACE_S = 0.5
_REST_S = 1.0


class TooOldError(Exception):
    """The replica's state is older than allowed."""


class Replica:
    """The replicas of a database. Thread-safe; `close` ends the thread that asks the primary."""

    def __init__(self, primary: Database, max_staleness_s: float) -> None:
        self._primary = primary
        self._database = primary.replica(patience_s=_PLACE_S, answer_s=_ANSWER_S)
        self._written = primary.written = commits.Written(max_staleness_s)
        self._max_staleness_s = max_staleness_s
        # When the primary was asked, and how long its log was; the oldest first.
        self._known: deque[tuple[float, int]] = deque()
        self._next_try = 0.0
        self._is_away = False
        self._closing = threading.Event()
        between_s = min(max_staleness_s / 10, _MOST_BETWEEN_S)
        arguments = (weakref.ref(self), self._closing, between_s)
        threading.Thread(target=_ask, args=arguments, name="replicas", daemon=True).start()
        # A memory that is never closed must not keep the thread for ever.
        weakref.finalize(self, self._closing.set).atexit = False

    @classmethod
    def of(cls, primary: Database) -> Replica | None:
        """Return the replicas that the address names."""
        staleness_s = primary.address.max_staleness_s
        return None if staleness_s is None else cls(primary, staleness_s)

    def state(self, writer: Any) -> State | None:
        """Return the state that a writer may read; None while the replicas are of no use."""
        now = monotonic()
        if now < self._next_try or not self._known or self._known[-1][0] < now - self._max_staleness_s:
            return None
        if self._is_away:
            # One thread tries, the others need not wait.
            self._next_try = now + _REST_S
        return State(self, self._database, self._written.of(writer))

    def accept(self, position: int, own: int) -> None:
        """Raise TooOldError unless a state of the log is new enough and has the writer's own changes."""
        if position < own:
            raise TooOldError
        oldest = monotonic() - self._max_staleness_s
        if not any(at >= oldest and place <= position for at, place in list(self._known)):
            self._next_try = monotonic() + _REST_S
            raise TooOldError

    def note_answer(self) -> None:
        """Note that the replica answers."""
        if self._is_away:
            self._is_away, self._next_try = False, 0.0
            _log.info("%s: the replica answers again", self._database.shown)

    def note_failure(self, error: StoreError) -> NoReturn:
        """Note that the replica does not answer, and raise the error."""
        if not self._is_away:
            _log.warning("%s; searches go to the primary server meanwhile", error)
        self._is_away, self._next_try = True, monotonic() + _REST_S
        raise error from None

    def ask_primary(self) -> None:
        """Ask the primary how long its log is; waits for it as for every server that is lost."""
        before = monotonic()
        [(is_standby, place)] = self._primary.look(f"SELECT pg_is_in_recovery(), ({commits.POSITION})", ())
        if is_standby:
            return
        self._known.append((before, commits.without_header(place)))
        while self._known[0][0] < before - self._max_staleness_s:
            self._known.popleft()

    def close(self) -> None:
        """Close the connections."""
        self._closing.set()
        self._database.close()


class State:
    """What a replica shows to one writer, as the part of a Database that searches.

    TooOldError if that is too old.
    """

    def __init__(self, replica: Replica, database: Database, own: int) -> None:
        self._replica, self._database, self._own = replica, database, own

    def look(self, statement: str, parameters: Sequence[Value | Sequence[Value]]) -> list[tuple[Any, ...]]:
        """Do as Database.look."""
        # Each of the two sees its own moment, the first one the earlier.
        both = [(commits.POSITION, ()), (statement, parameters)]
        [[(position,)], rows] = self._try(lambda: self._database.together(both))
        self._replica.accept(position, self._own)
        return rows

    def read(self, work: Callable[[Connection], _Result], user_id: str = "") -> _Result:
        """Do as Database.read."""

        def accepted(connection: Connection) -> _Result:
            [(position,)] = connection.execute(commits.POSITION)
            self._replica.accept(position, self._own)
            return work(connection)

        return self._try(lambda: self._database.read(accepted, user_id))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Do as Database.reading; of any age, since the reader compares versions."""
        with self._database.reading() as connection:
            yield connection

    def _try(self, work: Callable[[], _Result]) -> _Result:
        try:
            result = work()
        except StoreError as error:
            self._replica.note_failure(error)
        self._replica.note_answer()
        return result


def _ask(owner: weakref.ref[Replica], closing: threading.Event, between_s: float) -> None:
    while True:
        replica = owner()
        if replica is None:
            return
        try:
            replica.ask_primary()
        except ShepherdError as error:
            if not closing.is_set():
                _log.info("%s", error)
        del replica
        if closing.wait(between_s):
            return
