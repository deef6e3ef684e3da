"""What of a stored conversation the model sees no more, and the summary that stands for it: kept with it.

A conversation that goes on begins where it ended: what left the window has left it, and is not read again.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from shepherd.context.summary import NO_SUMMARY, Summary
from shepherd.errors import UsageError
from shepherd.transactions import Connection, Transactions
from shepherd.types import ANONYMOUS_USERS

__all__ = ["KeptSummaries", "Left"]


class Left(NamedTuple):
    """The summary, and the id of the last message that has left the window; 0 where none has."""

    summary: Summary = NO_SUMMARY
    last_id: int = 0


class KeptSummaries:
    """Keeps one user's. Cheap to make, thread-safe; errors are those of the database."""

    def __init__(self, transactions: Transactions, user_id: str) -> None:
        self._transactions = transactions
        self._user_id = user_id

    def save(self, session_id: str, left: Left) -> None:
        """Keep it, in place of what was kept of that session. UsageError when there is none of this user."""
        if self._user_id in ANONYMOUS_USERS:
            return
        # ASCII: whatever a model has written, lone surrogates included, comes back as it was.
        pieces = json.dumps(left.summary.pieces)

        def write(connection: Connection) -> None:
            if not connection.execute(
                "SELECT 1 FROM sessions WHERE id = ? AND user_id = ?", (session_id, self._user_id)
            ):
                raise UsageError(f"there is no session {session_id!r}", hint="start a new one")
            connection.execute(
                "INSERT INTO session_summaries(session_id, pieces, n_turns, left_id) VALUES(?, ?, ?, ?)"
                " ON CONFLICT(session_id) DO UPDATE SET pieces = excluded.pieces,"
                " n_turns = excluded.n_turns, left_id = excluded.left_id",
                (session_id, pieces, left.summary.n_turns, left.last_id),
            )

        self._transactions.write(self._user_id, write, size=len(pieces))

    def load(self, session_id: str) -> Left:
        """What was kept; of a damaged row only where the window began."""

        def read(connection: Connection) -> list[tuple[str, int, int]]:
            return connection.execute(
                "SELECT k.pieces, k.n_turns, k.left_id FROM session_summaries k"
                " JOIN sessions s ON s.id = k.session_id WHERE k.session_id = ? AND s.user_id = ?",
                (session_id, self._user_id),
            )

        if self._user_id in ANONYMOUS_USERS or not (rows := self._transactions.read(read)):
            return Left()
        pieces, n_turns, last_id = rows[0]
        try:
            said = tuple(map(str, json.loads(pieces)))
        except (ValueError, TypeError):
            said, n_turns = (), 0
        return Left(Summary(said, n_turns), last_id)
