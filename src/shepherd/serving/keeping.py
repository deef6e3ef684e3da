"""What is kept of a turn: the messages in a stored conversation, jobs for the worker, memories, the ledger.

A memory that fails costs a line in the log, never the answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from shepherd.assistant import is_statement
from shepherd.config import Config
from shepherd.context import Draft, Ledger, Restored, conversation_hashes, is_worth_a_memory
from shepherd.errors import ShepherdError
from shepherd.extraction import ExtractionWorker
from shepherd.lru_cache import LRUCache
from shepherd.memory import Memory, Turn
from shepherd.serving.history import ClientHistory
from shepherd.serving.planned import RequestPlanner
from shepherd.trace import Traces
from shepherd.types import Message

__all__ = ["Keeper"]

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# A message that comes again so soon in the same conversation is the same one, tried again.
_RETRY_S = 600.0
_RETRIES_KNOWN = 4096


class Keeper:
    """Writes down what users and the model said. Thread-safe, as the memory is."""

    def __init__(self, memory: Memory, config: Config, worker: ExtractionWorker | None) -> None:
        self._memory = memory
        self._config = config
        self._worker = worker
        self._told: LRUCache[tuple[str, str], tuple[float, str]] = LRUCache(_RETRIES_KNOWN)

    def restore(self, messages: tuple[Message, ...], user_id: str, hashes: Sequence[str]) -> Restored:
        """The conversation, whose hashes these are, as the model saw it last time."""
        return Ledger(self._memory, user_id).restore(messages, hashes)

    def keep(
        self,
        user_id: str,
        draft: Draft,
        history: ClientHistory,
        answer: Message,
        *,
        planner: RequestPlanner | None,
        last_text: str,
        is_whole: bool,
        model_name: str,
        token_counts: Sequence[int] = (),
    ) -> None:
        """Store one turn. Only a whole answer becomes a memory.

        `answer` is the answer as the client got it, `last_text` the text of its last reply: the replies
        before it are among the draft's steps. `token_counts` are those of the messages in the prompt.
        """
        restored = history.restored
        key = user_id, conversation_hashes(history.messages)[-1]
        told_at, session = self._told.get(key) or (0.0, "")
        is_retry = time.monotonic() - told_at < _RETRY_S and bool(session)
        session = restored.session or (session if is_retry else "")
        if not session:
            started = self._attempt("session", lambda: self._memory.start_session(user_id, model_name))
            if not started:
                return  # a database that is locked now would be waited for with every write
            session = started
        self._note(user_id, draft, history, planner, session)
        if history.newest.role == "user" and not is_retry:
            job = self._worker.open_job if self._worker is not None else None
            self._attempt(
                "message",
                lambda: self._memory.append_message(session, history.newest, user_id, job=job),
            )
            self._told.put(key, (time.monotonic(), session))
        self._attempt("answer", lambda: self._append_answer(session, draft, answer, last_text, user_id))
        if self._worker is not None:
            worker = self._worker
            self._attempt("extraction", lambda: worker.told(session, user_id))
        self._trace(user_id, draft, planner, session, token_counts, model_name)
        if self._config.archive_turns:
            self._attempt(
                "archive", lambda: self._archive(user_id, draft, history, answer, session, is_whole)
            )

    def _append_answer(
        self, session: str, draft: Draft, answer: Message, last_text: str, user_id: str
    ) -> None:
        """Store the steps and the answer, as a chat does: each reply once."""
        if draft.steps:
            answer = answer.copy()
            answer.raw = answer.sent = last_text
        for message in (*draft.steps, answer) if answer.raw else draft.steps:
            self._memory.append_message(session, message, user_id)

    def _note(
        self,
        user_id: str,
        draft: Draft,
        history: ClientHistory,
        planner: RequestPlanner | None,
        session: str,
    ) -> None:
        first = history.first_kept(draft)
        was_first = max(history.restored.n_left, history.n_instructions)
        Ledger(self._memory, user_id).record(
            history.messages,
            history.restored,
            n_left=first if first > was_first else 0,
            stripped=history.stripped(draft),
            session=session,
            said=None if planner is None else planner.said,
        )

    def _trace(
        self,
        user_id: str,
        draft: Draft,
        planner: RequestPlanner | None,
        session: str,
        token_counts: Sequence[int],
        model_name: str,
    ) -> None:
        """Store the trace of a turn that a message of the user began."""
        if planner is None or draft.private or not self._config.trace_turns:
            return
        for message, tokens in zip(draft.prompt, token_counts, strict=False):
            message.tokens = tokens
        record = planner.trace(model=model_name)
        traces = Traces(self._memory.transactions, user_id)
        with_prompt = self._config.trace_prompts
        self._attempt("trace", lambda: traces.write(session, record, with_prompt=with_prompt))

    def _archive(
        self,
        user_id: str,
        draft: Draft,
        history: ClientHistory,
        answer: Message,
        session: str,
        is_whole: bool,
    ) -> None:
        """Archive what the user told, and the turns that left the window with this request."""
        said = next((m.raw for m in reversed(history.messages) if m.role == "user"), "")
        if is_whole and answer.raw.strip() and not answer.tool_calls and is_statement(said):
            self._remember(user_id, said, answer.raw, history.newest.created_at, session)
        asked: Message | None = None
        for i, message in history.evicted(draft):
            if i < history.restored.n_left:
                continue
            if message.role == "user":
                asked = message
            elif message.role == "assistant" and message.raw and asked is not None:
                if is_worth_a_memory(asked, message.raw):
                    told_at = asked.created_at or int(time.time())
                    self._remember(user_id, asked.raw, message.raw, told_at, session)
                asked = None

    def _remember(self, user_id: str, question: str, answer: str, told_at: int, session: str) -> None:
        self._memory.archive_turn(Turn(question, answer.strip(), told_at, session), user_id)

    def _attempt(self, what: str, action: Callable[[], _T]) -> _T | None:
        """The result of something that the answer does not depend on; a failure is logged."""
        try:
            return action()
        except ShepherdError as error:
            _log.warning("keeping the %s failed: %s", what, error)
            return None
