"""`shepherd --backend cli`: join the conversation of a `shepherd serve --session`."""

from __future__ import annotations

import json
import secrets
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from shepherd.cli import INTERRUPTED
from shepherd.cli.composing import require_utf8
from shepherd.commands.screen import Screen, counted, near_miss, printable
from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError
from shepherd.server.identity import CHAT

if TYPE_CHECKING:
    import httpx

__all__ = ["join_session"]

ServerEvent = tuple[str, dict[str, Any]]

_CONNECT_S = 10.0
# The server pings its listeners every 15 seconds. There is no limit for the time to the first token.
_SILENCE_S = 60.0
_LONGEST_ERROR = 1 << 16

_COMMANDS = {
    "help": "the commands",
    "clear": "start a new conversation, for everybody",
    "private": "switch: send messages without reading or storing memories",
    "quit": "leave; the conversation continues",
}


def join_session(config: Config, message: str | None, screen: Screen, *, as_json: bool, memory: bool) -> int:
    """Get one answer, talk in lines of JSON, or converse at the prompt; returns the exit code."""
    with closing(SessionClient(config.api_base, config.api_key)) as client:
        if client.is_in_the_clear:
            screen.warn("the key travels unencrypted", "https://, or a tunnel, keeps it from being read")
        if as_json:
            return _answer_lines(client, message, screen, memory=memory)
        if message is not None:
            return _answer(client, message, screen, memory=memory)
        return _Conversation(client, config, screen, memory=memory).run()


def _answer(client: SessionClient, message: str, screen: Screen, *, memory: bool) -> int:
    """Stream one answer; Ctrl-C ends it, for everybody."""
    column_is_zero = True
    with closing(client.ask(message, memory=memory)) as events:
        try:
            for name, data in events:
                if name == "delta":
                    screen.write(_text(data, "text"))
                    column_is_zero = _text(data, "text").endswith("\n")
                elif name == "tool_call":
                    screen.note(f"calls {_text(data, 'name')}")
                elif name == "error":
                    raise ShepherdError(_text(data, "message"))
                elif name == "response_complete":
                    _warn(data, screen)
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            if not column_is_zero:
                screen.write("\n")
    return 0


def _answer_lines(client: SessionClient, message: str | None, screen: Screen, *, memory: bool) -> int:
    from shepherd.cli.jsonlines import lines_of_stdin, parse_line, put, put_error

    about = client.session()
    put(screen, "connected", {**about, "messages": len(about.get("messages", ()))})
    code = 0
    for line in [message] if message is not None else lines_of_stdin():
        try:
            prompt, with_memory = (line, True) if isinstance(line, str) else parse_line(line)
            for name, data in client.ask(prompt, memory=memory and with_memory):
                put(screen, name, data)
                code = 1 if name == "error" else code
        except ShepherdError as error:
            code = put_error(screen, error)
    return code


class _Conversation:
    """Loop of reading and asking; messages of other clients appear above the prompt."""

    def __init__(self, client: SessionClient, config: Config, screen: Screen, *, memory: bool) -> None:
        from shepherd.cli.editor import Editor
        from shepherd.commands.history_place import history_place

        self._client, self._screen, self._memory = client, screen, memory
        self._editor = Editor(screen, history_place(config, with_memory=True), _COMMANDS)
        # Guards the screen: messages of others wait while an answer of our own streams.
        self._lock = threading.Lock()
        self._is_done = False

    def run(self) -> int:
        """Converse until /quit or Ctrl-D; returns the exit code."""
        updates = self._client.updates()
        _, about = next(updates)  # from here on no update is missed
        self._greet(about)
        self._screen.begin_chat()
        listening = threading.Thread(
            target=self._listen, args=(updates,), name="shepherd-updates", daemon=True
        )
        listening.start()
        while not self._is_done:
            text = self._read()
            if text is None:
                break
            if text.strip():
                self._handle(text)
        self._is_done = True
        return 0

    def _read(self) -> str | None:
        # Text that is written to stdout during the prompt goes above it.
        if not self._screen.out_is_terminal:
            return self._editor.read()
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout(raw=True):
            return self._editor.read()

    def _handle(self, text: str) -> None:
        try:
            require_utf8(text)
            message = self._message_of(text)
            if message is not None:
                with self._lock:
                    _answer(
                        self._client, message, self._screen, memory=self._memory and not self._editor.private
                    )
        except ShepherdError as error:
            self._screen.error(str(error), error.hint)
        except KeyboardInterrupt:
            self._screen.note("interrupted")

    def _message_of(self, line: str) -> str | None:
        """Run a command and return None, or return the line's message."""
        if not line.startswith("/"):
            return line
        if line.startswith("//"):
            return line[1:]
        name = line[1:].strip()
        if name == "help":
            for command, text in _COMMANDS.items():
                self._screen.print(f"/{command:10} {text}")
        elif name == "clear":
            self._client.clear()
            self._screen.note("a new conversation")
        elif name == "private":
            self._editor.private = not self._editor.private
            self._screen.note(f"private: {'on' if self._editor.private else 'off'}")
        elif name == "quit":
            self._is_done = True
        else:
            hint = near_miss(f"/{name}", (f"/{known}" for known in _COMMANDS)) or "/help lists them"
            raise UsageError(f"there is no command /{ascii(name)[1:-1][:40]} here", hint=hint)
        return None

    def _greet(self, about: dict[str, Any]) -> None:
        self._screen.note(
            f"{self._client.base} · {about.get('model')} · window {about.get('window_tokens'):,} tokens"
            f" · {counted(about.get('messages', 0), 'message')} so far"
        )
        self._screen.note("/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves")

    def _listen(self, updates: Iterator[ServerEvent]) -> None:
        try:
            for name, data in updates:
                if self._is_done:
                    return
                if data.get("client") != self._client.name:
                    self._show(name, data)
        except ShepherdError as error:
            if not self._is_done:
                self._say(
                    self._screen.styled(f"{error}: messages of others are no longer shown", "dim", out=True)
                )

    def _show(self, name: str, data: dict[str, Any]) -> None:
        """Show an action of another client."""
        if name == "message_added":
            mark = "other> " if data.get("role") == "user" else ""
            self._say(self._screen.styled(mark, "cyan", out=True) + printable(_text(data, "content")))
        elif name == "cleared":
            self._say(self._screen.styled("another client began a new conversation", "dim", out=True))
        elif name == "error":
            self._say(self._screen.styled(printable(_text(data, "message")), "dim", out=True))

    def _say(self, text: str) -> None:
        with self._lock:
            sys.stdout.write(text + "\n")  # not the screen's own: it may be patched at the moment
            sys.stdout.flush()


def _text(data: dict[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""


def _warn(data: dict[str, Any], screen: Screen) -> None:
    for warning in data.get("warnings", ()):
        if isinstance(warning, dict):
            screen.warn(_text(warning, "message"), _text(warning, "hint"))


class SessionClient:
    """HTTP client of the conversation at `base`. `close` it. Threads can share it, with a request each."""

    def __init__(self, base: str, key: str = "") -> None:
        # Not at the top: it takes 100 ms.
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
            trust_env=not _is_here(parts.hostname),  # no proxy for this machine
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def session(self) -> dict[str, Any]:
        """Return the conversation so far. Raises ShepherdError, as all methods do."""
        with self._failing():
            response = self._http.get("/session")
            self._require(response)
            return _object(response.text)

    def clear(self) -> None:
        """Start a new conversation, for everybody."""
        with self._failing():
            self._require(self._http.post("/clear", params={"client": self.name}))

    def ask(self, prompt: str, *, memory: bool = True) -> Generator[ServerEvent, None, None]:
        """Give the events of one turn. Closing the iterator early ends the answer."""
        body = {"prompt": prompt, "stream": True, "memory": memory, "client": self.name}
        return self._events("POST", "/request", json=body)

    def updates(self) -> Generator[ServerEvent, None, None]:
        """Give the events of the conversation, until the server ends."""
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
                f"no server answers at {self.base}", hint="start one with shepherd serve --session"
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
        raise ShepherdError(
            "the server at this address is not a shepherd serve --session", hint="check --api-base"
        )
    return value


def _beginning(response: httpx.Response) -> Iterator[bytes]:
    """Give the beginning of an error's body."""
    n = 0
    for chunk in response.iter_bytes():
        yield chunk
        n += len(chunk)
        if n >= _LONGEST_ERROR:
            return
