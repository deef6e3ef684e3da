"""Turns of stateless clients: the history of a request, its plan, and its storage."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from shepherd.assistant import is_statement
from shepherd.config import Config
from shepherd.entities import KnownNames
from shepherd.errors import ConflictError, ShepherdError
from shepherd.extraction import ExtractionWorker
from shepherd.knowledge import Hub, Knowledge
from shepherd.lru_cache import LRUCache
from shepherd.memory import Memory, SessionMark, Turn
from shepherd.prompt import (
    Compaction,
    Draft,
    Exchange,
    Ledger,
    Planner,
    Snapshot,
    Summarizer,
    Summary,
    WindowBudget,
    take_snapshot,
)
from shepherd.prompt.archive_policy import archived_answer, is_worth_a_memory
from shepherd.prompt.compaction import PendingSummary
from shepherd.prompt.entity_tracking import Dialogue, DialogueState
from shepherd.prompt.exchanges import turns
from shepherd.prompt.gathering import hubs_of
from shepherd.prompt.ledger import Restored, ShownKnowledge, conversation_hashes
from shepherd.prompt.system_prompt import Before, look_around
from shepherd.providers import ChatModel
from shepherd.server.chat import ChatRequest
from shepherd.trace import Traces, Value, trace_of
from shepherd.turn.components import answering_first
from shepherd.turn.recorder import append_turn
from shepherd.types import Message, TurnStats

__all__ = [
    "ClientHistory",
    "FinishedTurn",
    "Plans",
    "RequestPlanner",
    "RequestStore",
    "Retries",
    "StoredTurn",
]


@dataclass(frozen=True, slots=True)
class ClientHistory:
    """The messages of one request, as the ledger restored them; the newest is a copy with the present time.

    The `n_instructions` system messages at the beginning are the client's own instructions, which the system
    part of the prompt contains.
    """

    messages: list[Message]
    restored: Restored
    n_instructions: int

    @classmethod
    def begin(cls, restored: Restored) -> ClientHistory:
        """Return the history of the request whose messages `restored` has."""
        messages = list(restored.messages)
        messages[-1] = messages[-1].copy()
        messages[-1].created_at = int(time.time())
        n_instructions = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
        return cls(messages, restored, n_instructions)

    @property
    def newest(self) -> Message:
        """The message to answer."""
        return self.messages[-1]

    @property
    def instructions(self) -> str:
        """The client's own instructions, "" for none."""
        return "\n\n".join(message.raw for message in self.messages[: self.n_instructions])

    def draft(self, snapshot: Snapshot) -> Draft:
        """Start a draft behind `snapshot`. Messages that left the window in earlier requests stay out."""
        n_left = self.restored.n_left
        kept = [
            message
            for i, message in enumerate(self.messages[:-1])
            if i >= self.n_instructions and (i >= n_left or message.role == "system")
        ]
        return Draft(self.newest, snapshot, kept, private=self.newest.role != "user")

    def exchanges(self, draft: Draft, hashes: Sequence[str]) -> list[Exchange]:
        """Group the draft's history into exchanges; `hashes` are those of the messages."""
        key_of = {id(message): key for message, key in zip(self.messages, hashes, strict=True)}
        messages = [*draft.history, draft.message]
        exchanges = []
        for indices in turns(messages)[:-1]:
            first, *steps, last = (Message("user", ""), *(messages[i] for i in indices))
            if steps:
                first, *steps = steps
            exchanges.append(Exchange(first, last, steps=steps, key=key_of[id(last)]))
        return exchanges

    def first_kept(self, draft: Draft) -> int:
        """Index of the oldest message, system messages aside, that the model sees."""
        kept = self._kept(draft)
        return next(i for i, m in enumerate(self.messages) if id(m) in kept and m.role != "system")

    def evicted(self, draft: Draft) -> list[tuple[int, Message]]:
        """Messages that the model does not see, with their indices; the client's instructions are not among
        them.
        """
        kept = self._kept(draft)
        numbered = list(enumerate(self.messages))[self.n_instructions :]
        return [(i, message) for i, message in numbered if id(message) not in kept]

    def evicted_turns(self, draft: Draft) -> int:
        """Number of user messages that the model does not see."""
        return sum(message.role == "user" for _, message in self.evicted(draft))

    def stripped(self, draft: Draft) -> set[int]:
        """Indices of the messages that lost their tails for this request."""
        stripped = {id(message) for message in draft.stripped}
        return {i for i, message in enumerate(self.messages) if id(message) in stripped}

    def _kept(self, draft: Draft) -> set[int]:
        return {id(message) for message in (*draft.history, draft.message)}


_log = logging.getLogger(__name__)

Count = Callable[[str], int]

# Conversations whose entities are kept from the turn before, and users whose names are.
_DIALOGUES = 1024
_USERS = 4096
# Summaries being made, of all conversations together.
_PENDING = 256
# Time that a plan may take on the event loop; a thread costs more if many requests come at once.
_MOMENT_S = 0.002
# Rendered system parts that are kept.
_SNAPSHOTS, _SNAPSHOTS_BYTES = 256, 4 << 20
# Bytes of an entry beside its texts.
_SNAPSHOT_BYTES = 1024
# The client's own instructions, the nodes in it, whether tails are explained, the window, the summary.
_System = tuple[str, Before, bool, int, Summary]
# Messages that entity tracking reads again if its state is lost; older entities are not in focus.
_REPLAYED = 24


@dataclass(slots=True)
class RequestPlanner:
    """Plans the prompt of one request: its tail, and the turns that a summary replaces.

    `exchanges` are those of the draft's history, `take_snapshot` makes the system part with another summary.
    """

    draft: Draft
    budget: WindowBudget
    planner: Planner
    restored: Restored
    compaction: Compaction
    exchanges: list[Exchange]
    take_snapshot: Callable[[Summary], Snapshot]
    dialogue: Dialogue | None = None

    def plan(self) -> None:
        """Decide what is added to the draft's message, and add it. May be called again after an eviction."""
        session, has_evicted = self.restored.session, self.restored.n_left > 0
        self.planner.plan(self.draft, self.budget, session=session, has_evicted=has_evicted, measures=False)

    def compact(self) -> None:
        """Replace the turns that are due by a summary."""
        self.compaction.compact(self.draft, self.exchanges, self.budget, self.take_snapshot)

    @property
    def shown(self) -> ShownKnowledge:
        """Nodes for the ledger's note of this request."""
        snapshot = self.draft.snapshot
        if self.restored.shown:
            changed = tuple(hub for part in self.draft.plan.chosen for hub in hubs_of(part))
            return ShownKnowledge(tuple((hub.id, hub.title, hub.n_edges) for hub in changed))
        hubs = tuple((hub.id, hub.title, hub.n_edges) for hub in snapshot.hubs)
        return ShownKnowledge(hubs, snapshot.blocks, snapshot.workflows)

    def trace(self, *, model: str, with_prompt: bool, stats: TurnStats) -> dict[str, Value]:
        """Return the record of the turn, once it is over: what the model was shown, and why."""
        self.planner.settle(self.draft, self.budget)
        summary = self.draft.snapshot.summary.public.text
        return trace_of(
            self.draft,
            model=model,
            summary=summary,
            summary_tokens=self.budget.count(summary) if summary else 0,
            with_prompt=with_prompt,
            stats=stats,
        )


class Plans:
    """Makes the plans of a server's requests. Thread-safe.

    With `tells_private` prompts contain private attributes of entities. The `summarizer`, if there is one,
    summarizes turns that leave the window.
    """

    def __init__(
        self,
        memory: Memory | None,
        config: Config,
        *,
        tells_private: bool,
        summarizer: Summarizer | None = None,
    ) -> None:
        self._summarizer = summarizer
        # Summaries being made, by user and hash of their conversation.
        self._pending: LRUCache[tuple[str, str], PendingSummary] = LRUCache(_PENDING)
        self._memory = memory
        self._config = config
        self._tells_private = tells_private
        self._names: LRUCache[str, KnownNames] = LRUCache(_USERS)
        self._dialogues: LRUCache[tuple[str, str], DialogueState] = LRUCache(_DIALOGUES)
        # Processor time of each user's last plan. By wall-clock time a quick plan among 64 others would seem
        # slow, and wait for a thread.
        self._cost_s: LRUCache[str, float] = LRUCache(_USERS)
        # Few differ: most clients send the same instructions, or none, with every request.
        self._snapshots: LRUCache[_System, Snapshot] = LRUCache(
            _SNAPSHOTS,
            max_bytes=_SNAPSHOTS_BYTES,
            size_of=lambda key, kept: _SNAPSHOT_BYTES + 4 * (len(key[0]) + 2 * len(kept.system.text)),
        )

    def is_quick(self, user_id: str) -> bool:
        """Return True if the last plan of this user was quick."""
        cost_s = self._cost_s.get(user_id)
        return cost_s is not None and cost_s < _MOMENT_S

    def record_cost(self, user_id: str, draft: Draft, cpu_s: float) -> None:
        """Record the processor time of a plan of this user."""
        if not draft.private:  # nothing was recalled
            self._cost_s.put(user_id, cpu_s)

    def snapshot(
        self,
        request: ChatRequest,
        restored: Restored,
        instructions: str,
        model: ChatModel,
        count: Count,
        *,
        summary: Summary,
    ) -> Snapshot:
        """Return the system part, with the same nodes as when the conversation began.

        `instructions` are the client's own, "" for those of the settings.
        """
        explains, before = self._explains(request), self._before(request, restored)
        key = instructions, before, explains, model.window_tokens, summary
        known = self._snapshots.get(key)
        if known is None:
            known = take_snapshot(
                self._config,
                memory=explains,
                knowledge=None,
                window_tokens=model.window_tokens,
                count=count,
                instructions=instructions,
                before=before,
                summary=summary,
            )
            self._snapshots.put(key, known)
        return known

    def _before(self, request: ChatRequest, restored: Restored) -> Before:
        """Return the knowledge in the system part: that of earlier requests, else the present one."""
        if restored.shown:
            first = restored.shown[min(restored.shown)]
            return Before(tuple(Hub(*hub) for hub in first.hubs), first.blocks, first.workflows)
        explains = self._explains(request)
        knowledge = self._knowledge(request) if explains else None
        try:
            return look_around(self._config, knowledge, memory=explains)
        except ShepherdError as error:
            _log.warning("background failed: %s", error)
            return look_around(self._config, None, memory=explains)

    def begin(
        self,
        request: ChatRequest,
        draft: Draft,
        budget: WindowBudget,
        history: ClientHistory,
        hashes: Sequence[str],
        take_snapshot: Callable[[Summary], Snapshot],
    ) -> RequestPlanner:
        """Return the planner of a request; `hashes` are those of its messages."""
        user, restored = request.user_id, history.restored
        knowledge = self._knowledge(request)
        dialogue = None if draft.private else self._dialogue(user, request.messages, hashes, knowledge)
        planner = Planner(self._config, self._memory, knowledge, user, dialogue, best_first=answering_first)
        told = [said for _, said in sorted(restored.shown.items())]
        planner.add_shown_hubs(Hub(*hub) for said in told[1:] for hub in said.hubs)
        exchanges = history.exchanges(draft, hashes)
        compaction = Compaction(
            verbatim=self._config.history_verbatim_turns,
            summary=restored.summary,
            summarizer=self._summarizer,
            pending=self._pending_of(user, exchanges),
        )
        return RequestPlanner(
            draft, budget, planner, restored, compaction, exchanges, take_snapshot, dialogue
        )

    def ended(self, planned: RequestPlanner, user_id: str, answer: Message, key: str) -> None:
        """Record an answer; `key` is the hash of the conversation up to it."""
        draft, compaction = planned.draft, planned.compaction
        gone = {exchange.key for exchange in draft.evicted(planned.exchanges)}
        left = [exchange for exchange in planned.exchanges if exchange.key not in gone]
        left.append(Exchange(draft.message, answer, steps=draft.steps, key=key))
        compaction.prepare(draft, left, planned.budget)
        if compaction.pending is not None:
            self._pending.put((user_id, compaction.pending.exchanges[-1].key), compaction.pending)
        dialogue = planned.dialogue
        if dialogue is not None:
            planned.dialogue = None
            dialogue.end_turn(answer.raw)
            self._dialogues.put((user_id, key), dialogue.state)

    def _pending_of(self, user: str, exchanges: Sequence[Exchange]) -> PendingSummary | None:
        """Return the summary being made of the first of these exchanges, if there is one."""
        if self._summarizer is None:
            return None
        return next(filter(None, (self._pending.get((user, exchange.key)) for exchange in exchanges)), None)

    def _explains(self, request: ChatRequest) -> bool:
        return self._memory is not None and request.remembers and self._config.injection_enabled

    def _knowledge(self, request: ChatRequest) -> Knowledge | None:
        if self._memory is None or not request.remembers:
            return None
        return Knowledge(self._memory.transactions, request.user_id)

    def _dialogue(
        self, user: str, messages: Sequence[Message], hashes: Sequence[str], knowledge: Knowledge | None
    ) -> Dialogue | None:
        """Return the entities before the newest message; reads earlier messages again if they are unknown."""
        if self._config.context_entities is not True:
            return None
        names = self._names.get(user)
        if names is None:
            names = KnownNames(knowledge)
            self._names.put(user, names)
        dialogue = Dialogue(None, None, user, allow_private=self._tells_private, names=names)
        first = max(0, len(messages) - 1 - _REPLAYED)
        for i in range(len(messages) - 2, first - 1, -1):
            known = self._dialogues.get((user, hashes[i])) if messages[i].role == "assistant" else None
            if known is not None:
                dialogue.continue_from(known)
                first = i + 1
                break
        for message in messages[first:-1]:
            if message.role == "user":
                dialogue.register(message.raw)
            elif message.role == "assistant":
                dialogue.end_turn(message.raw)
        return dialogue


# The same messages within this time are a retry, unless the conversation has gone on.
_RETRY_S = 600.0
_RETRIES_KNOWN = 4096
_RETRY_LOCKS = 64


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A turn to store: `answer` as the client received it, `last_text` that of its last reply.

    `session_name` is the id or name of its conversation, "" if the client named none. `mark` says what was
    stored when the turn began, at `begun_at` (monotonic). If the user stopped the answer (`is_stopped`), it
    isn't whole, but they have seen its end.
    """

    user_id: str
    draft: Draft
    history: ClientHistory
    answer: Message
    planner: RequestPlanner | None
    last_text: str
    is_whole: bool
    model_name: str
    stats: TurnStats
    mark: SessionMark
    session_name: str = ""
    is_stopped: bool = False
    begun_at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """Where a turn belongs: `session` is the id of its conversation, "" if none could be begun.

    `is_stored`: its messages are there. `is_deleted`: it is not there since the conversation was deleted.
    """

    session: str = ""
    is_stored: bool = False
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class _Answered:
    """When (monotonic) messages were answered, in which conversation, behind which message there.

    `message` is 0 if nothing precedes the answer: a result of a tool was answered, and nothing was stored
    before it. `has_answer` is False if only the user's message was stored.
    """

    at: float
    session: str
    message: int
    has_answer: bool


class Retries:
    """Which messages were answered lately, and where; all models of a server share it. Thread-safe."""

    def __init__(self) -> None:
        self._answered: LRUCache[tuple[str, str], _Answered] = LRUCache(_RETRIES_KNOWN)
        self._locks = [threading.Lock() for _ in range(_RETRY_LOCKS)]

    def get(self, key: tuple[str, str]) -> _Answered | None:
        """Return where messages were answered, by user and hash; None if they weren't lately."""
        known = self._answered.get(key)
        return known if known is not None and time.monotonic() - known.at < _RETRY_S else None

    def put(self, key: tuple[str, str], answered: _Answered) -> None:
        """Note where messages were answered."""
        self._answered.put(key, answered)

    def remove(self, key: tuple[str, str]) -> None:
        """Forget where messages were answered: it isn't there any more."""
        self._answered.remove(key)

    def storing(self, key: tuple[str, str]) -> threading.Lock:
        """Return the lock that is held while an answer to these messages is stored."""
        return self._locks[hash(key) % _RETRY_LOCKS]


class RequestStore:
    """Stores the turns of stateless clients. Thread-safe, as the memory is."""

    def __init__(
        self, memory: Memory, config: Config, worker: ExtractionWorker | None, retries: Retries | None = None
    ) -> None:
        self._memory = memory
        self._config = config
        self._worker = worker
        self._retries = retries or Retries()

    def restore(
        self, messages: tuple[Message, ...], user_id: str, hashes: Sequence[str], session_name: str = ""
    ) -> Restored:
        """Return the conversation as the model saw it last time; `hashes` are those of its messages.

        It is stored in the session of that name, if there is a name: another one may have begun with the same
        words.
        """
        restored = Ledger(self._memory, user_id).restore(messages, hashes)
        if not session_name:
            return restored
        try:
            named = self._memory.find_session(session_name, user_id) or ""
        except ShepherdError as error:
            _log.warning("looking up the conversation failed: %s", error)
            named = ""
        return replace(restored, session=named)

    def mark(self, history: ClientHistory, user_id: str, session_name: str) -> SessionMark:
        """Return what is stored of the conversation that a turn continues, or the message that it repeats."""
        key = _key_of(history, user_id)
        # In a named conversation, the client can say the same again.
        known = None if session_name else self._retries.get(key)
        try:
            if known is not None:
                mark = self._memory.mark_session(known.session, user_id, answered=known.message)
                if mark.last_message:
                    return replace(mark, last_message=known.message)
                # A conversation that was deleted or continued isn't the one that begins like this now.
                self._retries.remove(key)
            return self._memory.mark_session(history.restored.session, user_id)
        except ShepherdError as error:
            _log.warning("looking up the conversation failed: %s", error)
            return SessionMark()

    def write(self, turn: FinishedTurn) -> StoredTurn:
        """Store a turn, in place of an earlier answer to the same messages, unless that is the better one.

        Only a whole answer becomes a memory.
        """
        key = _key_of(turn.history, turn.user_id)
        with self._retries.storing(key):
            return self._write(turn, key)

    def _write(self, turn: FinishedTurn, key: tuple[str, str]) -> StoredTurn:
        history = turn.history
        session, is_stored = "", False
        try:
            # The first failure ends it: each write would wait for a locked database.
            steps, reply = turn.draft.steps, turn.answer
            if steps:
                reply = reply.copy()
                reply.raw = reply.sent = turn.last_text
            said = self._statement(turn, reply)
            is_shown = reply.raw or (reply.thought and not reply.tool_calls)
            messages = [*steps, reply] if is_shown else list(steps)
            known = self._repeated(turn, key)
            if known is not None:
                is_cut = not (turn.is_whole or turn.is_stopped)
                if known.has_answer and (is_cut or not (messages or reply.tool_calls)):
                    return StoredTurn(known.session, is_stored=True)
                session = self._answer_again(turn, known, said, reply, messages)
            if not session:
                session = history.restored.session or self._memory.start_session(
                    turn.user_id, turn.model_name, name=turn.session_name, mark=turn.mark
                )
                known = self._append(turn, session, messages)
            if known is not None:
                self._retries.put(key, replace(known, has_answer=bool(messages or reply.tool_calls)))
            is_stored = True
            # Not before: of a conversation that was deleted meanwhile, nothing is noted.
            self._note(turn, session)
            if self._worker is not None:
                self._worker.told(session, turn.user_id)
            if self._config.archive_turns:
                self._archive(turn, said, reply, session)
            self._trace(turn, session)
        except ConflictError as error:
            _log.info("the turn is not stored: %s", error)
            return StoredTurn(is_deleted=True)
        except ShepherdError as error:
            _log.warning("storing the turn failed: %s", error)
        return StoredTurn(session, is_stored)

    def _repeated(self, turn: FinishedTurn, key: tuple[str, str]) -> _Answered | None:
        """Return where the same messages were answered before this turn began, or since; else None."""
        known = None if turn.session_name else self._retries.get(key)
        is_as_marked = known is not None and turn.mark.last_message == known.message
        return known if known is not None and (is_as_marked or known.at >= turn.begun_at) else None

    def _answer_again(
        self, turn: FinishedTurn, known: _Answered, said: str, reply: Message, messages: Sequence[Message]
    ) -> str:
        """Replace an earlier answer; return its conversation, or "" if that has gone on."""
        newest = turn.history.newest
        asked = newest if newest.role == "user" else None
        if asked is not None:
            asked.id = known.message
        ids = self._memory.answer_again(
            known.session,
            asked,
            messages,
            turn.user_id,
            mark=replace(turn.mark, last_message=known.message),
            turn=Turn(said, archived_answer(reply.raw), 0, known.session) if said else None,
        )
        if ids is None:
            return ""
        for message, message_id in zip(messages, ids, strict=True):
            message.id = message_id
        return known.session

    def _append(self, turn: FinishedTurn, session: str, messages: Sequence[Message]) -> _Answered:
        """Append a turn to its conversation; return where the same messages would be answered again."""
        history, mark = turn.history, turn.mark
        if not history.restored.session:  # the mark may be of the conversation that the messages repeat
            mark = replace(mark, last_message=0)
        newest = history.newest if history.newest.role == "user" else None
        append_turn(self._memory, session, turn.user_id, newest, messages, learner=self._worker, mark=mark)
        # A result of a tool isn't stored: what precedes it is answered.
        answered = newest.id if newest is not None else mark.last_message
        return _Answered(time.monotonic(), session, answered or 0, has_answer=False)

    def _note(self, turn: FinishedTurn, session: str) -> None:
        history, draft = turn.history, turn.draft
        first = history.first_kept(draft)
        was_first = max(history.restored.n_left, history.n_instructions)
        Ledger(self._memory, turn.user_id).record(
            history.messages,
            history.restored,
            n_left=first if first > was_first else 0,
            stripped=history.stripped(draft),
            session=session,
            shown=None if turn.planner is None else turn.planner.shown,
            summary=draft.snapshot.summary,
        )

    def _trace(self, turn: FinishedTurn, session: str) -> None:
        """Store the trace of a turn that a message of the user began."""
        if turn.planner is None or turn.draft.private or not self._config.trace_turns:
            return
        with_prompt = self._config.trace_prompts
        record = turn.planner.trace(model=turn.model_name, with_prompt=with_prompt, stats=turn.stats)
        Traces(self._memory.transactions, turn.user_id).write(session, record)

    def _statement(self, turn: FinishedTurn, answer: Message) -> str:
        """Return what the user has stated that becomes a memory with the answer; "" if nothing does."""
        if not (self._config.archive_turns and turn.is_whole and answer.raw.strip()) or answer.tool_calls:
            return ""
        said = next((m.raw for m in reversed(turn.history.messages) if m.role == "user"), "")
        return said if is_statement(said) else ""

    def _archive(self, turn: FinishedTurn, said: str, answer: Message, session: str) -> None:
        """Archive the user's statement, and the turns that left the window with this request."""
        history = turn.history
        if said:
            self._remember(turn.user_id, said, answer.raw, history.newest.created_at, session)
        asked: Message | None = None
        for i, message in history.evicted(turn.draft):
            if i < history.restored.n_left:
                continue
            if message.role == "user":
                asked = message
            elif message.role == "assistant" and message.raw and asked is not None:
                if is_worth_a_memory(asked, message.raw, history.messages):
                    asked_at = asked.created_at or int(time.time())
                    self._remember(turn.user_id, asked.raw, message.raw, asked_at, session)
                asked = None

    def _remember(self, user_id: str, question: str, answer: str, asked_at: int, session: str) -> None:
        self._memory.archive_turn(Turn(question, archived_answer(answer), asked_at, session), user_id)


def _key_of(history: ClientHistory, user_id: str) -> tuple[str, str]:
    return user_id, conversation_hashes(history.messages)[-1]
