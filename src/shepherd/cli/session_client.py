"""What `shepherd serve --session` offers, as a client sees it: requests, and events as they happen."""

from __future__ import annotations

import json
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shepherd.errors import ShepherdError, UsageError
from shepherd.server.identity import CHAT

if TYPE_CHECKING:
    import httpx

__all__ = ["ServerEvent", "SessionClient"]

ServerEvent = tuple[str, dict[str, Any]]

_CONNECT_S = 10.0
# The server pings those who listen every 15 seconds. An answer may think for as long as it likes.
_SILENCE_S = 60.0
_LONGEST_ERROR = 1 << 16


class SessionClient:
    """One client of the conversation at `base`. `close` it; any thread may call, one request per thread."""

    def __init__(self, base: str, key: str = "") -> None:
        # Not at the top: 100 ms for those who talk with a model of their own.
        import httpx

        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("api_base: not an address", hint="--api-base http://127.0.0.1:8000")
        self.base = base.rstrip("/")
        self.name = secrets.token_hex(4)
        self.is_in_the_clear = bool(key) and parts.scheme == "http" and not _is_here(parts.hostname)
        self._http = httpx.Client(
            base_url=self.base,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(_CONNECT_S, read=None),
            trust_env=not _is_here(parts.hostname),  # a proxy does not know this machine
        )

    def close(self) -> None:
        """End everything that is under way."""
        self._http.close()

    def session(self) -> dict[str, Any]:
        """The conversation so far. Raises ShepherdError, as everything here does."""
        with self._failing():
            response = self._http.get("/session")
            self._require(response)
            return _object(response.text)

    def clear(self) -> None:
        """Begin a new conversation, for everybody."""
        with self._failing():
            self._require(self._http.post("/clear"))

    def ask(self, prompt: str, *, memory: bool = True) -> Generator[ServerEvent, None, None]:
        """The events of one turn. Closing the iterator early ends the answer."""
        body = {"prompt": prompt, "stream": True, "memory": memory, "client": self.name}
        return self._events("POST", "/request", json=body)

    def updates(self) -> Generator[ServerEvent, None, None]:
        """What happens in the conversation, until the server ends."""
        return self._events("GET", "/updates", timeout=(_CONNECT_S, _SILENCE_S, _CONNECT_S, _CONNECT_S))

    def _events(self, method: str, path: str, **options: Any) -> Generator[ServerEvent, None, None]:
        with self._failing(), self._http.stream(method, path, **options) as response:
            self._require(response)
            name = ""
            for line in response.iter_lines():
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data":
                    yield name, _object(value)

    def _require(self, response: httpx.Response) -> None:
        if response.is_success:
            return
        text = b"".join(_beginning(response)).decode("utf-8", "replace")
        try:
            said = str(json.loads(text)["error"]["message"])
        except (ValueError, TypeError, KeyError):
            said = f"HTTP {response.status_code}"
        if response.status_code == 404:
            said, hint = "no conversation is served there", "shepherd serve --session serves one"
        elif response.status_code in (401, 403):
            hint = f"the setting api_key (SHEPHERD_API_KEY) holds the key; it needs the scope {CHAT!r}"
        else:
            hint = ""
        raise ShepherdError(f"{self.base}: {said}", hint=hint)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        import httpx

        try:
            yield
        except httpx.ConnectError:
            raise ShepherdError(
                f"{self.base}: nobody answers there", hint="shepherd serve --session begins a conversation"
            ) from None
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise ShepherdError(
                f"{self.base}: the connection was lost ({type(error).__name__})", hint="try again"
            ) from None


def _is_here(host: str) -> bool:
    from shepherd.server.middleware import is_loopback

    return is_loopback(host)


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ShepherdError("what answers there is no session server", hint="check --api-base")
    return value


def _beginning(response: httpx.Response) -> Iterator[bytes]:
    """The beginning of an error's body."""
    n = 0
    for chunk in response.iter_bytes():
        yield chunk
        n += len(chunk)
        if n >= _LONGEST_ERROR:
            return
