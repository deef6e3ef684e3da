"""Summary of the turns that left the window, and its storage with a session."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shepherd.errors import UsageError
from shepherd.escaping import escape_lines, escape_text
from shepherd.prompt.exchanges import Exchange
from shepherd.transactions import Connection, Transactions
from shepherd.types import ANONYMOUS_USERS, Message

__all__ = [
    "NO_SUMMARY",
    "QUESTION_MARKS",
    "KeptSummaries",
    "Left",
    "Summary",
    "speech_act",
    "told",
    "told_for_summary",
]


_LABEL = "Conversation summary"
# Of one piece: 1,024 tokens may be asked for. A model may write pages all the same.
_LONGEST_PIECE = 8000
_LONGEST_LINE = 20_000
QUESTION_MARKS = ("?", "\uff1f", "\u061f", "\u037e")  # Latin, full width, Arabic, Greek
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool"}


@dataclass(frozen=True, slots=True)
class Summary:
    """What was said before the history begins, in pieces, oldest first; `n_turns` are summed up in them.

    Of the pieces, `private` are those of turns that nothing may be written down of.
    """

    pieces: tuple[str, ...] = ()
    n_turns: int = 0
    private: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        """As the model sees it, label and all; empty without pieces."""
        return f"[{_LABEL}: {' '.join(self.pieces)}]" if self.pieces else ""

    @property
    def kept(self) -> Summary:
        """As much of it as may be written down."""
        return Summary(tuple(piece for piece in self.pieces if piece not in self.private), self.n_turns)

    def with_pieces(
        self, more: Sequence[str], n_turns: int, *, fits: Callable[[str], bool], is_private: bool = False
    ) -> Summary:
        """The summary with more pieces; the oldest ones go until `fits` says yes to the text."""
        clean = tuple(filter(None, map(_clean, more)))
        pieces = (*self.pieces, *clean)
        while len(pieces) > 1 and not fits(Summary(pieces).text):
            pieces = pieces[1:]
        private = self.private.union(clean) if is_private else self.private
        return Summary(pieces, self.n_turns + n_turns, private.intersection(pieces))


NO_SUMMARY = Summary()


def _clean(piece: str) -> str:
    # A model may repeat the label that it was shown.
    said = " ".join(piece.split()).removeprefix("[").removeprefix(f"{_LABEL}:").strip()
    return escape_text(said, _LONGEST_PIECE)


def told(message: Message, *, times: bool = False, act: str = "") -> str:
    """`Speaker: text`, with `[HH:MM]` before it and the speech act after the speaker, if asked.

    The text is as it was said, but that no line of it can pass for a speaker or for a block.
    """
    clock = ""
    if times and message.created_at:
        clock = f"[{time.strftime('%H:%M', time.localtime(message.created_at))}] "
    speaker = _SPEAKERS.get(message.role, "System")
    return f"{clock}{speaker}{f' ({act})' if act else ''}: {escape_lines(message.raw, _LONGEST_LINE)}"


def speech_act(text: str) -> str:
    """What a message of the user does: `question` or `statement`, as far as its end tells."""
    return "question" if text.rstrip().endswith(QUESTION_MARKS) else "statement"


def told_for_summary(exchanges: Sequence[Exchange]) -> list[str]:
    """Each exchange as the summariser reads it: raw texts, without tails, thoughts and tools."""
    return [
        "\n".join([told(exchange.user, act=speech_act(exchange.user.raw)), told(exchange.answer)])
        for exchange in exchanges
    ]


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
