"""Extraction by an OpenAI-compatible server."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shepherd.errors import ModelError, UsageError
from shepherd.extraction.answer import (
    ANSWER_SCHEMA,
    Cancellation,
    CancelledError,
    UnavailableError,
    UnusableAnswerError,
)
from shepherd.extraction.request import EXTRACTION_PROMPT, extraction_request

if TYPE_CHECKING:
    import httpx

__all__ = ["EndpointExtractor", "RefusedError", "chat_completions_url"]

_MOST_BYTES = 1 << 20
_PATIENCE = 3  # times the timeout, for a whole answer
_MAY_PASS = {408, 429}
# What servers answer that do not know response_format.
_BAD_REQUEST = {400, 422}
_NO_CHAT = "memory_extraction_endpoint names a server with OpenAI's /v1/chat/completions"


class RefusedError(ModelError):
    """The server understood the request and will not do it."""


def chat_completions_url(endpoint: str) -> str:
    """Where to post for an endpoint that is written with or without /v1, and with or without a final slash.

    Raises UsageError for what is no HTTP address.
    """
    no_address = UsageError(
        f"memory_extraction_endpoint is no HTTP address: {endpoint[:40]!a}",
        hint="write it like http://127.0.0.1:8080/v1",
    )
    try:
        parts = urlsplit(endpoint.strip())
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is none
        raise no_address from None
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        raise no_address
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    if not path.endswith("/v1"):
        path += "/v1"
    return f"{parts.scheme}://{parts.netloc}{path}/chat/completions"


class EndpointExtractor:
    """Posts one request a call. A call that is stopped returns at once, whatever the network does.

    UsageError for an address or a key that cannot be one.
    """

    copies = False

    def __init__(
        self,
        endpoint: str,
        *,
        model: str = "",
        api_key: str = "",
        max_tokens: int = 512,
        temperature: float = 0.1,
        timeout_s: float = 60.0,
    ) -> None:
        self.url = chat_completions_url(endpoint)
        if not (api_key.isascii() and api_key.isprintable()):
            raise UsageError(
                "memory_extraction_api_key has a character that no HTTP header can hold",
                hint="copy it anew, without quotes, blanks and line ends around it",
            )
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout_s = timeout_s
        self._takes_schema = True
        self._body: dict[str, Any] = {
            "model": model or "default",
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": False,
        }

    def answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        """The raw answer."""
        body = self._body | {
            "messages": [
                {"role": "system", "content": EXTRACTION_PROMPT},
                {"role": "user", "content": extraction_request(lines)},
            ]
        }
        schema = {"name": "memory", "strict": True, "schema": ANSWER_SCHEMA}
        with_schema = body | {"response_format": {"type": "json_schema", "json_schema": schema}}
        response = self._post(with_schema if self._takes_schema else body, cancellation)
        if self._takes_schema and response.status in _BAD_REQUEST:
            response = self._post(body, cancellation)
            self._takes_schema = response.status in _BAD_REQUEST
        return [_content(response)]

    def close(self) -> None:
        """Nothing is held between calls."""

    def _post(self, body: dict[str, Any], cancellation: Cancellation) -> _Response:
        """Send it from a thread of its own, which is left alone when the call is stopped.

        A blocked connect, a name that does not resolve, a server that sends nothing: none of them can be
        interrupted from outside, and none may hold up the end of the program.
        """
        request = _Request(self.url, self._headers, body, self._timeout_s)
        cancellation.attach(request.abandon)
        try:
            threading.Thread(target=request.run, name="shepherd-extraction-http", daemon=True).start()
            # The client's own timeout begins anew with every byte.
            if not request.done.wait(_PATIENCE * self._timeout_s):
                request.abandon()
                raise UnavailableError(
                    f"{self.url}: the answer does not end within {_PATIENCE * self._timeout_s:g} s",
                    hint="a smaller model of that server may be fast enough",
                )
        finally:
            cancellation.attach(None)
        if request.abandoned:
            raise CancelledError
        if isinstance(request.outcome, Exception):
            raise request.outcome
        assert request.outcome is not None
        return request.outcome


class _Response:
    __slots__ = ("body", "retry_after_s", "status")

    def __init__(self, status: int, body: bytes, retry_after_s: float) -> None:
        self.status = status
        self.body = body
        self.retry_after_s = retry_after_s


class _Request:
    """One exchange with the server."""

    def __init__(self, url: str, headers: dict[str, str], body: dict[str, Any], timeout_s: float) -> None:
        self._url, self._headers, self._body, self._timeout_s = url, headers, body, timeout_s
        self.done = threading.Event()
        self.abandoned = False
        self.outcome: _Response | Exception | None = None

    def abandon(self) -> None:
        """Let the caller go on without an answer."""
        self.abandoned = True
        self.done.set()

    def run(self) -> None:
        """Do it; the outcome is there when `done` is set."""
        try:
            self.outcome = self._exchange()
        except Exception as error:
            self.outcome = error
        finally:
            self.done.set()

    def _exchange(self) -> _Response:
        import httpx

        timeout = httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, 10.0))
        try:
            with (
                httpx.Client(timeout=timeout) as client,
                client.stream("POST", self._url, json=self._body, headers=self._headers) as response,
            ):
                body = self._read(response)
                return _Response(response.status_code, body, _retry_after(response.headers))
        except httpx.TransportError as error:
            raise UnavailableError(
                f"{self._url}: {type(error).__name__}", hint="is the server of memory_extraction_endpoint up?"
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # such as an answer that cannot be unpacked
            raise UnusableAnswerError(f"{self._url}: {type(error).__name__}", hint=_NO_CHAT) from error

    def _read(self, response: httpx.Response) -> bytes:
        body = bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > _MOST_BYTES or self.abandoned:
                raise UnusableAnswerError(
                    f"{self._url}: the answer is longer than {_MOST_BYTES} bytes", hint=_NO_CHAT
                )
        return bytes(body)


def _retry_after(headers: httpx.Headers) -> float:
    try:
        seconds = float(headers.get("Retry-After", "0"))
    except ValueError:  # a date; our own interval does as well
        return 0.0
    return max(seconds, 0.0) if math.isfinite(seconds) else 0.0


def _content(response: _Response) -> str:
    """The text of the first choice."""
    status = response.status
    if status in _MAY_PASS or status >= 500:
        raise UnavailableError(
            f"the server answers {status}",
            hint="it is asked again later",
            retry_after_s=response.retry_after_s,
        )
    if status != 200:
        raise RefusedError(f"the server answers {status}", hint=_HINTS.get(status, ""))
    try:
        content = json.loads(response.body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UnusableAnswerError("the server's answer is no chat completion", hint=_NO_CHAT) from error
    if not isinstance(content, str):
        raise UnusableAnswerError("the server's answer has no text", hint=_NO_CHAT)
    return content


_HINTS = {
    401: "set memory_extraction_api_key",
    403: "set memory_extraction_api_key",
    404: "check memory_extraction_endpoint and memory_extraction_model",
    413: "set a smaller memory_extraction_max_turns",
}
