"""What a client asks, in no API's shape: a whole conversation and how it is to be answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shepherd.errors import UsageError
from shepherd.inference import schema_to_grammar
from shepherd.serving.errors import Denied
from shepherd.types import ANONYMOUS_USERS, Message, Tool

__all__ = ["ChatRequest", "grammar_of"]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation to be answered. `messages` are as the client sent them, the newest last.

    `user_id`: whose memory it is; nobody's stays unread and unwritten, as all do with `uses_memory` false.
    `sampling` holds only what the client has set. `max_tokens` 0 takes the setting. `grammar` (GBNF) is what
    the answer must follow. `tool_choice` is "auto", "none", "required", or the name of a tool; it holds for
    the first reply. With `memory_tools` the model has the tools for the user's memory besides, which are
    called here.
    """

    messages: tuple[Message, ...]
    user_id: str = ""
    uses_memory: bool = True
    sampling: Mapping[str, float] = field(default_factory=dict)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    grammar: str = ""
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    memory_tools: bool = False

    @property
    def remembers(self) -> bool:
        """Whether there is somebody whose memory may be used."""
        return self.uses_memory and self.user_id not in ANONYMOUS_USERS


def grammar_of(schema: Mapping[str, Any], param: str) -> str:
    """The grammar of the JSON texts that fit a schema; Denied, naming the field, for one that has none."""
    try:
        return schema_to_grammar(schema)
    except UsageError as error:
        raise Denied(400, "invalid_schema", f"{param}: {error} ({error.hint})", param=param) from None
