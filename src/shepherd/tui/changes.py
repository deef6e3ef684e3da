"""Look at, change, pin and forget what a list shows; the same keys wherever facts and memories are listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from shepherd.commands.screen import shortened
from shepherd.errors import ShepherdError
from shepherd.tui.dialogs import Confirm, Reading, Revise
from shepherd.tui.words import Item, Shown, in_full, in_short
from shepherd.types import Fact, MemoryRecord, SearchResult

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["Items", "complain"]

_T = TypeVar("_T")


class Items(OptionList):
    """Facts and memories of the user. Enter reads one, e changes it, f forgets it, p pins it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "edit", "Edit"),
        Binding("f,delete", "forget", "Forget"),
        Binding("p", "pin", "Pin"),
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
    ]

    class Changed(Message):
        """Something was changed or forgotten."""

    def __init__(self, *, id: str, empty: str) -> None:
        super().__init__(id=id, markup=False)
        self._items: list[Item] = []
        self._gone: set[int] = set()
        self._empty = empty
        self._memory: Memory | None = None
        self._user = ""

    def on_mount(self) -> None:
        """Say what will be here."""
        self.show([], None, "")

    def on_focus(self) -> None:
        """Begin at the first one: the keys are for the one under the cursor."""
        if self._items and self.highlighted is None:
            self.highlighted = 0

    def show(
        self, items: Sequence[Item], memory: Memory | None, user: str, *, empty: str | None = None
    ) -> None:
        """List these; what is changed is changed in this memory of this user."""
        place = self.highlighted
        self._items, self._gone, self._memory, self._user = list(items), set(), memory, user
        self.clear_options()
        for item in items:
            if not isinstance(item, Fact):
                self.add_option(None)  # a rule: a memory is several lines, a fact is one
            self.add_option(Option(in_short(item)))
        if not items:
            self.add_option(
                Option(Content.styled(self._empty if empty is None else empty, "dim"), disabled=True)
            )
        elif place is not None or self.has_focus:
            self.highlighted = min(place or 0, len(items) - 1)

    @property
    def item(self) -> Item | None:
        """The one that the cursor is on, if it is still there."""
        place = self.highlighted
        if place is None or place >= len(self._items) or place in self._gone:
            return None
        return self._items[place]

    @on(OptionList.OptionSelected)
    def _read(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if self.item is not None:
            self.app.push_screen(Reading(in_full(self.item)))

    def _changeable(self) -> tuple[Fact | MemoryRecord | SearchResult, Memory] | None:
        """The item under the cursor and its memory, where it can be changed here."""
        if isinstance(self.item, Shown):
            self.notify("F4 has the knowledge, and what is in focus")
        elif self.item is not None and self._memory is not None:
            return self.item, self._memory
        return None

    @work
    async def action_edit(self) -> None:
        """Change its text."""
        if (found := self._changeable()) is None:
            return
        (item, memory), user = found, self._user
        if isinstance(item, Fact):
            texts, title = {"value": item.value}, item.key
        else:
            texts, title = {"question": item.question, "answer": item.answer}, f"memory {item.id}"
        revised = await self.app.push_screen_wait(Revise(texts, title=title))
        if revised is None or revised == texts:
            return
        if isinstance(item, Fact):
            await self._change(lambda: memory.set_fact(item.key, revised["value"], user), "changed")
        else:
            await self._change(lambda: memory.edit_memory(item.id, **revised, user_id=user), "changed")

    @work
    async def action_forget(self) -> None:
        """Forget it, after a question."""
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
            self.replace_option_prompt_at_index(place, in_short(item, gone=True))

    @work
    async def action_pin(self) -> None:
        """Keep it when old memories make room, or no longer."""
        if (found := self._changeable()) is None:
            return
        (item, memory), user = found, self._user
        if isinstance(item, Fact):
            self.notify("facts stay anyway")
            return
        record = await self._attempt(lambda: memory.get_memory(item.id, user))
        if record is not None:
            word = "unpinned" if record.pinned else "pinned: it stays when old memories make room"
            await self._change(lambda: memory.pin_memory(record.id, not record.pinned, user), word)

    async def _change(self, change: Callable[[], object], done: str) -> bool:
        """Do it beside the screen; whether it succeeded."""
        result = await self._attempt(lambda: (change(),))
        if result is None:
            return False
        if result[0] is False:
            self.notify("it is not there any more", severity="warning")
            return False
        self.notify(done)
        self.post_message(self.Changed())
        return True

    async def _attempt(self, action: Callable[[], _T]) -> _T | None:
        try:
            return await asyncio.to_thread(action)
        except ShepherdError as error:
            complain(self, error)
            return None


def complain(widget: Widget, error: ShepherdError) -> None:
    """Say what went wrong, and what to do, in a corner of the screen."""
    widget.notify(f"{error}\n{error.hint}".strip(), severity="error", markup=False)
