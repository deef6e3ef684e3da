"""Records that packages exchange: messages, facts, memories, injections, costs of turns."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

__all__ = [
    "ANONYMOUS_USERS",
    "SAMPLERS",
    "SECONDS_PER_DAY",
    "SEEDS",
    "Fact",
    "FinishReason",
    "FocusedNode",
    "Injection",
    "MemoryRecord",
    "Message",
    "PastFact",
    "Picture",
    "Piece",
    "RecalledPassage",
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

# Users with these ids read and write nothing.
ANONYMOUS_USERS = frozenset({"", "unknown"})


@dataclass(frozen=True, slots=True)
class Fact:
    """A durable key = value about a user. Times are in unix seconds.

    `updated_at` is when the value was recorded, `valid_from` the time from which it holds, 0 for the same.
    """

    key: str
    value: str
    created_at: int
    updated_at: int
    valid_from: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Learning:
    """State of learning from messages: the `model` that learns, or the `reason` why none does.

    `where` says where the model runs: "bundled", "chat" (the chat's own), "local", or the endpoint's host.
    Where a setting is broken, `remedy` says what to do.
    """

    is_on: bool = False
    model: str = ""
    where: str = ""
    reason: str = "nothing was started that learns"
    remedy: str = ""

    def in_words(self) -> str:
        """Return the state as part of a sentence, such as "on, with shepherd-mini, the bundled model"."""
        if not self.is_on:
            return f"off: {self.reason}"
        places = {"bundled": "the bundled model", "chat": "the model of the chat", "local": "on this machine"}
        return f"on, with {self.model}, {places.get(self.where, f'a model at {self.where}')}"


NOT_LEARNING = Learning()


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """A stored question and answer. `timestamp` is in unix seconds; `source` is its writer."""

    id: int
    question: str
    answer: str
    timestamp: int
    pinned: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A memory that a search found.

    `score` is its rank value (BM25 times recency); `relevance` is 0..1 and independent of age.
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
class RecalledPassage:
    """A passage of a document in `Injection.tail`. `text` is its beginning; `relevance` is 0..1."""

    id: int
    node_id: int
    title: str
    text: str
    relevance: float


@dataclass(frozen=True, slots=True)
class FocusedNode:
    """A node in focus in `Injection.tail`."""

    id: int
    title: str


@dataclass(frozen=True, slots=True)
class PastFact:
    """A fact of another time in `Injection.tail`, for a question about time; times in unix seconds.

    held: `value` held from `since` to `until` (None: it still holds); then: it held in the `time` asked for,
    such as "March 2026"; since: the present `value` has held from `since` on; known: nothing is known of the
    time before `since`, when it was `value`; began, ended: that is a change.
    """

    kind: Literal["held", "then", "since", "known", "began", "ended"]
    key: str
    value: str
    since: int
    until: int | None = None
    time: str = ""


@dataclass(frozen=True, slots=True)
class Injection:
    """Text and records appended to one message. `tail` is the exact text, "" for none.

    `parts` are the ids of its entities, passages and focused nodes; `passages` describes the passages, and
    `nodes` the nodes in focus, the primary one first. `fewer_facts` are shorter forms of the line of facts,
    the longest first, each with the facts that it shows. `past` are the facts of another time that a question
    asks for.
    """

    tail: str = ""
    facts: tuple[Fact, ...] = ()
    results: tuple[SearchResult, ...] = ()
    keywords: tuple[str, ...] = ()
    recall_us: float = 0.0
    parts: tuple[str, ...] = ()
    passages: tuple[RecalledPassage, ...] = ()
    nodes: tuple[FocusedNode, ...] = ()
    fewer_facts: tuple[tuple[str, tuple[Fact, ...]], ...] = field(default=(), repr=False, compare=False)
    past: tuple[PastFact, ...] = field(default=(), repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.tail)


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a model can call; `parameters` is the JSON schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReplySchema:
    """A JSON schema that an answer must follow. `name` and `is_strict` are fields of OpenAI's API."""

    schema: Mapping[str, Any]
    name: str = "answer"
    is_strict: bool | None = None

    @property
    def is_any_object(self) -> bool:
        """Return whether any JSON object will do."""
        return dict(self.schema) == {"type": "object"}


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of a model. `arguments` is JSON as the model wrote it, perhaps invalid.

    `extra` is JSON that only its transport reads: what a server wants back with the call.
    """

    id: str
    name: str
    arguments: str
    extra: str = ""


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of a model's reasoning before its answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a message: the bytes of its file. Two are equal if their digests are."""

    data: bytes = field(repr=False, compare=False)
    digest: bytes = b""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", hashlib.sha256(self.data).digest())


# A piece of a streamed reply; plain text belongs to the answer.
Piece: TypeAlias = str | Thought | ToolCall


@dataclass(slots=True)
class Message:
    """One message of a conversation.

    `raw` is its author's text, byte for byte; `composed` is what the model reads in its place, such as `raw`
    in a template and with attached documents, or "". `sent` is the text for the model (`content` and the
    tail); `injected` has the tail's parts. Recall, history, summaries and extraction read `raw`.
    `token_ids` are the ids that the engine sampled for an answer: re-tokenising text would lose the prefix.
    `tool_calls` belong to an answer; `tool_call_id` is the call whose result a message of role "tool" has.
    `thought` is a model's reasoning before its answer, for its chat template, or for the provider whose
    calls say so (`ToolCall.extra`).
    `pictures` stand where `composed` and `sent` have a mark for each (see pictures.py), or before the text.
    `tokens` is the length of `sent` in tokens, `created_at` a time in unix seconds; each is 0 while unknown.
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
    composed: str = ""
    pictures: tuple[Picture, ...] = ()

    def __post_init__(self) -> None:
        if not self.sent:
            self.sent = self.content

    @property
    def content(self) -> str:
        """Text for the model without the tail."""
        return self.composed or self.raw

    def copy(self) -> Message:
        """Return a copy to change, as a request does with each message of its conversation."""
        # dataclasses.replace takes four times as long, 3 µs.
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
            self.composed,
            self.pictures,
        )


# Seeds are below it; llama.cpp takes the number itself for a wish to draw one.
SEEDS = 0xFFFFFFFF


# Names of the samplers of llama.cpp whose order can be chosen, in the order in which they run otherwise.
SAMPLERS = (
    "penalties", "dry", "top_n_sigma", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters, named as in llama.cpp. Temperature 0 is greedy; `seed` None draws one each time.

    `logit_bias` has pairs of a token's id and what is added to its logit; minus infinity forbids it. With
    `mirostat` 1 or 2, top_k, top_p, min_p, typical_p, top_n_sigma and xtc are off. `dry_multiplier` above 0
    penalises tokens that would continue a sequence that occurred before, of more than `dry_allowed_length`
    tokens and in none of which is one of `dry_sequence_breakers`. `samplers` are those of SAMPLERS that run,
    in this order; biases come before them, and mirostat takes the place of all but the penalties.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    repeat_last_n: int = 64
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = 4096
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    samplers: tuple[str, ...] = SAMPLERS

    @property
    def penalty_last_n(self) -> int:
        """Number of tokens that penalties look back; 0 without any."""
        is_on = self.repeat_penalty != 1.0 or self.frequency_penalty or self.presence_penalty
        return max(self.repeat_last_n if is_on else 0, self.dry_penalty_last_n if self.dry_multiplier else 0)

    def of_answer(self, i: int) -> Sampling:
        """Return the sampling of answer `i` of several to one prompt: a seed, if given, is `i` more."""
        return self if self.seed is None else replace(self, seed=(self.seed + i) % SEEDS)


FinishReason = Literal["stop", "length", "cancelled", "tool_calls", "filtered"]


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token and its log probability before sampling; `top` has the likeliest tokens at its position.

    `piece` are the bytes it adds to the text, perhaps part of a character. In `top`, control tokens have
    their names as pieces.
    """

    token_id: int
    piece: bytes
    logprob: float
    top: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnStats:
    """Cost of one turn. Token counts come from the engine; times are in milliseconds.

    prompt_tokens = reused_tokens + decoded_tokens: the whole prompt, the part in the KV cache, and the part
    that was processed for this turn. generated_tokens: the answer. drafted_tokens: guesses at its next tokens
    that the model checked several at a time, of which accepted_tokens were right; model_…: those of
    them that a draft model guessed. evicted_turns: old turns
    that left the window for this turn. With a remote model the counts are its server's (reused: cached
    there), or estimates if `is_estimated`. stopped_by: index of the stop string that ended the answer, -1 for
    none or unknown.
    """

    prompt_tokens: int = 0
    reused_tokens: int = 0
    decoded_tokens: int = 0
    generated_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    model_drafted_tokens: int = 0
    model_accepted_tokens: int = 0
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
    def tokens_per_decode(self) -> float:
        """Tokens generated per batch, 1 without drafts; 0 when nothing was generated."""
        n_batches = self.generated_tokens - self.accepted_tokens
        return self.generated_tokens / n_batches if n_batches > 0 else 0.0

    @property
    def tokens_per_second(self) -> float:
        """Generation speed; 0 when nothing was generated."""
        return self.generated_tokens / self.decode_ms * 1000 if self.decode_ms > 0 else 0.0
