"""What a client asks, in no API's shape: a whole conversation and how it is to be answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shepherd.errors import UsageError
from shepherd.inference import schema_to_grammar
from shepherd.serving.errors import Denied
from shepherd.types import ANONYMOUS_USERS, Message, ReplySchema, Tool

__all__ = ["MOST_TOKENS", "ChatRequest", "grammar_of"]

# That a client may ask for, of an answer or of its sampling: far more than any window has.
MOST_TOKENS = 1 << 24


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One conversation to be answered. `messages` are as the client sent them, the newest last.

    `user_id`: whose memory it is; nobody's stays unread and unwritten, as all do with `uses_memory` false.
    `sampling` holds only what the client has set. `max_tokens` 0 takes the setting. `schema` is what the
    answer must follow, `schema_field` where the client says so. `tool_choice` is "auto", "none", "required",
    or the name of a tool; it holds for the first reply. With `memory_tools` the model has the tools for the
    user's memory besides, which are called here. `logprobs`: with each token
    its likelihood, and those of so many of the likeliest. Without `parallel_calls` an answer ends at the
    first call of a tool of the client's.
    """

    messages: tuple[Message, ...]
    user_id: str = ""
    uses_memory: bool = True
    sampling: Mapping[str, float] = field(default_factory=dict)
    max_tokens: int = 0
    stop: tuple[str, ...] = ()
    schema: ReplySchema | None = None
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    memory_tools: bool = False
    schema_field: str = "response_format"
    logprobs: int | None = None
    parallel_calls: bool = True

    @property
    def remembers(self) -> bool:
        """Whether there is somebody whose memory may be used."""
        return self.uses_memory and self.user_id not in ANONYMOUS_USERS


def grammar_of(request: ChatRequest) -> str:
    """The grammar (GBNF) of the answers that fit the schema, "" without one; Denied where it has none."""
    if request.schema is None:
        return ""
    field = request.schema_field
    try:
        return schema_to_grammar(request.schema.schema)
    except UsageError as error:
        raise Denied(400, "invalid_schema", f"{field}: {error} ({error.hint})", param=field) from None
