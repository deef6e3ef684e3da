"""One turn on the screen: the answer streams to stdout, the rest goes to stderr."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from shepherd.assistant import Assistant, Delta, Finished, Recalled, ToolResult, Warned
from shepherd.commands.screen import Screen, shortened
from shepherd.errors import InternalError
from shepherd.types import Thought, ToolCall

__all__ = ["cancelling_on_interrupt", "show_turn"]


def show_turn(assistant: Assistant, message: str, screen: Screen, *, show_context: bool = False) -> Finished:
    """Answer the message on the screen; Ctrl-C ends the answer. The answer always ends with a line feed."""
    finished: Finished | None = None
    column_is_zero, thought = True, ""
    with cancelling_on_interrupt(assistant):
        try:
            for event in assistant.ask(message):
                if isinstance(event, Thought):
                    thought += event.text
                    screen.transient(f"thinking: {thought[-60:]}".replace("\n", " "))
                    continue
                if thought:
                    thought = ""
                    screen.transient("")
                if isinstance(event, Delta):
                    screen.write(event.text)
                    column_is_zero = event.text.endswith("\n")
                elif isinstance(event, Recalled) and show_context and event.injection:
                    screen.note(f"[prompt+context] {message}{event.injection.tail}")
                elif isinstance(event, (Warned, ToolCall)):
                    if not column_is_zero:
                        screen.write("\n")
                        column_is_zero = True
                    _note(screen, event)
                elif isinstance(event, ToolResult) and event.failed:
                    screen.note(f"{event.name}: {shortened(event.text)}")
                elif isinstance(event, Finished):
                    finished = event
        finally:
            if not column_is_zero:
                screen.write("\n")
    if finished is None:
        raise InternalError("a turn ended without an answer and without an error")
    return finished


def _note(screen: Screen, event: Warned | ToolCall) -> None:
    if isinstance(event, Warned):
        screen.warn(event.message, event.hint)
    else:
        screen.note(f"calls {event.name} {shortened(event.arguments)}")


@contextmanager
def cancelling_on_interrupt(assistant: Assistant) -> Iterator[None]:
    """Within it the first Ctrl-C cancels the answer, and a second one, should that hang, the turn."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    presses = 0

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        assistant.cancel()
        if presses > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
