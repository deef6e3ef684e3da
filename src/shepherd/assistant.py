"""Assistant: a conversation of one user with one model, from message to answer.

A turn that fails or is abandoned leaves the conversation as it was before. If the memory fails, there
is a warning, and still an answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.errors import ShepherdError, StoreError, UsageError
from shepherd.inference import Engine, KeptCounts
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.pictures import no_pictures
from shepherd.prompt import (
    Compaction,
    Draft,
    Exchange,
    OneShot,
    Plan,
    Planner,
    Snapshot,
    Summary,
    WindowBudget,
    take_snapshot,
)
from shepherd.prompt.archive_policy import is_statement
from shepherd.prompt.exchanges import has_tail, hide_memory, message_of, messages_of, paired, with_recall
from shepherd.prompt.one_shot import DEFAULT_TOKENS
from shepherd.prompt.system_prompt import SystemPrompt
from shepherd.prompt.window_budget import tools_text
from shepherd.tools import AssistantTool, ToolResult, conversation_tools
from shepherd.turn import (
    Delta,
    Event,
    Finished,
    GenerationOptions,
    Recalled,
    Turn,
    Warned,
    former_facts,
    own_facts,
    refused_values,
    sampling_of,
)
from shepherd.turn.components import ModelAccess, TurnComponents, open_components, with_auto_resolved
from shepherd.turn.read_ahead import ReadAhead, foresee
from shepherd.turn.recorder import ConversationStore, Recorder
from shepherd.turn.small_model import Promise
from shepherd.types import ANONYMOUS_USERS, NOT_LEARNING, Learning, Message, Picture, Tool

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.providers import ChatModel, Reply
    from shepherd.providers.exchange import Retry

__all__ = [
    "Assistant",
    "Delta",
    "Event",
    "Finished",
    "Recalled",
    "ToolResult",
    "Warned",
    "is_statement",
    "message_of",
]

_log = logging.getLogger(__name__)

# Share of the window that tools may take which nobody asked for by name.
_TOOLS_SHARE = 0.25
# What keeps a conversation from being changed, and what to do about it.
_AN_ANSWER = ("an answer", "wait for it, or cancel it")
# Of an assistant without a worker, as programs make them.
_NOT_LEARNING = replace(
    NOT_LEARNING, remedy="use shepherd.Session, which learns, or give the ModelAccess an extraction worker"
)


class Assistant:
    """A conversation of one user with one model.

    `model` is the path or name of a model (see `shepherd.Engine`; "" is that of the setting, else the bundled
    one), an open model, or a ModelAccess, which says what the model may do with its memory. `memory` is the
    path of a database, or an open Memory; without one nothing is remembered. What is named is opened by the
    settings, such as n_ctx or rag_max_results; what is open keeps its own. `close`, which leaving a `with`
    block calls, closes what was opened here; the caller closes what it passed in.

    Statements are stored as memories. No facts are learned, unless a ModelAccess has a worker for it, as in a
    `shepherd.Session`, which also opens providers.

    The user is `user_id`, else the setting user_id, else that of the open Memory, here or in the ModelAccess.

    One turn at a time, and nothing else changes the conversation meanwhile (UsageError). `cancel()` may be
    called from any thread, everything else from one. With the setting memory_tools the model has tools for
    the memory of `user_id` alone; `tools` are more of them.
    """

    def __init__(
        self,
        model: str | Path | ChatModel | ModelAccess = "",
        memory: str | Path | Memory | None = None,
        *,
        config: Config | None = None,
        user_id: str = "",
        tools: Sequence[AssistantTool] = (),
    ) -> None:
        self._other_tools = tuple(tools)
        self._config = config or Config()
        self.user_id = user_id or self._config.effective_user_id
        self.private = False
        # A question asked alone: `resume` finds its conversation only for another such question.
        self.is_one_off = False
        self.last: Finished | None = None
        self._exchanges: list[Exchange] = []
        self._has_evicted = False
        self._compaction = Compaction(verbatim=self.config.history_verbatim_turns)
        self._turn_lock = threading.Lock()
        self._turn: Turn | None = None
        self._ahead = ReadAhead()
        with ExitStack() as stack:
            access = _opened(model, memory, self._config, user_id, stack)
            if access.memory is not None and not (user_id or self._config.user_id):
                self.user_id = access.memory.user_id
            self._use(open_components(access, self._config, self.user_id))
            self._opened = stack.pop_all()

    def close(self) -> None:
        """Close the model and the memory that were opened here. May be called twice."""
        self._ahead.stop()
        self._opened.close()

    def __enter__(self) -> Assistant:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # ---- what it is

    @property
    def config(self) -> Config:
        """The settings. New ones hold from the next message on, those of system prompt and tools later."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        settled = with_auto_resolved(config, self.engine)
        self._planner.use(settled)
        self._config, self._settled = config, settled
        self._budget.max_tokens, self._budget.retention = config.max_tokens, config.injection_retention
        self._store.archives = config.archive_turns

    @property
    def recalls(self) -> bool:
        """True if the next message will be looked up in memory."""
        is_on = self.config.injection_enabled and not self.private and not self.is_forgetful
        return self.memory is not None and is_on

    @property
    def has_private_turns(self) -> bool:
        """True if the model still sees private exchanges, which an answer may repeat."""
        return any(exchange.is_private for exchange in self._exchanges)

    @property
    def system_prompt(self) -> SystemPrompt:
        """The frozen first part, fixed until `clear()`, `refresh_context()`, a compaction or another
        model.
        """
        return self._snapshot.system

    @property
    def snapshot(self) -> Snapshot:
        """The ingredients of the system prompt."""
        return self._snapshot

    @property
    def last_plan(self) -> Plan | None:
        """Plan of the last turn, with tokens by category; None before the first."""
        return None if self.last is None else self.last.plan

    @property
    def history(self) -> list[Message]:
        """Messages that the model still sees, without the system prompt."""
        return messages_of(self._exchanges)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools of the model; fixed until `clear()` or `switch()`."""
        return () if self._toolbox is None else self._toolbox.tools

    @property
    def session_id(self) -> str | None:
        """Id of the stored conversation; None until something of it is stored."""
        return self._store.session_id

    @property
    def extraction(self) -> ExtractionWorker | None:
        """The worker that learns from this conversation; None where nothing is learned."""
        return self._access.extraction if self._store.learner is not None else None

    @property
    def kept(self) -> KeptCounts | None:
        """Conversations that the local model has on disk; None where it keeps none."""
        return self.engine.kept() if isinstance(self.engine, Engine) else None

    @property
    def learning(self) -> Learning:
        """State of learning in this conversation: the model that learns, or why none does."""
        return self._access.learning

    @property
    def knowledge(self) -> Knowledge | None:
        """The user's documents and nodes; None where they may not be read."""
        return self._knowledge

    # ---- a turn

    def ask(self, text: str, *, composed: str = "", pictures: Sequence[Picture] = ()) -> Iterator[Event]:
        """Yield the events of one turn: Recalled, then Deltas, then Finished; Warned at any time.

        The model reads `composed` in place of `text` where it is given: `text` in a template, with documents.
        Only `text` is looked up in memory, and only from `text` something is learned. `pictures` precede the
        text, or stand where `composed` has a mark (see pictures.py). They are never stored.

        Thoughts of the model come as Thought, between the Deltas; they are not part of the answer. A tool
        call comes as ToolCall, its result as ToolResult, and then the model continues.

        Raises ContextOverflowError before anything is decoded, ModelError when the engine fails, UsageError
        while another turn is running, or for pictures that the model can't read; the conversation is then
        unchanged. Closing the iterator early abandons
        the turn; `cancel()` ends the answer and keeps what there is of it.
        """
        if pictures and not self.engine.reads_pictures:
            raise no_pictures(self.engine.picture_problem)
        with self._alone("another answer", "wait for it, or cancel it"):
            self._ahead.stop()
            draft = self._new_draft(Message("user", text, composed=composed, pictures=tuple(pictures)))
            private = draft.private
            promise = Promise(
                self._store.writes and not private,
                self.config.memory_extraction_secrets,
                partial(own_facts, self.memory, self.user_id),
            )
            options = GenerationOptions(
                sampling_of(self.config, self.engine.info.sampling),
                self.tools,
                tool_rounds=self.config.tool_rounds,
                promise=promise,
                refused=partial(refused_values, self.memory, self.user_id),
                former=partial(former_facts, self.memory, self.user_id),
                owner=self._files_owner(draft),
                user=self.user_id,
            )
            self._turn = Turn(
                self.engine,
                draft,
                self._budget,
                options,
                plan=lambda: self._plan(draft),
                toolbox=self._toolbox,
            )
            try:
                yield from self._run(self._turn)
            finally:
                self._turn = None
                draft.restore_tails()
                if draft.is_registered and self._dialogue is not None:
                    self._dialogue.roll_back()

    def _new_draft(self, message: Message) -> Draft:
        private = self.private or self.is_forgetful
        draft = Draft(message, self._snapshot, self.history, private=private)
        if private:
            draft.strip([message for message in draft.history if has_tail(message)])
        return draft

    def read_ahead(self, text: str = "") -> None:
        """Let a model that runs here read the conversation while the user writes; returns at once.

        That is what the next prompt has before the user's message: much of it is new after a start, an
        eviction or a summary, otherwise next to nothing. `text` is what the user has written so far: a longer
        message lets more turns leave. The next turn, or whatever changes the conversation, ends the reading
        within a micro-batch, and what was read by then is not read again. It may be called at each key.
        Nothing is read with a remote model, or if the setting read_ahead is off.
        """
        engine = self.engine
        if not isinstance(engine, Engine) or not self.config.read_ahead:
            return
        if not self._turn_lock.acquire(blocking=False):
            return
        draft = self._new_draft(Message("user", text))
        try:
            if not self._ahead.is_due(text):
                return
            owner = self._files_owner(draft)
            foresee(
                draft,
                self._exchanges,
                self._budget,
                self._compaction,
                plan=lambda: self._plan(draft),
                take_snapshot=lambda summary: self._made_snapshot(summary, self._knowledge),
            )
            *known, _ = draft.prompt
            self._ahead.read(engine, known, self.tools, owner)
        except ShepherdError as error:
            _log.debug("read_ahead: %s", error)  # the turn will say so
        finally:
            draft.restore_tails()
            self._turn_lock.release()

    def _files_owner(self, draft: Draft) -> str:
        """Return whose files the conversation may be kept in; "" if something in it must not be stored."""
        is_private = draft.private or self.has_private_turns
        if self.memory is None or not self._store.writes or is_private or draft.snapshot.summary.private:
            return ""
        return self.memory.files_owner(self.user_id)

    @property
    def progress(self) -> tuple[int, int]:
        """Tokens of the prompt that the model has read for the present answer, and all it has to read.

        Zeros before it reads, and where that is unknown, as with a provider. From any thread.
        """
        turn = self._turn
        return (0, 0) if turn is None else turn.progress

    @property
    def retry(self) -> Retry | None:
        """The pause before a provider is asked again, during one. From any thread."""
        turn = self._turn
        return None if turn is None else turn.retry

    @property
    def is_composed(self) -> bool:
        """True while a message is answered that the model reads in another form than it was typed."""
        turn = self._turn
        return turn is not None and bool(turn.draft.message.composed)

    def cancel(self) -> None:
        """End the answer that is being generated, if any. Safe from any thread and from a signal handler."""
        turn = self._turn
        if turn is not None:
            turn.cancel()

    def inject_context(
        self, question: str, *, max_tokens: int = DEFAULT_TOKENS, times: bool = False
    ) -> OneShot:
        """Return one prompt for `question` with everything that this conversation and the memory know about
        it.

        Its `text` has the sections [SYSTEM], [CONTEXT], [KNOWLEDGE] and [USER] and at most `max_tokens` of
        the model's tokens. A summarizer, if there is one, sums up the turns that do not fit. Nothing is
        stored or changed. With `times` turns show the clock. Raises ContextOverflowError when system part and
        question alone are longer, and StoreError if the stored turns can't be
        read.
        """
        summarizer = self._access.summarizer
        gone = self._left_the_window()
        return self._planner.one_shot(
            question,
            [*gone, *self._exchanges],
            summary=self._compaction.summary,
            n_summed_up=len(gone),
            max_tokens=max_tokens,
            count=self._budget.count,
            times=times,
            private=self.private or self.is_forgetful,
            summarize=None if summarizer is None else summarizer.summarize,
        )

    # ---- between turns

    def switch(self, access: ModelAccess) -> None:
        """Continue with another model, between two turns, under its rules of memory.

        For a forgetful model, what memory added to earlier messages and what tools read there is removed.
        If the memory can't be read, this raises StoreError, and nothing has changed.
        """
        with self._alone(*_AN_ANSWER):
            self._ahead.stop()
            session = self._store.session_id
            parts = open_components(access, self._config, self.user_id)
            if parts.dialogue is not None:
                parts.dialogue.load(session or "", self._store.turns())
            self._store.release()
            if access.forgetful:
                self._hide_memory()
            for message in self.history:
                message.token_ids, message.tokens, message.thought = (
                    (),
                    0,
                    "",
                )  # these belong to the other model
            self._use(parts)
            self._store.session_id = session

    def refresh_context(self) -> Snapshot:
        """Take a new snapshot, with present preferences and background. The whole prompt is read again
        once.
        """
        with self._alone(*_AN_ANSWER):
            self._ahead.stop()
            self._snapshot = self._take_snapshot(self._compaction.summary)
            return self._snapshot

    def undo(self) -> str | None:
        """Undo the last exchange, in the stored session and in memory too; returns the user's text.

        Effects of tools stay. Raises StoreError; the conversation then still has the exchange, and undo may
        be tried again.
        """
        with self._alone(*_AN_ANSWER):
            if not self._exchanges:
                return None
            self._ahead.stop()
            exchange = self._exchanges[-1]
            self._recorder.undo(exchange)
            self._exchanges.pop()
            self.last = None
            self._compaction.cancel()
            return exchange.user.raw

    def clear(self) -> None:
        """Begin a new conversation; memory and the stored conversation stay."""
        self._go_on("", [], [], Summary())

    def resume(self, session_id: str = "") -> int:
        """Continue a stored conversation of this user; returns the number of its exchanges.

        Without an id, it is the latest one. Single questions that were neither continued nor renamed are then
        skipped, unless this is one itself (`is_one_off`). Raises UsageError if this user has no conversation
        of the id.
        """
        if self.memory is None:
            raise UsageError(
                "without memory, no conversation can be continued",
                hint="drop --nomemory, or begin a new conversation",
            )
        if session_id and self.memory.find_session(session_id, self.user_id) != session_id:
            raise UsageError(f"there is no conversation {session_id!a}")
        if not session_id:
            latest = self.memory.list_sessions(self.user_id, limit=1, one_offs=self.is_one_off)
            session_id = latest[0].id if latest else ""
        if not session_id:
            self.clear()
            return 0
        exchanges = paired(self.memory.load_session(session_id, self.user_id))
        left = self._store.read_summary(session_id)
        shown = [exchange for exchange in exchanges if exchange.user.id > left.last_id]
        self._go_on(session_id, exchanges, shown, left.summary)
        return len(exchanges)

    def _go_on(
        self, session_id: str, exchanges: Sequence[Exchange], shown: Sequence[Exchange], summary: Summary
    ) -> None:
        """Leave the conversation for a stored one or, for "", a new one; `shown` are not summed up.

        If its entities can't be read, this raises StoreError, and the conversation is as before.
        """
        with self._alone(*_AN_ANSWER):
            self._ahead.stop()
            if self._dialogue is not None:
                self._dialogue.load(session_id, ((one.user.raw, one.answer.raw) for one in exchanges))
            self._exchanges = list(shown)
            self._has_evicted = len(shown) < len(exchanges)
            if self.is_forgetful:
                self._hide_memory()
            self.last = None
            self._store.release()
            self._store.session_id = session_id or None
            self._recorder.begin()
            self._compaction.reset(summary)
            self._open_toolbox()
            self._snapshot = self._take_snapshot(summary)

    # ---- the order of a turn

    def _run(self, turn: Turn) -> Iterator[Event]:
        draft = turn.draft
        if not draft.private:
            self._store.begin_turn()
        turn.prepare(compact=lambda: self._compact(draft))
        if draft.injection:
            _log.debug("[prompt+context] %s", draft.message.sent)
        yield from self._answer(turn)
        generation = turn.reply
        before = self._exchanges
        exchange = self._record(draft, generation)
        stats = with_recall(turn.stats, draft.injection.recall_us / 1000)
        stats = replace(stats, evicted_turns=draft.evicted_turns)
        self.last = Finished(generation.text, stats, draft.injection, draft.plan)
        if exchange is not None:
            self._recorder.register_answer(draft, exchange)
            if self._has_session(draft):
                self._recorder.store(
                    draft,
                    exchange,
                    before,
                    archive=stats.finish_reason != "cancelled",
                    now=int(time.time()),
                    with_prompt=self.config.trace_prompts,
                    stats=stats,
                )
            self._recorder.archive_evicted(draft, before, int(time.time()))
            self._compaction.prepare(draft, self._exchanges, self._budget)
        draft.notes.extend((text, "") for text in stats.warnings)
        yield from _warned(draft)
        yield self.last

    def _has_session(self, draft: Draft) -> bool:
        """Start the session of a question asked alone; False if that failed, with a warning."""
        is_stored = self._store.writes and not draft.private
        if self.memory is None or not (self.is_one_off and is_stored) or self.session_id is not None:
            return True
        model = self.engine.info.name
        try:
            self._store.start_session(model, is_one_off=True)
        except ShepherdError as error:
            draft.notes.append((f"keeping this turn failed: {error}", error.hint))
            return False
        return True

    def _plan(self, draft: Draft) -> None:
        """Write the tail of the message."""
        session = self.session_id or ""
        self._planner.plan(draft, self._budget, session=session, has_evicted=self._has_evicted)

    def _left_the_window(self) -> list[Exchange]:
        """Return the stored exchanges of this conversation that the model no longer sees."""
        if not self._has_evicted or self.memory is None or not self.session_id:
            return []
        first = next((one.user.id for one in self._exchanges if one.in_session), None)
        stored = paired(self.memory.load_session(self.session_id, self.user_id))
        return [one for one in stored if first is None or one.user.id < first]

    def _compact(self, draft: Draft) -> None:
        """Replace the turns that are due by a summary, with a new snapshot."""
        self._compaction.compact(
            draft, self._exchanges, self._budget, lambda summary: self._take_snapshot(summary, draft)
        )

    def _answer(self, turn: Turn) -> Iterator[Event]:
        """Yield the events of the turn's replies, and of the tools between them."""
        reply, draft = turn.start(), turn.draft
        self._planner.settle(draft, self._budget)
        while True:
            with reply:
                if not draft.steps:
                    yield Recalled(draft.injection, draft.plan)
                yield from _warned(draft)
                for piece in reply:
                    yield Delta(piece) if isinstance(piece, str) else piece
            if not turn.continues():
                return
            yield from turn.run_tools()
            reply = turn.next_reply()

    def _record(self, draft: Draft, generation: Reply) -> Exchange | None:
        """Add the turn to the conversation, unless it was cancelled before the first piece of an answer."""
        if not generation.text and generation.stats.finish_reason == "cancelled" and not draft.steps:
            return None
        counts = generation.prompt_tokens_per_message[1:]  # the first is the system prompt
        for message, tokens in zip([*draft.history, draft.message, *draft.steps], counts, strict=True):
            message.tokens = tokens
        if draft.leaving:
            gone = {id(exchange) for exchange in draft.evicted(self._exchanges)}
            self._exchanges = [exchange for exchange in self._exchanges if id(exchange) not in gone]
            self._has_evicted = True
        draft.commit_stripped()
        self._snapshot = draft.snapshot
        self._compaction.commit(draft.snapshot.summary, self._exchanges)
        self._planner.commit(draft)
        draft.message.created_at = int(time.time())
        exchange = Exchange(
            draft.message, message_of(generation), steps=draft.steps, is_private=draft.private
        )
        self._exchanges = [*self._exchanges, exchange]
        return exchange

    # ---- its parts

    def _use(self, parts: TurnComponents) -> None:
        """Set everything that depends on the model and on what it may know."""
        access = parts.access
        self._access = access
        self.engine, self.memory = access.model, access.memory
        self.is_forgetful = access.forgetful
        self._settled = with_auto_resolved(self._config, access.model)
        self._store: ConversationStore = parts.store
        self._dialogue = parts.dialogue
        self._recorder = Recorder(parts)
        self._knowledge = parts.knowledge
        self._planner: Planner = parts.planner
        self._open_toolbox()
        self._compaction.use(access.summarizer)
        self._snapshot = self._take_snapshot(self._compaction.summary)

    def _open_toolbox(self) -> None:
        """Set the tools of the conversation, and the budget beside their schemas."""
        has_memory = not self.is_forgetful and self.user_id not in ANONYMOUS_USERS
        self._toolbox = conversation_tools(
            self._config,
            self.memory if has_memory else None,
            self._knowledge if has_memory else None,
            self.user_id,
            refusal=lambda: "the user has switched the memory off for now" if self.private else "",
            writes=self._store.writes,
            fits=self._may_have,
            others=self._other_tools,
        )
        self._budget: WindowBudget = WindowBudget(
            self.engine,
            max_tokens=self._config.max_tokens,
            retention=self._config.injection_retention,
            tools=self.tools,
        )

    def _hide_memory(self) -> None:
        hide_memory(self._exchanges, {entry.tool.name for entry in self._other_tools})

    def _may_have(self, tools: Sequence[Tool]) -> bool:
        return self.engine.count_tokens(tools_text(tools)) <= self.engine.window_tokens * _TOOLS_SHARE

    def _take_snapshot(self, summary: Summary, draft: Draft | None = None) -> Snapshot:
        """Return a new snapshot; a database that cannot be read costs the background only."""
        self._planner.reset_shown_hubs()
        try:
            return self._made_snapshot(summary, self._knowledge)
        except StoreError as error:
            if draft is not None:
                draft.notes.append((f"background failed: {error}", error.hint))
            _log.info("snapshot: %s", error)
            return self._made_snapshot(summary, None)

    def _made_snapshot(self, summary: Summary, knowledge: Knowledge | None) -> Snapshot:
        return take_snapshot(
            self._settled,
            memory=self.memory is not None and self.config.injection_enabled and not self.is_forgetful,
            knowledge=knowledge,
            summary=summary,
            window_tokens=self.engine.window_tokens,
            count=self._budget.count,
        )

    @contextmanager
    def _alone(self, with_what: str, hint: str) -> Iterator[None]:
        if not self._turn_lock.acquire(blocking=False):
            raise UsageError(f"this conversation is busy with {with_what}", hint=hint)
        try:
            yield
        finally:
            self._turn_lock.release()


def _opened(
    model: str | Path | ChatModel | ModelAccess,
    memory: str | Path | Memory | None,
    config: Config,
    user_id: str,
    stack: ExitStack,
) -> ModelAccess:
    """Open by the settings what is named by a path or a name; `stack` closes it."""
    if isinstance(model, ModelAccess):
        return model
    if isinstance(memory, (str, Path)):
        from shepherd.memory_factory import open_memory

        own = replace(config, user_id=user_id or config.user_id)
        memory = stack.enter_context(
            open_memory(own, address=str(memory), warn=lambda text, hint: _log.warning("%s; %s", text, hint))
        )
    if isinstance(model, (str, Path)):
        # Not at the top: llama.cpp is loaded only for a model that runs here.
        from shepherd.factory import open_named_engine

        model = stack.enter_context(open_named_engine(config, str(model)))
    return ModelAccess(model, memory, learning=NOT_LEARNING if memory is None else _NOT_LEARNING)


def _warned(draft: Draft) -> Iterator[Warned]:
    for message, hint in draft.take_notes():
        yield Warned(message, hint)
    while draft.remarks:
        yield Warned(draft.remarks.pop(0), is_remark=True)
