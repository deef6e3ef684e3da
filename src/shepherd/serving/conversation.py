"""One turn of a client that keeps no state: the whole conversation comes in, an answer goes out.

The ledger gives earlier messages the tails they had, a plan adds one to the newest, and what leaves a full
window leaves at the same place with every request; so the KV cache matches to the end of the last answer.
Everything here blocks, and may be called from any thread.
"""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from shepherd.config import Config
from shepherd.context import (
    Draft,
    Restored,
    Room,
    begun_answer,
    conversation_hashes,
    prepare_prompt,
)
from shepherd.extraction import ExtractionWorker
from shepherd.inference import Engine
from shepherd.lru_cache import CachedFunction, LRUCache
from shepherd.memory import Memory
from shepherd.providers import ChatModel, RemoteModel, Reply
from shepherd.serving.chat_request import ChatRequest, grammar_of
from shepherd.serving.errors import Denied
from shepherd.serving.history import ClientHistory
from shepherd.serving.keeping import Keeper
from shepherd.serving.models import Models
from shepherd.serving.planned import Plans
from shepherd.serving.timing import Stopwatch
from shepherd.serving.turn import Turn
from shepherd.tools import Toolbox, memory_tools
from shepherd.types import Message, Sampling, Tool

__all__ = ["Conversations", "Turn", "sampling_of"]

_log = logging.getLogger(__name__)

_SAMPLING_SETTINGS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last_n")
# Answers whose sampled ids are kept for the request that brings their text back: four bytes a token.
_KEPT_ANSWERS, _KEPT_ANSWERS_BYTES = 4096, 16 << 20
# Read into tokens by an event loop itself: two milliseconds where no message was seen before.
_AT_ONCE_CHARS = 16_384
# Texts whose length in tokens is kept.
_COUNTED, _COUNTED_BYTES = 8192, 16 << 20
# Of an entry, beside its text: hash, key, objects.
_ENTRY_BYTES = 512


class Conversations:
    """Answers conversations of many users with the models of a server.

    Without `memory`, as with a provider whose memory is off, nothing is recalled or kept. With a `worker`
    what users say is queued for it.
    """

    def __init__(
        self,
        models: Models,
        *,
        memory: Memory | None,
        config: Config,
        writes_memory: bool = True,
        worker: ExtractionWorker | None = None,
    ) -> None:
        self.models = models
        self.config = config
        self._memory = memory
        self._writes = writes_memory
        self._keeper = None if memory is None else Keeper(memory, config, worker)
        self._plans = Plans(memory, config, tells_private=models.provider.is_local)
        # The same messages come with every request of a conversation.
        self._counted = CachedFunction(
            self._count, max_entries=_COUNTED, max_bytes=_COUNTED_BYTES, size_of=_bytes_of_count
        )
        self._answers: LRUCache[tuple[str, str], tuple[array[int], str]] = LRUCache(
            _KEPT_ANSWERS, max_bytes=_KEPT_ANSWERS_BYTES, size_of=_bytes_of_answer
        )

    def begin(self, request: ChatRequest, *, asked_at: float | None = None) -> Turn:
        """Start an answer. `asked_at`: when it was asked for (perf_counter), if a thread had to come first.

        Raises ContextOverflowError, before anything is decoded, when the newest turn alone does not fit;
        UsageError for what the model cannot do, Denied for what this user or this server cannot have.
        """
        waited_s = 0.0 if asked_at is None else time.perf_counter() - asked_at
        toolbox = self._toolbox(request)
        if toolbox is not None:
            request = replace(request, tools=(*request.tools, *toolbox.tools))
        model = self.models.take({*_set_in(self.config), *request.sampling}, uses_memory=request.uses_memory)
        try:
            watch = Stopwatch(waited_s)
            hashes = conversation_hashes(request.messages)
            restored = self._restored(request, hashes)
            count = self._counted if isinstance(model, Engine) else model.count_tokens
            history = ClientHistory.begin(restored)
            snapshot = self._plans.snapshot(request, restored, history.instructions, model, count)
            draft = history.draft(snapshot)
            room = Room(
                model,
                max_tokens=request.max_tokens or self.config.max_tokens,
                retention=self.config.injection_retention,
                tools=request.tools,
                count=count,
            )
            planner = injection_time = None
            if self._memory is not None and request.remembers:
                planner = self._plans.begin(request, draft, room, restored, hashes)
            plan = planner.plan if planner is not None else draft.planned
            prepare_prompt(draft, room, plan=plan)
            if planner is not None:
                injection_time = watch.read()
                self._plans.took(request.user_id, draft, injection_time.cpu_s)
            reply = begun_answer(
                draft,
                room,
                begin=lambda has_tools: self._ask(request, model, draft, room, has_tools=has_tools),
                plan_again=plan,
            )
        except BaseException:
            self.models.give_back(model)
            raise
        _log_notes(draft)
        return Turn(
            self,
            request,
            reply,
            model=model,
            draft=draft,
            room=room,
            history=history,
            planner=planner,
            injection_time=injection_time,
            toolbox=toolbox,
        )

    def begins_at_once(self, request: ChatRequest) -> bool:
        """Whether `begin` takes a millisecond or so and waits for nobody, so that an event loop may do it."""
        engine = self.models.engine
        if (
            engine is None
            or engine.is_making_prompt
            or request.tools
            or request.memory_tools
            or request.schema
        ):
            return False
        if sum(len(message.raw) for message in request.messages) > _AT_ONCE_CHARS:
            return False
        if self._memory is None or not request.remembers:
            return True
        return self._memory.recalls_at_once and self._plans.is_quick(request.user_id)

    def keeps(self, request: ChatRequest) -> bool:
        """Whether something will be written of it."""
        return self._keeper is not None and self._writes and request.remembers

    def go_on(self, turn: Turn) -> Reply:
        """For Turn.go_on alone: the next reply, to what the tools have found."""
        turn.room.max_tokens = turn.tokens_left or turn.room.max_tokens
        # What the client wants to be called has been called.
        request = replace(turn.request, tool_choice="auto")
        reply = begun_answer(
            turn.draft,
            turn.room,
            begin=lambda has_tools: self._ask(
                request, turn.model, turn.draft, turn.room, has_tools=has_tools
            ),
            plan_again=lambda: None,
        )
        _log_notes(turn.draft)
        return reply

    def count_tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Tokens of a prompt as it stands, without what memory would add; about as many, if it is remote."""
        engine = self.models.engine
        if engine is not None:
            return engine.count_prompt_tokens(messages, tools)
        model = self.models.take()
        try:
            return sum(model.count_tokens(message.sent) for message in messages)
        finally:
            self.models.give_back(model)

    def ended(self, turn: Turn, *, failed: bool) -> None:
        """For Turn.end alone."""
        self.models.give_back(turn.model)
        request, answer = turn.request, turn.answer
        reason = turn.stats.finish_reason
        if failed or (reason == "cancelled" and not answer.raw):
            return
        key = conversation_hashes([*turn.history.messages, answer])[-1]
        if answer.token_ids:
            self._answers.put((request.user_id, key), (array("i", answer.token_ids), answer.thought))
        if turn.planner is not None:
            self._plans.ended(turn.planner, request.user_id, answer, key)
        if self._keeper is not None and self.keeps(request):
            self._keeper.keep(
                request.user_id,
                turn.draft,
                turn.history,
                answer,
                planner=turn.planner,
                last_text=turn.last_text,
                is_whole=reason != "cancelled",
                model_name=self.models.name,
                token_counts=turn.reply.prompt_tokens_per_message,
            )

    def _count(self, text: str) -> int:
        assert self.models.engine is not None
        return self.models.engine.count_tokens(text)

    def _restored(self, request: ChatRequest, hashes: Sequence[str]) -> Restored:
        """The conversation with the tails that it had, and our answers as they were sampled."""
        restored = Restored(list(request.messages), 0, frozenset())
        if self._keeper is not None and request.remembers:
            restored = self._keeper.restore(request.messages, request.user_id, hashes)
        for i, message in enumerate(restored.messages):
            if message.role == "assistant" and (kept := self._answers.get((request.user_id, hashes[i]))):
                answer = restored.messages[i] = message.copy()
                answer.token_ids, answer.thought = tuple(kept[0]), kept[1]
        return restored

    def _toolbox(self, request: ChatRequest) -> Toolbox | None:
        """The tools of memory for this user, where they are asked for. Denied where they cannot be had."""
        if not request.memory_tools:
            return None
        if self._memory is None:
            raise Denied(400, "no_memory", "memory_tools: there is no memory here", param="memory_tools")
        if not request.uses_memory:
            raise Denied(400, "invalid_request", "memory_tools: not without memory", param="memory_tools")
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
                400, "invalid_request", "memory_tools: one of the tools has the name of ours", param="tools"
            )
        return Toolbox(tools)

    def _ask(
        self, request: ChatRequest, model: ChatModel, draft: Draft, room: Room, *, has_tools: bool
    ) -> Reply:
        sampling = sampling_of(self.config, model.info.sampling, request.sampling)
        max_tokens = room.max_tokens or model.window_tokens
        tools = request.tools if has_tools and request.tool_choice != "none" else ()
        is_forced = bool(tools) and request.tool_choice != "auto"
        must_call = is_forced and (request.tool_choice == "required" or request.tool_choice)
        if isinstance(model, RemoteModel):
            self._refuse_for_remote(request, is_forced=is_forced)
            return model.generate(
                draft.prompt,
                sampling=sampling,
                max_tokens=max_tokens,
                tools=tools,
                stop=request.stop,
                schema=request.schema,
                must_call=must_call,
            )
        assert isinstance(model, Engine)
        return model.generate(
            draft.prompt,
            sampling=sampling,
            max_tokens=max_tokens,
            stop=request.stop,
            grammar=grammar_of(request),
            tools=tools,
            logprobs=request.logprobs,
            must_call=must_call,
        )

    def _refuse_for_remote(self, request: ChatRequest, *, is_forced: bool) -> None:
        provider = self.models.provider
        schema = request.schema
        asked = {
            "stop": ("stop", bool(request.stop)),
            "json": (request.schema_field, schema is not None and schema.is_any_object),
            "schema": (request.schema_field, schema is not None and not schema.is_any_object),
            "must_call": ("tool_choice", is_forced),
            "logprobs": ("logprobs", request.logprobs is not None),
        }
        for option, (field, is_asked) in asked.items():
            if is_asked and option not in provider.row.options:
                raise Denied(
                    400,
                    "unsupported_parameter",
                    f"{field}: provider {provider.name} ({provider.kind}) cannot be asked for that "
                    "(leave it out, or serve a model on this machine)",
                    param=field,
                )


def _log_notes(draft: Draft) -> None:
    for note, _ in draft.take_notes():
        _log.warning("%s", note)


def sampling_of(config: Config, recommended: Sampling, asked: Mapping[str, float]) -> Sampling:
    """What the client asks for, else what is set, else what the model's file recommends."""
    chosen: dict[str, Any] = {name: getattr(config, name) for name in _set_in(config)}
    return replace(recommended, **{"seed": None, **chosen, **asked})


def _bytes_of_answer(key: tuple[str, str], kept: tuple[array[int], str]) -> int:
    return _ENTRY_BYTES + len(kept[0]) * kept[0].itemsize + 4 * len(kept[1])


def _bytes_of_count(key: tuple[Hashable, ...], count: int) -> int:
    return _ENTRY_BYTES + 4 * len(str(key[0]))


def _set_in(config: Config) -> list[str]:
    """Names of the sampling settings that say something."""
    named = [name for name in _SAMPLING_SETTINGS if not isinstance(getattr(config, name), str)]  # "auto"
    return [*named, *(["seed"] if config.seed >= 0 else [])]
