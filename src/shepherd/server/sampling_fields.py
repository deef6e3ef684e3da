"""Fields of requests that say how an answer is drawn: in OpenAI's, llama.cpp's and other names."""

from __future__ import annotations

from typing import Any

from pydantic import AliasChoices, BaseModel, Field

from shepherd.server.chat import MOST_TOKENS
from shepherd.server.errors import invalid
from shepherd.server.limits import MOST_STOP_CHARS
from shepherd.types import SAMPLERS, SEEDS

__all__ = ["MOST_STOPS", "SamplingFields", "sampling_in"]

MOST_STOPS = 16
_NUMBERS = (
    *("temperature", "top_p", "seed", "top_k", "min_p", "typical_p", "top_n_sigma"),
    *("xtc_probability", "xtc_threshold", "mirostat", "mirostat_tau", "mirostat_eta"),
    *("repeat_penalty", "repeat_last_n", "frequency_penalty", "presence_penalty"),
    *("dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n"),
)
_LARGEST_PENALTY = 1000
_MOST_SAMPLERS = 32
_WHOLE_WINDOW = 1 << 16  # tokens that a penalty looks back for -1
# What -1 stands for where llama.cpp and its relatives send it.
_MINUS_ONE = {
    "top_k": 0,
    "top_n_sigma": 0,
    "repeat_last_n": _WHOLE_WINDOW,
    "dry_penalty_last_n": _WHOLE_WINDOW,
}
# Other names of llama.cpp's samplers, and its letters for them.
_SAMPLER_NAMES = {
    **{name: name for name in SAMPLERS},
    "typ_p": "typical_p",
    "typical": "typical_p",
    "temp": "temperature",
    "top-k": "top_k",
    "top-p": "top_p",
    "min-p": "min_p",
    "typ-p": "typical_p",
    "top-n-sigma": "top_n_sigma",
}
_LETTERS = dict(zip("edskypmxt", SAMPLERS, strict=True))


class SamplingFields(BaseModel):
    """Fields that all requests with llama.cpp's samplers share; -1 turns a limit off."""

    temperature: float | None = Field(default=None, ge=0, le=5)
    top_p: float | None = Field(default=None, ge=0, le=1)
    seed: int | None = None
    frequency_penalty: float | None = Field(default=None, ge=-100, le=100)
    presence_penalty: float | None = Field(default=None, ge=-100, le=100)
    top_k: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    min_p: float | None = Field(default=None, ge=0, le=1)
    typical_p: float | None = Field(
        default=None, gt=0, le=1, validation_alias=AliasChoices("typical_p", "typ_p")
    )
    top_n_sigma: float | None = Field(default=None, ge=-1, le=100)
    xtc_probability: float | None = Field(default=None, ge=0, le=1)
    xtc_threshold: float | None = Field(default=None, ge=0, le=1)
    dry_multiplier: float | None = Field(default=None, ge=0, le=100)
    dry_base: float | None = Field(default=None, ge=1, le=100)
    dry_allowed_length: int | None = Field(default=None, ge=0, le=1 << 20)
    dry_penalty_last_n: int | None = Field(default=None, ge=-1, le=1 << 20)
    dry_sequence_breakers: list[str] | None = Field(default=None, max_length=MOST_STOPS)
    mirostat: int | None = Field(default=None, ge=0, le=2)
    mirostat_tau: float | None = Field(default=None, gt=0, le=100)
    mirostat_eta: float | None = Field(default=None, gt=0, le=1)
    repeat_penalty: float | None = Field(
        default=None,
        gt=0,
        le=_LARGEST_PENALTY,
        validation_alias=AliasChoices("repeat_penalty", "repetition_penalty"),
    )
    repeat_last_n: int | None = Field(default=None, ge=-1, le=MOST_TOKENS)
    samplers: str | list[str] | None = Field(
        default=None,
        max_length=_MOST_SAMPLERS,
        description=f"The samplers that run, in this order: of {', '.join(SAMPLERS)}.",
    )


def sampling_in(body: BaseModel) -> dict[str, Any]:
    """Return the sampling settings that the client has set; null is as none. Denied for texts too long."""
    given = {name: value for name in _NUMBERS if (value := getattr(body, name, None)) is not None}
    for name, value in _MINUS_ONE.items():
        if given.get(name) == -1:
            given[name] = value
    if given.get("seed") == -1:
        del given["seed"]  # drawn anew each time, as without one
    elif "seed" in given:
        given["seed"] = int(given["seed"]) % SEEDS  # OpenAI's are 64 bits, signed
    if given.get("top_p") == 0:
        given["temperature"], given["top_p"] = 0, 1  # the likeliest token
    breakers = getattr(body, "dry_sequence_breakers", None)
    if breakers is not None:
        if any(len(text) > MOST_STOP_CHARS for text in breakers):
            raise invalid("dry_sequence_breakers", f"a text has more than {MOST_STOP_CHARS:,} characters")
        given["dry_sequence_breakers"] = tuple(text for text in breakers if text)
    samplers = getattr(body, "samplers", None)
    if samplers is not None:
        given["samplers"] = _order(samplers)
    return given


def _order(samplers: str | list[str]) -> tuple[str, ...]:
    """Return names of samplers; those that llama.cpp has and the engine hasn't are passed over, as there."""
    if isinstance(samplers, str):
        found = [_LETTERS.get(letter) for letter in samplers]
    else:
        found = [_SAMPLER_NAMES.get(name) for name in samplers]
    return tuple(dict.fromkeys(name for name in found if name is not None))
