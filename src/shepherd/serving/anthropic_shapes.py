"""Requests of Anthropic's API as they may come, and what they mean."""

from __future__ import annotations

import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shepherd.serving.chat_request import MOST_TOKENS, ChatRequest
from shepherd.serving.errors import Denied
from shepherd.types import Message, ReplySchema, Tool, ToolCall

__all__ = ["CountBody", "MessagesBody"]

_MOST_STOPS = 16


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Lenient(BaseModel):
    """What clients send back as they got it, with cache marks and the like in it."""

    model_config = ConfigDict(extra="ignore")


class _Block(_Lenient):
    """Text, a thought, a call of a tool, or its result: which fields count depends on the type."""

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[_Block] | None = None


class _Message(_Lenient):
    role: Literal["user", "assistant"]
    content: str | list[_Block]


class _Tool(_Lenient):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    type: str | None = None


class _Choice(_Lenient):
    type: Literal["auto", "any", "tool", "none"]
    name: str = ""
    disable_parallel_tool_use: bool = False


class _Thinking(_Lenient):
    type: str


class _Format(_Lenient):
    type: Literal["json_schema"]
    schema_: dict[str, Any] = Field(alias="schema")


class _Output(_Lenient):
    format: _Format | None = None


class _Metadata(_Lenient):
    user_id: str | None = None


class CountBody(_Body):
    """POST /v1/messages/count_tokens: a conversation."""

    model: str
    messages: list[_Message] = Field(min_length=1)
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None
    tool_choice: _Choice | None = None
    thinking: _Thinking | None = None
    output_config: _Output | None = None
    # For Anthropic's service alone.
    cache_control: dict[str, Any] | None = None
    speed: str | None = None
    user_profile_id: str | None = None
    workspace_id: str | None = None

    def conversation(self) -> tuple[Message, ...]:
        """The messages as we have them; neighbours of one role are one, as Anthropic's service takes them.

        Denied for what is no text, or is not answered.
        """
        system = _text_of(self.system, "system")
        messages = [Message("system", system)] if system else []
        for i, sent in enumerate(self.messages):
            for message in _messages(sent, f"messages.{i}"):
                last = messages[-1] if messages else None
                if last is not None and last.role == message.role != "tool":
                    messages[-1] = _joined(last, message)
                else:
                    messages.append(message)
        if messages[-1].role not in ("user", "tool"):
            raise Denied(
                400, "invalid_request", "messages: the last one must be the user's", param="messages"
            )
        return tuple(messages)

    def offered(self) -> tuple[Tool, ...]:
        """The tools. Denied for those that run on Anthropic's side."""
        for i, tool in enumerate(self.tools or ()):
            if tool.type not in (None, "custom"):
                raise Denied(
                    400, "unsupported_parameter", f"tools.{i}: only tools of your own", param="tools"
                )
        return tuple(
            Tool(tool.name, tool.description or "", tool.input_schema or {"type": "object", "properties": {}})
            for tool in self.tools or ()
        )


class MessagesBody(CountBody):
    """POST /v1/messages."""

    max_tokens: int = Field(ge=1, le=MOST_TOKENS)
    stream: bool | None = False
    stop_sequences: list[str] | None = Field(default=None, max_length=_MOST_STOPS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    metadata: _Metadata | None = None
    # For Anthropic's service alone.
    service_tier: str | None = None
    inference_geo: str | None = None
    diagnostics: Any = None
    # Ours.
    memory: bool | None = None
    memory_tools: bool | None = None
    user: str | None = None

    def request(self, user_id: str) -> ChatRequest:
        """What is asked. Denied for what cannot be had."""
        names = ("temperature", "top_p", "top_k")
        sampling = {name: value for name in names if (value := getattr(self, name)) is not None}
        return ChatRequest(
            self.conversation(),
            user_id,
            self.memory is not False,
            sampling,
            self.max_tokens,
            tuple(text for text in self.stop_sequences or () if text),
            self._schema(),
            self.offered(),
            self._choice(),
            bool(self.memory_tools),
            "output_config.format",
            parallel_calls=self.tool_choice is None or not self.tool_choice.disable_parallel_tool_use,
        )

    def _schema(self) -> ReplySchema | None:
        wanted = self.output_config.format if self.output_config is not None else None
        return None if wanted is None else ReplySchema(wanted.schema_, is_strict=True)

    def _choice(self) -> str:
        choice = self.tool_choice
        if choice is None:
            return "auto"
        if choice.type == "any" and not (self.tools or self.memory_tools):
            raise Denied(
                400, "invalid_request", "tool_choice: there are no tools to call", param="tool_choice"
            )
        if choice.type != "tool":
            return "required" if choice.type == "any" else choice.type
        if choice.name not in {tool.name for tool in self.tools or ()}:
            raise Denied(400, "invalid_request", "tool_choice: name one of the tools", param="tool_choice")
        return choice.name


def _messages(message: _Message, place: str) -> list[Message]:
    """What one message is in our terms: results of tools are messages of their own, before the text."""
    if isinstance(message.content, str):
        return [Message(message.role, message.content)]
    texts, calls, results = [], [], []
    for i, block in enumerate(message.content):
        if block.type == "text":
            texts.append(block.text)
        elif block.type == "tool_use" and message.role == "assistant":
            calls.append(ToolCall(block.id, block.name, json.dumps(block.input or {}, ensure_ascii=False)))
        elif block.type == "tool_result" and message.role == "user":
            said = _text_of(block.content, f"{place}.content.{i}")
            results.append(Message("tool", said, tool_call_id=block.tool_use_id))
        elif block.type not in ("thinking", "redacted_thinking"):
            raise _unsupported(block, f"{place}.content.{i}")
    text = "\n".join(texts)
    own = [Message(message.role, text, tool_calls=tuple(calls))] if text or calls or not results else []
    return [*results, *own]


def _joined(first: Message, second: Message) -> Message:
    text = "\n".join(text for text in (first.raw, second.raw) if text)
    return Message(first.role, text, tool_calls=(*first.tool_calls, *second.tool_calls))


def _text_of(content: str | list[_Block] | None, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    for i, block in enumerate(content):
        if block.type != "text":
            raise _unsupported(block, f"{place}.{i}")
    return "\n".join(block.text for block in content)


def _unsupported(block: _Block, place: str) -> Denied:
    message = f"{place}: the model reads text, no block of type {block.type[:40]!a}"
    return Denied(400, "unsupported_content", message, param=place)
