"""OpenAI's Responses API: items instead of messages, and conversations that the server keeps."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from fastapi import APIRouter
from pydantic import Field, PrivateAttr
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.server.chat import MOST_TOKENS, Chat, ChatFields, ChatRequest
from shepherd.server.description import MODEL, USER, described
from shepherd.server.errors import Denied, Problem, invalid, unsupported
from shepherd.server.http import (
    LARGE_BYTES,
    EventStream,
    Ignored,
    JsonRoute,
    LenientBody,
    Refused,
    StrictBody,
    event,
)
from shepherd.server.identity import caller_of
from shepherd.server.limits import MOST_MESSAGES, MOST_TOOLS, check_conversation
from shepherd.server.openai_answers import chat_logprobs
from shepherd.server.openai_api import sampling_in
from shepherd.server.state import QueriedUser, ServerState
from shepherd.server.stored_responses import StoredResponses
from shepherd.server.streaming import blocking, cancelled_on_disconnect
from shepherd.types import Message, Piece, ReplySchema, Thought, Tool, ToolCall, TurnStats

__all__ = ["InputTokensBody", "ResponseBody", "route", "router"]

_log = logging.getLogger(__name__)

_ROUTE = "/v1/responses"
_MOST_LIKELY = 20  # OpenAI's, and the engine's
_BREAK = "\n\n"
# Parts of a content that are text, and where the text is.
_TEXTS = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
_ITEMS_WITHOUT_WORDS = frozenset({"reasoning", "compaction"})


class _Part(LenientBody):
    type: str
    text: str | None = None
    refusal: str | None = None


class _Item(LenientBody):
    """A message, a call of a function, its output, or a thought; its type says which fields count."""

    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[_Part] | None = None
    id: str | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[_Part] | None = None

    def as_given(self) -> dict[str, Any]:
        """Return the fields that the client sent."""
        return {"type": self.type, **self.model_dump(exclude_unset=True, exclude_none=True)}


class _Tool(LenientBody):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Choice(LenientBody):
    type: str
    name: str = ""


class _Format(LenientBody):
    type: Literal["text", "json_object", "json_schema"]
    name: str = ""
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class _Text(LenientBody):
    format: _Format | None = None


_Input: TypeAlias = str | list[_Item]


class InputTokensBody(StrictBody):
    """POST /v1/responses/input_tokens: what a response would read."""

    model: str = Field(description=MODEL)
    input: _Input = ""
    instructions: str | None = None
    previous_response_id: str | None = Field(default=None, max_length=256)
    tools: list[_Tool] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Ignored[Literal["auto", "none", "required"] | _Choice | None] = None
    parallel_tool_calls: Ignored[bool | None] = None
    text: Ignored[_Text | None] = None
    reasoning: Ignored[dict[str, Any] | None] = None
    truncation: Ignored[Literal["auto", "disabled"] | None] = None
    conversation: Refused[Any] = None
    user: str | None = Field(default=None, description=USER)

    _earlier: list[_Item] = PrivateAttr(default_factory=list)

    def follow(self, earlier: Sequence[dict[str, Any]]) -> None:
        """Continue a conversation whose items are these."""
        self._earlier = [_Item.model_validate(item) for item in earlier]

    @property
    def items(self) -> list[_Item]:
        """The input's items; a text is a message of the user."""
        return [_Item(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    def conversation_of(self) -> tuple[Message, ...]:
        """Return the messages, with those of earlier responses. Denied for what is not text."""
        if self.conversation is not None:
            raise unsupported("conversation", "name the response before this one, in previous_response_id")
        messages = [Message("system", self.instructions)] if self.instructions else []
        items = [*self._earlier, *self.items]
        first = len(items) - len(self.items)
        if len(items) > MOST_MESSAGES:
            raise invalid("input", f"the conversation has more than {MOST_MESSAGES} items")
        for i, item in enumerate(items):
            _append(messages, item, f"input.{i - first}" if i >= first else "previous_response_id")
        if not messages or messages[-1].role not in ("user", "tool"):
            raise invalid("input", "the last item must be the user's, or the output of a function")
        return tuple(messages)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools. Denied for those that OpenAI's service runs."""
        for i, tool in enumerate(self.tools or ()):
            if tool.type != "function" or not tool.name:
                raise Denied(
                    400,
                    "unsupported_parameter",
                    f"tools.{i}: this server runs no tools of type {tool.type[:40]!a}, only your functions",
                    param="tools",
                )
        return tuple(
            Tool(tool.name, tool.description or "", tool.parameters or {"type": "object", "properties": {}})
            for tool in self.tools or ()
        )


class ResponseBody(ChatFields, InputTokensBody):
    """POST /v1/responses."""

    tool_choice: Literal["auto", "none", "required"] | _Choice | None = None
    parallel_tool_calls: bool | None = None
    text: _Text | None = None
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
    background: Refused[bool | None] = False
    prompt: Refused[Any] = None
    # llama.cpp's.
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
        if self.background:
            raise unsupported("background", "leave it out, and stream the answer")
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
        )

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
        if isinstance(choice, _Choice):
            if choice.type != "function" or choice.name not in {tool.name for tool in self.tools or ()}:
                raise unsupported("tool_choice", "name a function that is among the tools")
            return choice.name
        if choice == "required" and not (self.tools or self.memory_tools):
            raise invalid("tool_choice", "there are no tools to call")
        return choice or "auto"


def _append(messages: list[Message], item: _Item, place: str) -> None:
    """Add an item to the messages: neighbouring words and calls of the assistant are one message."""
    if item.type == "function_call_output":
        text = _text_of(item.output, f"{place}.output")
        messages.append(Message("tool", text, tool_call_id=item.call_id))
    elif item.type == "function_call":
        call = ToolCall(item.call_id, item.name, item.arguments)
        last = messages.pop() if messages and messages[-1].role == "assistant" else Message("assistant", "")
        messages.append(Message("assistant", last.raw, tool_calls=(*last.tool_calls, call)))
    elif item.type == "message" and item.role is not None:
        text = _text_of(item.content, f"{place}.content")
        role = "system" if item.role == "developer" else item.role
        before = messages[-1] if messages and role == messages[-1].role == "assistant" else None
        if before is not None and not before.tool_calls:
            messages.pop()
            text = before.raw + ("" if text.startswith(_BREAK) else _BREAK) + text
        messages.append(Message(role, text))
    elif item.type not in _ITEMS_WITHOUT_WORDS:
        raise invalid(place, f"the model reads no item of type {item.type[:40]!a}", "unsupported_content")


def _text_of(content: str | list[_Part] | None, place: str) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content:
        field = _TEXTS.get(part.type)
        if field is None:
            message = f"the model reads text, no part of type {part.type[:40]!a}"
            raise invalid(place, message, "unsupported_content")
        texts.append(getattr(part, field) or "")
    return "\n".join(texts)


# ---- answering


@described("ModelResponse", 404, events="ResponseEvent", streams_with="stream")
async def _responses(request: Request, body: ResponseBody) -> Response:
    """Answer an input; the server keeps the response, unless `store` is false."""
    state: ServerState = request.app.state.shepherd
    user_id = caller_of(request, body.user).user_id
    stored_responses = StoredResponses(state, user_id)
    previous = body.previous_response_id
    if previous:
        body.follow(await blocking(lambda: stored_responses.items_up_to(previous)))
    chat = await Chat.of(request, _ROUTE, body)
    made = _Response(chat, body, chat.model)

    async def keep() -> None:
        response, items = made.finished(), [item.as_given() for item in body.items]
        try:
            await blocking(
                lambda: stored_responses.keep(
                    response, items, chat.stored_in, in_memory=body.memory is not False
                )
            )
        except ShepherdError as error:
            _log.warning("storing the response failed: %s", error)

    if body.is_stored:
        chat.before_end = keep
    if body.stream:
        stream = chat.stream(made.opening(), made.events_of, made.ending, made.failed, made.closing)
        return EventStream(stream, chat.cancel)
    async with cancelled_on_disconnect(request.receive, chat.cancel), chat:
        async for piece in chat:
            made.events_of(piece)
    return JSONResponse(made.finished())


route = JsonRoute(_ROUTE, ResponseBody, _responses)


class _Response:
    """A response while it is made: events of its pieces in OpenAI's order, and the object itself."""

    def __init__(self, chat: Chat, body: ResponseBody, model: str) -> None:
        self._chat = chat
        self._items: list[dict[str, Any]] = []
        self._n_events = 0
        self._finished: dict[str, Any] | None = None
        self._pending: list[bytes] = []  # events that end the newest item
        choice = body.tool_choice
        self._head: dict[str, Any] = {
            "id": f"resp_{secrets.token_hex(24)}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": body.instructions,
            "max_output_tokens": body.max_output_tokens,
            "max_tool_calls": body.max_tool_calls,
            "metadata": body.metadata or {},
            "model": model,
            "output": [],
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": body.previous_response_id,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": body.is_stored,
            "temperature": body.temperature,
            "text": {"format": _shown(body.text and body.text.format) or {"type": "text"}},
            "tool_choice": _shown(choice) if isinstance(choice, _Choice) else choice or "auto",
            "tools": [{"strict": None, **(_shown(tool) or {})} for tool in body.tools or ()],
            "top_logprobs": body.top_logprobs or 0,
            "top_p": body.top_p,
            "truncation": body.truncation or "disabled",
            "usage": None,
            "user": body.user,
        }

    def opening(self) -> bytes:
        """Return the events before the first piece."""
        return self._event("response.created", response=self._head) + self._event(
            "response.in_progress", response=self._head
        )

    def events_of(self, piece: Piece) -> bytes:
        """Add a piece, and return its events."""
        if isinstance(piece, ToolCall):
            return self._close() + self._call(piece)
        is_thought = isinstance(piece, Thought)
        text = piece.text if isinstance(piece, Thought) else piece
        kind = "reasoning" if is_thought else "message"
        started = b""
        if not self._items or self._items[-1]["type"] != kind or self._items[-1]["status"] == "completed":
            started = self._close() + self._open(kind)
        part = self._items[-1]["content"][0]
        part["text"] += text
        if is_thought:
            return started + self._event("response.reasoning_text.delta", content_index=0, delta=text)
        logprobs = self._new_logprobs()
        part["logprobs"] += logprobs
        return started + self._event(
            "response.output_text.delta", content_index=0, delta=text, logprobs=logprobs
        )

    def ending(self) -> bytes:
        """Return the events after the last piece."""
        response = self.finished()
        closed = b"".join(self._pending)
        return closed if self._chat.news is not None else closed + self._last(response)

    def closing(self, learned: list[dict[str, Any]]) -> bytes:
        """Return the event about what was learned, which OpenAI's clients pass over, and the end."""
        return self._event("learned", learned=learned) + self._last(self.finished())

    def failed(self, problem: Problem) -> bytes:
        """Return the last event of an answer that failed."""
        error = {"code": "server_error", "message": f"{problem.message} ({problem.code})"}
        response = {**self._head, "status": "failed", "error": error, "output": self._items}
        return self._event("response.failed", response=response)

    def finished(self) -> dict[str, Any]:
        """Return the whole response, once the answer has ended."""
        if self._finished is None:
            stats = self._chat.stats
            has_said = any(item["type"] != "reasoning" for item in self._items)
            opened = b"" if has_said else self._close() + self._open("message")
            reason = _cut_by(stats)
            self._pending = [opened, self._close("incomplete" if reason else "completed")]
            self._finished = {
                **self._head,
                "status": "incomplete" if reason else "completed",
                "completed_at": None if reason else int(time.time()),
                "incomplete_details": {"reason": reason} if reason else None,
                "output": self._items,
                "usage": _usage(stats),
            }
        return self._finished

    def _last(self, response: dict[str, Any]) -> bytes:
        return self._event(f"response.{response['status']}", response=response)

    def _open(self, kind: str) -> bytes:
        item: dict[str, Any] = {"id": "", "type": kind, "status": "in_progress", "content": []}
        if kind == "reasoning":
            item |= {"id": f"rs_{secrets.token_hex(24)}", "summary": []}
            part: dict[str, Any] = {"type": "reasoning_text", "text": ""}
        else:
            item |= {"id": f"msg_{secrets.token_hex(24)}", "role": "assistant"}
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
        self._items.append(item)
        added = self._event("response.output_item.added", item=item)
        added += self._event("response.content_part.added", content_index=0, part=part)
        item["content"].append(part)
        return added

    def _close(self, status: str = "completed") -> bytes:
        """End the newest item unless it has ended."""
        if not self._items or self._items[-1]["status"] != "in_progress":
            return b""
        item = self._items[-1]
        [part] = item["content"]
        item["status"] = status
        if item["type"] == "reasoning":
            done = self._event("response.reasoning_text.done", content_index=0, text=part["text"])
        else:
            part["logprobs"] += self._new_logprobs()
            done = self._event(
                "response.output_text.done", content_index=0, text=part["text"], logprobs=part["logprobs"]
            )
        done += self._event("response.content_part.done", content_index=0, part=part)
        return done + self._event("response.output_item.done", item=item)

    def _call(self, call: ToolCall) -> bytes:
        item = {
            "id": f"fc_{secrets.token_hex(24)}",
            "type": "function_call",
            "status": "in_progress",
            "call_id": call.id,
            "name": call.name,
            "arguments": "",
        }
        self._items.append(item)
        added = self._event("response.output_item.added", item=item)
        item |= {"status": "completed", "arguments": call.arguments}
        added += self._event("response.function_call_arguments.delta", delta=call.arguments)
        added += self._event(
            "response.function_call_arguments.done", name=call.name, arguments=call.arguments
        )
        return added + self._event("response.output_item.done", item=item)

    def _event(self, kind: str, **fields: Any) -> bytes:
        """Return one event; those about an item name the newest."""
        number, self._n_events = self._n_events, self._n_events + 1
        about: dict[str, Any] = {}
        if "response" not in fields and "learned" not in fields:
            about["output_index"] = len(self._items) - 1
            if "item" not in fields:
                about["item_id"] = self._items[-1]["id"]
        return event({"type": kind, "sequence_number": number, **about, **fields}, kind)

    def _new_logprobs(self) -> list[dict[str, Any]]:
        tokens = self._chat.take_logprobs() if self._chat.has_logprobs else []
        return list(chat_logprobs(tokens)["content"])


def _shown(value: LenientBody | None) -> dict[str, Any] | None:
    return None if value is None else value.model_dump(by_alias=True, exclude_none=True)


def _cut_by(stats: TurnStats) -> str:
    """Return why an answer is incomplete, "" if it is whole."""
    if stats.finish_reason == "filtered":
        return "content_filter"
    return "max_output_tokens" if stats.finish_reason in ("length", "cancelled") else ""


def _usage(stats: TurnStats) -> dict[str, Any]:
    return {
        "input_tokens": stats.prompt_tokens,
        "input_tokens_details": {"cached_tokens": stats.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": stats.generated_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": stats.prompt_tokens + stats.generated_tokens,
    }


# ---- reading and deleting them

router = APIRouter(prefix=_ROUTE)


@router.post("/input_tokens")
@described("InputTokens", 404)
async def count_input_tokens(request: Request, body: InputTokensBody) -> dict[str, Any]:
    """Count the tokens of an input as it stands, without what memory would add."""
    state: ServerState = request.app.state.shepherd
    is_large = len(await request.body()) > LARGE_BYTES
    lease = await state.pool.lease(body.model, request.receive)
    stored_responses = StoredResponses(state, caller_of(request, body.user).user_id)

    def count() -> int:
        if body.previous_response_id:
            body.follow(stored_responses.items_up_to(body.previous_response_id))
        conversation, tools = body.conversation_of(), body.offered()
        check_conversation(conversation, tools)
        return lease.conversations.count_tokens(conversation, tools)

    with lease:
        n_tokens = await blocking(count, is_large=is_large)
    return {"object": "response.input_tokens", "input_tokens": n_tokens}


@router.get("/{response_id}")
@described("ModelResponse", 404)
def show_response(request: Request, response_id: str, user: QueriedUser = None) -> dict[str, Any]:
    """Return a stored response."""
    response: dict[str, Any] = _stored(request, response_id, user)["response"]
    return response


@router.get("/{response_id}/input_items")
@described("InputItems", 404)
def list_input(request: Request, response_id: str, user: QueriedUser = None) -> dict[str, Any]:
    """List the input of a stored response, the newest item first."""
    stored = _stored(request, response_id, user)["input"]
    items = [{"id": f"{response_id}_{i}", **_listed(item)} for i, item in enumerate(stored)][::-1]
    ends = {"first_id": items[0]["id"], "last_id": items[-1]["id"]} if items else {}
    return {"object": "list", "data": items, "has_more": False, **ends}


def _listed(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its words as parts, as OpenAI lists them."""
    if not isinstance(item.get("content"), str):
        return item
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    return {**item, "content": [{"type": kind, "text": item["content"]}]}


@router.delete("/{response_id}")
@described("Deleted", 404)
def delete_response(request: Request, response_id: str, user: QueriedUser = None) -> dict[str, Any]:
    """Delete a stored response; responses after it can't be continued either."""
    if not _stored_by(request, user).remove(response_id):
        raise _missing()
    return {"id": response_id, "object": "response", "deleted": True}


def _stored_by(request: Request, user: str | None) -> StoredResponses:
    return StoredResponses(request.app.state.shepherd, caller_of(request, user).user_id)


def _stored(request: Request, response_id: str, user: str | None) -> dict[str, Any]:
    record = _stored_by(request, user).find(response_id)
    if record is None:
        raise _missing()
    return record


def _missing() -> Denied:
    return Denied(404, "not_found", "there is no such response")
