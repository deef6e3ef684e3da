"""State that the routes and middleware of a server share, and what of it is a caller's own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Query, Request

from shepherd.config import Config
from shepherd.lru_cache import LRUCache
from shepherd.memory import ApiKeys, Memory
from shepherd.server.description import USER
from shepherd.server.errors import Denied, missing
from shepherd.server.identity import CHAT, caller_of
from shepherd.server.pool import ModelPool
from shepherd.server.public_ids import memory_id
from shepherd.types import NOT_LEARNING, Learning

if TYPE_CHECKING:
    from shepherd.extraction import ExtractionWorker
    from shepherd.inference.models import StoredModel
    from shepherd.memory_factory import LazyReranker
    from shepherd.server.background import BackgroundResponse
    from shepherd.server.chat import Chat
    from shepherd.server.retrieval_api import Embeddings
    from shepherd.server.turns import Conversations
    from shepherd.types import TurnStats

__all__ = [
    "AppState",
    "InjectionTime",
    "Own",
    "OwnMemory",
    "QueriedUser",
    "Served",
    "ServerState",
    "Stopwatch",
]

# Users whose last event about learning is known; others hear of what is learned from then on.
_USERS_TOLD = 4096
# Responses that are about nobody's memory, as JSON by user and id; the rest is in the database.
_RESPONSES, _RESPONSES_BYTES = 4096, 16 << 20


@dataclass(frozen=True, slots=True)
class InjectionTime:
    """Seconds from the bare conversation to the one with old tails restored and the new one appended.

    `wall_s` includes waits for a thread, for the GIL and for a processor; `cpu_s` is processor time alone.
    """

    wall_s: float
    cpu_s: float


class Stopwatch:
    """Starts when it is made, on the thread that made it; `waited_s` was spent before that."""

    def __init__(self, waited_s: float = 0.0) -> None:
        self._wall = time.perf_counter() - waited_s
        self._cpu = time.thread_time()

    def read(self) -> InjectionTime:
        """Return the time that has passed."""
        return InjectionTime(time.perf_counter() - self._wall, time.thread_time() - self._cpu)


@dataclass(frozen=True, slots=True)
class Served:
    """One completed answer, for metrics. `error` is the code of its failure, or "".

    `injection_time` is None for an answer without memory.
    """

    route: str
    stats: TurnStats | None
    injected: bool = False
    error: str = ""
    injection_time: InjectionTime | None = None


@dataclass(slots=True)
class AppState:
    """The parts that middleware and the memory's routes need.

    `memory` is None without memory; it may be read-only (`is_writable`). `keys` default to the memory's own:
    a server without memory still asks for keys. `observers` are called for each answer, on the event loop.
    """

    config: Config
    memory: Memory | None
    is_writable: bool
    # False while bound to loopback without keys: `user` of the request counts. See identity.
    needs_key: bool = field(default=False, kw_only=True)
    started_at: float = field(default_factory=time.time, kw_only=True)
    observers: list[Callable[[Served], None]] = field(default_factory=list, kw_only=True)
    keys: ApiKeys | None = field(default=None, kw_only=True)
    learning: Learning = field(default=NOT_LEARNING, kw_only=True)
    responses: LRUCache[tuple[str, str], str] = field(
        default_factory=lambda: LRUCache(
            _RESPONSES, max_bytes=_RESPONSES_BYTES, size_of=lambda key, text: 4 * len(text)
        ),
        kw_only=True,
    )
    # Held while a stored conversation is read and written back.
    conversation_lock: threading.Lock = field(default_factory=threading.Lock, kw_only=True)

    def __post_init__(self) -> None:
        if self.keys is None and self.memory is not None:
            self.keys = self.memory.keys

    @property
    def is_open(self) -> bool:
        """True if people other than this computer's users can read answers.

        Without keys, the server is bound to loopback, but `server_hosts` means that others may reach a proxy.
        """
        return self.needs_key or bool(self.config.server_hosts)

    def served(self, event: Served) -> None:
        """Call all observers."""
        for observer in self.observers:
            observer(event)


@dataclass(slots=True)
class ServerState(AppState):
    """The parts of a server with the APIs.

    Writing, and everything else that waits for a disk, belongs on a worker thread, not into the event loop.
    `in_progress` has the functions that cancel the answers that are being made. `conversations` are those
    with the default model; without a `pool` it is the only one.
    """

    conversations: Conversations
    worker: ExtractionWorker | None = None
    embeddings: Embeddings | None = None
    reranker: LazyReranker | None = None
    pool: ModelPool = field(default_factory=lambda: ModelPool([]))
    # Offers a model that was downloaded, until the server ends.
    offer: Callable[[StoredModel], None] = lambda model: None
    in_progress: set[Callable[[], None]] = field(default_factory=set)
    # Answers that are being made, by user.
    running: dict[str, set[Chat]] = field(default_factory=dict)
    # By user and id, responses that are being made in the background, and those that were lately.
    background: dict[tuple[str, str], BackgroundResponse] = field(default_factory=dict)
    # Downloads of models under way.
    pulls: set[object] = field(default_factory=set)
    # By user, the last learned thing that a client was told of.
    told_items: LRUCache[str, int] = field(default_factory=lambda: LRUCache(_USERS_TOLD))

    def __post_init__(self) -> None:
        AppState.__post_init__(self)  # `super` doesn't work in a dataclass with slots
        if not self.pool.models:
            self.pool = ModelPool.of_one(self.conversations, takes_any=self.config.server_any_model)

    def ended(self, user_id: str, chat: Chat) -> None:
        """Forget an answer, which has ended."""
        if (chats := self.running.get(user_id)) is not None:
            chats.discard(chat)
            if not chats:
                del self.running[user_id]

    def chats_in(self, user_id: str, name: str) -> list[Chat]:
        """Return the user's answers in the conversation of that name or id. From any thread; may read memory.

        An answer that began before its conversation was stored has only the name that its request gave.
        """
        chats = list(self.running.get(user_id, ()))
        if all(chat.session == name for chat in chats) or self.memory is None:
            return [chat for chat in chats if chat.session == name]
        find = self.memory.find_session
        ids = {given: find(given, user_id) for given in {name, *(chat.session for chat in chats)}}
        wanted = ids[name] or name
        return [
            chat
            for chat in chats
            if name == chat.session or wanted in (chat.session, chat.session_id, ids[chat.session])
        ]

    def cancel_all(self) -> None:
        """Cancel all answers; what they have said so far is kept."""
        for cancel in list(self.in_progress):
            cancel()


QueriedUser = Annotated[str | None, Query(description=USER)]


class Own:
    """The memory of the user that a request is about."""

    def __init__(self, request: Request, user: QueriedUser = None) -> None:
        state: AppState = request.app.state.shepherd
        self._state, self._memory = state, state.memory
        self.caller = caller_of(request, user)
        self.user = self.caller.user_id

    @property
    def is_writable(self) -> bool:
        """True if something can be stored for this caller."""
        return self._memory is not None and self._state.is_writable and not self.caller.is_nobody

    @property
    def learning(self) -> Learning:
        """State of learning on this server, and the model that learns."""
        return self._state.learning

    @property
    def memory(self) -> Memory:
        """The memory, to read. Denied without one."""
        if self._memory is None:
            raise Denied(503, "no_memory", "this server runs without memory")
        return self._memory

    @property
    def writable(self) -> Memory:
        """The memory, to write. Denied if nothing would be stored."""
        memory = self.memory
        if self.caller.is_nobody:
            raise Denied(400, "no_user", "nothing is stored without a user: name one", param="user")
        if not self._state.is_writable:
            raise Denied(503, "memory_read_only", "this server can only read its memory")
        return memory

    @property
    def state(self) -> AppState:
        """The state of the server."""
        return self._state

    @property
    def can_chat(self) -> bool:
        """True if this server has a chat API that the caller may use."""
        return isinstance(self._state, ServerState) and CHAT in self.caller.scopes

    def chats_in(self, name: str) -> list[Chat]:
        """Return the user's answers in the conversation of that name or id. From any thread."""
        state = self._state
        return state.chats_in(self.user, name) if isinstance(state, ServerState) else []

    def discard(self, name: str) -> int:
        """Discard the user's answers in a conversation that is being deleted; return how many there were."""
        chats = self.chats_in(name)
        for chat in chats:
            chat.discard()
        return len(chats)

    def memory_id(self, sequence: int) -> int:
        """Return the database's id of one of the user's memories; Denied if there can be none."""
        found = memory_id(self.memory, self.user, sequence)
        if found is None:
            raise missing("memory")
        return found


OwnMemory = Annotated[Own, Depends()]
