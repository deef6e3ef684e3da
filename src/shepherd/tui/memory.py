"""Screen of memories and facts: search, read, edit, pin, forget and add."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Footer, Input, Label

from shepherd.commands.screen import counted
from shepherd.errors import ShepherdError
from shepherd.tui.dialogs import Revise
from shepherd.tui.items import Item, Items, notify_error
from shepherd.types import Fact

if TYPE_CHECKING:
    from shepherd.memory import Memory

__all__ = ["MemoryScreen"]

_PAGE = 200


class MemoryScreen(Screen[None]):
    """Memories and facts of one user: results of a search, or the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f3", "leave", "Back"),
        Binding("slash", "search", "Search"),
        Binding("a", "add", "Add memory"),
        Binding("n", "add_fact", "New fact"),
        Binding("m", "more", "More", show=False),
    ]
    AUTO_FOCUS = "#memories"

    def __init__(self, memory: Memory, user: str) -> None:
        super().__init__()
        self._memory, self._user = memory, user
        self._limit = _PAGE

    def compose(self) -> ComposeResult:
        """Build the search, and facts and memories below it."""
        yield Input(placeholder="search memories and facts", compact=True, id="search")
        with Horizontal(id="lists"):
            with Vertical(id="facts-column"):
                yield Label("", classes="title", id="facts-title")
                yield Items(id="facts", empty="No facts yet; n adds one.")
            with Vertical(id="memories-column"):
                yield Label("", classes="title", id="memories-title")
                yield Items(id="memories", empty="Nothing is remembered yet; a adds something.")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show the newest."""
        self._fill()

    @on(Input.Changed, "#search")
    def _changed(self) -> None:
        self._limit = _PAGE
        self._fill()

    @on(Input.Submitted, "#search")
    def _to_the_results(self) -> None:
        self.query_one("#memories", Items).focus()

    @on(Items.Changed)
    def _refill(self) -> None:
        self._fill()

    def action_leave(self) -> None:
        """Return to the conversation."""
        self.dismiss()

    def action_search(self) -> None:
        """Focus the search."""
        self.query_one(Input).focus()

    def action_more(self) -> None:
        """Also list older memories."""
        self._limit += _PAGE
        self._fill()

    @work
    async def action_add(self) -> None:
        """Add a memory."""
        await self._add({"question": "", "answer": ""}, "What to remember")

    @work
    async def action_add_fact(self) -> None:
        """Set a fact."""
        await self._add({"key": "", "value": ""}, "A fact")

    async def _add(self, texts: dict[str, str], title: str) -> None:
        given = await self.app.push_screen_wait(Revise(texts, title=title))
        if given is None or not all(text.strip() for text in given.values()):
            return
        first, second = given.values()
        store = self._memory.set_fact if "key" in given else self._memory.store_memory
        try:
            await asyncio.to_thread(store, first.strip(), second.strip(), self._user)
        except ShepherdError as error:
            notify_error(self, error)
        self._fill()

    @work(exclusive=True)
    async def _fill(self) -> None:
        query = self.query_one(Input).value.strip()
        try:
            facts, memories, count = await asyncio.to_thread(self._query, query)
        except ShepherdError as error:
            notify_error(self, error)
            return
        empty = "Nothing matches." if query else None
        self.query_one("#facts", Items).show(facts, self._memory, self._user, empty=empty)
        self.query_one("#memories", Items).show(memories, self._memory, self._user, empty=empty)
        title = counted(count, "memory", "memories")
        if query:
            title = f"{len(memories):,} of {title} found"
        elif count > len(memories):
            title = f"the newest {len(memories):,} of {title}; m lists more"
        self.query_one("#facts-title", Label).update(Content(counted(len(facts), "fact")))
        self.query_one("#memories-title", Label).update(Content(title))

    def _query(self, query: str) -> tuple[list[Item], list[Item], int]:
        """Return matching facts and memories; runs in another thread."""
        words = query.casefold().split()
        facts: list[Item] = [
            fact
            for fact in self._memory.get_all_facts(self._user)
            if all(word in _words_of(fact) for word in words)
        ]
        memories: list[Item]
        if query:
            memories = [*self._memory.search(query, self._limit, self._user)]
        else:
            memories = [*self._memory.list_memories(self._user, limit=self._limit)]
        return facts, memories, self._memory.count_memories(self._user)


def _words_of(fact: Fact) -> str:
    return f"{fact.key} {fact.value}".casefold()
