"""`shepherd tui`: its options, and the program."""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from shepherd.cli.chat import (
    about_the_built_in_model,
    add_conversation_options,
    add_model_options,
    who_answers,
)
from shepherd.cli.parsing import Parser, add_common_options, given_settings
from shepherd.cli.progress import downloads
from shepherd.commands.gc_policy import Garbage
from shepherd.commands.screen import Screen
from shepherd.errors import UsageError

if TYPE_CHECKING:
    from shepherd.tui.app import ShepherdApp
    from shepherd.tui.conversation import Opening

__all__ = ["build_parser", "execute"]

_DESCRIPTION = """\
Talk on a whole screen: the conversation, what memory added to each message with scores and sources, how the
window is used; memories, facts and knowledge to search, change and forget. Mouse and keys; F1 shows them.

It needs a terminal of 80 columns and 24 lines at least, works over ssh, and respects NO_COLOR."""

_EPILOG = """\
examples:
  shepherd tui                         with the model and the memory of the settings
  shepherd tui -m hf:user/repo:Q4_K_M  another model
  shepherd tui --continue              go on with the last conversation
  shepherd tui -p claude               a model elsewhere (shepherd provider)
  shepherd tui --json > said.json      keep what was said

exit codes: 0 done, 1 failed, 2 wrong use"""


def build_parser() -> Parser:
    """The options of `shepherd tui`."""
    parser = Parser(prog="shepherd tui", description=_DESCRIPTION, epilog=_EPILOG)
    add_model_options(parser)
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last conversation"
    )
    add_common_options(parser, json_help="print the conversation as JSON when it has ended")
    add_conversation_options(parser)
    return parser


def execute(arguments: Namespace, screen: Screen) -> int:
    """Run it until the user is done; gives the exit code."""
    if not (sys.stdin is not None and sys.stdin.isatty() and screen.err_is_terminal):
        raise UsageError("the screen needs a terminal", hint="shepherd chat answers in pipes, too")
    with Garbage() as garbage:
        app = _run(arguments, screen, garbage)
    if app.failure is not None:
        raise app.failure
    if arguments.json:
        screen.json([{"role": message.role, "content": message.raw} for message in app.conversation.said])
    return app.return_code or 0


def _run(arguments: Namespace, screen: Screen, garbage: Garbage) -> ShepherdApp:
    try:
        from shepherd.tui.app import ShepherdApp
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise UsageError("the screen needs textual", hint="pip install 'shepherd-llm[tui]'") from error
    app = ShepherdApp(_opening(arguments, screen), garbage)
    try:
        app.run()
    finally:
        app.conversation.stop()
        app.conversation.join()
    return app


def _opening(arguments: Namespace, screen: Screen) -> Opening:
    from shepherd.factory import model_path
    from shepherd.inference.models import is_built_in
    from shepherd.providers import ProviderTable
    from shepherd.tui.conversation import Opening

    config, model = who_answers(arguments)
    provider = ProviderTable().get(config.provider)
    note = ""
    if provider.is_local:
        # A download shows how far it is, and a wrong name is told, before the screen is taken.
        with downloads(screen) as report:
            path = model_path(replace(config, model=model or provider.model or config.model), report)
        model, note = str(path), about_the_built_in_model() if is_built_in(path) else ""
    return Opening(
        config,
        model,
        memory=not arguments.nomemory,
        resume=arguments.resume,
        note=note,
        is_limited="max_tokens" in given_settings(arguments),
    )
