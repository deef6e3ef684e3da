"""One answer of the chat while it is made: a generation, told apart into text, thoughts and tool calls."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType

from shepherd.errors import ShepherdError
from shepherd.inference.generation import Generation
from shepherd.replies import ReplyEvent, ReplyParser
from shepherd.types import Message, Piece, Thought, TokenLogprob, ToolCall, TurnStats

__all__ = ["Answer"]


class Answer:
    """Iterate for the pieces: str is the answer itself, Thought what comes before it, ToolCall a whole call.

    Leaving the `with` block cancels it. `text`, `thought`, `tool_calls`, `token_ids`, `stats` and `logprobs`
    are there once the iteration has ended; where there are calls, `stats.finish_reason` is "tool_calls", not
    "stop". When decoding failed, it raises ModelError after the pieces that came before. One reader; `cancel`
    may come from any thread.
    """

    def __init__(self, generation: Generation, parser: ReplyParser) -> None:
        self._generation = generation
        self._parser = parser
        self._ready: deque[Piece] = deque()
        self._has_ended = False
        self._error: ShepherdError | None = None
        self._n_fed = 0
        self._said: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        while not self._ready:
            if self._has_ended:
                raise self._error_once() or StopIteration
            try:
                self._feed(next(self._generation))
            except StopIteration:
                self._end()
            except ShepherdError as error:
                self._end(error)
        return self._ready.popleft()

    def __enter__(self) -> Answer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def wait(self) -> None:
        """Return at once: the engine took the prompt, or refused it, when the answer began."""

    def poll(self) -> list[Piece] | None:
        """The pieces that are there now, without waiting, often none; None at the end.

        Raises what iterating does, once.
        """
        if not self._has_ended:
            try:
                text = self._generation.poll()
                self._end() if text is None else self._feed(text)
            except ShepherdError as error:
                self._end(error)
        found = list(self._ready)
        self._ready.clear()
        if found or not self._has_ended:
            return found
        if (failure := self._error_once()) is not None:
            raise failure
        return None

    def notify(self, fd: int) -> bool:
        """Write a byte to this non-blocking file when something comes after an empty `poll`, and at the end.

        What is not a piece yet counts as something: see `is_quiet`. Close it only after the end. False where
        that is not possible (Windows).
        """
        return self._generation.notify(fd)

    @property
    def is_quiet(self) -> bool:
        """Whether the last `poll` found nothing at all: `notify`'s file gets a byte for what comes."""
        return self._generation.is_quiet

    def cancel(self) -> None:
        """End the answer at its next token or micro-batch. From any thread; what was said stays said."""
        self._generation.cancel()

    def close(self) -> None:
        """Cancel and wait for the end. May be called twice, and after the end."""
        self._generation.close()
        if not self._has_ended:
            self._feed(self._generation.text[self._n_fed :])
            self._end()
        self._ready.clear()
        self._error = None

    @property
    def is_running(self) -> bool:
        """Whether the engine is still at it."""
        return self._generation.is_running

    @property
    def prompt_tokens_per_message(self) -> tuple[int, ...]:
        """Tokens of each message of the prompt, the template's text around it included."""
        return self._generation.prompt_tokens_per_message

    @property
    def text(self) -> str:
        """The whole answer, without thoughts, calls and the stop string that ended it."""
        self._check_ended()
        return "".join(self._said)

    @property
    def thought(self) -> str:
        """All that it thought."""
        self._check_ended()
        return "".join(self._thoughts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that it wants to call, in order."""
        self._check_ended()
        return tuple(self._calls)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """The ids that were sampled, for thoughts and calls too; see Generation."""
        return self._generation.token_ids

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """Of each sampled token, for thoughts and calls too; see Generation."""
        return self._generation.logprobs

    def take_logprobs(self) -> list[TokenLogprob]:
        """Those of the tokens whose text has come and that no call has given yet. From any thread."""
        return self._generation.take_logprobs()

    @property
    def stats(self) -> TurnStats:
        """Tokens and times, from the engine's own counters."""
        stats = self._generation.stats
        if self._calls and stats.finish_reason == "stop":
            return replace(stats, finish_reason="tool_calls")
        return stats

    def message(self) -> Message:
        """The answer as a part of the conversation, for the next request."""
        return Message(
            "assistant",
            self.text,
            token_ids=self.token_ids,
            tokens=len(self.token_ids),
            tool_calls=self.tool_calls,
            thought=self.thought,
        )

    def _check_ended(self) -> None:
        if not self._has_ended:
            raise RuntimeError("the answer has not ended: iterate it to its end, or close it")

    def _error_once(self) -> ShepherdError | None:
        error, self._error = self._error, None
        return error

    def _feed(self, text: str) -> None:
        self._n_fed += len(text)
        self._take(self._parser.feed(text))

    def _end(self, error: ShepherdError | None = None) -> None:
        self._has_ended, self._error = True, error
        self._take(self._parser.end())

    def _take(self, events: Iterable[ReplyEvent]) -> None:
        for event in events:
            piece = event.piece
            if isinstance(piece, ToolCall):
                self._calls.append(piece)
            elif isinstance(piece, Thought):
                if not piece.text:
                    continue
                self._thoughts.append(piece.text)
            elif piece:
                self._said.append(piece)
            else:
                continue
            self._ready.append(piece)
