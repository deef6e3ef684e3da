"""Planner of each message: gathers candidates, makes the plan, and writes the tail."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.errors import NEW_CONVERSATION
from shepherd.knowledge import Hub, Knowledge
from shepherd.knowledge.blocks import focused_in
from shepherd.memory import Memory
from shepherd.prompt.allocation import (
    Request,
    Sharing,
    make_uncounted_plan,
    parse_order,
    parse_percentages,
    without_one,
)
from shepherd.prompt.asked_facts import asked_facts
from shepherd.prompt.compression import Summarize, make_fitted_plan
from shepherd.prompt.draft import Draft, Note
from shepherd.prompt.exchanges import Exchange
from shepherd.prompt.gathering import QUERY_CHARS, BestFirst, Gathered, Gatherer, shown_injection
from shepherd.prompt.one_shot import OneShot, build_one_shot, history_parts
from shepherd.prompt.plan import Category, LeftOut, Part, Plan, Strategy
from shepherd.prompt.questions import questions_in
from shepherd.prompt.rendering import render_tail
from shepherd.prompt.summary import NO_SUMMARY, Summary
from shepherd.prompt.system_prompt import Snapshot, take_snapshot
from shepherd.prompt.window_budget import WindowBudget
from shepherd.types import ANONYMOUS_USERS, Injection, Message, RecalledPassage

if TYPE_CHECKING:
    from shepherd.prompt.entity_tracking import Dialogue

__all__ = ["NO_ROOM_FOR_MEMORY", "Planner", "recalled", "sharing_of"]


_NOTHING = Injection()


def recalled(
    text: str, memory: Memory | None, user_id: str, *, session_id: str = "", session_since: int = 0
) -> Injection:
    """Return what memory recalls for a text; nothing without a memory or for an anonymous user.

    Turns of the running session, `session_id`, since `session_since` (unix seconds) are not recalled: its
    history shows them. Raises StoreError when the memory fails.
    """
    if memory is None or user_id in ANONYMOUS_USERS:
        return _NOTHING
    return memory.recall(text, user_id, except_session=session_id, except_since=session_since)


NO_ROOM_FOR_MEMORY: Note = ("the window has no room for memory in this turn", NEW_CONVERSATION)
# Parts one by one and together differ by a few tokens; the whole is counted where that matters.
_SLACK = 0.05
_TAIL: tuple[Category, ...] = ("memory", "entities", "knowledge", "focus")
_LEAST_SLACK = 16
# More questions of one message are not looked up each by itself.
_MOST_QUESTIONS = 4


class Planner:
    """Makes the plans of one conversation of one user, with the entities of its `dialogue`.

    `best_first` chooses the passage where the tail has only one.
    """

    def __init__(
        self,
        config: Config,
        memory: Memory | None,
        knowledge: Knowledge | None,
        user_id: str,
        dialogue: Dialogue | None = None,
        *,
        best_first: BestFirst | None = None,
    ) -> None:
        self._config = config
        self._memory = memory
        self._user_id = user_id
        self._knowledge = knowledge
        self._has_dialogue = dialogue is not None
        self._gatherer = Gatherer(config, knowledge, dialogue, best_first)
        # In a chat, memory is served before the history; its lines have limits of their own.
        self._sharing = replace(sharing_of(config), first=("memory",))

    def plan(
        self, draft: Draft, budget: WindowBudget, *, session: str, has_evicted: bool, measures: bool = True
    ) -> None:
        """Choose what the model sees with the draft's message, and write the tail behind it.

        Memories of the running `session` are not recalled while the history shows their turns; `has_evicted`
        says that earlier turns left the window. Failures become notes. A private turn, or one without memory,
        gets no tail. Without `measures`, where byte lengths prove that all fits, the plan has no token counts
        until `settle`, since counting takes as long as recall. A draft that has a plan gets a new one.
        """
        began = time.perf_counter()
        if draft.injection:
            draft.drop_tail()
        draft.planned()
        shown = _shown_ids(draft.history)
        since = 0
        if has_evicted or draft.leaving:
            # Evicted turns may be recalled.
            oldest = next((message for message in draft.history if message.role == "user"), None)
            since = oldest.created_at if oldest is not None else int(time.time()) + 1
        gathered = self._gather(draft, shown, session, since)
        request_of = self._requests(draft, budget, gathered, shown)
        gathered_at = time.perf_counter()

        def measured() -> Plan:
            request = request_of(False)
            return _trimmed(make_fitted_plan(request, budget.count), request, budget)

        plan = None if measures else make_uncounted_plan(request_of(True))
        draft.measured = None if plan is None else measured
        plan = plan or measured()
        done = time.perf_counter()
        timings = {"gather": (gathered_at - began) * 1e6, "allocate": (done - gathered_at) * 1e6}
        draft.plan = replace(
            plan,
            warnings=tuple(text for text, _ in gathered.notes),
            timings_us=gathered.timings_us | timings,
            about=gathered.about,
        )
        draft.notes = [note for note in draft.notes if note != NO_ROOM_FOR_MEMORY]
        draft.notes += [note for note in gathered.notes if note not in draft.notes]
        _write_tail(draft, gathered.injection, draft.plan)

    def one_shot(
        self,
        question: str,
        exchanges: Sequence[Exchange],
        *,
        summary: Summary = NO_SUMMARY,
        n_summed_up: int = 0,
        max_tokens: int,
        count: Callable[[str], int],
        times: bool = False,
        private: bool = False,
        summarize: Summarize | None = None,
    ) -> OneShot:
        """Return a prompt of at most `max_tokens` for a question; changes nothing. See build_one_shot.

        `summary` is of the first `n_summed_up` exchanges, and of turns before them.
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
        # Memory may repeat what the history says, which costs little.
        gathered = self._gathered(question, snapshot, (), "", 0, registers=False) if allowed else Gathered()
        sharing = sharing_of(self._config)
        return build_one_shot(
            question,
            snapshot.system.text,
            [*gathered.parts, *history_parts(summary, exchanges, n_summed_up=n_summed_up, times=times)],
            max_tokens=max_tokens,
            count=count,
            sharing=sharing,
            entities=gathered.entities,
            warnings=[text for text, _ in gathered.notes],
            summarize=summarize,
            n_summed_up=n_summed_up,
        )

    def commit(self, draft: Draft) -> None:
        """Note that the draft became part of the conversation."""
        self._gatherer.mark_shown(draft.plan.chosen)

    def settle(self, draft: Draft, budget: WindowBudget) -> None:
        """Adjust the plan to what was finally shown: turns may have left, the tail may have been dropped.

        A plan without token counts gets them.
        """
        if draft.measured is not None:
            draft.plan, draft.measured = _with_figures(draft.plan, draft.measured()), None
        plan, history = draft.plan, sum(map(budget.tokens_of, draft.history))
        used = plan.budget | {"history": history}
        if not draft.injection:
            used |= dict.fromkeys(_TAIL, 0)
            gone = tuple(LeftOut(part, "no room") for part in plan.of(*_TAIL))
            chosen = tuple(part for part in plan.chosen if part.category not in _TAIL)
            plan = replace(plan, chosen=chosen, left_out=(*plan.left_out, *gone))
        shares = tuple(replace(share, used=used[share.category]) for share in plan.shares)
        draft.plan = replace(plan, shares=shares)

    def use(self, config: Config) -> None:
        """Use other settings from the next message on."""
        sharing = replace(sharing_of(config), first=self._sharing.first)
        self._config, self._sharing = config, sharing
        self._gatherer.config = config

    def add_shown_hubs(self, hubs: Iterable[Hub]) -> None:
        """Note background nodes that were shown since the snapshot."""
        self._gatherer.add_shown_hubs(hubs)

    def reset_shown_hubs(self) -> None:
        """Forget the shown nodes, after a new snapshot."""
        self._gatherer.reset_shown_hubs()

    def _requests(
        self, draft: Draft, budget: WindowBudget, gathered: Gathered, shown: Collection[str]
    ) -> Callable[[bool], Request]:
        """Return a function that makes the plan's request, with upper bounds of tokens if passed True."""
        history = draft.history

        def request(at_most: bool) -> Request:
            fixed, reserve = budget.fixed_parts(draft, at_most=at_most)
            tokens_of = budget.most_tokens_of if at_most else budget.tokens_of
            return Request(
                window_tokens=budget.window_tokens,
                reserve_tokens=reserve,
                fixed=fixed,
                candidates=gathered.parts,
                sharing=self._sharing,
                history_tokens=sum(map(tokens_of, history)),
                shown=shown,
                turns=sum(message.role == "user" for message in history),
                entities=gathered.entities,
            )

        return request

    def _gather(self, draft: Draft, shown: Collection[str], session: str, since: int) -> Gathered:
        if draft.private or not self._config.injection_enabled:
            return Gathered()
        entities = draft.entities if draft.is_registered else None
        draft.is_registered = self._has_dialogue
        gathered = self._gathered(
            draft.message.raw,
            draft.snapshot,
            shown,
            session,
            since,
            entities=entities,
            short=self._config.context_tail == "short",
        )
        draft.entities = [part for part in gathered.parts if part.category == "entities"]
        return gathered

    def _gathered(
        self,
        text: str,
        snapshot: Snapshot,
        shown: Collection[str],
        session: str,
        since: int,
        *,
        registers: bool = True,
        entities: Sequence[Part] | None = None,
        short: bool = False,
    ) -> Gathered:
        first = Gathered()

        def recall(query: str) -> Injection:
            return recalled(query, self._memory, self._user_id, session_id=session, session_since=since)

        injection = first.attempt("recall", lambda: recall(text))
        each: dict[str, Injection] | None = None
        query = text[:QUERY_CHARS]
        asked = questions_in(query) if short else []
        if len(asked) > 1:
            # Those that facts answer need no memory and no passage.
            known = asked_facts(query, injection.facts if injection else ())
            open_ones = [one.query for one, facts in zip(asked, known, strict=True) if not facts]
            queries = open_ones[:_MOST_QUESTIONS]
            each = first.attempt("recall", lambda: {query: recall(query) for query in queries})
        gathered = self._gatherer.gather(
            text,
            injection,
            snapshot,
            shown=shown,
            registers=registers,
            entities=entities,
            short=short,
            each=each,
        )
        gathered.notes[:0] = first.notes
        gathered.timings_us |= first.timings_us
        return gathered


def sharing_of(config: Config) -> Sharing:
    """Return how the settings share the window. Raises UsageError for invalid shares and orders."""
    return _sharing(config.context_strategy, config.context_shares, config.context_order)


@lru_cache(maxsize=16)  # a server plans for one conversation after the other
def _sharing(strategy: Strategy, shares: str, order: str) -> Sharing:
    weights = parse_percentages(shares) if strategy == "fixed" else None
    return Sharing(strategy, weights, parse_order(order))


def _shown_ids(history: Sequence[Message]) -> frozenset[str]:
    """Return the ids of passages in tails that the model still sees; other parts may change."""
    return frozenset(
        part
        for message in history
        if message.injected is not None and message.sent != message.content
        for part in message.injected.parts
        if part.startswith("chunk:")
    )


def _trimmed(plan: Plan, request: Request, budget: WindowBudget) -> Plan:
    """Return the plan without parts that are too much when the tail is counted as a whole."""
    while any(part.category in _TAIL for part in plan.chosen):
        used = sum(share.used for share in plan.shares if share.category in _TAIL)
        if used * (1 + _SLACK) + _LEAST_SLACK <= request.available:
            break
        if budget.count(render_tail(plan.chosen)) <= request.available:
            break
        plan = without_one(plan) or plan
    return plan


def _with_figures(plan: Plan, measured: Plan) -> Plan:
    """Return the plan made from byte lengths with the token counts of the `measured` one."""
    chosen = measured.chosen
    if [part.id for part in chosen] != [part.id for part in plan.chosen]:
        chosen = plan.chosen  # it was shown already, whatever was counted since
    return replace(
        measured, chosen=chosen, warnings=plan.warnings, timings_us=plan.timings_us, about=plan.about
    )


def _write_tail(draft: Draft, injection: Injection, plan: Plan) -> None:
    tail = render_tail(plan.chosen)
    memory = next(iter(plan.of("memory")), None)
    kept = shown_injection(injection, memory)
    others: tuple[Category, ...] = ("entities", "knowledge", "focus")
    parts = tuple(part.id for part in plan.of(*others))
    told = (part.about.get("passage") for part in plan.of("knowledge"))
    passages = tuple(one for one in told if isinstance(one, RecalledPassage))
    nodes = tuple(node for part in plan.of("focus") if part.id == "focus" for node in focused_in(part.text))
    if tail != kept.tail or parts:
        kept = replace(kept, tail=tail, parts=parts, passages=passages, nodes=nodes)
    draft.injection = kept
    if injection and memory is None:
        draft.notes.append(NO_ROOM_FOR_MEMORY)
    if tail:
        draft.message.sent = draft.message.content + tail
        draft.message.injected = draft.injection
