"""Screen of the knowledge: search and read nodes, follow their connections, put them into focus."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static
from textual.widgets.option_list import Option

from shepherd.commands.screen import counted, printable, shortened
from shepherd.errors import ShepherdError
from shepherd.tui.footer import KeysFooter
from shepherd.tui.items import notify_error, runnable

if TYPE_CHECKING:
    from shepherd.knowledge import Edge, Knowledge, Node
    from shepherd.memory import Memory

__all__ = ["KnowledgeScreen"]

_PAGE = 200
_MOST_EDGES = 100
# Characters of a document on the screen; shepherd knowledge show has all.
_SHOWN_CHARS = 4000
_IN_FOCUS = "\N{BLACK CIRCLE} "


class KnowledgeScreen(Screen[None]):
    """Nodes on the left; the one under the cursor and its connections on the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f4", "dismiss", "Back"),
        Binding("slash", "search", "Search"),
        Binding("f,space", "focus_node", "Focus on/off"),
        Binding("x", "focus_nothing", "Clear the focus"),
    ]
    AUTO_FOCUS = "#nodes"

    def __init__(self, memory: Memory, user: str) -> None:
        super().__init__()
        from shepherd.knowledge import Knowledge

        self._knowledge: Knowledge = Knowledge(memory.transactions, user)
        self._found: list[Node] = []
        self._edges: list[Edge] = []
        self._node: Node | None = None
        self._focused: list[int] = []

    def compose(self) -> ComposeResult:
        """Build the search, and the nodes and the current one below it."""
        yield Input(placeholder="search knowledge", compact=True, id="search")
        with Horizontal(id="lists"):
            with Vertical(id="nodes-column"):
                yield Label("", classes="title", id="nodes-title")
                yield OptionList(id="nodes", markup=False)
            with Vertical(id="node-column"):
                with VerticalScroll(id="reading"):
                    yield Static(id="node")
                yield Label("Connections", classes="title", id="edges-title")
                yield OptionList(id="edges", markup=False)
        yield KeysFooter()

    def on_mount(self) -> None:
        """Show the nodes that were changed last."""
        self._fill()

    @on(Input.Changed, "#search")
    def _changed(self) -> None:
        self._fill()

    @on(Input.Submitted, "#search")
    def _to_the_results(self) -> None:
        self.query_one("#nodes").focus()

    @on(OptionList.OptionHighlighted, "#nodes")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._found):
            self._read(self._found[event.option_index].id)

    @on(OptionList.OptionSelected, "#nodes")
    def _to_the_text(self) -> None:
        self.query_one("#reading").focus()

    @on(OptionList.OptionSelected, "#edges")
    def _follow(self, event: OptionList.OptionSelected) -> None:
        if self._node is not None and event.option_index < len(self._edges):
            self._read(_other_end(self._edges[event.option_index], self._node.id)[0])

    def action_search(self) -> None:
        """Focus the search."""
        self.query_one(Input).focus()

    def action_focus_node(self) -> None:
        """Put the current node into focus, or remove it; nodes in focus are added to messages."""
        if self._node is None:
            return
        number = self._node.id
        before = self._focused
        self._refocus([n for n in before if n != number] if number in before else [number, *before])

    def action_focus_nothing(self) -> None:
        """Remove all nodes from focus."""
        self._refocus([])

    @work(exclusive=True, group="focus")
    async def _refocus(self, numbers: list[int]) -> None:
        try:
            found = await asyncio.to_thread(self._knowledge.focus, numbers)
        except ShepherdError as error:
            notify_error(self, error)
            return
        self._focused = [node.id for node in found]
        self.notify(f"in focus: {counted(len(found), 'node')}" if found else "nothing is in focus")
        self._list()

    @work(exclusive=True, group="fill")
    async def _fill(self) -> None:
        query = self.query_one(Input).value.strip()
        try:
            self._found, self._focused, count = await asyncio.to_thread(self._look, query)
        except ShepherdError as error:
            notify_error(self, error)
            return
        title = counted(count, "node")
        if query or count > len(self._found):
            title = f"{len(self._found):,} of {title}"
        self.query_one("#nodes-title", Label).update(Content(title))
        self._list()
        if not self._found:
            self._show(None, [])

    @work(exclusive=True, group="read")
    async def _read(self, number: int) -> None:
        try:
            node, edges = await asyncio.to_thread(self._look_at, number)
        except ShepherdError as error:
            notify_error(self, error)
            return
        self._show(node, edges)

    def _look(self, query: str) -> tuple[list[Node], list[int], int]:
        focused = [focused.node.id for focused in self._knowledge.focused()]
        return self._knowledge.find_nodes(query, _PAGE), focused, self._knowledge.count_nodes()

    def _look_at(self, number: int) -> tuple[Node | None, list[Edge]]:
        node = self._knowledge.get_node(number, with_text=True)
        return node, self._knowledge.list_edges(number, limit=_MOST_EDGES)

    def _list(self) -> None:
        nodes = self.query_one("#nodes", OptionList)
        place = nodes.highlighted or 0
        nodes.set_options([Option(_in_short(node, node.id in self._focused)) for node in self._found])
        if self._found:
            nodes.highlighted = min(place, len(self._found) - 1)
        else:
            empty = runnable(self, "No nodes found. Add some with shepherd knowledge add or import.")
            nodes.add_option(Option(Content.styled(empty, "dim"), disabled=True))

    def _show(self, node: Node | None, edges: list[Edge]) -> None:
        self._node, self._edges = node, edges if node is not None else []
        self.query_one("#node", Static).update(Content("") if node is None else _in_full(node, self))
        self.query_one("#reading").scroll_home(animate=False)
        listed = self.query_one("#edges", OptionList)
        listed.set_options([Option(_edge(edge, node.id)) for edge in edges] if node is not None else [])
        listed.display = self.query_one("#edges-title").display = bool(self._edges)


def _other_end(edge: Edge, number: int) -> tuple[int, str]:
    if edge.from_node_id == number:
        return edge.to_node_id, edge.to_title
    return edge.from_node_id, edge.from_title


def _edge(edge: Edge, number: int) -> Content:
    arrow = "\N{RIGHTWARDS ARROW}" if edge.from_node_id == number else "\N{LEFTWARDS ARROW}"
    title = printable(shortened(_other_end(edge, number)[1]))
    why = printable(shortened(edge.explanation))
    return Content.assemble((f"{arrow} ", "$accent"), title, (f"\n  {why}" if why else "", "$text-muted"))


def _in_short(node: Node, is_focused: bool) -> Content:
    mark = (_IN_FOCUS, "$success") if is_focused else ""
    tags = " ".join((node.kind, *(f"#{name}" for name in node.dimensions)))
    title = printable(shortened(node.title, 80))
    return Content.assemble(mark, (title, "bold"), (f" {printable(tags)}" if tags else "", "$text-muted"))


def _in_full(node: Node, screen: Widget) -> Content:
    about = [f"node {node.id}", node.kind, node.event_date, *(f"#{name}" for name in node.dimensions)]
    parts = [
        Content.styled(printable(node.title), "bold"),
        Content.styled(printable(" \N{MIDDLE DOT} ".join(part for part in about if part)), "$text-muted"),
    ]
    parts += [Content(printable(text)) for text in (node.description, node.notes, node.link) if text]
    if node.source_text:
        text = node.source_text[:_SHOWN_CHARS]
        parts.append(Content(printable(text)))
        if len(node.source_text) > _SHOWN_CHARS:
            left = len(node.source_text) - _SHOWN_CHARS
            more = runnable(screen, f"{left:,} more characters: shepherd knowledge show {node.id}")
            parts.append(Content.styled(more, "dim"))
    return Content("\n\n").join(parts)
