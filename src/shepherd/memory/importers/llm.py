"""simonw/llm's logs.db, both generations of its tables, read with our own SQLite.

Up to 0.31 a row of `responses` is a turn. From 0.32 a row of `turns` names the last message that was sent and
the last that came back; each message of `messages` names the one before it, its text is in `parts`. Fragments
(files given beside the prompt) stay out: they are documents, not what was said. A turn in both comes once:
its text is the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import TracebackType

from shepherd._native.store import Connection, SQLiteError
from shepherd.errors import ForeignDatabaseError, ShepherdError, StoreCorruptError, UsageError
from shepherd.memory import failures
from shepherd.memory.importers.records import Bad, Entry, moment, text
from shepherd.memory.records import NewMemory

__all__ = ["Logs"]

SOURCE = "llm"
_PAGE = 200
# A chain of messages that is longer than this goes in a circle.
_LONGEST_TURN = 10_000


class Logs:
    """An open logs.db; UsageError when it is another database."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._connection = Connection(path, read_only=True, create=False)
        except SQLiteError as error:
            raise _failure(path, error) from error
        try:
            self._has_responses = {"id", "prompt", "response"} <= self._columns("responses")
            self._has_turns = {"tip_message_hash", "parent_message_hash"} <= self._columns("turns")
            if not (self._has_responses or self._has_turns):
                raise self._refusal()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, SQLiteError):
                raise _failure(path, error) from error
            raise

    def __enter__(self) -> Logs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        if isinstance(error, SQLiteError):
            raise _failure(self._path, error) from error

    def count(self) -> int:
        """How many turns there are at most."""
        tables = [
            name for name, has in (("responses", self._has_responses), ("turns", self._has_turns)) if has
        ]
        return sum(self._connection.execute(f"SELECT count(*) FROM {name}")[0][0] for name in tables)

    def entries(self, now: int) -> Iterator[Entry]:
        """The turns, older generation first, each in the order they were logged."""
        if self._has_responses:
            yield from self._responses(now)
        if self._has_turns:
            yield from self._turns(now)

    def _responses(self, now: int) -> Iterator[Entry]:
        columns = self._columns("responses")
        conversation = "conversation_id" if "conversation_id" in columns else "NULL"
        logged_at = "datetime_utc" if "datetime_utc" in columns else "NULL"
        after = 0
        while rows := self._connection.execute(
            f"SELECT rowid, prompt, response, {logged_at}, {conversation} FROM responses"
            f" WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}",
            (after,),
        ):
            for after, prompt, response, when, session in rows:
                yield _turn(f"response {after}", text(prompt), text(response), moment(when, now), session)

    def _turns(self, now: int) -> Iterator[Entry]:
        after = 0
        while rows := self._connection.execute(
            "SELECT rowid, parent_message_hash, tip_message_hash, datetime_utc, thread_id FROM turns"
            f" WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}",
            (after,),
        ):
            for after, sent, tip, when, session in rows:
                asked = self._said(sent, "user", {"user", "tool"}, None)
                answered = self._said(tip, "assistant", None, sent)
                yield _turn(f"turn {after}", asked, answered, moment(when, now), session)

    def _said(self, last: str | None, role: str, while_roles: set[str] | None, stop: str | None) -> str:
        """The texts of one role, from `last` back to `stop` or to a role that is not one of `while_roles`."""
        said: list[str] = []
        message = last
        for _ in range(_LONGEST_TURN):
            if message is None or message == stop:
                break
            found = self._connection.execute(
                "SELECT role, parent_hash FROM messages WHERE hash = ?", (message,)
            )
            if not found or (while_roles is not None and found[0][0] not in while_roles):
                break
            if found[0][0] == role:
                said.append(self._text(message))
            message = found[0][1]
        return "\n\n".join(filter(None, reversed(said)))

    def _text(self, message: str) -> str:
        parts = self._connection.execute(
            "SELECT text, payload FROM parts WHERE message_hash = ? AND type = 'text' ORDER BY position",
            (message,),
        )
        return text("".join(_literal(*part) for part in parts))

    def _columns(self, table: str) -> set[str]:
        rows = self._connection.execute("SELECT name FROM pragma_table_info(?)", (table,))
        return {name for (name,) in rows}

    def _refusal(self) -> UsageError:
        if self._columns("context") or self._columns("conversations") >= {"user_message"}:
            return UsageError(
                f"{self._path}: this is a memory of Shepherd's own",
                hint="shepherd memory export --memory-db FILE writes what import reads",
            )
        return UsageError(
            f"{self._path}: this database is not a logs.db of llm", hint="llm logs path says where that is"
        )


def _turn(place: str, asked: str, answered: str, timestamp: int, session: object) -> Entry:
    if not asked and not answered:
        return Bad(place, "neither prompt nor response")
    return NewMemory(asked, answered, timestamp, SOURCE, f"llm:{session}" if session else "")


def _literal(written: str | None, payload: str | None) -> str:
    """What was typed of a part: its text, or the pieces between its fragments."""
    if written is not None or payload is None:
        return written or ""
    try:
        pieces = json.loads(payload).get("text_ref") or []
        return "".join(piece.get("literal", "") for piece in pieces)
    except (ValueError, AttributeError, TypeError):
        return ""


def _failure(path: str, error: SQLiteError) -> ShepherdError:
    """Return the error for an unreadable file; damage to it is no damage to the user's memory."""
    failure = failures.from_sqlite_error(path, error)
    if isinstance(failure, (StoreCorruptError, ForeignDatabaseError)):
        return UsageError(
            f"{path}: this is no readable logs.db of llm", hint="llm logs path says where that is"
        )
    return failure
