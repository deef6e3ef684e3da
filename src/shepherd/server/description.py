"""Descriptions of what routes answer, written above their handlers; /openapi.json is made of them.

The shapes of answers are named, so that their module (`reference.answers`) is loaded with the first request
for the document and not when the server starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from shepherd.errors import InternalError

__all__ = [
    "ALIASED_BELOW",
    "ALIASES",
    "JSON_LINES",
    "MODEL",
    "USER",
    "Description",
    "described",
    "description_of",
]

_Handler = TypeVar("_Handler", bound=Callable[..., Any])
_NAME = "shepherd_description"

JSON_LINES = "application/jsonl"
# What fields of several requests mean.
MODEL = "A name that GET /v1/models lists; none means `default`, as any other name does on most servers."
USER = "The user whose memory is used; with an API key, one of the key owner's users."
# Other addresses of routes: those of llama.cpp's server, and the APIs' own without `/v1`.
ALIASES = {
    "/v1/health": "/health",
    "/rerank": "/v1/rerank",
    "/reranking": "/v1/rerank",
    "/v1/reranking": "/v1/rerank",
    "/chat/completions/input_tokens": "/v1/chat/completions/input_tokens",
    **{f"/{name}": f"/v1/{name}" for name in ("chat/completions", "embeddings", "messages")},
    **{f"/{name}": f"/v1/{name}" for name in ("models", "responses", "conversations")},
}
# What is below these is below `/v1`, too: /responses/resp_1/cancel.
ALIASED_BELOW = ("/messages/", "/responses/", "/conversations/")


@dataclass(frozen=True, slots=True)
class Description:
    """The answers of a route.

    `answer` names the shape of a JSON answer, or is "" if the body has the `media_type` and no such shape.
    `refusals` are statuses of its own errors, beside those that all routes have. `also` has the shapes of
    other statuses. `events` names the shape of one event of a stream, and `lines` that of one line;
    `streams_with` is the field that asks for it, "" if there is always one. `takes_file` is true if the body
    is a file.
    """

    answer: str = ""
    refusals: tuple[int, ...] = ()
    media_type: str = "application/json"
    also: tuple[tuple[int, str], ...] = ()
    events: str = ""
    lines: str = ""
    streams_with: str = ""
    takes_file: bool = False


def described(
    answer: str = "",
    *refusals: int,
    media_type: str = "application/json",
    also: dict[int, str] | None = None,
    events: str = "",
    lines: str = "",
    streams_with: str = "",
    takes_file: bool = False,
) -> Callable[[_Handler], _Handler]:
    """Describe the answers of a handler; its docstring says what it does."""
    made = Description(
        answer, refusals, media_type, tuple((also or {}).items()), events, lines, streams_with, takes_file
    )

    def note(handler: _Handler) -> _Handler:
        setattr(handler, _NAME, made)
        return handler

    return note


def description_of(handler: Callable[..., Any]) -> Description:
    """Return the description of a handler. InternalError for one without it, or without a docstring."""
    found = getattr(handler, _NAME, None)
    if not isinstance(found, Description) or not handler.__doc__:
        raise InternalError(f"the route of {handler.__qualname__} has no description")
    return found
