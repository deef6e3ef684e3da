"""The line at the prompt: editing, history, more than one line, completion of commands."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import create_output

from shepherd.commands.history import open_history
from shepherd.commands.screen import Screen

__all__ = ["Editor"]


class Editor:
    """Reads what the user types. `private` lines are kept in this process, and not in the history file.

    `keys`: where they come from; the terminal unless something else is given.
    """

    def __init__(
        self, screen: Screen, history_path: Path, commands: Iterable[str], *, keys: Input | None = None
    ) -> None:
        self.private = False
        self.n_listed = 0  # memories that the last command listed, for one key to change them
        self._screen = screen
        self._session: PromptSession[str] = PromptSession(
            history=open_history(history_path, lambda: self.private, screen.warn),
            key_bindings=_key_bindings(self),
            multiline=True,
            completer=_CommandCompleter(commands),
            complete_while_typing=False,
            enable_history_search=True,
            input=keys,
            # With stdout in a pipe the answers go there, and the prompt must not.
            output=None if screen.out_is_terminal else create_output(stdout=sys.stderr),
        )
        self._cleared = False  # the last key was a Ctrl-C that cleared the line

    def read(self) -> str | None:
        """The next message, which may have several lines; None when the user is done."""
        while True:
            try:
                text = self._session.prompt(
                    self._prompt_text(), prompt_continuation="  ", placeholder=self._placeholder()
                )
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

    def revise(self, texts: dict[str, str]) -> dict[str, str] | None:
        """The texts, one after the other, as lines to edit; None when the user gave up. In no history."""
        session: PromptSession[str] = PromptSession(history=InMemoryHistory(), multiline=False)
        try:
            return {name: session.prompt(f"{name}: ", default=text) for name, text in texts.items()}
        except (EOFError, KeyboardInterrupt):
            return None

    def begin(self, command: str, event: KeyPressEvent) -> None:
        """On an empty line: write a command for the memory that was listed, or for one of several."""
        if self.n_listed and not event.current_buffer.text:
            event.current_buffer.insert_text(f"/{command} 1" if self.n_listed == 1 else f"/{command} ")

    def clear_or_interrupt(self, event: KeyPressEvent) -> None:
        """Ctrl-C: clear the line; on an empty one, interrupt."""
        if event.current_buffer.text:
            event.current_buffer.reset()
            self._cleared = True
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    def _placeholder(self) -> ANSI | None:
        if not self.n_listed:
            return None
        which = "it" if self.n_listed == 1 else "one of them"
        text = f"Alt-E edits {which}, Alt-F forgets, Alt-P pins"
        return ANSI(self._screen.styled(text, "dim", out=self._screen.out_is_terminal))

    def _prompt_text(self) -> ANSI:
        name, style = ("private> ", "yellow") if self.private else ("> ", "cyan")
        return ANSI(self._screen.styled(name, style, out=self._screen.out_is_terminal))


# With Alt, on an empty line behind a list; elsewhere these keys move by words and the like.
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


class _CommandCompleter(Completer):
    """Completes the name of a slash command at the start of the message."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = sorted(commands)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """The commands that begin like the word so far."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text and "\n" not in text:
            for command in self._commands:
                if command.startswith(text[1:]):
                    yield Completion(f"/{command}", start_position=-len(text))
