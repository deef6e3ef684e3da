"""OpenAI's completions: text goes on. No chat, no template, no memory; local models alone."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.inference import Engine, Generation
from shepherd.server.errors import Denied, openai_error, problem_of
from shepherd.server.http import EventStream, JsonRoute, LastEvents, event
from shepherd.server.logprobs import CompletionLogprobs
from shepherd.server.openai_api import (
    REASONS,
    CompletionBody,
    given_sampling,
    refuse_unless,
    require_model,
    usage_of,
)
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import Reading, blocking, ended_with_its_client
from shepherd.turn import sampling_of
from shepherd.types import TurnStats

__all__ = ["route"]

_ROUTE = "/v1/completions"
_DEFAULT_TOKENS = 16  # OpenAI's
_MOST_PROMPTS = 64


async def completions(request: Request, body: CompletionBody) -> Response:
    """What the model would write next; for several prompts one choice each, one after the other."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    body.refuse_what_is_not_there()
    engine = state.conversations.models.engine
    refuse_unless(engine is not None, "model", "a remote model has chat completions only")
    assert engine is not None
    prompts = _prompts(body)
    writing = _Writing(state, engine, body, prompts)
    first = await writing.begin(prompts[0])
    if body.stream:
        return EventStream(_streamed(writing, first), writing.cancel)
    async with ended_with_its_client(request.receive, writing.cancel):
        choices = [choice async for choice in _choices(writing, first)]
    return JSONResponse({**writing.head, "choices": choices, "usage": usage_of(writing.total)})


route = JsonRoute(_ROUTE, CompletionBody, completions)


class _Writing:
    """One request, which may have several prompts."""

    def __init__(
        self, state: ServerState, engine: Engine, body: CompletionBody, prompts: list[str | list[int]]
    ) -> None:
        self.prompts = prompts
        self.echo = bool(body.echo)
        self.include_usage = body.stream_options is not None and body.stream_options.include_usage
        self.total = TurnStats()
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": state.conversations.models.name,
        }
        self._state, self._engine, self._body = state, engine, body
        self._answer: Reading | None = None
        self._generating: Generation | None = None
        self._logprobs = CompletionLogprobs()
        self._is_cancelled = False

    async def begin(self, prompt: str | list[int]) -> Reading:
        """Start with one prompt."""
        try:
            generation = await blocking(lambda: self._generation(prompt))
        except Exception as error:
            self._state.served(Served(_ROUTE, None, error=problem_of(error).code))
            raise

        def finish(_: bool) -> TurnStats:
            generation.close()
            return generation.stats

        self._answer = Reading(generation, finish)
        self._generating, self._logprobs = generation, CompletionLogprobs()
        self._state.under_way.add(self.cancel)
        if self._is_cancelled:
            self._answer.cancel()
        return self._answer

    async def end(self, answer: Reading) -> TurnStats:
        """What that one cost; adds it up."""
        try:
            stats = await answer.end()
        finally:
            self._state.under_way.discard(self.cancel)
        self._state.served(Served(_ROUTE, stats))
        self.total = TurnStats(
            prompt_tokens=self.total.prompt_tokens + stats.prompt_tokens,
            reused_tokens=self.total.reused_tokens + stats.reused_tokens,
            generated_tokens=self.total.generated_tokens + stats.generated_tokens,
        )
        return stats

    def new_logprobs(self) -> dict[str, Any] | None:
        """Of the tokens whose text has come since the last call; None where there are none."""
        tokens = [] if self._generating is None else self._generating.take_logprobs()
        return self._logprobs.of(tokens) if tokens else None

    def cancel(self) -> None:
        """End it soon."""
        self._is_cancelled = True
        if self._answer is not None:
            self._answer.cancel()

    def echoed(self, prompt: str | list[int]) -> str:
        """The prompt itself, where the client wants it before what follows."""
        return prompt if self.echo and isinstance(prompt, str) else ""

    def _generation(self, prompt: str | list[int]) -> Generation:
        config = self._state.config
        ids: Sequence[int] = prompt if isinstance(prompt, list) else self._engine.tokenize_prompt(prompt)
        return self._engine.complete(
            ids,
            sampling=sampling_of(config, self._engine.info.sampling, given_sampling(self._body)),
            max_tokens=self._body.max_tokens or _DEFAULT_TOKENS,
            stop=self._body.stops,
            logprobs=self._body.logprobs,
        )


def _prompts(body: CompletionBody) -> list[str | list[int]]:
    """Texts or token ids, one or several."""
    prompt = body.prompt
    prompts: list[Any] = [prompt] if isinstance(prompt, str) else prompt
    if prompts and all(isinstance(entry, int) for entry in prompts):
        prompts = [prompts]
    if not 1 <= len(prompts) <= _MOST_PROMPTS:
        raise Denied(400, "invalid_request", f"prompt: send 1 to {_MOST_PROMPTS} of them", param="prompt")
    return prompts


def _choice(
    index: int, text: str, reason: str | None, logprobs: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


async def _choices(writing: _Writing, answer: Reading) -> Any:
    for index, prompt in enumerate(writing.prompts):
        answer = answer if index == 0 else await writing.begin(prompt)
        try:
            text = "".join([str(piece) async for piece in answer])
        finally:
            stats = await writing.end(answer)
        text = writing.echoed(prompt) + text
        yield _choice(index, text, REASONS[stats.finish_reason], writing.new_logprobs())


async def _streamed(writing: _Writing, answer: Reading) -> AsyncGenerator[bytes, None]:
    usage: dict[str, Any] = {"usage": None} if writing.include_usage else {}
    try:
        for index, prompt in enumerate(writing.prompts):
            answer = answer if index == 0 else await writing.begin(prompt)
            try:
                if echoed := writing.echoed(prompt):
                    yield event({**writing.head, "choices": [_choice(index, echoed, None)], **usage})
                async for piece in answer:
                    choice = _choice(index, str(piece), None, writing.new_logprobs())
                    yield event({**writing.head, "choices": [choice], **usage})
            finally:
                stats = await writing.end(answer)
            ended = _choice(index, "", REASONS[stats.finish_reason], writing.new_logprobs())
            yield event({**writing.head, "choices": [ended], **usage})
    except ShepherdError as error:
        yield event(openai_error(problem_of(error)))
        return
    if writing.include_usage:
        yield event({**writing.head, "choices": [], "usage": usage_of(writing.total)})
    yield LastEvents(event("[DONE]"))
