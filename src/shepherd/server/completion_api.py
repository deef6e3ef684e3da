"""OpenAI's completions: a local model continues a text, without chat template or memory."""

from __future__ import annotations

import codecs
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.inference import Engine, Generation
from shepherd.server.chat import require_model
from shepherd.server.description import described
from shepherd.server.errors import invalid, openai_error, problem_of
from shepherd.server.http import LARGE_BYTES, EventStream, FinalEvents, JsonRoute, event
from shepherd.server.limits import check_text
from shepherd.server.openai_api import (
    REASONS,
    CompletionBody,
    finite,
    require_supported,
    sampling_in,
    usage_of,
)
from shepherd.server.state import Served, ServerState
from shepherd.server.streaming import ReplyReader, blocking, cancelled_on_disconnect
from shepherd.turn import sampling_of
from shepherd.types import TokenLogprob, TurnStats

__all__ = ["CompletionLogprobs", "route"]

_ROUTE = "/v1/completions"
_DEFAULT_TOKENS = 16  # OpenAI's
_MOST_PROMPTS = 64


@described("TextCompletion", 404, events="TextCompletion", streams_with="stream")
async def completions(request: Request, body: CompletionBody) -> Response:
    """Continue one or several texts, without chat template or memory."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    body.refuse_unsupported()
    engine = state.conversations.models.engine
    require_supported(engine is not None, "model", "a remote model has chat completions only")
    assert engine is not None
    prompts = _prompts(body)
    completion = _CompletionRequest(state, engine, body, prompts)
    first = await completion.begin(prompts[0])
    if body.stream:
        return EventStream(_streamed(completion, first), completion.cancel)
    async with cancelled_on_disconnect(request.receive, completion.cancel):
        choices = [choice async for choice in completion.choices(first)]
    return JSONResponse({**completion.head, "choices": choices, "usage": usage_of(completion.total)})


route = JsonRoute(_ROUTE, CompletionBody, completions)


class _CompletionRequest:
    """A request, which may have several prompts."""

    def __init__(
        self, state: ServerState, engine: Engine, body: CompletionBody, prompts: list[str | list[int]]
    ) -> None:
        self.include_usage = body.stream_options is not None and body.stream_options.include_usage
        self.total = TurnStats()
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": state.conversations.models.name,
        }
        self._state, self._engine, self._body, self._prompts = state, engine, body, prompts
        self._answer: ReplyReader | None = None
        self._generating: Generation | None = None
        self._logprobs = CompletionLogprobs()
        self._is_cancelled = False

    async def begin(self, prompt: str | list[int]) -> ReplyReader:
        """Start the continuation of one prompt."""
        try:
            generation = await blocking(lambda: self._generation(prompt), is_large=len(prompt) > LARGE_BYTES)
        except Exception as error:
            self._state.served(Served(_ROUTE, None, error=problem_of(error).code))
            raise

        def finish(_: bool) -> TurnStats:
            generation.close()
            return generation.stats

        self._answer = ReplyReader(generation, finish)
        self._generating, self._logprobs = generation, CompletionLogprobs()
        self._state.in_progress.add(self.cancel)
        if self._is_cancelled:
            self._answer.cancel()
        return self._answer

    async def choices(
        self, answer: ReplyReader, *, in_parts: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield a choice for each prompt, or many parts of it; `answer` continues the first prompt."""
        for index, prompt in enumerate(self._prompts):
            answer = answer if index == 0 else await self.begin(prompt)
            texts = [prompt if self._body.echo and isinstance(prompt, str) else ""]
            try:
                if in_parts and texts[0]:
                    yield _choice(index, texts.pop())
                async for piece in answer:
                    texts.append(str(piece))
                    if in_parts:
                        yield _choice(index, texts.pop(), self._new_logprobs())
            finally:
                stats = await self._end(answer)
            yield _choice(index, "".join(texts), self._new_logprobs(), REASONS[stats.finish_reason])

    def cancel(self) -> None:
        """Cancel the continuations."""
        self._is_cancelled = True
        if self._answer is not None:
            self._answer.cancel()

    async def _end(self, answer: ReplyReader) -> TurnStats:
        """End a continuation; return its cost, and add it to the total."""
        try:
            stats = await answer.end()
        finally:
            self._state.in_progress.discard(self.cancel)
        self._state.served(Served(_ROUTE, stats))
        self.total = TurnStats(
            prompt_tokens=self.total.prompt_tokens + stats.prompt_tokens,
            reused_tokens=self.total.reused_tokens + stats.reused_tokens,
            generated_tokens=self.total.generated_tokens + stats.generated_tokens,
        )
        return stats

    def _new_logprobs(self) -> dict[str, Any] | None:
        """Return the log-probabilities of the tokens read since the last call; None without any."""
        tokens = [] if self._generating is None else self._generating.take_logprobs()
        return self._logprobs.of(tokens) if tokens else None

    def _generation(self, prompt: str | list[int]) -> Generation:
        config = self._state.config
        ids: Sequence[int] = prompt if isinstance(prompt, list) else self._engine.tokenize_prompt(prompt)
        return self._engine.complete(
            ids,
            sampling=replace(
                sampling_of(config, self._engine.info.sampling, sampling_in(self._body)),
                logit_bias=self._body.biases,
            ),
            max_tokens=self._body.max_tokens or _DEFAULT_TOKENS,
            stop=self._body.stops,
            logprobs=self._body.logprobs,
        )


def _prompts(body: CompletionBody) -> list[str | list[int]]:
    """Return the prompts, texts or token ids."""
    prompt = body.prompt
    prompts: list[Any] = [prompt] if isinstance(prompt, str) else prompt
    if prompts and all(isinstance(entry, int) for entry in prompts):
        prompts = [prompts]
    if not 1 <= len(prompts) <= _MOST_PROMPTS:
        raise invalid("prompt", f"send 1 to {_MOST_PROMPTS} of them")
    for text in prompts:
        if isinstance(text, str):
            check_text(text, "prompt")
    return prompts


def _choice(
    index: int, text: str, logprobs: dict[str, Any] | None = None, reason: str | None = None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


async def _streamed(completion: _CompletionRequest, answer: ReplyReader) -> AsyncGenerator[bytes, None]:
    usage: dict[str, Any] = {"usage": None} if completion.include_usage else {}
    try:
        async with aclosing(completion.choices(answer, in_parts=True)) as choices:
            async for choice in choices:
                yield event({**completion.head, "choices": [choice], **usage})
    except ShepherdError as error:
        yield event(openai_error(problem_of(error)))
        return
    if completion.include_usage:
        yield event({**completion.head, "choices": [], "usage": usage_of(completion.total)})
    yield FinalEvents(event("[DONE]"))


class CompletionLogprobs:
    """Log-probabilities as text completions have them: tokens with offsets in the text.

    `offset` is the next token's.
    """

    def __init__(self, offset: int = 0) -> None:
        self._offset = offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def of(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return the entry for the next tokens of the text."""
        offsets = []
        for token in tokens:
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(token.piece))
        return {
            "tokens": [_legacy_text(token.piece) for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [_by_text(token.top) for token in tokens],
            "text_offset": offsets,
        }


def _by_text(tokens: Sequence[TokenLogprob]) -> dict[str, float]:
    """Return log-probabilities by text; of several tokens with one text the likeliest, which is the first."""
    found: dict[str, float] = {}
    for token in tokens:
        found.setdefault(_legacy_text(token.piece), finite(token.logprob))
    return found


def _legacy_text(piece: bytes) -> str:
    """Return the text of a piece; for part of a character its bytes, as OpenAI writes them."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
