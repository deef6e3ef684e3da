"""Logs that contain no text of users: JSON lines, or on a terminal lines for people.

A request is logged as its route (`/v1/facts/{key}`, not the path), and an error as its class and place:
paths, queries and messages of foreign exceptions may contain text of users.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import traceback
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING, Any

from shepherd.commands.screen import duration
from shepherd.errors import ShepherdError, UsageError
from shepherd.server.request_record import (
    App,
    Middleware,
    Receive,
    RequestRecord,
    Scope,
    Send,
    current,
    record_of,
)
from shepherd.server.state import InjectionTime
from shepherd.wording import counted

if TYPE_CHECKING:
    from shepherd.server.monitoring import Metrics

__all__ = ["JsonLines", "Observer", "ReadableLines", "log_to", "route_of"]

_log = logging.getLogger("shepherd.server.request_record")

# uvicorn's own access log contains paths and queries; this one replaces it.
_LOGGERS = ("shepherd", "uvicorn", "uvicorn.error")
_FRAMES = 5
_REFUSED = 400  # the lowest status of an error
_UNKNOWN_ROUTE = "other"


class JsonLines(logging.Formatter):
    """Formats a record as a line: time, level, logger, message, the request's id, and `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without a line break."""
        request = current.get()
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **({"request": request.id} if request is not None else {}),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = _describe_error(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False, default=str)


class ReadableLines(logging.Formatter):
    """Formats a record as a line for people: local time, then a request with its cost, or the message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; an error has its class and place behind it."""
        fields = getattr(record, "fields", {})
        text = _request_in_words(fields) if "route" in fields else record.getMessage()
        if record.levelno >= logging.WARNING:
            text = f"{record.levelname.lower()}: {text}"
        if record.exc_info and record.exc_info[0] is not None:
            error = _describe_error(record.exc_info[1])
            text += f": {error['type']} {error.get('message', '')}".rstrip()
            text += "".join(f"\n  {place}" for place in error["where"])
        return f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {text}"


def _request_in_words(fields: dict[str, Any]) -> str:
    """Return a request with its status, time and tokens; a refused or broken one with its id."""
    parts = [duration(fields["ms"])]
    if tokens := fields.get("tokens"):
        parts.append(
            ", ".join(f"{counted(number, 'token')} {name}" for name, number in tokens.items() if number)
        )
    if "ended" in fields:
        parts.append("ended early")
    if "key" in fields:
        parts.append(f"key {fields['key']}")
    if fields["status"] >= _REFUSED:
        parts.append(f"request {fields['request']}")
    told = " \N{MIDDLE DOT} ".join(filter(None, parts))
    return f"{fields['method']} {fields['route']} {fields['status']} \N{MIDDLE DOT} {told}"


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a record is of interest at a terminal: not each file of the page."""
    fields = getattr(record, "fields", {})
    route = str(fields.get("route", ""))
    return fields.get("status", 0) >= _REFUSED or not (route == "/" or route.startswith("/page/"))


class Observer(Middleware):
    """Gives each request an id, and logs and counts it when it has ended."""

    def __init__(self, app: App, *, metrics: Metrics | None = None) -> None:
        super().__init__(app)
        self._metrics = metrics

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = record_of(scope)
        ids = [(b"x-request-id", record.id.encode()), (b"request-id", record.id.encode())]

        async def observed(message: Any) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *ids]}
            elif message["type"] == "http.response.body":
                record.first_ms = record.first_ms or record.ms
                record.is_complete = not message.get("more_body", False)
            await send(message)

        token = current.set(record)
        if self._metrics is not None:
            self._metrics.began()
        try:
            await self._app(scope, receive, observed)
        finally:
            self._ended(scope, record)
            current.reset(token)

    def _ended(self, scope: Scope, record: RequestRecord) -> None:
        route = route_of(scope)
        if self._metrics is not None:
            self._metrics.ended(record, route)
        _log.info("request", extra={"fields": _fields(record, route)})


def route_of(scope: Scope) -> str:
    """Return the route of a request, with the names of its parameters instead of their values."""
    return str(getattr(scope.get("route"), "path", _UNKNOWN_ROUTE))


def log_to(path: str = "") -> None:
    """Log as JSON lines to a file of mode 0600, which may be rotated, or ("") to stderr.

    Informational messages of uvicorn are dropped. On a terminal, the lines are for people, without the files
    of the page.
    """
    # A module of 40 KB, for logging to a file alone.
    from logging.handlers import WatchedFileHandler

    class PrivateFile(WatchedFileHandler):
        def _open(self) -> TextIOWrapper:
            file = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            return TextIOWrapper(BufferedWriter(FileIO(file, "ab")), encoding="utf-8")

    try:
        handler: logging.Handler = PrivateFile(path) if path else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise UsageError(
            f"{path}: the log cannot be written: {error.strerror}",
            hint="--log names a file in a folder that exists",
        ) from error
    is_read = not path and sys.stderr.isatty()
    handler.setFormatter(ReadableLines() if is_read else JsonLines())
    if is_read:
        handler.addFilter(_is_news)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler] if name != "uvicorn.error" else []
        logger.propagate = name == "uvicorn.error"
        logger.setLevel(logging.INFO if name == "shepherd" else logging.WARNING)
    silent = logging.getLogger("uvicorn.access")
    silent.handlers, silent.propagate = [], False


def _fields(record: RequestRecord, route: str) -> dict[str, Any]:
    return {
        "request": record.id,
        "method": record.method,
        "route": route,
        "status": record.status,
        "ms": round(record.ms, 1),
        "first_ms": round(record.first_ms, 1),
        **({} if record.is_complete else {"ended": "early"}),
        **({"tokens": record.tokens} if record.tokens else {}),
        **({} if (spent := record.injection) is None else _milliseconds(spent)),
        **({"key": record.key.id} if record.key is not None else {}),
    }


def _milliseconds(spent: InjectionTime) -> dict[str, float]:
    return {"injection_ms": round(spent.wall_s * 1e3, 3), "injection_cpu_ms": round(spent.cpu_s * 1e3, 3)}


def _describe_error(error: BaseException | None) -> dict[str, Any]:
    frames = traceback.extract_tb(None if error is None else error.__traceback__)[-_FRAMES:]
    message = {"message": str(error)} if isinstance(error, ShepherdError) else {}
    where = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return {"type": type(error).__name__, **message, "where": where}
