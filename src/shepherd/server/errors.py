"""Errors in the shape of the API that the client speaks.

    OpenAI      {"error": {"message", "type", "param", "code"}}
    Anthropic   {"type": "error", "error": {"type", "message"}}; also "details", where its libraries read them
    Ollama      {"error": message}

Everything below /v1/messages has Anthropic's shape, below /api Ollama's; the rest OpenAI's. No error contains
text of a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from shepherd.errors import (
    ConflictError,
    ContextOverflowError,
    DocumentError,
    NoTokenError,
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
from shepherd.installation import runnable_from_anywhere

__all__ = [
    "Denied",
    "Problem",
    "anthropic_error",
    "body_of",
    "error_of",
    "invalid",
    "missing",
    "ollama_error",
    "openai_error",
    "problem_of",
    "problem_of_fields",
    "refuse_gone",
    "unsupported",
]

_ANTHROPIC_PATH = "/v1/messages"
_OLLAMA_PATH = "/api"
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
_LLAMA_TYPE = "exceed_context_size_error"
_LAST_CLIENT_ERROR = 499


class Denied(Exception):  # noqa: N818 - a refusal need not be anybody's error
    """A refused request: the caller may not do this, or it cannot be done. `code` is for programs."""

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


_BRANCH = re.compile(r"[a-z]+\[.*\]|constrained-\w+|str|int|float|bool|list|dict|none|_?[A-Z]\w*")


def problem_of_fields(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Return what the client learns about fields that Pydantic refused: of the first one, where and why.

    A field of several types has errors for each of them. The deepest ones are of the type that was meant. Of
    these, one about the value tells more than one about its type.
    """
    first = errors[0]
    if first["type"] == "json_invalid":
        return Problem(400, "invalid_request", f"the body: {first['msg']}")
    union = _union(first)
    same = [error for error in errors if _path(error)[: len(union)] == union] if union else [first]
    field = max(map(_field, same), key=len)
    told = min((error for error in same if _field(error) == field), key=_vagueness)
    where = ".".join(field)
    reason = re.sub(r"valid dictionary or instance of \w+", "valid object", told["msg"])
    # The value is the user's text, and isn't repeated.
    return Problem(400, "invalid_request", f"{where or 'the body'}: {reason}", where or None)


def _vagueness(error: Mapping[str, Any]) -> int:
    kind: str = error["type"]
    return 2 if kind.endswith("_type") else 1 if kind == "literal_error" else 0


def _path(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the path of a field in the body, the query or the path of the request."""
    path = tuple(error["loc"])
    return path[1:] if path[:1] in (("body",), ("query",), ("path",)) else path


def _union(error: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the path of the outermost field of several types that an error is about, () for none."""
    path = _path(error)
    return next((path[:i] for i in range(1, len(path)) if _is_branch(error, i)), ())


def _field(error: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the path of a field, without the names of types that stand for the branches of a union."""
    return tuple(str(part) for i, part in enumerate(_path(error)) if not _is_branch(error, i))


def _is_branch(error: Mapping[str, Any], i: int) -> bool:
    """Return whether this part of the path is the name of a type; a field can have such a name, too."""
    path = _path(error)
    part = path[i]
    if isinstance(part, int) or (i == len(path) - 1 and error["type"] in ("extra_forbidden", "missing")):
        return False
    return i > 0 and _BRANCH.fullmatch(part) is not None


def missing(what: str) -> Denied:
    """Return the refusal for something that does not exist or belongs to others."""
    return Denied(404, "not_found", f"this user has no such {what}")


def invalid(param: str, message: str, code: str = "invalid_request") -> Denied:
    """Return the refusal of a request for the value of its field `param`."""
    return Denied(400, code, f"{param}: {message}", param=param)


def refuse_gone(is_gone: bool) -> None:
    """Raise Denied, which nobody reads, if the client has disconnected."""
    if is_gone:
        raise Denied(499, "client_closed_request", "the client has disconnected")


def unsupported(param: str, hint: str) -> Denied:
    """Return the refusal of a request for a field that this server does not support."""
    return invalid(param, f"not supported here ({hint})", "unsupported_parameter")


@dataclass(frozen=True, slots=True)
class Problem:
    """Status and message of an error, in no API's shape yet. `headers` go with the answer (Retry-After)."""

    status: int
    code: str
    message: str
    param: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    # Fields of llama.cpp's errors, beside OpenAI's.
    more: tuple[tuple[str, int], ...] = ()


def problem_of(error: Exception) -> Problem:
    """Return what the client learns about an error: of an unexpected one its class alone."""
    problem = _problem_of(error)
    return replace(problem, message=runnable_from_anywhere(problem.message))


def _problem_of(error: Exception) -> Problem:
    if isinstance(error, Denied):
        return Problem(error.status, error.code, str(error), error.param, tuple(error.headers.items()))
    if not isinstance(error, ShepherdError):
        return Problem(500, "internal_error", f"this is a bug in Shepherd: {type(error).__name__}")
    message = f"{error} ({error.hint})" if error.hint else str(error)
    if isinstance(error, ContextOverflowError):
        more = (("n_prompt_tokens", error.prompt_tokens), ("n_ctx", error.window_tokens))
        return Problem(400, "context_length_exceeded", message, "messages", more=more)
    if isinstance(error, ConflictError):
        return Problem(409, "conversation_changed", message)
    if isinstance(error, (UsageError, DocumentError)):
        return Problem(400, "invalid_request", message)
    if isinstance(error, (NoTokenError, TemplateError)):
        return _problem_of_field(error)
    if isinstance(error, ProviderUnavailableError):
        wait = (("Retry-After", str(int(error.retry_after_s + 1))),) if error.retry_after_s else ()
        if error.hint and not error.is_absent:
            # That hint is for whoever can type commands in a chat.
            message = f"{error} (try again later, or choose another model)"
        return Problem(503, "upstream_unavailable", message, headers=wait)
    if isinstance(error, ProviderKeyError):
        # The server's key, not the client's: the client cannot mend it.
        return Problem(502, "upstream_refused", message)
    if isinstance(error, ProviderRefusedError):
        return Problem(400, "invalid_request", f"{error}: {error.said}" if error.said else message)
    if isinstance(error, ProviderError):
        return Problem(502, "upstream_failed", message)
    if isinstance(error, StoreLockedError):
        return Problem(503, "memory_busy", message, headers=(("Retry-After", "1"),))
    return Problem(500, "memory_failed" if isinstance(error, StoreError) else "model_failed", message)


def _problem_of_field(error: NoTokenError | TemplateError) -> Problem:
    """Return the problem of a failure that a field of the request caused: it would fail again."""
    param, hint = "logit_bias", error.hint
    if isinstance(error, TemplateError):
        param = "messages"
        hint = hint or "many models want user and assistant by turns, the user first"
    return Problem(400, "invalid_request", f"{error} ({hint})" if hint else str(error), param)


def openai_error(problem: Problem) -> dict[str, Any]:
    """Return the body that OpenAI's clients expect."""
    fallback = "invalid_request_error" if problem.status <= _LAST_CLIENT_ERROR else "server_error"
    kind = _LLAMA_TYPE if problem.more else _OPENAI_TYPES.get(problem.status, fallback)
    error = {"message": problem.message, "type": kind, "param": problem.param, "code": problem.code}
    return {"error": {**error, **dict(problem.more)}}


def anthropic_error(problem: Problem) -> dict[str, Any]:
    """Return the body that Anthropic's clients expect; the code, which has no field, is in its message."""
    fallback = "invalid_request_error" if problem.status <= _LAST_CLIENT_ERROR else "api_error"
    kind = _ANTHROPIC_TYPES.get(problem.status, fallback)
    error: dict[str, Any] = {"type": kind, "message": f"{problem.code}: {problem.message}"}
    if problem.param == "thread":
        error["details"] = {"error_code": problem.code}
    return {"type": "error", "error": error}


def ollama_error(problem: Problem) -> dict[str, Any]:
    """Return the body that Ollama's clients expect."""
    return {"error": f"{problem.message} ({problem.code})"}


def error_of(problem: Problem, path: str) -> dict[str, Any]:
    """Return the body in the shape of the API that `path` belongs to."""
    if path.startswith(_OLLAMA_PATH + "/"):
        return ollama_error(problem)
    is_anthropic = path == _ANTHROPIC_PATH or path.startswith(_ANTHROPIC_PATH + "/")
    return anthropic_error(problem) if is_anthropic else openai_error(problem)


def body_of(problem: Problem, path: str) -> bytes:
    """Return the body as JSON, for code below the framework."""
    return json.dumps(error_of(problem, path)).encode()
