"""Records that travel between the rooms: messages, facts, memories, what was injected, what a turn cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

__all__ = [
    "ANONYMOUS_USERS",
    "SECONDS_PER_DAY",
    "Fact",
    "FinishReason",
    "Injection",
    "MemoryRecord",
    "Message",
    "Piece",
    "ReplySchema",
    "Role",
    "Sampling",
    "SearchResult",
    "Thought",
    "TokenLogprob",
    "Tool",
    "ToolCall",
    "TurnStats",
]

Role = Literal["system", "user", "assistant", "tool"]

SECONDS_PER_DAY = 86_400

# Nobody in particular: these ids read and write nothing.
ANONYMOUS_USERS = frozenset({"", "unknown"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A durable key = value about a user. Times are unix seconds."""

    key: str
    value: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A stored question and answer. `timestamp` is in unix seconds; `source` says who wrote it."""

    id: int
    question: str
    answer: str
    timestamp: int
    pinned: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A memory that a search found, with why.

    `score` is what it was ranked by (BM25 times recency), `relevance` is 0..1 and does not age.
    """

    id: int
    question: str
    answer: str
    timestamp: int
    score: float
    relevance: float
    age_days: float
    pinned: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Injection:
    """What is added to one message. `tail` is the exact text, empty when there is nothing to add.

    `parts` are the ids of what it has beside facts and memories: entities, passages, focused nodes.
    """

    tail: str = ""
    facts: tuple[Fact, ...] = ()
    results: tuple[SearchResult, ...] = ()
    keywords: tuple[str, ...] = ()
    recall_us: float = 0.0
    parts: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tail)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model may call; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """A JSON schema that an answer must follow. `name` and `is_strict` are OpenAI's, for its own service."""

    schema: Mapping[str, Any]
    name: str = "answer"
    is_strict: bool | None = None

    @property
    def is_any_object(self) -> bool:
        """Whether it asks for JSON, and nothing else."""
        return dict(self.schema) == {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A model's wish to call a tool. `arguments` is JSON as the model wrote it, which may be none.

    `extra` is what else a server wants back with the call, as JSON: its transport's alone to read.
    """

    id: str
    name: str
    arguments: str
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what a model thinks before it answers; no part of the answer."""

    text: str


# What answers come in; plain text is the answer itself.
Piece: TypeAlias = str | Thought | ToolCall


@dataclass(slots=True)
class Message:
    """One message of a conversation.

    `raw` is what its author wrote, byte for byte; `sent` is what the model saw (`raw` and the tail);
    `injected` holds the tail's parts. History, summaries and extraction read `raw`.
    `token_ids` are the ids the engine sampled, for an answer of its own: re-tokenising text loses the prefix.
    `tool_calls` are an answer's; `tool_call_id` says whose result a message of role "tool" is. `thought` is
    what a model thought before its answer, for its own template; nobody else reads it.
    `tokens` is the length of `sent` in tokens, 0 while unknown; `created_at` is in unix seconds, 0 likewise.
    """

    role: Role
    raw: str
    sent: str = ""
    injected: Injection | None = None
    token_ids: tuple[int, ...] = ()
    tokens: int = 0
    id: int = 0
    created_at: int = field(default=0, compare=False)
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    thought: str = ""

    def __post_init__(self) -> None:
        if not self.sent:
            self.sent = self.raw

    def copy(self) -> Message:
        """Another one that may be changed: a request copies each message of its conversation."""
        # dataclasses.replace takes four times as long, 3 us.
        return Message(
            self.role,
            self.raw,
            self.sent,
            self.injected,
            self.token_ids,
            self.tokens,
            self.id,
            self.created_at,
            self.tool_calls,
            self.tool_call_id,
            self.thought,
        )


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. Temperature 0 is greedy; `seed` None draws a new one per answer."""

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    seed: int | None = None


FinishReason = Literal["stop", "length", "cancelled", "tool_calls", "filtered"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and the logarithm of its probability, before sampling; `top` has the likeliest at its place.

    `piece` is what it adds to the text, perhaps a part of a character. Among `top`, control tokens have their
    names as well.
    """

    token_id: int
    piece: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnStats:
    """What one turn cost. Token counts come from the engine; times are in milliseconds.

    prompt_tokens = reused_tokens + decoded_tokens: all of the prompt, the part the KV cache already held,
    and the part that was read for this turn. generated_tokens is the answer. evicted_turns: the oldest ones,
    that left the window for this turn. With a remote model the counts are its server's (reused: what that
    says it had cached), or estimates, as `is_estimated` says. stopped_by: which of the stop strings that were
    asked for ended the answer; -1 where none did, or where that is not known.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    decoded_tokens: int = 0
    generated_tokens: int = 0
    window_tokens: int = 0
    evicted_turns: int = 0
    recall_ms: float = 0.0
    prefill_ms: float = 0.0
    ttft_ms: float = 0.0
    decode_ms: float = 0.0
    total_ms: float = 0.0
    finish_reason: FinishReason = "stop"
    warnings: tuple[str, ...] = field(default_factory=tuple)
    is_estimated: bool = False
    stopped_by: int = -1

    @property
    def tokens_per_second(self) -> float:
        """Speed of the answer alone, 0 when nothing was generated."""
        return self.generated_tokens / self.decode_ms * 1000 if self.decode_ms > 0 else 0.0
