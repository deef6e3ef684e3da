"""Storage of a stateless turn: its messages, the job for the worker, memories, the trace, the ledger's note.

A memory that fails costs a line in the log, never the answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

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
from shepherd.turn.store import append_turn
from shepherd.types import Message

__all__ = ["RequestStore"]

_log = logging.getLogger(__name__)

# A message that comes again so soon in the same conversation is the same one, tried again.
_RETRY_S = 600.0
_RETRIES_KNOWN = 4096


class RequestStore:
    """Stores the turns of stateless clients. Thread-safe, as the memory is."""

    def __init__(self, memory: Memory, config: Config, worker: ExtractionWorker | None) -> None:
        self._memory = memory
        self._config = config
        self._worker = worker
        self._stored: LRUCache[tuple[str, str], tuple[float, str]] = LRUCache(_RETRIES_KNOWN)

    def restore(self, messages: tuple[Message, ...], user_id: str, hashes: Sequence[str]) -> Restored:
        """The conversation, whose hashes these are, as the model saw it last time."""
        return Ledger(self._memory, user_id).restore(messages, hashes)

    def write(
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
    ) -> None:
        """Store one turn. Only a whole answer becomes a memory.

        `answer` is the answer as the client got it, `last_text` the text of its last reply: the replies
        before it are among the draft's steps.
        """
        key = user_id, conversation_hashes(history.messages)[-1]
        stored_at, session = self._stored.get(key) or (0.0, "")
        is_retry = time.monotonic() - stored_at < _RETRY_S and bool(session)
        session = history.restored.session or (session if is_retry else "")

        def write(session: str) -> None:
            # The first failure ends it: a locked database would be waited for with every write.
            session = session or self._memory.start_session(user_id, model_name)
            self._note(user_id, draft, history, planner, session)
            is_new = history.newest.role == "user" and not is_retry
            reply = answer
            if draft.steps:
                reply = answer.copy()
                reply.raw = reply.sent = last_text
            append_turn(
                self._memory,
                session,
                user_id,
                history.newest if is_new else None,
                (*draft.steps, reply) if reply.raw else draft.steps,
                learner=self._worker,
            )
            if is_new:
                self._stored.put(key, (time.monotonic(), session))
            if self._worker is not None:
                self._worker.told(session, user_id)
            if self._config.archive_turns:
                self._archive(user_id, draft, history, reply, session, is_whole)
            self._trace(user_id, draft, planner, session, model_name)

        try:
            write(session)
        except ShepherdError as error:
            _log.warning("storing the turn failed: %s", error)

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
            summary=draft.snapshot.summary,
        )

    def _trace(
        self,
        user_id: str,
        draft: Draft,
        planner: RequestPlanner | None,
        session: str,
        model_name: str,
    ) -> None:
        """Store the trace of a turn that a message of the user began."""
        if planner is None or draft.private or not self._config.trace_turns:
            return
        record = planner.trace(model=model_name)
        traces = Traces(self._memory.transactions, user_id)
        traces.write(session, record, with_prompt=self._config.trace_prompts)

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
