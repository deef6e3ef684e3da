"""Shapes of what a model answers, and of errors, in OpenAI's, Anthropic's, Ollama's and llama.cpp's APIs.

Main fields only: clients of these APIs know the rest. Tests compare them with real answers.
"""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

# ---- errors


class OpenAIProblem(TypedDict):
    """The reason for a refusal. `code` is for programs; `param` names the field, if it is about one."""

    message: str
    type: str
    param: str | None
    code: str


class OpenAIError(TypedDict):
    """An error of all routes but those of Anthropic's and Ollama's APIs."""

    error: OpenAIProblem


class AnthropicProblem(TypedDict):
    """The reason for a refusal; the message begins with the code."""

    type: str
    message: str


class AnthropicError(TypedDict):
    """An error below /v1/messages."""

    type: Literal["error"]
    error: AnthropicProblem


class OllamaError(TypedDict):
    """An error below /api; the code is in parentheses at the end."""

    error: str


# ---- OpenAI's chat and completions


class Usage(TypedDict):
    """Tokens. `prompt_tokens_details.cached_tokens` of the prompt did not have to be read again."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


class CalledFunction(TypedDict):
    """A function and its arguments, as JSON."""

    name: str
    arguments: str


class FunctionCall(TypedDict):
    """A call of one of the client's functions. In a stream, `index` is its place."""

    id: str
    type: Literal["function"]
    function: CalledFunction
    index: NotRequired[int]


class AnswerMessage(TypedDict):
    """The model's message; `reasoning_content` has its thoughts, if it has any."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    reasoning_content: NotRequired[str]
    tool_calls: NotRequired[list[FunctionCall]]


class ChatChoice(TypedDict):
    """The answer, and why it ended."""

    index: int
    message: AnswerMessage
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"]


class ChatCompletion(TypedDict):
    """A whole answer; there is one choice.

    If the request has a `session`, `session` is the id of the conversation in which the turn was stored, or
    null if it was not.
    """

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    timings: NotRequired[dict[str, float]]
    session: NotRequired[str | None]


class MessageDelta(TypedDict, total=False):
    """The new part of the message."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str
    tool_calls: list[FunctionCall]


class DeltaChoice(TypedDict):
    """Part of the answer; the last one says why it ended."""

    index: int
    delta: MessageDelta
    logprobs: dict[str, Any] | None
    finish_reason: Literal["stop", "length", "tool_calls", "content_filter"] | None


class Pause(TypedDict):
    """Pause before a provider is asked again, and how its last attempt failed."""

    after_s: float
    reason: str


class ChatChunk(TypedDict):
    """Part of an answer; the event `[DONE]` ends the stream.

    Chunks without choices have `usage`, `retry`, `recalled` or `prompt_progress` (before the answer) or
    `learned` (after it), if the request asked for them. The chunk with the `finish_reason` has `session`, as
    a whole answer does.
    """

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[DeltaChoice]
    usage: NotRequired[Usage | None]
    timings: NotRequired[dict[str, float]]
    recalled: NotRequired[dict[str, Any]]
    prompt_progress: NotRequired[dict[str, int]]
    retry: NotRequired[Pause]
    learned: NotRequired[list[dict[str, Any]]]
    session: NotRequired[str | None]


class TextChoice(TypedDict):
    """The continuation of one prompt, or in a stream part of it."""

    index: int
    text: str
    logprobs: dict[str, Any] | None
    finish_reason: str | None


class TextCompletion(TypedDict):
    """Continuations, one for each prompt, or in a stream part of one; the event `[DONE]` ends a stream."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: NotRequired[Usage | None]


class EmbeddedText(TypedDict):
    """The vector of one text, of length 1: numbers, or with `base64` little-endian 32-bit floats."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Embeddings(TypedDict):
    """Vectors in the order of the texts."""

    object: Literal["list"]
    data: list[EmbeddedText]
    model: str
    usage: dict[str, int]


class ModelEntry(TypedDict):
    """A model, with the fields of OpenAI's and of Anthropic's API.

    `owned_by` is the provider that runs it, `local` for this machine; `task` is what it is good for. With
    `memory`, answers of this model use the memory of this server.
    """

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    type: Literal["model"]
    display_name: str
    created_at: str
    task: Literal["chat", "embedding"]
    state: NotRequired[Literal["unloaded", "loading", "loaded", "unloading"]]
    memory: NotRequired[bool]


class ModelList(TypedDict):
    """The models of the server."""

    object: Literal["list"]
    data: list[ModelEntry]
    first_id: str
    last_id: str
    has_more: bool


# ---- OpenAI's Responses API


class InputTokens(TypedDict):
    """The number of tokens."""

    input_tokens: int
    object: NotRequired[Literal["response.input_tokens"]]


class ModelResponse(TypedDict):
    """A response. `output` has messages, calls of functions and thoughts."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    error: dict[str, Any] | None
    incomplete_details: dict[str, Any] | None
    instructions: str | None
    metadata: dict[str, Any]
    model: str
    output: list[dict[str, Any]]
    previous_response_id: str | None
    store: bool
    usage: dict[str, Any] | None


class ResponseEvent(TypedDict):
    """An event, whose type says which fields it has: `delta` of `response.output_text.delta` is new text.

    The last one is `response.completed`, `response.incomplete`, `response.failed` or, in the background,
    `response.cancelled`, with the whole response.
    """

    type: str
    sequence_number: int
    response: NotRequired[ModelResponse]
    item: NotRequired[dict[str, Any]]
    delta: NotRequired[str]
    learned: NotRequired[list[dict[str, Any]]]


class InputItems(TypedDict):
    """Items: messages, calls of functions and their outputs, thoughts."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    has_more: bool
    first_id: NotRequired[str]
    last_id: NotRequired[str]


class ConversationItem(TypedDict):
    """An item; its type says which other fields it has."""

    id: str
    type: str
    status: NotRequired[str]
    role: NotRequired[str]
    content: NotRequired[list[dict[str, Any]]]
    call_id: NotRequired[str]
    name: NotRequired[str]
    arguments: NotRequired[str]
    output: NotRequired[str | list[dict[str, Any]]]
    summary: NotRequired[list[dict[str, Any]]]


# ---- Anthropic's API


class AnthropicBlock(TypedDict):
    """A block of text, of thought, or a call of a tool, as its type says."""

    type: Literal["text", "thinking", "tool_use"]
    text: NotRequired[str]
    thinking: NotRequired[str]
    signature: NotRequired[str]
    id: NotRequired[str]
    name: NotRequired[str]
    input: NotRequired[dict[str, Any]]


class AnthropicAnswer(TypedDict):
    """A whole answer. `usage.cache_read_input_tokens` did not have to be read again."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnthropicBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"] | None
    stop_sequence: str | None
    usage: dict[str, int]


class AnthropicEvent(TypedDict):
    """An event from `message_start` to `message_stop`; its type, which is also its name, says its fields."""

    type: str
    message: NotRequired[AnthropicAnswer]
    index: NotRequired[int]
    content_block: NotRequired[AnthropicBlock]
    delta: NotRequired[dict[str, Any]]
    usage: NotRequired[dict[str, int]]
    learned: NotRequired[list[dict[str, Any]]]


# ---- Ollama's API


class OllamaAnswer(TypedDict):
    """Fields of all answers; those after `done` come at the end. Durations are in nanoseconds."""

    model: str
    created_at: str
    done: bool
    done_reason: NotRequired[Literal["stop", "length", "load", "unload"]]
    total_duration: NotRequired[int]
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]


class OllamaAnswerMessage(TypedDict):
    """The model's message, or part of it."""

    role: Literal["assistant"]
    content: str
    thinking: NotRequired[str]
    tool_calls: NotRequired[list[dict[str, Any]]]


class OllamaChat(OllamaAnswer):
    """An answer, or one line of a stream, whose last one has `done` true."""

    message: OllamaAnswerMessage


class OllamaGenerated(OllamaAnswer):
    """An answer, or one line of a stream, whose last one has `done` true."""

    response: str
    thinking: NotRequired[str]


class OllamaVersion(TypedDict):
    """The version of Ollama whose API this is."""

    version: str


class OllamaModel(TypedDict):
    """A model; those of /api/ps are in memory until `expires_at`."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: dict[str, Any]
    expires_at: NotRequired[str]
    size_vram: NotRequired[int]
    context_length: NotRequired[int]


class OllamaModels(TypedDict):
    """Models of the server."""

    models: list[OllamaModel]


class OllamaShown(TypedDict):
    """A model and its chat template."""

    modelfile: str
    parameters: str
    template: str
    details: dict[str, Any]
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: str


class OllamaEmbeddings(TypedDict):
    """Vectors in the order of the texts."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaEmbedding(TypedDict):
    """The vector of the text."""

    embedding: list[float]


class OllamaProgress(TypedDict):
    """A step of a download; the last one is `success`. Those about a file have its size and what came."""

    status: str
    digest: NotRequired[str]
    total: NotRequired[int]
    completed: NotRequired[int]


# ---- llama.cpp's server


class TokenPiece(TypedDict):
    """A token and its text, or its bytes if they are part of a character."""

    id: int
    piece: str | list[int]


class Tokens(TypedDict):
    """The ids, or with `with_pieces` objects with ids and pieces."""

    tokens: list[int | TokenPiece]


class Content(TypedDict):
    """A text."""

    content: str


class Prompt(TypedDict):
    """The text that the model would read."""

    prompt: str


class ContinuedText(TypedDict):
    """A continuation, or in a stream part of one; the last part has no text, but all other fields.

    `stop_type` is `eos`, `word` (`stopping_word` says which) or `limit`.
    """

    index: int
    content: str
    tokens: list[int]
    stop: bool
    id_slot: NotRequired[int]
    model: NotRequired[str]
    tokens_predicted: NotRequired[int]
    tokens_evaluated: NotRequired[int]
    tokens_cached: NotRequired[int]
    generation_settings: NotRequired[dict[str, Any]]
    prompt: NotRequired[str]
    has_new_line: NotRequired[bool]
    truncated: NotRequired[bool]
    stop_type: NotRequired[Literal["eos", "word", "limit"]]
    stopping_word: NotRequired[str]
    timings: NotRequired[dict[str, float]]
    completion_probabilities: NotRequired[list[dict[str, Any]]]


ContinuedTexts = ContinuedText | list[ContinuedText]
EitherCompletion = TextCompletion | ContinuedText | list[ContinuedText]


class Props(TypedDict):
    """The model and the server; a provider's model has no template."""

    model_alias: str
    model_path: str
    build_info: str
    total_slots: int
    modalities: dict[str, bool]
    default_generation_settings: dict[str, Any]
    chat_template: NotRequired[str]
    kept_conversations: NotRequired[dict[str, int] | None]


class Slot(TypedDict):
    """A place for one answer."""

    id: int
    n_ctx: int
    is_processing: bool


SlotList = list[Slot]


class RankedText(TypedDict):
    """A text by its place in the request, with its relevance; `document` if the request asked for it."""

    index: int
    relevance_score: float
    document: NotRequired[dict[str, str]]


class ScoredText(TypedDict):
    """A text by its place in `texts`; `text` if the request asked for it."""

    index: int
    score: float
    text: NotRequired[str]


class RankedTexts(TypedDict):
    """The texts, the most relevant first."""

    object: Literal["list"]
    model: str
    usage: dict[str, int]
    results: list[RankedText]


Ranking = RankedTexts | list[ScoredText]
