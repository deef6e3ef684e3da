"""Dialogs in front of the screen: texts to change, yes or no, one of several, and what is only read."""

from __future__ import annotations

from collections.abc import Sequence
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

__all__ = ["Confirm", "Pick", "Reading", "Revise"]

_CLOSE: list[BindingType] = [Binding("escape", "dismiss", "Close", show=False)]


def _titled(title: str) -> Content:
    """A title as it is: in plain text, brackets would be taken for styles and actions."""
    return Content(printable(shortened(title)))


class Revise(ModalScreen[dict[str, str] | None]):
    """Texts to change, each under its name; gives them as they are then, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [*_CLOSE, Binding("ctrl+s", "save", "Save")]

    def __init__(self, texts: dict[str, str], *, title: str = "") -> None:
        super().__init__()
        self._texts, self._title = texts, title

    def compose(self) -> ComposeResult:
        """The fields and two buttons."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = _titled(self._title)
            for name, text in self._texts.items():
                yield Label(name)
                yield TextArea(text, compact=True, highlight_cursor_line=False, classes="field")
            with Horizontal(classes="buttons"):
                yield Button("Save  ^s", id="save", variant="primary", compact=True)
                yield Button("Cancel  esc", id="cancel", compact=True)

    def on_mount(self) -> None:
        """Go on where a text ends."""
        for field in self.query(TextArea):
            field.move_cursor(field.document.end)

    @on(Button.Pressed, "#save")
    def action_save(self) -> None:
        """Give the texts as they are."""
        fields = [field.text for field in self.query(TextArea)]
        self.dismiss(dict(zip(self._texts, fields, strict=True)))

    @on(Button.Pressed, "#cancel")
    def _cancel(self) -> None:
        self.dismiss(None)


class Confirm(ModalScreen[bool]):
    """A question before something that cannot be taken back."""

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
        """The question, which scrolls when it is long, and two buttons."""
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
        """Read on, or back."""
        getattr(self.query_one(".question"), f"scroll_{where}")(animate=False)

    def action_answer(self, yes: bool) -> None:
        """By a key."""
        self.dismiss(yes)


class Pick(ModalScreen[str | None]):
    """One of several names, or None."""

    BINDINGS: ClassVar[list[BindingType]] = _CLOSE

    def __init__(self, names: Sequence[str], *, now: str, title: str) -> None:
        super().__init__()
        self._names, self._now, self._title = names, now, title

    def compose(self) -> ComposeResult:
        """The list, with a mark at the one that holds now."""
        with Vertical(classes="dialog") as dialog:
            dialog.border_title = _titled(self._title)
            dialog.border_subtitle = "enter chooses, esc leaves it"
            yield OptionList(
                *(Option(f"{'*' if name == self._now else ' '} {printable(name)}") for name in self._names),
                markup=False,
            )

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._names[event.option_index])


class Reading(ModalScreen[None]):
    """A text to read, in full; any of the usual keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,f1", "dismiss", "Close", show=False)]

    def __init__(self, content: Content, *, title: str = "") -> None:
        super().__init__()
        self._content, self._title = content, title

    def compose(self) -> ComposeResult:
        """The text, which scrolls when it is long."""
        with VerticalScroll(classes="dialog reading") as dialog:
            dialog.border_title = _titled(self._title)
            dialog.border_subtitle = "esc closes"
            yield Static(self._content)
