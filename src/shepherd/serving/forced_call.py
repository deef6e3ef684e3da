"""A tool that must be called: the model writes the call as JSON under a grammar, whatever its own way is."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from shepherd.inference import Answer
from shepherd.serving.chat_request import grammar_of
from shepherd.serving.errors import Denied
from shepherd.types import Piece, Tool, ToolCall, TurnStats

__all__ = ["ForcedCall", "call_grammar"]

_ID_LENGTH = 9  # Mistral's templates refuse any other


def call_grammar(tools: Sequence[Tool], choice: str) -> str:
    """The grammar of one call: of the tool named, or with "required" of any. Denied for a bad schema."""
    offered = [tool for tool in tools if choice in ("required", tool.name)]
    if not offered:
        raise Denied(400, "invalid_request", "tool_choice: there is no such tool", param="tool_choice")
    shared: dict[str, Any] = {}
    for tool in offered:
        for kind in ("$defs", "definitions"):
            _share(shared.setdefault(kind, {}), tool.parameters.get(kind, {}))
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": tool.name}, "arguments": dict(tool.parameters)},
            "required": ["name", "arguments"],
        }
        for tool in offered
    ]
    # References begin at the root, wherever the schema stands now.
    return grammar_of({**(calls[0] if len(calls) == 1 else {"anyOf": calls}), **shared}, "tools")


def _share(known: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, schema in more.items():
        if known.setdefault(name, schema) != schema:
            raise Denied(
                400, "invalid_schema", f"tools: two of them define {name[:40]!a} differently", param="tools"
            )


class ForcedCall:
    """The reply that such a grammar gives: one ToolCall at its end; text where the limit cut it short."""

    def __init__(self, reply: Answer) -> None:
        self._reply = reply
        self._call: ToolCall | None = None
        self._rest: list[Piece] | None = None

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        for _ in self._reply:
            pass
        found = self._ended()
        if not found:
            raise StopIteration
        return found.pop(0)

    def __enter__(self) -> ForcedCall:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reply.close()
        self._ended()

    def poll(self) -> list[Piece] | None:
        """Nothing until the end; see Answer."""
        while (found := self._reply.poll()) is not None:
            if not found:
                return []
        rest, self._rest = self._ended(), []
        return rest or None

    def notify(self, fd: int) -> bool:
        """See Answer."""
        return self._reply.notify(fd)

    def cancel(self) -> None:
        """See Answer."""
        self._reply.cancel()

    @property
    def text(self) -> str:
        """What was said, if it is no call."""
        self._ended()
        return "" if self.tool_calls else self._reply.text

    @property
    def thought(self) -> str:
        """None: the grammar has no place for it."""
        return ""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The call."""
        self._ended()
        return self._reply.tool_calls or (() if self._call is None else (self._call,))

    @property
    def token_ids(self) -> tuple[int, ...]:
        """None: the template will show the call in its own way."""
        return ()

    @property
    def stats(self) -> TurnStats:
        """See Answer."""
        stats = self._reply.stats
        is_whole = bool(self.tool_calls) and stats.finish_reason == "stop"
        return replace(stats, finish_reason="tool_calls") if is_whole else stats

    @property
    def prompt_tokens_per_message(self) -> tuple[int, ...]:
        """See Answer."""
        return self._reply.prompt_tokens_per_message

    def _ended(self) -> list[Piece]:
        """What there is to say, once the reply has ended."""
        if self._rest is None:
            self._call = None if self._reply.tool_calls else _call_in(self._reply.text)
            calls = self._reply.tool_calls or (() if self._call is None else (self._call,))
            self._rest = list(calls) if calls else [self._reply.text] if self._reply.text else []
        return self._rest


def _call_in(text: str) -> ToolCall | None:
    try:
        call = json.loads(text)
    except ValueError:  # the limit cut it
        return None
    arguments = json.dumps(call["arguments"], ensure_ascii=False)
    return ToolCall(secrets.token_hex(_ID_LENGTH)[:_ID_LENGTH], call["name"], arguments)
