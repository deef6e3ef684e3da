"""The conversation at the prompt. Messages go to the assistant; lines with a slash are commands."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from shepherd import __version__
from shepherd.assistant import Assistant, Delta, Event, Finished, Recalled, ToolResult, Warned
from shepherd.cli.composing import require_utf8
from shepherd.cli.leaving import TERMINATING, ending_by_signal
from shepherd.commands.explain import about_learning, memory_in_words, news_in_words, turn_in_words
from shepherd.commands.screen import Screen, counted, shortened
from shepherd.commands.waiting import SILENT_S, waiting_in_words
from shepherd.errors import ContextOverflowError, InternalError, ShepherdError
from shepherd.turn import warm_up
from shepherd.types import Picture, Thought, ToolCall

if TYPE_CHECKING:
    from shepherd.chat_session import Session
    from shepherd.cli.composing import Composed, Composer
    from shepherd.cli.editor import Editor
    from shepherd.cli.markdown import MarkdownStream
    from shepherd.memory import Memory

__all__ = ["Conversation", "cancelling_on_interrupt", "raising_on_interrupt", "show_turn"]

# Characters that are shown of the last message and the last answer when a conversation is continued.
_RECAP_CHARS = 300
# Seconds between checks of what the model is doing before an answer.
_LOOK_S = 0.1


class Conversation:
    """Loop of reading and answering; the error of a failed turn is shown, and the next one starts.

    The memory of a conversation that `is_temporary` is deleted at its end.
    """

    def __init__(
        self,
        assistant: Assistant,
        screen: Screen,
        *,
        session: Session | None = None,
        composer: Composer | None = None,
        show_context: bool = False,
        plain: bool = False,
        editor: Editor | None = None,
        is_temporary: bool = False,
    ) -> None:
        self._assistant = assistant
        self._screen = screen
        self._show_context, self._plain = show_context, plain
        self._composer = composer
        # Here, since -e and --json need no prompt.
        from shepherd.cli.editor import Editor
        from shepherd.commands.history_place import history_place
        from shepherd.commands.slash import COMMANDS, Chat

        if editor is None:
            place = history_place(assistant.config, with_memory=assistant.memory is not None)
            editor = Editor(screen, place, COMMANDS, on_writing=assistant.read_ahead)
        self._editor = editor
        self._editor.news = self._news
        self._has_listed = False
        # Whether the last line failed because of an attachment and can be corrected.
        self._can_mend = False
        self._chat = Chat(assistant, screen, self._editor, session=session, is_temporary=is_temporary)
        self._watched: Memory | None = None

    def run(self, resumed: int) -> int:
        """Converse until /quit or Ctrl-D; returns the exit code."""
        self._greet(resumed)
        self._screen.begin_chat()
        warm_up.begin()
        with ExitStack() as stack:
            while not self._chat.done:
                self._editor.private = self._assistant.private
                self._editor.listed = self._chat.listed if self._has_listed else ()
                try:
                    self._watch(stack)
                    for line in self._news():
                        self._screen.note(line)
                except KeyboardInterrupt:  # was to stop the answer, which had just ended
                    self._screen.note("interrupted")
                text = self._editor.read()
                if text is None:
                    break
                if text.strip():
                    self._handle(text)
        return 0

    def _watch(self, stack: ExitStack) -> None:
        """Show what is learned while a line is typed. Another provider may have opened the memory."""
        memory = self._assistant.memory
        if memory is not None and memory is not self._watched:
            self._watched = memory
            stack.callback(memory.extraction.watch(lambda user: self._editor.say_news()))

    def _news(self) -> list[str]:
        """Return a line for each thing that was learned and not shown yet."""
        memory = self._assistant.memory
        if memory is None or self._assistant.private:
            return []
        try:
            return news_in_words(memory.take_news(self._assistant.user_id))
        except ShepherdError:  # shown another time
            return []

    def _handle(self, text: str) -> None:
        before, self._has_listed = self._chat.listed, False
        self._can_mend = False
        session_id = self._assistant.session_id
        try:
            require_utf8(text)
            message = self._chat.message_of(text)
            self._has_listed = self._chat.listed is not before
            if message is not None:
                self._answer(self._composed(message))
            elif self._assistant.session_id not in (None, session_id):
                self._show_last_exchange()
        except InternalError:
            raise
        except ShepherdError as error:
            self._screen.error(str(error), error.hint)
            if self._can_mend:
                self._screen.note("your message was not sent; the Up key brings it back")
        except KeyboardInterrupt:
            self._screen.note("interrupted")

    def _composed(self, message: str) -> Composed:
        """Return a message with what it attaches; where that fails, the user can correct the line.

        It is not put at the prompt by itself, where the next message would be added to it.
        """
        from shepherd.cli.composing import Composed, attached_in_words, require_room

        if self._composer is None:
            return Composed(message)
        try:
            composed = self._composer.compose(message, finds_paths=True)
            require_room(composed, self._assistant)
        except ShepherdError:
            self._can_mend = True
            raise
        if composed.attached:
            self._screen.note(f"attached: {attached_in_words(composed, self._assistant)}")
        return composed

    def _answer(self, message: Composed) -> None:
        try:
            finished = show_turn(
                self._assistant,
                message.typed,
                self._screen,
                composed=message.composed,
                pictures=message.pictures,
                show_context=self._show_context,
                plain=self._plain,
            )
        except ContextOverflowError:
            self._can_mend = bool(message.attached)
            if self._composer is not None and self._composer.pending:
                self._composer.sent()  # no other message could be sent, either
                self._screen.note("attachments from -a and -f are dropped")
            raise
        if self._composer is not None:
            self._composer.sent()
        if self._screen.err_is_terminal:
            self._screen.note(turn_in_words(finished))
            self._screen.note()

    def _show_last_exchange(self) -> None:
        """Show where a conversation that is continued was left."""
        said = [message for message in self._assistant.history if message.role in ("user", "assistant")]
        for message in said[-2:]:
            mark = "> " if message.role == "user" else ""
            self._screen.note(f"{mark}{shortened(message.raw, _RECAP_CHARS)}")

    def _greet(self, resumed: int) -> None:
        model, window = self._assistant.engine.info.name, self._assistant.engine.window_tokens
        remembered = memory_in_words(self._assistant)
        self._screen.note(f"Shepherd {__version__} · {model} · window {window:,} tokens · {remembered}")
        if resumed:
            self._screen.note(f"continued after {counted(resumed, 'exchange')}")
            self._show_last_exchange()
        if note := about_learning(self._assistant):
            self._screen.note(note)
        if self._composer is not None and self._composer.pending:
            from shepherd.cli.composing import Composed, attached_in_words

            pending = Composed("", attached=self._composer.pending)
            self._screen.note(
                f"attached to your first message: {attached_in_words(pending, self._assistant)}"
            )
        self._screen.note("/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits")


def show_turn(
    assistant: Assistant,
    message: str,
    screen: Screen,
    *,
    composed: str = "",
    pictures: Sequence[Picture] = (),
    show_context: bool = False,
    plain: bool = False,
) -> Finished:
    """Stream an answer to stdout, the rest to stderr. Ctrl-C ends it; it always ends with a line feed.

    If nobody can read it any more, it ends, too, is kept, and OSError or Terminated is raised. The model
    reads `composed` in place of the message where that is given. Markdown is rendered on a terminal, unless
    `plain`.
    """
    finished: Finished | None = None
    answer, thought = _output(screen, plain=plain), ""

    def show(event: Event) -> None:
        nonlocal thought
        if isinstance(event, Thought):
            thought += event.text
            screen.transient(f"thinking: {thought[-60:]}".replace("\n", " "))
            return
        if thought:
            thought = ""
            screen.transient("")
        if isinstance(event, Delta):
            answer.write(event.text)
        elif isinstance(event, Recalled) and show_context and (event.injection or composed):
            screen.note(f"[prompt+context] {composed or message}{event.injection.tail}")
        elif isinstance(event, (Warned, ToolCall)):
            answer.finish()
            _note(screen, event)
        elif isinstance(event, ToolResult) and event.failed:
            screen.note(f"{event.name}: {shortened(event.text)}")

    lost: OSError | None = None
    with (
        ending_by_signal(assistant.cancel) as is_ending,
        cancelling_on_interrupt(assistant) as is_interrupted,
        _waiting(assistant, screen) as has_begun,
    ):
        try:
            for event in assistant.ask(message, composed=composed, pictures=pictures):
                if is_interrupted() or is_ending():  # perhaps before there was an answer to cancel
                    assistant.cancel()
                if not isinstance(event, Recalled):
                    has_begun()
                if isinstance(event, Finished):
                    finished = event
                if lost is None:
                    try:
                        show(event)
                    except OSError as error:
                        # An error in this loop would close the turn before it is kept.
                        lost = error
                        assistant.cancel()
            if lost is not None:
                raise lost
        finally:
            has_begun()
            answer.finish()
    if finished is None:
        raise InternalError("a turn ended without an answer and without an error")
    return finished


class _PlainOutput:
    """An answer as it is."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._is_at_start = True

    def write(self, text: str) -> None:
        """Write a piece at once."""
        self._screen.write(text)
        self._is_at_start = text.endswith("\n")

    def finish(self) -> None:
        """End the last line."""
        if not self._is_at_start:
            self.write("\n")


def _output(screen: Screen, *, plain: bool) -> _PlainOutput | MarkdownStream:
    if plain or not screen.out_is_terminal or os.environ.get("TERM") == "dumb":
        return _PlainOutput(screen)
    from shepherd.cli.markdown import MarkdownStream

    return MarkdownStream(screen.out, has_colour=screen.out_has_colour)


@contextmanager
def _waiting(assistant: Assistant, screen: Screen) -> Iterator[Callable[[], None]]:
    """Show on a terminal what the model does until the function that this gives is called."""
    if not screen.err_is_terminal:
        yield lambda: None
        return
    has_begun = threading.Event()
    showing = threading.Thread(target=_show_waiting, args=(assistant, screen, has_begun), daemon=True)
    showing.start()

    def begin() -> None:
        if not has_begun.is_set():
            has_begun.set()
            showing.join()  # nothing is written after this

    try:
        yield begin
    finally:
        begin()


def _show_waiting(assistant: Assistant, screen: Screen, has_begun: threading.Event) -> None:
    started = time.monotonic()
    if has_begun.wait(SILENT_S):
        return
    while not has_begun.wait(_LOOK_S):
        screen.transient(waiting_in_words(assistant, time.monotonic() - started))
    screen.transient("")


def _note(screen: Screen, event: Warned | ToolCall) -> None:
    if isinstance(event, Warned) and not event.is_remark:
        screen.warn(event.message, event.hint)
    elif isinstance(event, Warned):
        screen.note(event.message)
    else:
        screen.note(f"calls {event.name} {shortened(event.arguments)}")


@contextmanager
def cancelling_on_interrupt(assistant: Assistant) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C cancel the answer, and a second one, if that hangs, raise KeyboardInterrupt.

    Gives a function that returns whether there was one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
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
        yield lambda: presses > 0
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def raising_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C, and signals that end the program, raise KeyboardInterrupt beside what they do already.

    A question would go on waiting for its answer after a handler that only cancels.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *TERMINATING)}
    handlers = {number: handler for number, handler in before.items() if callable(handler)}

    def interrupt(number: int, frame: FrameType | None) -> None:
        handlers[number](number, frame)
        raise KeyboardInterrupt

    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
