"""The plan of each request: a chat's plan, for conversations that come in whole.

What a chat knows from its turn before is found again: the system part's nodes and what tails held in the
ledger, whom the talk is about in the messages themselves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shepherd.config import Config
from shepherd.context import (
    Before,
    Compaction,
    Draft,
    Exchange,
    PendingSummary,
    Planner,
    Restored,
    Room,
    Said,
    Snapshot,
    Summarizer,
    Summary,
    hubs_of,
    look_around,
    take_snapshot,
)
from shepherd.context.dialogue import Dialogue, KnownNames, Listened
from shepherd.errors import ShepherdError
from shepherd.knowledge import Hub, Knowledge
from shepherd.lru_cache import LRUCache
from shepherd.memory import Memory
from shepherd.providers import ChatModel
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.history import ClientHistory
from shepherd.trace import TurnTrace
from shepherd.trace.planned import trace_of
from shepherd.types import Message

__all__ = ["Plans", "RequestPlanner"]

_log = logging.getLogger(__name__)

Count = Callable[[str], int]

# Conversations whose entities are known from the turn before, and users whose names are.
_LISTENED = 1024
_USERS = 4096
# Summaries being made, of all conversations.
_PENDING = 256
# What an event loop may be held up for; a thread costs its callers more where many ask at once.
_MOMENT_S = 0.002
# System parts that are kept as they were rendered.
_SNAPSHOTS, _SNAPSHOTS_BYTES = 256, 4 << 20
# Of an entry, beside its texts.
_SNAPSHOT_BYTES = 1024
# The client's own instructions, the nodes in it, whether tails are explained, the window, the summary.
_System = tuple[str, Before, bool, int, Summary]
# Messages that are heard again where that is lost: what was named longer ago is in focus no more.
_HEARD_AGAIN = 24


@dataclass(slots=True)
class RequestPlanner:
    """Plans the prompt of one request: its tail, and the turns that a summary replaces.

    `exchanges` are those of the draft's history, `take_snapshot` makes the system part with another summary.
    """

    draft: Draft
    room: Room
    planner: Planner
    restored: Restored
    compaction: Compaction
    exchanges: list[Exchange]
    take_snapshot: Callable[[Summary], Snapshot]
    dialogue: Dialogue | None = None

    def plan(self) -> None:
        """Decide what is added to the draft's message, and add it. May be called again after an eviction."""
        session, has_evicted = self.restored.session, self.restored.n_left > 0
        self.planner.plan(self.draft, self.room, session=session, has_evicted=has_evicted, measures=False)

    def compact(self) -> None:
        """Replace the turns that are due by a summary."""
        self.compaction.compact(self.draft, self.exchanges, self.room, self.take_snapshot)

    @property
    def said(self) -> Said:
        """The nodes that the ledger's note of this request is to hold."""
        snapshot = self.draft.snapshot
        if self.restored.said:
            hubs = tuple(hub for part in self.draft.plan.chosen for hub in hubs_of(part))
            return Said(tuple((hub.id, hub.title, hub.n_edges) for hub in hubs))
        return Said(tuple((hub.id, hub.title, hub.n_edges) for hub in snapshot.hubs), blocks=snapshot.blocks)

    def trace(self, *, model: str) -> TurnTrace:
        """Return the record of the turn, once it is over: what the model was shown, and why."""
        self.planner.settle(self.draft, self.room)
        summary = self.draft.snapshot.summary.kept.text
        return trace_of(
            self.draft,
            model=model,
            summary=summary,
            summary_tokens=self.room.count(summary) if summary else 0,
        )


class Plans:
    """Makes the plans of a server's requests. Thread-safe.

    With `tells_private` the model is told what is private of an entity. The `summarizer`, if there is one,
    sums up the turns that leave the window.
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
        # Summaries being made, by user and hash of the conversation that they are of.
        self._pending: LRUCache[tuple[str, str], PendingSummary] = LRUCache(_PENDING)
        self._memory = memory
        self._config = config
        self._tells_private = tells_private
        self._names: LRUCache[str, KnownNames] = LRUCache(_USERS)
        self._listened: LRUCache[tuple[str, str], Listened] = LRUCache(_LISTENED)
        # Seconds that a processor computed for each user's last plan. Not those on the clock: beside 64
        # others a quick one looks slow, would go to a thread, and wait for that.
        self._cost_s: LRUCache[str, float] = LRUCache(_USERS)
        # Few are different: most clients say the same of themselves, or nothing, with every request.
        self._snapshots: LRUCache[_System, Snapshot] = LRUCache(
            _SNAPSHOTS, max_bytes=_SNAPSHOTS_BYTES, size_of=_bytes_of_snapshot
        )

    def is_quick(self, user_id: str) -> bool:
        """Whether a plan for this user is made in a moment, documents and all, as the last one was."""
        cost_s = self._cost_s.get(user_id)
        return cost_s is not None and cost_s < _MOMENT_S

    def took(self, user_id: str, draft: Draft, cpu_s: float) -> None:
        """Note the processor time of a plan of this user's."""
        if not draft.private:  # nothing was looked for
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
        """What of the knowledge the system part has: what it had, or that of now where there was none."""
        if restored.said:
            first = restored.said[min(restored.said)]
            return Before(tuple(Hub(*hub) for hub in first.hubs), first.blocks)
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
        room: Room,
        history: ClientHistory,
        hashes: Sequence[str],
        take_snapshot: Callable[[Summary], Snapshot],
    ) -> RequestPlanner:
        """Return the planner of a request; `hashes` are those of its messages."""
        user, restored = request.user_id, history.restored
        knowledge = self._knowledge(request)
        dialogue = None if draft.private else self._dialogue(user, request.messages, hashes, knowledge)
        planner = Planner(self._config, self._memory, knowledge, user, dialogue)
        told = [said for _, said in sorted(restored.said.items())]
        planner.know_told(Hub(*hub) for said in told[1:] for hub in said.hubs)
        exchanges = history.exchanges(draft, hashes)
        compaction = Compaction(
            verbatim=self._config.history_verbatim_turns,
            summary=restored.summary,
            summarizer=self._summarizer,
            pending=self._pending_of(user, exchanges),
        )
        return RequestPlanner(draft, room, planner, restored, compaction, exchanges, take_snapshot, dialogue)

    def ended(self, planned: RequestPlanner, user_id: str, answer: Message, key: str) -> None:
        """Take in an answer, under whose hash the conversation continues."""
        draft, compaction = planned.draft, planned.compaction
        gone = {exchange.key for exchange in draft.evicted(planned.exchanges)}
        left = [exchange for exchange in planned.exchanges if exchange.key not in gone]
        left.append(Exchange(draft.message, answer, steps=draft.steps, key=key))
        compaction.prepare(draft, left, planned.room)
        if compaction.pending is not None:
            self._pending.put((user_id, compaction.pending.exchanges[-1].key), compaction.pending)
        dialogue = planned.dialogue
        if dialogue is not None:
            planned.dialogue = None
            dialogue.answered(answer.raw)
            self._listened.put((user_id, key), dialogue.listened)

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
        """Who the conversation was about before its newest message, heard again where that is not known."""
        if self._config.context_entities is not True:
            return None
        names = self._names.get(user)
        if names is None:
            names = KnownNames(knowledge)
            self._names.put(user, names)
        dialogue = Dialogue(None, None, user, allow_private=self._tells_private, names=names)
        first = max(0, len(messages) - 1 - _HEARD_AGAIN)
        for i in range(len(messages) - 2, first - 1, -1):
            known = self._listened.get((user, hashes[i])) if messages[i].role == "assistant" else None
            if known is not None:
                dialogue.go_on(known)
                first = i + 1
                break
        for message in messages[first:-1]:
            if message.role == "user":
                dialogue.heard(message.raw)
            elif message.role == "assistant":
                dialogue.answered(message.raw)
        return dialogue


def _bytes_of_snapshot(key: _System, snapshot: Snapshot) -> int:
    return _SNAPSHOT_BYTES + 4 * (len(key[0]) + 2 * len(snapshot.system.text))
