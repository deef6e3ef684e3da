"""Screens of memories and facts (search, read, edit, pin, forget, add) and of what was learned."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from shepherd.commands.explain import decided_in_words, item_in_words, state_in_words
from shepherd.commands.screen import counted, printable, shortened
from shepherd.errors import ShepherdError
from shepherd.tools import decide
from shepherd.tui.dialogs import Reading, Revise
from shepherd.tui.footer import KeysFooter
from shepherd.tui.items import Item, Items, notify_error
from shepherd.types import Fact

if TYPE_CHECKING:
    from shepherd.memory import LearnedItem, Memory

__all__ = ["LearnedScreen", "MemoryScreen"]

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
                yield Items(id="memories", empty="No memories yet; a adds one.")
        yield KeysFooter()

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
        await self._add({"question": "", "answer": ""}, "Add a memory")

    @work
    async def action_add_fact(self) -> None:
        """Set a fact."""
        await self._add({"key": "", "value": ""}, "Add a fact")

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


class LearnedScreen(Screen[None]):
    """List of what one user taught, proposals first; items can be kept, undone, accepted and rejected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f7", "leave", "Back"),
        Binding("k", "decide('keep')", "Keep"),
        Binding("u", "decide('undo')", "Undo"),
        Binding("a", "decide('accept')", "Accept"),
        Binding("r", "decide('reject')", "Reject"),
    ]
    AUTO_FOCUS = "#learned"

    def __init__(self, memory: Memory, user: str) -> None:
        super().__init__()
        self._memory, self._user = memory, user
        self._items: list[LearnedItem] = []
        self._undoable: frozenset[int] = frozenset()

    def compose(self) -> ComposeResult:
        """Build the list."""
        yield Label("", classes="title", id="learned-title")
        yield OptionList(id="learned", markup=False)
        yield KeysFooter()

    def on_mount(self) -> None:
        """Show what there is."""
        self._fill()

    def action_leave(self) -> None:
        """Return to the conversation."""
        self.dismiss()

    @work
    async def action_decide(self, action: str) -> None:
        """Keep, undo, accept or reject the item under the cursor."""
        place = self.query_one("#learned", OptionList).highlighted
        if place is None or place >= len(self._items):
            return
        item_id = self._items[place].id
        try:
            item = await asyncio.to_thread(decide, self._memory, action, item_id, self._user)
        except ShepherdError as error:
            notify_error(self, error)
            return
        if item is None:
            self.notify(f"there is nothing to {action} here", severity="warning")
        else:
            self.notify(decided_in_words(item), markup=False)
        self._fill()

    @on(OptionList.OptionSelected)
    def _read(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        item = self._items[event.option_index]
        from shepherd.turn.fact_sentences import learned_clause, sentence

        said = f"{_quoted(item.statement)}\n\n" if item.statement else ""
        what = printable(sentence(learned_clause(item)))
        about = (f"\n\n{state_in_words(item, is_undoable=item.id in self._undoable)}", "dim")
        self.app.push_screen(Reading(Content.assemble(said, what, about)))

    @work(exclusive=True)
    async def _fill(self) -> None:
        try:
            waiting, latest, self._undoable = await asyncio.to_thread(self._query)
        except ShepherdError as error:
            notify_error(self, error)
            return
        ids = {item.id for item in waiting}
        self._items = [*waiting, *(item for item in latest if item.id not in ids)]
        listed = self.query_one("#learned", OptionList)
        place = listed.highlighted
        listed.clear_options()
        for item in self._items:
            listed.add_option(None)  # a rule, since an item has several lines
            listed.add_option(Option(_learned_in_short(item, is_undoable=item.id in self._undoable)))
        if not self._items:
            listed.add_option(Option(Content.styled("Nothing has been learned yet.", "dim"), disabled=True))
        else:
            listed.highlighted = min(place or 0, len(self._items) - 1)
        title = f"{counted(len(waiting), 'proposal')} to decide on" if waiting else "Learned from your words"
        self.query_one("#learned-title", Label).update(Content(title))

    def _query(self) -> tuple[list[LearnedItem], list[LearnedItem], frozenset[int]]:
        waiting = self._memory.learned(_PAGE, waiting_only=True, user_id=self._user)
        latest = self._memory.learned(_PAGE, user_id=self._user)
        return waiting, latest, self._memory.undoable(latest, self._user)


def _learned_in_short(item: LearnedItem, *, is_undoable: bool) -> Content:
    """Return the sentence, what was learned from it, and its state."""
    what = printable(item_in_words(item))
    if item.kind == "proposed":
        what = f"proposed: {what}"
    said = _quoted(shortened(item.statement[:1000], 160)) if item.statement else "by the model"
    is_over = item.state in ("undone", "rejected", "expired")
    return Content.assemble(
        said,
        (f"\n{what}", "strike dim" if is_over else "bold"),
        (f"\n{state_in_words(item, is_undoable=is_undoable)}", "$text-muted"),
    )


def _quoted(text: str) -> str:
    return f"\N{LEFT DOUBLE QUOTATION MARK}{printable(text)}\N{RIGHT DOUBLE QUOTATION MARK}"
