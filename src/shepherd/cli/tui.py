"""`shepherd tui`: chat full-screen."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from io import StringIO
from typing import TYPE_CHECKING

from shepherd.cli.chat import (
    add_conversation_options,
    conversation_settings,
    conversation_to_continue,
    is_first_today,
    local_model,
)
from shepherd.cli.first_start import offer_full_model
from shepherd.cli.leaving import ending_by_signal
from shepherd.cli.parsing import (
    Parser,
    add_common_options,
    add_model_options,
    given_settings,
    optional_packages,
)
from shepherd.commands.gc_policy import GCPolicy
from shepherd.commands.screen import Screen
from shepherd.errors import UsageError
from shepherd.memory_factory import unlock_memory

if TYPE_CHECKING:
    from shepherd.assistant import Assistant
    from shepherd.config import Config
    from shepherd.tui.app import ShepherdApp
    from shepherd.tui.conversation import Conversation, Prepared

__all__ = ["build_parser", "execute", "preparing"]

# Nothing is shown of an end that comes within the first seconds; then it is looked every so many.
_SOON_S, _LOOK_S = 0.2, 0.1

_DESCRIPTION = """\
Chat full-screen. A panel shows the memories that were added to each message, with scores and sources, and
how the context window is used. Search, edit and forget memories, facts and knowledge by mouse or keys; F1
lists keys.

It needs a terminal of at least 80 columns and 24 lines, works over ssh, and respects NO_COLOR."""

_EPILOG = """\
examples:
  shepherd tui                         with the model and the memory of the settings
  shepherd tui -m hf:user/repo:Q4_K_M  another model
  shepherd tui --continue              continue the last conversation
  shepherd tui -p claude               a remote model (shepherd provider)
  shepherd tui --json > chat.json      save the conversation

exit codes: 0 done, 1 failed, 2 usage error"""


def build_parser() -> Parser:
    """Build the parser of `shepherd tui`."""
    parser = Parser(prog="shepherd tui", description=_DESCRIPTION, epilog=_EPILOG)
    add_model_options(parser)
    add_common_options(parser, json_help="print the conversation as JSON when it has ended")
    add_conversation_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run it until the user quits; returns the exit code."""
    if not (sys.stdin is not None and sys.stdin.isatty() and screen.err_is_terminal):
        raise UsageError("the screen needs a terminal", hint="shepherd chat answers in pipes, too")
    with GCPolicy() as gc_policy:
        app = _run(arguments, screen, gc_policy)
    for line in app.conversation.farewell:
        screen.note(line)
    if app.failure is not None:
        raise app.failure
    if arguments.json:
        screen.json([{"role": message.role, "content": message.raw} for message in app.conversation.said])
    return 1 if app.return_code is None else app.return_code  # None: it ended without having been told to


def _run(arguments: Namespace, screen: Screen, gc_policy: GCPolicy) -> ShepherdApp:
    with optional_packages("tui", "the screen"):
        from shepherd.tui.app import ShepherdApp
        from shepherd.tui.conversation import SessionOptions

    config, model = conversation_settings(arguments)
    if not arguments.nomemory:
        unlock_memory(config, creates=True)  # nobody can be asked in full screen
    resume = conversation_to_continue(arguments, config)
    config, model = offer_full_model(config, model, screen)
    # Here, so that a download shows its progress, and a wrong name its error, on the normal screen.
    model, note = local_model(config, model, screen)
    options = SessionOptions(
        config,
        model,
        memory=not arguments.nomemory,
        resume=resume,
        note=note if note and is_first_today() else "",
        is_limited="max_tokens" in given_settings(arguments),
        prepare=preparing(config),
        runnable=screen.runnable,
    )
    app = ShepherdApp(options, gc_policy)
    with ending_by_signal(app.end):
        try:
            app.run()
        finally:
            app.conversation.stop()
            _wait_for(app.conversation, screen)
    return app


def _wait_for(conversation: Conversation, screen: Screen) -> None:
    """Wait until a conversation has ended, and show on the normal screen what it does meanwhile."""
    conversation.join(_SOON_S)
    try:
        while conversation.is_alive():
            screen.transient(conversation.closing or "ending the conversation …")
            conversation.join(_LOOK_S)
    finally:
        screen.transient("")


def preparing(config: Config) -> Callable[[Assistant, str], Prepared]:
    """Return what attaches the files and addresses that a message names, as at the prompt of the chat."""
    from shepherd.cli.composing import Composer, attached_in_words, require_room
    from shepherd.tui.conversation import Prepared

    # Its remarks would go across the screen.
    composer = Composer(config, Screen(StringIO(), StringIO()))

    def prepare(assistant: Assistant, message: str) -> Prepared:
        composed = composer.compose(message, finds_paths=True)
        require_room(composed, assistant)
        remark = f"attached: {attached_in_words(composed, assistant)}" if composed.attached else ""
        return Prepared(composed.typed, composed.composed, composed.pictures, remark)

    return prepare
