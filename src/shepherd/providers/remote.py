"""A remote model with the shape of the local engine: it estimates prompts, streams answers, learns counts."""

from __future__ import annotations

import hashlib
import itertools
import json
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from shepherd.errors import NEW_CONVERSATION, ContextOverflowError, ProviderError, ShepherdError, UsageError
from shepherd.providers.accounting import Account, Entry, RatioStore, answered, settle, update
from shepherd.providers.anthropic_messages import AnthropicMessages
from shepherd.providers.chat_completions import ChatCompletions, thought_to_return
from shepherd.providers.exchange import End, Exchange, Retry, RetryPolicy, Usage
from shepherd.providers.failures import cut_off
from shepherd.providers.keys import require_key
from shepherd.providers.settings import ProviderSettings
from shepherd.providers.transport import Request, Transport, require_client
from shepherd.types import (
    FinishReason,
    Message,
    Piece,
    ReplySchema,
    Sampling,
    Thought,
    Tool,
    ToolCall,
    TurnStats,
)

__all__ = ["RemoteInfo", "RemoteModel", "RemoteReply", "open_remote"]

# An answer that has more characters a token than any language does not end by itself.
_MOST_CHARS_PER_TOKEN = 64
_LEAST_MOST_CHARS = 1 << 16
# Texts shorter than this say more about the template than about the language.
_LEAST_OBSERVED_CHARS = 100
# Of what a server refused as too long without saying what would fit.
_LESS = 0.9
# Of an answer, where neither the caller nor the provider says.
_DEFAULT_TOKENS = 1024
# Kinds whose server serves one model, or chooses one itself.
_CHOOSES = {"shepherd"}


@dataclass(frozen=True, slots=True)
class RemoteInfo:
    """Description of a remote model."""

    name: str
    sampling: Sampling = field(default_factory=Sampling)


class RemoteModel:
    """Answers through a transport. One conversation; for use from one thread, but for `cancel` of its
    replies.

    `sends` names the sampling settings that are sent: those the user has set; the server's own hold for the
    rest. `asks_memory` is asked before each request whether a remote Shepherd may use its memory.
    """

    def __init__(
        self,
        provider: ProviderSettings,
        transport: Transport,
        *,
        sends: Collection[str] = (),
        asks_memory: Callable[[], bool] = lambda: True,
        policy: RetryPolicy | None = None,
        ratios: RatioStore | None = None,
    ) -> None:
        self.provider = provider
        self.info = RemoteInfo(provider.model or provider.name)
        self.window_tokens = provider.window_tokens
        self._transport = transport
        self._sends = frozenset(sends)
        self._asks_memory = asks_memory
        self._policy = policy or RetryPolicy(provider.retries)
        self._ratios = ratios or RatioStore()
        self._ratio_key = f"{provider.kind}:{provider.model}"
        self._ratio = self._ratios.load(self._ratio_key)
        self._account = Account()
        self._fitted = 0  # tokens of the longest prompt and answer that the server has counted

    def close(self) -> None:
        """Let go of connections. May be called twice."""
        self._transport.close()

    @property
    def reads_pictures(self) -> bool:
        """True: whether the model reads them, its server says."""
        return True

    @property
    def picture_problem(self) -> str:
        """Nothing."""
        return ""

    def count_tokens(self, text: str) -> int:
        """Return an estimate, rounded up."""
        return self._ratio.estimate(len(text))

    def count_prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Return an estimate for a conversation with its calls and these tools."""
        if tools and (not messages or messages[0].role != "system"):
            messages = [Message("system", ""), *messages]
        return update(Account(), _entries(messages, tools), self._ratio).total

    def generate(
        self,
        messages: Sequence[Message],
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        tools: Sequence[Tool] = (),
        stop: Sequence[str] = (),
        schema: ReplySchema | None = None,
        must_call: bool | str = False,
    ) -> RemoteReply:
        """Begin the answer to a conversation.

        `max_tokens` None is the provider's own, else 1024. The last three are the server's to follow; see
        Kind.options for who can.

        Raises ContextOverflowError before anything is sent when the prompt is too long by what is known; the
        server may know better, and then the first piece raises it.
        """
        if max_tokens is None:
            max_tokens = self.provider.max_tokens or _DEFAULT_TOKENS
        if max_tokens < 0:
            raise UsageError(f"max_tokens is {max_tokens}", hint="use 1 or more")
        account = update(self._account, _entries(messages, tools), self._ratio)
        if account.total >= self.window_tokens:
            raise self._overflow(account.total)
        request = Request(
            tuple(messages),
            min(max_tokens, self.window_tokens - account.total),
            {name: value for name in self._sends if (value := getattr(sampling, name, None)) is not None},
            tuple(tools),
            self._asks_memory(),
            tuple(stop),
            schema,
            must_call,
        )
        return RemoteReply(self, request, account, self._begin(request))

    def _begin(self, request: Request) -> Exchange:
        return Exchange(
            lambda link: self._transport.send(request, link),
            self._transport.translate,
            policy=self._policy,
            timeout_s=self.provider.timeout,
            cut_off=lambda has_begun: cut_off(self.provider, has_begun),
        )

    def _overflow(self, prompt_tokens: int) -> ContextOverflowError:
        return ContextOverflowError(
            f"the prompt has about {prompt_tokens:,} tokens, the window of provider {self.provider.name} "
            f"{self.window_tokens:,}",
            prompt_tokens=prompt_tokens,
            window_tokens=self.window_tokens,
            hint=f"{NEW_CONVERSATION}; or shorten the message; if the window is larger: "
            f"shepherd provider set {self.provider.name} window TOKENS",
        )

    def learn_window(self, error: ContextOverflowError, account: Account, asked_tokens: int) -> Account:
        """After the server has refused a prompt as too long: the next one is measured by what that showed.

        `asked_tokens` is what the answer was allowed. Gives the account of the prompt as it is known now.
        What was refused is not taken for something that fits, unless as much has fitted before.
        """
        if error.prompt_tokens:
            self._observe(account.uncounted_chars, error.prompt_tokens - _counted(account))
            account = settle(account, error.prompt_tokens)
        window = min(self.window_tokens, error.window_tokens or self.window_tokens)
        refused = account.total + asked_tokens
        if refused <= window:  # no number was given, or its tokens are counted in another way
            window = int(_LESS * (account.total + asked_tokens // 2))
        self.window_tokens = min(self.window_tokens, max(window, self._fitted, 1))
        return account

    def learn(self, account: Account, answer: str, usage: Usage | None, *, is_text: bool) -> Account:
        """Keep what an answer showed; gives the account of its prompt as it is known now."""
        told = usage.answer - usage.thinking if usage is not None else 0
        if usage is not None:
            self._observe(account.uncounted_chars, usage.prompt - _counted(account))
            account = settle(account, usage.prompt)
            self._fitted = max(self._fitted, usage.prompt + usage.answer)
            if is_text:
                self._observe(len(answer), told)
            self._ratios.save(self._ratio_key, self._ratio)
        estimate = self._ratio.estimate(len(answer))
        self._account = answered(
            account, _key("assistant", answer), len(answer), told or estimate, is_counted=is_text and told > 0
        )
        return account

    def _observe(self, n_chars: int, n_tokens: int) -> None:
        if n_chars >= _LEAST_OBSERVED_CHARS:
            self._ratio.observe(n_chars, n_tokens)


class RemoteReply:
    """One answer while it comes; see shepherd.providers.protocol.Reply."""

    def __init__(self, model: RemoteModel, request: Request, account: Account, exchange: Exchange) -> None:
        self._model, self._account, self._exchange = model, account, exchange
        self._max_tokens = request.max_tokens
        self._most_chars = max(_MOST_CHARS_PER_TOKEN * request.max_tokens, _LEAST_MOST_CHARS)
        self._started = time.perf_counter()
        self._first_s: float | None = None
        self._ahead: list[Piece] = []  # at most one, read by `wait`
        self._pieces: list[str] = []
        self._chars = 0
        self._calls: list[ToolCall] = []
        self._thoughts: list[str] = []
        self._usage: Usage | None = None
        self._stops = request.stop
        self._stopped_by = -1
        self._reason: FinishReason = "cancelled"
        self._stats: TurnStats | None = None

    def __iter__(self) -> RemoteReply:
        return self

    def __next__(self) -> Piece:
        if self._ahead:
            return self._ahead.pop()
        if self._stats is not None:
            raise StopIteration
        try:
            for event in self._exchange:
                if isinstance(event, Usage):
                    self._usage = event
                elif isinstance(event, End):
                    self._reason = event.reason
                    if event.stop and event.stop in self._stops:
                        self._stopped_by = self._stops.index(event.stop)
                elif piece := self._taken(event):
                    return piece
        except ContextOverflowError as error:
            self._account = self._model.learn_window(error, self._account, self._max_tokens)
            self._finish()
            raise
        except ShepherdError:
            self._finish(failed=True)
            raise
        self._finish()
        raise StopIteration

    def __enter__(self) -> RemoteReply:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def wait(self) -> None:
        """Wait for the first piece: a server tells of a full window only then."""
        if not self._ahead:
            self._ahead.extend(itertools.islice(self, 1))

    def cancel(self) -> None:
        """End the answer now, from any thread."""
        self._exchange.cancel()

    def close(self) -> None:
        """Cancel what still runs. May be called twice."""
        if self._stats is None:
            self._exchange.cancel()
            self._finish()

    @property
    def text(self) -> str:
        """Return the whole answer, without thoughts."""
        return "".join(self._pieces)

    @property
    def retry(self) -> Retry | None:
        """The pause before another attempt, during one. From any thread."""
        return self._exchange.retry

    @property
    def thought(self) -> str:
        """Thoughts before calls, where the server wants them back; else empty."""
        thought = "".join(self._thoughts)
        return thought_to_return(Message("assistant", "", tool_calls=self.tool_calls, thought=thought))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Tools that the model wants to call."""
        return tuple(self._calls)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Always empty: ids stay with the server."""
        return ()

    @property
    def prompt_tokens_per_message(self) -> tuple[int, ...]:
        """Tokens as the server counted them, else estimates; the system prompt and the tools first."""
        return self._account.tokens

    @property
    def stats(self) -> TurnStats:
        """Tokens and times; the tokens are estimates where the server told none."""
        if self._stats is None:
            raise RuntimeError("the answer has not ended: iterate it to its end, or close it")
        return self._stats

    def _taken(self, piece: Piece) -> Piece | None:
        if isinstance(piece, str):
            self._pieces.append(piece)
        elif isinstance(piece, ToolCall):
            self._calls.append(piece)
        else:
            self._thoughts.append(piece.text)
        self._chars += len(piece) if isinstance(piece, str) else len(getattr(piece, "text", ""))
        if self._chars > self._most_chars:
            self._exchange.cancel()
            raise ProviderError(
                f"the answer of provider {self._model.provider.name} does not end",
                hint="the server ignores max_tokens; send the message again",
            )
        if self._first_s is None:
            self._first_s = time.perf_counter() - self._started
        is_empty = isinstance(piece, (str, Thought)) and not (piece if isinstance(piece, str) else piece.text)
        return None if is_empty else piece

    def _finish(self, *, failed: bool = False) -> None:
        total_s = time.perf_counter() - self._started
        first_s = total_s if self._first_s is None else self._first_s
        text = self.text
        # Of an answer whose thoughts were not counted apart, nobody knows how long the rest is.
        hides_thoughts = bool(self._thoughts) and (self._usage is None or not self._usage.thinking)
        is_text = bool(text) and self._reason != "cancelled" and not self._calls and not hides_thoughts
        self._account = self._model.learn(self._account, text, self._usage, is_text=is_text)
        usage = self._usage or Usage(self._account.total, self._model.count_tokens(text))
        if failed and self._usage is None and self._first_s is None:
            usage = Usage(0, 0)  # nobody is known to have read the prompt
        cached = min(usage.cached, usage.prompt)
        retries = self._exchange.attempts - 1
        self._stats = TurnStats(
            prompt_tokens=usage.prompt,
            reused_tokens=cached,
            decoded_tokens=usage.prompt - cached,
            generated_tokens=usage.answer,
            window_tokens=self._model.window_tokens,
            ttft_ms=1e3 * first_s,
            decode_ms=1e3 * (total_s - first_s),
            total_ms=1e3 * total_s,
            finish_reason=self._reason,
            warnings=(f"the request was sent {retries + 1} times before it was answered",)
            if retries > 0
            else (),
            is_estimated=self._usage is None,
            stopped_by=self._stopped_by,
        )


def require_model(provider: ProviderSettings) -> None:
    """Raise UsageError if a provider needs the name of a model, and has none."""
    if (
        not provider.model
        and provider.kind not in _CHOOSES
        and (provider.kind != "openai" or provider.is_at_home)
    ):
        raise UsageError(
            f"provider {provider.name} has no model",
            hint=f"shepherd provider set {provider.name} model NAME, or -m NAME",
        )


def open_remote(
    provider: ProviderSettings,
    *,
    sends: Collection[str] = (),
    asks_memory: Callable[[], bool] = lambda: True,
    policy: RetryPolicy | None = None,
    ratios: RatioStore | None = None,
) -> RemoteModel:
    """Return a model of this provider, to be closed. Nothing is sent and no client is loaded yet.

    UsageError when its client is not installed or no model is named, ProviderKeyError when the key is
    missing.
    """
    if provider.is_local:
        raise UsageError(f"provider {provider.name} is in this process", hint="open its model with Engine")
    require_model(provider)
    require_client(provider)
    key = require_key(provider)
    protocol = AnthropicMessages if provider.kind == "anthropic" else ChatCompletions
    return RemoteModel(
        provider,
        protocol(provider, key),
        sends=sends,
        asks_memory=asks_memory,
        policy=policy,
        ratios=ratios,
    )


def _entries(messages: Sequence[Message], tools: Sequence[Tool]) -> list[Entry]:
    """Return the messages as entries of an account; tools are part of the first one, the system prompt."""
    entries = [_entry(message) for message in messages]
    if not tools:
        return entries
    described = "".join(tool.name + tool.description + _written(tool.parameters) for tool in tools)
    if messages and messages[0].role == "system":
        first = messages[0]
        system = Entry(_key("system", first.content + described), len(first.sent) + len(described))
        return [system, *entries[1:]]
    return entries


def _entry(message: Message) -> Entry:
    called = "".join(call.name + call.arguments for call in message.tool_calls) + thought_to_return(message)
    called += "".join(picture.digest.hex() for picture in message.pictures)
    return Entry(_key(message.role, message.content + called), len(message.sent) + len(called))


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _key(role: str, raw: str) -> str:
    return role + hashlib.blake2b(raw.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _counted(account: Account) -> int:
    return account.total - sum(entry.tokens for entry in account.entries if not entry.is_counted)
