"""A local model continues texts, below the chat and without memory: what the APIs that offer it share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shepherd.errors import UsageError
from shepherd.inference import Engine, Generation
from shepherd.server.errors import Denied, invalid, problem_of
from shepherd.server.http import LARGE_BYTES
from shepherd.server.limits import check_text
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import ReplyReader, blocking
from shepherd.types import Sampling, TokenLogprob, TurnStats

__all__ = ["Continuation", "Prompt", "Wanted", "gap_of", "prompts_in"]

_MOST_PROMPTS = 64

# A text, the ids of its tokens, or what gives those.
Prompt = str | list[int] | Callable[[Engine], Sequence[int]]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options for continuing texts. With `max_tokens` None, a continuation can fill the window."""

    sampling: Sampling
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    grammar: str = ""
    logprobs: int | None = None


class Continuation:
    """Continues prompts of a request, one after the other: `begin`, iterate the reader, `end`."""

    def __init__(self, state: ServerState, engine: Engine, route: str, wanted: Wanted) -> None:
        self._state, self._engine, self._route, self._wanted = state, engine, route, wanted
        self._reader: ReplyReader | None = None
        self._generating: Generation | None = None
        self._is_cancelled = False

    async def begin(self, prompt: Prompt) -> ReplyReader:
        """Start the continuation of one prompt."""
        is_large = not callable(prompt) and len(prompt) > LARGE_BYTES
        try:
            generation = await blocking(lambda: self._generation(prompt), is_large=is_large)
        except Exception as error:
            self._state.served(Served(self._route, None, error=problem_of(error).code))
            raise

        def finish(_: bool) -> TurnStats:
            generation.close()
            return generation.stats

        self._reader = ReplyReader(generation, finish)
        self._generating = generation
        self._state.in_progress.add(self.cancel)
        if self._is_cancelled:
            self._reader.cancel()
        return self._reader

    async def end(self) -> TurnStats:
        """End the present continuation, and return its cost."""
        assert self._reader is not None
        try:
            stats = await self._reader.end()
        finally:
            self._state.in_progress.discard(self.cancel)
        self._state.served(Served(self._route, stats))
        return stats

    def cancel(self) -> None:
        """Cancel what is under way, and what would follow."""
        self._is_cancelled = True
        if self._reader is not None:
            self._reader.cancel()

    def take_logprobs(self) -> list[TokenLogprob]:
        """Return the log-probabilities of the tokens read since the last call."""
        return [] if self._generating is None else self._generating.take_logprobs()

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Ids of the tokens of the present continuation, once it has ended."""
        return () if self._generating is None else self._generating.token_ids

    def _generation(self, prompt: Prompt) -> Generation:
        wanted, engine = self._wanted, self._engine
        if callable(prompt):
            ids = prompt(engine)
        else:
            ids = prompt if isinstance(prompt, list) else engine.tokenize_prompt(prompt, special=True)
        return engine.complete(
            ids,
            sampling=wanted.sampling,
            max_tokens=engine.window_tokens if wanted.max_tokens is None else wanted.max_tokens,
            stop=wanted.stops,
            grammar=wanted.grammar,
            logprobs=wanted.logprobs,
        )


def prompts_in(prompt: Any, field: str = "prompt") -> list[str | list[int]]:
    """Return the prompts of a field that has a text, ids of tokens, or a list of those."""
    prompts: list[Any] = [prompt] if isinstance(prompt, str) else prompt
    if prompts and all(isinstance(entry, int) for entry in prompts):
        prompts = [prompts]
    if not 1 <= len(prompts) <= _MOST_PROMPTS:
        raise invalid(field, f"send 1 to {_MOST_PROMPTS} of them")
    for text in prompts:
        if isinstance(text, str):
            check_text(text, field)
    return prompts


def gap_of(engine: Engine, before: str, behind: str, field: str) -> Prompt:
    """Return the prompt for the text between two others. Denied if the model was not trained for that."""
    if not engine.fills_gaps:
        raise Denied(
            400,
            "unsupported_field",
            f"{field}: the model was not trained to fill a gap in a text (models for code are)",
            param=field,
        )
    check_text(before, field)
    check_text(behind, field)

    def ids(engine: Engine) -> Sequence[int]:
        try:
            return engine.tokenize_gap(before, behind)
        except UsageError as error:
            raise invalid(field, str(error)) from None

    return ids
