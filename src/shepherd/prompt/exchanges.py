"""Exchanges: a message of the user, the steps of the model and its answer; tails, and hiding memory in
them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from shepherd._native.tokens import stripped_tokens
from shepherd.types import Message, ToolCall, TurnStats

if TYPE_CHECKING:
    from shepherd.providers import Reply

__all__ = [
    "Exchange",
    "added_stats",
    "has_tail",
    "hide_memory",
    "message_of",
    "messages_of",
    "paired",
    "strip_tails",
    "tail_tokens",
    "turns",
    "with_recall",
]


@dataclass(slots=True)
class Exchange:
    """A message of the user and its answer, and where they are stored.

    `steps` are the calls of tools and their results in between. With `is_registered` the dialogue contains
    it, or may do so if it was read from the memory. `is_private` exchanges must not be stored.
    `key` identifies the exchange where each request makes new objects of the same messages.
    """

    user: Message
    answer: Message
    in_session: bool = False
    memory_id: int | None = None
    steps: list[Message] = field(default_factory=list)
    is_registered: bool = False
    is_private: bool = False
    key: str = ""

    @property
    def identity(self) -> str | int:
        """Value that identifies the exchange among all that exist."""
        return self.key or id(self)


def messages_of(exchanges: Iterable[Exchange]) -> list[Message]:
    """Return all messages, in order."""
    return [m for exchange in exchanges for m in (exchange.user, *exchange.steps, exchange.answer)]


def paired(messages: Sequence[Message]) -> list[Exchange]:
    """Return the complete exchanges; a process that died between two writes leaves a question without an
    answer.
    """
    turns: list[list[Message]] = []
    for message in messages:
        if message.role == "user":
            turns.append([])
        if turns and message.role != "system":
            turns[-1].append(message)
    return [
        Exchange(turn[0], turn[-1], in_session=True, steps=turn[1:-1], is_registered=True)
        for turn in turns
        if turn[-1].role == "assistant" and not turn[-1].tool_calls and _is_answered(turn[1:-1])
    ]


def _is_answered(steps: Sequence[Message]) -> bool:
    """Return whether each call has its result, and each result its call."""
    called = [call.id for step in steps for call in step.tool_calls]
    results = [step.tool_call_id for step in steps if step.role == "tool"]
    return called == results and all(step.tool_calls or step.role == "tool" for step in steps)


def added_stats(first: TurnStats, then: TurnStats) -> TurnStats:
    """Return the cost of two replies of one turn together, with the prompt of the second.

    The second prompt contains the first reply, which was not read again.
    """
    decoded = first.decoded_tokens + then.decoded_tokens
    return replace(
        then,
        reused_tokens=max(0, then.prompt_tokens - decoded),
        decoded_tokens=min(decoded, then.prompt_tokens),
        generated_tokens=first.generated_tokens + then.generated_tokens,
        drafted_tokens=first.drafted_tokens + then.drafted_tokens,
        accepted_tokens=first.accepted_tokens + then.accepted_tokens,
        model_drafted_tokens=first.model_drafted_tokens + then.model_drafted_tokens,
        model_accepted_tokens=first.model_accepted_tokens + then.model_accepted_tokens,
        prefill_ms=first.prefill_ms + then.prefill_ms,
        ttft_ms=first.ttft_ms,
        decode_ms=first.decode_ms + then.decode_ms,
        total_ms=first.total_ms + then.total_ms,
        warnings=first.warnings + then.warnings,
        is_estimated=first.is_estimated or then.is_estimated,
    )


def with_recall(stats: TurnStats, recall_ms: float) -> TurnStats:
    """Return the stats with the time of recall, which the engine's times do not contain."""
    return replace(
        stats, recall_ms=recall_ms, ttft_ms=stats.ttft_ms + recall_ms, total_ms=stats.total_ms + recall_ms
    )


def message_of(generation: Reply, *, calls: tuple[ToolCall, ...] = ()) -> Message:
    """Return a reply as a message; `calls` are those that get results."""
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


def turns(messages: Sequence[Message]) -> list[list[int]]:
    """Group messages into turns, as indices into `messages`, oldest first, without system messages.

    A turn begins with a user message that does not follow another one. Assistant messages before the first
    user message form a turn of their own.
    """
    found: list[list[int]] = []
    previous = ""
    for i, message in enumerate(messages):
        if message.role == "system":
            continue
        if not found or (message.role == "user" and previous != "user"):
            found.append([])
        found[-1].append(i)
        previous = message.role
    return found


def strip_tails(messages: Iterable[Message]) -> int:
    """Remove the tails of messages and correct their tokens; returns how many tokens that freed.

    `injected` stays as the record of what the model saw at the time.
    """
    freed = 0
    for message in messages:
        freed += tail_tokens(message)
        message.tokens -= tail_tokens(message)
        message.sent = message.content
    return freed


def tail_tokens(message: Message) -> int:
    """Estimate the tokens of the tail from the message's own ratio; 0 without a tail or token count."""
    if not has_tail(message) or message.tokens <= 0:
        return 0
    return message.tokens - stripped_tokens(len(message.sent), message.tokens, len(message.content))


def has_tail(message: Message) -> bool:
    """Return whether something is appended to a user's message."""
    return message.role == "user" and message.sent != message.content


_HIDDEN = '{"hidden": "read from a memory that is off now"}'


def hide_memory(exchanges: Iterable[Exchange], other_tools: Collection[str]) -> None:
    """Strip tails, and the calls and results of Shepherd's own tools; those of `other_tools` stay.

    An unknown tool counts as Shepherd's own. `raw` of each message stays as it is.
    """
    for exchange in exchanges:
        strip_tails([exchange.user])
        own = {call.id for step in exchange.steps for call in step.tool_calls if call.name not in other_tools}
        for step in exchange.steps:
            if step.role == "tool" and step.tool_call_id in own:
                step.sent, step.tokens = _HIDDEN, 0
            if any(call.id in own for call in step.tool_calls):
                step.thought = ""  # it may repeat what a tool has read before
            step.tool_calls = tuple(_hidden(call) if call.id in own else call for call in step.tool_calls)


def _hidden(call: ToolCall) -> ToolCall:
    return replace(call, arguments="{}")
