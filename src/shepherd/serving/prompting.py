"""The prompt of a conversation that came in whole: old tails back, a new one, and what has to leave."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shepherd.config import Config
from shepherd.context import Restored, Retention, Snapshot, evict, strip_tails, tails_to_strip
from shepherd.serving.chat_request import ChatRequest
from shepherd.serving.planned import Planned
from shepherd.serving.timing import InjectionTime
from shepherd.types import Injection, Message

if TYPE_CHECKING:
    from shepherd.providers import ChatModel

__all__ = ["Draft"]

_FRAME_TOKENS = 8  # about what a template writes around a message
_MOST_CHARS_PER_TOKEN = 256  # no tokenizer has longer tokens, but for a few runs of blanks
# Of the window, in bytes of tails: that few are no crowd, whatever they are in tokens.
_FEW_TAILS = 0.125


@dataclass(slots=True)
class Draft:
    """A prompt while it is made, for one model.

    `messages` are the client's, with tails; `kept` are the indices of those that the model will see, behind
    the `snapshot`, which stands for all that came before the first message of a person. `count` gives the
    tokens of a text, `plan` is why the newest message has its tail, `injection_time` what that took. `steps`
    follow it: calls of tools that the client knows nothing of, and their results.
    """

    messages: list[Message]
    kept: list[int]
    snapshot: Snapshot
    model: ChatModel
    max_tokens: int
    retention: Retention
    count: Callable[[str], int]
    plan: Planned | None = None
    injection_time: InjectionTime | None = None
    stripped: set[int] = field(default_factory=set)
    steps: list[Message] = field(default_factory=list)

    @classmethod
    def begin(
        cls,
        request: ChatRequest,
        restored: Restored,
        model: ChatModel,
        config: Config,
        *,
        snapshot: Callable[[str], Snapshot],
        count: Callable[[str], int],
    ) -> Draft:
        """The prompt before anything is recalled. What had left the window stays out.

        `snapshot` makes the system part of the client's own instructions.
        """
        messages = list(restored.messages)
        messages[-1] = messages[-1].copy()
        messages[-1].created_at = int(time.time())
        first = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
        instructions = "\n\n".join(message.raw for message in messages[:first])
        kept = range(first, len(messages))
        return cls(
            messages,
            [i for i in kept if i >= restored.n_left or messages[i].role == "system"],
            snapshot(instructions),
            model,
            request.max_tokens or config.max_tokens,
            config.injection_retention,
            count,
        )

    @property
    def newest(self) -> Message:
        """What is to be answered."""
        return self.messages[-1]

    @property
    def system(self) -> Message:
        """What the prompt begins with."""
        return Message("system", self.snapshot.system.text)

    @property
    def injection(self) -> Injection:
        """What memory adds to the newest message."""
        return Injection() if self.plan is None else self.plan.injection

    @property
    def history(self) -> list[Message]:
        """What the model sees before the newest message, without the system part."""
        last = len(self.messages) - 1
        return [self.messages[i] for i in self.kept if i != last]

    @property
    def first_kept(self) -> int:
        """Index of the oldest message of the conversation that the model still sees."""
        return next(i for i in self.kept if self.messages[i].role != "system")

    @property
    def evicted_turns(self) -> int:
        """How many messages of the user the model does not see any more."""
        kept = set(self.kept)
        return sum(m.role == "user" and i not in kept for i, m in enumerate(self.messages))

    def prompt(self) -> list[Message]:
        """What the model sees."""
        return [self.system, *(self.messages[i] for i in self.kept), *self.steps]

    def strip(self, retention: Retention | None = None) -> None:
        """Take old tails off, all at once, when they crowd the window or are not to stay at all."""
        retention = retention or self.retention
        window, earlier = self.model.window_tokens, self.messages[:-1]
        carriers = [message for message in earlier if message.sent != message.raw]
        n_bytes = sum(_bytes(message.sent) - _bytes(message.raw) for message in carriers)
        if retention != "strip" and n_bytes <= _FEW_TAILS * window:
            return
        for message in carriers:
            message.tokens = message.tokens or self._count(message.sent)
        leaving = {id(message) for message in tails_to_strip(earlier, retention, window)}
        self.stripped |= {i for i, message in enumerate(earlier) if id(message) in leaving}
        strip_tails(message for message in earlier if id(message) in leaving)

    def make_room(self, prompt_tokens: int = 0) -> bool:
        """Let the oldest turns go when the window is full, tails first; whether anything did.

        `prompt_tokens`: what the engine found, where our counts were less.
        """
        before = len(self.kept), len(self.stripped)
        leaving = self._leaving(prompt_tokens)
        if leaving and self.retention != "keep":
            self.strip("strip")
            leaving = self._leaving(prompt_tokens)
        gone = {self.kept[place - 1] for place in leaving}  # the first is the system's
        self.kept = [i for i in self.kept if i not in gone]
        return before != (len(self.kept), len(self.stripped))

    def drop_tail(self) -> None:
        """Do without what memory adds to the newest message."""
        if self.plan is not None:
            self.plan.drop_tail()

    def _leaving(self, prompt_tokens: int) -> Sequence[int]:
        messages = self.prompt()

        def leaving(counts: Sequence[int]) -> Sequence[int]:
            window = self.model.window_tokens
            return evict(messages, counts, window_tokens=window, max_tokens=self.max_tokens)

        # No token is empty: most requests need no counting.
        if not prompt_tokens and not leaving([_bytes(message.sent) + _FRAME_TOKENS for message in messages]):
            return ()
        counts = [self._count(message.sent) for message in messages]
        total = sum(counts)
        if 0 < total < prompt_tokens:
            counts = [-(-count * prompt_tokens // total) for count in counts]
        return leaving(counts)

    def _count(self, text: str) -> int:
        """Tokens of a message; for one that cannot fit, at least the window's, without reading it all."""
        window = self.model.window_tokens
        if len(text) >= window * _MOST_CHARS_PER_TOKEN:
            return window
        return self.count(text) + _FRAME_TOKENS


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
