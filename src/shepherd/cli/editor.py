"""Line editor of the prompt: history, several lines, completion of commands; and one that types by itself."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.application.current import get_app_session
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input, PipeInput
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output
from prompt_toolkit.patch_stdout import patch_stdout

from shepherd.cli.composing import word_at_end
from shepherd.commands.history import open_history
from shepherd.commands.screen import Screen, printable
from shepherd.encryption import Sealer

__all__ = ["Editor", "ScriptedEditor", "keep_typed_ahead"]

# Pauses of ScriptedEditor between two keys, and around a line.
_KEY_S, _PAUSE_S = 0.025, 0.7
_PATHS = PathCompleter(expanduser=True)


class Editor:
    """Editor of messages. Lines that are typed while it is `private` do not go into the history file.

    `keys` is the source of the keys, the terminal by default; `history`: see commands/history_place.py.
    `on_writing` is called with what there is of a message, as it changes; not for commands.
    Lines that `news` returns are shown above the prompt when it begins, and when `say_news` is called.
    """

    def __init__(
        self,
        screen: Screen,
        history: tuple[Path | None, Sealer | None],
        commands: Iterable[str],
        *,
        keys: Input | None = None,
        on_writing: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.private = False
        self.news: Callable[[], Iterable[str]] = tuple
        # Numbers of the memories that the last command listed, which Alt keys change.
        self.listed: Sequence[int] = ()
        self._screen = screen
        self._lock = threading.Lock()
        self._is_reading = False  # text on stdout goes above the prompt
        path, sealer = history
        self._history = open_history(path, lambda: self.private, screen.warn, sealer)
        self._session: PromptSession[str] = PromptSession(
            history=self._history,
            key_bindings=_key_bindings(self),
            multiline=True,
            completer=_Completer(commands),
            complete_while_typing=False,
            enable_history_search=True,
            input=keys,
            # With stdout in a pipe the answers go there, and the prompt must not.
            output=None if screen.out_is_terminal else create_output(stdout=sys.stderr),
        )
        self._cleared = False  # the last key was a Ctrl-C that cleared the line
        self._on_writing = on_writing
        self._session.default_buffer.on_text_changed += self._changed

    def _changed(self, buffer: Buffer) -> None:
        if buffer.text.strip() and not buffer.text.startswith("/"):
            self._on_writing(buffer.text)

    def read(self) -> str | None:
        """Return the next message, perhaps of several lines; None when the user is done."""
        while True:
            try:
                text = self._read_line()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if self._cleared:
                    return None
                self._cleared = True
                self._screen.note("Ctrl-C once more, or Ctrl-D, ends the conversation")
                continue
            self._cleared = False
            return text

    def say_news(self) -> None:
        """Write the news above the line that is being typed, from any thread.

        `news` is only called while the prompt is on a terminal, and nothing else is written meanwhile.
        """
        with self._lock:
            if self._is_reading:
                for line in self.news():
                    sys.stdout.write(f"{self._screen.styled(printable(line), 'dim', out=True)}\n")

    def _read_line(self) -> str:
        if not self._screen.out_is_terminal:
            return self._prompt()
        with patch_stdout(raw=True):
            self._set_reading(True)
            self.say_news()  # of the moment before it was set
            try:
                return self._prompt()
            finally:
                self._set_reading(False)

    def _prompt(self) -> str:
        return self._session.prompt(
            self._prompt_text(), prompt_continuation="  ", placeholder=self._placeholder()
        )

    def _set_reading(self, is_reading: bool) -> None:
        with self._lock:
            self._is_reading = is_reading

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        """Let the user edit the texts, one after the other; returns None when the user cancels."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory(), multiline=False)
        try:
            return {name: session.prompt(f"{name}: ", default=text) for name, text in texts.items()}
        except (EOFError, KeyboardInterrupt):
            return None

    def forget_lines(self, lines: Collection[str]) -> None:
        """Delete these lines from the history and its file."""
        self._history.remove(lines)

    def begin(self, command: str, event: KeyPressEvent) -> None:
        """Write a command for the memory that was listed, or for one of several, on an empty line."""
        if self.listed and not event.current_buffer.text:
            number = str(self.listed[0]) if len(self.listed) == 1 else ""
            event.current_buffer.insert_text(f"/{command} {number}")

    def clear_or_interrupt(self, event: KeyPressEvent) -> None:
        """Clear the line at Ctrl-C, or interrupt on an empty one."""
        if event.current_buffer.text:
            event.current_buffer.reset()
            self._cleared = True
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    def _placeholder(self) -> ANSI | None:
        if not self.listed:
            return None
        which = "it" if len(self.listed) == 1 else "one of them"
        text = f"Alt-E edits {which}, Alt-F forgets, Alt-P pins"
        return ANSI(self._screen.styled(text, "dim", out=self._screen.out_is_terminal))

    def _prompt_text(self) -> ANSI:
        name, style = ("private> ", "yellow") if self.private else ("> ", "cyan")
        return ANSI(self._screen.styled(name, style, out=self._screen.out_is_terminal))


def keep_typed_ahead() -> None:
    """Keep what was typed before a question is asked for the next prompt: it does not answer the question."""
    keys = get_app_session().input
    with keys.raw_mode():
        store_typeahead(keys, [*keys.read_keys(), *keys.flush_keys()])


class ScriptedEditor(Editor):
    """An editor that types given lines by itself, through the same keys as a user; then the input ends.

    `fast` leaves out the pauses.
    """

    def __init__(
        self,
        screen: Screen,
        history: tuple[Path | None, Sealer | None],
        commands: Iterable[str],
        keys: PipeInput,
        lines: Iterable[str],
        *,
        fast: bool = False,
    ) -> None:
        super().__init__(screen, history, commands, keys=keys)
        self._keys = keys
        self._lines = iter(lines)
        self._key_s, self._pause_s = (0.0, 0.0) if fast else (_KEY_S, _PAUSE_S)

    def read(self) -> str | None:
        """Return the next line, as it was typed; None behind the last."""
        line = next(self._lines, None)
        if line is None:
            return None
        if not self._screen.err_is_terminal and not self._screen.out_is_terminal:
            self._screen.print(f"> {line}")  # no terminal shows the typing
            return line
        # The prompt reads in this thread, so the keys are pressed in another.
        typing = threading.Thread(target=self._type, args=(line,), daemon=True)
        typing.start()
        text = super().read()
        typing.join()
        return text

    def _type(self, line: str) -> None:
        time.sleep(self._pause_s)
        for key in line:
            self._keys.send_text(key)
            time.sleep(self._key_s)
        time.sleep(self._pause_s)
        self._keys.send_text("\r")


# With Alt, on an empty line after a list; elsewhere these keys move by words and the like.
_LISTED_KEYS = {"e": "edit", "f": "forget", "p": "pin"}


@Condition
def _is_empty() -> bool:
    return not get_app().current_buffer.text


def _key_bindings(editor: Editor) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def _submit(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    bindings.add("c-c")(editor.clear_or_interrupt)
    for key, command in _LISTED_KEYS.items():
        bindings.add("escape", key, filter=_is_empty)(partial(editor.begin, command))
    return bindings


class _Completer(Completer):
    """Completion of slash commands at the start of the message, and of the path after an `@`."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = sorted(commands)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Complete the word so far."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            for command in self._commands:
                if command.startswith(text[1:]):
                    yield Completion(f"/{command}", start_position=-len(text))
            return
        word = word_at_end(text)
        if word is not None:
            yield from _paths(word)


def _paths(word: str) -> Iterator[Completion]:
    """Complete a path, with a quote before it or not; one with blanks gets quotes."""
    path = word.removeprefix('"')
    document = Document(path, len(path))
    found = _PATHS.get_completions(document, CompleteEvent(completion_requested=True))
    for one in found:
        text = path[: len(path) + one.start_position] + one.text
        is_folder = os.path.isdir(os.path.expanduser(text))
        if is_folder:
            text += "/"
        if " " in text or word != path:
            text = f'"{text}' if is_folder else f'"{text}"'
        yield Completion(text, start_position=-len(word), display=one.display)
