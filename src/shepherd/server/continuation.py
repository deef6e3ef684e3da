"""A local model continues texts, below the chat and without memory: what the APIs that offer it share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from shepherd.errors import UsageError
from shepherd.inference import Engine, Generation
from shepherd.server.errors import Denied, invalid, problem_of
from shepherd.server.http import LARGE_BYTES, LenientBody, Refused
from shepherd.server.limits import check_text
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import ReplyReader, blocking
from shepherd.types import Sampling, TokenLogprob, TurnStats

__all__ = ["Continuation", "Prompt", "PromptObject", "Wanted", "gap_of", "is_one", "prompts_in", "tokens_in"]

_MOST_PROMPTS = 64

# A text, the ids of its tokens, or what gives those.
Prompt = str | list[int] | Callable[[Engine], Sequence[int]]


class PromptObject(LenientBody):
    """A prompt as llama.cpp's server takes it beside texts."""

    prompt_string: str
    multimodal_data: Refused[Any] = Field(default=None)

    @property
    def text(self) -> str:
        """The text. Denied with pictures, which chats take."""
        if self.multimodal_data:
            raise invalid("prompt", "pictures are read in chats only", "unsupported_content")
        return self.prompt_string


@dataclass(frozen=True, slots=True)
class Wanted:
    """Options for continuing texts. With `max_tokens` None, a continuation can fill the window."""

    sampling: Sampling
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    grammar: str = ""
    logprobs: int | None = None
    after_sampling: bool = False


class Continuation:
    """Continues prompts of a request, one after the other: `begin`, iterate the reader, `end`."""

    def __init__(self, state: ServerState, engine: Engine, route: str, wanted: Wanted) -> None:
        self._state, self._engine, self._route, self._wanted = state, engine, route, wanted
        self._reader: ReplyReader | None = None
        self._generating: Generation | None = None
        self._prompt_ids: Sequence[int] = ()
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

    def take_tokens(self) -> list[tuple[int, bytes]]:
        """Return id and bytes of each token read since the last call."""
        return [] if self._generating is None else self._generating.take_tokens()

    async def prompt_text(self) -> str:
        """Return the present prompt as the model reads it, with the names of control tokens."""
        ids = self._prompt_ids
        return await blocking(lambda: self._engine.text_of(ids), is_large=len(ids) > LARGE_BYTES // 4)

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
        self._prompt_ids = ids
        return engine.complete(
            ids,
            sampling=wanted.sampling,
            max_tokens=engine.window_tokens if wanted.max_tokens is None else wanted.max_tokens,
            stop=wanted.stops,
            grammar=wanted.grammar,
            logprobs=wanted.logprobs,
            after_sampling=wanted.after_sampling,
        )


def prompts_in(prompt: Any, field: str = "prompt") -> list[Prompt]:
    """Return the prompts of a field that has a text, ids of tokens, both mixed, or a list of those."""
    prompts: list[Any] = prompt if isinstance(prompt, list) else [prompt]
    if is_one(prompts):
        prompts = [prompts]
    if not 1 <= len(prompts) <= _MOST_PROMPTS:
        raise invalid(field, f"send 1 to {_MOST_PROMPTS} of them")
    return [_prompt_of(one, field) for one in prompts]


def is_one(parts: list[Any]) -> bool:
    """Return True if a list is one prompt: ids, perhaps with texts between them."""
    return bool(parts) and all(isinstance(one, (int, str)) for one in parts) and not _is_texts(parts)


def _is_texts(parts: list[Any]) -> bool:
    return all(isinstance(one, str) for one in parts)


def _prompt_of(given: Any, field: str) -> Prompt:
    if isinstance(given, PromptObject):
        given = given.text
    parts = [given] if isinstance(given, str) else given
    for part in parts:
        if isinstance(part, str):
            check_text(part, field)
    if isinstance(given, str) or all(isinstance(part, int) for part in parts):
        return given  # type: ignore[no-any-return]

    def ids(engine: Engine) -> list[int]:
        def tokenize(text: str, is_first: bool) -> list[int]:
            return engine.tokenize_prompt(text, True) if is_first else engine.tokenize(text, True)

        return tokens_in(parts, tokenize)

    return ids


def tokens_in(parts: Sequence[int | str], tokenize: Callable[[str, bool], Sequence[int]]) -> list[int]:
    """Return the ids of a prompt of ids and texts; `tokenize(text, is it the first part)`."""
    ids: list[int] = []
    for i, part in enumerate(parts):
        ids += [part] if isinstance(part, int) else tokenize(part, i == 0)
    return ids


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
