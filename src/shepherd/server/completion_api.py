"""OpenAI's completions: a local model continues a text, without chat template or memory."""

from __future__ import annotations

import codecs
import math
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.errors import ShepherdError
from shepherd.server.continuation import Continuation, Prompt, Wanted, gap_of, prompts_in
from shepherd.server.description import described
from shepherd.server.errors import invalid, openai_error, problem_of
from shepherd.server.http import EventStream, FinalEvents, JsonRoute, event
from shepherd.server.openai_answers import REASONS, finite, usage_of
from shepherd.server.openai_api import CompletionBody, require_supported
from shepherd.server.pool import Lease
from shepherd.server.sampling_fields import sampling_in
from shepherd.server.state import ServerState
from shepherd.server.streaming import ReplyReader, cancelled_on_disconnect, merged
from shepherd.server.telemetry import fingerprint
from shepherd.turn import sampling_of
from shepherd.types import TokenLogprob, TurnStats

__all__ = ["CompletionLogprobs", "route"]

_ROUTE = "/v1/completions"
_DEFAULT_TOKENS = 16  # OpenAI's


@described("TextCompletion", 404, events="TextCompletion", streams_with="stream")
async def completions(request: Request, body: CompletionBody) -> Response:
    """Continue one or several texts, without chat template or memory."""
    state: ServerState = request.app.state.shepherd
    body.refuse_unsupported()
    lease = await state.pool.lease(body.model, request.receive)
    try:
        require_supported(lease.engine is not None, "model", "a remote model has chat completions only")
        completion = _Completion(state, lease, body)
        await completion.begin()
    except BaseException:
        lease.release()
        raise
    if body.stream:
        return EventStream(_streamed(completion, lease), completion.cancel)
    with lease:
        async with cancelled_on_disconnect(request.receive, completion.cancel):
            choices = await completion.whole()
    return JSONResponse({**completion.head, "choices": choices, "usage": usage_of(completion.total)})


route = JsonRoute(_ROUTE, CompletionBody, completions)


class _Completion:
    """A request, which may have several prompts; those are continued one after the other, each `n` times.

    Of `best_of` continuations of a prompt the likeliest `n` are returned, the best first.
    """

    def __init__(self, state: ServerState, lease: Lease, body: CompletionBody) -> None:
        engine = lease.engine
        assert engine is not None
        self.include_usage = body.stream_options is not None and body.stream_options.include_usage
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": lease.model.name,
            "system_fingerprint": fingerprint(),
        }
        self.total = TurnStats()
        self._n = body.n or 1
        self._shows_logprobs = body.logprobs is not None
        n_made = body.best_of or self._n
        sampling = sampling_of(lease.conversations.config, engine.info.sampling, sampling_in(body))
        wanted = Wanted(
            replace(sampling, logit_bias=body.biases),
            body.max_tokens or _DEFAULT_TOKENS,
            body.stops,
            logprobs=0 if n_made > self._n and body.logprobs is None else body.logprobs,
        )
        self._continuations = [
            Continuation(state, engine, _ROUTE, replace(wanted, sampling=wanted.sampling.of_answer(i)))
            for i in range(n_made)
        ]
        self._readers: list[ReplyReader] = []
        self._prompts: list[Prompt] = prompts_in(body.prompt)
        self._echoed = [one if body.echo and isinstance(one, str) else "" for one in self._prompts]
        if body.suffix:
            if not isinstance(body.prompt, str):
                raise invalid("suffix", "send one text as the prompt with it")
            self._prompts = [gap_of(engine, body.prompt, body.suffix, "suffix")]

    async def begin(self, number: int = 0) -> None:
        """Start the continuations of one prompt; they share it, so that it is decoded once."""
        self._readers = []
        try:
            for continuation in self._continuations:
                self._readers.append(await continuation.begin(self._prompts[number]))
        except BaseException:
            self.cancel()
            for continuation in self._continuations[: len(self._readers)]:
                await continuation.end()
            raise

    async def whole(self) -> list[dict[str, Any]]:
        """Return the choices."""
        found = []
        for number in range(len(self._prompts)):
            if number:
                await self.begin(number)
            made = [choice async for choice in merged(self._streams(number))]
            found += self._best(sorted(made, key=lambda choice: int(choice["index"])), number)
        return found

    async def in_parts(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield many parts of each choice."""
        for number in range(len(self._prompts)):
            if number:
                await self.begin(number)
            async with aclosing(merged(self._streams(number, in_parts=True))) as parts:
                async for part in parts:
                    yield part

    def cancel(self) -> None:
        """Cancel the continuations."""
        for continuation in self._continuations:
            continuation.cancel()

    def _streams(self, number: int, *, in_parts: bool = False) -> list[AsyncGenerator[dict[str, Any], None]]:
        first = number * len(self._continuations)
        return [
            self._choice(i, first + i, self._echoed[number], in_parts=in_parts)
            for i in range(len(self._continuations))
        ]

    async def _choice(
        self, i: int, index: int, echoed: str, *, in_parts: bool
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield one continuation of a prompt, whole or in many parts."""
        continuation, logprobs = self._continuations[i], CompletionLogprobs()
        texts = [echoed]
        try:
            if in_parts and echoed:
                yield _choice(index, texts.pop())
            async for piece in self._readers[i]:
                texts.append(str(piece))
                if in_parts:
                    yield _choice(index, texts.pop(), logprobs.of(continuation.take_logprobs()))
        finally:
            stats = await continuation.end()
            self._count(stats, is_first=i == 0)
        rest = logprobs.of(continuation.take_logprobs())
        yield _choice(index, "".join(texts), rest, REASONS[stats.finish_reason])

    def _count(self, stats: TurnStats, *, is_first: bool) -> None:
        """Add the cost of a continuation; its prompt counts once, however many share it."""
        self.total = TurnStats(
            prompt_tokens=self.total.prompt_tokens + is_first * stats.prompt_tokens,
            reused_tokens=self.total.reused_tokens + is_first * stats.reused_tokens,
            generated_tokens=self.total.generated_tokens + stats.generated_tokens,
        )

    def _best(self, choices: list[dict[str, Any]], number: int) -> list[dict[str, Any]]:
        """Return a prompt's likeliest choices if more were made than wanted, with their final indices."""
        if len(choices) == self._n:
            return choices
        ranked = sorted(choices, key=_mean_logprob, reverse=True)[: self._n]
        hidden = {} if self._shows_logprobs else {"logprobs": None}
        return [{**one, "index": number * self._n + i, **hidden} for i, one in enumerate(ranked)]


def _mean_logprob(choice: dict[str, Any]) -> float:
    """Return the mean log-probability of a choice's tokens; one without any comes last."""
    values = choice["logprobs"]["token_logprobs"] if choice["logprobs"] else []
    return sum(values) / len(values) if values else -math.inf


def _choice(
    index: int, text: str, logprobs: dict[str, Any] | None = None, reason: str | None = None
) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": reason}


async def _streamed(completion: _Completion, lease: Lease) -> AsyncGenerator[bytes, None]:
    usage: dict[str, Any] = {"usage": None} if completion.include_usage else {}
    try:
        with lease:
            async with aclosing(completion.in_parts()) as choices:
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

    def of(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        """Return the entry for the next tokens of the text, None for none."""
        if not tokens:
            return None
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
