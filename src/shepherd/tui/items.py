"""Lists of memories and facts, with keys to read, edit, pin and forget them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from shepherd.commands.explain import provenance
from shepherd.commands.screen import age_in_words, printable, shortened
from shepherd.errors import ShepherdError
from shepherd.sequences import errors_in_sequences, in_sequences, sequence_of
from shepherd.tui.dialogs import Confirm, Reading, Revise
from shepherd.types import SECONDS_PER_DAY, Fact, MemoryRecord, SearchResult

if TYPE_CHECKING:
    from shepherd.memory import Memory
    from shepherd.prompt.plan import Part

__all__ = ["Item", "Items", "PlanPart", "notify_error", "runnable"]

_T = TypeVar("_T")
_SHOWN_CHARS = 120


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A passage, node or entity that was added to a message; read-only."""

    title: str
    text: str
    about: str

    @classmethod
    def of(cls, part: Part) -> PlanPart:
        """Convert a part of a plan."""
        title = str(part.about.get("title") or "") or shortened(part.text, _SHOWN_CHARS)
        score = f" \N{MIDDLE DOT} score {part.score:.2f}" if part.score else ""
        return cls(title, part.text.strip(), f"{part.category} \N{MIDDLE DOT} {in_sequences(part.id)}{score}")


Item = Fact | MemoryRecord | SearchResult | PlanPart


def _in_short(item: Item, *, gone: bool = False) -> Content:
    """Return a few lines: its text and source, struck through when it has been forgotten (`gone`)."""
    if isinstance(item, Fact):
        text = Content.assemble(
            (_line(item.key), "bold"),
            f" = {_line(item.value)}",
            (f" \N{MIDDLE DOT} {_fact_age(item)}", "$text-muted"),
        )
    elif isinstance(item, PlanPart):
        text = Content.assemble((_line(item.title), "bold"), (f"\n{item.about}", "$text-muted"))
    else:
        pin = ("\N{BLACK DIAMOND} ", "$accent") if item.pinned else ""
        text = Content.assemble(pin, (_line(item.question), "bold"))
        if item.answer:
            text += Content(f"\n{_line(item.answer)}")
        text += Content.styled(f"\n{provenance(item)}", "$text-muted")
    return Content.assemble(text.stylize("strike dim"), ("\nforgotten", "$warning")) if gone else text


def _in_full(item: Item) -> Content:
    """Return the whole text and its source."""
    if isinstance(item, Fact):
        key, value = printable(item.key), printable(item.value)
        return Content.assemble((f"{key}\n\n", "bold"), value, (f"\n\na fact, {_fact_age(item)}", "dim"))
    if isinstance(item, PlanPart):
        about = (f"\n\n{item.about}", "dim")
        return Content.assemble((f"{printable(item.title)}\n\n", "bold"), printable(item.text), about)
    return Content.assemble(
        (f"{printable(item.question)}\n\n", "bold"),
        printable(item.answer),
        (f"\n\n{provenance(item)}", "dim"),
    )


def _fact_age(fact: Fact) -> str:
    return age_in_words((time.time() - fact.updated_at) / SECONDS_PER_DAY)


def _line(text: str) -> str:
    return printable(shortened(text[:1000], _SHOWN_CHARS))


class Items(OptionList):
    """List of facts and memories. Enter reads one, e edits it, f forgets it, p pins it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "Edit"),
        Binding("f,delete", "forget", "Forget"),
        Binding("p", "pin", "Pin"),
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
    ]

    class Changed(Message):
        """An item was changed or forgotten."""

    def __init__(self, *, id: str, empty: str) -> None:
        super().__init__(id=id, markup=False)
        self._items: list[Item] = []
        self._gone: set[int] = set()
        self._empty = empty
        self._memory: Memory | None = None
        self._user = ""

    def on_mount(self) -> None:
        """Show the text for an empty list."""
        self.show([], None, "")

    def on_focus(self) -> None:
        """Highlight the first item, which the keys act on."""
        if self._items and self.highlighted is None:
            self.highlighted = 0

    def show(
        self, items: Sequence[Item], memory: Memory | None, user: str, *, empty: str | None = None
    ) -> None:
        """List these items; changes go to this memory of this user."""
        place = self.highlighted
        self._items, self._gone, self._memory, self._user = list(items), set(), memory, user
        self.clear_options()
        for item in items:
            if not isinstance(item, Fact):
                self.add_option(None)  # a rule, since a memory has several lines
            self.add_option(Option(_in_short(item)))
        if not items:
            self.add_option(
                Option(Content.styled(self._empty if empty is None else empty, "dim"), disabled=True)
            )
        elif place is not None or self.has_focus:
            self.highlighted = min(place or 0, len(items) - 1)

    @property
    def item(self) -> Item | None:
        """The item under the cursor, unless it has been forgotten."""
        place = self.highlighted
        if place is None or place >= len(self._items) or place in self._gone:
            return None
        return self._items[place]

    @on(OptionList.OptionSelected)
    def _read(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.item is not None:
            self.app.push_screen(Reading(_in_full(self.item)))

    def _changeable(self) -> tuple[Fact | MemoryRecord | SearchResult, Memory] | None:
        """Return the item under the cursor and its memory, if it can be changed here."""
        if isinstance(self.item, PlanPart):
            self.notify("F4 shows the knowledge and the nodes in focus")
        elif self.item is not None and self._memory is not None:
            return self.item, self._memory
        return None

    @work
    async def action_edit(self) -> None:
        """Edit its text."""
        if (found := self._changeable()) is None:
            return
        (item, memory), user = found, self._user
        if isinstance(item, Fact):
            texts, title = {"value": item.value}, item.key
        else:
            texts, title = (
                {"question": item.question, "answer": item.answer},
                f"memory {sequence_of(item.id)}",
            )
        revised = await self.app.push_screen_wait(Revise(texts, title=title))
        if revised is None or revised == texts:
            return
        if isinstance(item, Fact):
            await self._change(lambda: memory.set_fact(item.key, revised["value"], user), "changed")
        else:
            await self._change(lambda: memory.edit_memory(item.id, **revised, user_id=user), "changed")

    @work
    async def action_forget(self) -> None:
        """Forget it, after a confirmation."""
        if (found := self._changeable()) is None:
            return
        (item, memory), user, place = found, self._user, self.highlighted
        what = f"{item.key} = {item.value}" if isinstance(item, Fact) else item.question
        if not await self.app.push_screen_wait(Confirm(f"Forget {shortened(what, 160)!r}?", "Forget")):
            return
        if isinstance(item, Fact):
            done = await self._change(lambda: memory.clear_fact(item.key, user), "forgotten")
        else:
            done = await self._change(lambda: memory.delete_memory(item.id, user), "forgotten")
        if done and place is not None and place < len(self._items) and self._items[place] is item:
            self._gone.add(place)
            self.replace_option_prompt_at_index(place, _in_short(item, gone=True))

    @work
    async def action_pin(self) -> None:
        """Pin or unpin it."""
        if (found := self._changeable()) is None:
            return
        (item, memory), user = found, self._user
        if isinstance(item, Fact):
            self.notify("facts need no pin: they are never deleted to make space")
            return
        record = await self._attempt(lambda: memory.get_memory(item.id, user))
        if record is not None:
            word = "unpinned" if record.pinned else "pinned: it is never deleted to make space"
            await self._change(lambda: memory.pin_memory(record.id, not record.pinned, user), word)

    async def _change(self, change: Callable[[], object], done: str) -> bool:
        """Run a change in a thread; returns whether it succeeded."""
        result = await self._attempt(lambda: (change(),))
        if result is None:
            return False
        if result[0] is False:
            self.notify("it no longer exists: it was deleted elsewhere", severity="warning")
            return False
        self.notify(done)
        self.post_message(self.Changed())
        return True

    async def _attempt(self, action: Callable[[], _T]) -> _T | None:
        try:
            with errors_in_sequences():
                return await asyncio.to_thread(action)
        except ShepherdError as error:
            notify_error(self, error)
            return None


def runnable(widget: Widget, text: str) -> str:
    """Return a text with commands that can be run where the application runs."""
    made: Callable[[str], str] = getattr(widget.app, "runnable", str)
    return made(text)


def notify_error(widget: Widget, error: ShepherdError) -> None:
    """Show an error and its hint in a corner of the screen."""
    widget.notify(f"{error}\n{runnable(widget, error.hint)}".strip(), severity="error", markup=False)
