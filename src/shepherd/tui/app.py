"""Application: composes the screen, and passes events between widgets and the conversation's thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import constants, events, on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, TextArea

from shepherd.commands.gc_policy import GCPolicy
from shepherd.commands.history_place import history_place
from shepherd.commands.screen import shortened
from shepherd.commands.slash import COMMANDS
from shepherd.tui.conversation import (
    Asked,
    ChatState,
    Confirming,
    Conversation,
    Ended,
    Event,
    Failed,
    Forgotten,
    History,
    Learned,
    Loading,
    Output,
    Piece,
    Revising,
    SessionOptions,
    Thinking,
    settle,
)
from shepherd.tui.dialogs import Confirm, Pick, Reading, Revise, help_text
from shepherd.tui.driver import TerminalDriver
from shepherd.tui.panels import SidePanel, StatusLine
from shepherd.tui.prompt import Hints, Prompt, PromptHistory
from shepherd.tui.transcript import RecallNote, Transcript

if TYPE_CHECKING:
    from shepherd.turn import Event as TurnEvent

__all__ = ["ShepherdApp"]

# Commands in the palette.
_WITHOUT_ARGUMENT = (
    "why",
    "stats",
    "learned",
    "accept",
    "reject",
    "clear",
    "conversations",
    "undo",
    "save",
    "model",
    "config",
    "tools",
)
# From this many columns on, the panel fits beside the conversation.
_WIDE = 100
# Columns beside the text of a dialog.
_DIALOG_FRAME = 12
# After this pause in typing nobody waits for the screen.
_QUIET_S = 2.0
USAGES = {name: (command.usage, command.help) for name, command in COMMANDS.items()}


class ShepherdApp(App[None]):
    """The full-screen conversation. `failure` is the error that ended it.

    `is_answering`: a line is being processed, a message or a command.
    """

    TITLE = "Shepherd"
    CSS_PATH = "shepherd.tcss"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (_WIDE, "-wide")]  # noqa: RUF012 (as in its base class)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help"),
        Binding("f2", "panel", "Panel"),
        Binding("f3", "memory", "Memory"),
        Binding("f4", "knowledge", "Knowledge"),
        Binding("f5", "provider", "Provider"),
        Binding("f6", "private", "Private"),
        Binding("f7", "learned", "Learned", show=False),
        Binding("escape", "stop", "Stop", show=False),
        Binding("ctrl+c", "stop_or_quit", "Stop", show=False, priority=True),
        Binding("ctrl+d", "quit", "Quit", show=False),
        Binding("question_mark", "help", "Help", show=False),
    ]

    class Happened(Message):
        """An event of the conversation's thread."""

        def __init__(self, event: Event) -> None:
            super().__init__()
            self.event = event

    def __init__(self, options: SessionOptions, gc_policy: GCPolicy | None = None) -> None:
        super().__init__()
        self._gc_policy = gc_policy
        self._touched_at = 0.0
        self._is_collected = False
        self.failure: Exception | None = None
        self.chat_state: ChatState | None = None
        self.conversation = Conversation(options, self._post_event)
        place = history_place(options.config, with_memory=options.memory)
        self._history = PromptHistory(place, lambda text: self.notify(text, severity="warning", markup=False))
        self.runnable = options.runnable
        self._transcript = Transcript(options.runnable)
        self._prompt = Prompt({name: usage for name, (usage, _) in USAGES.items()})
        self._hints = Hints(id="hints")
        self._side = SidePanel(id="side")
        self._status = StatusLine(lambda: self.conversation.waiting)
        self.is_answering = False
        self._news: tuple[str, ...] = ()  # about what was learned, held back while an answer comes
        self._has_asked_to_quit = False
        self._events_of: asyncio.AbstractEventLoop | None = None  # from the first screen on

    def get_driver_class(self) -> type[Driver]:
        """Return what reads the keys, unless the environment names another."""
        return TerminalDriver if constants.DRIVER is None else super().get_driver_class()

    def compose(self) -> ComposeResult:
        """Build conversation, panel, status line and keys."""
        with Horizontal(id="body"):
            with Vertical(id="talk"):
                yield self._transcript
                yield self._hints
                yield self._prompt
            yield self._side
        yield self._status
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Open the session while the first screen is drawn."""
        self._events_of = asyncio.get_running_loop()
        self.conversation.start()
        self._prompt.focus()
        self._load_history()
        self.set_interval(_QUIET_S, self._collect_garbage)

    async def on_event(self, event: events.Event) -> None:
        """Record when a key was pressed, or the mouse moved."""
        if isinstance(event, events.InputEvent):
            self._touched_at, self._is_collected = time.monotonic(), False
            if isinstance(event, events.Key):
                self._transcript.typed_at = self._touched_at
        await super().on_event(event)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Give the palette: the keys of this application, and commands without arguments."""
        for binding in self.BINDINGS:
            if isinstance(binding, Binding) and binding.show:
                name = f"action_{binding.action}"
                text = (getattr(self, name).__doc__ or "").strip()
                yield SystemCommand(binding.description, text, getattr(self, name))
        for name in _WITHOUT_ARGUMENT:
            usage, text = USAGES[name]
            yield SystemCommand(usage.partition(" ")[0], text, partial(self.say, f"/{name}"))
        yield SystemCommand("Theme", "Choose other colours", self.action_change_theme)
        yield SystemCommand("Quit", "End the conversation", self.action_quit)

    def say(self, line: str) -> bool:
        """Send a line, unless another one is being processed; returns whether it was sent."""
        if self.is_answering:
            self.notify("not sent, because an answer is being written; Esc stops it", severity="warning")
            return False
        self.is_answering = True
        self.conversation.say(line)
        return True

    def end(self) -> None:
        """End the application soon. From any thread, and from a signal handler."""
        self.conversation.stop()
        with suppress(RuntimeError):  # it has ended already
            if self._events_of is not None:
                self._events_of.call_soon_threadsafe(self.exit)

    # ---- input

    @on(Prompt.Sent)
    def _send(self, event: Prompt.Sent) -> None:
        if self.say(event.text):
            self._prompt.sent(event.text)
            self._history.add(event.text)

    @on(TextArea.Changed, "#prompt")
    def _hint(self) -> None:
        self._has_asked_to_quit = False
        self._hints.show(self._prompt.matching(), USAGES)
        text = self._prompt.text
        if text.strip() and not text.startswith("/") and not self.is_answering:
            self.conversation.writing(text)

    @on(RecallNote.Wanted)
    def _show_panel(self) -> None:
        self._side.remove_class("-hidden").add_class("-shown")

    def action_help(self) -> None:
        """Show the keys and the commands."""
        self.push_screen(Reading(help_text(USAGES, self.size.width - _DIALOG_FRAME), title="Help"))

    def action_panel(self) -> None:
        """Show or hide what memory added to the last message, and the budget."""
        is_shown = self._side.display
        self._side.set_class(is_shown, "-hidden").set_class(not is_shown, "-shown")
        if is_shown and self._side.has_focus_within:
            self._prompt.focus()

    def action_memory(self) -> None:
        """Search, edit, pin and forget memories and facts."""
        if self.chat_state is None or self.chat_state.memory is None:
            self.notify("this conversation has no memory", severity="warning")
            return
        from shepherd.tui.memory import MemoryScreen

        self.push_screen(MemoryScreen(self.chat_state.memory, self.chat_state.user_id))

    def action_learned(self) -> None:
        """Keep, undo, accept or reject what was learned."""
        if self.chat_state is None or self.chat_state.memory is None:
            self.notify("this conversation has no memory", severity="warning")
            return
        from shepherd.tui.memory import LearnedScreen

        self.push_screen(LearnedScreen(self.chat_state.memory, self.chat_state.user_id))

    def action_knowledge(self) -> None:
        """Search and read knowledge, follow its connections, put nodes into focus."""
        if self.chat_state is None or self.chat_state.memory is None:
            self.notify("this conversation has no memory", severity="warning")
            return
        from shepherd.tui.knowledge import KnowledgeScreen

        self.push_screen(KnowledgeScreen(self.chat_state.memory, self.chat_state.user_id))

    @work
    async def action_provider(self) -> None:
        """Switch to another provider."""
        if self.chat_state is None:
            return
        pick = Pick(self.chat_state.providers, now=self.chat_state.provider, title="Choose a provider")
        if (name := await self.push_screen_wait(pick)) is not None:
            self.say(f"/provider {name}")

    def action_private(self) -> None:
        """Recall nothing and store nothing, until switched back."""
        self.say("/private")

    def action_stop(self) -> None:
        """Stop the answer; without one, focus the prompt."""
        if self.is_answering:
            self.conversation.cancel()
        else:
            self._prompt.focus()

    def action_stop_or_quit(self) -> None:
        """Copy the selection, stop the answer, clear the prompt, or, pressed twice, quit."""
        marked = self.focused.selected_text if isinstance(self.focused, TextArea) else ""
        marked = marked or self.screen.get_selected_text() or ""
        if marked:
            self.copy_to_clipboard(marked)
        elif self.is_answering:
            self.conversation.cancel()
        elif self._prompt.text and self.focused is self._prompt:
            self._prompt.load_text("")
        elif self._has_asked_to_quit:
            self.exit()
        else:
            self._has_asked_to_quit = True
            self.notify("Ctrl-C once more, or Ctrl-Q, quits")

    # ---- events of the conversation

    def _post_event(self, event: Event) -> None:
        """Post an event of the conversation's thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self.post_message(self.Happened(event))

    @on(Happened)
    async def _happened(self, message: Happened) -> None:
        event = message.event
        match event:
            case ChatState() | Learned() | Forgotten():
                await self._between_turns(event)
            case Loading():
                self._status.show_loading(event.text)
            case Asked():
                await self._begin(event)
            case Piece():
                await self._transcript.write(event.text)
            case Thinking():
                await self._transcript.think(event.text)
            case Output():
                await self._transcript.show_output(event.lines)
            case History():
                self._side.clear()
                await self._transcript.show_history(event.messages)
            case Failed():
                await self._transcript.remark(event.message, "error", event.hint)
            case Revising():
                self.push_screen(Revise(event.texts), partial(settle, event.answer))
            case Confirming():
                self.push_screen(
                    Confirm(event.question, "Allow"), lambda yes: settle(event.answer, bool(yes))
                )
            case Ended():
                self.failure = event.error
                self.exit()
            case _:
                await self._turn_event(event)

    async def _turn_event(self, event: TurnEvent) -> None:
        # Not at the top: the thread loads them while the first screen is drawn.
        from shepherd.commands.explain import ending
        from shepherd.tools import ToolResult
        from shepherd.turn import Finished, Recalled, Warned
        from shepherd.types import ToolCall

        if isinstance(event, Recalled):
            await self._transcript.show_recall(event.injection)
            if self.chat_state is not None:
                self._side.show_recalled(event, self.chat_state)
        elif isinstance(event, Warned):
            await self._transcript.remark(event.message, "note" if event.is_remark else "warning", event.hint)
        elif isinstance(event, ToolCall):
            await self._transcript.remark(f"calls {event.name} {shortened(event.arguments)}", "note")
        elif isinstance(event, ToolResult) and event.failed:
            await self._transcript.remark(f"{event.name}: {shortened(event.text)}", "note")
        elif isinstance(event, Finished):
            await self._transcript.end_answer()
            if text := ending(event.stats):
                await self._transcript.remark(text, "note")

    async def _between_turns(self, event: ChatState | Learned | Forgotten) -> None:
        """Show the new state, or what was learned, which waits while an answer comes; or forget lines."""
        if isinstance(event, Forgotten):
            self._prompt.forget(event.lines)
            self._history.remove(event.lines)
        elif isinstance(event, Learned):
            self._news += event.lines
        else:
            self._show_state(event)
        if self._news and not self.is_answering:
            lines, self._news = self._news, ()
            await self._transcript.remark("\n".join(lines), "learned")

    async def _begin(self, event: Asked) -> None:
        self.is_answering = True
        await self._transcript.end_answer()
        await self._transcript.show_message(event.text)
        if not event.is_command:
            self._status.show_answering()

    def _show_state(self, state: ChatState) -> None:
        self.chat_state = state
        self.is_answering = False
        if self._gc_policy is not None:
            self._gc_policy.freeze()
        self._prompt.is_private = self._history.is_private = state.private
        self._status.show_state(state)
        self._side.show_state(state)

    @work
    async def _load_history(self) -> None:
        self._prompt.prepend(await asyncio.to_thread(self._history.lines))

    def _collect_garbage(self) -> None:
        """Collect garbage once the user has stopped typing."""
        if self._gc_policy is None or self.is_answering or self._is_collected:
            return
        if time.monotonic() - self._touched_at > _QUIET_S:
            self._is_collected = True
            self._gc_policy.collect()
