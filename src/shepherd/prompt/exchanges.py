"""Exchanges: each a message, the steps of the model, and its answer; and how memory is taken out of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shepherd.prompt.eviction import strip_tails
from shepherd.types import Message, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.providers import Reply

__all__ = ["Exchange", "added_stats", "hide_memory", "message_of", "messages_of", "paired", "with_recall"]


@dataclass(slots=True)
class Exchange:
    """A message of the user and its answer, and where they were written.

    `steps` lie between: answers that called tools, and the tools' results. `is_heard`: the registry of
    entities knows it. `trace`: its number among the traces of the session. `is_private`: it was said while
    memory was off, and nothing of it may be written down. `key` identifies it where each request makes new
    objects of the same messages.
    """

    user: Message
    answer: Message
    in_session: bool = False
    memory_id: int | None = None
    steps: list[Message] = field(default_factory=list)
    is_heard: bool = False
    trace: int | None = None
    is_private: bool = False
    key: str = ""

    @property
    def identity(self) -> str | int:
        """A value that is the same for the same exchange, and for no other that exists."""
        return self.key or id(self)


def messages_of(exchanges: Iterable[Exchange]) -> list[Message]:
    """All messages, in order."""
    return [m for exchange in exchanges for m in (exchange.user, *exchange.steps, exchange.answer)]


def paired(messages: Sequence[Message]) -> list[Exchange]:
    """Whole exchanges only: a process that died between two writes leaves a question without its answer."""
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            turns.append([])
        if turns and message.role != "system":
            turns[-1].append(message)
    return [
        Exchange(turn[0], turn[-1], in_session=True, steps=turn[1:-1])
        for turn in turns
        if turn[-1].role == "assistant" and not turn[-1].tool_calls and _is_answered(turn[1:-1])
    ]


def _is_answered(steps: Sequence[Message]) -> bool:
    """Whether each call has its result, and each result its call."""
    called = [call.id for step in steps for call in step.tool_calls]
    results = [step.tool_call_id for step in steps if step.role == "tool"]
    return called == results and all(step.tool_calls or step.role == "tool" for step in steps)


def added_stats(first: TurnStats, then: TurnStats) -> TurnStats:
    """What two answers of one turn cost together; the prompt is that of the second.

    What the first one wrote is in the second one's prompt, and was not read.
    """
    decoded = first.decoded_tokens + then.decoded_tokens
    return replace(
        then,
        reused_tokens=max(0, then.prompt_tokens - decoded),
        decoded_tokens=min(decoded, then.prompt_tokens),
        generated_tokens=first.generated_tokens + then.generated_tokens,
        prefill_ms=first.prefill_ms + then.prefill_ms,
        ttft_ms=first.ttft_ms,
        decode_ms=first.decode_ms + then.decode_ms,
        total_ms=first.total_ms + then.total_ms,
        warnings=first.warnings + then.warnings,
        is_estimated=first.is_estimated or then.is_estimated,
    )


def with_recall(stats: TurnStats, recall_ms: float) -> TurnStats:
    """The engine's times begin after recall; the user's began before."""
    return replace(
        stats, recall_ms=recall_ms, ttft_ms=stats.ttft_ms + recall_ms, total_ms=stats.total_ms + recall_ms
    )


def message_of(generation: Reply, *, calls: tuple[ToolCall, ...] = ()) -> Message:
    """An answer as a message; with calls only if they get results."""
    ids = tuple(generation.token_ids)
    return Message(
        "assistant",
        generation.text,
        token_ids=ids,
        tokens=len(ids),
        created_at=int(time.time()),
        tool_calls=calls,
        thought=generation.thought,
    )


_HIDDEN = '{"hidden": "read from a memory that is off now"}'


def hide_memory(exchanges: Iterable[Exchange], other_tools: Collection[str]) -> None:
    """Take tails off, and what Shepherd's own tools were asked and found; calls of `other_tools` stay.

    A tool that nobody knows any more counts as Shepherd's own. `raw` of each message stays as it is.
    """
    for exchange in exchanges:
        strip_tails([exchange.user])
        own = {call.id for step in exchange.steps for call in step.tool_calls if call.name not in other_tools}
        for step in exchange.steps:
            if step.role == "tool" and step.tool_call_id in own:
                step.sent, step.tokens = _HIDDEN, 0
            step.tool_calls = tuple(_hidden(call) if call.id in own else call for call in step.tool_calls)


def _hidden(call: ToolCall) -> ToolCall:
    return replace(call, arguments="{}")
