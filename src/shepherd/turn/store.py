"""Storage of turns: their messages in a session, with the job for the worker, and memories of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from shepherd.errors import ShepherdError
from shepherd.memory import Memory, Turn
from shepherd.prompt import Exchange, Summary
from shepherd.prompt.archive_policy import is_statement, is_worth_a_memory
from shepherd.prompt.summary import KeptSummaries, Left
from shepherd.types import Message

if TYPE_CHECKING:
    from shepherd.memory import OpenJob

__all__ = ["ConversationStore", "Learner", "append_turn"]

_log = logging.getLogger(__name__)


class Learner(Protocol):
    """Who learns from what is said: shepherd.extraction.ExtractionWorker."""

    @property
    def open_job(self) -> OpenJob:
        """Where the next message goes."""

    def told(self, session_id: str, user_id: str | None = None) -> None:
        """A message was stored with `open_job`."""

    def release(self, session_id: str = "", user_id: str | None = None) -> None:
        """What was collected may be worked off."""


def append_turn(
    memory: Memory,
    session_id: str,
    user_id: str,
    message: Message | None,
    following: Iterable[Message],
    *,
    learner: Learner | None,
) -> None:
    """Store a turn's messages, oldest first, and set their ids; raises StoreError.

    `message` is the user's, stored together with the job for `learner`; None where it is stored already.
    """
    if message is not None:
        job = learner.open_job if learner is not None else None
        message.id = memory.append_message(session_id, message, user_id, job=job)
    for other in following:
        other.id = memory.append_message(session_id, other, user_id)


class ConversationStore:
    """The stored form of one user's conversation; without `writes` nothing is stored.

    `session_id` is None until the first exchange is written.
    """

    def __init__(
        self, memory: Memory | None, user_id: str, *, writes: bool, archives: bool, learner: Learner | None
    ) -> None:
        self.writes = writes and memory is not None
        self.learner = learner if self.writes else None
        self.session_id: str | None = None
        self._memory = memory
        self._user_id = user_id
        self.archives = archives

    def write(self, exchange: Exchange, *, model: str, archive: bool, now: int) -> None:
        """Put an exchange into the session, and what it tells into memory. Raises StoreError."""
        assert self._memory is not None
        if self.session_id is None:
            self.session_id = self._memory.start_session(self._user_id, model)
        append_turn(
            self._memory,
            self.session_id,
            self._user_id,
            exchange.user,
            (*exchange.steps, exchange.answer),
            learner=self.learner,
        )
        exchange.in_session = True
        if self.learner is not None:
            self.learner.told(self.session_id)
        if archive and self.archives and is_statement(exchange.user.raw):
            exchange.memory_id = self._archive(exchange, now)

    def note_left(self, exchanges: Sequence[Exchange], summary: Summary) -> None:
        """These exchanges have left the window, and the summary stands for them. Raises StoreError.

        What of it is private is not written down.
        """
        last_id = max((exchange.answer.id for exchange in exchanges if exchange.in_session), default=0)
        if self._memory is not None and self.session_id and last_id:
            kept = KeptSummaries(self._memory.transactions, self._user_id)
            kept.save(self.session_id, Left(summary.kept, last_id))

    def left(self) -> Left:
        """What of the conversation has left the window. Raises StoreError."""
        if self._memory is None or not self.session_id:
            return Left()
        return KeptSummaries(self._memory.transactions, self._user_id).load(self.session_id)

    def may_archive(self, exchange: Exchange) -> bool:
        """Whether an exchange that leaves the window is remembered; a private one is in no session."""
        return self.writes and exchange.in_session and self.archives

    def archive_all(self, exchanges: Sequence[Exchange], now: int) -> None:
        """Remember exchanges, questions too, unless memory answered them. Raises StoreError."""
        for exchange in exchanges:
            if is_worth_a_memory(exchange.user, exchange.answer.raw):
                self._archive(exchange, exchange.user.created_at or now)

    def take_back(self, exchange: Exchange) -> None:
        """Undo what was written of the last exchange. Raises StoreError."""
        if self._memory is None:
            return
        if exchange.in_session and self.session_id:
            self._memory.delete_last_turn(self.session_id, self._user_id)
        exchange.in_session = False  # should the rest fail, the next try must not take another turn back
        if exchange.memory_id is not None:
            self._memory.delete_memory(exchange.memory_id, self._user_id)
        exchange.memory_id = None

    def release(self) -> None:
        """What was said in a conversation that ends need not wait for its next message."""
        if self.learner is not None and self.session_id:
            try:
                self.learner.release(self.session_id)
            except ShepherdError as error:  # it stays in the database, and is released at the next occasion
                _log.info("extraction: %s", error)

    def _archive(self, exchange: Exchange, told_at: int) -> int | None:
        """Remember the exchange; gives the id if that made a new memory, since undo takes back only those."""
        assert self._memory is not None
        told = Turn(exchange.user.raw, exchange.answer.raw.strip(), told_at, self.session_id or "")
        memory_id = self._memory.archive_turn(told, self._user_id)
        record = None if memory_id is None else self._memory.get_memory(memory_id, self._user_id)
        return memory_id if record is not None and record.timestamp == told_at else None
