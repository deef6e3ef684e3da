"""`shepherd --backend cli`: takes part in a server's conversation, at the prompt, with -e, or in JSON."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from shepherd.cli.main import INTERRUPTED
from shepherd.cli.session_client import ServerEvent, SessionClient
from shepherd.commands.screen import Screen, counted, near_miss, printable
from shepherd.config import Config
from shepherd.errors import ShepherdError, UsageError

__all__ = ["take_part"]

_COMMANDS = {
    "help": "the commands",
    "clear": "begin a new conversation, for everybody",
    "private": "switch: say things that are neither looked up nor kept",
    "quit": "leave; the conversation goes on",
}


def take_part(config: Config, message: str | None, screen: Screen, *, as_json: bool, memory: bool) -> int:
    """One answer, lines of JSON, or a conversation at the prompt; gives the exit code."""
    with closing(SessionClient(config.api_base, config.api_key)) as client:
        if client.is_in_the_clear:
            screen.warn("the key travels unencrypted", "https://, or a tunnel, keeps it from being read")
        if as_json:
            return _answer_lines(client, message, screen, memory=memory)
        if message is not None:
            return _answer(client, message, screen, memory=memory)
        return _Conversation(client, screen, memory=memory).run()


def _answer(client: SessionClient, message: str, screen: Screen, *, memory: bool) -> int:
    """Show one answer as it comes; Ctrl-C ends it, for everybody."""
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
    """Reads, asks and shows; what others say meanwhile appears above the prompt."""

    def __init__(self, client: SessionClient, screen: Screen, *, memory: bool) -> None:
        from shepherd.cli.editor import Editor
        from shepherd.paths import history_file

        self._client, self._screen, self._memory = client, screen, memory
        self._editor = Editor(screen, history_file(), _COMMANDS)
        # Of the screen: while an answer of our own comes, what others say waits.
        self._lock = threading.Lock()
        self._is_done = False

    def run(self) -> int:
        """Until /quit or Ctrl-D; gives the exit code."""
        updates = self._client.updates()
        _, about = next(updates)  # from here on nothing is missed
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
        # What is written to stdout while the prompt stands goes above it.
        if not self._screen.out_is_terminal:
            return self._editor.read()
        from prompt_toolkit.patch_stdout import patch_stdout

        with patch_stdout(raw=True):
            return self._editor.read()

    def _handle(self, text: str) -> None:
        try:
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
        """The message that a line is; None when it was a command."""
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
            hint = near_miss(name, _COMMANDS).replace("mean ", "mean /") or "/help lists them"
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
                    self._screen.styled(f"{error}: what others say is not shown any more", "dim", out=True)
                )

    def _show(self, name: str, data: dict[str, Any]) -> None:
        """What another client did."""
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
