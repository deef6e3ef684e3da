"""What of a conversation a model whose memory is off does not get to see: tails, and what tools have read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from shepherd.context.exchanges import Exchange
from shepherd.context.retention import strip_tails
from shepherd.types import ToolCall

__all__ = ["hide_memory"]

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
