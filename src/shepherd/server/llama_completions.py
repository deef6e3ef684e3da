"""llama.cpp's completions: /completion continues texts, /infill fills a gap in one, as editors ask for."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import Any

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.inference import Engine, schema_to_grammar
from shepherd.server.chat import MOST_TOKENS
from shepherd.server.continuation import Continuation, Prompt, Wanted, gap_of, prompts_in
from shepherd.server.description import MODEL, described
from shepherd.server.errors import Denied, invalid, openai_error, problem_of
from shepherd.server.http import EventStream, FinalEvents, JsonRoute, LenientBody, event
from shepherd.server.limits import MOST_STOP_CHARS
from shepherd.server.openai_answers import finite
from shepherd.server.openai_api import sampling_in
from shepherd.server.pool import Lease
from shepherd.server.state import ServerState
from shepherd.server.streaming import ReplyReader, cancelled_on_disconnect
from shepherd.turn import sampling_of
from shepherd.types import Sampling, TokenLogprob, TurnStats

__all__ = ["routes"]

_MOST_STOPS, _MOST_BIASES, _MOST_FILES, _MOST_LIKELY = 16, 1024, 256, 20
_WHOLE_WINDOW = 1 << 16  # tokens that a penalty looks back for -1


class _Fields(LenientBody):
    """Fields of both routes; like llama.cpp's server, this one passes over those that it doesn't know."""

    model: str = Field(default="", description=MODEL)
    n_predict: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    max_tokens: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    stream: bool | None = False
    stop: list[str] | None = Field(default=None, max_length=_MOST_STOPS)
    temperature: float | None = Field(default=None, ge=0, le=5)
    top_k: int | None = Field(default=None, ge=0, le=MOST_TOKENS)
    top_p: float | None = Field(default=None, ge=0, le=1)
    min_p: float | None = Field(default=None, ge=0, le=1)
    typical_p: float | None = Field(default=None, gt=0, le=1)
    top_n_sigma: float | None = Field(default=None, ge=-1, le=100)
    xtc_probability: float | None = Field(default=None, ge=0, le=1)
    xtc_threshold: float | None = Field(default=None, ge=0, le=1)
    mirostat: int | None = Field(default=None, ge=0, le=2)
    mirostat_tau: float | None = Field(default=None, gt=0, le=100)
    mirostat_eta: float | None = Field(default=None, gt=0, le=1)
    repeat_penalty: float | None = Field(default=None, gt=0, le=1000)
    repeat_last_n: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    frequency_penalty: float | None = Field(default=None, ge=-100, le=100)
    presence_penalty: float | None = Field(default=None, ge=-100, le=100)
    dry_multiplier: float | None = Field(default=None, ge=0, le=100)
    dry_base: float | None = Field(default=None, ge=1, le=100)
    dry_allowed_length: int | None = Field(default=None, ge=0, le=1 << 20)
    dry_penalty_last_n: int | None = Field(default=None, ge=-1, le=1 << 20)
    dry_sequence_breakers: list[str] | None = Field(default=None, max_length=_MOST_STOPS)
    seed: int | None = None
    logit_bias: list[tuple[int | str, float | bool]] | dict[str, float | bool] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    n_probs: int | None = Field(default=None, ge=0, le=_MOST_LIKELY)
    return_tokens: bool | None = False

    def wanted(self, config: Config, engine: Engine) -> Wanted:
        """Return how the texts are continued. Denied for what is not supported."""
        if self.grammar and self.json_schema is not None:
            raise invalid("json_schema", "send a grammar or a schema, not both")
        if any(len(text) > MOST_STOP_CHARS for text in self.dry_sequence_breakers or ()):
            raise invalid("dry_sequence_breakers", f"a text has more than {MOST_STOP_CHARS:,} characters")
        if any(len(text) > MOST_STOP_CHARS for text in self.stop or ()):
            raise invalid("stop", f"a text has more than {MOST_STOP_CHARS:,} characters")
        given = sampling_in(self)
        for name in ("repeat_last_n", "dry_penalty_last_n"):
            if given.get(name) == -1:
                given[name] = _WHOLE_WINDOW
        if self.seed == -1:
            del given["seed"]  # drawn anew each time
        if given.get("top_n_sigma") == -1:
            given["top_n_sigma"] = 0  # off
        most = self.max_tokens if self.n_predict is None else self.n_predict
        sampling = sampling_of(config, engine.info.sampling, given)
        if self.dry_sequence_breakers is not None:
            breakers = tuple(text for text in self.dry_sequence_breakers if text)
            sampling = replace(sampling, dry_sequence_breakers=breakers)
        return Wanted(
            replace(sampling, logit_bias=_biases(engine, self.logit_bias)),
            None if most in (None, -1) else most,
            tuple(text for text in self.stop or () if text),
            self._rules(),
            self.n_probs or None,
        )

    def _rules(self) -> str:
        if self.json_schema is None:
            return self.grammar or ""
        try:
            return schema_to_grammar(self.json_schema)
        except UsageError as error:
            raise invalid("json_schema", f"{error} ({error.hint})", "invalid_schema") from None


class CompletionBody(_Fields):
    """POST /completion."""

    prompt: str | list[int] | list[str] | list[list[int]]


class _File(LenientBody):
    filename: str
    text: str


class InfillBody(_Fields):
    """POST /infill: the text between two others. `prompt` is what the gap begins with."""

    input_prefix: str
    input_suffix: str
    prompt: str = ""
    input_extra: list[_File] = Field(default_factory=list, max_length=_MOST_FILES)

    @property
    def before(self) -> str:
        """The text before the gap, behind those of other files."""
        files = "".join(f"{one.filename}\n{one.text}\n" for one in self.input_extra)
        return f"{files}{self.input_prefix}{self.prompt}"


def _biases(
    engine: Engine, given: list[tuple[int | str, float | bool]] | dict[str, float | bool] | None
) -> tuple[tuple[int, float], ...]:
    """Return ids of tokens and what is added to their logits; false forbids a token, a text all of its."""
    pairs = list(given.items()) if isinstance(given, dict) else given or []
    if len(pairs) > _MOST_BIASES:
        raise invalid("logit_bias", f"send up to {_MOST_BIASES} of them")
    found: dict[int, float] = {}
    for token, bias in pairs:
        value = -math.inf if bias is False else float(bias)
        ids = [token] if isinstance(token, int) else engine.tokenize(token)
        if not value < math.inf or not all(0 <= one < engine.info.n_vocab for one in ids):
            raise invalid("logit_bias", "send ids of tokens, or texts, with numbers or false")
        found.update(dict.fromkeys(ids, value))
    return tuple(sorted(found.items()))


@described("ContinuedTexts", 404, events="ContinuedText", streams_with="stream")
async def _completion(request: Request, body: CompletionBody) -> Response:
    """Continue one or several texts."""
    prompts: list[Prompt] = [*prompts_in(body.prompt)]
    is_list = isinstance(body.prompt, list) and not all(isinstance(one, int) for one in body.prompt)
    texts = [one if isinstance(one, str) else "" for one in prompts]
    return await _answer(request, body, prompts, texts, is_list=is_list)


@described("ContinuedText", 404, events="ContinuedText", streams_with="stream")
async def _infill(request: Request, body: InfillBody) -> Response:
    """Fill the gap between two texts."""
    return await _answer(request, body, [], [body.before], is_list=False)


routes = [
    JsonRoute("/completion", CompletionBody, _completion),
    JsonRoute("/infill", InfillBody, _infill),
]


async def _answer(
    request: Request, body: _Fields, prompts: list[Prompt], texts: list[str], *, is_list: bool
) -> Response:
    """Continue the prompts; without any, fill the gap that the body has."""
    state: ServerState = request.app.state.shepherd
    lease = await state.pool.lease(body.model, request.receive)
    try:
        engine = lease.engine
        if engine is None:
            raise Denied(404, "not_found", "a remote model has chat completions only")
        if isinstance(body, InfillBody):
            prompts = [gap_of(engine, body.before, body.input_suffix, "input_prefix")]
        wanted = body.wanted(lease.conversations.config, engine)
        continuation = Continuation(state, engine, request.url.path, wanted)
        replies = _Replies(lease.model.name, continuation, wanted, body, prompts, texts)
        first = await continuation.begin(prompts[0])
    except BaseException:
        lease.release()
        raise
    if body.stream:
        return EventStream(_streamed(replies, first, lease), continuation.cancel)
    with lease:
        async with cancelled_on_disconnect(request.receive, continuation.cancel):
            whole = [reply async for reply in replies.read(first)]
    return JSONResponse(whole if is_list else whole[0])


class _Replies:
    """The replies to one request, in the form of llama.cpp's server."""

    def __init__(
        self,
        model: str,
        continuation: Continuation,
        wanted: Wanted,
        body: _Fields,
        prompts: list[Prompt],
        texts: list[str],
    ) -> None:
        self._model = model
        self._continuation, self._wanted, self._body = continuation, wanted, body
        self._prompts, self._texts = prompts, texts

    async def read(
        self, reader: ReplyReader, *, in_parts: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the reply to each prompt; in parts, before it its pieces, and then without its text."""
        for index, prompt in enumerate(self._prompts):
            reader = reader if index == 0 else await self._continuation.begin(prompt)
            said: list[str] = []
            likely: list[TokenLogprob] = []
            try:
                async for piece in reader:
                    said.append(str(piece))
                    new = self._continuation.take_logprobs()
                    likely += new
                    if in_parts:
                        yield {
                            "index": index,
                            "content": said.pop(),
                            "tokens": [],
                            "stop": False,
                            **_probabilities(new, self._body.n_probs),
                        }
            finally:
                stats = await self._continuation.end()
            rest = self._continuation.take_logprobs()
            yield self._last(index, "".join(said), rest if in_parts else [*likely, *rest], stats)

    def _last(self, index: int, text: str, likely: list[TokenLogprob], stats: TurnStats) -> dict[str, Any]:
        ids = list(self._continuation.token_ids) if self._body.return_tokens else []
        stops = self._wanted.stops
        word = stops[stats.stopped_by] if 0 <= stats.stopped_by < len(stops) else ""
        kind = "word" if word else "eos" if stats.finish_reason == "stop" else "limit"
        return {
            "index": index,
            "content": text,
            "tokens": ids,
            "id_slot": -1,
            "stop": True,
            "model": self._model,
            "tokens_predicted": stats.generated_tokens,
            "tokens_evaluated": stats.prompt_tokens,
            "tokens_cached": stats.reused_tokens,
            "generation_settings": _settings(self._wanted.sampling, self._wanted, self._body),
            "prompt": self._texts[index],
            "has_new_line": "\n" in text,
            "truncated": False,
            "stop_type": kind,
            "stopping_word": word,
            "timings": _timings(stats),
            **_probabilities(likely, self._body.n_probs),
        }


def _settings(sampling: Sampling, wanted: Wanted, body: _Fields) -> dict[str, Any]:
    settings = asdict(sampling)
    settings["logit_bias"] = [[token, finite(bias)] for token, bias in sampling.logit_bias]
    n_predict = -1 if wanted.max_tokens is None else wanted.max_tokens
    return settings | {
        "n_predict": n_predict,
        "stop": list(wanted.stops),
        "n_probs": wanted.logprobs or 0,
        "grammar": wanted.grammar,
        "stream": bool(body.stream),
    }


def _timings(stats: TurnStats) -> dict[str, Any]:
    def rate(n: int, ms: float) -> float:
        return n / ms * 1000 if ms > 0 else 0.0

    drafts: dict[str, int] = {}
    if stats.drafted_tokens:  # as in llama-server, where fields of drafts are only there if there were any
        drafts = {"draft_n": stats.drafted_tokens, "draft_n_accepted": stats.accepted_tokens}
    return {
        "cache_n": stats.reused_tokens,
        "prompt_n": stats.decoded_tokens,
        "prompt_ms": stats.prefill_ms,
        "prompt_per_token_ms": stats.prefill_ms / max(stats.decoded_tokens, 1),
        "prompt_per_second": rate(stats.decoded_tokens, stats.prefill_ms),
        "predicted_n": stats.generated_tokens,
        "predicted_ms": stats.decode_ms,
        "predicted_per_token_ms": stats.decode_ms / max(stats.generated_tokens, 1),
        "predicted_per_second": stats.tokens_per_second,
        **drafts,
    }


def _probabilities(tokens: list[TokenLogprob], n_probs: int | None) -> dict[str, Any]:
    """Return the entry with the log-probabilities of tokens; nothing if none were asked for."""
    if not n_probs:
        return {}
    entries = [{**_token(one), "top_logprobs": [_token(other) for other in one.top]} for one in tokens]
    return {"completion_probabilities": entries}


def _token(token: TokenLogprob) -> dict[str, Any]:
    return {
        "id": token.token_id,
        "token": token.piece.decode("utf-8", "replace"),
        "bytes": list(token.piece),
        "logprob": finite(token.logprob),
    }


async def _streamed(replies: _Replies, first: ReplyReader, lease: Lease) -> AsyncGenerator[bytes, None]:
    try:
        with lease:
            async with aclosing(replies.read(first, in_parts=True)) as parts:
                async for part in parts:
                    yield event(part)
    except ShepherdError as error:
        yield event(openai_error(problem_of(error)))
        return
    yield FinalEvents(b"")
