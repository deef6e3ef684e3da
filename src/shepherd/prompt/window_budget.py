"""Token budget of a prompt: counts, eviction, and the tokens that a model's window leaves."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from shepherd.lru_cache import FIFODict
from shepherd.prompt.draft import Draft
from shepherd.prompt.exchanges import Exchange, has_tail, tail_tokens, turns
from shepherd.prompt.plan import Part
from shepherd.types import Message, Tool

if TYPE_CHECKING:
    from shepherd.providers import ChatModel

__all__ = [
    "CROWDED_SHARE",
    "LOW_WATER",
    "Retention",
    "TokenCounts",
    "WindowBudget",
    "evict",
    "most_tokens",
    "output_reserve",
    "tails_to_strip",
    "tools_text",
]


_MOST_TEXTS = 4096
# Longer texts are messages, which are not counted again.
_LONGEST_CHARS = 1 << 14


def most_tokens(text: str) -> int:
    """Return an upper bound of a text's tokens: no token is empty, and one may be added in front."""
    return (len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))) + 1


class TokenCounts:
    """Cached counts of one model's tokenizer; call it with a text. For one thread at a time."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: FIFODict[str, int] = FIFODict(_MOST_TEXTS)

    def __call__(self, text: str) -> int:
        """Return the number of tokens of `text`."""
        known = self._known.get(text)
        if known is not None:
            return known
        tokens = self._count(text)
        if len(text) <= _LONGEST_CHARS:
            self._known[text] = tokens
        return tokens


# Share of the history's tokens that an eviction leaves. At 8,192 tokens and turns of 200 the next one is 14
# turns away; evicting one turn at a time would read the whole window again each time.
LOW_WATER = 0.6
# Share of the window that is kept free for an answer, at most.
_MOST_RESERVED = 0.25


def output_reserve(window_tokens: int, max_tokens: int, fixed_tokens: int) -> int:
    """Return the tokens to keep free for the answer, beside `fixed_tokens` that cannot be freed."""
    reserve = min(max_tokens or window_tokens, int(window_tokens * _MOST_RESERVED))
    # A message that nearly fills the window gets a short answer rather than none.
    return min(reserve, max(0, window_tokens - fixed_tokens) // 2)


def evict(
    messages: Sequence[Message],
    counts: Sequence[int],
    *,
    window_tokens: int,
    max_tokens: int,
    low_water: float = LOW_WATER,
) -> list[int]:
    """Return the indices of the messages to evict, in order; none while the prompt leaves tokens for the
    answer.

    `counts` are the messages' tokens. The system part and the turn of the newest user message stay; the
    oldest other turns leave until the rest fills at most `low_water` of the tokens available to them. Nothing
    leaves if that cannot help, since what must stay exceeds the window.
    """
    own = turns(messages)[:-1]
    history = [sum(counts[i] for i in turn) for turn in own]
    fixed = sum(counts) - sum(history)
    room = window_tokens - fixed - output_reserve(window_tokens, max_tokens, fixed)
    left = sum(history)
    if left <= room or fixed >= window_tokens:
        return []
    leaving: list[int] = []
    for turn, tokens in zip(own, history, strict=True):
        if left <= low_water * room:
            break
        leaving += turn
        left -= tokens
    return leaving


Retention = Literal["auto", "strip", "keep"]

# With tails of 60 tokens, a quarter of 8,192 tokens holds 34 of them before the history is read again;
# stripping every turn would have read the last answer again 34 times.
CROWDED_SHARE = 0.25


def tails_to_strip(earlier: Sequence[Message], retention: Retention, window_tokens: int) -> list[Message]:
    """Return the earlier messages to strip before the next turn: all that have a tail, or none."""
    carriers = [message for message in earlier if has_tail(message)]
    if retention == "keep":
        return []
    if retention == "auto" and sum(map(tail_tokens, carriers)) <= CROWDED_SHARE * window_tokens:
        return []
    return carriers


# Approximate tokens that a template writes around a message.
_FRAME_TOKENS = 8
# Longest token of any tokenizer, except for runs of blanks.
_MOST_CHARS_PER_TOKEN = 256
# Tails whose bytes stay below this share of the window need no counting.
_FEW_TAILS = 0.125


class WindowBudget:
    """Measures and shrinks prompts for one model with these tools.

    `count` caches counts; the default one is for one thread at a time.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        max_tokens: int,
        retention: Retention,
        tools: Sequence[Tool],
        count: Callable[[str], int] | None = None,
    ) -> None:
        self._model = model
        self.count = count or TokenCounts(model.count_tokens)
        self.max_tokens = max_tokens
        self.retention = retention
        self._tools = tools_text(tools) if tools else ""

    @property
    def tool_tokens(self) -> int:
        """Approximate number of tokens of the descriptions of the tools."""
        return self.count(self._tools) if self._tools else 0

    @property
    def window_tokens(self) -> int:
        """Context window of the model; it may shrink after a server rejects a prompt."""
        return self._model.window_tokens

    def tokens_of(self, message: Message) -> int:
        """Return the tokens of a message in a prompt, as the engine counted them if it has seen it."""
        return message.tokens or self._count(_full_text(message))

    def turn_tokens(self, exchange: Exchange) -> int:
        """Return the tokens of all messages of an exchange."""
        return sum(self.tokens_of(m) for m in (exchange.user, *exchange.steps, exchange.answer))

    def most_tokens_of(self, message: Message) -> int:
        """Return an upper bound of a message's tokens, without counting."""
        return message.tokens or most_tokens(_full_text(message)) + _FRAME_TOKENS

    def fixed_parts(self, draft: Draft, *, at_most: bool = False) -> tuple[list[Part], int]:
        """Return the parts that are always shown, the system part and the user's text, and the answer's
        reserve.

        With `at_most` the user's text is not counted; its tokens are an upper bound.
        """
        system = self._count(draft.snapshot.system.text) + self.tool_tokens
        said = draft.message.content
        query = most_tokens(said) + _FRAME_TOKENS if at_most else self._count(said)
        parts = [
            Part("system", "system", draft.snapshot.system.text, system),
            Part("query", "query", said, query),
        ]
        return parts, output_reserve(self.window_tokens, self.max_tokens, system + query)

    def strip_by_policy(self, draft: Draft) -> None:
        """Strip the tails of earlier messages that the retention policy does not keep."""
        carriers = [message for message in draft.history if message.sent != message.content]
        n_bytes = sum(most_tokens(message.sent) - most_tokens(message.content) for message in carriers)
        if self.retention == "auto" and n_bytes <= _FEW_TAILS * self.window_tokens:
            return
        for message in carriers:
            message.tokens = message.tokens or self._count(_full_text(message))
        draft.strip(tails_to_strip(draft.history, self.retention, self.window_tokens))

    def strip_all(self, draft: Draft) -> None:
        """Strip all tails of earlier messages, unless the policy always keeps them."""
        if self.retention != "keep":
            draft.strip(tails_to_strip(draft.history, "strip", self.window_tokens))

    def evict_turns(self, draft: Draft, prompt_tokens: int = 0) -> None:
        """Evict the oldest turns when the window is full; strip tails first, since the prefix moves anyway.

        `prompt_tokens` is the engine's own count of the prompt, where ours was lower.
        """
        leaving = self._leaving(draft, prompt_tokens)
        if leaving and self.retention != "keep":
            self.strip_all(draft)
            leaving = self._leaving(draft, prompt_tokens)
        if leaving:
            prompt = draft.prompt
            draft.evict([prompt[i] for i in leaving])

    def excess_tokens(self, draft: Draft, prompt_tokens: int = 0) -> int:
        """Return by how many tokens this turn alone, with a reserve for the answer, exceeds the window.

        `prompt_tokens` is the engine's count of the whole prompt, where ours was lower.
        """
        system, *others = self._counts(draft.prompt, prompt_tokens)
        message, *steps = others[len(draft.history) :]
        reserve = output_reserve(self.window_tokens, self.max_tokens, system + message)
        return system + message + sum(steps) + reserve - self.window_tokens

    def engine_scale(self, draft: Draft, prompt_tokens: int) -> float:
        """Return the engine's tokens for each of ours, by its count of the whole prompt; at least 1."""
        total = sum(self._counts(draft.prompt, 0))
        return max(prompt_tokens / total, 1.0) if total else 1.0

    def _leaving(self, draft: Draft, prompt_tokens: int) -> list[int]:
        messages = draft.prompt

        def leaving(counts: list[int]) -> list[int]:
            return evict(messages, counts, window_tokens=self.window_tokens, max_tokens=self.max_tokens)

        # No token is empty: in most turns the byte lengths suffice.
        at_most = [self.most_tokens_of(message) for message in messages]
        at_most[0] += len(self._tools)
        if not prompt_tokens and not leaving(at_most):
            return []
        return leaving(self._counts(messages, prompt_tokens))

    def _counts(self, messages: Sequence[Message], prompt_tokens: int) -> list[int]:
        """Return the tokens of each message, those of the tools with the first; see `excess_tokens`."""
        counts = [self.tokens_of(message) for message in messages]
        counts[0] += self.tool_tokens
        total = sum(counts)
        if 0 < total < prompt_tokens:
            counts = [-(-count * prompt_tokens // total) for count in counts]
        return counts

    def _count(self, text: str) -> int:
        """Count a message; one that cannot fit counts as at least the window, without reading it all."""
        if len(text) >= self.window_tokens * _MOST_CHARS_PER_TOKEN:
            return self.window_tokens
        return self.count(text) + _FRAME_TOKENS


def tools_text(tools: Sequence[Tool]) -> str:
    """Return approximately what a template writes about tools."""
    return json.dumps([[tool.name, tool.description, dict(tool.parameters)] for tool in tools])


def _full_text(message: Message) -> str:
    """Return everything that a message shows the model, approximately as a template writes it."""
    if not (message.tool_calls or message.thought):
        return message.sent
    calls = "".join(f"{call.name}{call.arguments}" for call in message.tool_calls)
    return f"{message.sent}{calls}{message.thought}"
