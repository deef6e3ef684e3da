"""Dialogs: edit texts, confirm, pick one of several, read a text; and the text of the help."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Button, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from shepherd.commands.screen import printable, shortened

__all__ = ["Confirm", "Pick", "Reading", "Revise", "help_text"]

_CLOSE: list[BindingType] = [Binding("escape", "dismiss", "Close", show=False)]


def _titled(title: str) -> Content:
    """Return a title as content, since brackets in a string would be read as markup."""
    return Content(printable(shortened(title)))


class Revise(ModalScreen[dict[str, str] | None]):
    """Edit texts, each under its name; gives the edited texts, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*_CLOSE, Binding("ctrl+s", "save", "Save")]

    def __init__(self, texts: dict[str, str], *, title: str = "") -> None:
        super().__init__()
        self._texts, self._title = texts, title

    def compose(self) -> ComposeResult:
        """Build the fields and two buttons."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = _titled(self._title)
            for name, text in self._texts.items():
                yield Label(name)
                yield TextArea(text, compact=True, highlight_cursor_line=False, classes="field")
            with Horizontal(classes="buttons"):
                yield Button("Save  ^s", id="save", variant="primary", compact=True)
                yield Button("Cancel  esc", id="cancel", compact=True)

    def on_mount(self) -> None:
        """Put the cursor at the end of each text."""
        for field in self.query(TextArea):
            field.move_cursor(field.document.end)

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Save the texts."""
        fields = [field.text for field in self.query(TextArea)]
        self.dismiss(dict(zip(self._texts, fields, strict=True)))

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """Ask for confirmation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n", "answer(False)", "No", show=False),
        Binding("y", "answer(True)", "Yes", show=False),
        Binding("left,right", "app.focus_next", show=False),
        Binding("up,k", "scroll_question('up')", show=False),
        Binding("down,j", "scroll_question('down')", show=False),
        Binding("pageup", "scroll_question('page_up')", show=False),
        Binding("pagedown", "scroll_question('page_down')", show=False),
    ]

    def __init__(self, question: str, yes: str) -> None:
        super().__init__()
        self._question, self._yes = question, yes

    def compose(self) -> ComposeResult:
        """Build the question, which scrolls when it is long, and two buttons."""
        with Vertical(classes="dialog"):
            with VerticalScroll(classes="question", can_focus=False):
                yield Static(Content(printable(self._question)))
            with Horizontal(classes="buttons"):
                yield Button(f"{self._yes}  y", id="yes", variant="error", compact=True)
                yield Button("Cancel  n", id="no", compact=True)

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        self.dismiss(event.button.id == "yes")

    def action_scroll_question(self, where: str) -> None:
        """Scroll the question."""
        getattr(self.query_one(".question"), f"scroll_{where}")(animate=False)

    def action_answer(self, yes: bool) -> None:
        """Answer by a key."""
        self.dismiss(yes)


class Pick(ModalScreen[str | None]):
    """Pick one of several names, or None."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(self, names: Sequence[str], *, now: str, title: str) -> None:
        super().__init__()
        self._names, self._now, self._title = names, now, title

    def compose(self) -> ComposeResult:
        """Build the list, with a mark at the present choice."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = _titled(self._title)
            dialog.border_subtitle = "enter chooses, esc cancels"
            yield OptionList(
                *(Option(f"{'*' if name == self._now else ' '} {printable(name)}") for name in self._names),
                markup=False,
            )

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])


class Reading(ModalScreen[None]):
    """Show a text to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,f1", "dismiss", "Close", show=False)]

    def __init__(self, content: Content, *, title: str = "") -> None:
        super().__init__()
        self._content, self._title = content, title

    def compose(self) -> ComposeResult:
        """Build the text, which scrolls when it is long."""
        with VerticalScroll(classes="dialog reading") as dialog:
            dialog.border_title = _titled(self._title)
            dialog.border_subtitle = "esc closes"
            yield Static(self._content)


_KEY_COLUMNS = 30
_KEYS = {
    "At the prompt": [
        ("Enter", "send"),
        ("Alt-Enter, Ctrl-J, \\ Enter", "start a new line"),
        ("Up, Down", "show earlier messages"),
        ("Tab", "complete a command, or leave the prompt"),
        ("Esc, Ctrl-C", "stop the answer"),
        ("Ctrl-D", "quit, or delete the next character"),
    ],
    "Everywhere": [
        ("F1, ? outside the prompt", "this help"),
        ("F2", "show or hide the panel"),
        ("F3", "memories and facts"),
        ("F4", "knowledge and focus"),
        ("F5", "switch to another provider"),
        ("F6", "private: recall nothing, store nothing"),
        ("F7", "what was learned, and proposals"),
        ("Ctrl-P", "all commands, by name"),
        ("Ctrl-Q", "quit, as Ctrl-C twice does"),
    ],
    "In a list": [
        ("Up, Down, j, k", "move"),
        ("Enter", "read it in full"),
        ("e", "edit it"),
        ("f, Delete", "forget it"),
        ("p", "pin it: never delete it to make space"),
        ("/", "search, if the screen has a search"),
    ],
}


def help_text(usages: Mapping[str, tuple[str, str]], columns: int = 80) -> Content:
    """Return the help, keys, then commands, for a text of so many columns."""
    sections = [_section(title, rows, columns) for title, rows in _KEYS.items()]
    sections.append(_section("Commands", usages.values(), columns))
    sections.append(Content("To send a message that begins with a slash, type two: //etc/fstab"))
    return Content("\n\n").join(sections)


def _section(title: str, rows: Iterable[tuple[str, str]], columns: int) -> Content:
    lines = [Content.styled(title, "bold $accent")]
    for key, text in rows:
        told = textwrap.wrap(text, max(columns - _KEY_COLUMNS, 20))
        if len(key) > _KEY_COLUMNS - 4:  # the text begins below it
            lines += [Content.styled(line, "bold") for line in _long_key(key, columns)]
        else:
            lines.append(Content.assemble((f"  {key:{_KEY_COLUMNS - 2}}", "bold"), told.pop(0)))
        lines += [Content(" " * _KEY_COLUMNS + line) for line in told]
    return Content("\n").join(lines)


def _long_key(key: str, columns: int) -> list[str]:
    return textwrap.wrap(key, max(columns, 20), initial_indent="  ", subsequent_indent="    ")
