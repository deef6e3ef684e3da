"""HTTP parts that the APIs share: JSON bodies and server-sent events."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from difflib import get_close_matches
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import Receive, Send

from shepherd.server.description import description_of
from shepherd.server.errors import invalid, unsupported
from shepherd.server.request_record import Scope
from shepherd.server.streaming import blocking, cancelled_on_disconnect

__all__ = [
    "LARGE_BYTES",
    "ClientBody",
    "EventStream",
    "FinalEvents",
    "Ignored",
    "JsonRoute",
    "LenientBody",
    "LineStream",
    "ModelName",
    "Refused",
    "StrictBody",
    "dumps",
    "event",
    "line",
    "quoted",
]


class StrictBody(BaseModel):
    """A JSON body; an unknown field is refused, since it may be one that matters."""

    model_config = ConfigDict(extra="forbid")


# Fields of Shepherd's own in the bodies of other services' APIs: one that is misspelt must not be ignored.
_OWN = ("memory", "memory_tools", "learned", "recalled", "replaces", "last_known", "documents")
_AKIN = 0.8  # how much of two names has to be the same, from 0 to 1
_MOST_UNKNOWN, _MOST_CHARS = 64, 64  # fields, and characters of a name that is looked at
_MOST_NOTED = 256
# Fields of other servers that would change the answer, and what to send instead.
_ELSEWHERE = {
    "functions": "send tools",
    "function_call": "send tool_choice",
    "web_search_options": "this server searches no web",
    "audio": "the model writes text",
    "structured_outputs": "send response_format or grammar",
    **dict.fromkeys(("guided_json", "guided_choice", "guided_regex"), "send response_format or grammar"),
    "guided_grammar": "send grammar",
}


_noted: set[tuple[str, str]] = set()
_log = logging.getLogger(__name__)


class ClientBody(BaseModel):
    """A body of an API that other services have too.

    Clients send fields of many services with it. As most servers do, this one passes over those that it
    doesn't know, but for fields that would change the answer, and for what looks like one of our own.
    """

    model_config = ConfigDict(extra="allow")

    def check_unknown(self, route: str) -> None:
        """Note fields that are passed over, once each. Denied for those that mustn't be."""
        unknown = self.model_extra or {}
        if len(unknown) > _MOST_UNKNOWN:
            raise invalid("body", f"it has more than {_MOST_UNKNOWN} fields that this server doesn't know")
        mine = [own for own in _OWN if own in type(self).model_fields]
        for name, value in unknown.items():
            if len(name) > _MOST_CHARS:
                continue
            if name in _ELSEWHERE and value not in (None, False, "", [], {}, "none"):
                raise unsupported(name, _ELSEWHERE[name])
            if meant := get_close_matches(name.casefold(), mine, 1, _AKIN):
                raise invalid(name, f"there is no such field (did you mean {meant[0]}?)")
            if (route, name) not in _noted and len(_noted) < _MOST_NOTED:
                _noted.add((route, name))
                _log.info("%s: the field %s is ignored", route, ascii(name))


class LenientBody(BaseModel):
    """A JSON object that clients send back as they got it, with fields of other services in it."""

    model_config = ConfigDict(extra="ignore")


_Body = TypeVar("_Body", bound=BaseModel)
_T = TypeVar("_T")
# A field that is accepted, since clients of other services send it, and changes nothing.
Ignored = Annotated[_T, Field(description="Accepted and ignored.", json_schema_extra={"x-ignored": True})]
# A field that is declared for the sake of a better message: it is refused, and not in the API's description.
Refused = Annotated[_T, SkipJsonSchema()]
# The name of a model; null is as none.
ModelName = Annotated[str, BeforeValidator(lambda name: "" if name is None else name)]
# Bytes of a body that is parsed on a thread: about a millisecond.
LARGE_BYTES = 1 << 16


class JsonRoute(Route):
    """`POST path` for `handler(request, body)`. RequestValidationError for a body that is not valid."""

    def __init__(
        self, path: str, model: type[_Body], handler: Callable[[Request, _Body], Awaitable[Response]]
    ) -> None:
        async def endpoint(request: Request) -> Response:
            data = await request.body()
            if len(data) <= LARGE_BYTES:
                return await handler(request, _read(model, request, data))
            return await handler(request, await blocking(lambda: _read(model, request, data), is_large=True))

        super().__init__(path, endpoint, methods=["POST"])
        description_of(handler)  # InternalError without one
        self.handler = handler

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match like any route, and put the route into the scope as FastAPI's routes do."""
        match, child = super().matches(scope)
        if match is not Match.NONE:
            child["route"] = self
        return match, child


def _read(model: type[_Body], request: Request, data: bytes) -> _Body:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
        raise _invalid("the content type is not application/json")
    if not data:
        raise _invalid("Field required")
    try:
        # Python's parser reads half a surrogate pair, which is refused later with the name of its field.
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise _invalid("JSON decode error") from None
    try:
        body = model.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_context=False)) from None
    if isinstance(body, ClientBody):
        body.check_unknown(request.url.path)
    return body


def _invalid(message: str) -> RequestValidationError:
    problem: dict[str, Any] = {"loc": ("body",), "msg": message, "type": "json_invalid"}
    return RequestValidationError([problem])


_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
_encoder = json.JSONEncoder(separators=(",", ":"))


def dumps(value: Any) -> str:
    """Return JSON without spaces; half a surrogate pair stays an escape."""
    return _encoder.encode(value)


def quoted(text: str) -> str:
    """Return a text as JSON, faster than `dumps`."""
    return encode_basestring_ascii(text)


def event(value: Any, name: str = "") -> bytes:
    """Return one server-sent event; `value` is JSON already if it is a string."""
    data = value if isinstance(value, str) else dumps(value)
    return f"event: {name}\ndata: {data}\n\n".encode() if name else f"data: {data}\n\n".encode()


def line(value: Any) -> bytes:
    """Return one line of JSON."""
    return f"{dumps(value)}\n".encode()


class FinalEvents(bytes):
    """The last events of a stream: they are sent together with the end of the response."""


class EventStream(Response):
    """Sends `events` as they come; the generator may mark its last ones as FinalEvents.

    When the client disconnects, `cancel` is called, and the rest of the generator is read but not sent.
    """

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], cancel: Callable[[], None]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        is_begun = False
        async with cancelled_on_disconnect(receive, self._cancel), aclosing(self._events) as events:
            async for chunk in events:
                if not is_begun:
                    await send(start)
                    is_begun = True
                is_last = isinstance(chunk, FinalEvents)
                await send({"type": "http.response.body", "body": chunk, "more_body": not is_last})
                if is_last:
                    return
        if not is_begun:
            await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class LineStream(EventStream):
    """Sends lines of JSON in place of events."""

    media_type = "application/x-ndjson"
