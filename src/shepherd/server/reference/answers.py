"""Shapes of what Shepherd's own routes answer. Tests compare them with real answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from shepherd.knowledge.records import ChunkResult, Dimension, Edge, Hub, Node
from shepherd.memory.records import (
    ExtractionStats,
    FactChange,
    FactPeriod,
    ImportCounts,
    ItemKind,
    ItemState,
    SessionSummary,
)
from shepherd.types import Fact, Learning

# ---- the server


class OpenAPI(TypedDict):
    """A document of OpenAPI 3.1."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]
    tags: list[dict[str, str]]


class Health(TypedDict):
    """State of the server: `failed` if it cannot read its keys. `memory` may also be `read-only` or `off`."""

    status: Literal["ok", "failed"]
    memory: Literal["ok", "read-only", "off", "failed"]


class Setting(TypedDict):
    """A setting that can change while the server runs, with its value and what is allowed."""

    name: str
    value: float | int | str
    default: float | int | str
    kind: str
    choices: list[str]
    minimum: float | None
    maximum: float | None
    help: str


class Settings(TypedDict):
    """The settings; with `is_changeable` false, the server refuses changes."""

    data: list[Setting]
    is_changeable: bool


# ---- what several routes answer


class Deleted(TypedDict):
    """The id of the deleted thing."""

    id: str
    deleted: bool
    object: NotRequired[str]


class DeletedNumber(TypedDict):
    """The id of the deleted thing."""

    id: int
    deleted: bool


# ---- memories


class Who(TypedDict):
    """The user ("" for nobody), the key's owner, the caller's rights, and the server's version."""

    user: str
    owner: str
    suggested: str
    scopes: list[str]
    is_writable: bool
    can_chat: bool
    version: str


class Memory(TypedDict):
    """A stored question and answer. `timestamp` is in unix seconds, `source` is its writer."""

    id: int
    question: str
    answer: str
    timestamp: int
    pinned: bool
    source: str
    recalls: int
    recalled_at: NotRequired[int]


class FoundMemory(Memory):
    """A memory with its rank (`score`) and its relevance from 0 to 1, which its age does not change."""

    score: float
    relevance: float
    age_days: float


class MemoryList(TypedDict):
    """Memories; `total` is the number of all that meet the conditions."""

    data: list[Memory]
    total: int


class FoundMemories(TypedDict):
    """Memories, best first."""

    data: list[FoundMemory]


class ChangedMemories(TypedDict):
    """The ids of the memories that were changed."""

    ids: list[int]


class DatabaseSize(TypedDict):
    """Sizes of the database of all users."""

    used_bytes: int
    file_bytes: int
    limit_bytes: int


class MemoryFigures(TypedDict):
    """Counts; a `day` is counted from 1970. `database` is null for keys without the scope `metrics`."""

    memories: int
    pinned: int
    facts: int
    conversations: int
    nodes: int
    oldest_timestamp: int
    newest_timestamp: int
    per_day: list[dict[str, int]]
    per_source: list[dict[str, Any]]
    never_recalled: int
    most_recalled: list[Memory]
    extraction: ExtractionStats
    learning: Learning
    database: DatabaseSize | None


ImportedMemories = ImportCounts


class Progress(TypedDict):
    """The parts that are done, of `total` parts; a total of 0 is unknown."""

    done: int
    total: int


class ImportEvent(TypedDict, total=False):
    """An event with the progress, the result or an error; the event `[DONE]` ends the stream."""

    progress: Progress
    result: dict[str, Any]
    error: dict[str, Any]


class DocumentText(TypedDict):
    """The text of a document; `block` is what the model reads where it goes with a message."""

    name: str
    title: str
    kind: str
    text: str
    block: str


class BuiltPrompt(TypedDict):
    """A prompt, its length in tokens, and the parts that it has or had no room for."""

    text: str
    tokens: int
    max_tokens: int
    strategy: str
    budget: dict[str, Any]
    compression: str
    parts: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    warnings: list[str]


# ---- facts and what was learned


class FactList(TypedDict):
    """Facts in the order of their keys; `history` and `periods` if the request asked for them."""

    data: list[Fact]
    history: NotRequired[list[FactChange]]
    periods: NotRequired[list[FactPeriod]]


class FactShown(TypedDict):
    """A fact with all its values; `value` is null if it was cleared."""

    key: str
    value: str | None
    history: list[FactChange]
    periods: list[FactPeriod]


class FactSet(TypedDict):
    """The fact as it is now."""

    key: str
    value: str


class FactCleared(TypedDict):
    """The fact that was cleared."""

    key: str
    deleted: bool


class Learned(TypedDict):
    """Something that was learned from `statement`.

    `kind` "remembered" is a memory, whose question is `key` and whose answer is `value`. "proposed" in state
    "new" waits to be accepted or rejected. `before` is the value until then. `sentence` says what was
    learned, such as "You live in Paris", and `former_sentence` what was known before. `undoable` says whether
    the decision "undo" is possible: it isn't once the fact or the memory was changed again.
    """

    id: str
    kind: ItemKind
    key: str
    value: str
    before: str | None
    statement: str
    session: str
    at: int
    state: ItemState
    sentence: str
    former_sentence: str | None
    undoable: bool


class LearnedList(TypedDict):
    """Facts and memories that were learned, newest first."""

    data: list[Learned]


class Job(TypedDict):
    """Messages of a conversation that wait to be learned from."""

    id: str
    session: str
    state: str
    messages: int
    attempts: int
    next_try: float
    told_at: float
    error: str


class JobList(TypedDict):
    """Unfinished jobs, and the number of jobs by state."""

    data: list[Job]
    stats: ExtractionStats


class JobRetried(TypedDict):
    """The job that is tried again."""

    id: str
    retried: bool


# ---- conversations and traces


class ConversationList(TypedDict):
    """Conversations, the latest first; `total` is the number that match, on all pages.

    `left_out` is the number of single questions that `one_offs=false` left out.
    """

    data: list[SessionSummary]
    total: int
    left_out: int


class RecalledPassage(TypedDict):
    """A passage of a document that was appended to a message.

    `id` is the one that /v1/knowledge/search has, `node_id` the node that has the document. `text` is the
    beginning of the passage, and `relevance` (0 to 1) how well it matched.
    """

    id: int
    node_id: int
    title: str
    text: str
    relevance: float


class FocusedNode(TypedDict):
    """A node in focus that was appended to a message; `title` is the one that the model read."""

    id: int
    title: str


class Recalled(TypedDict):
    """The text that memory appended to a message (`tail`), with facts, memories, passages and nodes in focus.

    Messages that an earlier version stored have no `passages` and `nodes`, although their `tail` may contain
    some.
    """

    tail: str
    facts: list[Fact]
    memories: list[dict[str, Any]]
    passages: list[RecalledPassage]
    nodes: list[FocusedNode]
    keywords: list[str]
    recall_us: float


class ConversationMessage(TypedDict):
    """A message; `message` is its position. `composed` is what the model read in place of `text`, or ""."""

    message: int
    role: Literal["system", "user", "assistant", "tool"]
    created_at: int
    text: str
    composed: str
    thought: str
    calls: list[dict[str, str]]
    recalled: Recalled | None


class Conversation(TypedDict):
    """A conversation with its messages; `model` is the one it was begun with."""

    id: str
    title: str
    model: str
    data: list[ConversationMessage]


class OpenAIConversation(TypedDict):
    """A conversation of OpenAI's API."""

    id: str
    object: Literal["conversation"]
    created_at: int
    metadata: dict[str, Any]


AnyConversation = Conversation | OpenAIConversation


class ConversationTitle(TypedDict):
    """A conversation and its title."""

    id: str
    title: str


class DeletedMessages(TypedDict):
    """The conversation, and the number of messages that were deleted."""

    id: str
    deleted: int


class ReadingAhead(TypedDict):
    """Whether the model reads the conversation."""

    reading: bool


class Stopped(TypedDict):
    """The number of answers that were stopped."""

    stopped: int


class TracedMessage(Recalled):
    """A message of the user, with what was added to it."""

    message: int
    created_at: int
    text: str


class Trace(TypedDict):
    """The user's messages of a conversation; `turns` are the numbers of those that have a trace."""

    id: str
    data: list[TracedMessage]
    turns: list[int]


class TurnUsage(TypedDict):
    """A turn: the room that each part of its prompt got, in tokens, and what it cost."""

    turn: int
    room: dict[str, Any]
    usage: dict[str, Any]


class TraceUsage(TypedDict):
    """The turns of a conversation."""

    id: str
    data: list[TurnUsage]


class TracedTurn(TypedDict):
    """The trace of a turn: values by their paths."""

    id: str
    turn: int
    data: dict[str, Any]


# ---- knowledge


class NodeList(TypedDict):
    """Nodes, the latest changed first; `total` is the number of all that meet the conditions."""

    data: list[Node]
    total: int


class EdgeList(TypedDict):
    """Edges, the newest first."""

    data: list[Edge]


@dataclass(frozen=True)
class NodeWithEdges(Node):
    """A node with its text and its latest edges."""

    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True)
class StoredNode(Node):
    """A node as it was stored; `secrets` is the number of secrets in the request that were masked."""

    secrets: int = 0


class DimensionList(TypedDict):
    """Tags, priority ones first."""

    data: list[Dimension]


class HubList(TypedDict):
    """The nodes with the most edges."""

    data: list[Hub]


class FocusedNodes(TypedDict):
    """The nodes in focus, the primary one first."""

    data: list[Node]


class FoundChunks(TypedDict):
    """Parts of nodes, best first."""

    data: list[ChunkResult]


class ImportedKnowledge(TypedDict):
    """Counts of documents or nodes by what became of them, the ids of the nodes, and problems.

    `secrets` is the number of secrets in their texts, such as passwords and codes, that were masked.
    """

    added: int
    changed: int
    unchanged: int
    failed: int
    secrets: int
    nodes: list[int]
    problems: list[str]


# ---- the conversation that several clients share


class SessionAnswer(TypedDict):
    """The answer, why it ended, what was recalled for it, and what it cost."""

    request: str
    client: str
    answer: str
    finish_reason: str
    injected: dict[str, Any]
    warnings: list[dict[str, str]]
    stats: dict[str, Any]


class SessionQueued(TypedDict):
    """The request's id, and the number of requests before it."""

    request: str
    ahead: int


class SessionEvent(TypedDict):
    """An event; its name says its fields. Those of a request have its id, and `client` as it was sent.

    Names are `connected`, `message_added`, `delta` (with `text`), `tool_call`, `tool_result`,
    `response_complete`, `error` and `cleared`.
    """

    request: NotRequired[str]
    client: NotRequired[str]
    text: NotRequired[str]
    role: NotRequired[str]
    content: NotRequired[str]
    answer: NotRequired[str]
    code: NotRequired[str]
    message: NotRequired[str]


class SessionMessage(TypedDict):
    """A message of the conversation."""

    role: str
    content: str
    created_at: int


class SessionState(TypedDict):
    """The conversation so far, and what the server is doing."""

    session: str
    user: str
    model: str
    window_tokens: int
    memory: bool
    busy: bool
    waiting: int
    messages: list[SessionMessage]


class SessionCleared(TypedDict):
    """A new conversation has begun."""

    cleared: bool
