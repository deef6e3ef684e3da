"""One answer in progress: its text as it arrives, then its ids and its cost."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from shepherd._native import engine as native
from shepherd.errors import InternalError, ModelError, NoTokenError, ShepherdError
from shepherd.inference.binding import drain_log, last_error
from shepherd.inference.tokenization import Vocabulary
from shepherd.replies import ReplyEvent, ReplyParser
from shepherd.types import FinishReason, Message, Piece, Thought, TokenLogprob, ToolCall, TurnStats

__all__ = ["Answer", "Generation", "Review"]

# Reviewed text comes a sentence at a time. It is passed on in words, as other answers come.
_WORDS = re.compile(r"\s*\S+|\s+\Z")

# How long one wait may last before Python looks for signals: the delay of Ctrl-C, nothing else.
_WAIT_MS = 50

_REASONS: dict[int, FinishReason] = {
    native.STOP: "stop",
    native.LENGTH: "length",
    native.CANCELLED: "cancelled",
    native.FAILED: "cancelled",
}


class Review(Protocol):
    """Review of an answer's text before it is shown: it can hold text back, replace it and end the answer."""

    @property
    def is_over(self) -> bool:
        """True once the answer must end."""

    @property
    def is_cut(self) -> bool:
        """True if the text that was shown breaks off. False if only text that isn't shown was cut."""

    def feed(self, text: str) -> str:
        """Take a piece of an answer that is not over; return the text to show now."""

    def end(self, reason: FinishReason) -> str:
        """Return the rest to show of an answer that has ended."""


class _Run:
    """One run of the engine: its stream, counters and sampled tokens, below text and chat alike.

    Leaving the `with` block cancels it. One reader; `cancel` may come from any thread.
    """

    def __init__(
        self,
        stream: native.Stream,
        vocabulary: Vocabulary,
        *,
        prompt_tokens_per_message: tuple[int, ...],
        window_tokens: int,
        started: float,
        shown: Collection[int] = (),
        has_logprobs: bool = False,
        has_biases: bool = False,
        take_warnings: Callable[[], Sequence[str]] = tuple,
        keep: Callable[[Sequence[int]], object] | None = None,
    ) -> None:
        # Tokens of each message of the prompt, the template's text around it included.
        self.prompt_tokens_per_message = prompt_tokens_per_message
        self._stream = stream
        self._vocabulary = vocabulary
        self._window_tokens = window_tokens
        self._started = started
        self._shown = frozenset(shown)
        self._has_logprobs = has_logprobs
        self._has_biases = has_biases
        self._take_warnings = take_warnings
        self._keep_ids = keep
        # One thread may read the text while another takes these.
        self._logprobs_lock = threading.Lock()
        self._logprobs: list[TokenLogprob] = []
        self._n_taken = self._n_tokens_taken = 0
        self._pieces: list[str] = []
        self._result: tuple[str, tuple[int, ...], TurnStats] | None = None
        self._first_s: float | None = None
        # Whether the last `poll` found nothing, so that `notify`'s file gets a byte when there is something.
        self.is_quiet = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def notify(self, fd: int) -> bool:
        """Write a byte to this non-blocking file when something comes after an empty `poll`, and at the end.

        For event loops. Where `poll` found something, they look again by themselves; see `is_quiet`. Close
        the file only after the end. Returns False where that is not possible (Windows).
        """
        return self._stream.notify(fd)

    def cancel(self) -> None:
        """End the answer at its next token or micro-batch, from any thread. What was generated stays."""
        self._stream.cancel()

    def close(self) -> None:
        """Cancel and wait for the end. May be called twice, and after the end."""
        self._stream.cancel()
        while self._take() is not None:
            pass
        self._finish()

    @property
    def is_running(self) -> bool:
        """True while the engine works on it."""
        return self._stream.ending == native.RUNNING

    @property
    def progress(self) -> tuple[int, int]:
        """Tokens of the prompt that were read, and those that have to be; zeros before the first."""
        return self._stream.progress

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Sampled ids of the text; after a stop string, the rest of its token is tokenised again."""
        return self._ended()[1]

    @property
    def stats(self) -> TurnStats:
        """Tokens and times, from the engine's own counters."""
        return self._ended()[2]

    @property
    def logprobs(self) -> tuple[TokenLogprob, ...]:
        """Log probabilities of the sampled tokens, if requested, without those that a stop string cut off."""
        self._ended()
        return tuple(self._logprobs)

    def take_logprobs(self) -> list[TokenLogprob]:
        """Return the log probabilities of tokens read since the last call. From any thread."""
        with self._logprobs_lock:
            self._collect_logprobs()
            new = self._logprobs[self._n_taken :]
            self._n_taken = len(self._logprobs)
        return new

    def take_tokens(self) -> list[tuple[int, bytes]]:
        """Return id and bytes of each token read since the last call; none that a stop string cut off."""
        found = []
        while (token := self._stream.token(self._n_tokens_taken)) is not None:
            found.append((token[0], self._piece(token[0], self._shown)))
            self._n_tokens_taken += 1
        return found

    def _next_text(self) -> str:
        """Wait for text. Raises StopIteration at the end, and once ModelError when decoding failed."""
        piece = self._take()
        if piece is not None:
            return piece
        is_new = self._result is None
        self._finish()
        if is_new and self._stream.ending == native.FAILED:
            raise _failure(self._stream.counters()["code"], has_biases=self._has_biases)
        raise StopIteration

    def _poll_text(self) -> str | None:
        """Return the text that is there now, "" without any, None at the end. Raises as `_next_text` does."""
        data = self._stream.read(0)
        self.is_quiet = data == b""
        if data is not None:
            return self._keep(data)
        try:
            return self._next_text()
        except StopIteration:
            return None

    def _collect_logprobs(self) -> None:
        if not self._has_logprobs or self._vocabulary.is_closed:
            return
        while (found := self._stream.likely(len(self._logprobs))) is not None:
            token, logprob, likeliest = found
            top = tuple(TokenLogprob(i, self._piece(i, {i}), value) for i, value in likeliest)
            self._logprobs.append(TokenLogprob(token, self._piece(token, self._shown), logprob, top))

    def _piece(self, token: int, shown: Collection[int]) -> bytes:
        return self._vocabulary.detokenize([token], shown=shown)

    def _ended(self) -> tuple[str, tuple[int, ...], TurnStats]:
        if self._result is None:
            raise RuntimeError("the generation has not ended: iterate it to its end, or close it")
        return self._result

    def _take(self) -> str | None:
        while True:
            data = self._stream.read(_WAIT_MS)
            if data is None:
                return None
            if data:
                return self._keep(data)

    def _keep(self, data: bytes) -> str:
        piece = data.decode("utf-8")
        if piece:
            if self._first_s is None:
                self._first_s = time.perf_counter() - self._started
            self._pieces.append(piece)
        return piece

    def _finish(self) -> None:
        if self._result is not None:
            return
        text = "".join(self._pieces)
        self._result = (text, self._ids(text), self._measure())
        if self._keep_ids is not None:
            self._keep_ids(self._result[1])
        with self._logprobs_lock:
            self._collect_logprobs()
        drain_log()

    def _ids(self, text: str) -> tuple[int, ...]:
        data = text.encode("utf-8")
        tokens = self._stream.tokens()
        kept = said = 0
        for i, (_, end) in enumerate(tokens):
            if end > len(data):
                break
            # A token may end inside a character; ids are cut only between characters.
            if end == len(data) or data[end] & 0xC0 != 0x80:
                kept, said = i + 1, end
        else:
            kept, said = len(tokens), len(data)
        ids = tuple(token for token, _ in tokens[:kept])
        rest = data[said:].decode("utf-8")
        if rest and self._vocabulary.is_closed:
            # Nobody is left to tokenise the rest; ids that say only a part would be wrong.
            return ()
        return (*ids, *self._vocabulary.tokenize_after(rest))

    def _measure(self) -> TurnStats:
        counts = self._stream.counters()
        return TurnStats(
            prompt_tokens=counts["prompt_tokens"],
            reused_tokens=counts["reused_tokens"],
            decoded_tokens=counts["decoded_tokens"],
            generated_tokens=counts["sampled_tokens"],
            drafted_tokens=counts["drafted_tokens"],
            accepted_tokens=counts["accepted_tokens"],
            model_drafted_tokens=counts["model_drafted_tokens"],
            model_accepted_tokens=counts["model_accepted_tokens"],
            window_tokens=self._window_tokens,
            prefill_ms=counts["prefill_ns"] / 1e6,
            ttft_ms=1e3 * self._first_s if self._first_s is not None else counts["first_token_ns"] / 1e6,
            decode_ms=counts["decode_ns"] / 1e6,
            total_ms=1e3 * (time.perf_counter() - self._started),
            finish_reason=_REASONS[self._stream.ending],
            stopped_by=self._stream.stopped_by,
            warnings=tuple(self._take_warnings()),
        )


class Generation(_Run):
    """Generated text. Iterate for it; each step returns all that is there by then.

    `text`, `token_ids`, `stats` and `logprobs` are there once the iteration has ended. When decoding failed,
    it raises ModelError after the text that came before.
    """

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return self._next_text()

    def __enter__(self) -> Generation:
        return self

    def poll(self) -> str | None:
        """Return the text that is there now, without waiting: "" when there is none, None at the end.

        Raises what iterating does, once.
        """
        return self._poll_text()

    @property
    def text(self) -> str:
        """The whole answer, without the stop string that ended it."""
        return self._ended()[0]


class Answer(_Run):
    """An answer of the chat: str is the answer, Thought comes before it, ToolCall is a whole call.

    `text`, `thought`, `tool_calls`, `token_ids`, `stats` and `logprobs` are there once the iteration has
    ended; with calls, `stats.finish_reason` is "tool_calls", not "stop". When decoding failed, it raises
    ModelError after the pieces that came before.
    """

    def __init__(
        self,
        *arguments: Any,
        parser: ReplyParser,
        review: Callable[[], Review] | None = None,
        stop: Sequence[str] = (),
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._parser = parser
        self._stops = stop
        self._stopped_by = -1
        self._shown_end = ""  # of reviewed text, as long as a stop may be
        self._review = None if review is None else review()
        # Text without calls and thoughts, as the model wrote it.
        self._written: list[str] = []
        self._reviewed_ids: tuple[int, ...] | None = None
        self._ready: deque[Piece] = deque()
        self._has_ended = self._is_ended_by_review = False
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
                self._feed(self._next_text())
            except StopIteration:
                self._end()
            except ShepherdError as error:
                self._end(error)
        return self._ready.popleft()

    def __enter__(self) -> Answer:
        return self

    def wait(self) -> None:
        """Return at once: the engine took the prompt, or refused it, when the answer began."""

    def poll(self) -> list[Piece] | None:
        """Return the pieces that are there now, without waiting, often none; None at the end.

        Raises what iterating does, once.
        """
        if not self._has_ended:
            try:
                text = self._poll_text()
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

    def close(self) -> None:
        """Cancel and wait for the end. May be called twice, and after the end."""
        super().close()
        if not self._has_ended:
            self._feed(self._ended()[0][self._n_fed :])
            self._end()
        self._ready.clear()
        self._error = None

    @property
    def text(self) -> str:
        """The whole answer, without thoughts, calls and the stop string that ended it."""
        self._ended()
        return "".join(self._said)

    @property
    def thought(self) -> str:
        """Thoughts before and between the parts of the answer."""
        self._ended()
        return "".join(self._thoughts)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Tools that the model wants to call, in order."""
        self._ended()
        return tuple(self._calls)

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Sampled ids of the text; those of the text that is shown, where a review changed it."""
        ids = self._ended()[1]
        if self._review is None or "".join(self._said) == "".join(self._written):
            return ids
        if self._reviewed_ids is None:
            if self._vocabulary.is_closed:
                return ()
            self._reviewed_ids = tuple(self._vocabulary.tokenize_after(self.text))
        return self._reviewed_ids

    @property
    def stats(self) -> TurnStats:
        """Tokens and times, from the engine's own counters."""
        stats = self._ended()[2]
        if self._review is not None:
            stats = replace(stats, stopped_by=self._stopped_by)
        if self._is_ended_by_review:
            return replace(stats, finish_reason="stop")
        if self._calls and stats.finish_reason == "stop":
            return replace(stats, finish_reason="tool_calls")
        return stats

    def message(self) -> Message:
        """Return the answer as a part of the conversation, for the next request."""
        return Message(
            "assistant",
            self.text,
            token_ids=self.token_ids,
            tokens=len(self.token_ids),
            tool_calls=self.tool_calls,
            thought=self.thought,
        )

    def _error_once(self) -> ShepherdError | None:
        error, self._error = self._error, None
        return error

    def _feed(self, text: str) -> None:
        self._n_fed += len(text)
        self._add(self._parser.feed(text))

    def _end(self, error: ShepherdError | None = None) -> None:
        self._has_ended, self._error = True, error
        self._add(self._parser.end())
        if self._review is not None and not self._is_ended_by_review and not self._calls:
            reason = self._ended()[2].finish_reason
            self._say_reviewed(self._review.end(reason))
            # Nothing is missing in what is shown.
            if reason == "length" and not self._review.is_cut:
                self._is_ended_by_review = True

    def _add(self, events: Iterable[ReplyEvent]) -> None:
        for event in events:
            piece = event.piece
            if isinstance(piece, ToolCall):
                self._calls.append(piece)
            elif isinstance(piece, Thought):
                if not piece.text:
                    continue
                self._thoughts.append(piece.text)
            elif piece:
                self._write(piece)
                continue
            else:
                continue
            self._ready.append(piece)

    def _write(self, text: str) -> None:
        """Add text of the model to the answer, as far as the review lets it through by now."""
        self._written.append(text)
        if self._review is None:
            self._say(text)
        elif not self._is_ended_by_review:
            self._say_reviewed(self._review.feed(text))
            if self._review.is_over or self._stopped_by >= 0:
                self._is_ended_by_review = True
                self.cancel()

    def _say_reviewed(self, text: str) -> None:
        """Show text of the review as far as the first stop string in it: the engine saw the model's alone."""
        # A stop may begin in what is shown already, which can't be taken back.
        shown = self._shown_end
        whole = shown + text
        if found := [(place, n) for n, stop in enumerate(self._stops) if (place := whole.find(stop)) >= 0]:
            place, self._stopped_by = min(found)
            text = text[: max(0, place - len(shown))]
            self._is_ended_by_review = True
        n_kept = max(map(len, self._stops), default=1) - 1
        self._shown_end = whole[-n_kept:] if n_kept else ""
        self._say(*_WORDS.findall(text))

    def _say(self, *pieces: str) -> None:
        self._said += pieces
        self._ready += pieces


def _failure(code: int, *, has_biases: bool = False) -> ShepherdError:
    if code == native.NO_MEMORY:
        return ModelError(
            "no memory left for the answer", hint="close other programs, or set a smaller n_ctx"
        )
    if code == native.NO_TOKEN:
        kind = NoTokenError if has_biases else ModelError
        return kind(
            "the model's vocabulary has no token that the grammar and logit_bias allow here",
            hint="allow other characters in the grammar, forbid fewer tokens, or use another model",
        )
    if code == native.NO_NUMBERS:
        return ModelError(
            "the model computed values that are not numbers",
            hint="fetch or convert its file again; on a GPU, try gpu_layers 0",
        )
    if code == native.AMBIGUOUS:
        return ModelError(
            "the grammar is too ambiguous to be followed: the answer so far can be read in too many ways",
            hint="write rules that begin alike so that they share their beginning",
        )
    if code in (native.NO_LOGITS, -1):
        return InternalError(f"llama.cpp rejected a batch as invalid (code {code}); please report it")
    reason = last_error()
    return ModelError(
        f"llama.cpp could not decode (code {code}){': ' + reason if reason else ''}",
        hint="if memory is short, set a smaller n_ctx, kv_type q8_0 or fewer gpu_layers",
    )
