"""llama.cpp's completions: /completion continues texts, /infill fills a gap in one, as editors ask for."""

from __future__ import annotations

import codecs
import math
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import asdict, replace
from itertools import zip_longest
from typing import Any

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.inference import Engine, schema_to_grammar
from shepherd.server import completion_api
from shepherd.server.chat import MOST_TOKENS
from shepherd.server.continuation import (
    Continuation,
    Prompt,
    PromptObject,
    Wanted,
    gap_of,
    is_one,
    prompts_in,
)
from shepherd.server.description import MODEL, described
from shepherd.server.errors import Denied, invalid, openai_error, problem_of
from shepherd.server.http import EventStream, FinalEvents, JsonRoute, LenientBody, ModelName, event
from shepherd.server.limits import MOST_STOP_CHARS
from shepherd.server.openai_answers import finite
from shepherd.server.pool import Lease
from shepherd.server.sampling_fields import MOST_STOPS, SamplingFields, sampling_in
from shepherd.server.state import ServerState
from shepherd.server.streaming import ReplyReader, cancelled_on_disconnect
from shepherd.server.telemetry import timings_of
from shepherd.turn import sampling_of
from shepherd.types import Sampling, TokenLogprob, TurnStats

__all__ = ["routes"]

_MOST_BIASES, _MOST_FILES, _MOST_LIKELY = 1024, 256, 20
_MOST_FIELDS = 100
_MISSING = object()


class _Fields(SamplingFields, LenientBody):
    """Fields of both routes; like llama.cpp's server, this one passes over those that it doesn't know."""

    model: ModelName = Field(default="", description=MODEL)
    n_predict: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    max_tokens: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    stream: bool | None = False
    stop: list[str] | None = Field(default=None, max_length=MOST_STOPS)
    logit_bias: list[tuple[int | str, float | bool]] | dict[str, float | bool] | None = None
    grammar: str | None = None
    json_schema: dict[str, Any] | None = None
    n_probs: int | None = Field(default=None, ge=0, le=_MOST_LIKELY)
    return_tokens: bool | None = False
    post_sampling_probs: bool | None = Field(
        default=False,
        description="Give the probabilities with which tokens were chosen, not the model's own.",
    )
    response_fields: list[str] | None = Field(
        default=None,
        max_length=_MOST_FIELDS,
        description="Return these fields alone; `generation_settings/seed` is one inside another.",
    )

    def wanted(self, config: Config, engine: Engine) -> Wanted:
        """Return how the texts are continued. Denied for what is not supported."""
        if self.grammar and self.json_schema is not None:
            raise invalid("json_schema", "send a grammar or a schema, not both")
        if any(len(text) > MOST_STOP_CHARS for text in self.stop or ()):
            raise invalid("stop", f"a text has more than {MOST_STOP_CHARS:,} characters")
        given = sampling_in(self)
        most = self.max_tokens if self.n_predict is None else self.n_predict
        sampling = sampling_of(config, engine.info.sampling, given)
        return Wanted(
            replace(sampling, logit_bias=_biases(engine, self.logit_bias)),
            None if most in (None, -1) else most,
            tuple(text for text in self.stop or () if text),
            self._rules(),
            self.n_probs or None,
            bool(self.n_probs and self.post_sampling_probs),
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

    prompt: str | PromptObject | list[int | str | PromptObject | list[int | str]]


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
    is_list = isinstance(body.prompt, list) and not is_one(body.prompt)
    return await _answer(request, body, prompts_in(body.prompt), is_list=is_list)


@described("ContinuedText", 404, events="ContinuedText", streams_with="stream")
async def _infill(request: Request, body: InfillBody) -> Response:
    """Fill the gap between two texts."""
    return await _answer(request, body, [], is_list=False)


class EitherBody(LenientBody):
    """POST /completions: with `model`, a body of /v1/completions, otherwise one of /completion."""

    model_config = ConfigDict(extra="allow")

    model: str | None = Field(default=None, description="OpenAI's clients always send it.")


@described("EitherCompletion", 404, events="ContinuedText", streams_with="stream")
async def _either(request: Request, body: EitherBody) -> Response:
    """Continue texts as /v1/completions does if the request names a model, or else as /completion."""
    route = completion_api.route if body.model else routes[0]
    answer: Response = await route.endpoint(request)
    return answer


routes = [
    JsonRoute("/completion", CompletionBody, _completion),
    JsonRoute("/infill", InfillBody, _infill),
    JsonRoute("/completions", EitherBody, _either),
]


async def _answer(request: Request, body: _Fields, prompts: list[Prompt], *, is_list: bool) -> Response:
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
        replies = _Replies(lease.model.name, continuation, wanted, body, prompts)
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
    ) -> None:
        self._model = model
        self._continuation, self._wanted, self._body = continuation, wanted, body
        self._prompts = prompts

    async def read(
        self, reader: ReplyReader, *, in_parts: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the reply to each prompt; in parts, before it its pieces, and then without its text."""
        for index, prompt in enumerate(self._prompts):
            reader = reader if index == 0 else await self._continuation.begin(prompt)
            said: list[str] = []
            parts = _Parts(index, self._continuation, self._body, self._wanted.sampling)
            prompt_text = await self._continuation.prompt_text()
            try:
                async for piece in reader:
                    said.append(str(piece))
                    if in_parts:
                        for part in parts.of(said.pop()):
                            yield part
            finally:
                stats = await self._continuation.end()
            if in_parts:
                for part in parts.of("", is_last=True):
                    yield part
            last = self._last(index, "".join(said), self._continuation.take_logprobs(), stats, prompt_text)
            yield _chosen(last, self._body.response_fields)

    def _last(
        self, index: int, text: str, likely: list[TokenLogprob], stats: TurnStats, prompt: str
    ) -> dict[str, Any]:
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
            "prompt": prompt,
            "has_new_line": "\n" in text,
            "truncated": False,
            "stop_type": kind,
            "stopping_word": word,
            "timings": timings_of(stats),
            **_probabilities(likely, self._body, self._wanted.sampling),
        }


class _Parts:
    """The parts of a streamed reply, one for each token."""

    def __init__(self, index: int, continuation: Continuation, body: _Fields, sampling: Sampling) -> None:
        self._index, self._continuation, self._body = index, continuation, body
        self._sampling = sampling
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unsent = ""

    def of(self, text: str, *, is_last: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the parts of the tokens behind a new piece of text; at the end, also of text without any.

        A token can come before its text, which waits while it could begin a stop string.
        """
        self._unsent += text
        tokens, likely = self._continuation.take_tokens(), []
        if self._body.n_probs:
            likely = self._continuation.take_logprobs()
        for (token, data), one in zip_longest(tokens, likely[: len(tokens)]):
            said = self._decoder.decode(data)
            if not self._unsent.startswith(said):  # a stop string has cut it
                said = self._unsent
            self._unsent = self._unsent[len(said) :]
            yield self._part(said, [token], [one] if one is not None else [])
        if is_last and self._unsent:
            yield self._part(self._unsent, [], [])

    def _part(self, text: str, tokens: list[int], likely: list[TokenLogprob]) -> dict[str, Any]:
        part = {"index": self._index, "content": text, "tokens": tokens, "stop": False}
        return {**part, **_probabilities(likely, self._body, self._sampling)}


def _chosen(reply: dict[str, Any], fields: list[str] | None) -> dict[str, Any]:
    """Return the fields that the client asked for, all if it asked for none; unknown ones are passed over."""
    if not fields:
        return reply
    found: dict[str, Any] = {}
    for field in fields:
        value: Any = reply
        for name in field.split("/"):
            value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
        if value is not _MISSING:
            found[field] = value
    return found


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
        # llama.cpp's adaptive sampler, which is off here.
        "adaptive_target": -1.0,
        "adaptive_decay": 0.0,
    }


def _probabilities(tokens: list[TokenLogprob], body: _Fields, sampling: Sampling) -> dict[str, Any]:
    """Return the entry with the log-probabilities of tokens; nothing if none were asked for."""
    if not body.n_probs:
        return {}
    is_after = bool(body.post_sampling_probs)
    if is_after and sampling.temperature == 0:  # nothing else could be chosen
        certain = [replace(one, logprob=0.0, top=()) for one in tokens]
        tokens = [replace(one, top=(one,)) for one in certain]
    top = "top_probs" if is_after else "top_logprobs"
    entries = [
        {**_token(one, is_after), top: [_token(other, is_after) for other in one.top]} for one in tokens
    ]
    return {"completion_probabilities": entries}


def _token(token: TokenLogprob, is_after: bool) -> dict[str, Any]:
    weight = {"prob": math.exp(token.logprob)} if is_after else {"logprob": finite(token.logprob)}
    return {
        "id": token.token_id,
        "token": token.piece.decode("utf-8", "replace"),
        "bytes": list(token.piece),
        **weight,
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
