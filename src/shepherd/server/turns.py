"""Turns of a server, as its clients see them.

Clients see neither calls of the memory's tools nor their results: they could not send them back unchanged.
"""

from __future__ import annotations

import logging
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from shepherd.config import Config
from shepherd.errors import ContextOverflowError, StoreError, TemplateError
from shepherd.extraction import ExtractionWorker
from shepherd.inference import Engine
from shepherd.inference.template import TemplateOptions
from shepherd.lru_cache import CachedFunction, LRUCache
from shepherd.memory import Memory, SessionMark
from shepherd.pictures import has_pictures
from shepherd.prompt import Draft, Snapshot, Summarizer, Summary, WindowBudget
from shepherd.prompt.ledger import Restored, conversation_hashes
from shepherd.prompt.overflow import prepare_prompt
from shepherd.providers import ChatModel, Reply
from shepherd.providers.chat_completions import from_provider
from shepherd.server.chat import ChatRequest, grammar_of
from shepherd.server.contents import check_pictures
from shepherd.server.errors import Denied, invalid, refuse_gone
from shepherd.server.models import Models
from shepherd.server.state import InjectionTime, Stopwatch
from shepherd.server.stateless import (
    ClientHistory,
    FinishedTurn,
    Plans,
    RequestPlanner,
    RequestStore,
    Retries,
    StoredTurn,
)
from shepherd.tools import Toolbox, memory_tools
from shepherd.turn import GenerationOptions, Turn, former_facts, own_facts, refused_values, sampling_of
from shepherd.turn.read_ahead import ReadingsAhead, foresee
from shepherd.turn.small_model import Promise
from shepherd.types import FinishReason, Injection, Message, Piece, Tool, ToolCall, TurnStats

__all__ = ["Conversations", "ServedTurn"]


_log = logging.getLogger(__name__)

_PLAIN = TemplateOptions()
_EFFORT = "reasoning_effort"  # ignored for a provider's model, as ever
# Between the texts of a reply that calls a tool and of the next one.
_BREAK = "\n\n"


@dataclass(slots=True, eq=False)
class ServedTurn:
    """Iterate `reply`, call `next_reply()` until it returns None, then `end()`.

    `filtered` turns pieces of a reply into those of the client. `cancel` may be called from any thread, other
    methods from one thread at a time.
    """

    owner: Conversations
    request: ChatRequest
    turn: Turn
    history: ClientHistory
    planner: RequestPlanner | None = None
    injection_time: InjectionTime | None = None
    own_names: frozenset[str] = frozenset()
    # Where the turn was stored, once it has ended.
    stored: StoredTurn = field(default_factory=StoredTurn)
    # What was stored of the conversation when the turn began.
    mark: SessionMark = field(default_factory=SessionMark)
    begun_at: float = field(default_factory=time.monotonic)
    # Ended by the user, unlike by the loss of the client.
    is_stopped: bool = False
    # Others to the same request: they are generated beside this one, and not stored.
    others: tuple[ServedTurn, ...] = ()
    is_first: bool = True
    # Texts of the replies before this one.
    _said: list[str] = field(default_factory=list)
    _needs_break: bool = False
    # Text of this reply that the client has, up to the call that cuts it.
    _shown: list[str] = field(default_factory=list)
    _stats: TurnStats | None = None
    _has_failed: bool = False
    _is_discarded: bool = False
    # A client may disconnect, which ends the turn, while the next reply begins.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def reply(self) -> Reply:
        """Current reply."""
        return self.turn.reply

    @property
    def draft(self) -> Draft:
        """Prompt of the turn, with its plan."""
        return self.turn.draft

    @property
    def injection(self) -> Injection:
        """Injection into the newest message."""
        return self.draft.injection

    @property
    def stats(self) -> TurnStats:
        """Cost of all replies together, once the turn has ended."""
        assert self._stats is not None
        return self._stats

    @property
    def filters_pieces(self) -> bool:
        """True if `filtered` and `next_reply` have anything to do."""
        return bool(self.own_names) or not self.request.parallel_calls

    @property
    def answer(self) -> Message:
        """The answer as the client has it; with token ids only if it was sampled exactly so."""
        reply = self.reply
        text, calls = _joined([*self._said, self.last_text]), self._clients_calls()
        is_as_sampled = text == reply.text and calls == reply.tool_calls
        ids = tuple(reply.token_ids) if is_as_sampled else ()
        begun, model = self.request.prefill, self.turn.model
        if begun:
            text = begun + text
            ids = (*model.tokenize_prefill(begun), *ids) if ids and isinstance(model, Engine) else ()
        return Message("assistant", text, token_ids=ids, tool_calls=calls, thought=reply.thought)

    @property
    def last_text(self) -> str:
        """Text of the last reply that the client has."""
        return "".join(self._shown) if self.turn.is_cut else self.reply.text

    def prompt_text(self) -> str | None:
        """Return the prompt of the newest reply; None for a remote model."""
        model, request = self.turn.model, self.request
        if not isinstance(model, Engine):
            return None
        tools = request.tools if request.tool_choice != "none" else ()
        return model.render(self.draft.prompt, tools, template=request.template) + request.prefill

    def filtered(self, piece: Piece) -> Piece | None:
        """Return the piece for the client, None for none. Cuts a reply after the only call it may have."""
        if self.turn.is_cut:
            return None
        if isinstance(piece, ToolCall):
            if piece.name in self.own_names:
                return None
            if not self.request.parallel_calls:
                self.turn.is_cut = True
                self.reply.cancel()
            return piece
        if isinstance(piece, str) and not self.request.parallel_calls:
            self._shown.append(piece)
        if isinstance(piece, str) and piece and self._needs_break:
            self._needs_break = False
            return _BREAK + piece
        return piece

    def next_reply(self) -> Reply | None:
        """Run the server's tools that the reply calls, and return the next reply; None after the last one.

        Calls of the client's tools end the answer. Raises what beginning an answer raises.
        """
        with self._lock:
            with self.reply:
                pass
            said = self.last_text
            if not self.turn.continues():
                return None
            for _ in self.turn.run_tools():
                pass
            if self.turn.other_calls:
                return None
            try:
                reply = self.turn.next_reply()
            except BaseException:
                self._has_failed = True
                raise
            finally:
                self.log_notes()
            self._said.append(said)
            self._shown = []
            self._needs_break = bool(_joined(self._said).strip())
        return reply

    def cancel(self) -> None:
        """Cancel the turn; its text so far is kept."""
        self.turn.cancel()

    def discard(self) -> None:
        """Cancel the turn, and store nothing of it; if it is being stored, wait for the end of that."""
        self.cancel()
        with self._lock:
            self._is_discarded = True
            self.stored = StoredTurn(is_deleted=True)

    def stop(self) -> None:
        """Cancel the turn, as its user wants; its message is stored, also if there is no text yet."""
        self.is_stopped = True
        self.cancel()

    def end(self, *, failed: bool = False) -> TurnStats:
        """Stop the reply, store the turn unless it `failed`, and give the model back; return the cost.

        May be called twice. Must be called before the client learns of the end: its next request may follow
        at once.
        """
        with self._lock:
            if self._stats is None:
                with self.reply:
                    pass
                cost = self.turn.stats
                self._stats = replace(
                    cost,
                    finish_reason=self._reason(),
                    stopped_by=-1 if self.turn.is_cut else cost.stopped_by,
                    recall_ms=self.injection.recall_us / 1000 if self.is_first else 0.0,
                    evicted_turns=self.history.evicted_turns(self.draft),
                )
                self.log_notes()
                self.owner.ended(self, failed=failed or self._has_failed or self._is_discarded)
        return self._stats

    def log_notes(self) -> None:
        """Log failures that did not end the turn: no field of an answer has them."""
        for note, _ in self.draft.take_notes():
            _log.warning("%s", note)
        while self.draft.remarks:
            _log.info("%s", self.draft.remarks.pop(0))

    def _reason(self) -> FinishReason:
        if self.turn.is_cut:
            return "tool_calls"
        reason = self.reply.stats.finish_reason
        if not self.turn.own_calls or self.turn.other_calls:
            return reason
        # It would have continued.
        return "cancelled" if self.turn.is_cancelled else "length"

    def _clients_calls(self) -> tuple[ToolCall, ...]:
        calls = self.turn.other_calls
        return calls if self.request.parallel_calls else calls[:1]


def _joined(texts: Sequence[str]) -> str:
    """Join the texts of several replies as the client received them."""
    whole = ""
    for text in texts:
        whole += (_BREAK if text and whole.strip() else "") + text
    return whole


# Answers whose sampled ids are kept for the next request of their conversation: four bytes a token.
_KEPT_ANSWERS, _KEPT_ANSWERS_BYTES = 4096, 16 << 20
_KEPT_COUNTS = 16_384
# Characters that the event loop tokenises itself: two milliseconds for new messages.
_AT_ONCE_CHARS = 16_384
# Texts whose number of tokens is kept.
_COUNTED, _COUNTED_BYTES = 8192, 16 << 20
# Bytes of an entry beside its text: hash, key, objects.
_ENTRY_BYTES = 512


class Conversations:
    """Answers conversations of many users with the models of a server.

    Without `memory` nothing is recalled or stored. A `worker` extracts facts from what users say. `retries`
    are shared with the server's other models.
    """

    def __init__(
        self,
        models: Models,
        *,
        memory: Memory | None,
        config: Config,
        writes_memory: bool = True,
        worker: ExtractionWorker | None = None,
        summarizer: Summarizer | None = None,
        retries: Retries | None = None,
    ) -> None:
        self.models = models
        self.config = config
        self.summarizer = summarizer
        self._memory = memory
        self._writes = writes_memory
        self._store = None if memory is None else RequestStore(memory, config, worker, retries)
        self._plans = Plans(memory, config, tells_private=models.provider.is_local, summarizer=summarizer)
        # The same messages come with every request of a conversation.
        self._counted = CachedFunction(
            self._count,
            max_entries=_COUNTED,
            max_bytes=_COUNTED_BYTES,
            size_of=lambda key, _: _ENTRY_BYTES + 4 * len(str(key[0])),
        )
        # Tokens of messages, by user and hash of the conversation up to them.
        self._tokens: LRUCache[tuple[str, str], int] = LRUCache(_KEPT_COUNTS)
        # Stored conversations whose answers were read from the memory.
        self._recovered: LRUCache[tuple[str, str], bool] = LRUCache(_KEPT_ANSWERS)
        self._ahead = ReadingsAhead()
        self._answers: LRUCache[tuple[str, str], tuple[array[int], str]] = LRUCache(
            _KEPT_ANSWERS,
            max_bytes=_KEPT_ANSWERS_BYTES,
            size_of=lambda _, kept: _ENTRY_BYTES + kept[0].itemsize * len(kept[0]) + 4 * len(kept[1]),
        )

    def begin(
        self,
        request: ChatRequest,
        *,
        asked_at: float | None = None,
        cancelled: threading.Event | None = None,
    ) -> ServedTurn:
        """Start an answer. `asked_at` (perf_counter) is when it was queued for this thread, if it was.

        Raises ContextOverflowError, before anything is decoded, if the newest turn alone does not fit;
        UsageError for what the model cannot do; Denied for what this user or this server cannot have, and
        once `cancelled` is set, when the client has disconnected; nothing is generated then.
        """
        cancelled = cancelled or threading.Event()
        refuse_gone(cancelled.is_set())
        self._ahead.stop(request.user_id)
        waited_s = 0.0 if asked_at is None else time.perf_counter() - asked_at
        toolbox = self._toolbox(request)
        own_names = frozenset(tool.name for tool in (toolbox.tools if toolbox is not None else ()))
        if toolbox is not None:
            request = replace(request, tools=(*request.tools, *toolbox.tools))
        model = self.models.take({*self.config.sampling, *request.sampling}, uses_memory=request.uses_memory)
        try:
            check_pictures(request.messages, model)
            if not isinstance(model, Engine):
                request = replace(request, messages=tuple(map(from_provider, request.messages)))
            options = self._options(request, model)
            watch = Stopwatch(waited_s)
            hashes = conversation_hashes(request.messages)
            restored = self._restored(request, hashes)
            count = self._counted if self.models.is_local else model.count_tokens
            history = ClientHistory.begin(restored)

            def take_snapshot(summary: Summary) -> Snapshot:
                return self._plans.snapshot(
                    request, restored, history.instructions, model, count, summary=summary
                )

            draft = history.draft(take_snapshot(restored.summary))
            budget = WindowBudget(
                model,
                max_tokens=request.max_tokens or self.config.max_tokens,
                retention=self.config.injection_retention,
                tools=request.tools,
                count=count,
            )
            planner = injection_time = None
            if self._memory is not None and request.remembers:
                planner = self._plans.begin(request, draft, budget, history, hashes, take_snapshot)
            turn = Turn(
                model,
                draft,
                budget,
                options,
                plan=planner.plan if planner is not None else draft.planned,
                toolbox=toolbox,
                own_names=own_names,
                cancelled=cancelled,
            )
            turn.prepare(compact=planner.compact if planner is not None else lambda: None)
            if planner is not None:
                injection_time = watch.read()
                self._plans.record_cost(request.user_id, draft, injection_time.cpu_s)
            refuse_gone(cancelled.is_set())
            turn.start()
        except BaseException:
            self.models.give_back(model)
            raise
        served = ServedTurn(
            self,
            request,
            turn,
            history,
            planner=planner,
            injection_time=injection_time,
            own_names=own_names,
        )
        served.log_notes()
        self.mark(served)
        if request.n > 1:
            served.others = self._others(served)
        return served

    def read_ahead(self, request: ChatRequest) -> bool:
        """Begin to read what precedes the newest message, which is still being written; whether it does.

        It pauses while answers are made, and the user's next request ends it. Raises Denied as `begin` does.
        """
        engine = self.models.engine
        if engine is None or not self.config.read_ahead or request.template != _PLAIN:
            return False
        toolbox = self._toolbox(request)
        tools = (*request.tools, *(toolbox.tools if toolbox is not None else ()))
        hashes = conversation_hashes(request.messages)
        restored = self._restored(request, hashes)
        history = ClientHistory.begin(restored)

        def take_snapshot(summary: Summary) -> Snapshot:
            return self._plans.snapshot(
                request, restored, history.instructions, engine, self._counted, summary=summary
            )

        draft = history.draft(take_snapshot(restored.summary))
        draft.private = True  # nothing is recalled for half a message
        budget = WindowBudget(
            engine,
            max_tokens=request.max_tokens or self.config.max_tokens,
            retention=self.config.injection_retention,
            tools=tools,
            count=self._counted,
        )
        try:
            if self._memory is not None and request.remembers:
                planner = self._plans.begin(request, draft, budget, history, hashes, take_snapshot)
                foresee(
                    draft,
                    planner.exchanges,
                    budget,
                    planner.compaction,
                    plan=planner.plan,
                    take_snapshot=take_snapshot,
                )
            else:
                prepare_prompt(draft, budget, plan=draft.planned)
            *known, _ = draft.prompt
            reading = engine.read_ahead(known, tools, owner=self._files_owner(request))
        except (ContextOverflowError, TemplateError) as error:
            _log.debug("read_ahead: %s", error)  # the turn will say so
            return False
        finally:
            draft.restore_tails()
        return self._ahead.put(request.user_id, reading)

    def _others(self, first: ServedTurn) -> tuple[ServedTurn, ...]:
        """Start the other answers to a request. They share the first one's prompt, which is decoded once."""
        others: list[ServedTurn] = []
        request = first.request
        try:
            for i in range(1, request.n):
                model = self.models.take(uses_memory=request.uses_memory)
                try:
                    turn = first.turn.another(i)
                except BaseException:
                    self.models.give_back(model)
                    raise
                others.append(ServedTurn(self, request, turn, first.history, is_first=False))
        except BaseException:
            for served in (first, *others):
                served.cancel()
                served.end(failed=True)
            raise
        return tuple(others)

    def begins_at_once(self, request: ChatRequest) -> bool:
        """Return True if `begin` is quick and waits for nothing: the event loop may call it."""
        engine = self.models.engine
        if engine is None or engine.is_locked or request.tools or request.memory_tools or request.schema:
            return False
        if request.n > 1 or has_pictures(request.messages) or request.grammar or request.prefill:
            return False
        if request.template != _PLAIN:  # the first one with these options compiles the layouts anew
            return False
        if sum(len(message.content) + len(message.thought) for message in request.messages) > _AT_ONCE_CHARS:
            return False
        if self._memory is None or not request.remembers:
            return True
        return self._memory.recalls_at_once and self._plans.is_quick(request.user_id)

    def keeps(self, request: ChatRequest) -> bool:
        """Return True if the turn of this request will be stored."""
        return self._store is not None and self._writes and request.remembers

    def mark(self, turn: ServedTurn) -> None:
        """Note what is stored of the turn's conversation: if it is deleted, the turn is not stored."""
        if self._store is not None and self.keeps(turn.request):
            request = turn.request
            turn.mark = self._store.mark(turn.history, request.user_id, request.session)

    def count_tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Count the tokens of a prompt without what memory would add; for a remote model about."""
        model = self.models.take()
        try:
            return model.count_prompt_tokens(messages, tools)
        finally:
            self.models.give_back(model)

    def ended(self, turn: ServedTurn, *, failed: bool) -> None:
        """Store a turn that has ended. Called by ServedTurn.end."""
        self.models.give_back(turn.turn.model)
        request, answer = turn.request, turn.answer
        reason = turn.stats.finish_reason
        if failed or (reason == "cancelled" and not answer.raw and not turn.is_stopped):
            return
        hashes = conversation_hashes([*turn.history.messages, answer])
        key = hashes[-1]
        self._note_tokens(turn, hashes)
        if answer.token_ids:
            self._answers.put((request.user_id, key), (array("i", answer.token_ids), answer.thought))
        if turn.planner is not None:
            self._plans.ended(turn.planner, request.user_id, answer, key)
        if self._store is not None and turn.is_first and self.keeps(request):
            turn.stored = self._store.write(
                FinishedTurn(
                    request.user_id,
                    turn.draft,
                    turn.history,
                    answer,
                    planner=turn.planner,
                    last_text=turn.last_text,
                    is_whole=reason != "cancelled",
                    model_name=self.models.name,
                    stats=turn.stats,
                    mark=turn.mark,
                    session_name=request.session,
                    is_stopped=turn.is_stopped,
                    begun_at=turn.begun_at,
                )
            )

    def _note_tokens(self, turn: ServedTurn, hashes: Sequence[str]) -> None:
        """Keep the engine's token counts of the messages for the next request."""
        key_of = {id(message): key for message, key in zip(turn.history.messages, hashes, strict=False)}
        counts = turn.reply.prompt_tokens_per_message
        for message, tokens in zip(turn.draft.prompt, counts, strict=False):
            if key := key_of.get(id(message)):
                # Not only if it differs from our own estimate: what was counted before may have had a tail.
                known = (turn.request.user_id, key)
                if self._tokens.get(known) != tokens:
                    self._tokens.put(known, tokens)
            message.tokens = tokens
        if turn.answer.token_ids:
            self._tokens.put((turn.request.user_id, hashes[-1]), len(turn.answer.token_ids))

    def _restored(self, request: ChatRequest, hashes: Sequence[str]) -> Restored:
        """Return the conversation with its earlier tails, and the answers with their sampled ids."""
        restored = Restored(list(request.messages), 0, frozenset())
        if self._store is not None and request.remembers:
            restored = self._store.restore(request.messages, request.user_id, hashes, request.session)
        self._recover_answers(restored, request.user_id, hashes)
        for i, message in enumerate(restored.messages[:-1]):
            message.tokens = self._tokens.get((request.user_id, hashes[i])) or 0
            if message.role == "assistant" and (kept := self._answers.get((request.user_id, hashes[i]))):
                answer = restored.messages[i] = message.copy()
                answer.token_ids, answer.thought = tuple(kept[0]), kept[1]
        return restored

    def _recover_answers(self, restored: Restored, user_id: str, hashes: Sequence[str]) -> None:
        """Read the sampled ids of a stored conversation, once: this process did not make its answers."""
        unknown = [
            i
            for i, message in enumerate(restored.messages[:-1])
            if message.role == "assistant" and self._answers.get((user_id, hashes[i])) is None
        ]
        key = user_id, restored.session
        if not unknown or self.models.engine is None or self._memory is None or self._recovered.get(key):
            return
        if not restored.session:
            return
        self._recovered.put(key, True)
        try:
            stored = self._memory.load_session(restored.session, user_id)
        except StoreError as error:
            _log.info("the ids of earlier answers: %s", error)
            return
        said = {
            message.raw: message for message in stored if message.role == "assistant" and message.token_ids
        }
        for i in unknown:
            if answer := said.get(restored.messages[i].content):
                self._answers.put((user_id, hashes[i]), (array("i", answer.token_ids), answer.thought))

    def _count(self, text: str) -> int:
        """Count the tokens of a text; the model is local, and loaded."""
        assert self.models.engine is not None
        return self.models.engine.count_tokens(text)

    def _toolbox(self, request: ChatRequest) -> Toolbox | None:
        """Return the memory tools of this user if the request asks for them. Denied if there are none."""
        if not request.memory_tools:
            return None
        if request.prefill:
            raise invalid("messages", "with memory_tools, the last one must be the user's or a tool's")
        if self._memory is None:
            raise invalid("memory_tools", "there is no memory here", "no_memory")
        if not request.uses_memory:
            raise invalid("memory_tools", "not without memory")
        if request.n > 1:
            raise invalid("n", "with memory_tools, there is one answer: each would change the memory")
        if not request.remembers:
            raise Denied(400, "no_user", "memory_tools: say whose memory it is about", param="user")
        tools = memory_tools(
            self._memory,
            request.user_id,
            refusal=lambda: "",
            writes=self._writes,
            keeps_secrets=self.config.memory_extraction_secrets,
        )
        taken = {tool.name for tool in request.tools}
        if any(entry.tool.name in taken for entry in tools):
            raise Denied(
                400, "invalid_request", "memory_tools: one tool has the name of a memory tool", param="tools"
            )
        return Toolbox(tools)

    def _options(self, request: ChatRequest, model: ChatModel) -> GenerationOptions:
        """Return the options of the replies; Denied for what this kind of model cannot do."""
        extra: dict[str, Any] = {"stop": request.stop}
        if isinstance(model, Engine):
            extra |= {"grammar": grammar_of(request), "logprobs": request.logprobs}
            extra |= {"template": request.template, "prefill": request.prefill}
        else:
            self._refuse_for_remote(request)
            extra["schema"] = request.schema
        return GenerationOptions(
            replace(
                sampling_of(self.config, model.info.sampling, request.sampling), logit_bias=request.logit_bias
            ),
            request.tools,
            request.tool_choice,
            tool_rounds=self.config.tool_rounds,
            total_tokens=request.max_tokens,
            extra=extra,
            promise=Promise(
                self.keeps(request),
                self.config.memory_extraction_secrets,
                partial(own_facts, self._memory, request.user_id),
            ),
            refused=partial(refused_values, self._memory, request.user_id),
            former=partial(former_facts, self._memory, request.user_id),
            owner=self._files_owner(request),
            user=request.user_id,
        )

    def _files_owner(self, request: ChatRequest) -> str:
        """Return whose files the conversation may be kept in; "" for one that is not stored."""
        if self._memory is None or not self.keeps(request):
            return ""
        return self._memory.files_owner(request.user_id)

    def _refuse_for_remote(self, request: ChatRequest) -> None:
        is_forced = bool(request.tools) and request.tool_choice not in ("auto", "none")
        provider = self.models.provider
        schema, template = request.schema, request.template
        asked = {
            "stop": ("stop", bool(request.stop)),
            "json": (request.schema_field, schema is not None and schema.is_any_object),
            "schema": (request.schema_field, schema is not None and not schema.is_any_object),
            "must_call": ("tool_choice", is_forced),
            "logprobs": ("logprobs", request.logprobs is not None),
            "logit_bias": ("logit_bias", bool(request.logit_bias)),
            "n": ("n", request.n > 1),
            "grammar": ("grammar", bool(request.grammar)),
            "prefill": ("messages", bool(request.prefill)),
            "template": ("chat_template_kwargs", any(name != _EFFORT for name, _ in template.variables)),
        }
        for option, (param, is_asked) in asked.items():
            if is_asked and option not in provider.row.options:
                raise invalid(
                    param,
                    f"provider {provider.name} ({provider.kind}) cannot be asked for that "
                    "(leave it out, or serve a model on this machine)",
                    "unsupported_parameter",
                )
