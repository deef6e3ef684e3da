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
from shepherd.inference import Engine
from shepherd.server.chat import require_model
from shepherd.server.continuation import Continuation, Prompt, Wanted, gap_of, prompts_in
from shepherd.server.description import described
from shepherd.server.errors import invalid, openai_error, problem_of
from shepherd.server.http import EventStream, FinalEvents, JsonRoute, event
from shepherd.server.openai_api import (
    REASONS,
    CompletionBody,
    finite,
    require_supported,
    sampling_in,
    usage_of,
)
from shepherd.server.state import ServerState
from shepherd.server.streaming import ReplyReader, cancelled_on_disconnect
from shepherd.turn import sampling_of
from shepherd.types import TokenLogprob, TurnStats

__all__ = ["CompletionLogprobs", "route"]

_ROUTE = "/v1/completions"
_DEFAULT_TOKENS = 16  # OpenAI's


@described("TextCompletion", 404, events="TextCompletion", streams_with="stream")
async def completions(request: Request, body: CompletionBody) -> Response:
    """Continue one or several texts, without chat template or memory."""
    state: ServerState = request.app.state.shepherd
    require_model(state, body.model)
    body.refuse_unsupported()
    engine = state.conversations.models.engine
    require_supported(engine is not None, "model", "a remote model has chat completions only")
    assert engine is not None
    completion = _Completion(state, engine, body)
    first = await completion.begin()
    if body.stream:
        return EventStream(_streamed(completion, first), completion.cancel)
    async with cancelled_on_disconnect(request.receive, completion.cancel):
        choices = [choice async for choice in completion.choices(first)]
    return JSONResponse({**completion.head, "choices": choices, "usage": usage_of(completion.total)})


route = JsonRoute(_ROUTE, CompletionBody, completions)


class _Completion:
    """A request, which may have several prompts."""

    def __init__(self, state: ServerState, engine: Engine, body: CompletionBody) -> None:
        self.include_usage = body.stream_options is not None and body.stream_options.include_usage
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": state.conversations.models.name,
        }
        sampling = sampling_of(state.config, engine.info.sampling, sampling_in(body))
        wanted = Wanted(
            replace(sampling, logit_bias=body.biases),
            body.max_tokens or _DEFAULT_TOKENS,
            body.stops,
            logprobs=body.logprobs,
        )
        self._continuation = Continuation(state, engine, _ROUTE, wanted)
        self._prompts: list[Prompt] = [*prompts_in(body.prompt)]
        self._echoed = [one if body.echo and isinstance(one, str) else "" for one in self._prompts]
        if body.suffix:
            if not isinstance(body.prompt, str):
                raise invalid("suffix", "send one text as the prompt with it")
            self._prompts = [gap_of(engine, body.prompt, body.suffix, "suffix")]
        self._logprobs = CompletionLogprobs()

    @property
    def total(self) -> TurnStats:
        """Cost of all prompts so far."""
        return self._continuation.total

    async def begin(self, index: int = 0) -> ReplyReader:
        """Start the continuation of one prompt."""
        reader = await self._continuation.begin(self._prompts[index])
        self._logprobs = CompletionLogprobs()
        return reader

    async def choices(
        self, answer: ReplyReader, *, in_parts: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield a choice for each prompt, or many parts of it; `answer` continues the first prompt."""
        for index, echoed in enumerate(self._echoed):
            answer = answer if index == 0 else await self.begin(index)
            texts = [echoed]
            try:
                if in_parts and texts[0]:
                    yield _choice(index, texts.pop())
                async for piece in answer:
                    texts.append(str(piece))
                    if in_parts:
                        yield _choice(index, texts.pop(), self._new_logprobs())
            finally:
                stats = await self._continuation.end()
            yield _choice(index, "".join(texts), self._new_logprobs(), REASONS[stats.finish_reason])

    def cancel(self) -> None:
        """Cancel the continuations."""
        self._continuation.cancel()

    def _new_logprobs(self) -> dict[str, Any] | None:
        """Return the log-probabilities of the tokens read since the last call; None without any."""
        tokens = self._continuation.take_logprobs()
        return self._logprobs.of(tokens) if tokens else None


def _choice(
    index: int, text: str, logprobs: dict[str, Any] | None = None, reason: str | None = None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


async def _streamed(completion: _Completion, answer: ReplyReader) -> AsyncGenerator[bytes, None]:
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
