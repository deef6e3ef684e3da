"""OpenAI's chat API: requests and answers in its form, streamed or whole."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AliasChoices, BeforeValidator, Field, WithJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from shepherd.knowledge import attached_block
from shepherd.providers.chat_completions import sealed_extra
from shepherd.server.chat import MOST_TOKENS, Chat, ChatFields, ChatRequest
from shepherd.server.contents import Content, message_of, picture_from_url
from shepherd.server.continuation import is_one
from shepherd.server.description import MODEL, described
from shepherd.server.errors import invalid, unsupported
from shepherd.server.http import ClientBody, Ignored, JsonRoute, LenientBody, ModelName, StrictBody
from shepherd.server.identity import MEMORY, caller_of
from shepherd.server.limits import MOST_ANSWERS, MOST_MESSAGES, MOST_STOP_CHARS, MOST_TOOLS
from shepherd.server.openai_answers import streamed, whole
from shepherd.server.sampling_fields import MOST_STOPS, SamplingFields, sampling_in
from shepherd.server.state import ServerState
from shepherd.server.template_fields import TemplateFields, split_prefill
from shepherd.types import (
    Message,
    Picture,
    ReplySchema,
    Tool,
    ToolCall,
)

__all__ = [
    "ChatBody",
    "ChatMessage",
    "CompletionBody",
    "EmbeddingBody",
    "OfferedTool",
    "StreamOptions",
    "require_supported",
    "route",
]


_MOST_DOCUMENTS = 20
_MOST_TEXTS = 2048
_MOST_BIASES, _MOST_DIGITS, _FORBIDS = 1024, 9, 100
_MOST_LIKELY = 20  # OpenAI's, and the engine's
_MOST_GRAMMAR_CHARS = 250_000


class StreamOptions(LenientBody):
    """Options of a stream."""

    include_usage: bool = False


class _ImageUrl(LenientBody):
    url: str


class _Part(LenientBody):
    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: _ImageUrl | str | None = None


class _Function(LenientBody):
    name: str
    arguments: str = ""


class _Call(LenientBody):
    id: str
    type: str = "function"
    function: _Function
    extra_content: Any = None


class ChatMessage(LenientBody):
    """One message; `content` is text, or parts: texts and pictures."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None

    def message(self, place: str) -> Message:
        """Return the message in no API's shape. Denied for other content."""
        calls = tuple(
            ToolCall(call.id, call.function.name, call.function.arguments, sealed_extra(call.extra_content))
            for call in self.tool_calls or ()
        )
        role = "system" if self.role == "developer" else self.role
        content = _content_of(self.content, f"{place}.content")
        made = message_of(role, content, tool_calls=calls, tool_call_id=self.tool_call_id or "")
        if role == "assistant" and self.reasoning_content:
            made.thought = self.reasoning_content
        return made


class _Document(StrictBody):
    name: str = Field(max_length=1000)
    text: str


class _ToolFunction(LenientBody):
    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class OfferedTool(LenientBody):
    """A function of the client's that the model may call."""

    type: Literal["function"]
    function: _ToolFunction

    def tool(self) -> Tool:
        """Return the tool in no API's shape."""
        function = self.function
        parameters = function.parameters or {"type": "object", "properties": {}}
        return Tool(function.name, function.description or "", parameters)


class _Named(LenientBody):
    name: str


class _NamedTool(LenientBody):
    type: Literal["function"]
    function: _Named


class _JsonSchema(LenientBody):
    name: str = ""
    strict: bool | None = None
    schema_: dict[str, Any] | None = Field(default=None, alias="schema")


class _Format(LenientBody):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None


_TEXT_ALONE = {"anyOf": [{"type": "array", "items": {"const": "text"}}, {"type": "null"}], "default": None}

# -1, as llama.cpp's clients send it, is as none.
MostTokens = Annotated[
    Annotated[int, Field(ge=1, le=MOST_TOKENS)] | None, BeforeValidator(lambda n: None if n == -1 else n)
]
MAX_TOKENS = "The most tokens that the answer may have; -1: as many as fit."
Stop: TypeAlias = str | Annotated[list[str], Field(max_length=MOST_STOPS)] | None


class _Sampled(SamplingFields, ClientBody):
    """Fields that chats and completions share."""

    model: ModelName = Field(default="", description=MODEL)
    stream: bool | None = Field(default=False, description="Stream the answer.")
    stream_options: StreamOptions | None = None
    max_tokens: MostTokens = Field(
        default=None, validation_alias=AliasChoices("max_tokens", "n_predict"), description=MAX_TOKENS
    )
    stop: Stop = None
    n: int | None = Field(default=1, ge=1, le=MOST_ANSWERS, description="How many answers to give.")
    logit_bias: Annotated[dict[str, float], Field(max_length=_MOST_BIASES)] | None = None
    user: Ignored[str | None] = None
    # Ignored: conversations find their slots by themselves, every prompt is cached, and answers have timings.
    timings_per_token: Ignored[bool | None] = None
    id_slot: Ignored[int | None] = None
    cache_prompt: Ignored[bool | None] = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Strings that end the answer. Denied for one that is too long."""
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        if any(len(text) > MOST_STOP_CHARS for text in stop):
            raise invalid("stop", f"a text has more than {MOST_STOP_CHARS:,} characters")
        return tuple(text for text in stop if text)

    @property
    def biases(self) -> tuple[tuple[int, float], ...]:
        """Ids of tokens and what is added to their logits; OpenAI's -100 forbids a token."""
        found = []
        for token, bias in (self.logit_bias or {}).items():
            if (
                not token.isascii()
                or not token.isdigit()
                or len(token) > _MOST_DIGITS
                or not abs(bias) <= _FORBIDS
            ):
                raise invalid("logit_bias", f"send ids of tokens with numbers from -{_FORBIDS} to {_FORBIDS}")
            found.append((int(token), -math.inf if bias == -_FORBIDS else bias))
        return tuple(sorted(found))


class ChatBody(TemplateFields, ChatFields, _Sampled):
    """POST /v1/chat/completions."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MOST_MESSAGES)
    max_completion_tokens: MostTokens = None
    # Shepherd's own.
    session: str | None = Field(
        default=None,
        max_length=256,
        description="Store the turn in this conversation: its id, or any name, which begins a new one.",
    )
    recalled: bool | None = Field(
        default=None, description="Begin the stream with an event that has what was recalled."
    )
    replaces: int | None = Field(
        default=None,
        ge=1,
        le=MOST_MESSAGES,
        description="Once the request is accepted, delete the messages of `session` from this position on.",
    )
    last_known: int | None = Field(
        default=None,
        ge=0,
        le=MOST_MESSAGES,
        description="With `replaces`: the position of the last message of `session` that the client knows. If"
        " there are more, nothing is deleted, and the answer is 409.",
    )
    documents: list[_Document] | None = Field(
        default=None,
        max_length=_MOST_DOCUMENTS,
        description="Documents that go with the newest message; nothing is learned from them.",
    )
    tools: list[OfferedTool] | None = Field(default=None, max_length=MOST_TOOLS)
    tool_choice: Literal["auto", "none", "required"] | _NamedTool | None = None
    parallel_tool_calls: bool | None = None
    response_format: _Format | None = None
    json_schema: dict[str, Any] | None = Field(default=None, description="The schema of the answer.")
    grammar: str | None = Field(
        default=None, max_length=_MOST_GRAMMAR_CHARS, description="A grammar (GBNF) that the answer follows."
    )
    continue_final_message: bool | None = Field(
        default=None, description="Continue the assistant's message that is the last one, as by default."
    )
    add_generation_prompt: bool | None = Field(
        default=None, description="With true, a last message of the assistant's is refused, not continued."
    )
    return_progress: bool | None = Field(
        default=None,
        description="In a stream, report how much of the prompt was read, and any pause before a provider"
        " is asked again, before the answer begins.",
    )
    reasoning_format: Ignored[Literal["auto", "deepseek"] | None] = None
    verbose: bool | None = Field(
        default=None, description="Add the prompt that a local model reads to the answer, as `__verbose`."
    )
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=_MOST_LIKELY)
    modalities: Annotated[list[str] | None, WithJsonSchema(_TEXT_ALONE)] = None
    # Ignored: they are about OpenAI's service.
    metadata: Ignored[dict[str, Any] | None] = None
    store: Ignored[bool | None] = None
    service_tier: Ignored[str | None] = None
    prompt_cache_key: Ignored[str | None] = None
    prompt_cache_retention: Ignored[str | None] = None
    prompt_cache_options: Ignored[dict[str, Any] | None] = None
    prediction: Ignored[dict[str, Any] | None] = None
    moderation: Ignored[Any] = None
    safety_identifier: Ignored[str | None] = None
    verbosity: Ignored[str | None] = None

    @property
    def tells_progress(self) -> bool:
        """True if the client wants to know what happens before the first piece."""
        return bool(self.return_progress)

    def request(self, user_id: str) -> ChatRequest:
        """Return the request in no API's shape. Denied for what is not supported."""
        require_supported(
            not self.modalities or self.modalities == ["text"], "modalities", "the model writes text"
        )
        messages = tuple(m.message(f"messages.{i}") for i, m in enumerate(self.messages))
        messages, prefill = split_prefill(messages)
        if self.continue_final_message and (self.add_generation_prompt or not prefill):
            hint = "not with add_generation_prompt" if prefill else "the last message is not the assistant's"
            raise invalid("continue_final_message", hint)
        if prefill and self.add_generation_prompt:
            raise invalid("add_generation_prompt", "the last message is the assistant's")
        if self.documents:
            require_supported(messages[-1].role == "user", "documents", "they go with a message of the user")
            messages = (*messages[:-1], self._with_documents(messages[-1]))
        return ChatRequest(
            messages,
            user_id,
            self.memory is not False,
            sampling_in(self),
            self.max_completion_tokens or self.max_tokens or 0,
            self.stops,
            self._schema(),
            tuple(tool.tool() for tool in self.tools or ()),
            self._choice(),
            bool(self.memory_tools),
            logprobs=self._logprobs(),
            parallel_calls=self.parallel_tool_calls is not False,
            session=self.session or "",
            replaces=self.replaces or 0,
            last_known=self.last_known,
            logit_bias=self.biases,
            n=self.n or 1,
            grammar=self.grammar or "",
            template=self.template,
            prefill=prefill,
            schema_field="json_schema" if self.json_schema is not None else "response_format",
        )

    def _with_documents(self, message: Message) -> Message:
        blocks = [attached_block(one.name, one.text) for one in self.documents or ()]
        composed = "\n\n".join(filter(None, [message.content, *blocks]))
        return Message("user", message.raw, composed=composed, pictures=message.pictures)

    def _schema(self) -> ReplySchema | None:
        wanted = self.response_format
        has_format = wanted is not None and wanted.type != "text"
        if bool(self.grammar) + has_format + (self.json_schema is not None) > 1:
            raise invalid("grammar", "send one of grammar, json_schema and response_format")
        if self.json_schema is not None:
            return ReplySchema(self.json_schema)
        if wanted is None or wanted.type == "text":
            return None
        if wanted.type == "json_object":
            return ReplySchema({"type": "object"})
        given = wanted.json_schema
        if given is None or given.schema_ is None:
            raise invalid("response_format", "it has no schema")
        return ReplySchema(given.schema_, given.name or "answer", given.strict)

    def _logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise invalid("top_logprobs", "set logprobs to true as well")
        return self.top_logprobs or 0 if self.logprobs else None

    def _choice(self) -> str:
        if isinstance(self.tool_choice, _NamedTool):
            name = self.tool_choice.function.name
            known = {tool.function.name for tool in self.tools or ()}
            require_supported(name in known, "tool_choice", "name a tool that is among the tools")
            return name
        if self.tool_choice == "required" and not (self.tools or self.memory_tools):
            raise invalid("tool_choice", "there are no tools to call")
        return self.tool_choice or "auto"


class CompletionBody(_Sampled):
    """POST /v1/completions: the model continues a text, without a chat template."""

    prompt: str | list[str] | list[int] | list[list[int]]
    echo: bool | None = False
    suffix: str | None = None
    best_of: int | None = Field(
        default=None,
        ge=1,
        le=MOST_ANSWERS,
        description="Return the `n` likeliest of so many, by the mean of their log-probabilities.",
    )
    logprobs: int | None = Field(default=None, ge=0, le=_MOST_LIKELY)

    def refuse_unsupported(self) -> None:
        """Raise Denied for fields that would change the answer and are not supported."""
        require_supported(self.logprobs is None or not self.echo, "echo", "the prompt has no logprobs")
        if self.best_of is not None and self.best_of < (self.n or 1):
            raise invalid("best_of", "it must not be less than n")
        if self.best_of not in (None, self.n or 1) and self.stream:
            raise invalid("best_of", "a stream can't choose the best: drop stream or best_of")


class _TextPart(LenientBody):
    type: Literal["text"]
    text: str


class EmbeddedObject(LenientBody):
    """A text as llama.cpp's server takes it beside plain ones: a string, or parts."""

    prompt_string: str | None = None
    content: list[_TextPart] | None = None

    @property
    def text(self) -> str:
        """The text. Denied without one."""
        if self.prompt_string is not None:
            return self.prompt_string
        if not self.content:
            raise invalid("input", "an object has prompt_string, or parts of type text as content")
        return "".join(part.text for part in self.content)


class EmbeddingBody(ClientBody):
    """POST /v1/embeddings."""

    model: ModelName = Field(default="", description="The embedder's name in GET /v1/models, or `default`.")
    input: str | EmbeddedObject | list[str | int | EmbeddedObject | list[int | str]] = Field(
        description="Texts. Ids of tokens are only accepted in a request without `model`."
    )
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: int | None = Field(default=None, description="Only the model's own number is accepted.")
    user: Ignored[str | None] = None

    @property
    def texts(self) -> list[str | list[int | str]]:
        """Texts to embed, or lists of token ids, which may have texts between them.

        Denied for ids in a request that names a model: OpenAI's clients, which always name one, take them
        from OpenAI's vocabularies.
        """
        given = self.input if isinstance(self.input, list) else [self.input]
        inputs: list[Any] = [given] if is_one(given) else given
        if not 1 <= len(inputs) <= _MOST_TEXTS or (
            self.model and any(isinstance(one, list) for one in inputs)
        ):
            raise invalid(
                "input",
                f"send a text, or up to {_MOST_TEXTS} of them, no token ids "
                "(langchain-openai: check_embedding_ctx_length=False)",
            )
        return [one.text if isinstance(one, EmbeddedObject) else one for one in inputs]


def require_supported(is_supported: bool, param: str, hint: str) -> None:
    """Raise Denied unless this server supports the field."""
    if not is_supported:
        raise unsupported(param, hint)


def _content_of(content: str | list[_Part] | None, place: str) -> str | Content:
    if content is None or isinstance(content, str):
        return content or ""
    return [_read_part(part, f"{place}.{i}") for i, part in enumerate(content)]


def _read_part(part: _Part, place: str) -> str | Picture:
    if part.type == "image_url":
        url = part.image_url.url if isinstance(part.image_url, _ImageUrl) else part.image_url
        return picture_from_url(url, place)
    if part.type not in ("text", "refusal"):
        message = f"models read text and pictures, no part of type {part.type[:40]!a}"
        raise invalid(place, message, "unsupported_content")
    return part.text or part.refusal or ""


_ROUTE = "/v1/chat/completions"


@described("ChatCompletion", 404, 409, events="ChatChunk", streams_with="stream")
async def chat_completions(request: Request, body: ChatBody) -> Response:
    """Answer a conversation, with what memory adds to its newest message."""
    if body.recalled or body.session:
        caller_of(request, body.user).require(MEMORY)
    if body.recalled and not body.stream:
        raise invalid("recalled", "only a stream has it; GET /v1/trace/SESSION lists what was recalled")
    chat = await Chat.of(request, _ROUTE, body)
    state: ServerState = request.app.state.shepherd
    if body.verbose or state.config.server_verbose:
        await chat.show_prompt()
    if body.stream:
        include_usage = body.stream_options is not None and body.stream_options.include_usage
        return streamed(
            chat,
            chat.model,
            include_usage=include_usage,
            tells_recalled=bool(body.recalled),
            tells_progress=body.tells_progress,
        )
    return await whole(request, chat, chat.model)


route = JsonRoute(_ROUTE, ChatBody, chat_completions)
