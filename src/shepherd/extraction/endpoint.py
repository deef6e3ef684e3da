"""Extraction by an OpenAI-compatible server."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from shepherd.errors import ModelError
from shepherd.extraction.answer import (
    ANSWER_SCHEMA,
    Cancellation,
    CancelledError,
    UnavailableError,
    UnusableAnswerError,
)
from shepherd.extraction.request import INSTRUCTIONS, extraction_request
from shepherd.http_endpoint import ResponseTooLongError, ServerResponse, api_url, bearer_headers, post_json

__all__ = ["EndpointExtractor", "RefusedError"]

_MOST_BYTES = 1 << 20
_PATIENCE = 3  # times the timeout, for a whole answer
_MAY_PASS = {408, 429}
# What servers answer that do not know response_format.
_BAD_REQUEST = {400, 422}
_NO_CHAT = "memory_extraction_endpoint names a server with OpenAI's /v1/chat/completions"
_HINTS = {
    401: "set memory_extraction_api_key",
    403: "set memory_extraction_api_key",
    404: "check memory_extraction_endpoint and memory_extraction_model",
    413: "set a smaller memory_extraction_max_turns",
}


class RefusedError(ModelError):
    """The server understood the request and refuses it."""


class EndpointExtractor:
    """Post one request a call. A call that is stopped returns at once, whatever the network does.

    UsageError for an address or a key that cannot be one.
    """

    facts_only = False

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
        self.url = api_url("memory_extraction_endpoint", endpoint, "/chat/completions")
        self._headers = bearer_headers("memory_extraction_api_key", api_key)
        self._timeout_s = timeout_s
        self._takes_schema = True
        self._body: dict[str, Any] = {
            "model": model or "default",
            "max_tokens": max_tokens,
            "temperature": temperature,
            "stream": False,
        }

    def answers(self, lines: Sequence[str], cancellation: Cancellation) -> list[str]:
        """Return the raw answer."""
        body = self._body | {
            "messages": [
                {"role": "system", "content": INSTRUCTIONS},
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

    def release(self) -> None:
        """Do nothing: the model is elsewhere."""

    def close(self) -> None:
        """Do nothing: no connection is kept between calls."""

    def _post(self, body: dict[str, Any], cancellation: Cancellation) -> ServerResponse:
        """Send it from a thread of its own, which is abandoned when the call is cancelled.

        A blocked connect, a name that does not resolve, a server that sends nothing: none of them can be
        interrupted from outside, and none may delay the end of the program.
        """
        # Never marked as running, so that it can be cancelled at any time.
        response: futures.Future[ServerResponse] = futures.Future()
        cancellation.attach(response.cancel)
        try:
            threading.Thread(
                target=self._exchange, args=(body, response), name="shepherd-extraction-http", daemon=True
            ).start()
            # The client's own timeout begins anew with every byte.
            return response.result(_PATIENCE * self._timeout_s)
        except futures.TimeoutError:
            response.cancel()
            raise UnavailableError(
                f"{self.url}: the answer does not end within {_PATIENCE * self._timeout_s:g} s",
                hint="a smaller model of that server may be fast enough",
            ) from None
        except futures.CancelledError:
            raise CancelledError from None
        finally:
            cancellation.attach(None)

    def _exchange(self, body: dict[str, Any], response: futures.Future[ServerResponse]) -> None:
        with contextlib.suppress(futures.InvalidStateError):  # cancelled
            try:
                response.set_result(self._send(body, response))
            except Exception as error:
                response.set_exception(error)

    def _send(self, body: dict[str, Any], response: futures.Future[ServerResponse]) -> ServerResponse:
        import httpx

        timeout = httpx.Timeout(self._timeout_s, connect=min(self._timeout_s, 10.0))
        try:
            return post_json(
                self.url,
                body,
                self._headers,
                timeout=timeout,
                max_bytes=_MOST_BYTES,
                should_stop=response.cancelled,
            )
        except httpx.TransportError as error:
            raise UnavailableError(
                f"{self.url}: {type(error).__name__}", hint="is the server of memory_extraction_endpoint up?"
            ) from error
        except ResponseTooLongError as error:
            raise UnusableAnswerError(str(error), hint=_NO_CHAT) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # such as an answer that cannot be unpacked
            raise UnusableAnswerError(f"{self.url}: {type(error).__name__}", hint=_NO_CHAT) from error


def _content(response: ServerResponse) -> str:
    """Return the text of the first choice."""
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
        raise UnusableAnswerError("the server's answer is not a chat completion", hint=_NO_CHAT) from error
    if not isinstance(content, str):
        raise UnusableAnswerError("the server's answer has no text", hint=_NO_CHAT)
    return content
