"""What a client is told when something goes wrong, in the shape of the API that it speaks.

    OpenAI      {"error": {"message", "type", "param", "code"}}
    Anthropic   {"type": "error", "error": {"type", "message"}}

Everything below /v1/messages speaks Anthropic's; the rest OpenAI's. Texts of requests never go into one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from shepherd.errors import (
    ContextOverflowError,
    ProviderError,
    ProviderKeyError,
    ProviderRefusedError,
    ProviderUnavailableError,
    ShepherdError,
    StoreError,
    StoreLockedError,
    TemplateError,
    UsageError,
)

__all__ = ["Denied", "Problem", "anthropic_error", "body_of", "error_of", "openai_error", "problem_of"]

_ANTHROPIC_PATH = "/v1/messages"
_OPENAI_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
_ANTHROPIC_TYPES = {
    **_OPENAI_TYPES,
    413: "request_too_large",
    503: "overloaded_error",
    529: "overloaded_error",
}
_LAST_CLIENT_ERROR = 499


class Denied(Exception):  # noqa: N818 - it is not always an error of somebody
    """A request that is not served: who asks may not do this, or it cannot be done. `code`: for programs."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong, in no API's shape yet. `headers` go with the answer, such as Retry-After."""

    status: int
    code: str
    message: str
    param: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def problem_of(error: Exception) -> Problem:
    """What a client is told of an error; nothing of one that nobody expected but its class."""
    if isinstance(error, Denied):
        return Problem(error.status, error.code, str(error), error.param, tuple(error.headers.items()))
    if not isinstance(error, ShepherdError):
        return Problem(500, "internal_error", f"this is a bug in Shepherd: {type(error).__name__}")
    message = f"{error} ({error.hint})" if error.hint else str(error)
    if isinstance(error, ContextOverflowError):
        return Problem(400, "context_length_exceeded", message, "messages")
    if isinstance(error, UsageError):
        return Problem(400, "invalid_request", message)
    if isinstance(error, TemplateError):
        # Nothing that is sent again as it was would be taken.
        hint = error.hint or "many models want user and assistant by turns, the user first"
        return Problem(400, "invalid_request", f"{error} ({hint})", "messages")
    if isinstance(error, ProviderUnavailableError):
        wait = (("Retry-After", str(int(error.retry_after_s + 1))),) if error.retry_after_s else ()
        return Problem(503, "upstream_unavailable", message, headers=wait)
    if isinstance(error, ProviderKeyError):
        # Our key, not the client's: nothing that it could send would help.
        return Problem(502, "upstream_refused", message)
    if isinstance(error, ProviderRefusedError):
        return Problem(400, "invalid_request", f"{error}: {error.said}" if error.said else message)
    if isinstance(error, ProviderError):
        return Problem(502, "upstream_failed", message)
    if isinstance(error, StoreLockedError):
        return Problem(503, "memory_busy", message, headers=(("Retry-After", "1"),))
    return Problem(500, "memory_failed" if isinstance(error, StoreError) else "model_failed", message)


def openai_error(problem: Problem) -> dict[str, Any]:
    """The body that OpenAI's clients expect."""
    fallback = "invalid_request_error" if problem.status <= _LAST_CLIENT_ERROR else "server_error"
    kind = _OPENAI_TYPES.get(problem.status, fallback)
    return {"error": {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}}


def anthropic_error(problem: Problem) -> dict[str, Any]:
    """The body that Anthropic's clients expect; it has no place for a code but the message."""
    fallback = "invalid_request_error" if problem.status <= _LAST_CLIENT_ERROR else "api_error"
    kind = _ANTHROPIC_TYPES.get(problem.status, fallback)
    return {"type": "error", "error": {"type": kind, "message": f"{problem.code}: {problem.message}"}}


def error_of(problem: Problem, path: str) -> dict[str, Any]:
    """The body in the shape of the API that `path` belongs to."""
    is_anthropic = path == _ANTHROPIC_PATH or path.startswith(_ANTHROPIC_PATH + "/")
    return anthropic_error(problem) if is_anthropic else openai_error(problem)


def body_of(problem: Problem, path: str) -> bytes:
    """The same as bytes, for what answers below the framework."""
    return json.dumps(error_of(problem, path)).encode()
