"""One turn of a conversation, for chat and server: prompt, replies, tools between them, and its events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from shepherd.config import Config
from shepherd.errors import ContextOverflowError, ShepherdError
from shepherd.inference import Answer, Engine
from shepherd.memory import Memory
from shepherd.prompt import Draft, Plan, WindowBudget
from shepherd.prompt.exchanges import added_stats, message_of
from shepherd.prompt.overflow import prepare_prompt, start_answer
from shepherd.tools import Toolbox, ToolResult
from shepherd.turn import warm_up
from shepherd.turn.small_model import Promise, Review, is_small_model
from shepherd.types import (
    ANONYMOUS_USERS,
    Fact,
    Injection,
    Message,
    PastFact,
    Sampling,
    Thought,
    Tool,
    ToolCall,
    TurnStats,
)
from shepherd.wording import counted

if TYPE_CHECKING:
    from shepherd.providers import ChatModel, Reply
    from shepherd.providers.exchange import Retry

__all__ = [
    "Delta",
    "Event",
    "Finished",
    "GenerationOptions",
    "Recalled",
    "ToolResult",
    "Turn",
    "Warned",
    "former_facts",
    "own_facts",
    "refused_values",
    "sampling_of",
]


@dataclass(frozen=True, slots=True)
class Recalled:
    """The lines that memory adds to this message; comes once, before the first piece of the answer.

    `plan` has everything that the model is shown, with tokens.
    """

    injection: Injection
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer, as it is generated."""

    text: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A failure that the answer does not depend on; or a remark, where nothing failed and nothing is lost."""

    message: str
    hint: str = ""
    is_remark: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer and the cost of the turn; the last event, unless the turn raised.

    Text before a tool call came as Delta and is not part of the answer. `plan.budget` has the prompt's tokens
    by category, `plan.chosen` and `plan.left_out` the parts that were shown and those that were not.
    """

    answer: str
    stats: TurnStats
    injection: Injection
    plan: Plan = field(default_factory=Plan)


Event = Recalled | Delta | Thought | ToolCall | ToolResult | Warned | Finished


@dataclass(frozen=True, slots=True)
class GenerationOptions:
    """Options of the replies of one turn.

    `tool_choice` is "auto", "none", "required" or the name of a tool, and holds for the first reply.
    `total_tokens` limits all replies together, 0 for no limit; the budget limits a single one. `extra` holds
    options of this kind of model only, such as stop strings. `promise` says what becomes of the message, for
    a model that acknowledges it; `refused` returns the values in lower case that the user undid or rejected,
    and `former` the facts that have ended.
    A local model may keep the conversation on disk if it has an `owner`: see Memory.files_owner. `user` is
    whose turn it is, "" for nobody known.
    """

    sampling: Sampling
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    tool_rounds: int = 0
    total_tokens: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    promise: Promise = field(default_factory=Promise)
    refused: Callable[[], Collection[str]] = frozenset
    former: Callable[[], Sequence[PastFact]] = tuple
    owner: str = ""
    user: str = ""


class Turn:
    """One turn with one model: `prepare`, `start`, then `run_tools` and `next_reply` while it `continues`.

    Each reply has to be read to its end before the next step. `cancel` may be called from any thread,
    everything else from one at a time.

    `plan` writes the tail of the draft's message; it is called again after an eviction. `toolbox` has the
    tools to run here: those of `own_names`, or all where that is None.
    """

    def __init__(
        self,
        model: ChatModel,
        draft: Draft,
        budget: WindowBudget,
        options: GenerationOptions,
        *,
        plan: Callable[[], None],
        toolbox: Toolbox | None = None,
        own_names: frozenset[str] | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        self.model = model
        self.draft = draft
        self.budget = budget
        self.is_cut = False  # the reply was ended on purpose, behind a call
        self.rounds = 0
        self._options = options
        self._plan = plan
        self._toolbox = toolbox
        self._own_names = own_names
        self._reply: Reply | None = None
        self._earlier: TurnStats | None = None
        self._cancelled = cancelled or threading.Event()

    @property
    def reply(self) -> Reply:
        """The present reply."""
        assert self._reply is not None
        return self._reply

    @property
    def progress(self) -> tuple[int, int]:
        """Tokens of the prompt that were read for the present reply, and all to be read; zeros if unknown."""
        return self._reply.progress if isinstance(self._reply, Answer) else (0, 0)

    @property
    def retry(self) -> Retry | None:
        """The pause before a provider is asked again, during one."""
        if self._reply is None or isinstance(self._reply, Answer):
            return None
        from shepherd.providers.remote import RemoteReply

        return self._reply.retry if isinstance(self._reply, RemoteReply) else None

    @property
    def stats(self) -> TurnStats:
        """Cost of all replies so far; the present one must have been read."""
        stats = self.reply.stats
        return stats if self._earlier is None else added_stats(self._earlier, stats)

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled.is_set()

    @property
    def own_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the present reply to run here."""
        if self._toolbox is None:
            return ()
        names = self._own_names
        return tuple(call for call in self.reply.tool_calls if names is None or call.name in names)

    @property
    def other_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the present reply for the client to run."""
        if self._own_names is None:
            return ()
        return tuple(call for call in self.reply.tool_calls if call.name not in self._own_names)

    def cancel(self) -> None:
        """End the present reply and the turn with it; the text so far is kept."""
        self._cancelled.set()
        if self._reply is not None:
            self._reply.cancel()

    def prepare(self, *, compact: Callable[[], None] = lambda: None) -> None:
        """Make the prompt; `compact` may replace old turns by a summary."""
        warm_up.wait()
        prepare_prompt(self.draft, self.budget, plan=self._plan, compact=compact)

    def start(self) -> Reply:
        """Begin the first reply. Raises ContextOverflowError before anything is decoded."""
        return self._begin()

    def continues(self) -> bool:
        """Return whether another reply follows: this one, which was read, calls tools to run here."""
        stats = self.stats
        if not self.own_calls or self.is_cancelled:
            return False
        if stats.finish_reason == "cancelled" and not self.is_cut:
            return False
        if 0 < self._options.total_tokens <= stats.generated_tokens:
            return False
        if self.rounds >= self._options.tool_rounds:
            times = counted(self._options.tool_rounds, "time")
            text = f"the model has called tools {times} and wants to continue"
            self.draft.notes.append((text, "the setting tool_rounds allows more"))
            return False
        return True

    def another(self, i: int) -> Turn:
        """Return a turn that has begun answer `i` to the same prompt; answer 0 is this one, which has begun.

        For turns without tools to run here.
        """
        options = replace(self._options, sampling=self._options.sampling.of_answer(i))
        made = Turn(self.model, self.draft, self.budget, options, plan=self._plan, own_names=self._own_names)
        made.start()
        return made

    def run_tools(self) -> Iterator[ToolResult]:
        """Run the reply's own calls, and add calls and results to the draft's steps.

        Beside calls for the client the results are lost: the answer ends with those calls.
        """
        assert self._toolbox is not None
        results = []
        for call in self.own_calls:
            result = self._toolbox.call(call, self._cancelled.is_set)
            if result.error is not None:
                self.draft.notes.append((f"{call.name} failed: {result.error}", result.error.hint))
            results.append(Message("tool", result.text, tool_call_id=call.id, created_at=int(time.time())))
            yield result
        if not self.other_calls:
            self.draft.steps += [message_of(self.reply, calls=self.reply.tool_calls), *results]

    def next_reply(self) -> Reply:
        """Begin the reply to the results of the tools."""
        stats = self.stats
        if self._options.total_tokens:
            self.budget.max_tokens = max(1, self._options.total_tokens - stats.generated_tokens)
        # The client's choice of a tool has been followed.
        self._options = replace(self._options, tool_choice="auto")
        try:
            reply = self._begin()
            reply.wait()
        except ContextOverflowError:
            # A refusal may have told a server's window, and the results of tools must not be lost.
            reply = self._begin()
        self._earlier = stats
        self.rounds += 1
        return reply

    def _begin(self) -> Reply:
        reply = start_answer(self.draft, self.budget, begin=self._generate, plan_again=self._plan)
        self._reply = reply
        if self.is_cancelled:
            reply.cancel()
        return reply

    def _generate(self, has_tools: bool) -> Reply:
        options, choice = self._options, self._options.tool_choice
        tools = options.tools if has_tools and choice != "none" else ()
        extra = dict(options.extra)
        if tools and choice != "auto":
            extra["must_call"] = choice == "required" or choice
        if isinstance(self.model, Engine):
            extra["is_cancelled"] = self._cancelled.is_set
            extra["owner"] = options.owner
            extra["user"] = "" if options.user in ANONYMOUS_USERS else options.user
        # What a grammar forces is no talk, and log probabilities are of the tokens as they were sampled.
        # So is an answer that the client has begun.
        is_forced = any(extra.get(name) for name in ("grammar", "must_call", "prefill"))
        is_free = not is_forced and extra.get("logprobs") is None
        if is_free and is_small_model(self.model):
            draft = self.draft
            injection = draft.injection
            # An earlier message shows them, or there is no room for them; they can be quoted all the same.
            before = tuple(one.part for one in draft.plan.left_out)
            passages = (*draft.plan.of("knowledge"), *(one for one in before if one.category == "knowledge"))
            extra["review"] = partial(
                Review,
                draft.prompt,
                injection.facts,
                options.promise,
                passages,
                injection.results,
                past=injection.past,
                # Not where memory is off.
                former=options.former if injection.keywords else tuple,
                refused=options.refused,
            )
        generate: Callable[..., Reply] = self.model.generate
        return generate(
            self.draft.prompt,
            sampling=options.sampling,
            max_tokens=self.budget.max_tokens or self.budget.window_tokens,
            tools=tools,
            **extra,
        )


def sampling_of(config: Config, recommended: Sampling, asked: Mapping[str, Any] | None = None) -> Sampling:
    """Return the values that were asked for, else those of the settings, else the model's recommendation."""
    return replace(recommended, **{"seed": None, **config.sampling, **(asked or {})})


def refused_values(memory: Memory | None, user_id: str | None) -> frozenset[str]:
    """Return what `GenerationOptions.refused` needs; nothing if the memory fails, which costs no answer."""
    if memory is None:
        return frozenset()
    with suppress(ShepherdError):
        return memory.refused_values(user_id)
    return frozenset()


def own_facts(memory: Memory | None, user_id: str | None) -> Sequence[Fact]:
    """Return what `Promise.own` needs; nothing if the memory fails, which costs no answer."""
    if memory is not None:
        with suppress(ShepherdError):
            return memory.facts_set_by_user(user_id)
    return ()


def former_facts(memory: Memory | None, user_id: str | None) -> Sequence[PastFact]:
    """Return what `GenerationOptions.former` needs, the last value of each; nothing if the memory fails.

    Facts that the user has cleared are left out, although their history is kept.
    """
    if memory is None:
        return ()
    with suppress(ShepherdError):
        # Also what had ended before it was told, so that nobody knows since when it held.
        periods = memory.fact_periods(user_id=user_id, corrected=True, forgotten=False)
        current = {period.key for period in periods if period.until is None}
        # The value that was told last, which may have ended before an earlier one did.
        told = sorted(periods, key=lambda period: period.recorded_at)
        last = {period.key: period for period in told if period.key not in current}
        return [PastFact("held", p.key, p.value, p.since, p.until) for p in last.values()]
    return ()
