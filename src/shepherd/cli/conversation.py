"""The conversation at the prompt: messages go to the assistant, lines with a slash are commands."""

from __future__ import annotations

from shepherd import __version__
from shepherd.assistant import Assistant
from shepherd.chat_session import Session
from shepherd.cli.editor import Editor
from shepherd.cli.turn import show_turn
from shepherd.commands.explain import memory_in_words, turn_in_words
from shepherd.commands.screen import Screen, counted
from shepherd.commands.slash import COMMANDS, Chat
from shepherd.errors import InternalError, ShepherdError
from shepherd.paths import history_file

__all__ = ["Conversation"]


class Conversation:
    """Reads, answers, and goes on until the user is done; a failed turn is reported and the next starts."""

    def __init__(
        self,
        assistant: Assistant,
        screen: Screen,
        *,
        session: Session | None = None,
        show_context: bool = False,
        editor: Editor | None = None,
    ) -> None:
        self._assistant = assistant
        self._screen = screen
        self._show_context = show_context
        self._editor = editor or Editor(screen, history_file(), COMMANDS)
        self._has_listed = False
        self._chat = Chat(assistant, screen, self._editor, session=session)

    def run(self, resumed: int) -> int:
        """Until /quit or Ctrl-D; gives the exit code."""
        self._greet(resumed)
        self._screen.begin_chat()
        while not self._chat.done:
            self._editor.private = self._assistant.private
            self._editor.n_listed = len(self._chat.listed) if self._has_listed else 0
            text = self._editor.read()
            if text is None:
                break
            if text.strip():
                self._handle(text)
        return 0

    def _handle(self, text: str) -> None:
        before, self._has_listed = self._chat.listed, False
        try:
            text.encode("utf-8")
            message = self._chat.message_of(text)
            self._has_listed = self._chat.listed is not before
            if message is not None:
                self._answer(message)
        except UnicodeEncodeError:
            self._screen.error("that line is not UTF-8", "paste it again from a UTF-8 terminal")
        except InternalError:
            raise
        except ShepherdError as error:
            self._screen.error(str(error), error.hint)
        except KeyboardInterrupt:
            self._screen.note("interrupted")

    def _answer(self, message: str) -> None:
        finished = show_turn(self._assistant, message, self._screen, show_context=self._show_context)
        if self._screen.err_is_terminal:
            self._screen.note(turn_in_words(finished))
            self._screen.note()

    def _greet(self, resumed: int) -> None:
        model, window = self._assistant.engine.info.name, self._assistant.engine.window_tokens
        remembered = memory_in_words(self._assistant)
        self._screen.note(f"Shepherd {__version__} · {model} · window {window:,} tokens · {remembered}")
        if resumed:
            self._screen.note(f"continued after {counted(resumed, 'exchange')}")
        self._screen.note("/help lists the commands, Ctrl-C stops an answer, Ctrl-D quits")
