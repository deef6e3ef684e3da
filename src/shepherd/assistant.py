"""One turn, from message to answer: plan, prompt, generate, tools, record, archive. Only here is the order
known.

A turn that fails or is abandoned leaves the conversation as it was before it. A memory that fails costs a
warning, never the answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from shepherd.config import Config
from shepherd.context import (
    DEFAULT_TOKENS,
    NO_ROOM_FOR_MEMORY,
    Compaction,
    Draft,
    Exchange,
    OneShot,
    Plan,
    Room,
    Snapshot,
    Summarizer,
    Summary,
    SystemPrompt,
    added_stats,
    is_statement,
    message_of,
    messages_of,
    paired,
    sampling_of,
    strip_tails,
    tails_to_strip,
    take_snapshot,
    with_recall,
    written,
)
from shepherd.equipment import ConversationParts, open_parts
from shepherd.errors import ContextOverflowError, ShepherdError, StoreError, UsageError
from shepherd.events import Delta, Event, Finished, Recalled, Warned
from shepherd.knowledge import Knowledge
from shepherd.memory import Memory
from shepherd.tools import AssistantTool, Toolbox, ToolResult, conversation_tools
from shepherd.trace.planned import trace_of
from shepherd.types import ANONYMOUS_USERS, Message, Tool

if TYPE_CHECKING:
    from shepherd.context.entity_reading import EntityReader
    from shepherd.extraction import ExtractionWorker
    from shepherd.providers import ChatModel, Reply

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

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# Of the window: tools that nobody asked for by name may take so much of it.
_TOOLS_SHARE = 0.25


class Assistant:
    """A conversation of one user with one model.

    One turn at a time; `cancel()` may be called from any thread, everything else from one. The caller closes
    what it passed in. Without `writes_memory` the memory is only read. With `extraction`, what the user
    says is queued for it, in the transaction that stores the message. With a `summarizer`, turns that leave
    the window are summed up before; a `reader` finds whom messages speak of, beside the rules. Without
    `tells_private` what is private of people is not told to the model; see `switch` for `forgetful`.
    `on_evicted` is told, after the turn, of the messages that left the window, oldest first. `engine` may run
    elsewhere; see `switch`.
    With the setting memory_tools the model has tools for the memory of `user_id`, and of nobody else; `tools`
    are more of them.
    """

    def __init__(
        self,
        *,
        engine: ChatModel,
        memory: Memory | None,
        config: Config | None = None,
        user_id: str = "",
        writes_memory: bool = True,
        extraction: ExtractionWorker | None = None,
        summarizer: Summarizer | None = None,
        tells_private: bool = True,
        forgetful: bool = False,
        reader: EntityReader | None = None,
        on_evicted: Callable[[Sequence[Message]], None] | None = None,
        tools: Sequence[AssistantTool] = (),
    ) -> None:
        self._other_tools = tuple(tools)
        self._config = config or Config()
        self.user_id = user_id or self._config.effective_user_id
        self.private = False
        self.last: Finished | None = None
        self._on_evicted = on_evicted
        self._exchanges: list[Exchange] = []
        self._has_evicted = False
        self._compaction = Compaction(verbatim=self.config.history_verbatim_turns)
        self._turn_lock = threading.Lock()
        self._cancelled = threading.Event()
        self._generation: Reply | None = None
        parts = open_parts(
            engine,
            memory,
            self._config,
            self.user_id,
            writes_memory=writes_memory,
            extraction=extraction,
            tells_private=tells_private,
            forgetful=forgetful,
            reader=reader,
        )
        self._use(parts, summarizer)

    # ---- what it is

    @property
    def config(self) -> Config:
        """The settings; others hold from the next message on, those of system prompt and tools later."""
        return self._config

    @config.setter
    def config(self, config: Config) -> None:
        self._planner.use(config)
        self._config = config
        self._room.max_tokens, self._room.retention = config.max_tokens, config.injection_retention
        self._keeper.archives = config.archive_turns

    @property
    def recalls(self) -> bool:
        """Whether the next message will be looked up in memory."""
        is_on = self.config.injection_enabled and not self.private and not self.is_forgetful
        return self.memory is not None and is_on

    @property
    def system_prompt(self) -> SystemPrompt:
        """P0 to P2, fixed until `clear()`, `refresh_context()`, a compaction or another model."""
        return self._snapshot.system

    @property
    def snapshot(self) -> Snapshot:
        """What the system prompt was made of."""
        return self._snapshot

    @property
    def last_plan(self) -> Plan | None:
        """What the last turn showed the model, with tokens by category; None before the first."""
        return None if self.last is None else self.last.plan

    @property
    def history(self) -> list[Message]:
        """The messages that the model still sees, without the system prompt."""
        return messages_of(self._exchanges)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model may call; fixed until `clear()` or `switch()`."""
        return () if self._toolbox is None else self._toolbox.tools

    @property
    def session_id(self) -> str | None:
        """Where the conversation is stored, once something of it is."""
        return self._keeper.session_id

    @property
    def knowledge(self) -> Knowledge | None:
        """What the user keeps on purpose; None where nothing of it may be read."""
        return self._knowledge

    # ---- a turn

    def ask(self, text: str) -> Iterator[Event]:
        """The events of one turn, as they happen: Recalled, then Deltas, then Finished; Warned at any time.

        What the model thinks comes as Thought, between the Deltas; it is no part of the answer. A tool that
        it calls comes as ToolCall, what came of it as ToolResult, and then the model goes on.

        Raises ContextOverflowError before anything is decoded, ModelError when the engine fails, UsageError
        while another turn is under way; the conversation is then as it was. Closing the iterator early
        abandons the turn; `cancel()` ends the answer and keeps what there is of it.
        """
        with self._alone("another answer", "wait for it, or cancel it"):
            private = self.private or self.is_forgetful
            draft = Draft(Message("user", text), self._snapshot, private=private)
            try:
                self._cancelled.clear()
                yield from self._run(draft)
            finally:
                self._generation = None
                if draft.is_heard and self._dialogue is not None:
                    self._dialogue.take_back()

    def cancel(self) -> None:
        """End the answer that is being generated, if any. Safe from any thread and from a signal handler."""
        self._cancelled.set()
        generation = self._generation
        if generation is not None:
            generation.cancel()

    def inject_context(
        self, question: str, *, max_tokens: int = DEFAULT_TOKENS, times: bool = False
    ) -> OneShot:
        """One prompt for `question` with all that this conversation and the user's memory know about it.

        Its `text` has the sections [SYSTEM], [CONTEXT], [KNOWLEDGE] and [USER] and at most `max_tokens` of
        the model's tokens. Nothing is generated, kept or changed. With `times` turns are told with the clock.
        Raises ContextOverflowError when system part and question alone are longer.
        """
        return self._planner.one_shot(
            question,
            self._exchanges,
            summary=self._compaction.summary,
            max_tokens=max_tokens,
            count=self._room.count,
            times=times,
            private=self.private or self.is_forgetful,
        )

    # ---- between turns

    def switch(
        self,
        engine: ChatModel,
        *,
        memory: Memory | None,
        writes_memory: bool = True,
        extraction: ExtractionWorker | None = None,
        summarizer: Summarizer | None = None,
        tells_private: bool = True,
        forgetful: bool = False,
        reader: EntityReader | None = None,
    ) -> None:
        """Go on with another model, between two turns, under the rules of memory that hold for it.

        With `forgetful` nothing is recalled or kept while it answers, and what was appended from memory to
        earlier messages is taken off: this model does not get to see it.
        """
        with self._alone("an answer", "wait for it, or cancel it"):
            self._keeper.release()
            if forgetful:
                strip_tails(tails_to_strip(self.history, "strip", engine.window_tokens))
            for message in self.history:
                message.token_ids, message.tokens, message.thought = (), 0, ""  # the other model's
            session = self._keeper.session_id
            parts = open_parts(
                engine,
                memory,
                self._config,
                self.user_id,
                writes_memory=writes_memory,
                extraction=extraction,
                tells_private=tells_private,
                forgetful=forgetful,
                reader=reader,
            )
            self._use(parts, summarizer)
            self._keeper.session_id = session
            if self._dialogue is not None:
                self._dialogue.load(session or "")

    def refresh_context(self) -> Snapshot:
        """Take the snapshot anew: preferences and background as they are now. All is read again once."""
        with self._alone("an answer", "wait for it, or cancel it"):
            self._snapshot = self._take_snapshot(self._compaction.summary)
            return self._snapshot

    def undo(self) -> str | None:
        """Take the last exchange back, in the stored session and in memory too; gives the user's text.

        What tools have done in it stays done.
        """
        if not self._exchanges:
            return None
        exchange = self._exchanges.pop()
        self.last = None
        self._compaction.cancel()
        if self._dialogue is not None and exchange.is_heard:
            self._dialogue.take_back()
        session = self.session_id
        self._keeper.take_back(exchange)
        if self._traces is not None and session and exchange.trace is not None:
            self._traces.remove(session, exchange.trace)
        return exchange.user.raw

    def clear(self) -> None:
        """Begin a new conversation; memory and the stored one stay."""
        self._exchanges.clear()
        self._has_evicted = False
        self.last = None
        self._keeper.release()
        self._keeper.session_id = None
        self._compaction.reset()
        if self._dialogue is not None:
            self._dialogue.load("")
        self._open_toolbox()
        self._snapshot = self._take_snapshot(Summary())

    def resume(self) -> int:
        """Go on with this user's latest stored conversation; gives the number of its exchanges."""
        if self.memory is None:
            raise UsageError(
                "there is no conversation to continue without memory", hint="leave out --nomemory"
            )
        self.clear()
        latest = self.memory.list_sessions(self.user_id, limit=1)
        if latest:
            self._keeper.session_id = latest[0].id
            if self._dialogue is not None:
                self._dialogue.load(latest[0].id)
            exchanges = paired(self.memory.load_session(latest[0].id, self.user_id))
            left = self._keeper.left()
            self._exchanges = [exchange for exchange in exchanges if exchange.user.id > left.last_id]
            self._has_evicted = len(self._exchanges) < len(exchanges)
            self._compaction.reset(left.summary)
            self._snapshot = self._take_snapshot(left.summary)
            return len(exchanges)
        return 0

    # ---- the order of a turn

    def _run(self, draft: Draft) -> Iterator[Event]:
        draft.history = self.history
        self._room.strip_by_habit(draft)
        session = self.session_id or ""
        turns, since = len(self._exchanges), self._since()
        self._planner.plan(draft, self._room, turns=turns, session=session, since=since)
        if draft.injection:
            _log.debug("[prompt+context] %s", draft.message.sent)
        self._make_room(draft)
        generation = yield from self._answer(draft)
        exchange = self._record(draft, generation)
        stats = with_recall(draft.stats or generation.stats, draft.injection.recall_us / 1000)
        stats = replace(stats, evicted_turns=len(draft.leaving))
        self.last = Finished(generation.text, stats, draft.injection, draft.plan)
        if exchange is not None:
            self._hear(draft, exchange)
            self._store(draft, exchange, archive=stats.finish_reason != "cancelled")
            self._let_go(draft)
            self._compaction.prepare(self._exchanges, self._room, _history_share(draft.plan))
        draft.notes.extend((text, "") for text in stats.warnings)
        yield from _warned(draft)
        yield self.last

    def _since(self) -> int:
        # What left the window is no longer in front of the model, and may be recalled.
        return self._exchanges[0].user.created_at if self._has_evicted and self._exchanges else 0

    def _make_room(self, draft: Draft, prompt_tokens: int = 0) -> None:
        """Fold what is due into the summary, with a new snapshot; let go of more where that is not enough."""
        folded = self._compaction.fold(draft, self._exchanges, self._room, _history_share(draft.plan))
        if folded is not None and not draft.leaving:
            draft.is_folded = folded.summary != self._compaction.summary
            draft.let_leave(self._exchanges[: folded.turns])
            self._room.strip_all(draft)
            draft.snapshot = self._take_snapshot(folded.summary, draft)
        self._room.make(draft, self._exchanges, prompt_tokens)

    def _answer(self, draft: Draft) -> Generator[Event, None, Reply]:
        """Let the model answer, and go on with the results while it calls tools; gives its last answer."""
        while True:
            with self._generate(draft) as generation:
                self._generation = generation
                if self._cancelled.is_set():
                    generation.cancel()
                if not draft.steps:
                    self._planner.settle(draft, self._room)
                    yield Recalled(draft.injection, draft.plan)
                yield from _warned(draft)
                for piece in generation:
                    yield Delta(piece) if isinstance(piece, str) else piece
            stats = generation.stats
            draft.stats = stats if draft.stats is None else added_stats(draft.stats, stats)
            if self._toolbox is None or not generation.tool_calls or stats.finish_reason == "cancelled":
                return generation
            if sum(bool(step.tool_calls) for step in draft.steps) >= self.config.tool_rounds:
                text = f"the model has called tools {self.config.tool_rounds} times and wants to go on"
                draft.notes.append((text, "the setting tool_rounds allows more"))
                return generation
            yield from self._call_tools(draft, self._toolbox, generation)

    def _call_tools(self, draft: Draft, toolbox: Toolbox, generation: Reply) -> Iterator[Event]:
        """Carry out what an answer calls; both become steps of the turn."""
        draft.steps.append(message_of(generation, calls=generation.tool_calls))
        for call in generation.tool_calls:
            if self._cancelled.is_set():
                result = ToolResult(call.id, call.name, '{"error": "the user has stopped it"}', failed=True)
            else:
                result = toolbox.call(call)
            if result.error is not None:
                draft.notes.append((f"{call.name} failed: {result.error}", result.error.hint))
            draft.steps.append(Message("tool", result.text, tool_call_id=call.id))
            yield result

    def _generate(self, draft: Draft) -> Reply:
        """Start the answer; where the window is too small, much gives way before the turn is refused."""
        ways: tuple[Callable[[Draft, ContextOverflowError], None], ...]
        ways = (self._strip_old_tails, self._evict_more, self._evict_more, self._drop_tail)
        for give_way in ways:
            try:
                return self._begin(draft)
            except ContextOverflowError as error:
                give_way(draft, error)
        return self._begin(draft)

    def _strip_old_tails(self, draft: Draft, _: ContextOverflowError) -> None:
        self._room.strip_all(draft)

    def _evict_more(self, draft: Draft, error: ContextOverflowError) -> None:
        self._room.make(draft, self._exchanges, error.prompt_tokens)

    def _drop_tail(self, draft: Draft, _: ContextOverflowError) -> None:
        if draft.injection:
            draft.drop_tail()
            draft.notes.append(NO_ROOM_FOR_MEMORY)

    def _begin(self, draft: Draft) -> Reply:
        return self.engine.generate(
            draft.prompt,
            sampling=sampling_of(self.config, self.engine.info.sampling),
            max_tokens=self.config.max_tokens or self.engine.window_tokens,
            tools=self.tools,
        )

    def _record(self, draft: Draft, generation: Reply) -> Exchange | None:
        """Make the turn part of the conversation, unless it was cancelled before the answer's first piece."""
        if not generation.text and generation.stats.finish_reason == "cancelled" and not draft.steps:
            return None
        counts = generation.prompt_tokens_per_message[1:]  # the first is the system prompt
        for message, tokens in zip([*draft.history, draft.message, *draft.steps], counts, strict=True):
            message.tokens = tokens
        if draft.leaving:
            gone = {id(exchange) for exchange in draft.leaving}
            self._exchanges = [exchange for exchange in self._exchanges if id(exchange) not in gone]
            self._has_evicted = True
        self._snapshot = draft.snapshot
        self._compaction.kept(draft.snapshot.summary, self._exchanges)
        self._planner.shown(draft)
        draft.message.created_at = int(time.time())
        exchange = Exchange(draft.message, message_of(generation), steps=draft.steps)
        self._exchanges.append(exchange)
        return exchange

    def _hear(self, draft: Draft, exchange: Exchange) -> None:
        """The answer ends the turn for those that listen whom it is about."""
        exchange.is_heard, draft.is_heard = draft.is_heard, False
        if exchange.is_heard and self._dialogue is not None:
            self._dialogue.answered(exchange.answer.raw)

    def _store(self, draft: Draft, exchange: Exchange, *, archive: bool) -> None:
        """Write the exchange down; the first failure ends it: a locked database is waited for once."""
        if draft.private or not self._keeper.writes:
            return
        now = int(time.time())
        self._attempt(draft, "keeping this turn", lambda: self._write(draft, exchange, archive, now))

    def _write(self, draft: Draft, exchange: Exchange, archive: bool, now: int) -> None:
        model = self.engine.info.name
        self._keeper.write(exchange, model=model, archive=archive, now=now)
        if draft.leaving:
            self._keeper.note_left(draft.leaving, draft.snapshot.summary)
        session = self._keeper.session_id or ""
        if self._dialogue is not None and exchange.is_heard:
            self._dialogue.save(session)
        if self._traces is not None:
            summary = draft.snapshot.summary.text
            record = trace_of(draft, model=model, summary=summary, summary_tokens=self._room.count(summary))
            exchange.trace = self._traces.write(session, record, with_prompt=self.config.trace_prompts)

    def _let_go(self, draft: Draft) -> None:
        """What left the window is kept in memory, whatever it said, and may be recalled from now on."""
        leaving = draft.leaving
        if not leaving:
            return
        kept = [exchange for exchange in leaving if self._keeper.may_archive(exchange)]
        now = int(time.time())
        self._attempt(draft, "keeping what left the window", lambda: self._keeper.archive_all(kept, now))
        what = "exchange" if len(leaving) == 1 else f"{len(leaving)} exchanges"
        where = "kept in memory" if len(kept) == len(leaving) else "no longer part of this conversation"
        how = "left it with a summary" if draft.is_folded else "left it"
        draft.notes.append((f"the window was full: the oldest {what} {how}, {where}", ""))
        on_evicted = self._on_evicted
        if on_evicted is not None:
            left = messages_of(leaving)
            self._attempt(draft, "summing up what left the window", lambda: on_evicted(left))

    def _attempt(self, draft: Draft, what: str, action: Callable[[], _T]) -> _T | None:
        """The result of something that the answer does not depend on; a failure becomes a warning."""
        try:
            return action()
        except ShepherdError as error:
            draft.notes.append((f"{what} failed: {error}", error.hint))
        return None

    # ---- its parts

    def _use(self, parts: ConversationParts, summarizer: Summarizer | None) -> None:
        """Everything that depends on the model and on what it may know."""
        self.engine, self.memory, self.is_forgetful = parts.engine, parts.memory, parts.is_forgetful
        self._keeper, self._dialogue, self._traces = parts.keeper, parts.dialogue, parts.traces
        self._knowledge, self._planner = parts.knowledge, parts.planner
        self.extraction = parts.extraction
        self._open_toolbox()
        self._compaction.use(summarizer)
        self._snapshot = self._take_snapshot(self._compaction.summary)

    def _open_toolbox(self) -> None:
        """The tools of the conversation, and the room that their schemas leave."""
        has_memory = not self.is_forgetful and self.user_id not in ANONYMOUS_USERS
        self._toolbox = conversation_tools(
            self._config,
            self.memory if has_memory else None,
            self._knowledge if has_memory else None,
            self.user_id,
            refusal=lambda: "the user has switched the memory off for now" if self.private else "",
            writes=self._keeper.writes,
            fits=self._may_have,
            others=self._other_tools,
        )
        self._room = Room(
            self.engine,
            max_tokens=self._config.max_tokens,
            retention=self._config.injection_retention,
            tools=self.tools,
        )

    def _may_have(self, tools: Sequence[Tool]) -> bool:
        return self.engine.count_tokens(written(tools)) <= self.engine.window_tokens * _TOOLS_SHARE

    def _take_snapshot(self, summary: Summary, draft: Draft | None = None) -> Snapshot:
        """P0 to P2 as of now; a database that cannot be read costs the background, not the conversation."""
        explains = self.memory is not None and self.config.injection_enabled and not self.is_forgetful
        self._planner.forget_told()

        def take(knowledge: Knowledge | None) -> Snapshot:
            return take_snapshot(
                self.config,
                memory=explains,
                knowledge=knowledge,
                summary=summary,
                window_tokens=self.engine.window_tokens,
                count=self._room.count,
            )

        try:
            return take(self._knowledge)
        except StoreError as error:
            if draft is not None:
                draft.notes.append((f"background failed: {error}", error.hint))
            _log.info("snapshot: %s", error)
            return take(None)

    @contextmanager
    def _alone(self, with_what: str, hint: str) -> Iterator[None]:
        if not self._turn_lock.acquire(blocking=False):
            raise UsageError(f"this conversation is busy with {with_what}", hint=hint)
        try:
            yield
        finally:
            self._turn_lock.release()


def _history_share(plan: Plan) -> int:
    """Tokens that the history may have."""
    return next((share.granted for share in plan.shares if share.category == "history"), 0)


def _warned(draft: Draft) -> Iterator[Warned]:
    for message, hint in draft.take_notes():
        yield Warned(message, hint)
