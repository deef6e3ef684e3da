"""The plan of each message of a conversation: gathered, measured, shared out, and written behind the text."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.context.allocation import parse_order, parse_percentages
from shepherd.context.draft import Draft, Note
from shepherd.context.exchanges import Exchange
from shepherd.context.fitting import make_fitted_plan
from shepherd.context.gathering import Gathered, Gatherer, shown_injection
from shepherd.context.injection import recalled
from shepherd.context.oneshot import OneShot, build_one_shot, history_parts
from shepherd.context.parts import Category, LeftOut, Plan, Strategy
from shepherd.context.planning import Request, Sharing, without_one
from shepherd.context.rendering import render_tail
from shepherd.context.room import Room
from shepherd.context.snapshot import Snapshot, take_snapshot
from shepherd.context.summary import NO_SUMMARY, Summary
from shepherd.knowledge import Hub, Knowledge
from shepherd.memory import Memory
from shepherd.types import Injection, Message

if TYPE_CHECKING:
    from shepherd.context.dialogue import Dialogue

__all__ = ["NO_ROOM_FOR_MEMORY", "Planner", "sharing_of"]

NO_ROOM_FOR_MEMORY: Note = ("the window has no room for memory in this turn", "/clear starts afresh")
# Tokens of parts one by one and of all together differ by a few; the whole is counted where that matters.
_SLACK = 0.05
_TAIL: tuple[Category, ...] = ("memory", "entities", "knowledge", "focus")
_LEAST_SLACK = 16


class Planner:
    """Plans for one conversation of one user.

    `dialogue` hears each message and knows whom it speaks of.
    """

    def __init__(
        self,
        config: Config,
        memory: Memory | None,
        knowledge: Knowledge | None,
        user_id: str,
        dialogue: Dialogue | None = None,
    ) -> None:
        self._config = config
        self._memory = memory
        self._user_id = user_id
        self._knowledge = knowledge
        self._has_dialogue = dialogue is not None
        self._gatherer = Gatherer(config, knowledge, dialogue)
        # A chat's history gives way to memory, whose lines have limits of their own.
        self._sharing = replace(sharing_of(config), first=("memory",))

    def plan(self, draft: Draft, room: Room, *, turns: int, session: str, since: int) -> None:
        """Decide what the model is shown with the draft's message, and write the tail behind it.

        `turns` were there before. What the running `session` told since `since` (unix seconds) is not
        recalled: the history holds it. Failures become notes. A turn that is private, or one without memory,
        gets a plan without a tail.
        """
        began = time.perf_counter()
        gathered = self._gather(draft, session, since)
        fixed, reserve = room.fixed_parts(draft)
        request = Request(
            window_tokens=room.window_tokens,
            reserve_tokens=reserve,
            fixed=fixed,
            candidates=gathered.parts,
            sharing=self._sharing,
            history_tokens=sum(map(room.tokens_of, draft.history)),
            shown=_shown_ids(draft.history),
            turns=turns,
            entities=gathered.entities,
        )
        measured_at = time.perf_counter()
        plan = _trimmed(make_fitted_plan(request, room.count), request, room)
        done = time.perf_counter()
        timings = {"gather": (measured_at - began) * 1e6, "allocate": (done - measured_at) * 1e6}
        draft.plan = replace(
            plan,
            warnings=tuple(text for text, _ in gathered.notes),
            timings_us=gathered.timings_us | timings,
            about=gathered.about,
        )
        draft.notes += gathered.notes
        _write_tail(draft, gathered.injection, draft.plan)

    def one_shot(
        self,
        question: str,
        exchanges: Sequence[Exchange],
        *,
        summary: Summary = NO_SUMMARY,
        max_tokens: int,
        count: Callable[[str], int],
        times: bool = False,
        private: bool = False,
    ) -> OneShot:
        """One prompt of at most `max_tokens` for a question, with all that is known; see build_one_shot.

        The last turns are in it as they were said, what was summed up as that. Changes nothing.
        """
        allowed = not private and self._config.injection_enabled
        snapshot = take_snapshot(
            self._config,
            memory=allowed,
            knowledge=self._knowledge,
            window_tokens=max_tokens,
            count=count,
            one_shot=True,
        )
        # What the history says is in the prompt, and memory may say it too: the summary is short.
        gathered = self._gathered(question, snapshot, (), "", 0, hears=False) if allowed else Gathered()
        sharing = sharing_of(self._config)
        return build_one_shot(
            question,
            snapshot.system.text,
            [*gathered.parts, *history_parts(summary, exchanges, times=times)],
            max_tokens=max_tokens,
            count=count,
            sharing=sharing,
            entities=gathered.entities,
            warnings=[text for text, _ in gathered.notes],
        )

    def shown(self, draft: Draft) -> None:
        """The draft became part of the conversation."""
        self._gatherer.told(draft.plan.chosen)

    def settle(self, draft: Draft, room: Room) -> None:
        """Make the plan say what is shown after all: turns may have left, the tail may have been dropped."""
        plan, history = draft.plan, sum(map(room.tokens_of, draft.history))
        used = plan.budget | {"history": history}
        if not draft.injection:
            used |= dict.fromkeys(_TAIL, 0)
            gone = tuple(LeftOut(part, "no room") for part in plan.of(*_TAIL))
            chosen = tuple(part for part in plan.chosen if part.category not in _TAIL)
            plan = replace(plan, chosen=chosen, left_out=(*plan.left_out, *gone))
        shares = tuple(replace(share, used=used[share.category]) for share in plan.shares)
        draft.plan = replace(plan, shares=shares)

    def use(self, config: Config) -> None:
        """Other settings from the next message on."""
        sharing = replace(sharing_of(config), first=self._sharing.first)
        self._config, self._sharing = config, sharing
        self._gatherer.config = config

    def know_told(self, hubs: Iterable[Hub]) -> None:
        """These nodes were told of since the snapshot."""
        self._gatherer.know_told(hubs)

    def forget_told(self) -> None:
        """A new snapshot says what was told meanwhile."""
        self._gatherer.forget_told()

    def _gather(self, draft: Draft, session: str, since: int) -> Gathered:
        if draft.private or not self._config.injection_enabled:
            return Gathered()
        shown = _shown_ids(draft.history)
        draft.is_heard = self._has_dialogue
        return self._gathered(draft.message.raw, draft.snapshot, shown, session, since)

    def _gathered(
        self,
        text: str,
        snapshot: Snapshot,
        shown: Collection[str],
        session: str,
        since: int,
        *,
        hears: bool = True,
    ) -> Gathered:
        first = Gathered()
        injection = first.attempt(
            "recall",
            lambda: recalled(text, self._memory, self._user_id, session_id=session, session_since=since),
        )
        gathered = self._gatherer.gather(text, injection, snapshot, shown=shown, hears=hears)
        gathered.notes[:0] = first.notes
        gathered.timings_us |= first.timings_us
        return gathered


def sharing_of(config: Config) -> Sharing:
    """How the settings want the window to be shared. UsageError for shares and orders that are none."""
    strategy: Strategy = config.context_strategy
    weights = parse_percentages(config.context_shares) if strategy == "fixed" else None
    return Sharing(strategy, weights, parse_order(config.context_order))


def _shown_ids(history: Sequence[Message]) -> frozenset[str]:
    """Ids of the passages that stand in tails which the model still sees; what else is there may change."""
    return frozenset(
        part
        for message in history
        if message.injected is not None and message.sent != message.raw
        for part in message.injected.parts
        if part.startswith("chunk:")
    )


def _trimmed(plan: Plan, request: Request, room: Room) -> Plan:
    """The plan, without what is too much when the tail is counted as a whole."""
    while any(part.category in _TAIL for part in plan.chosen):
        used = sum(share.used for share in plan.shares if share.category in _TAIL)
        if used * (1 + _SLACK) + _LEAST_SLACK <= request.room:
            break
        if room.count(render_tail(plan.chosen)) <= request.room:
            break
        plan = without_one(plan) or plan
    return plan


def _write_tail(draft: Draft, injection: Injection, plan: Plan) -> None:
    tail = render_tail(plan.chosen)
    memory = next(iter(plan.of("memory")), None)
    kept = shown_injection(injection, memory)
    others: tuple[Category, ...] = ("entities", "knowledge", "focus")
    draft.injection = replace(kept, tail=tail, parts=tuple(part.id for part in plan.of(*others)))
    if injection and memory is None:
        draft.notes.append(NO_ROOM_FOR_MEMORY)
    if tail:
        draft.message.sent = draft.message.raw + tail
        draft.message.injected = draft.injection
