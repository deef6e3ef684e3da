"""Requests of OpenAI's Responses API: items instead of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from pydantic import Field, PrivateAttr

from shepherd.inference.template import TemplateOptions
from shepherd.server.chat import MOST_TOKENS, ChatFields, ChatRequest
from shepherd.server.contents import Part, kept_picture, noted, picture_from_url, stored_item
from shepherd.server.description import MODEL, USER
from shepherd.server.errors import invalid, unsupported
from shepherd.server.http import ClientBody, Ignored, LenientBody, ModelName, Refused
from shepherd.server.limits import MOST_MESSAGES, MOST_TOOLS, check_conversation
from shepherd.server.responses_tools import (
    NamedTool,
    OfferedTool,
    ToolBody,
    full_name,
    input_arguments,
    offered_by,
)
from shepherd.server.sampling_fields import sampling_in
from shepherd.server.state import AppState
from shepherd.server.stored_responses import StoredConversations, StoredResponses
from shepherd.server.template_fields import options_of
from shepherd.types import Message, Picture, ReplySchema, Tool, ToolCall

__all__ = ["InputTokensBody", "Item", "ResponseBody", "check_items"]

_MOST_LIKELY = 20  # OpenAI's, and the engine's
_BREAK = "\n\n"
# Parts of a content that are text, and where the text is.
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_MORE_TOOLS = "additional_tools"
_ITEMS_WITHOUT_WORDS = frozenset({"reasoning", "compaction", _MORE_TOOLS})


class _Part(LenientBody):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: str | None = None


class Item(LenientBody):
    """A message, a call of a tool, its output, or a thought; its type says which fields count."""

    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: str = ""
    name: str = ""
    namespace: str | None = None
    arguments: str = ""
    input: str = ""
    output: str | list[_Part] | None = None
    tools: list[ToolBody] | None = Field(default=None, max_length=MOST_TOOLS)

    def as_given(self) -> dict[str, Any]:
        """Return the fields that the client sent."""
        return {"type": self.type, **self.model_dump(exclude_unset=True, exclude_none=True)}


class _Format(LenientBody):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class _Text(LenientBody):
    format: _Format | None = None


_Input: TypeAlias = str | list[Item]


class _Named(LenientBody):
    id: str = Field(max_length=256)


class InputTokensBody(ClientBody):
    """POST /v1/responses/input_tokens: what a response would read."""

    model: ModelName = Field(default="", description=MODEL)
    input: _Input = ""
    instructions: str | None = None
    previous_response_id: str | None = Field(default=None, max_length=256)
    tools: list[ToolBody] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Ignored[Literal["auto", "none", "required"] | NamedTool | None] = None
    parallel_tool_calls: Ignored[bool | None] = None
    text: Ignored[_Text | None] = None
    reasoning: Ignored[dict[str, Any] | None] = None
    truncation: Ignored[Literal["auto", "disabled"] | None] = None
    conversation: str | _Named | None = Field(
        default=None, description="A conversation of POST /v1/conversations, whose items come first."
    )
    user: str | None = Field(default=None, description=USER)

    _earlier: list[Item] = PrivateAttr(default_factory=list)

    @property
    def conversation_id(self) -> str:
        """The id of the conversation that the request names, "" for none."""
        named = self.conversation
        return named.id if isinstance(named, _Named) else named or ""

    def follow_stored(self, state: AppState, user_id: str) -> None:
        """Continue what the request names: an earlier response, or a conversation. Denied if it is gone.

        May wait for the database.
        """
        if self.conversation_id and self.previous_response_id:
            raise invalid("conversation", "send this or previous_response_id, not both")
        if self.previous_response_id:
            self.follow(StoredResponses(state, user_id).items_up_to(self.previous_response_id))
        elif self.conversation_id:
            self.follow(StoredConversations(state, user_id).require(self.conversation_id)["items"])

    def follow(self, earlier: Sequence[dict[str, Any]]) -> None:
        """Continue a conversation whose items are these."""
        self._earlier = [Item.model_validate(item) for item in earlier]

    @property
    def items(self) -> list[Item]:
        """The input's items; a text is a message of the user."""
        return [Item(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    def conversation_of(self) -> tuple[Message, ...]:
        """Return the messages, with those of earlier responses. Denied for what is not text."""
        parts = [Part("system", [self.instructions])] if self.instructions else []
        items = [*self._earlier, *self.items]
        first = len(items) - len(self.items)
        if len(items) > MOST_MESSAGES:
            raise invalid("input", f"the conversation has more than {MOST_MESSAGES} items")
        for i, item in enumerate(items):
            _append(parts, item, f"input.{i - first}" if i >= first else "the conversation")
        if not parts or parts[-1].role not in ("user", "tool"):
            raise invalid("input", "the last item must be the user's, or the output of a function")
        return tuple(part.message() for part in parts)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools. Denied for those that OpenAI's service runs."""
        return tuple(one.tool for one in self.tools_by_name().values())

    def tools_by_name(self) -> dict[str, OfferedTool]:
        """Return the tools, also those of items, by the names that the model reads. Denied as above."""
        more = [
            tool
            for item in (*self._earlier, *self.items)
            if item.type == _MORE_TOOLS
            for tool in item.tools or ()
        ]
        return offered_by([*(self.tools or ()), *more])


class ResponseBody(ChatFields, InputTokensBody):
    """POST /v1/responses."""

    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    parallel_tool_calls: bool | None = None
    text: _Text | None = None
    reasoning: dict[str, Any] | None = Field(
        default=None, description="`effort` is read, as `reasoning_effort` in chats; the rest is ignored."
    )
    truncation: Literal["auto", "disabled"] | None = Field(
        default=None, description="Returned, and changes nothing."
    )
    stream_options: Ignored[dict[str, Any] | None] = None
    store: bool | None = True
    max_output_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, ge=0, le=1)
    top_logprobs: int | None = Field(default=None, ge=0, le=_MOST_LIKELY)
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    background: bool | None = Field(
        default=False,
        description="Reply at once, and generate the response even if no client waits for it.",
    )
    prompt: Refused[Any] = None
    # llama.cpp's.
    timings_per_token: Ignored[bool | None] = None
    return_progress: Ignored[bool | None] = None
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    min_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = None
    # Ignored: they are about OpenAI's service.
    service_tier: Ignored[str | None] = None
    safety_identifier: Ignored[str | None] = None
    prompt_cache_key: Ignored[str | None] = None
    prompt_cache_retention: Ignored[str | None] = None
    prompt_cache_options: Ignored[dict[str, Any] | None] = None
    max_tool_calls: int | None = None
    context_management: Ignored[Any] = None
    moderation: Ignored[Any] = None
    client_metadata: Ignored[dict[str, Any] | None] = None

    @property
    def is_stored(self) -> bool:
        """True if later requests may name this response."""
        return self.store is not False

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        if self.background and not self.is_stored:
            raise invalid("background", "the response is fetched later, so store must not be false")
        if self.background and self.learned:
            raise invalid("learned", "not in the background; GET /v1/learned lists what was learned")
        if self.prompt is not None:
            raise unsupported("prompt", "send the text itself as instructions and input")
        return ChatRequest(
            self.conversation_of(),
            user_id,
            self.memory is not False,
            sampling_in(self),
            self.max_output_tokens or 0,
            schema=self._schema(),
            tools=self.offered(),
            tool_choice=self._choice(),
            memory_tools=bool(self.memory_tools),
            schema_field="text.format",
            logprobs=self._logprobs(),
            parallel_calls=self.parallel_tool_calls is not False,
            session=self.conversation_id,
            template=self._template(),
        )

    def _template(self) -> TemplateOptions:
        effort = (self.reasoning or {}).get("effort")
        return options_of(effort=effort if isinstance(effort, str) else None)

    def _schema(self) -> ReplySchema | None:
        wanted = self.text.format if self.text is not None else None
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type == "json_object":
            return ReplySchema({"type": "object"})
        if wanted.schema_ is None:
            raise invalid("text.format", "it has no schema")
        return ReplySchema(wanted.schema_, wanted.name or "answer", wanted.strict)

    def _logprobs(self) -> int | None:
        is_wanted = "message.output_text.logprobs" in (self.include or ())
        return self.top_logprobs or 0 if is_wanted or self.top_logprobs else None

    def _choice(self) -> str:
        choice = self.tool_choice
        if isinstance(choice, NamedTool):
            name = full_name(choice.name, choice.namespace)
            if choice.type not in ("function", "custom") or name not in self.tools_by_name():
                raise unsupported("tool_choice", "name a function that is among the tools")
            return name
        if choice == "required" and not (self.tools_by_name() or self.memory_tools):
            raise invalid("tool_choice", "there are no tools to call")
        return choice or "auto"


def _append(parts: list[Part], item: Item, place: str) -> None:
    """Add an item: neighbouring words and calls of the assistant are one message, as are those of others.

    Agents send several messages of one role, and many templates take only one.
    """
    if item.type in ("function_call_output", "custom_tool_call_output"):
        output = _content_of(item.output, f"{place}.output")
        parts.append(Part("tool", output, tool_call_id=item.call_id))
    elif item.type in ("function_call", "custom_tool_call"):
        name = full_name(item.name, item.namespace or "")
        is_custom = item.type == "custom_tool_call"
        call = ToolCall(item.call_id, name, input_arguments(item.input) if is_custom else item.arguments)
        last = parts.pop() if parts and parts[-1].role == "assistant" else Part("assistant", [])
        parts.append(Part("assistant", last.content, (*last.calls, call)))
    elif item.type == "message" and item.role is not None:
        role = "system" if item.role == "developer" else item.role
        _add_words(parts, Part(role, _content_of(item.content, f"{place}.content")))
    elif item.type not in _ITEMS_WITHOUT_WORDS:
        raise invalid(place, f"the model reads no item of type {item.type[:40]!a}", "unsupported_content")


def _add_words(parts: list[Part], part: Part) -> None:
    before = parts[-1] if parts and parts[-1].role == part.role else None
    if part.role == "user":
        part.content = [noted(one) if isinstance(one, str) else one for one in part.content]
    if before is None or before.calls:
        parts.append(part)
    elif part.role == "assistant":
        said, text = before.message().raw, part.message().raw
        before.content = [said + ("" if text.startswith(_BREAK) else _BREAK) + text]
    else:
        before.content += part.content


def check_items(items: Sequence[Item]) -> list[dict[str, Any]]:
    """Return items as they are stored, without pictures. Denied for those that no model here reads."""
    parts: list[Part] = []
    for i, item in enumerate(items):
        _append(parts, item, f"items.{i}")
    check_conversation([part.message() for part in parts], ())
    return [stored_item(item.as_given()) for item in items]


def _content_of(content: str | list[_Part] | None, place: str) -> list[str | Picture]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    return [_read_part(part, f"{place}.{i}") for i, part in enumerate(content)]


def _read_part(part: _Part, place: str) -> str | Picture:
    if part.type == "input_image":
        kept = kept_picture(part.image_url)
        return picture_from_url(part.image_url, place) if kept is None else kept
    field = _TEXTS.get(part.type)
    if field is None:
        message = f"models read text and pictures, no part of type {part.type[:40]!a}"
        raise invalid(place, message, "unsupported_content")
    return getattr(part, field) or ""
