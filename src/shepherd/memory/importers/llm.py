"""Reader of logs.db of simonw/llm, for both generations of its tables.

Up to 0.31 a row of `responses` is a turn. From 0.32 a row of `turns` names the last message that was sent and
the last that came back; each row of `messages` names the message before it, and its text is in `parts`.
Fragments (files given beside the prompt) are documents and are not imported. A turn that is in both tables
has the same text in both, and is stored once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from shepherd._native.store import SQLiteError
from shepherd.errors import ForeignDatabaseError, ShepherdError, StoreCorruptError, UsageError
from shepherd.memory import failures
from shepherd.memory.importers.records import Bad, Entry, moment, text
from shepherd.memory.records import NewMemory
from shepherd.sqlite_reader import SQLiteReader

__all__ = ["Logs"]

SOURCE = "llm"
# A longer chain of messages is a cycle.
_LONGEST_TURN = 10_000


class Logs(SQLiteReader):
    """An open logs.db; UsageError for another database."""

    def check(self) -> None:
        """Find the generations of tables that are there; UsageError for another program's."""
        self._has_responses = {"id", "prompt", "response"} <= self.columns("responses")
        self._has_turns = {"tip_message_hash", "parent_message_hash"} <= self.columns("turns")
        if self._has_responses or self._has_turns:
            return
        if self.columns("context") or self.columns("conversations") >= {"user_message"}:
            raise UsageError(
                f"{self.path}: this is a memory of Shepherd's own",
                hint="shepherd memory export --memory-db FILE writes what import reads",
            )
        raise UsageError(
            f"{self.path}: this database is not a logs.db of llm", hint="llm logs path says where that is"
        )

    def failure(self, error: SQLiteError) -> ShepherdError:
        """Return the error for an unreadable file; damage to it is no damage to the user's memory."""
        failure = failures.from_sqlite_error(self.path, error)
        if isinstance(failure, (StoreCorruptError, ForeignDatabaseError)):
            return UsageError(
                f"{self.path}: this is not a readable logs.db of llm", hint="llm logs path says where that is"
            )
        return failure

    def n_turns(self) -> int:
        """Return how many turns there are at most."""
        tables = (("responses", self._has_responses), ("turns", self._has_turns))
        return sum(self.count(name) for name, has in tables if has)

    def entries(self, now: int) -> Iterator[Entry]:
        """Yield the turns, older generation first, each in the order they were logged."""
        if self._has_responses:
            names = ("prompt", "response", "datetime_utc", "conversation_id")
            for number, prompt, response, when, session in self.rows("responses", names):
                yield _turn(f"response {number}", text(prompt), text(response), moment(when, now), session)
        if self._has_turns:
            names = ("parent_message_hash", "tip_message_hash", "datetime_utc", "thread_id")
            for number, sent, tip, when, session in self.rows("turns", names):
                asked = self._said(sent, "user", {"user", "tool"}, None)
                answered = self._said(tip, "assistant", None, sent)
                yield _turn(f"turn {number}", asked, answered, moment(when, now), session)

    def _said(self, last: str | None, role: str, while_roles: set[str] | None, stop: str | None) -> str:
        """Return the texts of one role, from `last` back to `stop` or a role outside `while_roles`."""
        said: list[str] = []
        message = last
        for _ in range(_LONGEST_TURN):
            if message is None or message == stop:
                break
            found = self.connection.execute(
                "SELECT role, parent_hash FROM messages WHERE hash = ?", (message,)
            )
            if not found or (while_roles is not None and found[0][0] not in while_roles):
                break
            if found[0][0] == role:
                said.append(self._text(message))
            message = found[0][1]
        return "\n\n".join(filter(None, reversed(said)))

    def _text(self, message: str) -> str:
        parts = self.connection.execute(
            "SELECT text, payload FROM parts WHERE message_hash = ? AND type = 'text' ORDER BY position",
            (message,),
        )
        return text("".join(_literal(*part) for part in parts))


def _turn(place: str, asked: str, answered: str, timestamp: int, session: object) -> Entry:
    if not asked and not answered:
        return Bad(place, "neither prompt nor response")
    return NewMemory(asked, answered, timestamp, SOURCE, f"llm:{session}" if session else "")


def _literal(written: object, payload: Any) -> str:
    """Return the typed words of a part: its text, or the pieces between its fragments."""
    if written is not None or payload is None:
        return written if isinstance(written, str) else ""
    try:
        pieces = json.loads(payload).get("text_ref") or []
        return "".join(piece.get("literal", "") for piece in pieces)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return ""
