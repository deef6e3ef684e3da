"""Interface of a model for a turn, wherever it runs: the local engine has it, and RemoteModel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Protocol

from shepherd.types import Message, Piece, Sampling, Tool, ToolCall, TurnStats

__all__ = ["ChatModel", "Description", "Reply"]


class Description(Protocol):
    """Description of a model."""

    @property
    def name(self) -> str:
        """Name to show."""

    @property
    def sampling(self) -> Sampling:
        """Settings that its maker recommends, else the defaults."""


class Reply(Protocol):
    """One answer while it is being made. Iterate for its pieces; leaving the `with` block cancels it.

    `text`, `token_ids` and `stats` are there once the iteration has ended.
    """

    def __iter__(self) -> Iterator[Piece]: ...

    def __next__(self) -> Piece: ...

    def __enter__(self) -> Reply: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def wait(self) -> None:
        """Wait until the model has taken the prompt; raises what reading the first piece would."""

    def cancel(self) -> None:
        """End the answer, within a piece, from any thread; what was said stays said."""

    @property
    def text(self) -> str:
        """Return the whole answer, without thoughts and calls."""

    @property
    def thought(self) -> str:
        """Thoughts before the answer; empty where the next request does not need them."""

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Return the tools that it wants to call."""

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Return the sampled ids; none where they are not known."""

    @property
    def stats(self) -> TurnStats:
        """Tokens, times, and why it ended."""

    @property
    def prompt_tokens_per_message(self) -> tuple[int, ...]:
        """Tokens of each message of the prompt, the system prompt first."""


class ChatModel(Protocol):
    """A model that can answer a conversation."""

    @property
    def info(self) -> Description:
        """Description of the model."""

    @property
    def window_tokens(self) -> int:
        """Tokens that prompt and answer can have together."""

    @property
    def reads_pictures(self) -> bool:
        """Return whether messages may have pictures."""

    @property
    def picture_problem(self) -> str:
        """Why they may not, if there is more to say than that the model reads none; else ""."""

    def count_prompt_tokens(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
        """Return the tokens of a prompt; about, for a remote model."""

    def count_tokens(self, text: str) -> int:
        """Return how many tokens `text` has, or about how many."""

    def generate(
        self,
        messages: Sequence[Message],
        *,
        sampling: Sampling | None = None,
        max_tokens: int = 1024,
        tools: Sequence[Tool] = (),
    ) -> Reply:
        """Begin an answer; ContextOverflowError when the prompt leaves no room for one."""
