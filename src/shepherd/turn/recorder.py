"""Record of turns: exchanges in a session, memories, entities, traces; and undoing all of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from shepherd.claims.material import own_words
from shepherd.errors import ConflictError, ShepherdError, StoreError
from shepherd.escaping import ATTACHED
from shepherd.memory import Memory, SessionMark, Turn
from shepherd.pictures import MARK
from shepherd.prompt import Draft, Exchange, Summary
from shepherd.prompt.archive_policy import archived_answer, is_statement, is_worth_a_memory
from shepherd.prompt.exchanges import paired
from shepherd.prompt.summary import StoredSummary, SummaryStore
from shepherd.prompt.window_budget import TokenCounts
from shepherd.trace import trace_of
from shepherd.turn.quotation import attached_to
from shepherd.turn.small_model import is_small_model
from shepherd.types import Message, TurnStats
from shepherd.wording import counted

if TYPE_CHECKING:
    from shepherd.memory import OpenJob
    from shepherd.turn.components import TurnComponents

__all__ = ["ConversationStore", "Learner", "Recorder", "append_turn"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class Learner(Protocol):
    """Interface of shepherd.extraction.ExtractionWorker, which learns from messages."""

    @property
    def open_job(self) -> OpenJob:
        """Job to which the next message is added."""

    def told(self, session_id: str, user_id: str | None = None) -> None:
        """Take note that a message was stored with `open_job`."""

    def release(self, session_id: str = "", user_id: str | None = None) -> None:
        """Let the collected messages be processed."""


def append_turn(
    memory: Memory,
    session_id: str,
    user_id: str,
    message: Message | None,
    following: Iterable[Message],
    *,
    learner: Learner | None,
    mark: SessionMark,
) -> None:
    """Store a turn's messages, oldest first, and set their ids; raises StoreError.

    `message` is the user's, stored together with the job for `learner`; None where it is stored already.
    Raises ConflictError if the conversation was deleted since the `mark`, which was made when the turn began.
    """
    if message is not None:
        job = learner.open_job if learner is not None else None
        message.id = memory.append_message(session_id, message, user_id, job=job, mark=mark)
        mark = replace(mark, last_message=message.id)
    for other in following:
        other.id = memory.append_message(session_id, other, user_id, mark=mark)
        mark = replace(mark, last_message=other.id)


def _is_own(message: Message) -> bool:
    """Return whether a message is the user's own words, with documents or without.

    A template may make material of it: "Translate this: My name is Peter" says nothing about the user.
    """
    # Pictures around it change nothing about that.
    composed = message.composed.replace(MARK, "").strip() if message.pictures else message.composed
    more = composed.removeprefix(message.raw).lstrip()
    if not more or (composed.startswith(message.raw) and more.startswith(ATTACHED)):
        return True
    return message.raw.strip() in own_words(composed)


class ConversationStore:
    """Stored form of one user's conversation; without `writes` nothing is stored.

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
        self._mark = SessionMark()

    def begin_turn(self) -> None:
        """Note what is stored: if it is deleted before the turn ends, the turn isn't stored."""
        self._mark = SessionMark()
        if self.writes and self._memory is not None:
            try:
                self._mark = self._memory.mark_session(self.session_id or "", self._user_id)
            except ShepherdError as error:  # storing the turn will fail too, and say so
                _log.info("what is stored of the conversation: %s", error)

    def start_session(self, model: str, *, is_one_off: bool = False) -> None:
        """Begin the session, unless it has begun. Raises StoreError."""
        if self._memory is not None and self.session_id is None:
            self.session_id = self._memory.start_session(
                self._user_id, model, is_one_off=is_one_off, mark=self._mark
            )

    def write(self, exchange: Exchange, *, model: str, archive: bool, now: int) -> None:
        """Append an exchange to the session; with `archive`, store a statement as a memory.

        Raises StoreError.
        """
        assert self._memory is not None
        self.start_session(model)
        assert self.session_id is not None
        append_turn(
            self._memory,
            self.session_id,
            self._user_id,
            exchange.user,
            (*exchange.steps, exchange.answer),
            learner=self.learner if _is_own(exchange.user) else None,
            mark=self._mark,
        )
        exchange.in_session = True
        if self.learner is not None:
            self.learner.told(self.session_id)
        if archive and self.archives and _is_own(exchange.user) and is_statement(exchange.user.raw):
            exchange.memory_id = self._archive(exchange, now)

    def withholds(self, exchange: Exchange) -> bool:
        """Return whether a statement has a value that is left out of memory, since it may be a code."""
        if self._memory is None or self._memory.keeps_secrets or not (self.archives or self.learner):
            return False
        text = exchange.user.raw
        if not (_is_own(exchange.user) and is_statement(text)):
            return False
        # Not at the top: few messages are statements, and it takes a while to load.
        from shepherd.secret_detection import find_secrets
        from shepherd.secret_detection.unexplained import find_unexplained

        return bool(find_secrets(text) or find_unexplained(text))

    def write_summary(self, exchanges: Sequence[Exchange], summary: Summary) -> None:
        """Store the summary that replaces these evicted exchanges, without its private pieces.

        Raises StoreError.
        """
        last_id = max((exchange.answer.id for exchange in exchanges if exchange.in_session), default=0)
        if self._memory is not None and self.session_id and last_id:
            summaries = SummaryStore(self._memory.transactions, self._user_id)
            summaries.save(self.session_id, StoredSummary(summary.public, last_id))

    def read_summary(self, session_id: str) -> StoredSummary:
        """Return the summary of the evicted exchanges of a conversation. Raises StoreError."""
        if self._memory is None or not session_id:
            return StoredSummary()
        return SummaryStore(self._memory.transactions, self._user_id).load(session_id)

    def can_archive(self, exchange: Exchange) -> bool:
        """Return whether an evicted exchange may become a memory; a private one is in no session."""
        return self.writes and exchange.in_session and self.archives

    def archive_all(self, exchanges: Sequence[Exchange], before: Sequence[Exchange], now: int) -> int:
        """Store exchanges as memories, questions too, unless memory answered them; return how many.

        `before` are those that the model had. Raises StoreError.
        """
        told = [exchange.user for exchange in before if _is_own(exchange.user)]
        for exchange in exchanges:
            if _is_own(exchange.user) and is_worth_a_memory(exchange.user, exchange.answer.raw, told):
                self._archive(exchange, exchange.user.created_at or now)
        return len(exchanges)

    def turns(self) -> list[tuple[str, str]]:
        """Return the stored messages of the user with their answers, oldest first. Raises StoreError."""
        if self._memory is None or not self.session_id:
            return []
        stored = paired(self._memory.load_session(self.session_id, self._user_id))
        return [(exchange.user.raw, exchange.answer.raw) for exchange in stored]

    def is_whole(self, exchanges: Sequence[Exchange]) -> bool:
        """Return whether the conversation begins with these exchanges: none left it. Raises StoreError."""
        if self._memory is None or not self.session_id:
            return True
        stored = self._memory.load_session(self.session_id, self._user_id)
        kept = next((one.user for one in exchanges if one.in_session), None)
        return not stored or kept is None or stored[0].id == kept.id

    def undo(self, exchange: Exchange) -> None:
        """Delete what was written of the last exchange. Raises StoreError."""
        if self._memory is None:
            return
        if exchange.in_session and self.session_id:
            self._memory.delete_last_turn(self.session_id, self._user_id)
        exchange.in_session = False  # if the rest fails, the next try must not delete another turn
        if exchange.memory_id is not None:
            self._memory.delete_memory(exchange.memory_id, self._user_id)
        exchange.memory_id = None

    def clean_up(self) -> None:
        """Overwrite what the last deletions have left. Raises StoreError."""
        if self._memory is not None:
            self._memory.clean_up(self._user_id)

    def release(self) -> None:
        """Let the learner process the messages of a conversation that ends."""
        if self.learner is not None and self.session_id:
            try:
                self.learner.release(self.session_id)
            except ShepherdError as error:  # the job stays in the database and is released later
                _log.info("extraction: %s", error)

    def _archive(self, exchange: Exchange, said_at: int) -> int | None:
        """Store the exchange as a memory; returns its id if it is new, since undo deletes only new ones."""
        assert self._memory is not None
        turn = Turn(exchange.user.raw, archived_answer(exchange.answer.raw), said_at, self.session_id or "")
        memory_id = self._memory.archive_turn(turn, self._user_id)
        record = None if memory_id is None else self._memory.get_memory(memory_id, self._user_id)
        return memory_id if record is not None and record.timestamp == said_at else None


_WITHHELD = (
    "a value in this message may be a password or code: it stays in this conversation and isn't remembered",
    "",
)


class Recorder:
    """Records the turns of one conversation, under the rules of memory that hold for its model."""

    def __init__(self, parts: TurnComponents) -> None:
        self._store, self._dialogue, self._traces = parts.store, parts.dialogue, parts.traces
        self._model, self._count = parts.access.model.info.name, TokenCounts(parts.access.model.count_tokens)
        self._has_told_of_leaving = False
        self._tells_withheld = not is_small_model(parts.access.model)  # that one says it in its answer

    def begin(self) -> None:
        """Begin with another conversation."""
        self._has_told_of_leaving = False

    def register_answer(self, draft: Draft, exchange: Exchange) -> None:
        """Add the answer to the dialogue, which ends its turn."""
        exchange.is_registered, draft.is_registered = draft.is_registered, False
        if exchange.is_registered and self._dialogue is not None:
            self._dialogue.end_turn(exchange.answer.raw)

    def store(
        self,
        draft: Draft,
        exchange: Exchange,
        before: Sequence[Exchange],
        *,
        archive: bool,
        now: int,
        with_prompt: bool,
        stats: TurnStats | None = None,
    ) -> None:
        """Store the exchange. The first failure ends it, so that a locked database is waited for once.

        `before` are the exchanges that the model had before it. `with_prompt` traces the whole prompt.
        `stats` are what the turn cost.
        """
        if draft.private or not self._store.writes:
            return

        def write() -> None:
            try:
                self._store.write(exchange, model=self._model, archive=archive, now=now)
            except ConflictError:
                for earlier in before:  # they were deleted, and are not to become memories when they leave
                    earlier.in_session = False
                self._store.session_id = None  # the next turn begins another one
                raise
            if leaving := draft.evicted(before):
                self._store.write_summary(leaving, draft.snapshot.summary)
            session = self._store.session_id or ""
            if self._dialogue is not None and exchange.is_registered:
                self._dialogue.save(session)
            if self._traces is not None:
                summary = draft.snapshot.summary.public.text
                record = trace_of(
                    draft,
                    model=self._model,
                    summary=summary,
                    summary_tokens=self._count(summary),
                    prompt=draft.public_prompt(before),
                    with_prompt=with_prompt,
                    stats=stats,
                )
                self._traces.write(session, record)

        _attempt(draft, "keeping this turn", write)
        if self._tells_withheld and self._store.withholds(exchange):
            draft.notes.append(_WITHHELD)

    def archive_evicted(self, draft: Draft, before: Sequence[Exchange], now: int) -> None:
        """Store evicted turns as memories, so that they can be recalled; `before` as in `store`."""
        leaving = draft.evicted(before)
        if not leaving:
            return
        self._tell_of_documents(draft, leaving)
        archived = [exchange for exchange in leaving if self._store.can_archive(exchange)]
        keep = partial(self._store.archive_all, archived, before, now)
        is_kept = _attempt(draft, "keeping what left the window", keep) is not None
        # With a small window, turns leave all the time; where nothing is lost, once is enough.
        is_told, self._has_told_of_leaving = self._has_told_of_leaving, True
        if len(archived) == len(leaving) and (is_told or not self._begins_with(before)):
            return
        n = len(leaving)
        what = f"the {'oldest exchange' if n == 1 else counted(n, 'oldest exchange')}"
        it, is_ = ("it", "is") if n == 1 else ("they", "are")
        sees = "sees only a summary of" if draft.is_summarized else "no longer sees"
        if n_lost := n - len(archived):
            lost = f", which {is_} not kept in memory"
            if n_lost < n:
                lost = f"; {n_lost} of them {'is' if n_lost == 1 else 'are'} not kept in memory"
            draft.notes.append((f"the window is full: the model {sees} {what}{lost}", ""))
        elif is_kept:
            draft.remarks.append(
                f"to make room, the model {sees} {what}; {it} {is_} in memory, and {is_} recalled when you"
                f" ask about {'it' if n == 1 else 'them'}"
            )

    def _tell_of_documents(self, draft: Draft, leaving: Sequence[Exchange]) -> None:
        """Say which attached documents the model has before it no longer: they are in no memory."""
        kept = {name for message in (*draft.history, draft.message) for name in attached_to(message)}
        gone = [name for exchange in leaving for name in attached_to(exchange.user)]
        names = [name for name in dict.fromkeys(gone) if name not in kept]
        if not names:
            return
        listed = f'"{names[0]}"' if len(names) == 1 else counted(len(names), "attached document")
        it = "it" if len(names) == 1 else "them"
        draft.notes.append(
            (
                f"the window is full: the model no longer sees {listed}",
                f"attach {it} again with your next question, or run shepherd knowledge import FILE to have"
                f" {it} recalled in every conversation",
            )
        )

    def _begins_with(self, before: Sequence[Exchange]) -> bool:
        try:
            return self._store.is_whole(before)
        except StoreError:  # it is told of when the turn is stored
            return True

    def undo(self, exchange: Exchange) -> None:
        """Delete what was recorded of the last exchange; may be tried again after a StoreError.

        That may have been with another model, or in another process.
        """
        session = self._store.session_id
        self._store.undo(exchange)
        if self._dialogue is None:
            return
        if exchange.is_registered:
            # A registry that was loaded, as after a switch, cannot be rolled back.
            if not self._dialogue.roll_back() and not self._dialogue.is_empty:
                self._dialogue.read_again(self._store.turns())
            exchange.is_registered = False  # if the rest fails, the next try must not roll back another turn
        if session and exchange.user.id:
            # Its names are stored with the conversation.
            self._dialogue.save(session)
            self._store.clean_up()


def _attempt(draft: Draft, what: str, action: Callable[[], _T]) -> _T | None:
    """Run an action that the answer does not depend on; a failure becomes a warning."""
    try:
        return action()
    except ShepherdError as error:
        draft.notes.append((f"{what} failed: {error}", error.hint))
    return None
