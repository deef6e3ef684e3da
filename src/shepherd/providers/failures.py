"""Errors of servers: their meaning for the user, and the token counts in "prompt too long" messages.

The words beside a number say what it counts, since these messages also contain the length asked for the
answer, and sums of both. Numbers without such words are ignored.
"""

from __future__ import annotations

import math
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from shepherd.errors import (
    NEW_CONVERSATION,
    ContextOverflowError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    ProviderUnavailableError,
    ShepherdError,
)
from shepherd.http_endpoint import retry_after_s
from shepherd.installation import pip_install
from shepherd.providers.keys import ApiKey, without_key
from shepherd.providers.settings import ProviderSettings
from shepherd.wording import counted

__all__ = ["Overflow", "cut_off", "failure_of", "overflow_of", "unreachable"]


_CODES = {"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"}
_WORDS = re.compile(
    r"context (length|window|size|limit)|maximum (context|prompt length|model length)"
    r"|(prompt|input) is too long|too many (input )?tokens|input token count"
    r"|reduce the length of (the|your) (messages|prompt|input)",
    re.I,
)
# Python refuses to read a number of thousands of digits; no window needs more than this.
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Overflow:
    """Tokens of the window, and of the prompt without the answer; 0 where nobody said."""

    window: int
    prompt: int


def _pattern(words: str) -> re.Pattern[str]:
    """N stands for a number that is taken, M for another one."""
    number = r"(?<![\d,.])\d[\d,]*"
    return re.compile(words.replace("N", f"({number})").replace("M", number), re.I)


# The first that fits holds. Who says what is in tests/providers/test_overflow.py.
_WINDOWS = [
    _pattern(words)
    for words in (
        r"context limit: M \+ M > N",
        r"M tokens > N maximum",
        r"N maximum context length",
        r"maximum (?:prompt|model) length (?:is|of) N",
        r"maximum number of tokens allowed \(?N",
        r"only supports up to N",
        r"context (?:length|window|size)(?: is| of)?(?: only)? \(?N",
        r"(?:the|its) window (?:of provider \S+ )?(?:has )?N",
    )
]
_PROMPTS = [
    _pattern(words)
    for words in (
        r"context limit: N \+ M > M",
        r"prompt is too long: N tokens",
        r"resulted in N tokens",
        r"(?:prompt|request) (?:contains|has) N (?:input )?tokens",
        r"messages have N tokens",
        r"has N input tokens",
        r"input token count \(N\)",
        r"input token count is N",
        r"(?:request|input) \(N tokens\)",
        r"prompt \(length N\)",
    )
]
# Tokens of prompt and answer together, and of the answer: the difference is the prompt.
_WITH_ANSWER = _pattern(
    r"requested (?:about |a total of )?N tokens.*?N (?:tokens )?(?:in|for) the (?:completion|output)"
)


def overflow_of(status: int, codes: Collection[str], details: Mapping[str, Any]) -> Overflow | None:
    """Return the counts in an error that says the prompt does not fit; None for another error.

    `details` is the error object of the body; llama-server has the numbers in fields of it.
    """
    message = details.get("message")
    message = message if isinstance(message, str) else ""
    if not _CODES & set(codes) and not (status in (0, 400, 413, 422) and _WORDS.search(message)):
        return None
    fields = [details.get("n_ctx"), details.get("n_prompt_tokens")]
    window, prompt = (field if isinstance(field, int) and field > 0 else 0 for field in fields)
    return Overflow(window or _first(_WINDOWS, message), prompt or _prompt(message))


def _prompt(message: str) -> int:
    if both := _WITH_ANSWER.search(message):
        return max(_number_in(both[1]) - _number_in(both[2]), 0)
    return _first(_PROMPTS, message)


def _first(patterns: list[re.Pattern[str]], message: str) -> int:
    return next((_number_in(found[1]) for pattern in patterns if (found := pattern.search(message))), 0)


def _number_in(digits: str) -> int:
    return int(digits.replace(",", "")[:_MOST_DIGITS])


_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{1,60}", re.ASCII)
# What a stream says after it began with status 200.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "internal_server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# What it means that no connection could be made, and what to do.
_ABSENT: dict[type, tuple[str, str]] = {
    ConnectionRefusedError: ("refused the connection", "is it running? If it is, check base_url"),
    socket.gaierror: ("has an address that can't be found", "check the network, and base_url"),
}
_START = {
    "ollama": "is it running? ollama serve",
    "shepherd": "is it running? shepherd serve",
}
# 429 for ever: no money, no quota. Waiting does not help.
_SPENT = {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"}


def failure_of(error: Exception, provider: ProviderSettings, key: ApiKey) -> ShepherdError:
    """Return the error that says what `error`, raised by a client library, means for the user.

    ProviderUnavailableError for what may pass by itself, ContextOverflowError where the prompt was too long.
    """
    if isinstance(error, ShepherdError):
        return error
    kinds = {cls.__name__ for cls in type(error).__mro__}
    if kinds & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return ProviderUnavailableError(
            f"{_place(provider)} sent nothing for {provider.timeout:g} s",
            hint=f"try again, or allow more: shepherd provider set {provider.name} timeout SECONDS",
        )
    if kinds & {"APIConnectionError", "TransportError", "OSError"}:
        return unreachable(error, provider)
    if kinds & {"APIStatusError", "APIError"}:
        return _refused(error, provider, key)
    if kinds & {"ValueError"}:
        return ProviderError(
            f"{_place(provider)} sent an invalid answer ({type(error).__name__})",
            hint=f"is base_url right? It is {provider.address}",
        )
    return ProviderError(
        f"{_place(provider)}: its client library failed ({type(error).__name__})",
        hint=f"{pip_install('-U ' + provider.row.client)}; shepherd provider test {provider.name}",
    )


def cut_off(provider: ProviderSettings, has_begun: bool) -> ProviderError:
    """Return the answer stopped before its end, or before its beginning."""
    if not has_begun:
        return ProviderUnavailableError(
            f"{_place(provider)} sent no answer",
            hint=f"is base_url right? shepherd provider test {provider.name}",
        )
    return ProviderError(
        f"{_place(provider)} broke off in the middle of the answer",
        hint="send the message again; nothing of it was kept",
    )


def unreachable(error: BaseException, provider: ProviderSettings) -> ProviderUnavailableError:
    """Return the error that no connection could be made, or that it broke."""
    reason = _reason(error)
    how, remedy = _ABSENT.get(
        type(reason), ("can't be reached, or the connection broke", "check the network, and base_url")
    )
    return ProviderUnavailableError(
        f"{_place(provider)} {how}",
        hint=_START.get(provider.kind, f"{remedy}: shepherd provider set {provider.name} base_url URL"),
        is_absent=type(reason) in _ABSENT,
    )


def _reason(error: BaseException | None) -> BaseException | None:
    """Return the error of the operating system that a client library's error comes from."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


def _refused(error: Exception, provider: ProviderSettings, key: ApiKey) -> ShepherdError:
    details = _details(getattr(error, "body", None))
    codes = [code for code in (details.get("code"), details.get("type")) if isinstance(code, str)]
    status = _status(error, codes)
    said = [without_key(code, key.value) for code in codes if _CODE.fullmatch(code)]
    what = f"{_place(provider)} answers {status or 'with an error'}{f' ({said[0]})' if said else ''}"
    message = details.get("message")
    if (overflow := overflow_of(status, codes, details)) is not None:
        return _overflow(provider, overflow)
    if status == 429 and not _SPENT & set(codes):
        return _unavailable(f"{what}: too many requests", _retry_after(error))
    if status in (408, 409) or status >= 500:
        return _unavailable(f"{what}: the server failed", _retry_after(error))
    if status in (401, 403):
        where = f" (it comes from {key.source})" if key else ""
        return ProviderKeyError(
            f"{what}: the API key is not accepted",
            hint=f"shepherd provider set {provider.name} api_key{where}",
        )
    what += _ADVICE.get(status, ("", ""))[0]
    hint = _advice(status, codes, provider)
    if status in _REFUSALS:
        words = without_key(message, key.value) if isinstance(message, str) else ""
        return ProviderRefusedError(what, hint=hint, said=words[:_LONGEST_SAID])
    return ProviderError(what, hint=hint)


def _unavailable(what: str, wait_s: float) -> ProviderUnavailableError:
    """Return the error that a server answers later, after so many seconds if it says so (else 0)."""
    when = f"in {counted(math.ceil(wait_s), 'second')}" if wait_s else "in a while"
    return ProviderUnavailableError(what, hint=f"try again {when}, {_OTHERS}", retry_after_s=wait_s)


# "shepherd provider next" could choose the one that fails.
_OTHERS = (
    "or ask another provider: shepherd -p NAME, or /provider NAME in a chat (shepherd provider list shows the"
    " names)"
)
# The request is to blame, and its sender can change it.
_REFUSALS = frozenset({400, 413, 422})
_LONGEST_SAID = 500
_ADVICE = {
    400: (": it does not understand the request", "is the model right? shepherd provider show {name}"),
    402: (": payment is due", f"check your account there, {_OTHERS}"),
    404: (
        ": there is no such model or address",
        "the model is {model}, base_url {address}; shepherd provider set {name} model NAME",
    ),
    413: (": the request is too large", f"{NEW_CONVERSATION}; or shorten the message"),
    429: (": the quota is used up", f"check your account there, {_OTHERS}"),
}  # fmt: skip


def _advice(status: int, codes: list[str], provider: ProviderSettings) -> str:
    text = _ADVICE.get(status, ("", "shepherd provider test {name}"))[1]
    # A model's name is the user's own setting; it may hold anything but a brace to fill in.
    return text.format(name=provider.name, model=provider.model or "not set", address=provider.address)


def _status(error: Exception, codes: list[str]) -> int:
    status = getattr(error, "status_code", 0)
    if isinstance(status, int) and status >= 400:
        return status
    return next((_STATUS_OF_TYPE[code] for code in codes if code in _STATUS_OF_TYPE), _number(codes))


def _number(codes: list[str]) -> int:
    return next((int(code) for code in codes if re.fullmatch(r"[45]\d\d", code)), 0)


def _details(body: object) -> Mapping[str, Any]:
    """Return the innermost error object; Google wraps it into a list."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    if not isinstance(body, Mapping):
        return {"message": body if isinstance(body, str) else ""}
    code = body.get("code")
    return {**body, "code": str(code)} if isinstance(code, int) else body


def _overflow(provider: ProviderSettings, said: Overflow) -> ContextOverflowError:
    told = ""
    if said.window and said.prompt:
        # The prompt alone may fit; it is the answer that was asked for beside it that does not.
        beside = "" if said.prompt > said.window else " and the answer's"
        told = f": {said.prompt:,} tokens{beside}, its window has {said.window:,}"
    return ContextOverflowError(
        f"the conversation is too long for provider {provider.name}{told}",
        prompt_tokens=said.prompt,
        window_tokens=said.window,
        hint=f"send it again, since Shepherd now knows the window better; or {NEW_CONVERSATION}; "
        f"to set the window for good: shepherd provider set {provider.name} window TOKENS",
    )


def _retry_after(error: Exception) -> float:
    return retry_after_s(getattr(getattr(error, "response", None), "headers", None) or {})


def _place(provider: ProviderSettings) -> str:
    return f"provider {provider.name} ({provider.address})"
