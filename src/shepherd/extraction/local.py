"""Extraction by a model in this process: at low priority, under a grammar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from shepherd.errors import ModelLoadError
from shepherd.extraction.answer import Cancellation, CancelledError, UnavailableError, UnusableAnswerError
from shepherd.extraction.request import (
    ANSWER_GRAMMAR,
    EXTRACTION_PROMPT,
    INSTRUCTIONS,
    bounded_grammar,
    extraction_request,
)
from shepherd.sentences import split_sentences
from shepherd.types import Message, Sampling

if TYPE_CHECKING:
    from shepherd.inference import Engine

__all__ = ["WINDOW_TOKENS", "LocalExtractor"]

# Of the engine in the background: room for twenty turns and the answer, a small cache beside the user's own.
WINDOW_TOKENS = 4096
# A line is not cut below this: a model whose window cannot hold so much cannot extract.
_LEAST_CHARACTERS = 80
# A line of so much may say more than an answer has room for, and is asked about in parts when it was cut off.
_LONG_CHARACTERS = 320


class LocalExtractor:
    """Asks an engine that yields to the user's; `open_engine` makes it at the first call.

    `apart` is for a very small model: it is asked about one sentence at a time, with the short prompt that it
    is trained on, and its answers are bounded, so that each one ends. Other models get the full instructions
    where these leave half of the window.
    """

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        *,
        max_tokens: int,
        temperature: float,
        facts_only: bool = False,
        apart: bool = False,
    ) -> None:
        self.facts_only = facts_only
        self._apart = apart
        self._open_engine = open_engine
        self._max_tokens = max_tokens
        self._sampling = Sampling(temperature=temperature)
        self._engine: Engine | None = None
        self._lock = threading.Lock()  # held while the engine is used
        self._is_releasing = threading.Event()
        self._cancel: Callable[[], None] = lambda: None
        self._prompt = EXTRACTION_PROMPT

    def answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        """Return the raw answers; lines that the window does not hold together are asked about in parts."""
        with self._lock:
            if self._apart:
                parts = [[sentence] for line in lines for sentence in split_sentences(line)]
                return [answer for part in parts for answer in self._answers(part, cancellation)]
            return self._answers(lines, cancellation)

    def _answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        engine = self._opened()
        self._check_released()
        messages = [Message("system", self._prompt), Message("user", extraction_request(lines))]
        max_tokens = min(self._max_tokens, engine.window_tokens // 2)
        # A token is at least a byte of text: what is much too long is not tokenised to find out.
        fits = (
            sum(len(line) for line in lines) <= engine.window_tokens * engine.model.vocabulary.longest_bytes
        )
        if not fits or engine.count_prompt_tokens(messages) + max_tokens > engine.window_tokens:
            return [answer for part in _halves(lines) for answer in self._answers(part, cancellation)]
        grammar = bounded_grammar(max_tokens) if self._apart else ANSWER_GRAMMAR
        generation = engine.generate(
            messages, sampling=self._sampling, max_tokens=max_tokens, grammar=grammar
        )
        try:
            cancellation.attach(generation.cancel)
            self._cancel = generation.cancel
            self._check_released()  # it may not have seen this generation
            with generation:
                for _ in generation:
                    pass
            text = generation.text
        finally:
            generation.close()
            cancellation.attach(None)
        self._check_released()
        if generation.stats.finish_reason == "cancelled":
            raise CancelledError
        is_long = len(lines) > 1 or len(lines[0]) >= _LONG_CHARACTERS
        if generation.stats.finish_reason == "length" and is_long:
            return [answer for part in _halves(lines) for answer in self._answers(part, cancellation)]
        return [text]

    def release(self) -> None:
        """Close the engine until it is needed again; an answer in progress ends with UnavailableError."""
        self._is_releasing.set()
        self._cancel()
        with self._lock:
            self.close()
            self._is_releasing.clear()

    def _check_released(self) -> None:
        if self._is_releasing.is_set():
            raise UnavailableError("another model needs the memory")

    def close(self) -> None:
        """Close the engine in the background. May be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _opened(self) -> Engine:
        if self._engine is None:
            try:
                self._engine = engine = self._open_engine()
            except ModelLoadError as error:  # mostly memory, which other programs give back
                raise UnavailableError(str(error), hint=error.hint) from error
            n_tokens = engine.count_prompt_tokens([Message("system", INSTRUCTIONS), Message("user", "")])
            if not self._apart and 2 * n_tokens <= engine.window_tokens:
                self._prompt = INSTRUCTIONS
        return self._engine


def _halves(lines: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return two parts of the lines; a single line is cut at a blank near its middle."""
    if len(lines) > 1:
        return lines[: len(lines) // 2], lines[len(lines) // 2 :]
    text = lines[0]
    if len(text) < _LEAST_CHARACTERS:
        raise UnusableAnswerError(
            "the model's window is too small for the extraction request",
            hint="memory_extraction_model names another model",
        )
    middle = len(text) // 2
    cut = text.find(" ", middle, middle + _LEAST_CHARACTERS)
    cut = cut if cut > 0 else middle
    return [text[:cut]], [text[cut:]]
